//! Judging with a faulty server or cache, or an interrupting user: nothing that was paid for is lost.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{Fixture, answer, counts, honest};
use quarry_judge::{JudgeError, JudgeReport, Outcome};
use quarry_test_support::model_server::{Reply, Server};
use rusqlite::Connection;
use serde_json::json;

#[test]
fn an_unwritable_cache_is_reported_before_anything_is_asked() {
    let server = honest();
    for entry in ["cache = 'file'", "record = 'directory'"] {
        let mut fixture = Fixture::new(3, &server.url());
        fs::write(fixture.path("file"), "").unwrap();
        fs::create_dir(fixture.path("directory")).unwrap();
        fixture.entries[0] = entry.to_owned();
        let Err(error) = fixture.prepare() else { panic!("{entry}") };
        assert!(error.to_string().contains("free some space"), "{error}");
        assert!(!fixture.plan().ledger.exists());
    }
    assert_eq!(server.count(), 0);
}

#[test]
fn paid_answers_are_in_the_ledger_when_the_cache_is_full() {
    let cache = Mutex::new(None::<std::path::PathBuf>);
    let cache: &'static Mutex<_> = Box::leak(Box::new(cache));
    let server = Server::script(move |_, seen| {
        // From now on, the cache can be neither read nor written.
        if let Some(directory) = cache.lock().unwrap().take() {
            fs::remove_dir_all(&directory).unwrap();
            symlink("nowhere", &directory).unwrap();
        }
        Reply::ok(answer(seen).1)
    });
    let mut fixture = Fixture::new(36, &server.url());
    fixture.entries[0] = "cache = 'cache'\nworkers = 3".to_owned();
    *cache.lock().unwrap() = Some(fixture.path("cache"));
    let error = fixture.run().unwrap_err().to_string();
    assert!(error.contains("cannot store an answer; free some space"), "{error}");
    assert!((1..=3).contains(&server.count()), "no more is asked: {}", server.count());
    fs::remove_file(fixture.path("cache")).unwrap();
    let (ledger, _) = fixture.ledger();
    assert_eq!(ledger.spent().unwrap()[0].tokens, 110 * server.count() as u64);
    drop(ledger);
    let report = JudgeReport::new(fixture.run().unwrap());
    fixture.check_labels(36);
    let asked: HashSet<String> = server.seen().iter().map(|seen| seen.body.to_string()).collect();
    assert_eq!((server.count(), asked.len(), report.answers), (64, 64, 64), "each is asked once");
}

#[test]
fn a_wait_that_the_server_asks_for_ends_with_the_run() {
    let server = Server::replies([Reply::Status(429, "retry-after: 100\r\n".to_owned(), String::new())]);
    let mut fixture = Fixture::new(9, &server.url());
    fixture.entries[1] = "deadline_seconds = 300.0".to_owned();
    let judging = fixture.prepare().unwrap();
    let (stop, begin) = (AtomicBool::new(false), Instant::now());
    let result = thread::scope(|scope| {
        let run = scope.spawn(|| judging.run(&stop, &|_| ()));
        while server.count() == 0 {
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::SeqCst);
        run.join().unwrap()
    });
    assert!(matches!(result, Err(JudgeError::Stopped)), "{result:?}");
    assert!(begin.elapsed() < Duration::from_secs(60));
    let counts = counts(&judging);
    assert_eq!((counts.spent.tokens, counts.reasons), (0, Vec::new()), "no pair has failed");
}

#[test]
fn a_wait_beyond_the_deadline_ends_the_run_and_fails_no_pair() {
    let server = Server::replies([Reply::Status(429, "retry-after: 3600\r\n".to_owned(), String::new())]);
    let mut fixture = Fixture::new(60, &server.url());
    fixture.entries[1] = "deadline_seconds = 20.0".to_owned();
    let judging = fixture.prepare().unwrap();
    let error = judging.run(&AtomicBool::new(false), &|_| ()).unwrap_err().to_string();
    assert!(error.contains("the server asks to wait 3"), "{error}");
    assert!(server.count() <= 8, "{}", server.count());
    assert_eq!((counts(&judging).spent.tokens, counts(&judging).reasons), (0, Vec::new()));
}

/// A server that reports this usage for every answer.
fn counting(usage: serde_json::Value) -> Server {
    Server::script(move |_, seen| {
        let (_, mut body) = answer(seen);
        body["usage"] = usage.clone();
        Reply::ok(body)
    })
}

#[test]
fn a_server_that_counts_nothing_uses_the_budget_up() {
    let server = counting(json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}));
    let mut fixture = Fixture::new(100, &server.url());
    fixture.entries[2] = "[budget]\ntokens = 20000".to_owned();
    let error = fixture.run().unwrap_err().to_string();
    assert!(error.contains("the budget is too small"), "{error}");
    let (ledger, _) = fixture.ledger();
    let [spent, unconfirmed] = ledger.spent().unwrap();
    assert!(spent == unconfirmed && spent.tokens > 0 && spent.tokens <= 20_000, "{spent}");
    assert!(server.count() < 20, "{}", server.count());
}

#[test]
fn a_server_that_counts_more_than_it_was_sent_is_sent_nothing_more() {
    let server = counting(json!({"prompt_tokens": 14_000, "completion_tokens": 400}));
    let mut fixture = Fixture::new(100, &server.url());
    fixture.entries = [String::new(), "concurrency = 8".into(), "[budget]\ntokens = 20000".into()];
    let error = fixture.run().unwrap_err().to_string();
    assert!(error.contains("the server counted 14400 tokens") && error.contains("20000 tokens"), "{error}");
    let asked = server.count();
    // Eight calls fit at the same time; the last ones are booked when they are counted.
    assert!(asked <= 8, "{asked}");
    let (ledger, _) = fixture.ledger();
    let [spent, unconfirmed] = ledger.spent().unwrap();
    assert_eq!((spent.tokens, unconfirmed.tokens), (14_400 * asked as u64, 0));
    drop(ledger);
    // Without a limit, nothing stops the run.
    fixture.entries[2].clear();
    fixture.run().unwrap();
    fixture.check_labels(100);
}

/// A temporary redirect delays one pair, not the run.
#[test]
fn a_temporary_redirect_ends_no_run() {
    let server = Server::script(|_, seen| match answer(seen) {
        (4, _) => Reply::Status(307, "location: http://127.0.0.1:9/v1\r\n".to_owned(), String::new()),
        (_, body) => Reply::ok(body),
    });
    let mut fixture = Fixture::new(9, &server.url());
    fixture.entries[1] = "attempts = 2".to_owned();
    let report = JudgeReport::new(fixture.run().unwrap());
    assert_eq!((report.waiting, report.reasons.len()), (1, 1));
    assert!(report.reasons[0].0.contains("status 307") && report.reasons[0].0.contains("`base_url`"));
    // A permanent redirect means that the API is elsewhere.
    let server = Server::replies([Reply::status(308, "")]);
    let error = Fixture::new(9, &server.url()).run().unwrap_err().to_string();
    assert!(error.contains("status 308") && server.count() <= 8, "{error}");
}

/// An answer about pair 4 that holds half of a surrogate pair is unreadable: the model is asked again within the judge's
/// limit, and not on resume.
#[test]
fn half_a_character_costs_the_attempts_of_the_judge_and_blocks_nothing() {
    let server = Server::script(|_, seen| match answer(seen) {
        (4, mut body) => {
            body["choices"][0]["message"]["content"] = "TEXT".into();
            let half = r"preliminary_screening: 0, explanation: \ud800";
            Reply::status(200, &body.to_string().replace("TEXT", half))
        }
        (_, body) => Reply::ok(body),
    });
    let mut fixture = Fixture::new(9, &server.url());
    fixture.entries[0] = "attempts = 3".to_owned();
    fixture.run().unwrap();
    let of_four = || server.seen().iter().filter(|seen| answer(seen).0 == 4).count();
    let (asked, labels) = (of_four(), fixture.labels());
    // The screening, the program, and the verdict, of which only the program can be read.
    assert_eq!((labels.len(), labels["4"], asked), (9, Outcome::Unresolved, 7));
    fixture.run().unwrap();
    assert_eq!(of_four(), asked);
}

#[test]
fn absurd_counts_of_tokens_leave_a_ledger_that_can_be_read() {
    for usage in [
        json!({"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX}),
        json!({"prompt_tokens": 9_000_000_000_000u64, "completion_tokens": 10}),
    ] {
        let server = counting(usage);
        let fixture = Fixture::new(9, &server.url());
        let report = JudgeReport::new(fixture.run().unwrap());
        fixture.check_labels(9);
        assert_eq!(report.spent, report.unconfirmed, "all at its worst case");
        assert_eq!((report.answers, report.cost.tokens), (16, 0), "of which nobody knows what it was");
        assert!(report.spent.tokens < 16 * 100_000, "{}", report.spent);
    }
}

/// Sums of ledgers from earlier versions, and of a million expensive answers, are reported correctly or saturate.
#[test]
fn sums_beyond_every_bound_can_be_printed() {
    let server = honest();
    let fixture = Fixture::new(9, &server.url());
    fixture.run().unwrap();
    let write = |path: &Path, tokens: i64, money: i64, calls: i64| {
        let connection = Connection::open(path).unwrap();
        let text = "BEGIN; DROP TRIGGER no_UPDATE_of_answers; \
            CREATE TEMP TABLE numbers AS WITH RECURSIVE number(n) AS \
                (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < CALLS) SELECT 1000 + n AS call FROM number; \
            INSERT INTO calls SELECT call, (SELECT min(pair) FROM pairs), '', TOKENS, MONEY, 0 FROM numbers; \
            INSERT INTO call_ends SELECT call, TOKENS, MONEY, TOKENS, MONEY, 0, NULL FROM numbers WHERE call % 2; \
            UPDATE answers SET input_tokens = TOKENS, output_tokens = TOKENS, money = MONEY; COMMIT;";
        let text = text.replace("TOKENS", &tokens.to_string()).replace("MONEY", &money.to_string());
        connection.execute_batch(&text.replace("CALLS", &calls.to_string())).unwrap();
    };
    let report_of = |tokens: i64, money: i64, calls: i64| {
        let other = Fixture::new(9, &server.url());
        fs::copy(fixture.plan().ledger, other.plan().ledger).unwrap();
        write(&other.plan().ledger, tokens, money, calls);
        let report = JudgeReport::new(other.run().unwrap());
        let (ledger, judge) = other.ledger();
        assert!(
            ledger.history(judge, "8").unwrap().is_some() && ledger.option_costs(judge).unwrap().is_empty()
        );
        report
    };
    // A million answers with 100,000 tokens for a thousandth of a dollar each, and those of the run.
    let report = report_of(100_000, 1_000_000_000, 1_000_000);
    assert_eq!(report.spent.tokens, 100_000 * 1_000_000 + 16 * 110);
    assert!((report.spent.money.dollars() - 1000.0).abs() < 1e-2, "{}", report.spent);
    let report = report_of(i64::MAX, i64::MAX, 10);
    assert!(
        report.spent.tokens >= i64::MAX as u64 && report.cost.tokens >= i64::MAX as u64,
        "{}",
        report.cost
    );
}
