//! People who fill in a form item by item.

use std::time::{Duration, Instant};

use quarry_judge::RunResult;
use quarry_judge::ledger::ItemAnswer;
use quarry_people::study::{Study, StudyOptions, gather};
use quarry_people::{
    Form, FormAgreement, PeopleLabels, Sampling, Session, Stage, Submission, TestSandbox, TestState,
    candidates, forms_to_fill, shown_columns,
};
use quarry_sandbox::Limits;
use serde_json::Value;

use crate::fake::FakePrograms;
use crate::fixture::Fixture;

fn item_answer(label: &str, comment: &str, program: &str) -> ItemAnswer {
    ItemAnswer { label: label.to_owned(), comment: comment.to_owned(), program: Some(program.to_owned()) }
}

fn open(fixture: &Fixture, overlap: usize) -> Session {
    let (writer, _) = fixture.open();
    let name = forms_to_fill(writer.ledger()).unwrap().pop().unwrap();
    let form = Form::read(writer.ledger(), &name).unwrap().unwrap();
    let sandbox = TestSandbox { programs: Box::new(FakePrograms), limits: Limits::default() };
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
        assert!(
            !session.begin_test("ann", item, "assert fails", ""),
            "the answer before testing comes first"
        );
        let untested = |label, program, is_change, at| {
            let answer = item_answer(label, "", program);
            session.answer("ann", item, Stage::Untested, &answer, is_change, at).unwrap()
        };
        let tested = |label, comment, program, at| {
            let answer = item_answer(label, comment, program);
            session.answer("ann", item, Stage::Final, &answer, false, at).unwrap()
        };
        assert_eq!(tested("yes", "no program", "", start), Submission::OutOfTurn);
        assert_eq!(untested("yes", "assert", false, start + minute), Submission::New);
        assert_eq!(untested("yes", "", false, start + minute), Submission::Known, "sent twice");
        assert_eq!(
            (session.next("ann", start).unwrap().number, session.stage("ann", item)),
            (item, Stage::Final)
        );
        assert_eq!(session.next("bob", start).unwrap().number, 2, "the item is still that of ann");
        // Before the test, an answer can be changed.
        assert_eq!(untested("cannot tell", "", true, start), Submission::New);
        assert_eq!(untested("yes", "", true, start), Submission::New);

        assert_eq!(tested("no", " ", "", start), Submission::NoReason);
        assert_eq!(tested("no", "", "assert 1", start), Submission::NotRun);
        assert!(session.begin_test("ann", item, "assert fails", "a comment"));
        assert!(!session.begin_test("ann", item, "assert 2", ""), "one at a time");
        session.run_test("ann");
        let draft = session.test("ann", item).unwrap();
        assert!(matches!(&draft.state, TestState::Ran(_, RunResult::Failed)), "{draft:?}");
        assert_eq!((draft.source.as_str(), draft.comment.as_str()), ("assert fails", "a comment"));
        assert_eq!(tested("no", "", "assert 1", start), Submission::NotRun, "it is another one");
        assert_eq!(session.last("ann"), None);
        let other = untested("no", "", true, start);
        assert!(matches!(other, Submission::Other(_)), "what was said before a test stays");
        let end = start + minute * 3;
        // Nor after the test of another item, whose program takes the place of this one.
        assert_eq!(
            session.answer("ann", 2, Stage::Untested, &item_answer("no", "", ""), false, start).unwrap(),
            Submission::New
        );
        assert!(session.begin_test("ann", 2, "assert 2", ""));
        session.run_test("ann");
        assert!(matches!(untested("no", "", true, start), Submission::Other(_)));
        assert!(session.begin_test("ann", item, "assert fails", ""));
        session.run_test("ann");
        assert_eq!(tested("no", "", "assert fails", end), Submission::New);
        assert_eq!(session.last("ann").unwrap().1, Stage::Final);
        // Code that is sent back unchanged is not a program.
        let code = shown_columns(&session.item(2).unwrap().subject)[1].1.clone();
        assert!(!session.begin_test("ann", 2, &code, ""));
        let second = |stage, given: &ItemAnswer| session.answer("ann", 2, stage, given, false, end).unwrap();
        assert_eq!(second(Stage::Final, &item_answer("no", "", &code)), Submission::NoReason);
        assert_eq!(second(Stage::Final, &item_answer("no", "it reads a file", &code)), Submission::New);
        assert_eq!(session.finished(), (2, 2));
    }
    // Answers in the ledger are known when it is opened again.
    let session = open(&fixture, 2);
    assert!(session.next("ann", start).is_none());
    let late = session.answer("ann", 1, Stage::Untested, &item_answer("no", "", ""), true, start).unwrap();
    assert!(matches!(late, Submission::Other(_)), "{late:?}");
    // An answer given before a restart may have been given before a test.
    let first = |session: &Session, given: &ItemAnswer| {
        session.answer("bob", 1, Stage::Untested, given, true, start).unwrap()
    };
    assert_eq!(first(&session, &item_answer("yes", "", "")), Submission::New);
    drop(session);
    let session = open(&fixture, 2);
    assert!(matches!(first(&session, &item_answer("no", "", "")), Submission::Other(_)));
    assert_eq!(session.last("bob"), None);
    let after = session.answer_of("ann", 1, Stage::Final).unwrap();
    assert_eq!((after.label.as_str(), after.program.as_deref()), ("no", Some("assert fails")));
    assert_eq!(session.answer_of("ann", 1, Stage::Untested).unwrap().label, "yes");
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
        (3, 2, 1)
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
                let kept =
                    session.answer(person, number, Stage::Final, &item_answer(label, "", ""), false, later);
                assert_eq!(kept.unwrap(), Submission::New);
            }
        }
        let overview = session.overview(&["ann".to_owned(), "eva".to_owned()]).unwrap();
        assert_eq!((overview.finished, overview.items, overview.disputed), (4, 4, 2));
        assert_eq!((overview.people[0].answered, overview.people[1].answered), (4, 0));
        assert_eq!((overview.people[0].median_minutes, overview.people[1].median_minutes), (Some(0.5), None));
        assert!((overview.people[0].total_minutes - 2.0).abs() < 1e-9);
        // Three pairs of two ratings, one of which differs: 1 - 5 * 2 / (2 * 3 * 3), because "cannot tell" is not a rating.
        let [FormAgreement { name: "label", is_untested: false, items: 3, alpha: Some(alpha) }] =
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
        assert_eq!(session.adjudicate(3, &item_answer("perhaps", "", "")).unwrap(), Submission::Unknown);
        assert_eq!(session.adjudicate(3, &item_answer("Y", "because", "")).unwrap(), Submission::New);
        assert_eq!(session.adjudicate(3, &item_answer("yes", "because", "")).unwrap(), Submission::Known);
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
    assert_eq!(PeopleLabels::read(writer.ledger()).unwrap().replies.len(), 8);
}

/// Three people give each item three values by a guideline; the lines of the export, and the items in dispute.
fn labeled(fixture: &Fixture, guideline: &str, given: &[[&str; 3]]) -> (Vec<Value>, Vec<i64>, FormAgreement) {
    let at_most = Some(given.len());
    fixture.export("form.jsonl", guideline, false, Sampling { at_most, ..Sampling::default() });
    let session = open(fixture, 3);
    for (number, labels) in (1..).zip(given) {
        for (person, label) in ["ann", "bob", "cyd"].into_iter().zip(labels) {
            let (answer, now) = (item_answer(label, "", ""), Instant::now());
            let kept = session.answer(person, number, Stage::Final, &answer, false, now);
            assert_eq!(kept.unwrap(), Submission::New);
        }
    }
    let lines = session.export().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let disputes = session.disputes().unwrap().iter().map(|dispute| dispute.item.number).collect();
    (lines, disputes, session.overview(&[]).unwrap().agreement[0].clone())
}

#[test]
fn people_agree_by_label_and_not_by_value() {
    let fixture = Fixture::new();
    let given = [["3"; 3], ["4"; 3], ["1", "2", "3"], ["5", "6", "7"], ["1", "1", "5"], ["0", "0", "4"]];
    let (lines, disputes, agreement) = labeled(&fixture, "cosqa", &given);
    let labels: Vec<Option<i64>> = lines.iter().map(|line| line["label"].as_i64()).collect();
    assert_eq!(labels, [Some(1), Some(1), Some(1), Some(0), Some(1), None]);
    let values: Vec<Option<&str>> = lines.iter().map(|line| line["value"].as_str()).collect();
    assert_eq!(values, [Some("3"), Some("4"), None, None, Some("1"), Some("0")]);
    assert_eq!(disputes, [5, 6]);
    assert_eq!((agreement.name, agreement.items), ("label", 5));
    // Five items with 11 labels 1 and 4 labels 0, of which the fifth disagrees: 1 - 14 * 2 / (2 * 11 * 4).
    assert!((agreement.alpha.unwrap() - (1.0 - 14.0 * 2.0 / 88.0)).abs() < 1e-9, "{agreement:?}");
    // The study removes only what people disagree on by label.
    let (writer, judge) = fixture.open();
    let gathered = gather(&[writer.ledger()], &[]).unwrap();
    let options = StudyOptions { min_alpha: Some(0.0), ..fixture.study_options() };
    let study = Study::new(&gathered, &options);
    let fifth = lines[4]["id"].as_str().unwrap();
    let removed: Vec<&str> = study.removed.iter().map(|(pair, _)| pair.as_str()).collect();
    assert_eq!(removed, [fifth]);
    // The file's labels and people's differ where they should.
    // The file's labels and people's differ where they should.
    let candidates = candidates(writer.ledger(), judge).unwrap();
    let expected = lines.iter().filter(|line| {
        let id: usize = line["id"].as_str().unwrap().parse().unwrap();
        let file = i64::from(!id.is_multiple_of(3));
        line["label"].as_i64().is_some_and(|label| label != file)
            || line["id"] == fifth
            || line["value"] == "0" && file == 0
    });
    assert_eq!(candidates.iter().filter(|candidate| candidate.disputed).count(), expected.count());
}

#[test]
fn two_of_query4codes_classes_are_positive() {
    let given = [["3"; 3], ["2"; 3], ["1"; 3], ["0"; 3], ["3", "2", "2"], ["2", "1", "0"]];
    let (lines, disputes, _) = labeled(&Fixture::new(), "query4code", &given);
    let labels: Vec<Option<i64>> = lines.iter().map(|line| line["label"].as_i64()).collect();
    assert_eq!(labels, [Some(1), Some(1), Some(0), Some(0), Some(1), Some(0)]);
    assert_eq!(disputes, [6]);
}

#[test]
fn values_without_labels_are_compared_themselves() {
    let given = [["3"; 3], ["3", "2", "2"], ["0", "1", "2"]];
    let (lines, disputes, agreement) = labeled(&Fixture::new(), "relevance", &given);
    assert!(lines.iter().all(|line| line.get("label").is_none()));
    let values: Vec<Option<&str>> = lines.iter().map(|line| line["value"].as_str()).collect();
    assert_eq!((values, disputes), (vec![Some("3"), Some("2"), None], vec![2, 3]));
    assert_eq!(agreement.name, "scale");
}
