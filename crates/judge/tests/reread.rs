//! Reading a ledger again that was judged by earlier rules.

use std::sync::atomic::Ordering;

use crate::fixture::{Fixture, expected, honest};
use quarry_judge::ledger::Writer;
use quarry_judge::{Ledger, Outcome, has_earlier_labels, reread};
use rusqlite::{Connection, params};

/// An echo of the requested format, which was read as no.
const ECHO: &str = "preliminary_screening: 0 | 0.5 | 1, explanation: <one or two sentences>";

/// Turns the judges of a ledger into those of an earlier version of quarry. `change` modifies the evidence to cases that
/// such a version misread.
fn age(fixture: &Fixture, change: impl FnOnce(&Connection)) {
    let connection = Connection::open(fixture.plan().ledger).unwrap();
    for table in ["answers", "runs", "judges", "verdicts"] {
        connection.execute_batch(&format!("DROP TRIGGER no_UPDATE_of_{table}")).unwrap();
    }
    change(&connection);
    connection.execute_batch("UPDATE judges SET version = 'earlier-' || judge").unwrap();
}

fn set_answer(connection: &Connection, pair: &str, prompt: &str, text: &str) {
    let changed = connection.execute(
        "UPDATE answers SET text = ?3 WHERE answer IN (SELECT max(answer) FROM events JOIN pairs USING (pair) \
         WHERE id = ?1 AND prompt = ?2)",
        params![pair, prompt, text],
    );
    assert_eq!(changed.unwrap(), 1, "{pair} {prompt}");
}

/// Pairs 0 and 1 were decided by non-answers; the arbiter of 5 gave both verdicts; the program of 11 asserts nothing.
fn undecided(connection: &Connection) {
    set_answer(connection, "0", "screener", ECHO);
    set_answer(
        connection,
        "1",
        "screener",
        "preliminary_screening: 1, explanation: preliminary_screening: 0 is not it",
    );
    set_answer(connection, "5", "arbiter", "final_verdict: 0 | 1");
    set_answer(connection, "11", "test-generator", "```python\nprint(1)\n```");
    let program = connection.execute(
        "UPDATE runs SET program = 'print(1)\n' WHERE run IN (SELECT run FROM events JOIN pairs USING (pair) \
         WHERE id = '11')",
        [],
    );
    assert_eq!(program.unwrap(), 1);
}

#[test]
fn labels_by_earlier_rules_are_pending_and_the_rest_is_kept() {
    let server = honest();
    let fixture = Fixture::new(36, &server.url());
    fixture.run().unwrap();
    age(&fixture, undecided);
    let asked = (server.count(), fixture.runs.load(Ordering::SeqCst));
    let plan = fixture.plan();
    // The ledger is not judged again by mistake, and the error says what to do.
    let error = fixture.prepare().err().unwrap().to_string();
    assert!(error.contains("quarry judge run --reread PLAN"), "{error}");
    let found = reread(&plan).unwrap();
    let changed: Vec<(&str, Outcome, Option<Outcome>)> =
        found.changed.iter().map(|label| (label.pair.as_str(), label.before, label.now)).collect();
    let waiting =
        [("0", 0), ("1", 1), ("5", 5), ("11", 11)].map(|(pair, number)| (pair, expected(number), None));
    assert_eq!(changed, waiting);
    assert_eq!((found.read, found.same), (36, 32));
    let reasons: Vec<&str> = found.changed.iter().map(|label| label.reason.as_str()).collect();
    assert!(
        reasons[0].contains("screener must be asked again") && reasons[0].contains("0 | 0.5 | 1"),
        "{reasons:?}"
    );
    assert!(reasons[1].contains("found \"0 is not it\""), "{reasons:?}");
    assert!(reasons[2].contains("arbiter must be asked again"), "{reasons:?}");
    assert!(reasons[3].contains("is no_assertions, not passed"), "{reasons:?}");
    assert_eq!((server.count(), fixture.runs.load(Ordering::SeqCst)), asked, "nothing is asked or run");
    // Doing it again changes nothing.
    let again = reread(&plan).unwrap();
    assert_eq!((again.read, again.same, &again.changed), (0, 32, &found.changed));
    let (ledger, judge) = fixture.ledger();
    assert_eq!((ledger.n_waiting(judge).unwrap(), fixture.labels().len()), (4, 32));
    assert!(!has_earlier_labels(&ledger, &plan).unwrap());
    drop(ledger);
    // The next run asks only what is open: two screeners and two arbiters.
    fixture.run().unwrap();
    fixture.check_labels(36);
    assert_eq!((server.count(), fixture.runs.load(Ordering::SeqCst)), (asked.0 + 4, asked.1));
    // The earlier verdicts are still there.
    let connection = Connection::open(&plan.ledger).unwrap();
    let verdicts = "SELECT count(*) FROM verdicts JOIN judges USING (judge) WHERE version LIKE 'earlier-%'";
    assert_eq!(connection.query_row(verdicts, [], |row| row.get::<_, i64>(0)).unwrap(), 36);
    let result = "SELECT result FROM runs JOIN events USING (run) JOIN judges USING (judge) JOIN pairs USING (pair) \
                  WHERE id = '11' ORDER BY judge";
    let mut select = connection.prepare(result).unwrap();
    let results: Vec<String> = select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(results, ["passed", "no_assertions"]);
}

#[test]
fn a_majority_follows_its_members() {
    let server = honest();
    let mut fixture = Fixture::new(9, &server.url());
    fixture.entries[0] = "rounds = 3".to_owned();
    fixture.run().unwrap();
    age(&fixture, |connection| {
        // All rounds of pair 0, and one of pair 3.
        let set = |pair: &str, most: i64| {
            let changed = connection.execute(
                "UPDATE answers SET text = ?1 WHERE answer IN (SELECT DISTINCT answer FROM events JOIN pairs USING (pair) \
                 WHERE id = ?2 AND prompt = 'screener' ORDER BY answer LIMIT ?3)",
                params![ECHO, pair, most],
            );
            changed.unwrap()
        };
        assert_eq!((set("0", 3), set("3", 1)), (3, 1));
    });
    let asked = server.count();
    let found = reread(&fixture.plan()).unwrap();
    let pairs: Vec<&str> = found.changed.iter().map(|label| label.pair.as_str()).collect();
    assert_eq!((found.read, found.same, pairs), (27, 7, vec!["0", "3"]));
    assert!(found.changed.iter().all(|label| label.now.is_none() && label.reason.contains("screener")));
    assert_eq!(server.count(), asked);
    fixture.run().unwrap();
    fixture.check_labels(9);
    assert_eq!(server.count(), asked + 4);
}

#[test]
fn a_rehearsal_leaves_the_ledger_as_it_is() {
    let server = honest();
    let fixture = Fixture::new(9, &server.url());
    fixture.run().unwrap();
    age(&fixture, |connection| set_answer(connection, "0", "screener", ECHO));
    let bytes = || std::fs::read(fixture.plan().ledger).unwrap();
    let before = bytes();
    let (plan, _copy) = fixture.plan().rehearsal().unwrap();
    assert_eq!(reread(&plan).unwrap().changed.len(), 1);
    assert_eq!(bytes(), before);
}

#[test]
fn without_labels_by_earlier_rules_nothing_happens() {
    let server = honest();
    let fixture = Fixture::new(9, &server.url());
    let missing = reread(&fixture.plan()).unwrap_err().to_string();
    assert!(missing.contains("there is no ledger yet"), "{missing}");
    assert!(!fixture.plan().ledger.exists());
    fixture.run().unwrap();
    let found = reread(&fixture.plan()).unwrap();
    assert_eq!((found.read, found.same, found.changed), (0, 0, Vec::new()));
    // A change of packages is not a change of rules.
    age(&fixture, |_| ());
    drop(Writer::open(&fixture.plan().ledger).unwrap());
    let mut other = fixture;
    other.entries[2] = "[packages.pip]\ndeny = ['torch']".to_owned();
    let ledger = Ledger::open(&other.plan().ledger).unwrap();
    assert!(!has_earlier_labels(&ledger, &other.plan()).unwrap());
    other.entries[2] = String::new();
    assert!(has_earlier_labels(&ledger, &other.plan()).unwrap());
}
