//! GraphCodeBERT with its data flow, and StarEncoder, against what transformers computes for the models of
//! `make_tiny_code_encoders.py`.

use std::fs;

use crate::copy::{Copy, check_error, check_rows, expected, fixtures, load, rows, texts, with_options};
use quarry_embed::Embedder;
use quarry_transformer::trainable::Trainable;
use serde_json::{Value, json};

/// The functions whose data flow crates/source tests, by their files' names.
fn functions(expected: &Value) -> Vec<(String, String)> {
    let directory = fixtures().join("../../../source/tests/data_flow");
    let names = expected["graphcodebert"]["functions"].as_object().unwrap().keys();
    names.map(|name| (name.clone(), fs::read_to_string(directory.join(name)).unwrap())).collect()
}

#[test]
fn data_flow_follows_the_tokens_of_a_function() {
    let expected = expected("expected-code-encoders.json");
    let copy = Copy::new("tiny-graphcodebert");
    for (options, part) in
        [("", "pooler"), (":cls", "cls"), (":mean", "mean"), (":max", "max"), (":lasttoken", "last")]
    {
        let model = load(copy.root(), &format!(":graphcodebert{options}:dot"));
        for (name, text) in functions(&expected) {
            let row = rows(&json!([expected["graphcodebert"]["functions"][&name][part]]));
            check_rows(&model.embed_documents(&[&text]).unwrap(), &row, &format!("{name} {part}"));
        }
    }
}

#[test]
fn functions_of_all_languages_in_one_batch() {
    let expected = expected("expected-code-encoders.json");
    let copy = Copy::new("tiny-graphcodebert");
    let model = load(copy.root(), ":graphcodebert:dot");
    let functions = functions(&expected);
    assert_eq!(functions.len(), 6);
    let rows: Vec<Vec<f32>> = functions
        .iter()
        .flat_map(|(name, _)| rows(&json!([expected["graphcodebert"]["functions"][name]["pooler"]])))
        .collect();
    let texts: Vec<&str> = functions.iter().map(|(_, text)| text.as_str()).collect();
    check_rows(&model.embed_documents(&texts).unwrap(), &rows, "all");
}

#[test]
fn queries_and_texts_without_data_flow_are_read_as_roberta_reads_them() {
    let expected = expected("expected-code-encoders.json");
    let texts = texts(&expected);
    let copy = Copy::new("tiny-graphcodebert");
    let (graph, plain) = (load(copy.root(), ":graphcodebert:dot"), load(copy.root(), ":pooler:dot"));
    assert_ne!(graph.id(), plain.id());
    let rows = rows(&expected["graphcodebert"]["queries"]);
    check_rows(&graph.embed_queries(&texts).unwrap(), &rows, "queries");
    let others = ["fn sort(values: &mut [u8]) { values.sort(); }", "no code at all", ""];
    assert_eq!(graph.embed_documents(&others).unwrap(), plain.embed_documents(&others).unwrap());
    let python = &functions(&expected)[4].1;
    assert_ne!(graph.embed_documents(&[python]).unwrap(), plain.embed_documents(&[python]).unwrap());
}

#[test]
fn the_language_of_all_documents_may_be_named() {
    let expected = expected("expected-code-encoders.json");
    let copy = Copy::new("tiny-graphcodebert");
    let python = functions(&expected).swap_remove(4).1;
    let named = load(copy.root(), ":graphcodebert-python:dot");
    let found = load(copy.root(), ":graphcodebert:dot");
    assert_eq!(named.embed_documents(&[&python]).unwrap(), found.embed_documents(&[&python]).unwrap());
    // No function, so that no language is found for it.
    let text = ["total = price\nprint(total)\n"];
    assert_ne!(named.embed_documents(&text).unwrap(), found.embed_documents(&text).unwrap());
    for text in ["", "(((", "\u{0}", &"x = y\n".repeat(2000), &"é ".repeat(900)] {
        assert!(
            named.embed_documents(&[text]).unwrap().values.iter().all(|value| value.is_finite()),
            "{text}"
        );
    }
    check_error(
        &copy,
        ":graphcodebert-rust",
        &["unknown option \"graphcodebert-rust\"", "graphcodebert-LANGUAGE"],
    );
}

#[test]
fn data_flow_needs_a_model_for_it() {
    check_error(
        &Copy::new("tiny-bert"),
        ":graphcodebert:cls",
        &["type bert", "no place for variables", "GraphCodeBERT model"],
    );
    check_error(
        &Copy::new("tiny-graphcodebert").set("tokenizer.json", "post_processor", Value::Null),
        ":graphcodebert",
        &["does not add a token before and one after each text"],
    );
    let path = with_options(&fixtures().join("tiny-graphcodebert"), ":graphcodebert");
    let error = Trainable::read(&path).err().unwrap().to_string();
    assert!(error.contains("leave out the option `graphcodebert`"), "{error}");
}

#[test]
fn starencoder_has_texts_between_its_own_tokens() {
    let expected = expected("expected-code-encoders.json");
    let texts = texts(&expected);
    // Its tokens are in its tokenizer, or they are added as programs that use it do.
    let whole = || Copy::new("tiny-starencoder");
    let json = whole().json("tokenizer.json");
    let is_own = |token: &Value| ["<mask>", "<sep>", "<cls>"].contains(&token["content"].as_str().unwrap());
    let added: Vec<Value> = json["added_tokens"].as_array().unwrap().clone();
    assert_eq!(added.iter().filter(|token| is_own(token)).count(), 3);
    for pooling in ["cls", "mean", "pooler"] {
        let copy = whole();
        let model = load(copy.root(), &format!(":{pooling}:dot"));
        let rows = rows(&expected["starencoder"][pooling]);
        check_rows(&model.embed_documents(&texts).unwrap(), &rows, pooling);
        check_rows(&model.embed_queries(&texts).unwrap(), &rows, pooling);
    }
    // A tokenizer with other ends keeps them.
    let processor = json!({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "<sep>", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"<sep>": {"id": "<sep>",
        "ids": [added.iter().find(|token| token["content"] == "<sep>").unwrap()["id"]], "tokens": ["<sep>"]}}});
    let copy = whole().set("tokenizer.json", "post_processor", processor);
    let [own, other] =
        [whole(), copy].map(|copy| load(copy.root(), ":mean:dot").embed_documents(&["sort a list"]).unwrap());
    assert_ne!(own, other);
}

#[test]
fn the_tokens_that_starencoders_tokenizer_lacks_are_added() {
    let expected = expected("expected-code-encoders.json");
    let texts = ["sort a list by value", "def sort(values):\n    return sorted(values)"];
    let copy = Copy::new("tiny-starencoder");
    let mut json = copy.json("tokenizer.json");
    // As published: none of the four is there. Its first token is one of them here, so all numbers are one less then.
    let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
    vocabulary.remove("<pad>");
    vocabulary.values_mut().for_each(|id| *id = json!(id.as_u64().unwrap() - 1));
    let n_tokens = vocabulary.len() + 4;
    json["added_tokens"] = json!([]);
    let copy = copy.write("tokenizer.json", json.to_string());
    assert_eq!(copy.json("config.json")["vocab_size"], n_tokens);
    let model = load(copy.root(), ":cls:dot");
    let vectors = model.embed_documents(&texts).unwrap();
    // The order of the tokens differs from that of the fixture, so the vectors do; but they do show the text and its ends.
    let named =
        json!({"type": "BertProcessing", "sep": ["<sep>", n_tokens - 3], "cls": ["<cls>", n_tokens - 2]});
    let special = |content: &str, id: usize| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    json["added_tokens"] = json!([
        special("<pad>", n_tokens - 4),
        special("<sep>", n_tokens - 3),
        special("<cls>", n_tokens - 2),
        special("<mask>", n_tokens - 1)
    ]);
    json["post_processor"] = named;
    let copy = copy.write("tokenizer.json", json.to_string());
    assert_eq!(vectors, load(copy.root(), ":cls:dot").embed_documents(&texts).unwrap());
    assert_eq!(expected["starencoder"]["ids"][0][0], n_tokens - 1);
}
