//! Code that a model writes for queries without a correct candidate, from plan to ledger and export.

use std::fs;
use std::sync::atomic::AtomicBool;

use crate::fixture::options::{Fixture, ModelRequest, model};
use crate::fixture::wanted;
use quarry_judge::ledger::{GeneratedStatus, NewCode, Writer};
use quarry_judge::{Event, JudgeError, JudgeReport};
use quarry_test_support::model_server::{Reply, Server, completion};
use serde_json::{Value, json};

/// A model that acts as a judge that requires `right` in the code, and as a writer that uses the judge's feedback.
fn writer(asked: &ModelRequest<'_>) -> String {
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
            false => Reply::ok(completion("{\"analysis\": \"x\", \"judgement\": \"no\"}", 100, 10)),
        }
    });
    let queries: Vec<String> = (0..100).map(|number| format!("question {number}")).collect();
    let pairs: Vec<(&str, &str)> = queries.iter().map(|query| (query.as_str(), "def f(): pass")).collect();
    let fixture = Fixture::new(&server.url(), &pairs);
    let plan = fixture.plan("judge = 'cosqa-plus'", &["m"], "");
    fixture.run(&plan).unwrap();
    let judged = server.count();
    let error = fixture.prepare(&plan).generate(&AtomicBool::new(false), &|| ()).unwrap_err();
    assert!(matches!(error, JudgeError::Failures { .. }), "{error}");
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
    // Before judging, no query is known to lack a correct candidate.
    let generation = generate();
    assert_eq!((generation.queries, generation.open, server.count()), (0, 4, 0));
    fixture.run(&plan).unwrap();
    assert_eq!(server.count(), 5);
    let generation = generate();
    assert_eq!((generation.queries, generation.open, generation.unanswered), (3, 0, 1));
    assert_eq!(generation.answered, [(1, 1), (2, 1)].into());
    // Written and judged once for one query, twice for the others.
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
    assert_eq!(JudgeReport::new(ledger.counts(judge, &plan.judge).unwrap()).pairs, 5);
    let history = ledger.history(judge, &generated[0].pair.id).unwrap().unwrap();
    assert!(matches!(&history.steps[0].event, Event::Answer(answer) if answer.prompt == "cosqa-plus"));

    let write = |to: &str| {
        let out = fixture.path(to);
        quarry_judge::export(&ledger, judge, &wanted(to, false), &out).unwrap();
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
    write("beir");
    assert!(fixture.path("beir.generated.jsonl").exists());
    drop(ledger);

    // People's reviews take precedence over the judge, and are not overwritten.
    let person = |query: &str, code: &str, status| {
        let candidate = generated.iter().find(|code| code.pair.query == query).unwrap();
        let writer = Writer::open(&plan.ledger).unwrap();
        let new = NewCode {
            judge,
            query_id: candidate.pair.query_id.clone(),
            query: query.to_owned(),
            code: code.to_owned(),
            language: "python".to_owned(),
            round: candidate.round,
            model: candidate.model.clone(),
            prompt: candidate.prompt.clone(),
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
fn generated_code_is_exported_for_listed_queries_without_an_answer() {
    let server = model(|asked| writer(&asked));
    let fixture = Fixture::new(
        &server.url(),
        &[("easy", "def c(): pass"), ("easy too", "def d(): pass"), ("easy three", "def e(): pass")],
    );
    let plan = fixture.plan("judge = 'cosqa-plus'", &["m"], "");
    let exported = |name: &str| {
        let (ledger, judge) = fixture.ledger(&plan);
        let out = fixture.path(name);
        quarry_judge::export(&ledger, judge, &wanted("cosqa-plus", false), &out).unwrap();
        let pairs: Vec<Value> = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
        let ids = |pair: &Value| ["query-idx", "code-idx"].map(|name| pair[name].as_i64().unwrap());
        let mut found: Vec<_> = pairs.iter().filter(|pair| pair["label"] == 1).map(ids).collect();
        found.sort_unstable();
        found
    };
    fixture.run(&plan).unwrap();
    fixture.prepare(&plan).generate(&AtomicBool::new(false), &|| ()).unwrap();
    // The same code was written for all three queries, and is exported once.
    assert_eq!(exported("all"), [[0, 3], [1, 3], [2, 3]]);
    // One query is no longer in the plan, another has a correct candidate.
    let text = fs::read_to_string(fixture.path("pairs.jsonl")).unwrap();
    let mut lines: Vec<&str> = text.lines().take(2).collect();
    let answer = lines[0].replace("def c(): pass", "def f(): return right").replace("idx\":0", "idx\":7");
    let answer = answer.replace("query-idx\":7", "query-idx\":0");
    lines.push(&answer);
    fs::write(fixture.path("pairs.jsonl"), lines.join("\n")).unwrap();
    fixture.run(&plan).unwrap();
    assert_eq!(exported("fewer"), [[0, 7], [1, 8]]);
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
