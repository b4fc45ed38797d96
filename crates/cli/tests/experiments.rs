//! An experiment of the papers that is killed, on tiny random models and a few invented records. `bench/rehearse.py` runs all
//! of them on data with the released names and structure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::fixture;
use quarry_test_support::files::{self, copy};
use serde_json::{Value, json};
use tempfile::TempDir;

const WORDS: [&str; 10] = ["sort", "list", "value", "open", "file", "read", "every", "line", "find", "one"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

struct Data(TempDir);

impl Data {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn write(&self, path: &str, content: &str) {
        files::write(self.0.path().join(path), content);
    }

    fn write_lines(&self, path: &str, records: &[Value]) {
        self.write(path, &records.iter().map(|record| format!("{record}\n")).collect::<String>());
    }

    fn model(&self, name: &str, tiny: &str) {
        let source = repository().join("crates/transformer/tests/fixtures").join(tiny);
        copy(&source, &self.0.path().join("models").join(name));
    }

    /// The tokens that the tiny models lack: UniXcoder's, and one before each text of CodeT5+.
    fn change_tokenizer(&self, name: &str, change: impl Fn(&mut Value)) {
        let path = self.0.path().join("models").join(name).join("tokenizer.json");
        let mut tokenizer: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut tokenizer);
        fs::write(path, tokenizer.to_string()).unwrap();
    }

    fn unixcoder(&self) {
        self.model("unixcoder", "tiny-roberta");
        self.change_tokenizer("unixcoder", |tokenizer| {
            *tokenizer =
                serde_json::from_str(&tokenizer.to_string().replace("<mask>", "<encoder-only>")).unwrap();
        });
    }

    fn codet5p(&self) {
        self.model("codet5p", "tiny-codet5p");
        self.change_tokenizer("codet5p", |tokenizer| {
            let processor = &mut tokenizer["post_processor"];
            let first = json!({ "SpecialToken": { "id": "<pad>", "type_id": 0 } });
            processor["single"].as_array_mut().unwrap().insert(0, first);
            processor["special_tokens"]["<pad>"] = json!({ "id": "<pad>", "ids": [0], "tokens": ["<pad>"] });
        });
    }

    /// Runs an experiment of `examples/experiments`, after `change` of its text; results go to `results`.
    fn run(&self, name: &str, change: impl Fn(String) -> String, words: &[&str]) -> Output {
        self.command(name, change).args(["--results", "results"]).args(words).output().unwrap()
    }

    fn command(&self, name: &str, change: impl Fn(String) -> String) -> Command {
        let text = fs::read_to_string(repository().join("examples/experiments").join(name)).unwrap();
        let recipes = repository().join("recipes").display().to_string();
        self.write(name, &change(text.replace("../../recipes", &recipes)));
        let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
        command.current_dir(self.0.path()).args(["eval", "run", name, "--llm", "cache=false"]);
        command
    }

    fn results(&self, directory: &str) -> Value {
        serde_json::from_slice(&fs::read(self.0.path().join(directory).join("results.json")).unwrap())
            .unwrap()
    }
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    errors
}

/// A query of two words, and a function with both.
fn pair(at: usize, offset: usize) -> (String, String) {
    let (a, b) = (WORDS[at % 10], WORDS[(at + offset) % 10]);
    (format!("{a} {b} {at}"), format!("def {a}({b}):\n    \"\"\"{b} of {at}.\"\"\"\n    return {b}\n"))
}

fn cosqa(split: &str, n: usize, offset: usize, first: usize) -> String {
    let row = |at: usize| {
        let (query, code) = pair(at, offset);
        json!({
            "idx": format!("cosqa-{split}-{at}"), "doc": query, "code": code, "code_tokens": code, "docstring_tokens": "",
            "label": usize::from(split != "train" || !at.is_multiple_of(4)), "retrieval_idx": first + at
        })
    };
    Value::from((0..n).map(row).collect::<Vec<_>>()).to_string()
}

/// Replaces a text that is in an experiment.
#[track_caller]
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

/// Data for CoSQA+'s fine-tuning, and the challenge's annotations.
fn cosqa_plus() -> Data {
    let data = Data::new();
    data.model("codebert", "tiny-bert");
    data.unixcoder();
    data.codet5p();
    let row = |at: usize, offset: usize| {
        let (query, code) = pair(at / 2, offset + at % 2);
        json!({"pair-idx": at, "query-idx": at / 2, "query": query, "code-idx": at, "code": code, "label": usize::from(!at.is_multiple_of(5))})
    };
    for (name, n, offset) in [("train", 30, 1), ("dev", 10, 5)] {
        let rows: Vec<Value> = (0..n).map(|at| row(at, offset)).collect();
        data.write(&format!("cosqa-plus/{name}.json"), &Value::from(rows).to_string());
        let split = if name == "train" { "train-19604" } else { "dev-500" };
        data.write(&format!("cosqa/cosqa-retrieval-{split}.json"), &cosqa(name, n, offset, 0));
    }
    let mut annotations = "Language,Query,GitHubUrl,Relevance,Notes\n".to_owned();
    let mut functions = Vec::new();
    for at in 0..12 {
        let (query, code) = pair(at, 3);
        annotations += &format!("Python,{query},https://x/{at},{},\n", if at % 3 == 0 { 1 } else { 3 });
        functions.push(json!({
            "nwo": "o/r", "path": "p", "language": "python", "identifier": "f", "docstring": "", "docstring_tokens": [],
            "function": code, "function_tokens": [], "url": format!("https://x/{at}")
        }));
    }
    data.write("csn99/annotationStore.csv", &annotations);
    data.write_lines("csn/python-definitions.jsonl", &functions);
    data
}

/// The experiment without a pickled list and a split that another command writes.
fn simpler(text: String) -> String {
    let text = replaced(&text, "csn/python_dedupe_definitions_v2.pkl", "csn/python-definitions.jsonl");
    replaced(&text, "cosqa-plus/split/", "cosqa-plus/")
}

#[test]
fn cosqa_plus_with_three_models_however_often_it_is_killed() {
    let data = cosqa_plus();
    let dry = data.run("cosqa-plus.toml", simpler, &["--dry-run", "--format", "json"]);
    succeeded(&dry);
    let dry: Value = serde_json::from_slice(&dry.stdout).unwrap();
    fixture::schema::check("eval-run", &dry);
    assert_eq!(dry["training"].as_array().unwrap().len(), 6);
    assert!(dry["seconds"].as_f64().unwrap() > 0.0 && !data.0.path().join("results/results.json").exists());
    let start = Instant::now();
    let errors = succeeded(&data.run("cosqa-plus.toml", simpler, &[]));
    assert_eq!(errors.matches("training of ").count(), 6, "{errors}");
    let took = start.elapsed();
    let results = data.results("results");
    fixture::schema::check("eval-run", &results);
    assert_eq!(results["datasets"].as_array().unwrap().len(), 3);
    for dataset in results["datasets"].as_array().unwrap() {
        let methods = dataset["parts"][0]["methods"].as_array().unwrap();
        assert!(methods.len() == 3 && methods[1]["model"] != methods[2]["model"], "{dataset}");
    }
    assert_eq!(results["training"][0]["measure"], "NDCG@10");
    for part in 1..6 {
        let mut command = data.command("cosqa-plus.toml", simpler);
        let mut child = command.args(["--results", "killed"]).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(took * part / 6);
        _ = child.kill();
        child.wait().unwrap();
    }
    succeeded(&data.command("cosqa-plus.toml", simpler).args(["--results", "killed"]).output().unwrap());
    assert_eq!(data.results("killed"), results);
}
