//! The experiments of the papers as files, on tiny random models and a few invented records.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::fixture;
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

    /// Copies a tiny model.
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
            "label": usize::from(split != "train" || !at.is_multiple_of(4)), "retrieval_idx": first + at
        })
    };
    Value::from((0..n).map(row).collect::<Vec<_>>()).to_string()
}

/// An experiment as it is.
fn same(text: String) -> String {
    text
}

/// Replaces a text that is in an experiment.
#[track_caller]
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

#[test]
fn cosqa_in_three_tables() {
    let data = Data::new();
    data.model("codebert", "tiny-bert");
    data.model("roberta", "tiny-roberta");
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

    let dry = data.run("cosqa.toml", same, &["--dry-run", "--format", "json"]);
    succeeded(&dry);
    let dry: Value = serde_json::from_slice(&dry.stdout).unwrap();
    fixture::schema::check("eval-run", &dry);
    assert_eq!(dry["training"].as_array().unwrap().len(), 12);
    assert!(dry["training"][0]["estimate"]["steps"] == 30 && dry["seconds"].as_f64().unwrap() > 0.0, "{dry}");
    assert!(!data.0.path().join("results/results.json").exists());

    let errors = succeeded(&data.run("cosqa.toml", same, &[]));
    assert_eq!(errors.matches("training of ").count(), 12, "{errors}");
    let results = data.results("results");
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
    assert_eq!(again.matches("(already trained)").count(), 12, "{again}");
    assert_eq!(again.matches("(already measured)").count(), again.matches(": trained:").count(), "{again}");
    assert_eq!(data.results("results"), results);
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
        data.write(&format!("cosqa/{name}.json"), &cosqa(name, n, offset, 0));
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

#[test]
fn cosqa_plus_with_three_models_however_often_it_is_killed() {
    let data = cosqa_plus();
    let start = Instant::now();
    succeeded(&data.run("cosqa-plus.toml", same, &[]));
    let took = start.elapsed();
    let results = data.results("results");
    assert_eq!(results["datasets"].as_array().unwrap().len(), 3);
    for dataset in results["datasets"].as_array().unwrap() {
        let methods = dataset["parts"][0]["methods"].as_array().unwrap();
        assert!(methods.len() == 3 && methods[1]["model"] != methods[2]["model"], "{dataset}");
    }
    assert_eq!(results["training"][0]["measure"], "NDCG@10");
    for part in 1..6 {
        let mut command = data.command("cosqa-plus.toml", same);
        let mut child = command.args(["--results", "killed"]).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(took * part / 6);
        _ = child.kill();
        child.wait().unwrap();
    }
    succeeded(&data.command("cosqa-plus.toml", same).args(["--results", "killed"]).output().unwrap());
    assert_eq!(data.results("killed"), results);
}

#[test]
fn gencodesearchnet_with_its_three_models() {
    let data = Data::new();
    data.model("codebert", "tiny-bert");
    data.model("roberta", "tiny-roberta");
    data.codet5p();
    let records = |language: &str, partition: &str| -> Vec<Value> {
        (0..24).map(|at| codesearchnet(at, language, partition)).collect()
    };
    data.write_lines("advtest/train.jsonl", &records("python", "train"));
    let released = |offset: usize| -> Vec<Value> {
        let record = |at: usize| {
            let (query, code) = pair(at, offset);
            json!({"input": format!("{query} [CODESPLIT] {code}"), "target": 1, "target_options": ["no_match", "match"]})
        };
        (0..14).map(record).collect()
    };
    for (at, language) in ["ruby", "go", "php", "java", "javascript"].into_iter().enumerate() {
        data.write_lines(&format!("csn/{language}-train.jsonl"), &records(language, "train"));
        data.write_lines(&format!("csn/{language}-test.jsonl"), &released(at + 1));
    }
    for name in ["advtest/test", "gecs/cosqa", "gecs/statcodesearch"] {
        data.write_lines(&format!("{name}.jsonl"), &released(6));
    }
    // There are too few codes for 99 and 999 distractors.
    let few = |text: String| {
        let text = replaced(&text, "distractors = 999", "distractors = 9");
        replaced(
            &text,
            "protocol = \"gecs\"\nmethods",
            "protocol = \"gecs\"\noptions = { distractors = 9 }\nmethods",
        )
    };
    succeeded(&data.run("gencodesearchnet.toml", few, &[]));
    let results = data.results("results");
    let first = &results["datasets"][0];
    let figures: Vec<&str> =
        first["figures"].as_array().unwrap().iter().map(|of| of[0].as_str().unwrap()).collect();
    assert_eq!(
        figures,
        ["trained:roberta-advtest", "trained:codebert-advtest", "trained:codet5p-advtest", "models/codet5p"]
    );
    let combined = first["figures"][2][1].as_object().unwrap();
    assert!(combined.keys().any(|name| name.contains("combined")), "{combined:?}");
    let model = first["parts"][0]["methods"][2]["model"].as_str().unwrap();
    assert!(model.starts_with("cross-"), "{model}");
    assert_eq!(results["datasets"].as_array().unwrap().len(), 6);
}

#[test]
fn query4code_over_a_grid_and_seeds() {
    let data = Data::new();
    data.model("codebert", "tiny-bert");
    data.model("graphcodebert", "tiny-graphcodebert");
    data.model("starencoder", "tiny-starencoder");
    data.unixcoder();
    let rows = |n: usize, offset: usize| -> Vec<Value> {
        let row = |at: usize| {
            let (query, code) = pair(at, offset);
            json!({"query": query, "code": code, "url": format!("https://x/{offset}/{at}")})
        };
        (0..n).map(row).collect()
    };
    for (name, partition) in [("train", "train"), ("dev", "valid")] {
        let records: Vec<Value> = (0..20).map(|at| codesearchnet(at, "python", partition)).collect();
        data.write_lines(&format!("csn/{name}.jsonl"), &records);
        data.write_lines(&format!("query4code/{name}.jsonl"), &rows(20, 7));
    }
    for (at, set) in ["conala", "so-ds", "staqc", "cosqa"].into_iter().enumerate() {
        for (name, n) in [("train", 16), ("dev", 6), ("test", 6), ("corpus", 8)] {
            data.write_lines(&format!("{set}/{name}.jsonl"), &rows(n, at + 1));
        }
    }
    data.write_lines("webquery/test.jsonl", &rows(8, 6));
    // 864 runs are too many for a test: two values of the grid, and two seeds.
    let fewer = |text: String| {
        let text = replaced(&text, "rate = [1e-5, 2e-5, 5e-5], batch = [32, 64, 128]", "rate = [1e-5, 5e-3]");
        replaced(&text, "seeds = [0, 1, 2]", "seeds = [0, 1]")
    };
    succeeded(&data.run("query4code.toml", fewer, &[]));
    let results = data.results("results");
    fixture::schema::check("eval-run", &results);
    let datasets = results["datasets"].as_array().unwrap();
    assert_eq!(datasets.len(), 9);
    let tuned = &datasets[5]["parts"][0]["methods"][1];
    assert!(
        tuned["deviations"]["mrr@1000"].is_number() && tuned["over_baseline"]["mrr@1000"]["p"].is_number(),
        "{tuned}"
    );
    let combinations = results["training"][8]["combinations"].as_array().unwrap();
    assert!(combinations.len() == 2 && combinations[0]["deviation"].is_number(), "{combinations:?}");
    let chosen = results["training"][8]["chosen"].as_u64().unwrap() as usize;
    assert!(combinations.iter().all(|other| other["mean"].as_f64() <= combinations[chosen]["mean"].as_f64()));
    let page = fs::read_to_string(data.0.path().join("results/results.md")).unwrap();
    assert!(page.contains("Trained models") && page.contains(" ± ") && page.contains("- W3: "), "{page}");
}
