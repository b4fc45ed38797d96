//! Methods of `quarry eval` that run models of others, as a user runs them: a server on loopback, a recording, files.

use std::fs;
use std::path::Path;

use crate::fixture::{Fixture, stderr, stdout};
use quarry_test_support::model_server::{Reply, Seen, Server, completion};
use serde_json::{Value, json};

const WORDS: [&str; 4] = ["read", "sort", "parse", "copy"];
const METHOD: &str = r#"api(tiny, query = "ask: ", document = "code: ")"#;

/// A benchmark with a document for each of the words, and a question about each.
fn benchmark() -> Fixture {
    let lines = |line: &dyn Fn(&str) -> Value| WORDS.map(|word| line(word).to_string()).join("\n");
    let qrels = WORDS.map(|word| format!("q-{word}\t{word}\t1\n")).concat();
    Fixture::with(&[
        ("corpus.jsonl", &lines(&|word| json!({"_id": word, "text": format!("def {word}_it(): pass")}))),
        (
            "queries.jsonl",
            &lines(&|word| json!({"_id": format!("q-{word}"), "text": format!("please {word}")})),
        ),
        ("qrels/test.tsv", &format!("query-id\tcorpus-id\tscore\n{qrels}")),
    ])
}

/// Embeds a text as how often each of the words is in it, and a little of everything.
fn server() -> Server {
    Server::script(|_, seen: &Seen| {
        let texts = seen.body["input"].as_array().unwrap();
        let vector = |text: &str| WORDS.map(|word| text.matches(word).count() as f32 * 3.0 + 0.25);
        let data: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| json!({"index": index, "embedding": vector(text.as_str().unwrap())}))
            .collect();
        Reply::ok(json!({"data": data, "usage": {"prompt_tokens": 7, "total_tokens": 7}}))
    })
}

/// Exit code, standard output, standard error.
fn eval(fixture: &Fixture, arguments: &str, environment: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = fixture.command(&format!("eval . --json {arguments}"));
    let output = command.env_remove("OPENAI_API_KEY").envs(environment.iter().copied()).output().unwrap();
    (output.status.code().unwrap(), stdout(&output), stderr(&output))
}

#[track_caller]
fn metrics(fixture: &Fixture, arguments: &str) -> Value {
    let (code, stdout, stderr) = eval(fixture, arguments, &[]);
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str::<Value>(&stdout).unwrap()
}

#[track_caller]
fn check_refused(fixture: &Fixture, arguments: &str, message: &str) {
    let (code, stdout, stderr) = eval(fixture, arguments, &[]);
    assert!(code == 2 && stdout.is_empty() && stderr.contains(message), "{code} {stdout} {stderr}");
}

#[test]
fn a_servers_vectors_are_kept_recorded_and_replayed() {
    let (fixture, server) = (benchmark(), server());
    fixture.write("tree/endpoint.toml", &format!("base_url = \"{}\"\ninput_price = 1", server.url()));
    let cached = format!("--method '{METHOD}' --llm endpoint.toml --llm cache=kept --llm budget=1");
    let first = metrics(&fixture, &format!("{cached} --llm record=answers.jsonl"));
    assert_eq!((&first["metrics"]["mrr"], &first["method"]), (&json!(1.0), &json!(METHOD)));
    assert!(first["model"].as_str().unwrap().contains("(tiny)"), "{}", first["model"]);
    let sent: Vec<String> = server
        .seen()
        .iter()
        .flat_map(|seen| seen.body["input"].as_array().unwrap().clone())
        .map(|text| text.as_str().unwrap().to_owned())
        .collect();
    let expected =
        |prefix: &str, text: &dyn Fn(&str) -> String| WORDS.map(|word| prefix.to_owned() + &text(word));
    for text in expected("ask: ", &|word| format!("please {word}")) {
        assert_eq!(sent.iter().filter(|sent| **sent == text).count(), 1, "{text} {sent:?}");
    }
    for text in expected("code: ", &|word| format!("def {word}_it(): pass")) {
        assert_eq!(sent.iter().filter(|sent| **sent == text).count(), 1, "{text} {sent:?}");
    }
    // Again, from the cache; and from the recording, without a server and without a cache.
    let n_sent = server.count();
    assert_eq!(metrics(&fixture, &cached)["metrics"], first["metrics"]);
    assert_eq!(server.count(), n_sent);
    drop(server);
    let replayed = "--llm endpoint.toml --llm replay=answers.jsonl --llm cache=false --method";
    assert_eq!(metrics(&fixture, &format!("{replayed} '{METHOD}'"))["metrics"], first["metrics"]);
    // The same settings as a table of the user's, whose paths are relative to its file.
    let endpoint = fixture.read("tree/endpoint.toml");
    let table = format!("[llm.kept]\nreplay = \"../../tree/answers.jsonl\"\ncache = false\n{endpoint}\n");
    fixture.write("config/quarry/config.toml", &table);
    let named = format!("--method '{METHOD}' --llm");
    assert_eq!(metrics(&fixture, &format!("{named} kept"))["metrics"], first["metrics"]);
    check_refused(&fixture, &format!("{named} other"), "which has [\"kept\"]");
    let both = format!("{named} record=other.jsonl --llm replay=answers.jsonl");
    check_refused(&fixture, &both, "record and replay exclude each other");
    let fused = metrics(&fixture, &format!("{replayed} 'zscore(bm25, 0.5 * {METHOD})'"));
    assert_eq!(fused["metrics"]["mrr"], 1.0);
    check_refused(&fixture, &format!("{replayed} api:tiny"), "answers.jsonl: no recorded answer");
}

/// Says True where the function has the word that the query asks for; of one pair it says what nobody can read.
fn chat_server() -> Server {
    Server::script(|_, seen: &Seen| {
        let asked = seen.body["messages"][0]["content"].as_str().unwrap();
        let said =
            |mark: &str| WORDS.into_iter().find(|word| asked.contains(&format!("{mark}{word}"))).unwrap();
        let (query, code) = (said("please "), said("def "));
        let answer = match (query, code) {
            ("copy", "read") => "Who knows",
            _ if query == code => "True",
            _ => "False",
        };
        Reply::ok(completion(answer, 20, 1))
    })
}

#[test]
fn a_chat_model_matches_pairs_once_within_the_budget_and_is_replayed() {
    let (fixture, server) = (benchmark(), chat_server());
    let settings = format!("base_url = \"{}\"\ninput_price = 1\noutput_price = 2", server.url());
    fixture.write("tree/endpoint.toml", &settings);
    let endpoint = "--llm endpoint.toml --llm cache=kept --method";
    let first = metrics(&fixture, &format!("{endpoint} chat:tiny --llm budget=1 --llm record=answers.jsonl"));
    assert_eq!((&first["metrics"]["mrr"], &first["method"]), (&json!(1.0), &json!("chat:tiny")));
    let model = first["model"].as_str().unwrap();
    assert!(model.contains("(tiny)") && model.contains("gencodesearchnet-query"), "{model}");
    // Sixteen pairs; what cannot be read is asked once more.
    assert_eq!(server.count(), 17);
    let asked = server.seen()[0].body["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(asked.contains("[CODESPLIT]") && asked.contains("Python"), "{asked}");
    assert_eq!(metrics(&fixture, &format!("{endpoint} chat:tiny"))["metrics"], first["metrics"]);
    assert_eq!(server.count(), 17);
    // Only the candidates of another method are asked about.
    let reranked = "'rerank(bm25, chat(tiny, language = go), depth = 2)'";
    assert_eq!(metrics(&fixture, &format!("{endpoint} {reranked}"))["metrics"]["mrr"], 1.0);
    assert!((25..=26).contains(&server.count()), "{}", server.count());
    let replayed = "--llm endpoint.toml --llm cache=false --llm replay=answers.jsonl --method chat:tiny";
    assert_eq!(metrics(&fixture, replayed)["metrics"], first["metrics"]);
    let budget = "--llm endpoint.toml --llm cache=false --llm token_budget=1 --method chat:tiny";
    check_refused(&fixture, budget, "budget");
    check_refused(&fixture, &format!("{endpoint} 'chat(tiny, judge = agents)'"), "does not run programs");
    check_refused(&fixture, &format!("{endpoint} 'chat(tiny, judge = x)'"), "query4code");

    // Matching of labeled pairs, as in GenCodeSearchNet.
    let pair = |number: usize, query: &str, code: &str| {
        json!({"idx": number.to_string(), "doc": format!("please {query}"), "code": format!("def {code}_it(): pass"),
               "label": u8::from(query == code)})
    };
    let pairs =
        [pair(0, "read", "read"), pair(1, "sort", "copy"), pair(2, "copy", "copy"), pair(3, "copy", "read")];
    fixture.write("tree/pairs.json", &Value::from(pairs.to_vec()).to_string());
    let output =
        fixture.succeed(&format!("eval protocol pair-matching --pairs pairs.json --json {replayed}"));
    let table: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(table.to_string().contains("\"accuracy\":1"), "{table}");
}

#[test]
fn the_environment_names_the_server_and_a_budget_holds() {
    let (fixture, server) = (benchmark(), server());
    let method = "--method 'rerank(bow, api:tiny, depth = 2)'";
    let environment =
        [("OPENAI_BASE_URL", server.url()), ("OPENAI_API_KEY", "sk-test-0123456789".to_owned())];
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let (code, _, stderr) = eval(&fixture, method, &environment);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("calls of a server") && !stderr.contains("sk-test"), "{stderr}");
    assert!(
        server.seen().iter().all(|seen| seen.headers.contains("authorization: bearer sk-test-0123456789"))
    );
    assert!(fixture.path("cache/quarry/embeddings/answers").is_dir());
    let limited = format!("{method} --llm token_budget=1 --llm cache=false");
    let (code, _, stderr) = eval(&fixture, &limited, &environment);
    assert!(code == 2 && stderr.contains("budget"), "{stderr}");
    check_refused(&fixture, "--method api:tiny", "OPENAI_API_KEY");
    check_refused(&fixture, "--method api:tiny --llm none.toml", "none.toml");
    fixture.write("tree/wrong.toml", "retries = 3");
    check_refused(&fixture, "--method api:tiny --llm wrong.toml", "retries");
    check_refused(&fixture, "--method bow --llm budget=-1", "expected a budget in dollars");
    fixture.write("tree/key.toml", "key_variable = 'sk-live-0123456789abcdef'");
    let (code, _, stderr) = eval(&fixture, "--method api:tiny --llm key.toml", &[]);
    assert!(code == 2 && stderr.contains("`key_variable` is not the name"), "{stderr}");
    assert!(!stderr.contains("sk-live"), "{stderr}");
}

#[test]
fn a_transformer_embeds_each_text_once() {
    let fixture = benchmark();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/tiny-bert");
    let method = format!("--method {}", model.display());
    let kept_in = |cache: &str| format!("{method} --llm cache={cache}");
    let first = metrics(&fixture, &kept_in("kept"));
    let lengths = || -> Vec<u64> {
        let mut files: Vec<_> =
            fs::read_dir(fixture.path("tree/kept")).unwrap().map(|entry| entry.unwrap()).collect();
        files.sort_by_key(|entry| entry.file_name());
        files.iter().map(|entry| entry.metadata().unwrap().len()).collect()
    };
    let kept = lengths();
    assert!(kept.len() == 2 && kept[0] == kept[1] && kept[0] > 32, "{kept:?}");
    assert_eq!(metrics(&fixture, &kept_in("kept"))["metrics"], first["metrics"]);
    assert_eq!(lengths(), kept);
    assert_eq!(metrics(&fixture, &kept_in("false"))["metrics"], first["metrics"]);
    fixture.write("tree/file", "");
    check_refused(&fixture, &kept_in("file"), "file: cannot be created");
}

#[test]
fn a_run_is_a_method_and_a_wrong_expression_is_pointed_at() {
    let fixture = benchmark();
    let written = metrics(&fixture, "--method bm25 --run bm25.run");
    assert_eq!(metrics(&fixture, "--method run:bm25.run")["metrics"], written["metrics"]);
    let fused = metrics(&fixture, "--method 'rrf(run:bm25.run, overlap, k = 1)'");
    assert_eq!(fused["method"], "rrf(run:bm25.run, overlap, k = 1)");
    check_refused(
        &fixture,
        "--method 'rrf(bm25, static'",
        "expected a , or ) at character 17, found the end",
    );
    check_refused(&fixture, "--method no/such/model", "is neither a method nor the path of a model");
    check_refused(&fixture, "--method run:none", "none");
}

#[test]
fn a_plan_measures_the_same_model_of_another_server_again() {
    let (fixture, servers) = (benchmark(), [server(), server()]);
    let plan = r#"
        title = "Servers"
        [[datasets]]
        name = "Words"
        files = { benchmark = "." }
        methods = ["bow", "api:tiny"]
        baseline = "bow"
    "#;
    // Beside the data, which are hashed with what lies among them.
    fixture.write("plans/plan.toml", plan);
    for (server, name) in servers.iter().zip(["one.toml", "two.toml"]) {
        fixture.write(&format!("plans/{name}"), &format!("base_url = \"{}\"", server.url()));
    }
    let known = |endpoint: &str| {
        let options = format!("--llm cache=false --llm ../plans/{endpoint} --data .");
        let output = fixture.succeed(&format!("eval run ../plans/plan.toml {options}"));
        stderr(&output).lines().filter(|line| line.ends_with("(already measured)")).count()
    };
    assert_eq!((known("one.toml"), servers[0].count() > 0, servers[1].count()), (0, true, 0));
    let n_asked = servers[0].count();
    assert_eq!((known("one.toml"), servers[0].count()), (2, n_asked));
    // Methods that need no server are not measured again.
    assert_eq!((known("two.toml"), servers[0].count(), servers[1].count()), (1, n_asked, n_asked));
    assert_eq!(known("one.toml"), 2);
}
