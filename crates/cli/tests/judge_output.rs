//! Output of `quarry judge` with hostile texts, and without values.

use crate::fixture::{Fixture, check_error, stderr, stdout};
use quarry_test_support::model_server::{Reply, Server, completion};
use serde_json::{Value, json};

/// A model that says yes, and a plan with these entries of its model and these pairs.
fn judged(entries: &str, pairs: &[Value]) -> (Fixture, Server) {
    let server =
        Server::script(|_, _| Reply::ok(completion("preliminary_screening: 1, explanation: x", 100, 10)));
    let fixture = Fixture::new();
    let lines: Vec<String> = pairs.iter().map(Value::to_string).collect();
    fixture.write("tree/pairs.jsonl", &lines.join("\n"));
    let plan = format!(
        "pairs = ['pairs.jsonl']\njudge = 'screener'\n[model]\nprovider = 'openai-compatible'\nbase_url = '{}'\n\
         model = 'm'\n{entries}\n",
        server.url()
    );
    fixture.write("tree/plan.toml", &plan);
    (fixture, server)
}

fn pair(number: usize) -> Value {
    json!({"id": format!("p{number}"), "query": format!("query {number}"), "code": format!("def f{number}(): pass"), "language": "python"})
}

#[test]
fn ids_do_not_speak_to_the_terminal() {
    let mut pair = pair(1);
    let evil = "a\u{1b}]0;x\u{7}\u{9b}2J\rb";
    for member in ["id", "query_id", "code_id", "language", "query"] {
        pair[member] = json!(evil);
    }
    let (fixture, _server) = judged("", &[pair]);
    fixture.succeed("judge run plan.toml");
    for arguments in [
        &["judge", "show", "plan.toml"][..],
        &["judge", "show", "plan.toml", evil],
        &["judge", "status", "plan.toml"],
    ] {
        let shown = fixture.succeed(arguments);
        let text = stdout(&shown) + &stderr(&shown);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
    assert!(fixture.stdout(&["judge", "show", "plan.toml", evil]).contains("pair a\\u{1b}]0;x"));
}

#[test]
fn models_without_a_price_cost_no_dollars() {
    let pairs: Vec<Value> = (0..3).map(pair).collect();
    for (entries, dollars) in [("", Value::Null), ("input_price = 1.0\noutput_price = 2.0", json!(0.00036))] {
        let (fixture, _server) = judged(entries, &pairs);
        let dry = fixture.run("judge run plan.toml --dry-run");
        let run = fixture.succeed("judge run plan.toml");
        let printed = [stderr(&dry), stdout(&run), stderr(&run), fixture.stdout("judge show plan.toml p1")];
        assert_eq!(printed.concat().contains('$'), !dollars.is_null(), "{printed:?}");
        let status = fixture.json("judge status plan.toml --json");
        assert_eq!((&status["spent"]["tokens"], &status["spent"]["dollars"]), (&json!(330), &dollars));
        assert_eq!(status["per_pair"]["clear"]["dollars"].is_null(), dollars.is_null());
    }
}

#[test]
fn an_estimate_needs_no_key() {
    let (fixture, server) = judged("key_variable = 'QUARRY_TEST_NO_SUCH_KEY'", &[pair(1)]);
    let dry = fixture.run("judge run plan.toml --dry-run");
    assert!(dry.status.success() && stderr(&dry).contains("1 pair to judge"), "{}", stderr(&dry));
    fixture.check_error("judge run plan.toml", "QUARRY_TEST_NO_SUCH_KEY");
    assert_eq!(server.count(), 0);
}

#[test]
fn an_error_prints_its_cause_once() {
    let (fixture, _server) = judged("", &[pair(1)]);
    let plan = fixture.read("tree/plan.toml");
    fixture.write("tree/file", "");
    fixture.write("tree/plan.toml", &format!("cache = 'file/cache'\n{plan}"));
    let run = fixture.run("judge run plan.toml");
    check_error(&run, "the answer cache cannot be written");
    assert_eq!(stderr(&run).matches("Not a directory").count(), 1, "{}", stderr(&run));
}

#[test]
fn an_export_takes_the_options_that_it_recommends() {
    let (fixture, _server) = judged("", &[pair(1)]);
    assert!(fixture.run("judge run plan.toml").status.success());
    fixture.succeed("judge export plan.toml out --to trec-qrels --grades max");
}
