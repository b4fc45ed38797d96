//! `quarry model`, with a hub on loopback.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::fixture::{Fixture, check_error, stderr, stdout};
use serde_json::{Value, json};

fn tiny_bert() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/tiny-bert")
}

const FILES: [&str; 8] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    "model.safetensors",
];

/// A hub with one model; `sha256` is what it says of the weights. Its address, and the number of requests.
fn hub(sha256: &'static str, list_more: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let requests = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            requests.fetch_add(1, Ordering::SeqCst);
            drop(answer(stream, sha256, list_more));
        }
    });
    (address, count)
}

fn answer(mut stream: TcpStream, sha256: &str, list_more: &str) -> std::io::Result<()> {
    let lines: Vec<String> =
        BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let path = lines[0].split(' ').nth(1).unwrap_or_default();
    let body = if path == "/api/models/owner/tiny/tree/main?recursive=true" {
        let mut files: Vec<_> = FILES
            .iter()
            .map(|file| {
                let size = fs::metadata(tiny_bert().join(file)).unwrap().len();
                match *file {
                    "model.safetensors" => {
                        json!({"type": "file", "path": file, "size": 134, "lfs": {"oid": sha256, "size": size}})
                    }
                    _ => json!({"type": "file", "path": file, "size": size}),
                }
            })
            .collect();
        files.push(json!({"type": "directory", "path": "1_Pooling"}));
        files.push(json!({"type": "file", "path": "onnx/model.onnx", "size": 1}));
        if !list_more.is_empty() {
            files.push(json!({"type": "file", "path": list_more, "size": 1}));
        }
        Some(json!(files).to_string().into_bytes())
    } else {
        path.strip_prefix("/owner/tiny/resolve/main/").and_then(|file| fs::read(tiny_bert().join(file)).ok())
    };
    let (status, body) = body.map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(&body)
}

const SHA256: &str = "8cb17941fa88d4caef4be3b51fdf6b3c843837d4aa14b3ac20c10dcad1f60094";

#[test]
fn a_model_is_pulled_verified_described_and_then_needs_no_hub() {
    let fixture = Fixture::new();
    let (address, requests) = hub(SHA256, "");
    let arguments = ["model", "pull", "owner/tiny", "--from", &address, "--out", "tiny"];
    let got = fixture.succeed(&arguments);
    assert_eq!(stdout(&got), "tiny\n");
    assert!(
        stderr(&got).contains("model.safetensors: 28,584 bytes, verified\n")
            || stderr(&got).contains("model.safetensors: 28584 bytes, verified\n"),
        "{}",
        stderr(&got)
    );
    assert!(!fixture.path("tree/tiny/onnx").exists() && !fixture.path("tree/tiny/list.json").exists());
    let asked = requests.load(Ordering::SeqCst);
    assert_eq!(asked, 1 + FILES.len());

    fixture.succeed(&arguments);
    assert_eq!(requests.load(Ordering::SeqCst), asked, "what is there is asked for again");

    let info = fixture.run("model list tiny");
    for part in
        ["columns: 16", "kind: bert, 2 layers of 16 columns, 4 heads, 46 tokens", "from: owner/tiny at main"]
    {
        assert!(stdout(&info).contains(part), "{part} in {}", stdout(&info));
    }

    fs::write(fixture.path("tree/tiny/vocab.txt"), "other").unwrap();
    fixture.check_error(&arguments, "vocab.txt: another file has this name");
    let other = ["model", "pull", "owner/other", "--from", &address, "--out", "tiny"];
    fixture.check_error(&other, "has owner/tiny at main");
}

#[test]
fn a_file_with_another_checksum_is_refused() {
    let fixture = Fixture::new();
    let (address, _) = hub("00000000000000000000000000000000000000000000000000000000000000aa", "");
    let pull = format!("model pull owner/tiny --from {address} --out tiny");
    fixture.check_error(&pull, "model.safetensors: expected");
    assert!(!fixture.path("tree/tiny/model.safetensors").exists());
    assert!(!fixture.path("tree/tiny/pulled.json").exists());
}

#[test]
fn a_hub_cannot_write_elsewhere_and_names_are_checked() {
    let fixture = Fixture::new();
    let (address, _) = hub(SHA256, "1_Pooling/../../escaped.json");
    let message = "escaped.json: expected the path of a file in the model's directory";
    fixture.check_error(&format!("model pull owner/tiny --from {address} --out tiny"), message);
    assert!(!fixture.path("tree/escaped.json").exists());
    fixture
        .check_error("model pull tiny", "tiny: expected best, or the name of a model at a hub as owner/name");
    let missing = ["model", "pull", "owner/none", "--from", &address, "--out", "none"];
    assert_eq!(fixture.run(&missing).status.code(), Some(2));
    let builtin = fixture.stdout("model list builtin");
    assert!(builtin.contains("columns: "), "{builtin}");
}

#[test]
fn models_are_listed_with_where_they_are() {
    let fixture = Fixture::new();
    let pulled = fixture.path("cache/quarry/models/owner/tiny");
    fs::create_dir_all(&pulled).unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(tiny_bert().join(name), pulled.join(name)).unwrap();
    }
    fixture.write("cache/quarry/models/owner/tiny/pulled.json", "{}");
    fixture.write("cache/quarry/models/broken/model.bin", "no model");
    let list = fixture.json("model list --json");
    let is_elsewhere = |model: &&Value| model["place"] != "beside";
    let models: Vec<_> = list["models"].as_array().unwrap().iter().filter(is_elsewhere).collect();
    let beside = list["models"].as_array().unwrap().iter().find(|model| !is_elsewhere(model)).unwrap();
    assert_eq!((&beside["name"], &beside["architecture"]), (&json!("best"), &json!("bert")));
    let field = |name: &str| models.iter().map(|model| model[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("name"), [json!("builtin"), json!("broken"), json!("owner/tiny")]);
    assert_eq!(field("place"), [json!("built-in"), json!("copied"), json!("pulled")]);
    assert_eq!(field("architecture"), [json!("static"), json!(null), json!("bert")]);
    assert!(models[1]["problem"].as_str().unwrap().contains("is not a static model"), "{list}");
    let builtin = fixture.stdout("model list builtin");
    assert!(builtin.contains(models[0]["checksum"].as_str().unwrap()), "{builtin}");
    let size = fs::metadata(tiny_bert().join("model.safetensors")).unwrap().len();
    assert_eq!((&models[2]["bytes"], &models[2]["problem"]), (&json!(size), &json!(null)));
    let text = fixture.stdout("model list");
    assert!(text.contains("built in") && text.contains("owner/tiny"), "{text}");
}

#[test]
fn weights_are_written_in_other_forms() {
    let fixture = Fixture::new();
    let model = tiny_bert().display().to_string();
    fixture.write("tree/texts.txt", "open a socket\n\nsort a list of numbers\n");
    let report =
        fixture.json(&format!("model convert {model} --bits 8 --texts texts.txt --out ../int8 --json"));
    let number = |name: &str| report[name].as_f64().unwrap();
    assert_eq!(report["texts"], 2);
    assert!(number("bytes_after") * 2.0 < number("bytes_before"), "{report}");
    assert!(number("minimum_cosine") > 0.99 && number("mean_cosine") < 1.0, "{report}");
    let find =
        |model: &str| fixture.json(&format!("search 'open a socket' --model {model} --threshold 0 --json"));
    assert_eq!(find("../int8")["results"][0]["name"], "connect");

    fixture.succeed(&format!("model convert {model} --out ../same"));
    assert_eq!(find("../same")["results"], find(&model)["results"]);

    fixture.check_error(&format!("model convert {model} --out ../same"), "one that exists");
    fixture.check_error("model convert ../tree --out ../new", "has neither model.safetensors nor");
    assert!(!fixture.path("new").exists());
    // Weights that can be read but are not those of the architecture.
    fs::create_dir(fixture.path("other")).unwrap();
    fs::copy(tiny_bert().join("config.json"), fixture.path("other/config.json")).unwrap();
    let header = r#"{"other":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let weights = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat();
    fs::write(fixture.path("other/model.safetensors"), weights).unwrap();
    let other = fixture.path("other").display().to_string();
    fixture.check_error(&format!("model convert {other} --out ../new"), "cannot be loaded");
    assert!(!fixture.path("new").exists());
    // A cross-encoder is compared by its log-odds, and described.
    let cross_encoder = tiny_bert().with_file_name("tiny-cross-bert").display().to_string();
    let quantize = format!("model convert --bits 8 {cross_encoder} --texts texts.txt --out ../cross8 --json");
    let loss = fixture.json(&quantize);
    assert!(loss["mean_difference"].as_f64().unwrap() <= loss["maximum_difference"].as_f64().unwrap());
    assert!(loss["maximum_difference"].as_f64().unwrap() < 0.2, "{loss}");
    let info = fixture.stdout("model list ../cross8");
    assert!(info.contains("kind: cross-encoder"), "{info}");
    assert!(fixture.stdout("model list best").contains("columns: 384"));
    fixture.write("tree/empty.txt", "\n");
    let empty = format!("model convert --bits 8 {model} --texts empty.txt --out ../new");
    fixture.check_error(&empty, "empty.txt: expected texts");
    fixture.check_error("model convert --bits 8 builtin.bin --texts texts.txt --out ../new", "builtin.bin");
}

#[test]
fn the_model_of_a_quality_reranks_and_is_found_beside_the_program_or_pulled() {
    let fixture = Fixture::new();
    fixture.write(
        "tree/wait.py",
        "def delay(n):\n    \"\"\"Sleep longer after each failed attempt.\"\"\"\n    time.sleep(2 ** n)\n",
    );
    fixture.write(
        "tree/other.py",
        "def attempt(job):\n    \"\"\"Run a job that may have failed.\"\"\"\n    job()\n",
    );
    let search =
        ["search", "wait a little more whenever a request did not work", "--json", "--threshold", "0"];
    let found = fixture.json(&[&search[..], &["--quality", "best"]].concat());
    let first = &found["results"][0];
    assert_eq!(first["path"], "wait.py", "{found}");
    let cosine = first["parts"]["reranker"].as_f64().unwrap();
    assert!(cosine > 0.1, "{first}");
    let former_name = fixture.json(&[&search[..], &["--quality", "balanced"]].concat());
    assert_eq!(former_name["results"], found["results"]);
    assert_eq!(found["quality"], "best");
    let n_units = fixture.json("index --json")["units"].as_u64().unwrap();
    // A search that nobody asked to re-rank computes no vectors.
    let is_fast =
        |found: &Value| found["quality"] == "fast" && found["results"][0]["parts"]["reranker"] == 0.0;
    assert!(is_fast(&fixture.json(&search)));
    assert!(fixture.stderr("index").contains("--quality best` stores vectors of"));
    let state = || fixture.stdout("status");
    let text = state();
    assert!(text.contains(&format!("re-rank  0 of {n_units} units have vectors; mcp, lsp,")), "{text}");
    fixture.write("tree/.quarry.toml", "background_units = 1\n");
    assert!(state().contains("more units than background_units = 1"), "{}", state());
    fixture.write("tree/.quarry.toml", "quality = \"balanced\"\n");
    assert!(fixture.json(&search)["results"][0]["parts"]["reranker"].as_f64().unwrap() > 0.1);
    let ahead = || fixture.json("index --json")["embedded_ahead"].clone();
    assert_eq!((ahead(), ahead()), (json!(n_units), json!(0)));
    let again = &fixture.json(&search)["results"][0];
    assert!((again["parts"]["reranker"].as_f64().unwrap() - cosine).abs() < 0.01, "{again}");
    fixture.write("tree/.quarry.toml", "quality = \"best\"\n");
    assert_eq!(ahead(), json!(0));
    fs::remove_file(fixture.path("tree/.quarry.toml")).unwrap();
    assert_eq!(fixture.json("index --json").get("embedded_ahead"), None);
    // From now on they are used, but for symbols and reports.
    assert!(!fixture.stderr("index").contains("stores vectors"));
    let unasked = fixture.json(&search);
    assert_eq!(unasked["quality"], "best");
    let again = &unasked["results"][0]["parts"]["reranker"];
    assert!((again.as_f64().unwrap() - cosine).abs() < 0.01, "{unasked}");
    assert!(is_fast(&fixture.json(&[&search[..], &["--quality", "fast"]].concat())));
    assert_eq!(fixture.json("search delay --json")["quality"], "fast");
    let report =
        "Traceback (most recent call last):\n  File \"wait.py\", line 3, in delay\nOverflowError: too large";
    assert_eq!(fixture.json(&["search", report, "--json", "--threshold", "0"])["quality"], "fast");
    assert_eq!(fixture.json(&["similar", "wait.py:1", "--json", "--threshold", "0"]).get("quality"), None);
    let holds = &fixture.json("status --json")["holds"];
    assert_eq!(holds["precomputed"].as_object().unwrap().values().collect::<Vec<_>>(), [&json!(n_units)]);
    let text = state();
    assert!(text.contains(&format!("re-rank  {n_units} of {n_units} units have vectors of bert-")), "{text}");

    // Another encoder re-ranks instead, whose vectors are precomputed likewise.
    let tiny = tiny_bert().display().to_string();
    let other = fixture.json(&[&search[..], &["--reranker", &tiny]].concat());
    let cosine = |found: &Value| {
        let is_expected = |result: &&Value| result["path"] == "wait.py";
        found["results"].as_array().unwrap().iter().find(is_expected).unwrap()["parts"]["reranker"]
            .as_f64()
            .unwrap()
    };
    assert_ne!((cosine(&other), cosine(&other)), (0.0, cosine(&found)));
    let precompute = ["index", "--reranker", &tiny, "--json"];
    let ahead = || fixture.json(&precompute)["embedded_ahead"].clone();
    assert_eq!((ahead(), ahead()), (json!(n_units), json!(0)));
    let again = fixture.json(&[&search[..], &["--reranker", &tiny]].concat());
    assert!((cosine(&again) - cosine(&other)).abs() < 0.01, "{again}");
    fixture.check_error(
        &[&search[..], &["--reranker", &tiny, "--quality", "fast"]].concat(),
        "'--reranker <DIR>' cannot be used with '--quality <NAME>'",
    );

    // A cross-encoder comes last.
    let cross_encoder = concat!(env!("CARGO_MANIFEST_DIR"), "/../transformer/tests/fixtures/tiny-cross-bert");
    let read = [&search[..], &["--quality", "best", "--cross-encoder", cross_encoder]].concat();
    let parts = &fixture.json(&read)["results"][0]["parts"];
    assert!(parts["reranker"].as_f64().unwrap() > 0.1, "{parts}");
    assert_ne!(parts["cross_encoder"], json!(0.0));
    assert_eq!(fixture.json(&search)["results"][0]["parts"]["cross_encoder"], json!(0.0));
    let bert = concat!(env!("CARGO_MANIFEST_DIR"), "/../transformer/tests/fixtures/tiny-bert");
    fixture.check_error(
        &[&search[..], &["--cross-encoder", bert]].concat(),
        "tiny-bert: is not a cross-encoder",
    );

    // A program elsewhere finds none beside itself, and takes one from the cache.
    let program = fixture.path("alone/bin/quarry");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_quarry"), &program).unwrap();
    let alone =
        || fixture.command_of(&program, &[&search[..], &["--quality", "best"]].concat()).output().unwrap();
    check_error(&alone(), "best: this quality is not installed; install it with `quarry model pull best`");
    let has_advice = |program: &Path| {
        let doctor = fixture.command_of(program, &["doctor"]).output().unwrap();
        stdout(&doctor).contains("`quarry model pull best` installs it")
    };
    assert!(has_advice(&program));
    // A symbol is looked up by its name, for which no model is loaded.
    let symbol = ["search", "delay", "--quality", "best"];
    assert_eq!(fixture.command_of(&program, &symbol).output().unwrap().status.code(), Some(0));
    let place = fixture.path("cache/quarry/models/best");
    fs::create_dir_all(place.join("1_Pooling")).unwrap();
    for name in FILES {
        fs::copy(tiny_bert().join(name), place.join(name)).unwrap();
    }
    assert_eq!(alone().status.code(), Some(0), "{}", stderr(&alone()));
    assert!(!has_advice(&program));
}

#[test]
fn models_of_model2vec_are_used_described_and_converted_both_ways() {
    let fixture = Fixture::new();
    let model = tiny_bert().with_file_name("tiny-model2vec").display().to_string();
    let found = |model: &str| {
        let answer = ["search", "open a socket", "--model", model, "--threshold", "0", "--json"];
        fixture.json(&answer)["results"].clone()
    };
    assert_eq!(found(&model)[0]["name"], "connect");
    let info = fixture.stdout(&["model", "list", &model]);
    assert!(info.contains("columns: 12") && info.contains("token vectors"), "{info}");
    let benchmark = ["corpus.jsonl", "queries.jsonl"].map(|name| format!("tree/data/{name}"));
    fixture.write(
        &benchmark[0],
        "{\"_id\": \"a\", \"text\": \"open the file\"}\n{\"_id\": \"b\", \"text\": \"sort\"}\n",
    );
    fixture.write(&benchmark[1], "{\"_id\": \"q\", \"text\": \"sort values\"}\n");
    fixture.write("tree/data/qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\tb\t1\n");
    let measured = |model: &str| {
        fixture.json(&format!("eval data --method {model} --metrics mrr --json"))["metrics"]["mrr"].clone()
    };
    assert_eq!(measured(&model), json!(1.0));

    let converted = fixture.succeed(&["model", "convert", &model, "--out", "../static"]);
    assert!(stderr(&converted).contains("a static model of 29 of 45 tokens"), "{}", stderr(&converted));
    assert_eq!(measured("../static"), json!(1.0));
    let back = fixture.succeed("model convert ../static --out ../back");
    assert!(stderr(&back).contains("pairs of words"), "{}", stderr(&back));
    assert_eq!(measured("../back"), json!(1.0));
    assert!(fixture.stdout("model list ../back").contains("token vectors"));

    fs::remove_file(fixture.path("static/vocabulary.txt")).unwrap();
    fixture.check_error("model convert ../static --out ../no", "vocabulary.txt: no such file or directory");
    fixture.check_error("model convert builtin --out ../no", "comes without its vocabulary");
    assert!(!fixture.path("no").exists());
}
