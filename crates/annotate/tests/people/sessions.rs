//! People who fill in a form item by item.

use std::time::{Duration, Instant};

use quarry_annotate::RunResult;
use quarry_annotate::people::{
    FormAgreement, Kept, Said, Sampling, Session, Stage, TestSandbox, TestState, forms_to_fill,
};
use quarry_sandbox::Limits;
use serde_json::Value;

use super::Fixture;
use super::pretended::Pretended;

fn said(label: &str, comment: &str, program: &str) -> Said {
    Said { label: label.to_owned(), comment: comment.to_owned(), program: Some(program.to_owned()) }
}

fn open(fixture: &Fixture, overlap: usize) -> Session {
    let (writer, _) = fixture.open();
    let name = forms_to_fill(writer.ledger()).unwrap().pop().unwrap();
    let form = writer.ledger().form(&name).unwrap().unwrap();
    let sandbox = TestSandbox { programs: Box::new(Pretended), limits: Limits::default() };
    Session::open(writer, form, overlap, Some(sandbox)).unwrap()
}

#[test]
fn verdicts_before_and_after_testing_are_both_kept() {
    let fixture = Fixture::new();
    fixture.export("form.jsonl", "cosqa-plus", true, Sampling { at_most: Some(2), ..Sampling::default() });
    let (start, minute) = (Instant::now(), Duration::from_secs(60));
    {
        let session = open(&fixture, 1);
        let item = session.next("ann", start).unwrap().number;
        assert_eq!(session.stage("ann", item), Stage::Untested);
        let answer = |stage, said: &Said, is_change, at| {
            session.answer("ann", item, stage, said, is_change, at).unwrap()
        };
        assert_eq!(answer(Stage::Untested, &said("yes", "", "assert"), false, start + minute), Kept::New);
        assert_eq!(
            answer(Stage::Untested, &said("yes", "", ""), false, start + minute),
            Kept::Known,
            "sent twice"
        );
        assert_eq!(
            (session.next("ann", start).unwrap().number, session.stage("ann", item)),
            (item, Stage::Final)
        );
        assert_eq!(session.next("bob", start).unwrap().number, 2, "the item is still that of ann");
        // Before the test, an answer can be changed.
        assert_eq!(answer(Stage::Untested, &said("cannot tell", "", ""), true, start), Kept::New);
        assert_eq!(answer(Stage::Untested, &said("yes", "", ""), true, start), Kept::New);

        assert_eq!(answer(Stage::Final, &said("no", " ", ""), false, start), Kept::NoReason);
        assert_eq!(answer(Stage::Final, &said("no", "", "assert 1"), false, start), Kept::NotRun);
        assert!(session.begin_test("ann", item, "assert fails", "a comment"));
        assert!(!session.begin_test("ann", item, "assert 2", ""), "one at a time");
        session.run_test("ann");
        let draft = session.test("ann", item).unwrap();
        assert!(matches!(&draft.state, TestState::Ran(_, RunResult::Failed)), "{draft:?}");
        assert_eq!((draft.source.as_str(), draft.comment.as_str()), ("assert fails", "a comment"));
        assert_eq!(
            answer(Stage::Final, &said("no", "", "assert 1"), false, start),
            Kept::NotRun,
            "it is another one"
        );
        assert_eq!(session.last("ann"), None);
        assert!(
            matches!(answer(Stage::Untested, &said("no", "", ""), true, start), Kept::Other(_)),
            "what was said before a test stays"
        );
        let end = start + minute * 3;
        assert_eq!(answer(Stage::Final, &said("no", "", "assert fails"), false, end), Kept::New);
        assert_eq!(session.last("ann").unwrap().1, Stage::Final);
        // Code that is sent back unchanged is not a program.
        let code = session.item(2).unwrap().subject.shown()[1].1.clone();
        assert!(!session.begin_test("ann", 2, &code, ""));
        let second = |stage, said: &Said| session.answer("ann", 2, stage, said, false, end).unwrap();
        assert_eq!(second(Stage::Untested, &said("no", "", "")), Kept::New);
        assert_eq!(second(Stage::Final, &said("no", "", &code)), Kept::NoReason);
        assert_eq!(second(Stage::Final, &said("no", "it reads a file", &code)), Kept::New);
        assert_eq!(session.finished(), (2, 2));
    }
    // Answers in the ledger are known when it is opened again.
    let session = open(&fixture, 1);
    assert!(session.next("ann", start).is_none());
    let after = session.said("ann", 1, Stage::Final).unwrap();
    assert_eq!((after.label.as_str(), after.program.as_deref()), ("no", Some("assert fails")));
    assert_eq!(session.said("ann", 1, Stage::Untested).unwrap().label, "yes");
    let line: Value = serde_json::from_str(session.export().unwrap().lines().next().unwrap()).unwrap();
    assert_eq!(line["value"], "no");
    assert_eq!(line["label"], 0);
    assert_eq!(line["annotations"][0]["test_program"]["result"], "failed");
    assert_eq!(line["annotations_before_testing"][0]["label"], "yes");
    drop(session);
    let study = fixture.study();
    let row = |people: &str| study.programs.iter().find(|row| row.people.contains(people)).unwrap();
    assert_eq!(
        (row("without tests").labels, row("with tests").labels, row("with tests").programs),
        (2, 2, 1)
    );
}

#[test]
fn disagreements_are_adjudicated_once_and_counted() {
    let fixture = Fixture::new();
    fixture.export("form.jsonl", "cosqa-plus", false, Sampling { at_most: Some(4), ..Sampling::default() });
    let now = Instant::now();
    let labels = [("yes", "yes"), ("no", "no"), ("yes", "no"), ("cannot tell", "no")];
    {
        let session = open(&fixture, 2);
        for (number, (ann, bob)) in (1..).zip(labels) {
            for (person, label) in [("ann", ann), ("bob", bob)] {
                assert_eq!(session.next(person, now).unwrap().number, number);
                let later = now + Duration::from_secs(30);
                let kept = session.answer(person, number, Stage::Final, &said(label, "", ""), false, later);
                assert_eq!(kept.unwrap(), Kept::New);
            }
        }
        let overview = session.overview(&["ann".to_owned(), "eva".to_owned()]).unwrap();
        assert_eq!((overview.finished, overview.items, overview.disputed), (4, 4, 2));
        assert_eq!((overview.people[0].answered, overview.people[1].answered), (4, 0));
        assert_eq!((overview.people[0].median_minutes, overview.people[1].median_minutes), (Some(0.5), None));
        assert!((overview.people[0].total_minutes - 2.0).abs() < 1e-9);
        // Three pairs of two ratings, one of which differs: 1 - 5 * 2 / (2 * 3 * 3), because "cannot tell" is not a rating.
        let [FormAgreement { name: "exact", is_untested: false, items: 3, alpha: Some(alpha) }] =
            overview.agreement[..]
        else {
            panic!("{:?}", overview.agreement)
        };
        assert!((alpha - (1.0 - 5.0 * 2.0 / 18.0)).abs() < 1e-9, "{alpha}");

        let numbers = |session: &Session| -> Vec<(i64, bool)> {
            let disputes = session.disputes().unwrap();
            disputes.iter().map(|dispute| (dispute.item.number, dispute.adjudicated.is_some())).collect()
        };
        assert_eq!(numbers(&session), [(3, false), (4, false)]);
        assert_eq!(session.adjudicate(3, &said("perhaps", "", "")).unwrap(), Kept::Unknown);
        assert_eq!(session.adjudicate(3, &said("Y", "because", "")).unwrap(), Kept::New);
        assert_eq!(session.adjudicate(3, &said("yes", "because", "")).unwrap(), Kept::Known);
        assert_eq!(numbers(&session), [(4, false), (3, true)]);
    }
    let session = open(&fixture, 2);
    let lines: Vec<Value> =
        session.export().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let values: Vec<Option<&str>> = lines.iter().map(|line| line["value"].as_str()).collect();
    assert_eq!(values, [Some("yes"), Some("no"), Some("yes"), None], "what is not decided has no label");
    assert_eq!(lines[2]["adjudicated"]["comment"], "because");
    assert_eq!(lines[2]["label"], 1);
    assert_eq!(lines[3].get("label"), None);
    drop(session);
    // A decision is not a person's label.
    let (writer, _) = fixture.open();
    assert_eq!(writer.ledger().labeled().unwrap().said.len(), 8);
}
