//! Methods of `quarry eval` that run models of others, as a user runs them: a server on loopback, a recording, files.

use std::fs;
use std::path::Path;
use std::process::Command;

use quarry_test_support::files;
use quarry_test_support::model_server::{Reply, Seen, Server, completion};
use serde_json::{Value, json};
use tempfile::TempDir;

const WORDS: [&str; 4] = ["read", "sort", "parse", "copy"];
const METHOD: &str = r#"api(tiny, query = "ask: ", document = "code: ")"#;

/// A benchmark with a document for each of the words, and a question about each.
fn benchmark() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let lines = |line: &dyn Fn(&str) -> Value| WORDS.map(|word| line(word).to_string()).join("\n");
    let write = |name: &str, text: String| files::write(directory.path().join(name), text);
    write("corpus.jsonl", lines(&|word| json!({"_id": word, "text": format!("def {word}_it(): pass")})));
    write(
        "queries.jsonl",
        lines(&|word| json!({"_id": format!("q-{word}"), "text": format!("please {word}")})),
    );
    let qrels = WORDS.map(|word| format!("q-{word}\t{word}\t1\n")).concat();
    write("qrels/test.tsv", format!("query-id\tcorpus-id\tscore\n{qrels}"));
    directory
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
fn eval(directory: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_quarry"))
        .args(["eval", ".", "--json"])
        .args(arguments)
        .current_dir(directory)
        .env_remove("OPENAI_API_KEY")
        .env("XDG_CACHE_HOME", directory.join("home-cache"))
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn metrics(directory: &Path, arguments: &[&str]) -> Value {
    let (code, stdout, stderr) = eval(directory, arguments, &[]);
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str::<Value>(&stdout).unwrap()
}

#[track_caller]
fn check_refused(directory: &Path, arguments: &[&str], message: &str) {
    let (code, stdout, stderr) = eval(directory, arguments, &[]);
    assert!(code == 2 && stdout.is_empty() && stderr.contains(message), "{code} {stdout} {stderr}");
}

#[test]
fn a_servers_vectors_are_kept_recorded_and_replayed() {
    let (directory, server) = (benchmark(), server());
    let path = directory.path();
    fs::write(path.join("endpoint.toml"), format!("base_url = \"{}\"\ninput_price = 1", server.url()))
        .unwrap();
    let cached = ["--method", METHOD, "--llm", "endpoint.toml", "--llm", "cache=kept", "--llm", "budget=1"];
    let first = metrics(path, &[&cached[..], &["--llm", "record=answers.jsonl"]].concat());
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
    assert_eq!(metrics(path, &cached)["metrics"], first["metrics"]);
    assert_eq!(server.count(), n_sent);
    drop(server);
    let replayed =
        ["--llm", "endpoint.toml", "--llm", "replay=answers.jsonl", "--llm", "cache=false", "--method"];
    assert_eq!(metrics(path, &[&replayed[..], &[METHOD]].concat())["metrics"], first["metrics"]);
    // The same settings as a table of the user's, whose paths are relative to its file.
    let endpoint = fs::read_to_string(path.join("endpoint.toml")).unwrap();
    let config = path.join("config");
    fs::create_dir_all(config.join("quarry")).unwrap();
    let table = format!("[llm.kept]\nreplay = \"../../answers.jsonl\"\ncache = false\n{endpoint}\n");
    fs::write(config.join("quarry/config.toml"), table).unwrap();
    let user = [("XDG_CONFIG_HOME", config.to_str().unwrap())];
    let (code, stdout, stderr) = eval(path, &["--method", METHOD, "--llm", "kept"], &user);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap()["metrics"], first["metrics"]);
    let (code, _, stderr) = eval(path, &["--method", METHOD, "--llm", "other"], &user);
    assert!(code == 2 && stderr.contains("which has [\"kept\"]"), "{stderr}");
    let both = ["--method", METHOD, "--llm", "record=other.jsonl", "--llm", "replay=answers.jsonl"];
    check_refused(path, &both, "record and replay exclude each other");
    let fused = format!("zscore(bm25, 0.5 * {METHOD})");
    assert_eq!(metrics(path, &[&replayed[..], &[&fused]].concat())["metrics"]["mrr"], 1.0);
    check_refused(path, &[&replayed[..], &["api:tiny"]].concat(), "answers.jsonl: no recorded answer");
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
    let (directory, server) = (benchmark(), chat_server());
    let path = directory.path();
    fs::write(
        path.join("endpoint.toml"),
        format!("base_url = \"{}\"\ninput_price = 1\noutput_price = 2", server.url()),
    )
    .unwrap();
    let endpoint = ["--llm", "endpoint.toml", "--llm", "cache=kept"];
    let recorded = ["--llm", "budget=1", "--llm", "record=answers.jsonl", "--method", "chat:tiny"];
    let first = metrics(path, &[&endpoint[..], &recorded].concat());
    assert_eq!((&first["metrics"]["mrr"], &first["method"]), (&json!(1.0), &json!("chat:tiny")));
    let model = first["model"].as_str().unwrap();
    assert!(model.contains("(tiny)") && model.contains("gencodesearchnet-query"), "{model}");
    // Sixteen pairs; what cannot be read is asked once more.
    assert_eq!(server.count(), 17);
    let asked = server.seen()[0].body["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(asked.contains("[CODESPLIT]") && asked.contains("Python"), "{asked}");
    assert_eq!(
        metrics(path, &[&endpoint[..], &["--method", "chat:tiny"]].concat())["metrics"],
        first["metrics"]
    );
    assert_eq!(server.count(), 17);
    // Only the candidates of another method are asked about.
    let reranked = ["--method", "rerank(bm25, chat(tiny, language = go), depth = 2)"];
    assert_eq!(metrics(path, &[&endpoint[..], &reranked].concat())["metrics"]["mrr"], 1.0);
    assert!((25..=26).contains(&server.count()), "{}", server.count());
    let replayed = ["--llm", "endpoint.toml", "--llm", "cache=false", "--llm", "replay=answers.jsonl"];
    assert_eq!(
        metrics(path, &[&replayed[..], &["--method", "chat:tiny"]].concat())["metrics"],
        first["metrics"]
    );
    let budget = [&endpoint[..2], &["--llm", "cache=false", "--llm", "token_budget=1"]].concat();
    check_refused(path, &[&budget[..], &["--method", "chat:tiny"]].concat(), "budget");
    check_refused(
        path,
        &[&endpoint[..], &["--method", "chat(tiny, judge = agents)"]].concat(),
        "does not run programs",
    );
    check_refused(path, &[&endpoint[..], &["--method", "chat(tiny, judge = x)"]].concat(), "query4code");

    // Matching of labeled pairs, as in GenCodeSearchNet.
    let pair = |number: usize, query: &str, code: &str| {
        json!({"idx": number.to_string(), "doc": format!("please {query}"), "code": format!("def {code}_it(): pass"),
               "label": u8::from(query == code)})
    };
    let pairs =
        [pair(0, "read", "read"), pair(1, "sort", "copy"), pair(2, "copy", "copy"), pair(3, "copy", "read")];
    fs::write(path.join("pairs.json"), Value::from(pairs.to_vec()).to_string()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_quarry"))
        .args([
            "eval",
            "protocol",
            "pair-matching",
            "--pairs",
            "pairs.json",
            "--method",
            "chat:tiny",
            "--json",
        ])
        .args(replayed)
        .current_dir(path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(table.to_string().contains("\"accuracy\":1"), "{table}");
}

#[test]
fn the_environment_names_the_server_and_a_budget_holds() {
    let (directory, server) = (benchmark(), server());
    let path = directory.path();
    let method = ["--method", "rerank(bow, api:tiny, depth = 2)"];
    let environment =
        [("OPENAI_BASE_URL", server.url()), ("OPENAI_API_KEY", "sk-test-0123456789".to_owned())];
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let (code, _, stderr) = eval(path, &method, &environment);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("calls of a server") && !stderr.contains("sk-test"), "{stderr}");
    assert!(
        server.seen().iter().all(|seen| seen.headers.contains("authorization: bearer sk-test-0123456789"))
    );
    assert!(path.join("home-cache/quarry/embeddings/answers").is_dir());
    let (code, _, stderr) = eval(
        path,
        &[&method[..], &["--llm", "token_budget=1", "--llm", "cache=false"]].concat(),
        &environment,
    );
    assert!(code == 2 && stderr.contains("budget"), "{stderr}");
    check_refused(path, &["--method", "api:tiny"], "OPENAI_API_KEY");
    check_refused(path, &["--method", "api:tiny", "--llm", "none.toml"], "none.toml");
    fs::write(path.join("wrong.toml"), "retries = 3").unwrap();
    check_refused(path, &["--method", "api:tiny", "--llm", "wrong.toml"], "retries");
    check_refused(path, &["--method", "bow", "--llm", "budget=-1"], "expected a budget in dollars");
    fs::write(path.join("key.toml"), "key_variable = 'sk-live-0123456789abcdef'").unwrap();
    let (code, _, stderr) = eval(path, &["--method", "api:tiny", "--llm", "key.toml"], &[]);
    assert!(code == 2 && stderr.contains("`key_variable` is not the name"), "{stderr}");
    assert!(!stderr.contains("sk-live"), "{stderr}");
}

#[test]
fn a_transformer_embeds_each_text_once() {
    let directory = benchmark();
    let path = directory.path();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/tiny-bert");
    let method = ["--method", model.to_str().unwrap(), "--llm", "cache=kept"];
    let first = metrics(path, &method);
    let lengths = || -> Vec<u64> {
        let mut files: Vec<_> =
            fs::read_dir(path.join("kept")).unwrap().map(|entry| entry.unwrap()).collect();
        files.sort_by_key(|entry| entry.file_name());
        files.iter().map(|entry| entry.metadata().unwrap().len()).collect()
    };
    let kept = lengths();
    assert!(kept.len() == 2 && kept[0] == kept[1] && kept[0] > 32, "{kept:?}");
    assert_eq!((metrics(path, &method)["metrics"].clone(), lengths()), (first["metrics"].clone(), kept));
    assert_eq!(
        metrics(path, &[&method[..2], &["--llm", "cache=false"]].concat())["metrics"],
        first["metrics"]
    );
    fs::write(path.join("file"), "").unwrap();
    check_refused(path, &[&method[..2], &["--llm", "cache=file"]].concat(), "file: cannot be created");
}

#[test]
fn a_run_is_a_method_and_a_wrong_expression_is_pointed_at() {
    let directory = benchmark();
    let path = directory.path();
    let written = metrics(path, &["--method", "bm25", "--run", "bm25.run"]);
    assert_eq!(metrics(path, &["--method", "run:bm25.run"])["metrics"], written["metrics"]);
    let fused = metrics(path, &["--method", "rrf(run:bm25.run, overlap, k = 1)"]);
    assert_eq!(fused["method"], "rrf(run:bm25.run, overlap, k = 1)");
    check_refused(
        path,
        &["--method", "rrf(bm25, static"],
        "expected a , or ) at character 17, found the end",
    );
    check_refused(path, &["--method", "no/such/model"], "is neither a method nor the path of a model");
    check_refused(path, &["--method", "run:none"], "none");
}

#[test]
fn a_plan_measures_the_same_model_of_another_server_again() {
    let (directory, servers) = (benchmark(), [server(), server()]);
    let plan = r#"
        title = "Servers"
        [[datasets]]
        name = "Words"
        files = { benchmark = "." }
        methods = ["bow", "api:tiny"]
        baseline = "bow"
    "#;
    // Beside the data, which are hashed with what lies among them.
    let plans = tempfile::tempdir().unwrap();
    fs::write(plans.path().join("plan.toml"), plan).unwrap();
    for (server, name) in servers.iter().zip(["one.toml", "two.toml"]) {
        fs::write(plans.path().join(name), format!("base_url = \"{}\"", server.url())).unwrap();
    }
    let known = |endpoint: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_quarry"))
            .args(["eval", "run", "plan.toml", "--llm", "cache=false", "--llm", endpoint, "--data"])
            .arg(directory.path())
            .current_dir(plans.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        stderr.lines().filter(|line| line.ends_with("(already measured)")).count()
    };
    assert_eq!((known("one.toml"), servers[0].count() > 0, servers[1].count()), (0, true, 0));
    let n_asked = servers[0].count();
    assert_eq!((known("one.toml"), servers[0].count()), (2, n_asked));
    // Methods that need no server are not measured again.
    assert_eq!((known("two.toml"), servers[0].count(), servers[1].count()), (1, n_asked, n_asked));
    assert_eq!(known("one.toml"), 2);
}
