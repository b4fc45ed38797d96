//! Forms from export to study, with a sandbox that runs nothing.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::atomic::AtomicBool;

use quarry_judge::ledger::{GeneratedStatus, NewCode};
use quarry_judge::{Outcome, Programs, RunResult, audit};
use quarry_people::{
    AnswersOptions, Guideline, ImportRequest, PeopleLabels, Sampling, candidates, export_answers,
    export_generated, export_pairs,
};
use quarry_sandbox::Limits;
use serde_json::{Value, json};

use crate::fake::{Emptied, FakePrograms};
use crate::fixture::{Fixture, by, decide, pair};

#[test]
fn what_comes_back_from_a_spreadsheet_is_what_was_given() {
    let fixture = Fixture::new();
    let path = fixture.export("form.csv", "cosqa-plus", false, Sampling::default());
    let text = fs::read_to_string(&path).unwrap();
    // No cell begins like a formula, and no label or source is revealed.
    assert!(text.starts_with('\u{feff}') && !text.contains("openai") && !text.contains("cosqa-plus"));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    assert_eq!(
        reader.headers().unwrap().iter().collect::<Vec<_>>(),
        ["form", "item", "query", "code", "language", "label", "minutes", "comment"]
    );
    let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 12);
    for cell in records.iter().flat_map(|record| record.iter()) {
        assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{cell}");
    }
    // As a spreadsheet saves it: semicolons, other line breaks, trailing blanks trimmed, the apostrophe kept or
    // dropped.
    let mut writer =
        csv::WriterBuilder::new().delimiter(b';').terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer
        .write_record(["form", "item", "query", "code", "language", "Label", "minutes", "comment"])
        .unwrap();
    for (key, record) in records.iter().enumerate() {
        let mut cells: Vec<String> =
            record.iter().map(|cell| cell.trim_end().replace('\n', "\r\n")).collect();
        if key % 2 == 0 {
            cells[2] = cells[2].trim_start_matches('\'').to_owned();
        }
        (cells[5], cells[6], cells[7]) =
            (["Yes", "0", ""][key % 3].to_owned(), "1,5".to_owned(), "=a, \"b\"".to_owned());
        if key % 3 == 2 {
            (cells[6], cells[7]) = Default::default();
        }
        writer.write_record(&cells).unwrap();
    }
    fs::write(&path, writer.into_inner().unwrap()).unwrap();
    let found = fixture.import(&path, &by("ann")).unwrap();
    assert_eq!((found.filled, found.blank, found.new, found.unchanged), (8, 4, 8, 0));
    let again = fixture.import(&path, &ImportRequest { date: None, ..by("ann") }).unwrap();
    assert_eq!((again.new, again.unchanged, again.revised), (0, 8, 0));
    let (writer, _) = fixture.open();
    let replies = PeopleLabels::read(writer.ledger()).unwrap().replies;
    assert_eq!(replies.len(), 8);
    assert!(
        replies
            .iter()
            .all(|reply| reply.minutes == Some(1.5) && reply.comment == "=a, \"b\"" && !reply.tests)
    );
}

#[test]
fn wrong_rows_are_all_named_and_nothing_is_taken() {
    let fixture = Fixture::new();
    let path = fixture.export("form.jsonl", "query4code", true, Sampling::default());
    let mut key = 0;
    let mut twice = String::new();
    fixture.fill(&path, |_, row| {
        key += 1;
        row["label"] = json!(3);
        row["test_program"] = json!("assert f(1) == 1");
        match key {
            1 => row["label"] = json!("4"),
            2 => row["form"] = json!("nothing"),
            3 => row["item"] = json!(13),
            4 => row["code"] = json!("def other f0():"),
            5 => row["minutes"] = json!("long"),
            6 => row["test_program"] = json!(""),
            7 => row["label"] = Value::Null,
            8 => drop(row.insert("date".to_owned(), json!("31.3.2026"))),
            9 => twice = Value::Object(row.clone()).to_string(),
            _ => {}
        }
    });
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}\n{twice}\n")).unwrap();
    let error = fixture.import(&path, &by("ann")).unwrap_err().to_string();
    assert!(error.contains("nothing was imported; invalid rows: 9"), "{error}");
    for words in [
        ":1: expected one of 3, 2, 1, 0 as label, found \"4\"",
        ":2: expected in the column form the name of a form",
        ":3: expected 1 to 12 in the column item",
        ":4: the text of the column code has changed since the form was exported",
        ":5: expected a number of minutes, such as 1.5, found \"long\"",
        ":6: expected a test program",
        ":7: the column test_program is filled in but label is not",
        ":8: expected a date such as 2026-03-31",
        ":13: ann already labeled item 9 in line 9",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    let error = fixture.import(&path, &ImportRequest::default()).unwrap_err().to_string();
    assert_eq!(error.matches("give --by NAME").count(), 1, "{error}");
    fs::write(&path, b"form,item\n\xff,1\n").unwrap();
    let error = fixture.import(&path, &by("ann")).unwrap_err().to_string();
    assert!(error.contains(":2: expected UTF-8 text"), "{error}");
    let (writer, _) = fixture.open();
    assert!(PeopleLabels::read(writer.ledger()).unwrap().replies.is_empty() && fixture.opened.get() == 0);
}

#[test]
fn test_programs_run_once_and_are_kept() {
    let fixture = Fixture::new();
    let path = fixture.export(
        "form.jsonl",
        "cosqa-plus",
        true,
        Sampling { at_most: Some(6), ..Sampling::default() },
    );
    assert!(fs::read_to_string(fixture.path("form.md")).unwrap().contains("Test programs"));
    let mut key = 0;
    fixture.fill(&path, |_, row| {
        key += 1;
        row["label"] = json!("yes");
        let programs = [
            "import yaml\nimport rich\nassert f(1)\nassert f(2)",
            "assert f(1), 'fails'",
            "none",
            "import nowhere",
        ];
        row["test_program"] = json!(programs[if key == 6 { 3 } else { key % 3 }]);
    });
    let found = fixture.import(&path, &by("ann")).unwrap();
    assert_eq!(found.programs, [("passed", 1), ("failed", 2), ("missing_package", 1)].into());
    assert_eq!((found.new, fixture.opened.get()), (6, 1));
    // An audit runs them again, too, except those that could not run the first time.
    let (writer, judge) = fixture.open();
    let audited = |programs: &dyn Programs| {
        let stop = AtomicBool::new(false);
        audit(writer.ledger(), judge, programs, &Limits::default(), 2, &stop).unwrap()
    };
    let found = audited(&FakePrograms);
    assert_eq!((found.runs, found.of_people, found.holds()), (4, 4, true), "{found:?}");
    let found = audited(&Emptied);
    let changed: Vec<_> = found.changed.iter().map(|found| (found.person.as_deref(), found.before)).collect();
    let of = |result: RunResult| changed.iter().filter(|(_, before)| *before == result).count();
    let counts = [RunResult::Passed, RunResult::Failed, RunResult::MissingPackage].map(of);
    assert_eq!((changed.len(), counts), (4, [1, 2, 1]), "{found:?}");
    assert!(found.changed.iter().all(|found| found.now == RunResult::NoAssertions), "{found:?}");
    drop(writer);
    // The second time, nothing is run; a different reply requires `revise`, and the first one stays in the ledger.
    assert_eq!((fixture.import(&path, &by("ann")).unwrap().unchanged, fixture.opened.get()), (6, 1));
    let mut key = 0;
    fixture.fill(&path, |_, row| {
        key += 1;
        if key == 1 {
            row["label"] = json!("no");
        }
    });
    let error = fixture.import(&path, &by("ann")).unwrap_err().to_string();
    assert!(
        error.contains("ann answered \"yes\" for this item before") && error.contains("--revise"),
        "{error}"
    );
    let revised = fixture.import(&path, &ImportRequest { revise: true, ..by("ann") }).unwrap();
    assert_eq!((revised.new, revised.revised, revised.unchanged), (1, 1, 5));
    // Bob replies the same for all.
    assert_eq!(fixture.import(&path, &by("bob")).unwrap().new, 6);
    let study = fixture.study();
    let rows: HashMap<&str, (usize, usize)> =
        study.programs.iter().map(|row| (row.people.as_str(), (row.labels, row.programs))).collect();
    assert_eq!(rows["ann, with tests"], (6, 4));
    assert_eq!(study.programs[0].mean_tests, Some(1.0));
    assert_eq!(study.agreement[0].alpha, Some(1.0));
}

#[test]
fn who_says_the_same_twice_is_one() {
    let fixture = Fixture::new();
    let label = |name: &str, seed: u64, says: fn(usize) -> &'static str| {
        let path = fixture.export(name, "query4code", false, Sampling { seed, ..Sampling::default() });
        fixture.fill(&path, |number, row| {
            (row["label"], row["minutes"]) = (json!(says(number)), json!("1"));
        });
        assert_eq!(fixture.import(&path, &by("ann")).unwrap().new, 12);
    };
    label("first.jsonl", 1, |_| "3");
    label("second.jsonl", 2, |number| if number < 5 { "0" } else { "3" });
    let study = fixture.study();
    assert_eq!((study.programs[0].labels, study.programs[0].timed), (12, 12));
    // The last reply counts, and a changed reply is not a dispute.
    assert_eq!((study.scores[0].items, study.scores[0].mean), (12, 7.0 * 3.0 / 12.0));
    let disputed = Sampling { disputed: true, ..Sampling::default() };
    let path = fixture.export("disputed.jsonl", "cosqa-plus", false, disputed);
    // The file labels every third 0.
    let mut numbers = Vec::new();
    fixture.fill(&path, |number, _| numbers.push(number));
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 4, 6, 9]);
}

#[test]
fn pairs_are_chosen_by_what_is_known_of_them() {
    let fixture = Fixture::new();
    fixture.judge();
    let chosen = |name: &str, sampling: Sampling| {
        let path = fixture.export(name, "cosqa-plus", false, sampling);
        let mut numbers = HashSet::new();
        fixture.fill(&path, |number, _| {
            numbers.insert(number);
        });
        let mut numbers: Vec<usize> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers
    };
    let all = Sampling::default();
    assert_eq!(chosen("a.jsonl", Sampling { unresolved: true, ..all }), [10, 11]);
    // The judge says yes to even numbers, the file no to every third.
    assert_eq!(chosen("b.jsonl", Sampling { disputed: true, ..all }), [0, 1, 5, 6, 7]);
    assert_eq!(chosen("c.jsonl", Sampling { per_verdict: Some(2), ..all }).len(), 6);
    // People's labels count too.
    let path = fixture.export("d.jsonl", "cosqa-plus", false, all);
    fixture.fill(&path, |number, row| row["label"] = json!(if number == 2 { "no" } else { "" }));
    fixture.import(&path, &by("ann")).unwrap();
    assert_eq!(chosen("e.jsonl", Sampling { disputed: true, ..all }), [0, 1, 2, 5, 6, 7]);
    let (writer, judge) = fixture.open();
    let none = Sampling { tested: Some(true), ..all };
    let guideline = Guideline::named("cosqa-plus").unwrap();
    let error = export_pairs(&writer, judge, guideline, &none, false, &fixture.path("f.csv")).unwrap_err();
    assert!(error.to_string().contains("nothing to export"), "{error}");
    let guideline = Guideline::named("preference").unwrap();
    let error = export_pairs(&writer, judge, guideline, &all, false, &fixture.path("f.csv")).unwrap_err();
    assert!(error.to_string().contains("--side NAME=PATH twice"), "{error}");
}

#[test]
fn generated_code_is_reviewed() {
    let fixture = Fixture::new();
    let prompt = fixture.plan().judge.prompts().next().unwrap().version.clone();
    {
        let (writer, judge) = fixture.open();
        for number in 0..4 {
            let new = NewCode {
                judge,
                query_id: number.to_string(),
                query: format!("question {number}"),
                code: format!("def f{number}(): pass"),
                language: "python".to_owned(),
                round: 1,
                model: "a model".to_owned(),
                prompt: prompt.clone(),
                request: None,
                status: GeneratedStatus::Generated,
                person: None,
            };
            writer.add_generated(new).unwrap();
        }
    }
    let (out, guideline) = (fixture.path("code.jsonl"), || Guideline::named("generated").unwrap());
    let export = |name: &str| {
        let (writer, judge) = fixture.open();
        export_generated(&writer, judge, guideline(), None, 1, &fixture.path(name))
    };
    assert_eq!(export("code.jsonl").unwrap().rows, 4);
    assert!(!fs::read_to_string(&out).unwrap().contains("a model"));
    fixture.fill(&out, |number, row| row["label"] = json!(["approve", "edit", "reject", ""][number]));
    let error = fixture.import(&out, &by("ann")).unwrap_err().to_string();
    assert!(error.contains("invalid rows: 1\n") && error.contains("edited_code"), "{error}");
    fixture.fill(&out, |number, row| {
        if number == 1 {
            row["edited_code"] = json!("\ndef f1():\n    return 1\n");
        }
    });
    assert_eq!(fixture.import(&out, &by("ann")).unwrap().new, 3);
    assert_eq!(fixture.import(&out, &by("ann")).unwrap().unchanged, 3);
    // Two people's edits do not overwrite each other.
    fixture.fill(&out, |number, row| row["edited_code"] = json!(["", "def f1(): 1", "", ""][number]));
    let error = fixture.import(&out, &by("bob")).unwrap_err().to_string();
    assert!(
        error.contains("invalid rows: 1\n") && error.contains("ann left this code edited, but bob"),
        "{error}"
    );
    let (writer, judge) = fixture.open();
    let generated = writer.ledger().generated(judge).unwrap();
    let mut found: Vec<(&str, &str, GeneratedStatus, bool)> = (generated.iter())
        .map(|code| (code.pair.query_id.as_str(), code.pair.code.as_str(), code.status, code.is_accepted()))
        .collect();
    found.sort_by_key(|code| code.0);
    assert_eq!(
        found,
        [
            ("0", "def f0(): pass", GeneratedStatus::Approved, true),
            ("1", "def f1():\n    return 1", GeneratedStatus::Edited, true),
            ("2", "def f2(): pass", GeneratedStatus::Rejected, false),
            ("3", "def f3(): pass", GeneratedStatus::Generated, false),
        ]
    );
    drop(writer);
    let row = &fixture.study().reviews[0];
    assert_eq!((row.model.as_str(), row.approved, row.edited, row.rejected), ("a model", 1, 1, 1));
    // Reviewed codes are not exported again.
    assert_eq!(export("rest.jsonl").unwrap().rows, 1);
}

#[test]
fn a_study_needs_no_people() {
    let fixture = Fixture::new();
    fixture.judge();
    {
        let (writer, judge) = fixture.open();
        let number = candidates(writer.ledger(), judge).unwrap()[10].number;
        decide(&writer, judge, number, Outcome::Unresolved);
    }
    let study = fixture.study();
    // Of ten pairs the file labels 0, 3, 6 and 9 with 0; the judge agrees on 2, 3, 4, 8 and 9.
    let row = &study.against_file[0];
    assert_eq!((row.accuracy.hits, row.accuracy.of, row.pairs), (5, 10, 11));
    assert!(study.annotators.is_empty());
}

#[test]
fn a_judge_is_studied_where_people_labeled_or_the_file() {
    let fixture = Fixture::new();
    let pairs = (0..12).map(|number| {
        let mut pair = pair(number);
        if number > 0 {
            pair["label"] = Value::Null;
        }
        pair.to_string()
    });
    fs::write(fixture.path("pairs.jsonl"), pairs.collect::<Vec<_>>().join("\n")).unwrap();
    fixture.judge();
    let path = fixture.export("form.jsonl", "cosqa-plus", false, Sampling::default());
    fixture
        .fill(&path, |number, row| row["label"] = json!(if (4..7).contains(&number) { "yes" } else { "" }));
    fixture.import(&path, &by("ann")).unwrap();
    let study = fixture.study();
    assert_eq!((study.pairs, study.against_file[0].pairs), (4, 1));
    // Of 4, 5 and 6, the judge accepts the even ones.
    let model = study.annotators.iter().find(|row| row.annotator == "model").unwrap();
    let accuracy = model.exact.accuracy.unwrap();
    assert_eq!((accuracy.hits, accuracy.of), (2, 3));
}

#[test]
fn two_data_sets_are_compared_blind() {
    let fixture = Fixture::new();
    // The new data set has its own answers, except for one query with the same; one query is missing in it.
    let (old, new): (Vec<Value>, Vec<Value>) = (0..9)
        .map(|number| {
            let mut new = pair(number);
            if number != 4 {
                new["code"] = json!(format!("class f{number}(x): pass"));
            }
            (pair(number), new)
        })
        .map(|(mut old, mut new)| {
            (old["label"], new["label"]) = (json!(1), json!(1));
            (old, new)
        })
        .unzip();
    let lines = |pairs: &[Value]| pairs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    fs::write(fixture.path("old.jsonl"), lines(&old)).unwrap();
    fs::write(fixture.path("new.jsonl"), lines(&new[..8])).unwrap();
    let sides = ["old", "new"].map(|name| (name.to_owned(), fixture.path(&format!("{name}.jsonl"))));
    let options =
        AnswersOptions { benchmark: None, split: "test".to_owned(), top: 1, at_most: None, seed: 1 };
    let mut left = HashSet::new();
    let mut vote = |name: &str, seed: u64| {
        let out = fixture.path(name);
        {
            let (writer, _) = fixture.open();
            let guideline = Guideline::named("preference").unwrap();
            let options = AnswersOptions { seed, ..options.clone() };
            let exported = export_answers(&writer, guideline, &sides, &options, &out).unwrap();
            assert_eq!((exported.rows, exported.same), (7, 1));
        }
        let text = fs::read_to_string(&out).unwrap();
        assert!(!text.contains("\"old\"") && !text.contains("\"new\""));
        fixture.fill(&out, |number, row| {
            let new_is_a = row["a"].as_str().unwrap().starts_with("class");
            left.insert(new_is_a);
            // The new one wins, except for query 0, which is tied, and 1.
            row["label"] = json!(match (number, new_is_a) {
                (0, _) => "tie",
                (1, true) | (2.., false) => "b",
                (1, false) | (2.., true) => "A",
            });
        });
        fixture.import(&out, &by("ann")).unwrap();
        let study = fixture.study();
        let found = &study.preferences[0];
        assert_eq!(
            (found.systems.clone(), found.votes, found.queries),
            (["new".into(), "old".into()], [5, 1, 1], [5, 1, 1])
        );
    };
    vote("sides.jsonl", 1);
    // A person who is asked the same again still has one vote per query.
    vote("again.jsonl", 2);
    assert_eq!(left.len(), 2, "sides are drawn");

    let bad = [("x".to_owned(), fixture.path("old.jsonl")), ("x".to_owned(), fixture.path("new.jsonl"))];
    let (writer, _) = fixture.open();
    let guideline = Guideline::named("preference").unwrap();
    let error = export_answers(&writer, guideline, &bad, &options, &fixture.path("x.csv")).unwrap_err();
    assert!(error.to_string().contains("both sides are called"), "{error}");
}

#[test]
fn lists_of_a_run_are_rated() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("bench")).unwrap();
    let documents: Vec<String> = (0..4)
        .map(|n| {
            json!({"_id": format!("d{n}"), "title": "", "text": format!("def f{n}(x): pass")}).to_string()
        })
        .collect();
    fs::write(fixture.path("bench/corpus.jsonl"), documents.join("\n")).unwrap();
    fs::write(fixture.path("bench/queries.jsonl"), "{\"_id\": \"q\", \"text\": \"a question\"}\n").unwrap();
    fs::write(fixture.path("run"), "q Q0 d1 1 0.5 x\nq Q0 d3 2 0.9 x\nq Q0 d0 3 0.5 x\n").unwrap();
    let sides = [("bm25".to_owned(), fixture.path("run"))];
    let options =
        |benchmark| AnswersOptions { benchmark, split: "test".to_owned(), top: 2, at_most: None, seed: 1 };
    let out = fixture.path("lists.jsonl");
    {
        let (writer, _) = fixture.open();
        let guideline = || Guideline::named("results").unwrap();
        let error = export_answers(&writer, guideline(), &sides, &options(None), &out).unwrap_err();
        assert!(error.to_string().contains("--benchmark"), "{error}");
        export_answers(&writer, guideline(), &sides, &options(Some(fixture.path("bench"))), &out).unwrap();
    }
    let row: Value = serde_json::from_str(fs::read_to_string(&out).unwrap().trim()).unwrap();
    // Best first, equal scores by descending id.
    assert_eq!(row["results"], json!("[1]\ndef f3(x): pass\n\n[2]\ndef f1(x): pass"));
    for (person, label) in [("ann", 3), ("bob", 2)] {
        fixture.fill(&out, |_, row| row["label"] = json!(label));
        fixture.import(&out, &by(person)).unwrap();
    }
    let found = &fixture.study().systems[0];
    assert_eq!((found.system.as_str(), found.lists, found.mean), ("bm25", 1, 2.5));
}
