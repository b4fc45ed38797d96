//! Results of a run: the report, and the labels as data sets.

use std::fs;

use crate::fixture::{Fixture, answer, honest, pair, wanted};
use quarry_corpus::dataset::convert::Grades;
use quarry_judge::{ExportRequest, JudgeReport, PerPair, PerPairs, export};
use quarry_test_support::model_server::{Reply, Server, completion};
use serde_json::{Value, json};

/// The report on nine pairs, of which six are clear, if the model answers `task` with `says`.
fn report_where(task: &'static str, says: impl Fn() -> Reply + Send + Sync + 'static) -> JudgeReport {
    let server = Server::script(move |_, seen| {
        match seen.body["messages"][0]["content"].as_str().unwrap().contains(task) {
            true => says(),
            false => Reply::ok(answer(seen).1),
        }
    });
    JudgeReport::new(Fixture::new(9, &server.url()).run().unwrap())
}

#[test]
fn unfinished_pairs_are_in_no_share() {
    // The arbiter fails: three pairs have a test program and no verdict.
    let report = report_where("final_verdict", || Reply::status(400, "{\"error\": \"not today\"}"));
    assert_eq!((report.waiting, report.tested, report.executable_rate), (3, 0, None));
    assert_eq!((report.clear, report.clear_share), (6, Some(1.0)));
    let PerPairs { clear, unclear } = report.per_pair;
    assert_eq!((clear.pairs, clear.tokens, unclear), (6, 110.0, PerPair::default()));
    // Their answers were paid for all the same.
    assert!(report.cost.tokens > 6 * 110);
}

#[test]
fn a_pair_without_a_program_is_not_clear() {
    let report = report_where("You write tests", || Reply::ok(completion("```python\n\n```", 100, 10)));
    assert_eq!((report.waiting, report.tested, report.without_program), (0, 0, 3));
    assert_eq!((report.clear, report.clear_share, report.executable_rate), (6, Some(6.0 / 9.0), Some(0.0)));
    assert_eq!((report.per_pair.unclear.pairs, report.per_pair.clear.tokens), (3, 110.0));
}

#[test]
fn unresolved_pairs_are_not_clear() {
    let server = Server::script(|_, _| Reply::ok(completion("I do not know", 100, 10)));
    let mut fixture = Fixture::new(4, &server.url());
    fixture.entries[0] = "judge = 'cosqa'".into();
    let report = JudgeReport::new(fixture.run().unwrap());
    assert_eq!((report.outcomes["unresolved"], report.clear_share), (4, Some(0.0)));
    assert_eq!((report.per_pair.clear.pairs, report.per_pair.unclear.pairs), (0, 4));
}

#[test]
fn labels_become_data_sets() {
    let server = honest();
    let fixture = Fixture::new(12, &server.url());
    let refused = |split: &'static str| {
        let (ledger, judge) = fixture.ledger();
        let wanted = ExportRequest { split, ..wanted("beir", false) };
        export(&ledger, judge, &wanted, &fixture.path("refused")).unwrap_err().to_string()
    };
    drop(fixture.prepare().unwrap());
    assert!(refused("test").contains("no pair has a label yet"));
    fixture.run().unwrap();
    assert!(refused("../test").contains("a name as the split"));
    let (ledger, judge) = fixture.ledger();
    let exported = |to: &str, graded: bool| {
        let out = fixture.path(&format!("{to}-{graded}"));
        export(&ledger, judge, &wanted(to, graded), &out).unwrap()
    };
    let write = |to: &str, graded: bool| {
        exported(to, graded);
        fixture.path(&format!("{to}-{graded}"))
    };
    // Omitted pairs are counted.
    let matches = exported("advtest", false);
    assert_eq!(matches.files[0].to_string(), format!("{}: 6 pairs", fixture.path("advtest-false").display()));
    assert_eq!((matches.negatives, matches.unlabeled, matches.foreign, matches.ungraded), (6, 0, 0, 0));
    assert_eq!(exported("trec-qrels", true).ungraded, 12);
    let pairs: Value =
        serde_json::from_str(&fs::read_to_string(write("cosqa-plus", false)).unwrap()).unwrap();
    let pairs = pairs.as_array().unwrap();
    assert_eq!((pairs.len(), &pairs[3]["label"], &pairs[3]["pair-idx"]), (12, &json!(1), &json!(3)));
    assert_eq!((&pairs[1]["label"], &pairs[1]["code"]), (&json!(0), &json!("def subject1(): pass")));
    let qrels = fs::read_to_string(write("trec-qrels", false)).unwrap();
    assert_eq!(qrels.lines().count(), 12);
    assert!(qrels.contains("0\t0\t3\t1") && qrels.contains("0\t0\t1\t0"), "{qrels}");
    for graded in [false, true] {
        let beir = write("beir", graded);
        assert_eq!(fs::read_to_string(beir.join("queries.jsonl")).unwrap().lines().count(), 3);
        assert_eq!(fs::read_to_string(beir.join("qrels/test.tsv")).unwrap().lines().count(), 13);
    }
}

#[test]
fn an_export_recommends_what_it_can_do() {
    let server = honest();
    let fixture = Fixture::new(0, &server.url());
    // One query and one code under two ids, of which one has another label.
    let pair = |id: &str| json!({"id": id, "query_id": "q", "query": "q", "code_id": "c", "code": "subject0", "language": "python"});
    fixture.write_pairs(&[pair("a"), pair("b")]);
    fixture.run().unwrap();
    let rows = rusqlite::Connection::open(fixture.plan().ledger).unwrap();
    rows.execute_batch("DROP TRIGGER no_UPDATE_of_verdicts; UPDATE verdicts SET outcome = 'no' WHERE pair = (SELECT max(pair) FROM pairs)").unwrap();
    drop(rows);
    let (ledger, judge) = fixture.ledger();
    let exported = |to: &str, grades: Grades| {
        let wanted = ExportRequest { grades, ..wanted(to, false) };
        export(&ledger, judge, &wanted, &fixture.path(&format!("{to}-{grades:?}")))
    };
    let error = exported("trec-qrels", Grades::Refuse).unwrap_err().to_string();
    assert!(error.contains("with --grades"), "{error}");
    exported("trec-qrels", Grades::Max).unwrap();
    let text = fs::read_to_string(fixture.path("trec-qrels-Max")).unwrap();
    assert_eq!(text, "q\t0\tc\t1\n");
    // Only label 0, for a format that holds positive pairs.
    let rows = rusqlite::Connection::open(fixture.plan().ledger).unwrap();
    rows.execute_batch("UPDATE verdicts SET outcome = 'no'").unwrap();
    drop(rows);
    let error = exported("advtest", Grades::Refuse).unwrap_err().to_string();
    assert!(error.contains("label 0 in each of 2 pairs") && !error.contains("--unlabeled"), "{error}");
}

#[test]
fn an_export_says_what_it_lacks() {
    let server = Server::script(|_, seen| match answer(seen) {
        (0 | 4, _) => Reply::status(400, "{\"error\": \"not today\"}"),
        (_, body) => Reply::ok(body),
    });
    let fixture = Fixture::new(9, &server.url());
    let pairs: Vec<Value> = (0..9)
        .map(|number| {
            let mut pair = pair(number);
            pair["language"] = json!(if number < 6 { "python" } else { "javascript" });
            pair
        })
        .collect();
    fixture.write_pairs(&pairs);
    fixture.run().unwrap();
    let (ledger, judge) = fixture.ledger();
    let foreign = |to: &str| {
        let exported = export(&ledger, judge, &wanted(to, false), &fixture.path(to)).unwrap();
        assert_eq!(exported.unlabeled, 2);
        exported.foreign
    };
    // One of the pairs in JavaScript has label 1.
    assert_eq!([foreign("advtest"), foreign("cosqa-qa"), foreign("cosqa-plus")], [1, 3, 0]);
}

#[test]
fn grades_are_exported_where_the_guideline_has_them() {
    let server = Server::script(|_, seen| {
        let (number, _) = answer(seen);
        Reply::ok(completion(
            &format!("{{\"explanation\": \"x\", \"related_score\": \"{}\"}}", number % 4),
            1,
            1,
        ))
    });
    let mut fixture = Fixture::new(4, &server.url());
    fixture.entries[0] = "judge = 'query4code'".into();
    let report = JudgeReport::new(fixture.run().unwrap());
    assert_eq!((report.outcomes["yes"], report.outcomes["no"], report.tested), (2, 2, 0));
    let (ledger, judge) = fixture.ledger();
    let out = fixture.path("qrels");
    export(&ledger, judge, &wanted("trec-qrels", true), &out).unwrap();
    let grades: Vec<String> = fs::read_to_string(out)
        .unwrap()
        .lines()
        .map(|line| line.rsplit('\t').next().unwrap().to_owned())
        .collect();
    assert_eq!(grades, ["0", "1", "2", "3"]);
}

#[test]
fn an_export_keeps_languages_and_distinguishes_queries_by_id() {
    let server = honest();
    let mut fixture = Fixture::new(0, &server.url());
    fixture.entries[0] = "judge = 'screener'".to_owned();
    let pair = |number: usize, query: &str, language: &str| json!({"query": query, "code": format!("subject{number}"), "language": language, "id": format!("p{number}")});
    fixture.write_pairs(&[pair(0, "twice", "js"), pair(1, "once", "Python"), pair(3, "twice", "javascript")]);
    fixture.run().unwrap();
    let (ledger, judge) = fixture.ledger();
    let written = |to: &str| -> Vec<Value> {
        export(&ledger, judge, &wanted(to, false), &fixture.path(to)).unwrap();
        let text = fs::read_to_string(fixture.path(to)).unwrap();
        match text.starts_with('[') {
            true => serde_json::from_str(&text).unwrap(),
            false => text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        }
    };
    let pairs = written("cosqa-plus");
    let queries: Vec<&Value> = pairs.iter().map(|pair| &pair["query-idx"]).collect();
    assert!(queries[0] == queries[2] && queries[0] != queries[1], "{pairs:?}");
    let languages: Vec<&Value> = pairs.iter().map(|pair| &pair["language"]).collect();
    assert_eq!(languages, [&json!("javascript"), &Value::Null, &json!("javascript")]);
    let own = written("query-code");
    let named: Vec<(&Value, &Value)> = own.iter().map(|pair| (&pair["id"], &pair["language"])).collect();
    assert_eq!(named[1], (&json!("p1"), &json!("python")));
    assert_eq!((own[0]["query_id"] == own[2]["query_id"], &own[2]["id"]), (true, &json!("p3")));
}
