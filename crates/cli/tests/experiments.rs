//! The experiments of the papers as files, on tiny random models and a few invented records.
#![cfg(feature = "full")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod fixture;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

const WORDS: [&str; 10] = ["sort", "list", "value", "open", "file", "read", "every", "line", "find", "one"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files of an experiment.
struct Data(TempDir);

impl Data {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn write_lines(&self, path: &str, records: &[Value]) {
        self.write(path, &records.iter().map(|record| format!("{record}\n")).collect::<String>());
    }

    /// Copies a tiny model, with another text in the place of one in its tokenizer.
    fn model(&self, name: &str, tiny: &str, change: Option<(&str, &str)>) {
        let source = repository().join("crates/transformer/tests/fixtures").join(tiny);
        copy(&source, &self.0.path().join("models").join(name));
        if let Some((from, to)) = change {
            let path = self.0.path().join("models").join(name).join("tokenizer.json");
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from));
            fs::write(path, text.replace(from, to)).unwrap();
        }
    }

    /// Runs an experiment of `examples/experiments`, after `change` of its text; results go to `results`.
    fn run(&self, name: &str, change: impl Fn(String) -> String, words: &[&str]) -> Output {
        let text = fs::read_to_string(repository().join("examples/experiments").join(name)).unwrap();
        let recipes = repository().join("recipes").display().to_string();
        self.write(name, &change(text.replace("../../recipes", &recipes)));
        Command::new(env!("CARGO_BIN_EXE_quarry"))
            .current_dir(self.0.path())
            .args(["eval", "run", name, "--results", "results", "--llm", "cache=false"])
            .args(words)
            .output()
            .unwrap()
    }

    fn results(&self) -> Value {
        serde_json::from_slice(&fs::read(self.0.path().join("results/results.json")).unwrap()).unwrap()
    }
}

fn copy(source: &Path, target: &Path) {
    fs::create_dir_all(target).unwrap();
    for entry in fs::read_dir(source).unwrap().map(Result::unwrap) {
        let to = target.join(entry.file_name());
        if entry.path().is_dir() { copy(&entry.path(), &to) } else { _ = fs::copy(entry.path(), to).unwrap() }
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

fn codesearchnet(at: usize, language: &str, partition: &str) -> Value {
    let (query, code) = pair(at, 3);
    json!({
        "repo": format!("o/{partition}{}", at % 3), "path": "a", "func_name": "f", "original_string": code, "language": language,
        "code": code, "code_tokens": code.split_whitespace().collect::<Vec<_>>(), "docstring": query,
        "docstring_tokens": query.split(' ').collect::<Vec<_>>(), "sha": "0", "partition": partition,
        "url": format!("https://x/{language}/{partition}/{at}")
    })
}

fn cosqa(split: &str, n: usize, offset: usize, first: usize) -> String {
    let row = |at: usize| {
        let (query, code) = pair(at, offset);
        json!({
            "idx": format!("cosqa-{split}-{at}"), "doc": query, "code": code, "code_tokens": code, "docstring_tokens": "",
            "label": usize::from(split != "train" || at % 4 != 0), "retrieval_idx": first + at
        })
    };
    Value::from((0..n).map(row).collect::<Vec<_>>()).to_string()
}

#[test]
fn cosqa_in_three_tables() {
    let data = Data::new();
    data.model("codebert", "tiny-bert", None);
    data.model("roberta", "tiny-bert", None);
    for (name, partition) in [("train", "train"), ("valid", "valid")] {
        let records: Vec<Value> = (0..40).map(|at| codesearchnet(at, "python", partition)).collect();
        data.write_lines(&format!("csn/python-{name}.jsonl"), &records);
    }
    data.write("cosqa/cosqa-retrieval-train-19604.json", &cosqa("train", 24, 1, 0));
    data.write("cosqa/cosqa-train.json", &cosqa("train", 24, 1, 0));
    data.write("cosqa/cosqa-retrieval-dev-500.json", &cosqa("dev", 6, 2, 30));
    data.write("cosqa/cosqa-dev.json", &cosqa("dev", 6, 2, 30));
    data.write("cosqa/cosqa-retrieval-test-500.json", &cosqa("test", 6, 4, 40));
    let codes = [(30, 1, 0), (6, 2, 30), (6, 4, 40)]
        .into_iter()
        .flat_map(|(n, offset, first)| (0..n).map(move |at| (pair(at, offset).1, Value::from(first + at))));
    // Codes that repeat have one number.
    let mut numbers = serde_json::Map::new();
    codes.for_each(|(code, number)| _ = numbers.entry(code).or_insert(number));
    data.write("cosqa/code_idx_map.json", &Value::Object(numbers).to_string());

    let same = |text: String| text;
    let dry = data.run("cosqa.toml", same, &["--dry-run", "--format", "json"]);
    succeeded(&dry);
    let dry: Value = serde_json::from_slice(&dry.stdout).unwrap();
    fixture::schema::check("eval-run", &dry);
    assert_eq!(dry["training"].as_array().unwrap().len(), 12);
    assert!(dry["training"][0]["estimate"]["steps"] == 20 && dry["seconds"].as_f64().unwrap() > 0.0, "{dry}");
    assert!(!data.0.path().join("results/results.json").exists());

    let errors = succeeded(&data.run("cosqa.toml", same, &[]));
    assert_eq!(errors.matches("training of ").count(), 12, "{errors}");
    let results = data.results();
    fixture::schema::check("eval-run", &results);
    let [search, qa, augmentation, ablation] = &results["datasets"].as_array().unwrap()[..] else { panic!() };
    assert_eq!(augmentation["parts"][0]["methods"].as_array().unwrap().len(), 8);
    assert_eq!(ablation["parts"].as_array().unwrap().len(), 7);
    assert!(qa["parts"][0]["methods"][3]["metrics"]["accuracy"].is_number());
    assert!(search["discrepancies"].to_string().contains("W5"));
    let model = search["parts"][0]["methods"][3]["model"].as_str().unwrap();
    assert!(model.starts_with("matcher-"), "the matcher is measured, not the vectors: {model}");
    // The dev queries were ranked among all codes.
    let corpus = results["training"][3]["measure"].as_str().unwrap();
    assert_eq!(corpus, "MRR");

    // Nothing is done twice; a model that is lost is trained again to the same weights, and so not measured again.
    let again = succeeded(&data.run("cosqa.toml", same, &[]));
    assert_eq!(again.matches("(trained before)").count(), 12, "{again}");
    assert_eq!(again.matches("(measured before)").count(), again.matches(": trained:").count(), "{again}");
    assert_eq!(data.results(), results);
}
