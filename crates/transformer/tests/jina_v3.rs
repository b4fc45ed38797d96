//! jina-embeddings-v3 with the adapters of each task, against what transformers computes for the model of
//! `make_tiny_jina_v3.py`.

use crate::copy::{Copy, check_error, check_rows, expected, load, rows, texts};
use quarry_embed::Embedder;
use serde_json::json;

fn model() -> Copy {
    Copy::new("tiny-jina-v3")
}

#[test]
fn queries_and_documents_have_the_adapters_and_instructions_of_retrieval() {
    let expected = expected("expected-jina-v3.json");
    let texts = texts(&expected);
    let copy = model();
    let found = load(copy.root(), ":mean:dot");
    check_rows(&found.embed_queries(&texts).unwrap(), &rows(&expected["retrieval.query"]), "query");
    check_rows(&found.embed_documents(&texts).unwrap(), &rows(&expected["retrieval.passage"]), "document");
}

#[test]
fn tasks_may_be_named() {
    let expected = expected("expected-jina-v3.json");
    let texts = texts(&expected);
    let copy = model();
    for task in ["retrieval.query", "retrieval.passage", "separation", "classification", "text-matching"] {
        let found = load(copy.root(), &format!(":{task}:mean:dot"));
        check_rows(&found.embed_queries(&texts).unwrap(), &rows(&expected[task]), task);
        check_rows(&found.embed_documents(&texts).unwrap(), &rows(&expected[task]), task);
    }
    let found = load(copy.root(), ":classification:separation:mean:dot");
    check_rows(&found.embed_queries(&texts).unwrap(), &rows(&expected["classification"]), "query");
    check_rows(&found.embed_documents(&texts).unwrap(), &rows(&expected["separation"]), "document");
    assert_ne!(found.id(), load(copy.root(), ":separation:classification:mean:dot").id());
}

#[test]
fn its_directory_has_modules_and_columns_may_be_cut_off() {
    let expected = expected("expected-jina-v3.json");
    let texts = texts(&expected);
    let copy = model();
    for (options, n) in [("", 16), (":6", 6)] {
        let mut rows = rows(&expected["retrieval.passage"]);
        for row in &mut rows {
            row.truncate(n);
            quarry_embed::normalize(row);
        }
        check_rows(&load(copy.root(), options).embed_documents(&texts).unwrap(), &rows, options);
    }
}

#[test]
fn prompts_of_the_directory_come_before_those_of_the_model() {
    let prompts = json!({"prompts": {"retrieval.query": "sort the list: ", "query": "not this"}});
    let copy = model().write("config_sentence_transformers.json", prompts.to_string());
    let other = json!({"retrieval.query": "sort the list: ", "retrieval.passage": "sort the list: "});
    let same = model().set("config.json", "task_instructions", other);
    let [a, b] = [copy, same].map(|copy| load(copy.root(), "").embed_queries(&["a value"]).unwrap());
    assert_eq!(a, b);
    assert_ne!(a, load(model().root(), "").embed_queries(&["a value"]).unwrap());
}

#[test]
fn without_adapters_it_has_no_tasks() {
    let copy = model().set("config.json", "lora_adaptations", json!([]));
    let found = load(copy.root(), ":mean:dot");
    let texts = ["sort a list", ""];
    assert_eq!(found.embed_queries(&texts).unwrap(), found.embed_documents(&texts).unwrap());
    check_error(
        &copy,
        ":separation",
        &["config.json: has no adapters for tasks", "leave out the option `separation`"],
    );
    check_error(&Copy::new("tiny-bert"), ":separation", &["has no adapters for tasks"]);
}

#[test]
fn inconsistent_files_are_refused() {
    let tasks = json!(["retrieval.query", "other"]);
    let copy = model().set("config.json", "lora_adaptations", tasks);
    check_error(&copy, "", &["has no adapters for the task retrieval.passage", "retrieval.query, other"]);
    let tasks = json!(["retrieval.query", "retrieval.passage"]);
    let copy = model().set("config.json", "lora_adaptations", tasks);
    check_error(&copy, "", &["word_embeddings.parametrizations.weight.0.lora_", "[5, ", "expected [2, "]);
    for (key, value, part) in [
        ("lora_rank", json!(0), "lora_rank is 0"),
        ("num_attention_heads", json!(3), "expected a divisor"),
        ("hidden_act", json!("swish2"), "hidden_act"),
        ("rope_scaling", json!({"type": "yarn"}), "rope_scaling"),
        ("max_position_embeddings", json!(0), "max_position_embeddings is 0"),
    ] {
        check_error(&model().set("config.json", key, value), "", &[part]);
    }
    check_error(&model(), ":separation:separation:separation", &["unknown option \"separation\""]);
    check_error(&model().cut("model.safetensors"), "", &["model.safetensors"]);
}
