//! Judging from plan to ledger, with a model server on loopback and a sandbox that runs nothing.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fixture::{Fixture, answer, decided, expected, honest, pair, wanted};
use quarry_judge::ledger::Writer;
use quarry_judge::{Event, IsolatedPrograms, JudgeError, JudgeReport, Judging, Outcome, Plan, audit};
use quarry_sandbox::{Limits, Program, Sandbox};
use quarry_test_support::model_server::{Reply, Server, completion};
use serde_json::{Value, json};

#[test]
fn every_pair_gets_its_label_once_and_is_never_asked_again() {
    let server = honest();
    let fixture = Fixture::new(36, &server.url());
    let judging = fixture.prepare().unwrap();
    let estimate = judging.estimate().unwrap();
    assert_eq!((estimate.pairs, estimate.first.calls, server.count()), (36, 36, 0));
    assert!(estimate.typical.tokens > 0 && estimate.first.worst.tokens > estimate.typical.tokens);
    drop(judging);
    let counts = fixture.run().unwrap();
    fixture.check_labels(36);
    // 36 screenings, 12 programs, 4 that lack a package, 12 verdicts.
    assert_eq!((server.count(), fixture.runs.load(Ordering::SeqCst)), (64, 12));
    let report = JudgeReport::new(counts);
    assert_eq!((report.answers, report.tested, report.missing_packages), (64, 12, 4));
    assert_eq!((report.waiting, report.mean_tests), (0, Some(2.0)));
    assert!((report.clear_share.unwrap() - 24.0 / 36.0).abs() < 1e-9);
    assert!((report.executable_rate.unwrap() - 8.0 / 12.0).abs() < 1e-9);
    // Exact token counts: each call has 100 and 10.
    assert_eq!((report.spent.tokens, report.cost.tokens, report.unconfirmed.tokens), (64 * 110, 64 * 110, 0));
    assert_eq!(report.spent.money.units(), 64 * (100 * 1_000_000 + 10 * 2_000_000));
    fixture.run().unwrap();
    assert_eq!((server.count(), fixture.runs.load(Ordering::SeqCst)), (64, 12));
}

#[test]
fn programs_that_lack_a_package_run_again_with_it() {
    let server = honest();
    let mut fixture = Fixture::new(36, &server.url());
    fixture.packages = true;
    let report = JudgeReport::new(fixture.run().unwrap());
    fixture.check_labels(36);
    assert_eq!((report.tested, report.missing_packages, report.repaired), (12, 4, 4));
    assert_eq!((report.executable_rate, report.mean_tests), (Some(1.0), Some(2.0)));
    assert_eq!(report.runs, [("failed".to_owned(), 4), ("passed".to_owned(), 8)].into());
    // 12 programs, of which four run again; no package is named like the module, so no program ran with that.
    assert_eq!((server.count(), fixture.runs.load(Ordering::SeqCst)), (64, 16));
    let (ledger, judge) = fixture.ledger();
    let history = ledger.history(judge, "8").unwrap().unwrap();
    let runs: Vec<_> = (history.steps.iter())
        .filter_map(|step| match &step.event {
            Event::Run(run) => Some((run.program.packages.join(" "), run.provided.clone())),
            Event::Answer(_) => None,
        })
        .collect();
    let expected = [
        (String::new(), Ok(Vec::new())),
        ("yaml".to_owned(), Err("there is no package yaml".to_owned())),
        ("PyYAML".to_owned(), Ok(vec!["PyYAML 6.0".to_owned()])),
    ];
    assert_eq!(runs, expected);
    let asked = &history.steps[4];
    assert!(asked.messages.contains("there is no package yaml"), "{}", asked.messages);
    // The runs that labels are based on run again with the same packages.
    let stop = AtomicBool::new(false);
    let found = audit(&ledger, judge, &fixture.programs(), &Limits::default(), 2, &stop).unwrap();
    assert_eq!((found.runs, found.changed), (16, Vec::new()));
    drop(ledger);
    fixture.run().unwrap();
    assert_eq!((server.count(), fixture.runs.load(Ordering::SeqCst)), (64, 32));
}

#[test]
fn the_story_of_a_label_is_whole() {
    let server = honest();
    let fixture = Fixture::new(9, &server.url());
    fixture.run().unwrap();
    let (ledger, judge) = fixture.ledger();
    let history = ledger.history(judge, "8").unwrap().unwrap();
    let parts: Vec<&str> = history
        .steps
        .iter()
        .map(|step| match &step.event {
            Event::Answer(answer) => answer.prompt.as_str(),
            Event::Run(run) => {
                assert_eq!((run.isolation.as_str(), run.peak_memory_bytes), ("pretended, watchdog", 1 << 20));
                "run"
            }
        })
        .collect();
    assert_eq!(parts, ["screener", "test-generator", "run", "bug-fixer", "arbiter"]);
    assert_eq!(history.verdict.unwrap().reason, "e8");
    assert!(history.steps[0].messages.contains("subject8") && history.steps[0].cost.tokens == 110);
    assert!(ledger.history(judge, "none").unwrap().is_none());
}

#[test]
fn a_pair_is_called_by_its_id_or_by_what_only_it_begins_with() {
    let server = honest();
    let fixture = Fixture::new(0, &server.url());
    let ids = ["alphabet", "alpha", "alpine", "alps", "7", "70"];
    let pairs: Vec<_> = (ids.iter().enumerate())
        .map(|(number, id)| json!({"id": id, "query": format!("query {number}"), "code": "def f(): pass", "language": "python"}))
        .collect();
    fixture.write_pairs(&pairs);
    fixture.prepare().unwrap();
    let (ledger, _) = fixture.ledger();
    let called = |name: &str| ledger.id_of(name).unwrap();
    for (name, id) in [("alpha", "alpha"), ("alphab", "alphabet"), ("alpi", "alpine"), ("7", "7")] {
        assert_eq!(called(name).as_deref(), Some(id), "{name}");
    }
    for name in ["alp", "alph", "alpho", "al_s", "alp%", "", "8"] {
        assert_eq!(called(name), None, "{name}");
    }
}

#[test]
fn equal_pairs_are_asked_about_once() {
    let server = honest();
    let fixture = Fixture::new(0, &server.url());
    let same = |number: usize| {
        let mut same = pair(1);
        same["pair-idx"] = number.into();
        same
    };
    fixture.write_pairs(&(0..20).map(same).collect::<Vec<_>>());
    let counts = fixture.run().unwrap();
    assert_eq!((server.count(), counts.verdicts), (1, vec![("no".into(), "screener".into(), 20)]));
}

/// The cost of a request as far as the client can know it: nothing, as reported in the answer, or the worst case.
enum Bill {
    Nothing,
    Counted,
    Worst,
}

/// A faulty reply in place of the first answer to a request, whose body would be `body`.
fn fault(kind: usize, body: &Value) -> (Reply, Bill) {
    use Bill::{Counted, Nothing, Worst};
    let text = body["choices"][0]["message"]["content"].as_str().unwrap();
    let whole = body.to_string();
    let refused = |status: u16, more: &str| Reply::Status(status, more.to_owned(), "{}".to_owned());
    let utf16: Vec<u8> = whole.encode_utf16().flat_map(u16::to_le_bytes).collect();
    match kind {
        0 => (refused(429, "retry-after: 0\r\n"), Nothing),
        1 => (refused(429, ""), Nothing),
        2 => (Reply::status(500, "oops"), Nothing),
        3 => (Reply::status(503, ""), Nothing),
        4 => (Reply::Late(Duration::from_secs(7), whole), Worst),
        5 => (Reply::Drip(Duration::from_millis(60), whole), Worst),
        6 => (Reply::Half(whole), Worst),
        7 => (Reply::Hang, Worst),
        8 => (Reply::Garbage, Worst),
        9 => (Reply::Status(200, String::new(), whole[..whole.len() / 2].to_owned()), Worst),
        10 => (Reply::Status(200, String::new(), "<html>busy</html>".into()), Worst),
        11 => (Reply::ok(json!({"candidates": [{"text": text}]})), Worst),
        12 => (Reply::ok(json!({"choices": [], "usage": body["usage"]})), Counted),
        13 => (Reply::ok(completion("", 100, 10)), Counted),
        14 => (Reply::Bytes(utf16), Worst),
        15 => (Reply::Bytes(b"{\"choices\": [{\"message\": {\"content\": \"na\xefve\"}}]}".to_vec()), Worst),
        16 => (Reply::ok(json!({"error": {"message": "overloaded"}})), Worst),
        _ => unreachable!("there are {FAULTS}"),
    }
}

const FAULTS: usize = 17;

#[test]
fn server_faults_neither_lose_nor_duplicate_pairs() {
    let (tries, tokens) = (Mutex::new(HashMap::<String, usize>::new()), Arc::new(AtomicUsize::new(0)));
    let server = Server::script({
        let tokens = Arc::clone(&tokens);
        move |_, seen| {
            let (number, mut body) = answer(seen);
            let request = seen.body.to_string();
            let mut tries = tries.lock().unwrap();
            let tries = tries.entry(request.clone()).or_default();
            *tries += 1;
            // One pair of each kind is unclear; refusals are not consecutive, and delays occur once.
            let kind = number / 3 * 5 % (FAULTS + 2);
            let is_screening = request.contains("preliminary_screening");
            let is_fault = kind < FAULTS && *tries == 1 && (is_screening || !matches!(kind, 4 | 5));
            let (reply, bill) = match kind {
                _ if is_fault => fault(kind, &body),
                // One model refuses in prose, and another repeats its answer.
                FAULTS if is_screening => {
                    body["choices"][0]["message"]["refusal"] = json!("I cannot help with that.");
                    (Reply::ok(body), Bill::Counted)
                }
                _ => {
                    let twice = json!([body["choices"][0], body["choices"][0]]);
                    body["choices"] = twice;
                    (Reply::ok(body), Bill::Counted)
                }
            };
            let worst = request.len() + 512 + seen.body["max_tokens"].as_u64().unwrap() as usize;
            let billed = match bill {
                Bill::Nothing => 0,
                Bill::Counted => 110,
                Bill::Worst => worst,
            };
            tokens.fetch_add(billed, Ordering::SeqCst);
            reply
        }
    });
    let n_pairs = 3 * (FAULTS + 2);
    let mut fixture = Fixture::new(n_pairs, &server.url());
    fixture.entries[1] = "concurrency = 24\ntimeout_seconds = 4.0".to_owned();
    let report = JudgeReport::new(fixture.run().unwrap());
    assert_eq!(report.waiting, 0);
    // Exact token counts: a call counts as paid unless it is known to be free.
    assert_eq!(report.spent.tokens, tokens.load(Ordering::SeqCst) as u64);
    let failed = report.spent.tokens - report.cost.tokens;
    assert!(report.unconfirmed.tokens > 0 && report.unconfirmed.tokens < failed, "{report:?}");
    // Pairs that the screener refuses are decided by tests; all other labels are the same as without faults.
    let refused: Vec<usize> = (0..n_pairs).filter(|number| number / 3 * 5 % (FAULTS + 2) == FAULTS).collect();
    let labels = fixture.labels();
    for number in (0..n_pairs).filter(|number| !refused.contains(number)) {
        assert_eq!(labels[&number.to_string()], expected(number), "pair {number}");
    }
    assert_eq!((labels.len(), report.tested as usize), (n_pairs, FAULTS + 1 + refused.len()));
    let asked = server.count();
    fixture.run().unwrap();
    assert_eq!(server.count(), asked, "nothing is asked again");
}

#[test]
fn answers_of_the_wrong_form_end_unresolved_and_calls_that_fail_are_tried_at_the_next_start() {
    let broken = Arc::new(AtomicBool::new(true));
    let server = Server::script({
        let broken = Arc::clone(&broken);
        move |_, seen| match answer(seen) {
            (5, _) if !seen.body.to_string().contains("You write tests") => {
                Reply::ok(completion("well", 1, 1))
            }
            (7, _) if broken.load(Ordering::SeqCst) => {
                Reply::status(422, "{\"error\": {\"message\": \"no\"}}")
            }
            (_, body) => Reply::ok(body),
        }
    });
    let fixture = Fixture::new(9, &server.url());
    let report = JudgeReport::new(fixture.run().unwrap());
    assert_eq!((report.waiting, report.outcomes["unresolved"]), (1, 1));
    let (ledger, judge) = fixture.ledger();
    let open = ledger.unresolved(judge, 10).unwrap();
    assert_eq!([&open[0].0, &open[1].0], ["5", "7"]);
    assert!(open[0].1.contains("arbiter cannot be read") && open[1].1.contains("status 422"), "{open:?}");
    drop(ledger);
    broken.store(false, Ordering::SeqCst);
    let before = server.count();
    let report = JudgeReport::new(fixture.run().unwrap());
    assert_eq!((report.waiting, server.count() - before), (0, 1));
    assert_eq!(fixture.labels()["7"], Outcome::No);
}

#[test]
fn the_budget_holds_over_all_runs() {
    let server = honest();
    let mut fixture = Fixture::new(36, &server.url());
    fixture.entries = [String::new(), "concurrency = 4".into(), "[budget]\ntokens = 6500".into()];
    let error = fixture.run().unwrap_err().to_string();
    assert!(error.contains("6500 tokens"), "{error}");
    let (ledger, _) = fixture.ledger();
    let [first, _] = ledger.spent().unwrap();
    assert!(
        first.tokens > 0 && first.tokens <= 6_500 && first.tokens == server.count() as u64 * 110,
        "{first:?}"
    );
    drop(ledger);
    // The next run knows what was spent.
    assert!(fixture.run().is_err());
    let (ledger, _) = fixture.ledger();
    assert!(ledger.spent().unwrap()[0].tokens <= 6_500);
    drop(ledger);
    fixture.entries[2].clear();
    fixture.run().unwrap();
    fixture.check_labels(36);
    assert_eq!(server.count(), 64);
}

#[test]
fn a_refused_key_stops_everything_at_once() {
    let server = Server::replies([Reply::status(401, "{}")]);
    let mut fixture = Fixture::new(40, &server.url());
    fixture.entries[1] = "concurrency = 2".into();
    let error = fixture.run().unwrap_err().to_string();
    assert!(error.contains("status 401") && server.count() <= 2, "{error}");
}

#[test]
fn a_server_that_only_fails_stops_the_run() {
    let server = Server::replies([Reply::status(400, "{}")]);
    let fixture = Fixture::new(100, &server.url());
    let error = fixture.run().unwrap_err();
    assert!(matches!(error, JudgeError::Failures { .. }), "{error}");
    assert!(server.count() < 40);
}

#[test]
fn a_recording_answers_without_a_server_and_knows_nothing_else() {
    let mut fixture = {
        let server = honest();
        let mut fixture = Fixture::new(9, &server.url());
        fixture.entries[0] = "record = 'recording.jsonl'".into();
        fixture.run().unwrap();
        fixture
    };
    fs::remove_file(fixture.path("plan.ledger")).unwrap();
    fixture.entries[0] = "replay = 'recording.jsonl'".into();
    let report = JudgeReport::new(fixture.run().unwrap());
    fixture.check_labels(9);
    assert!(report.spent.tokens == 0 && report.cost.tokens == 110 * report.answers, "{report:?}");
    fixture.write_pairs(&[pair(100)]);
    let error = fixture.run().unwrap_err().to_string();
    assert!(error.contains("no recorded answer") && error.contains("recording.jsonl"), "{error}");
}

#[test]
fn pairs_that_cannot_be_judged_are_listed_before_anything_is_asked() {
    let server = honest();
    let fixture = Fixture::new(2, &server.url());
    let mut wrong = [pair(0), pair(1), pair(2), pair(3)];
    wrong[1]["code"] = " ".into();
    wrong[2]["language"] = "cobol".into();
    wrong[3]["query"] = "".into();
    fixture.write_pairs(&wrong);
    let error = fixture.run().unwrap_err().to_string();
    for words in [
        "3 of 4 pairs",
        "pairs.jsonl: record 2, pair 1: it has no code",
        "pair 2: expected one of",
        "cobol",
        "pair 3: it has no query",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(server.count() == 0 && !fixture.path("plan.ledger").exists());
    fs::write(fixture.path("pairs.jsonl"), "{\"_id\": \"1\", \"text\": \"a query\"}").unwrap();
    let error = fixture.run().unwrap_err().to_string();
    assert!(error.contains("expected a file of pairs"), "{error}");
}

#[test]
fn a_directory_that_was_exported_holds_pairs_again() {
    let server = honest();
    let fixture = Fixture::new(6, &server.url());
    fixture.run().unwrap();
    let (ledger, judge) = fixture.ledger();
    let export = |to: &str| {
        quarry_judge::export(&ledger, judge, &wanted(to, false), &fixture.path(to)).unwrap();
        let text = fixture.plan().text.replace("pairs.jsonl", to).replace("plan.ledger", "other.ledger");
        fs::write(fixture.path("plan.toml"), text).unwrap();
        let plan = Plan::open(&fixture.path("plan.toml"), Some(&fixture.path("other.ledger"))).unwrap();
        Judging::prepare(plan, Some(fixture.programs())).map(|judging| judging.estimate().unwrap().pairs)
    };
    assert_eq!(export("cosqa-plus-folder").unwrap(), 6);
    let error = export("beir").unwrap_err().to_string();
    assert!(error.contains("quarry data convert --to query-code"), "{error}");
}

#[test]
fn an_id_stands_for_one_pair() {
    let server = honest();
    let fixture = Fixture::new(3, &server.url());
    fixture.run().unwrap();
    let mut other = pair(1);
    other["code"] = "def number4(): pass".into();
    fixture.write_pairs(&[pair(0), other]);
    let error = fixture.run().unwrap_err().to_string();
    assert!(error.contains("another ledger") && error.contains('1'), "{error}");
    // A smaller file of pairs is judged on its own.
    fixture.write_pairs(&[pair(0)]);
    assert_eq!(fixture.run().unwrap().pairs, 1);
}

#[test]
fn a_pair_has_one_label() {
    let server = honest();
    let fixture = Fixture::new(0, &server.url());
    let pair = |label: i32| json!({"query": "q", "code": "subject1", "label": label, "language": "python"});
    fixture.write_pairs(&[pair(1), pair(0)]);
    let error = fixture.prepare().err().unwrap().to_string();
    assert!(error.contains("occurs twice, with different labels"), "{error}");
    // The label in the file may change.
    for label in [1, 0] {
        fixture.write_pairs(&[pair(label), pair(label)]);
        assert_eq!(fixture.run().unwrap().labels, [(label, 0, 1)]);
    }
}

#[test]
fn an_id_of_a_query_or_a_code_stands_for_one_text() {
    let server = honest();
    for (field, words) in [("query", "pair 7: its query id"), ("code", "pair 7: its code id")] {
        let fixture = Fixture::new(0, &server.url());
        // Files without ids are numbered from the start.
        let mut other = pair(7);
        other[format!("{field}-idx")] = json!(0);
        fixture.write_pairs(&[pair(0), pair(1), other.clone()]);
        let error = fixture.prepare().err().unwrap().to_string();
        assert!(error.contains(words) && error.contains("in pair 0"), "{error}");
        // Another plan with the same ledger is rejected too, and the ledger is unchanged.
        fixture.write_pairs(&[pair(0)]);
        assert_eq!(fixture.run().unwrap().pairs, 1);
        fixture.write_pairs(&[other]);
        assert!(fixture.prepare().is_err());
        let (ledger, judge) = fixture.ledger();
        assert_eq!(ledger.counts(judge, &fixture.plan().judge).unwrap().pairs, 1);
    }
}

#[test]
fn the_same_code_may_be_there_in_two_languages() {
    let server = honest();
    let mut fixture = Fixture::new(0, &server.url());
    fixture.entries[0] = "judge = 'screener'".to_owned();
    let pair = |language: &str| json!({"query": "q", "code": "subject1", "language": language});
    fixture.write_pairs(&[pair("javascript"), pair("typescript"), pair("js")]);
    assert_eq!(fixture.run().unwrap().pairs, 2);
    // The order does not matter.
    fixture.write_pairs(&[pair("typescript"), pair("javascript")]);
    assert_eq!((fixture.run().unwrap().pairs, server.count()), (2, 2));
    // If the file gives an id, the message says what that id stands for.
    let with_id = |language: &str, number: usize| {
        let mut pair = pair(language);
        (pair["id"], pair["code_id"]) = (json!(format!("p{number}")), json!("c"));
        pair
    };
    fixture.write_pairs(&[with_id("javascript", 1), with_id("typescript", 2)]);
    let error = fixture.run().unwrap_err().to_string();
    let expected = "pair p2: its code id refers to the same code in another language in pair p1 (\"javascript\", here \"typescript\")";
    assert!(error.contains(expected) && !error.contains("another text"), "{error}");
}

#[test]
fn a_rehearsal_leaves_no_trace() {
    let server = honest();
    let fixture = Fixture::new(36, &server.url());
    let rehearse = || {
        let (plan, _copy) = fixture.plan().rehearsal().unwrap();
        Judging::prepare(plan, Some(fixture.programs())).map(|judging| judging.estimate().unwrap())
    };
    assert_eq!(rehearse().unwrap().first.calls, 36);
    assert!(!fixture.path("plan.ledger").exists());
    fixture.write_pairs(&[pair(2), pair(3)]);
    fixture.run().unwrap();
    let before = fs::read(fixture.path("plan.ledger")).unwrap();
    fixture.write_pairs(&[pair(2), pair(4)]);
    assert_eq!(rehearse().unwrap().first.calls, 1);
    let mut other = pair(2);
    other["code"] = json!("other");
    fixture.write_pairs(&[other]);
    assert!(rehearse().is_err());
    let (ledger, judge) = fixture.ledger();
    assert_eq!(ledger.counts(judge, &fixture.plan().judge).unwrap().pairs, 2);
    assert!(fs::read(fixture.path("plan.ledger")).unwrap() == before);
}

#[test]
fn a_program_that_runs_next_is_in_the_estimate() {
    let server = honest();
    struct Broken;
    impl Sandbox for Broken {
        fn run(&self, _: &Program, _: &Limits) -> Result<quarry_sandbox::Outcome, quarry_sandbox::Error> {
            Err(quarry_sandbox::Error::Setup { detail: "no namespaces".to_owned() })
        }
    }
    let fixture = Fixture::new(0, &server.url());
    fixture.write_pairs(&[pair(2)]);
    let broken = IsolatedPrograms { sandbox: Box::new(Broken), ..fixture.programs() };
    let judging = Judging::prepare(fixture.plan(), Some(broken)).unwrap();
    assert!(judging.run(&AtomicBool::new(false), &|_| ()).is_err());
    drop(judging);
    let estimate = fixture.prepare().unwrap().estimate().unwrap();
    assert_eq!((estimate.pairs, estimate.first.calls, estimate.programs), (1, 0, 1));
    assert!(estimate.typical.tokens > 0);
}

#[test]
fn a_ledger_has_one_writer_and_one_version() {
    let server = honest();
    let fixture = Fixture::new(3, &server.url());
    let held = fixture.prepare().unwrap();
    let error = fixture.prepare().err().unwrap().to_string();
    assert!(error.contains("another process"), "{error}");
    drop(held);
    let path = fixture.path("plan.ledger");
    let change = |pragma: &str| rusqlite::Connection::open(&path).unwrap().execute_batch(pragma).unwrap();
    change("PRAGMA user_version = 99");
    let error = fixture.prepare().err().unwrap().to_string();
    assert!(error.contains("version 99") && error.contains("name another file"), "{error}");
    change("PRAGMA application_id = 1");
    assert!(fixture.prepare().err().unwrap().to_string().contains("not a Quarry ledger"));
    drop(fs::remove_file(path.with_extension("ledger-wal")));
    fs::write(
        &path,
        "a text that is long enough to be read as the head of a file, but is not a database at all, of any kind",
    )
    .unwrap();
    assert!(fixture.prepare().err().unwrap().to_string().contains("name another file"));
}

#[test]
fn plans_with_one_ledger_keep_their_pairs_apart() {
    let server = honest();
    let mut fixture = Fixture::new(9, &server.url());
    fixture.run().unwrap();
    let first = fixture.plan().version;
    fixture.entries[0] = "judge = 'screener'".to_owned();
    fixture.write_pairs(&[pair(1), pair(20)]);
    assert_eq!(fixture.run().unwrap().pairs, 2);
    let (ledger, second) = fixture.ledger();
    let judge = ledger.judge(&first).unwrap().unwrap();
    let decided = |judge: i64| -> Vec<String> {
        decided(&ledger, judge).into_iter().map(|decided| decided.pair.id).collect()
    };
    assert_eq!((decided(judge).len(), decided(second)), (9, vec!["1".to_owned(), "20".to_owned()]));
    assert_eq!(ledger.counts(judge, &fixture.plan().judge).unwrap().pairs, 9);
}

#[test]
fn evidence_cannot_be_changed() {
    let server = honest();
    let fixture = Fixture::new(9, &server.url());
    fixture.run().unwrap();
    let connection = rusqlite::Connection::open(fixture.path("plan.ledger")).unwrap();
    for table in
        ["answers", "runs", "events", "verdicts", "calls", "call_ends", "prompts", "judges", "starts"]
    {
        let count: i64 =
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert!(count > 0, "{table}");
        let error = connection.execute(&format!("DELETE FROM {table}"), []).unwrap_err().to_string();
        assert!(error.contains("never changed"), "{table}: {error}");
    }
    assert!(connection.execute("UPDATE verdicts SET outcome = 'yes'", []).is_err());
    assert!(connection.execute("UPDATE pairs SET code = 'x'", []).is_err());
    assert!(connection.execute("DELETE FROM pairs", []).is_err());
}

#[test]
fn a_writer_that_cannot_write_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Writer::open(&file.join("x.ledger")).unwrap_err().to_string();
    assert!(error.contains("cannot be written"), "{error}");
}

#[test]
fn a_call_that_was_cut_off_counts_at_its_worst_case() {
    let server = honest();
    let mut fixture = Fixture::new(3, &server.url());
    fixture.run().unwrap();
    let path = fixture.path("plan.ledger");
    let connection = rusqlite::Connection::open(&path).unwrap();
    let insert =
        "INSERT INTO calls (pair, request, worst_tokens, worst_money, time) VALUES (1, 'x', 500, 700, 0)";
    connection.execute(insert, []).unwrap();
    drop(connection);
    let (ledger, judge) = fixture.ledger();
    let report = JudgeReport::new(ledger.counts(judge, &fixture.plan().judge).unwrap());
    assert_eq!((report.unconfirmed.tokens, report.spent.tokens), (500, report.cost.tokens + 500));
    drop(ledger);
    fixture.write_pairs(&[pair(0), pair(1), pair(2), pair(3)]);
    let limit = report.spent.tokens + 10;
    fixture.entries[2] = format!("[budget]\ntokens = {limit}");
    assert!(matches!(fixture.run().unwrap_err(), JudgeError::Model(_)));
}
