//! Judging beyond CoSQA+'s agents from plan to ledger, with a model server on loopback and a sandbox that runs nothing.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../llm/tests/support/mod.rs"]
#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use quarry_annotate::ledger::{GeneratedStatus, NewCode, Writer};
use quarry_annotate::{
    AnnotateError, Calibration, Event, Export, IsolatedPrograms, Judging, Ledger, Members, Options, Outcome,
    Plan, Report, audit,
};
use quarry_corpus::dataset::convert::Target;
use quarry_sandbox::{Captured, Ended, Limits, MemoryBound, Program, Sandbox};
use serde_json::{Value, json};
use support::{Reply, Server, completion};

/// Fails what does not hold: `assert WORDS` holds if the program before it has WORDS.
struct Words;

impl Sandbox for Words {
    fn run(&self, program: &Program, _: &Limits) -> Result<quarry_sandbox::Outcome, quarry_sandbox::Error> {
        let source = String::from_utf8(program.files[0].1.clone()).unwrap();
        let holds = |(at, line): (usize, &str)| match line.trim().strip_prefix("assert ") {
            Some(words) => source.lines().take(at).any(|line| line.contains(words)),
            None => true,
        };
        let code = i32::from(!source.lines().enumerate().all(holds));
        let stderr = if code == 1 { "AssertionError" } else { "" };
        let captured =
            |text: &str| Captured { bytes: text.as_bytes().to_vec(), total_bytes: text.len() as u64 };
        Ok(quarry_sandbox::Outcome {
            ended: Ended::Exited { code },
            stdout: captured(""),
            stderr: captured(stderr),
            wall_time: Duration::from_millis(30),
            cpu_time: Duration::from_millis(20),
            peak_memory_bytes: 1 << 20,
            memory_bound: MemoryBound::Watchdog,
        })
    }
}

fn words() -> IsolatedPrograms {
    IsolatedPrograms { sandbox: Box::new(Words), name: "words".to_owned(), packages: None }
}

/// What a model is asked, and how often it was asked that before.
struct Asked<'a> {
    model: &'a str,
    task: &'a str,
    text: &'a str,
    times: usize,
    temperature: f64,
}

fn model(says: impl Fn(Asked<'_>) -> String + Send + Sync + 'static) -> Server {
    let times: Mutex<HashMap<String, usize>> = Mutex::default();
    Server::script(move |_, seen| {
        let mut times = times.lock().unwrap();
        let times = times.entry(seen.body.to_string()).or_default();
        let said = |place: usize| seen.body["messages"][place]["content"].as_str().unwrap_or_default();
        let model = seen.body["model"].as_str().unwrap();
        let temperature = seen.body["temperature"].as_f64().unwrap();
        let answer = says(Asked { model, task: said(0), text: said(1), times: *times, temperature });
        *times += 1;
        Reply::ok(completion(&answer, 100, 10))
    })
}

struct Fixture {
    folder: tempfile::TempDir,
    url: String,
}

impl Fixture {
    /// With pairs of a query and a code each, whose label is 1.
    fn new(url: &str, pairs: &[(&str, &str)]) -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap(), url: url.to_owned() };
        let mut queries: Vec<&str> = Vec::new();
        let pair = |(number, (query, code)): (usize, &(&'static str, &'static str))| {
            let place = queries.iter().position(|known| known == query).unwrap_or_else(|| {
                queries.push(query);
                queries.len() - 1
            });
            json!({"pair-idx": number, "query-idx": place, "query": query, "code-idx": number, "code": code, "label": 1})
                .to_string()
        };
        let pairs: Vec<(&'static str, &'static str)> = pairs
            .iter()
            .map(|(query, code)| (&*query.to_string().leak(), &*code.to_string().leak()))
            .collect();
        let lines: Vec<String> = pairs.iter().enumerate().map(pair).collect();
        fs::write(fixture.path("pairs.jsonl"), lines.join("\n")).unwrap();
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A plan with entries before its models, models by name, and tables after them. All plans have one ledger.
    fn plan(&self, first: &str, models: &[&str], last: &str) -> Plan {
        let model = |name: &&str| {
            let (table, name) =
                if models.len() == 1 { ("model".into(), "m") } else { (format!("models.{name}"), *name) };
            format!(
                "[{table}]\nprovider = 'openai-compatible'\nbase_url = '{}'\nmodel = '{name}'\ninput_price = 1.0\n\
                 output_price = 2.0\n",
                self.url
            )
        };
        let models: String = models.iter().map(model).collect();
        let text = format!("pairs = ['pairs.jsonl']\nledger = 'x.ledger'\n{first}\n{models}{last}\n");
        fs::write(self.path("plan.toml"), text).unwrap();
        Plan::open(&self.path("plan.toml"), None).unwrap()
    }

    fn prepare(&self, plan: &Plan) -> Judging {
        Judging::prepare(plan.clone(), Some(words())).unwrap()
    }

    fn run(&self, plan: &Plan) -> Result<(), AnnotateError> {
        self.prepare(plan).run(&AtomicBool::new(false), &|_| ())
    }

    fn ledger(&self, plan: &Plan) -> (Ledger, i64) {
        let ledger = Ledger::open(&plan.ledger).unwrap();
        let judge = ledger.judge(&plan.version).unwrap().unwrap();
        (ledger, judge)
    }

    fn labels(&self, plan: &Plan) -> Vec<(Outcome, String)> {
        let (ledger, judge) = self.ledger(plan);
        let mut labels = Vec::new();
        let add = |decided: quarry_annotate::ledger::Decided| {
            labels.push((decided.verdict.outcome, decided.verdict.reason));
            Ok(())
        };
        ledger.for_each_decided(judge, add).unwrap();
        labels
    }

    fn options(&self, plan: &Plan) -> Options {
        let (ledger, judge) = self.ledger(plan);
        Options::of(plan, &ledger, judge).unwrap().unwrap()
    }
}

const YES: &str = "{\"analysis\": \"x\", \"judgement\": \"yes\"}";
const NO: &str = "{\"analysis\": \"x\", \"judgement\": \"no\"}";

/// Says yes to code 0 always, to code 1 two times of three, to code 2 once.
fn wavering(asked: &Asked<'_>) -> String {
    let number = asked.text.split("subject").nth(1).unwrap().chars().next().unwrap();
    let yes = match number {
        '0' => true,
        '1' => asked.times != 1,
        _ => asked.times == 0,
    };
    if yes { YES.to_owned() } else { NO.to_owned() }
}

const THREE: [(&str, &str); 3] = [
    ("a query", "def subject0(): pass"),
    ("a query", "def subject1(): pass"),
    ("b query", "def subject2(): pass"),
];

#[test]
fn the_label_of_several_rounds_is_their_majority() {
    let server = model(|asked| wavering(&asked));
    let fixture = Fixture::new(&server.url(), &THREE);
    let plan = fixture.plan(
        "judge = 'cosqa-plus'\ntemperature = 0.0\nrounds = 3\nrecord = 'recording.jsonl'",
        &["m"],
        "",
    );
    assert_eq!(fixture.prepare(&plan).estimate().unwrap().first.calls, 9);
    fixture.run(&plan).unwrap();
    let labels = fixture.labels(&plan);
    let expected = [(Outcome::Yes, "3 yes"), (Outcome::Yes, "2 yes, 1 no"), (Outcome::No, "1 yes, 2 no")]
        .map(|(outcome, reason)| (outcome, reason.to_owned()));
    assert_eq!(labels, expected);
    assert_eq!(server.count(), 9);
    let (ledger, judge) = fixture.ledger(&plan);
    assert_eq!(ledger.members(judge).unwrap().len(), 3);
    let report = Report::new(ledger.counts(judge).unwrap());
    assert_eq!((report.answers, report.cost.tokens, report.spent.tokens), (9, 990, 990));
    assert_eq!(report.decided_by["majority"].0, 3);
    let members = Members::of(&plan, &ledger, judge).unwrap().unwrap();
    assert_eq!((members.pairs, members.without_majority), (3, 0));
    assert!((members.percent_agreement.unwrap() - (1.0 + 1.0 / 3.0 + 1.0 / 3.0) / 3.0).abs() < 1e-12);
    let names: Vec<(&str, Option<f64>)> =
        members.members.iter().map(|member| (member.name.as_str(), member.agreement_with_majority)).collect();
    assert_eq!(names, [("round 1", Some(2.0 / 3.0)), ("round 2", Some(2.0 / 3.0)), ("round 3", Some(1.0))]);
    drop(ledger);

    // Nothing is asked again, and what was recorded is replayed as it was, each round by itself.
    fixture.run(&plan).unwrap();
    assert_eq!(server.count(), 9);
    fs::remove_file(fixture.path("x.ledger")).unwrap();
    let plan = fixture.plan(
        "judge = 'cosqa-plus'\ntemperature = 0.0\nrounds = 3\nreplay = 'recording.jsonl'",
        &["m"],
        "",
    );
    fixture.run(&plan).unwrap();
    assert_eq!((fixture.labels(&plan), server.count()), (expected.to_vec(), 9));
}

#[test]
fn rounds_that_were_stopped_go_on_and_a_single_round_counts_among_them() {
    let server = model(|asked| wavering(&asked));
    let fixture = Fixture::new(&server.url(), &THREE);
    let one = fixture.plan("judge = 'cosqa-plus'\ntemperature = 0.0", &["m"], "");
    fixture.run(&one).unwrap();
    assert_eq!(server.count(), 3);
    let three = "judge = 'cosqa-plus'\ntemperature = 0.0\nrounds = 3\nworkers = 1";
    let worst = fixture.prepare(&fixture.plan(three, &["m"], "")).estimate().unwrap().first.worst.tokens / 6;
    let plan = fixture.plan(three, &["m"], &format!("[budget]\ntokens = {}", 3 * 110 + 250 + worst));
    assert!(matches!(fixture.run(&plan).unwrap_err(), AnnotateError::Model(_)));
    assert!((4..9).contains(&server.count()), "{}", server.count());
    assert!(fixture.labels(&plan).len() < 3);
    let plan = fixture.plan(three, &["m"], "");
    fixture.run(&plan).unwrap();
    assert_eq!((fixture.labels(&plan).len(), server.count()), (3, 9));
    // A majority of members that have all decided has its verdicts at once.
    let plan = fixture.plan("judge = 'cosqa-plus'\ntemperature = 0.0\nrounds = 2", &["m"], "");
    fixture.prepare(&plan);
    let labels = fixture.labels(&plan);
    assert_eq!(labels[1], (Outcome::Unresolved, "a tie: 1 yes, 1 no".to_owned()));
    assert_eq!((labels.len(), server.count()), (3, 9));
}

#[test]
fn models_judge_apart_and_a_tie_is_said() {
    let server = model(|asked| if asked.model == "b" { NO.to_owned() } else { YES.to_owned() });
    let fixture = Fixture::new(&server.url(), &THREE);
    let plan = fixture.plan("judge = 'cosqa-plus'", &["a", "b", "c"], "");
    fixture.run(&plan).unwrap();
    assert!(fixture.labels(&plan).iter().all(|label| *label == (Outcome::Yes, "2 yes, 1 no".to_owned())));
    let plan = fixture.plan("judge = 'cosqa-plus'", &["a", "b"], "");
    fixture.run(&plan).unwrap();
    assert!(fixture.labels(&plan).iter().all(|label| label.1 == "a tie: 1 yes, 1 no"));
    let (ledger, judge) = fixture.ledger(&plan);
    assert_eq!(ledger.unresolved(judge, 10).unwrap().len(), 3);
    assert_eq!(server.count(), 9);
}

/// A model for the agents: nothing is clear, tests are that `right` is in the code, and the arbiter goes by the result.
fn agent(asked: &Asked<'_>, tests: &str) -> String {
    let Asked { task, text, .. } = asked;
    if task.contains("preliminary_screening") {
        return "preliminary_screening: 0.5, explanation: x".to_owned();
    }
    if task.contains("what has to stand before those tests") {
        let code = text.split("<code>\n").nth(1).unwrap().split("</code>").next().unwrap();
        return format!("{code}\nsubject = f");
    }
    if task.contains("You do not see the function") {
        return "assert right".to_owned();
    }
    if task.contains("proves nothing") {
        let program = text.split("<program>\n").nth(1).unwrap().split("</program>").next().unwrap();
        return program.replace("assert def f", "assert right");
    }
    if task.contains("You write tests") {
        let code = text.split("<code>\n").nth(1).unwrap().split("</code>").next().unwrap();
        return format!("```python\n{code}\n{tests}\n# {} {}\n```", asked.times, asked.temperature);
    }
    // The arbiter believes a program that proves something.
    let passed = text.contains("all assertions held") && !text.contains("for another candidate all");
    let believed = passed && !text.contains("proves nothing");
    let verdict = u8::from(believed);
    match task.contains("confidence") {
        true => format!("final_verdict: {verdict}, confidence: 0.9, final_explanation: so"),
        false => format!("final_verdict: {verdict}, final_explanation: so"),
    }
}

const CANDIDATES: [(&str, &str); 2] =
    [("a query", "def f(a):\n    return right + a\n"), ("a query", "def f(a):\n    return wrong\n")];

/// The labels and the effect of options, measured beside the judge without them.
fn with_options(tests: &'static str, options: &str) -> (Vec<Outcome>, Options, BTreeMap<String, u64>) {
    let server = model(move |asked| agent(&asked, tests));
    let fixture = Fixture::new(&server.url(), &CANDIDATES);
    let plain = fixture.plan("", &["m"], "");
    fixture.run(&plain).unwrap();
    let plan = fixture.plan("", &["m"], &format!("[tests]\n{options}"));
    fixture.run(&plan).unwrap();
    let found = fixture.options(&plan);
    let calls = server.count();
    fixture.run(&plan).unwrap();
    assert_eq!(server.count(), calls, "nothing is asked again");
    let (ledger, judge) = fixture.ledger(&plan);
    let report = Report::new(ledger.counts(judge).unwrap());
    assert_eq!(report.spent.tokens, calls as u64 * 110);
    let stop = AtomicBool::new(false);
    assert!(audit(&ledger, judge, &words(), &Limits::default(), 2, &stop).unwrap().changed.is_empty());
    (fixture.labels(&plan).into_iter().map(|(outcome, _)| outcome).collect(), found, report.runs)
}

fn added(options: &Options) -> Vec<(&str, u64, u64)> {
    options.added.iter().map(|added| (added.option, added.calls, added.runs)).collect()
}

fn changed(options: &Options) -> Vec<(&str, &str, u64)> {
    options.beside_plain.as_ref().unwrap().changed.clone()
}

#[test]
fn tests_from_the_query_cost_an_adapter() {
    let (labels, options, runs) = with_options("assert def f", "from = 'query'");
    assert_eq!(labels, [Outcome::Yes, Outcome::No]);
    assert_eq!(added(&options), [("from_query", 2, 0)]);
    // The tests that saw the code passed for both.
    assert_eq!(changed(&options), [("yes", "no", 1)]);
    let beside = options.beside_plain.unwrap();
    assert_eq!((beside.pairs, beside.calls, beside.tokens, beside.runs), (2, 2, 220, 0));
    assert!((beside.dollars - 2.0 * (100.0 + 20.0) / 1e6).abs() < 1e-12, "{}", beside.dollars);
    assert_eq!(beside.accuracy, Some([1.0, 0.5]));
    assert_eq!(runs, [("failed".to_owned(), 1), ("passed".to_owned(), 1)].into());
}

#[test]
fn further_programs_cost_a_question_and_a_run_each() {
    let (labels, options, runs) = with_options("assert right", "programs = 3");
    assert_eq!(labels, [Outcome::Yes, Outcome::No]);
    assert_eq!(added(&options), [("programs", 4, 4)]);
    assert_eq!(changed(&options), []);
    assert_eq!(runs.values().sum::<u64>(), 6);
}

#[test]
fn tests_that_prove_nothing_are_found_by_broken_functions() {
    let (labels, options, runs) = with_options("assert def f", "mutation = true");
    // The second program is written anew, and fails.
    assert_eq!(labels, [Outcome::Yes, Outcome::No]);
    assert_eq!(changed(&options), [("yes", "no", 1)]);
    // The first function has three mutants, the second two; the improved program of the first is tried on three again.
    assert_eq!(added(&options), [("mutation", 2, 3 + 1 + 3 + 2 + 1)]);
    // Mutants are no test programs.
    assert_eq!(runs, [("passed".to_owned(), 2)].into());
}

#[test]
fn other_candidates_are_tried_with_the_same_tests() {
    let (labels, options, runs) = with_options("assert right", "differential = true");
    assert_eq!(labels, [Outcome::Yes, Outcome::No]);
    assert_eq!(added(&options), [("differential", 0, 2)]);
    assert_eq!(runs.values().sum::<u64>(), 2);
}

#[test]
fn all_options_go_together_and_with_rounds() {
    let server = model(|asked| agent(&asked, "assert def f"));
    let fixture = Fixture::new(&server.url(), &CANDIDATES);
    let tests =
        "[tests]\nfrom = 'query'\nprograms = 2\nmutation = true\ndifferential = true\nconfidence = true";
    let plan = fixture.plan("rounds = 2", &["m"], tests);
    fixture.run(&plan).unwrap();
    let labels: Vec<Outcome> = fixture.labels(&plan).into_iter().map(|(outcome, _)| outcome).collect();
    assert_eq!(labels, [Outcome::Yes, Outcome::No]);
    let found = fixture.options(&plan);
    assert_eq!(found.beside_plain, None);
    let names: Vec<&str> = found.added.iter().map(|added| added.option).collect();
    assert_eq!(names, ["from_query", "programs", "mutation", "differential"]);
    let calls = server.count();
    fixture.run(&plan).unwrap();
    assert_eq!(server.count(), calls);
}

#[test]
fn the_confidence_of_the_arbiter_is_calibrated_on_the_labels_of_the_file() {
    let server = model(|asked| agent(&asked, "assert right"));
    let fixture = Fixture::new(&server.url(), &CANDIDATES);
    let plan = fixture.plan("", &["m"], "[tests]\nconfidence = true");
    fixture.run(&plan).unwrap();
    let (ledger, judge) = fixture.ledger(&plan);
    let found = Calibration::of(&ledger, judge, 2, 10).unwrap().unwrap();
    // Both are labelled 1; one is judged so.
    assert_eq!((found.pairs, found.accuracy), (2, 0.5));
    assert!((found.as_said.brier - (0.01 + 0.81) / 2.0).abs() < 1e-12);
    drop(ledger);
    let plain = fixture.plan("", &["m"], "");
    fixture.run(&plain).unwrap();
    let (ledger, judge) = fixture.ledger(&plain);
    assert_eq!(Calibration::of(&ledger, judge, 2, 10).unwrap(), None);
}

/// A model for a judge that wants `right` in the code, and a writer that learns from what the judge says.
fn writer(asked: &Asked<'_>) -> String {
    if asked.task.contains("Write the code anew") {
        assert!(asked.text.contains("wants right"), "{}", asked.text);
        let hopeless = asked.text.contains("hopeless");
        return format!(
            "```python\ndef again(): return {}\n```",
            if hopeless { "hopeless" } else { "right" }
        );
    }
    if asked.task.contains("for people who search for it") {
        let word = ["easy", "hopeless"].into_iter().find(|word| asked.text.contains(word));
        return match word {
            Some("easy") => "def easy(): return right".to_owned(),
            Some(word) => format!("def first(): return {word}"),
            None if asked.times == 0 && asked.text.contains("unreadable") => "```python\n\n```".to_owned(),
            None => "def first(): return wrong".to_owned(),
        };
    }
    let code = asked.text.split("<code>").nth(1).unwrap();
    let judgement = if code.contains("right") { "yes" } else { "no" };
    format!("{{\"analysis\": \"wants right\", \"judgement\": \"{judgement}\"}}")
}

const QUERIES: [(&str, &str); 5] = [
    ("has one", "def a(): return right"),
    ("has one", "def b(): pass"),
    ("easy", "def c(): pass"),
    ("needs repair", "def d(): pass"),
    ("hopeless", "def e(): pass"),
];

#[test]
fn writing_code_stops_where_the_server_is_down() {
    let server = Server::script(|_, seen| {
        let task = seen.body["messages"][0]["content"].as_str().unwrap();
        match task.contains("for people who search for it") {
            true => Reply::status(400, "{}"),
            false => Reply::ok(completion(NO, 100, 10)),
        }
    });
    let queries: Vec<String> = (0..100).map(|number| format!("question {number}")).collect();
    let pairs: Vec<(&str, &str)> = queries.iter().map(|query| (query.as_str(), "def f(): pass")).collect();
    let fixture = Fixture::new(&server.url(), &pairs);
    let plan = fixture.plan("judge = 'cosqa-plus'", &["m"], "");
    fixture.run(&plan).unwrap();
    let judged = server.count();
    let error = fixture.prepare(&plan).generate(&AtomicBool::new(false), &|| ()).unwrap_err();
    assert!(matches!(error, AnnotateError::Failures { .. }), "{error}");
    assert!((25..40).contains(&(server.count() - judged)));
}

#[test]
fn code_is_written_judged_and_repaired_for_queries_without_an_answer() {
    let server = model(|asked| writer(&asked));
    let fixture = Fixture::new(&server.url(), &QUERIES);
    let plan = fixture.plan("judge = 'cosqa-plus'", &["m"], "[generation]\nrounds = 2");
    let generate = || {
        let judging = fixture.prepare(&plan);
        judging.generate(&AtomicBool::new(false), &|| ()).unwrap()
    };
    // Nothing is known to have no answer before it was judged.
    let generation = generate();
    assert_eq!((generation.queries, generation.open, server.count()), (0, 4, 0));
    fixture.run(&plan).unwrap();
    assert_eq!(server.count(), 5);
    let generation = generate();
    assert_eq!((generation.queries, generation.open, generation.unanswered), (3, 0, 1));
    assert_eq!(generation.answered, [(1, 1), (2, 1)].into());
    // Written and judged once for one, twice for the others.
    assert_eq!(server.count(), 5 + 2 + 4 + 4);
    assert_eq!((generate(), server.count()), (generation, 15));

    let (ledger, judge) = fixture.ledger(&plan);
    let generated = ledger.generated(judge).unwrap();
    let seen: Vec<(&str, u32, bool)> =
        generated.iter().map(|code| (code.pair.query.as_str(), code.round, code.is_accepted())).collect();
    assert_eq!(seen.len(), 3);
    for expected in [("easy", 1, true), ("needs repair", 2, true), ("hopeless", 2, false)] {
        assert!(seen.contains(&expected), "{expected:?}: {seen:?}");
    }
    assert_eq!(ledger.generated_for(judge, "2").unwrap().len(), 2);
    // The pairs of the plan are the same as before.
    assert_eq!(Report::new(ledger.counts(judge).unwrap()).pairs, 5);
    let story = ledger.story(judge, &generated[0].pair.id).unwrap().unwrap();
    assert!(matches!(&story.scenes[0].event, Event::Answer(answer) if answer.prompt == "cosqa-plus"));

    let write = |to: &str| {
        let out = fixture.path(to);
        let export = |target| Export { target, split: "test", graded: false, renumber: false };
        quarry_annotate::export(&ledger, judge, &export(Target::named(to).unwrap()), &out).unwrap();
        out
    };
    let pairs: Value = serde_json::from_str(&fs::read_to_string(write("cosqa-plus")).unwrap()).unwrap();
    let pairs = pairs.as_array().unwrap();
    assert_eq!(pairs.len(), 7);
    assert_eq!(
        (&pairs[5]["pair-idx"], &pairs[6]["code-idx"], &pairs[6]["label"]),
        (&json!(5), &json!(6), &json!(1))
    );
    let beside = fs::read_to_string(fixture.path("cosqa-plus.generated.jsonl")).unwrap();
    let lines: Vec<Value> = beside.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (lines.len(), &lines[0]["status"], &lines[1]["code_id"]),
        (2, &json!("generated"), &json!("6"))
    );
    assert!(write("beir").join("generated.jsonl").exists());
    drop(ledger);

    // What people say counts more than the judge, and is not written over.
    let person = |query: &str, code: &str, status| {
        let of = generated.iter().find(|code| code.pair.query == query).unwrap();
        let writer = Writer::open(&plan.ledger).unwrap();
        let new = NewCode {
            judge,
            query_id: of.pair.query_id.clone(),
            query: query.to_owned(),
            code: code.to_owned(),
            language: "python".to_owned(),
            round: of.round,
            model: of.model.clone(),
            prompt: of.prompt.clone(),
            request: None,
            status,
            person: Some("ann".to_owned()),
        };
        writer.add_generated(new).unwrap();
    };
    person("hopeless", "def mine(): return 1", GeneratedStatus::Edited);
    person("easy", "def easy(): return right\n", GeneratedStatus::Rejected);
    let again = generate();
    assert_eq!((again.unanswered, again.answered.clone(), server.count()), (1, [(2, 2)].into(), 15));
    let (ledger, judge) = fixture.ledger(&plan);
    let accepted: Vec<String> = (ledger.generated(judge).unwrap().into_iter())
        .filter(|code| code.is_accepted())
        .map(|code| code.pair.code)
        .collect();
    assert_eq!(accepted.len(), 2);
    assert!(accepted.contains(&"def mine(): return 1".to_owned()), "{accepted:?}");
}

#[test]
fn generated_code_is_judged_by_all_members_of_a_majority() {
    let server = model(|asked| writer(&asked));
    let fixture = Fixture::new(&server.url(), &[("easy", "def c(): pass")]);
    let plan = fixture.plan("judge = 'cosqa-plus'\ntemperature = 0.0\nrounds = 3", &["m"], "");
    fixture.run(&plan).unwrap();
    let judging = fixture.prepare(&plan);
    let generation = judging.generate(&AtomicBool::new(false), &|| ()).unwrap();
    assert_eq!((generation.answered, server.count()), ([(1, 1)].into(), 3 + 1 + 3));
}

#[test]
fn code_that_cannot_be_read_is_asked_for_again() {
    let server = model(|asked| writer(&asked));
    let fixture = Fixture::new(&server.url(), &[("unreadable", "def c(): pass")]);
    let plan = fixture.plan("judge = 'cosqa-plus'\nattempts = 1", &["m"], "[generation]\nrounds = 1");
    fixture.run(&plan).unwrap();
    let judging = fixture.prepare(&plan);
    let generation = judging.generate(&AtomicBool::new(false), &|| ()).unwrap();
    assert_eq!(generation.failed.len(), 1);
    assert!(generation.failed[0].1.contains("code-generator cannot be read"), "{generation:?}");
}
