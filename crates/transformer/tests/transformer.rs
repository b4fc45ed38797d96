//! The transformer against what sentence-transformers computes for the models of `make_tiny_bert.py`, and on
//! directories that are broken.

use std::fs;
use std::path::Path;

use crate::copy::{self, Copy, expected, fixtures, rows, texts};
use candle_core::{DType, Device, Tensor};
use quarry_embed::{Embedder, Side, Vectors, embed_many};
use quarry_transformer::TransformerModel;
use serde_json::{Value, json};

const BERT: &str = "tiny-bert";
const ROBERTA: &str = "tiny-roberta";

fn assert_close(found: &Vectors, expected: &[f32], tolerance: f32) {
    assert_eq!(found.values.len(), expected.len());
    for (index, (found, expected)) in found.values.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= tolerance, "value {index}: found {found}, expected {expected}");
    }
}

fn check_against_python(model: &TransformerModel, case: &str) {
    check_sides(model, case, ["query", "document"]);
}

fn check_without_prompts(model: &TransformerModel, case: &str) {
    check_sides(model, case, ["no prompt"; 2]);
}

fn check_sides(model: &TransformerModel, case: &str, [query, document]: [&str; 2]) {
    let expected = expected("expected.json");
    let (texts, expected) = (texts(&expected), &expected[case]);
    assert_close(&model.embed_queries(&texts).unwrap(), &rows(&expected[query]).concat(), 1e-4);
    assert_close(&model.embed_documents(&texts).unwrap(), &rows(&expected[document]).concat(), 1e-4);
}

#[test]
fn bert_with_each_pooling() {
    let file = "1_Pooling/config.json";
    for pooling in ["mean", "cls", "max"] {
        let copy = Copy::new(BERT).set(file, "pooling_mode", json!(pooling));
        check_against_python(&copy.load(), &format!("tiny-bert {pooling}"));
    }
}

#[test]
fn pooling_in_the_older_format() {
    for (switch, pooling) in [
        ("pooling_mode_mean_tokens", "mean"),
        ("pooling_mode_cls_token", "cls"),
        ("pooling_mode_max_tokens", "max"),
    ] {
        let config = json!({ "word_embedding_dimension": 16, switch: true });
        let copy = Copy::new(BERT).write("1_Pooling/config.json", config.to_string());
        check_against_python(&copy.load(), &format!("tiny-bert {pooling}"));
    }
}

#[test]
fn roberta_from_a_pickle_file() {
    check_against_python(&Copy::new(ROBERTA).load(), "tiny-roberta cls");
}

#[test]
fn vocabulary_without_tokenizer_json() {
    check_against_python(&Copy::new(BERT).remove("tokenizer.json").load(), "tiny-bert mean");
}

#[test]
fn padding_and_truncation_of_the_tokenizer_file_are_put_aside() {
    let copy = Copy::new(BERT)
        .set("tokenizer.json", "truncation", json!({
            "max_length": 5, "strategy": "LongestFirst", "stride": 0, "direction": "Right",
        }))
        .set("tokenizer.json", "padding", json!({
            "strategy": { "Fixed": 32 }, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
        }));
    check_against_python(&copy.load(), "tiny-bert mean");
}

#[test]
fn limit_in_the_older_file() {
    let copy = Copy::new(BERT)
        .write("sentence_bert_config.json", r#"{"max_seq_length": 24, "do_lower_case": false}"#)
        .set("tokenizer_config.json", "model_max_length", json!(1e30));
    check_against_python(&copy.load(), "tiny-bert mean");
}

#[test]
fn lower_case_by_the_sentence_configuration() {
    let cased = |lower: bool| {
        let copy = Copy::new(BERT);
        let mut tokenizer = copy.json("tokenizer.json");
        tokenizer["normalizer"]["lowercase"] = json!(false);
        copy.write("tokenizer.json", tokenizer.to_string())
            .write("sentence_bert_config.json", json!({ "do_lower_case": lower }).to_string())
            .load()
    };
    let embed = |model: &TransformerModel, text: &str| model.embed_queries(&[text]).unwrap().values;
    assert_eq!(embed(&cased(true), "OPEN THE FILE"), embed(&cased(true), "open the file"));
    assert_ne!(embed(&cased(false), "OPEN THE FILE"), embed(&cased(false), "open the file"));
}

#[test]
fn plain_directory_uses_mean_pooling() {
    let copy = Copy::new(BERT)
        .remove("modules.json")
        .remove("config_sentence_transformers.json")
        .remove("1_Pooling/config.json")
        .remove("sentence_bert_config.json");
    check_without_prompts(&copy.load(), "tiny-bert mean");
}

#[test]
fn prompts_may_be_absent_null_or_called_passage() {
    let file = "config_sentence_transformers.json";
    check_without_prompts(&Copy::new(BERT).remove(file).load(), "tiny-bert mean");
    check_without_prompts(
        &Copy::new(BERT).set(file, "prompts", json!({ "query": null })).load(),
        "tiny-bert mean",
    );
    let passage = json!({ "query": "find: ", "passage": "file: " });
    check_against_python(&Copy::new(BERT).set(file, "prompts", passage).load(), "tiny-bert mean");
}

#[test]
fn tensors_of_a_whole_model_in_half_precision() {
    let copy = Copy::new(BERT);
    copy.change_tensors(|tensors| {
        *tensors = (tensors.drain())
            .map(|(name, tensor)| (format!("bert.{name}"), tensor.to_dtype(DType::F16).unwrap()))
            .collect();
    });
    let expected = expected("expected.json");
    let vectors = copy.load().embed_queries(&texts(&expected)).unwrap();
    assert_close(&vectors, &rows(&expected["tiny-bert mean"]["query"]).concat(), 1e-2);
}

/// Enough texts of unequal lengths for several batches.
fn many_texts() -> Vec<String> {
    (0..300).map(|index| format!("{} {index}", "sort a list ".repeat(index % 7))).collect()
}

#[test]
fn a_text_alone_equals_itself_among_others() {
    let model = Copy::new(BERT).load();
    let texts = many_texts();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = model.embed_documents(&texts).unwrap();
    for (text, row) in texts.iter().zip(together.values.chunks(model.dimension())) {
        assert_close(&model.embed_documents(&[text]).unwrap(), row, 1e-5);
        let length: f32 = row.iter().map(|value| value * value).sum();
        assert!((length - 1.0).abs() < 1e-5);
    }
    assert_eq!(together, model.embed_documents(&texts).unwrap());
}

#[test]
fn no_texts_give_no_rows() {
    let model = Copy::new(BERT).load();
    assert_eq!(model.embed_documents(&[]).unwrap(), Vectors { dimension: 16, values: Vec::new() });
}

#[test]
fn many_in_chunks_equal_all_at_once() {
    let model = Copy::new(BERT).load();
    let texts = many_texts();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut reports = Vec::new();
    let vectors = embed_many(&model, Side::Query, &texts, 128, |n_done| reports.push(n_done)).unwrap();
    assert_close(&vectors, &model.embed_queries(&texts).unwrap().values, 1e-5);
    assert_eq!(reports, [128, 256, 300]);
}

#[test]
fn identity_follows_content() {
    let id = |copy: Copy| copy.load().id().to_owned();
    let original = id(Copy::new(BERT));
    assert_eq!(original, id(Copy::new(BERT)));

    let weights = Copy::new(BERT);
    let mut bytes = fs::read(weights.path("model.safetensors")).unwrap();
    // The lowest bit of a float.
    let last = bytes.len() - 4;
    bytes[last] ^= 1;
    assert_ne!(original, id(weights.write("model.safetensors", bytes)));
    assert_ne!(original, id(Copy::new(BERT).set("1_Pooling/config.json", "pooling_mode", json!("cls"))));
    assert_ne!(original, id(Copy::new(BERT).set("config_sentence_transformers.json", "prompts", json!({}))));
    assert_ne!(original, id(Copy::new(BERT).set("tokenizer_config.json", "model_max_length", json!(20))));
}

fn check_error(copy: &Copy, parts: &[&str]) {
    copy::check_error(copy, "", parts);
}

#[test]
fn missing_files_are_named() {
    let bert = || Copy::new(BERT);
    check_error(&bert().remove("config.json"), &["MODEL/config.json: is missing", "copy it"]);
    check_error(&bert().remove("1_Pooling/config.json"), &["MODEL/1_Pooling/config.json: is missing"]);
    check_error(&bert().remove("model.safetensors"), &["MODEL: has neither model.safetensors nor"]);
    check_error(
        &bert().remove("tokenizer.json").remove("vocab.txt"),
        &["MODEL: has neither tokenizer.json nor vocab.txt"],
    );
    let nowhere = TransformerModel::load(Path::new("no/such/directory")).err().unwrap();
    assert!(nowhere.to_string().contains("no/such/directory: is not a directory"));
}

#[test]
fn damaged_files_are_named() {
    for file in [
        "modules.json",
        "config.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "tokenizer_config.json",
        "tokenizer.json",
        "model.safetensors",
    ] {
        check_error(&Copy::new(BERT).cut(file), &[&format!("MODEL/{file}: ")]);
        check_error(&Copy::new(BERT).write(file, [0xff, 0x00, 0x01]), &[&format!("MODEL/{file}: ")]);
        check_error(&Copy::new(BERT).write(file, ""), &[&format!("MODEL/{file}: ")]);
    }
    for content in [&b""[..], b"garbage", b"PK\x03\x04 and then nothing"] {
        let copy = Copy::new(ROBERTA).write("pytorch_model.bin", content);
        check_error(
            &copy,
            &["MODEL/pytorch_model.bin: is not a complete checkpoint", "convert it to safetensors"],
        );
    }
    check_error(&Copy::new(ROBERTA).cut("pytorch_model.bin"), &["MODEL/pytorch_model.bin: "]);
    let vocabulary = Copy::new(BERT).remove("tokenizer.json").write("vocab.txt", "a\nb\n");
    check_error(&vocabulary, &["MODEL/vocab.txt: has no line [UNK]"]);
}

#[test]
fn json_errors_give_the_line() {
    check_error(
        &Copy::new(BERT).write("config.json", "{\n  \"model_type\": 3\n}"),
        &["MODEL/config.json", "line 2"],
    );
}

#[test]
fn unsupported_features_are_reported() {
    let config = |key: &str, value: Value| Copy::new(BERT).set("config.json", key, value);
    check_error(&config("model_type", json!("gpt2")), &["config.json", "\"gpt2\"", "expected bert, roberta"]);
    check_error(&config("hidden_act", json!("mish")), &["config.json", "\"mish\"", "expected gelu"]);
    check_error(
        &config("position_embedding_type", json!("relative_key")),
        &["config.json", "\"relative_key\""],
    );

    let pooling = |key: &str, value: Value| Copy::new(BERT).set("1_Pooling/config.json", key, value);
    check_error(
        &pooling("pooling_mode", json!("median")),
        &["1_Pooling/config.json", "median", "expected cls, max, mean"],
    );
    let recurrent = json!([
        { "path": "", "type": "sentence_transformers.models.Transformer" },
        { "path": "1_Pooling", "type": "sentence_transformers.models.Pooling" },
        { "path": "2_LSTM", "type": "sentence_transformers.models.LSTM" },
    ]);
    check_error(
        &Copy::new(BERT).write("modules.json", recurrent.to_string()),
        &["modules.json", "a module LSTM"],
    );
    check_error(&Copy::new(BERT).write("modules.json", "[]"), &["modules.json", "lists the modules []"]);
    for outside in ["../1_Pooling", "/etc", "1_Pooling/.."] {
        let modules = json!([
            { "path": "", "type": "sentence_transformers.models.Transformer" },
            { "path": outside, "type": "sentence_transformers.models.Pooling" },
        ]);
        check_error(
            &Copy::new(BERT).write("modules.json", modules.to_string()),
            &["modules.json", "expected one in the directory of the model"],
        );
    }
}

#[test]
fn shapes_must_agree() {
    let config = |key: &str, value: Value| Copy::new(BERT).set("config.json", key, value);
    let weights = "MODEL/model.safetensors: ";
    check_error(&config("vocab_size", json!(47)), &[weights, "[46, 16], expected [47, 16]"]);
    check_error(
        &config("intermediate_size", json!(64)),
        &[weights, "intermediate.dense", "expected [64, 16]"],
    );
    check_error(&config("num_hidden_layers", json!(3)), &[weights, "no tensor encoder.layer.2."]);
    check_error(&config("num_attention_heads", json!(3)), &["MODEL/config.json: ", "expected a divisor"]);
    check_error(
        &config("num_attention_heads", json!(0)),
        &["MODEL/config.json: ", "num_attention_heads is 0"],
    );
    check_error(&config("hidden_size", json!(u64::MAX)), &["MODEL/"]);
    check_error(
        &config("max_position_embeddings", json!(0)),
        &["MODEL/config.json: ", "max_position_embeddings"],
    );
    check_error(&config("hidden_size", json!(32)), &["MODEL/1_Pooling/config.json: ", "expected the 32"]);
    let limit = Copy::new(BERT).set("tokenizer_config.json", "model_max_length", json!(2));
    check_error(&limit, &["MODEL: truncates texts at 2 tokens", "2 special tokens"]);
}

#[test]
fn values_must_be_finite() {
    let copy = Copy::new(BERT);
    let name = "encoder.layer.1.output.dense.bias";
    copy.change_tensors(|tensors| {
        tensors.insert(name.into(), Tensor::full(f32::NAN, 16, &Device::Cpu).unwrap());
    });
    check_error(&copy, &["MODEL/model.safetensors: contains NaN", name]);
}

#[test]
fn a_token_without_a_vector_is_an_error() {
    let copy = Copy::new(BERT);
    let mut tokenizer = copy.json("tokenizer.json");
    tokenizer["model"]["vocab"]["extra"] = json!(4000);
    let model = copy.write("tokenizer.json", tokenizer.to_string()).load();
    assert!(model.embed_queries(&["sort"]).is_ok());
    let error = model.embed_queries(&["sort", "extra"]).unwrap_err().to_string();
    assert!(error.contains("token 4000") && error.contains("46 tokens"), "{error}");
}

#[test]
fn damage_anywhere_never_panics() {
    let mut random = fastrand::Rng::with_seed(88);
    let files = [
        (BERT, "config.json"),
        (BERT, "modules.json"),
        (BERT, "1_Pooling/config.json"),
        (BERT, "tokenizer.json"),
        (BERT, "model.safetensors"),
        (ROBERTA, "tokenizer.json"),
        (ROBERTA, "pytorch_model.bin"),
    ];
    for (name, file) in files {
        let original = fs::read(fixtures().join(name).join(file)).unwrap();
        let mut copy = Copy::new(name);
        for round in 0..200 {
            let mut bytes = original.clone();
            // The start of a file says what the rest is.
            let reach = if round % 2 == 0 { bytes.len() } else { bytes.len().min(200) };
            for _ in 0..=random.usize(..3) {
                let at = random.usize(..reach);
                bytes[at] = random.u8(..);
            }
            if round % 5 == 0 {
                bytes.truncate(random.usize(..reach));
            }
            copy = copy.write(file, bytes);
            if let Ok(model) = TransformerModel::load(copy.root()) {
                let _ = model.embed_queries(&["sort the list", ""]);
            }
        }
    }
}
