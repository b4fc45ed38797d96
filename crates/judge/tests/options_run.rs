//! Judging with options, from plan to ledger, with a model server on loopback and a sandbox that runs nothing.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::options::{Fixture, ModelRequest, model, words};
use quarry_judge::{
    Calibration, JudgeError, JudgeReport, MemberAgreement, OptionCosts, Outcome, Plan, audit,
};
use quarry_sandbox::Limits;
use quarry_test_support::model_server::{Reply, Server};

const YES: &str = "{\"analysis\": \"x\", \"judgement\": \"yes\"}";
const NO: &str = "{\"analysis\": \"x\", \"judgement\": \"no\"}";

/// Always accepts code 0, accepts code 1 two times of three, and code 2 once.
fn wavering(asked: &ModelRequest<'_>) -> String {
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
    let report = JudgeReport::new(ledger.counts(judge, &plan.judge).unwrap());
    assert_eq!((report.answers, report.cost.tokens, report.spent.tokens), (9, 990, 990));
    assert_eq!((report.clear_share, report.per_pair.clear.tokens), (Some(1.0), 330.0));
    assert_eq!(report.decided_by["majority"].0, 3);
    let members = MemberAgreement::measure(&plan, &ledger, judge).unwrap().unwrap();
    assert_eq!((members.pairs, members.without_majority), (3, 0));
    assert!((members.percent_agreement.unwrap() - (1.0 + 1.0 / 3.0 + 1.0 / 3.0) / 3.0).abs() < 1e-12);
    let names: Vec<(&str, Option<f64>)> =
        members.members.iter().map(|member| (member.name.as_str(), member.agreement_with_majority)).collect();
    assert_eq!(names, [("round 1", Some(2.0 / 3.0)), ("round 2", Some(2.0 / 3.0)), ("round 3", Some(1.0))]);
    drop(ledger);

    // Nothing is asked again, and the recording is replayed unchanged, separately for each round.
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
    assert!(matches!(fixture.run(&plan).unwrap_err(), JudgeError::Model(_)));
    assert!((4..9).contains(&server.count()), "{}", server.count());
    assert!(fixture.labels(&plan).len() < 3);
    let plan = fixture.plan(three, &["m"], "");
    fixture.run(&plan).unwrap();
    assert_eq!((fixture.labels(&plan).len(), server.count()), (3, 9));
    // If all members of a majority have already decided, their verdicts are combined at once.
    let plan = fixture.plan("judge = 'cosqa-plus'\ntemperature = 0.0\nrounds = 2", &["m"], "");
    fixture.prepare(&plan);
    let labels = fixture.labels(&plan);
    assert_eq!(labels[1], (Outcome::Unresolved, "a tie: 1 yes, 1 no".to_owned()));
    assert_eq!((labels.len(), server.count()), (3, 9));
}

#[test]
fn models_judge_independently_and_ties_are_reported() {
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

/// A plan with models a and b, each with its own server.
fn plan_of_two(fixture: &Fixture, a: &Server, b: &Server) -> Plan {
    let plan = fixture.plan("judge = 'cosqa-plus'\nattempts = 1", &["a", "b"], "");
    let (first, second) = plan.text.split_once("[models.b]").unwrap();
    let text = format!("{first}[models.b]{}", second.replace(&a.url(), &b.url()));
    fs::write(&plan.path, text).unwrap();
    Plan::open(&plan.path, None).unwrap()
}

#[test]
fn different_servers_are_asked_at_the_same_time() {
    let asked = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let server = |own: usize| {
        let asked = Arc::clone(&asked);
        model(move |_| {
            asked[own].store(true, Ordering::SeqCst);
            let start = Instant::now();
            while !asked[1 - own].load(Ordering::SeqCst) {
                assert!(start.elapsed() < Duration::from_secs(20), "nobody asks the other");
                thread::sleep(Duration::from_millis(1));
            }
            YES.to_owned()
        })
    };
    let (a, b) = (server(0), server(1));
    let fixture = Fixture::new(&a.url(), &THREE);
    let plan = plan_of_two(&fixture, &a, &b);
    fixture.run(&plan).unwrap();
    assert!(fixture.labels(&plan).iter().all(|label| *label == (Outcome::Yes, "2 yes".to_owned())));
    assert_eq!((fixture.labels(&plan).len(), a.count(), b.count()), (3, 3, 3));
}

#[test]
fn a_failure_of_one_server_stops_the_others() {
    // Model a answers only after b has refused, so that work is left.
    let refused = Arc::new(AtomicBool::new(false));
    let (notified, waits) = (Arc::clone(&refused), Arc::clone(&refused));
    let b = Server::script(move |_, _| {
        notified.store(true, Ordering::SeqCst);
        Reply::status(401, "no")
    });
    let a = model(move |_| {
        while !waits.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(20));
        YES.to_owned()
    });
    let pairs: Vec<(String, String)> =
        (0..500).map(|number| (format!("query {number}"), format!("def subject{number}(): pass"))).collect();
    let pairs: Vec<(&str, &str)> =
        pairs.iter().map(|(query, code)| (query.as_str(), code.as_str())).collect();
    let fixture = Fixture::new(&a.url(), &pairs);
    let error = fixture.run(&plan_of_two(&fixture, &a, &b)).unwrap_err().to_string();
    assert!(error.contains("401"), "{error}");
    assert!(a.count() < 500, "{} questions", a.count());
}

#[test]
fn a_majority_is_clear_where_it_is_to_every_member() {
    // Model b is unsure about the first pair.
    let server = model(|asked| match asked.task.contains("preliminary_screening") {
        true if asked.model == "a" || !asked.text.contains("subject0") => {
            "preliminary_screening: 1, explanation: x".to_owned()
        }
        _ => agent(&asked, "assert def"),
    });
    let fixture = Fixture::new(&server.url(), &THREE);
    let plan = fixture.plan("", &["a", "b"], "");
    fixture.run(&plan).unwrap();
    let (ledger, judge) = fixture.ledger(&plan);
    let report = JudgeReport::new(ledger.counts(judge, &plan.judge).unwrap());
    assert_eq!((report.clear, report.tested, report.per_pair.unclear.pairs), (2, 1, 1));
    // Three answers of b and one of a.
    assert_eq!((report.per_pair.clear.tokens, report.per_pair.unclear.tokens), (220.0, 440.0));
}

/// A model for the agents: nothing is clear, tests require `right` in the code, and the arbiter follows the result.
fn agent(asked: &ModelRequest<'_>, tests: &str) -> String {
    let ModelRequest { task, text, .. } = asked;
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
    // The arbiter trusts a program that proves something.
    let passed = text.contains("1 assertion ran, and it held") && !text.contains("for another candidate all");
    let believed = passed && !text.contains("proves nothing");
    let verdict = u8::from(believed);
    match task.contains("confidence") {
        true => format!("final_verdict: {verdict}, confidence: 0.9, final_explanation: so"),
        false => format!("final_verdict: {verdict}, final_explanation: so"),
    }
}

const CANDIDATES: [(&str, &str); 2] =
    [("a query", "def f(a):\n    return right + a\n"), ("a query", "def f(a):\n    return wrong\n")];

/// The labels and the effect of options, compared with the judge without them.
fn with_options(tests: &'static str, options: &str) -> (Vec<Outcome>, OptionCosts, BTreeMap<String, u64>) {
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
    let report = JudgeReport::new(ledger.counts(judge, &plan.judge).unwrap());
    assert_eq!(report.spent.tokens, calls as u64 * 110);
    let stop = AtomicBool::new(false);
    assert!(audit(&ledger, judge, &words(), &Limits::default(), 2, &stop).unwrap().changed.is_empty());
    (fixture.labels(&plan).into_iter().map(|(outcome, _)| outcome).collect(), found, report.runs)
}

fn added(options: &OptionCosts) -> Vec<(&str, u64, u64)> {
    options.added.iter().map(|added| (added.option, added.calls, added.runs)).collect()
}

fn changed(options: &OptionCosts) -> Vec<(&str, &str, u64)> {
    options.beside_plain.as_ref().unwrap().changed.clone()
}

#[test]
fn tests_from_the_query_cost_an_adapter() {
    let (labels, options, runs) = with_options("assert def f", "from = 'query'");
    assert_eq!(labels, [Outcome::Yes, Outcome::No]);
    assert_eq!(added(&options), [("from_query", 2, 0)]);
    // The tests written with the code visible passed for both.
    assert_eq!(changed(&options), [("yes", "no", 1)]);
    let beside = options.beside_plain.unwrap();
    assert_eq!((beside.pairs, beside.calls, beside.tokens, beside.runs), (2, 2, 220, 0));
    let dollars = beside.dollars.unwrap();
    assert!((dollars - 2.0 * (100.0 + 20.0) / 1e6).abs() < 1e-12, "{dollars}");
    assert_eq!(beside.accuracy, Some([1.0, 0.5]));
    assert_eq!(runs, [("failed".to_owned(), 1), ("passed".to_owned(), 1)].into());
}

#[test]
fn further_programs_and_other_candidates_cost_questions_and_runs() {
    for (option, expected, n_runs) in
        [("programs = 3", ("programs", 4, 4), 6), ("differential = true", ("differential", 0, 2), 2)]
    {
        let (labels, options, runs) = with_options("assert right", option);
        assert_eq!(labels, [Outcome::Yes, Outcome::No]);
        assert_eq!((added(&options), changed(&options)), (vec![expected], Vec::new()));
        assert_eq!(runs.values().sum::<u64>(), n_runs);
    }
}

#[test]
fn tests_that_prove_nothing_are_found_by_broken_functions() {
    let (labels, options, runs) = with_options("assert def f", "mutation = true");
    // The second program is rewritten, and fails.
    assert_eq!(labels, [Outcome::Yes, Outcome::No]);
    assert_eq!(changed(&options), [("yes", "no", 1)]);
    // The first function has three mutants, the second two; the improved program of the first runs with three again.
    assert_eq!(added(&options), [("mutation", 0, 3 + 3 + 2), ("rewritten", 2, 2)]);
    // Runs with mutants are not test programs; rewritten programs are.
    assert_eq!(runs, [("failed".to_owned(), 1), ("passed".to_owned(), 3)].into());
}

#[test]
fn all_options_combine_with_each_other_and_with_rounds() {
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
    let found = Calibration::measure(&ledger, judge, 2, 10).unwrap().unwrap();
    // Both are labeled 1; one is judged 1.
    assert_eq!((found.pairs, found.accuracy), (2, 0.5));
    assert!((found.as_said.brier - (0.01 + 0.81) / 2.0).abs() < 1e-12);
    drop(ledger);
    let plain = fixture.plan("", &["m"], "");
    fixture.run(&plain).unwrap();
    let (ledger, judge) = fixture.ledger(&plain);
    assert_eq!(Calibration::measure(&ledger, judge, 2, 10).unwrap(), None);
}
