//! Newer encoders against what transformers computes for the models of `make_tiny_modern_encoders.py`.

use std::fs;
use std::path::Path;

use crate::copy::{
    Copy, check_error, check_poolings, check_rows, check_tokens, expected, fixtures, load, rows, texts,
};
use candle_core::{Device, Tensor};

use quarry_embed::{EmbedError, Embedder, PairModel, Vectors};
use quarry_transformer::{CrossEncoder, TransformerModel};
use serde_json::{Value, json};
use tokenizers::Tokenizer;

const EXPECTED: &str = "expected-modern-encoders.json";

const ALL: [&str; 6] =
    ["tiny-modernbert", "tiny-nomic-bert", "tiny-qwen3", "tiny-gemma3", "tiny-jina-bert", "tiny-jina-code"];

const CROSS_ENCODERS: [&str; 3] = ["tiny-cross-bert", "tiny-cross-roberta", "tiny-cross-modernbert"];

/// Checks every pooling of a model's tokens.
fn check_states(copy: &Copy, name: &str) {
    check_poolings(copy, name, &expected(EXPECTED), &["cls", "lasttoken", "max", "mean"]);
}

#[test]
fn every_pooling_of_every_encoder_without_normalization() {
    for name in ALL {
        check_states(&Copy::new(name), name);
    }
}

#[test]
fn directories_with_their_modules_and_prompts() {
    let expected = expected(EXPECTED);
    let texts = texts(&expected);
    for name in ALL {
        let model = Copy::new(name).load();
        for (found, side) in [
            (model.embed_queries(&texts).unwrap(), "query"),
            (model.embed_documents(&texts).unwrap(), "document"),
        ] {
            let mut rows = rows(&expected[name][side]);
            rows.iter_mut().for_each(|row| quarry_embed::normalize(row));
            check_rows(&found, &rows, &format!("{name} {side}"));
        }
    }
}

#[test]
fn tokens_equal_those_of_the_library() {
    let expected = expected(EXPECTED);
    ALL.iter().for_each(|name| check_tokens(name, 300, &expected));
}

#[test]
fn configurations_of_other_versions_say_the_same() {
    let without = |copy: &Copy, changes: Value| {
        let mut config = copy.json("config.json");
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        let fields = config.as_object_mut().unwrap();
        fields.retain(|_, value| *value != json!("removed"));
        fs::write(copy.path("config.json"), config.to_string()).unwrap();
    };
    let copy = Copy::new("tiny-modernbert");
    without(
        &copy,
        json!({
            "rope_parameters": "removed", "layer_types": "removed", "global_attn_every_n_layers": 3,
            "global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0,
        }),
    );
    check_states(&copy, "tiny-modernbert");
    let copy = Copy::new("tiny-nomic-bert").write(
        "config.json",
        json!({
            "model_type": "nomic_bert", "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 24,
            "num_hidden_layers": 3, "max_position_embeddings": 300, "vocab_size": 59, "type_vocab_size": 2,
            "layer_norm_eps": 1e-12, "hidden_act": "silu",
            "rope_parameters": { "rope_type": "default", "rope_theta": 1000.0 },
        })
        .to_string(),
    );
    let n_tokens = json!(vocabulary_size("tiny-nomic-bert") + 3);
    check_states(&copy.set("config.json", "vocab_size", n_tokens), "tiny-nomic-bert");
    let copy = Copy::new("tiny-qwen3");
    without(
        &copy,
        json!({ "rope_parameters": "removed", "rope_theta": 1_000_000.0, "rope_scaling": null, "layer_types": "removed" }),
    );
    check_states(&copy, "tiny-qwen3");
    let copy = Copy::new("tiny-gemma3");
    without(
        &copy,
        json!({ "rope_parameters": "removed", "rope_theta": 1_000_000.0, "rope_local_base_freq": 10_000.0 }),
    );
    check_states(&copy, "tiny-gemma3");
}

fn vocabulary_size(name: &str) -> usize {
    Tokenizer::from_file(fixtures().join(name).join("tokenizer.json")).unwrap().get_vocab_size(true)
}

#[test]
fn positions_that_are_rotated_otherwise_beyond_a_limit_are_cut_off() {
    let limited = Copy::new("tiny-nomic-bert").set("config.json", "max_trained_positions", json!(40)).set(
        "config.json",
        "rotary_scaling_factor",
        json!(2.0),
    );
    let shorter = Copy::new("tiny-nomic-bert").set("tokenizer_config.json", "model_max_length", json!(40));
    let text = "read the list of files and sort it ".repeat(20);
    let embed = |copy: &Copy| copy.load().embed_documents(&[&text]).unwrap();
    assert_eq!(embed(&limited), embed(&shorter));
    assert_ne!(embed(&limited), embed(&Copy::new("tiny-nomic-bert")));
}

#[test]
fn inconsistent_files_are_reported() {
    let set = |name: &str, key: &str, value: Value| Copy::new(name).set("config.json", key, value);
    let check = |name: &str, key: &str, value: Value, parts: &[&str]| {
        check_error(&set(name, key, value), "", &[&["MODEL/"], parts].concat());
    };
    let weights = "model.safetensors: ";
    check(
        "tiny-modernbert",
        "intermediate_size",
        json!(20),
        &[weights, "layers.0.mlp.Wi", "[48, 16], expected [40, 16]"],
    );
    check("tiny-modernbert", "num_hidden_layers", json!(4), &["config.json: ", "3 layer_types for 4 layers"]);
    check(
        "tiny-modernbert",
        "layer_types",
        json!(["full_attention", "linear_attention", "full_attention"]),
        &["\"linear_attention\"", "expected full_attention or sliding_attention"],
    );
    check("tiny-modernbert", "norm_bias", json!(true), &["config.json: ", "norm_bias", "without biases"]);
    check("tiny-modernbert", "num_attention_heads", json!(3), &["expected a divisor"]);
    check("tiny-modernbert", "num_attention_heads", json!(16), &["heads 1 columns", "even number"]);
    check("tiny-nomic-bert", "activation_function", json!("geglu"), &["\"geglu\"", "expected \"swiglu\""]);
    check(
        "tiny-nomic-bert",
        "moe_every_n_layers",
        json!(2),
        &["moe_every_n_layers", "nomic-embed-text-v1.5"],
    );
    check("tiny-nomic-bert", "rotary_emb_base", json!(-1.0), &["the base -1", "above 0"]);
    check(
        "tiny-nomic-bert",
        "n_inner",
        json!(20),
        &[weights, "layers.0.mlp.fc", "[24, 16], expected [20, 16]"],
    );
    check(
        "tiny-qwen3",
        "num_key_value_heads",
        json!(3),
        &["num_attention_heads is 4", "num_key_value_heads is 3"],
    );
    check("tiny-qwen3", "num_key_value_heads", json!(0), &["num_key_value_heads is 0"]);
    check("tiny-qwen3", "head_dim", json!(8), &[weights, "q_norm", "[6], expected [8]"]);
    check(
        "tiny-qwen3",
        "rope_scaling",
        json!({ "type": "yarn" }),
        &["rope_scaling", "\"yarn\"", "\"default\""],
    );
    check("tiny-qwen3", "use_sliding_window", json!(true), &["use_sliding_window", "Qwen3-Embedding"]);
    check(
        "tiny-gemma3",
        "attn_logit_softcapping",
        json!(50.0),
        &["attn_logit_softcapping", "EmbeddingGemma"],
    );
    check("tiny-gemma3", "query_pre_attn_scalar", json!(-4), &["query_pre_attn_scalar", "above 0"]);
    check("tiny-gemma3", "sliding_window", json!(0), &["sliding_window is 0"]);
    check("tiny-jina-bert", "feed_forward_type", json!("original"), &["\"original\"", "expected \"geglu\""]);
    for name in ALL {
        check_error(
            &Copy::new(name).cut("model.safetensors"),
            "",
            &["MODEL/model.safetensors: is not a complete"],
        );
        check_error(
            &Copy::new(name).write("config.json", "{\"model_type\": 3}"),
            "",
            &["MODEL/config.json: "],
        );
    }
}

fn pairs(expected: &Value) -> Vec<(&str, &str)> {
    expected["pairs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap()))
        .collect()
}

#[test]
fn cross_encoders_score_pairs() {
    let expected = expected(EXPECTED);
    let pairs = pairs(&expected);
    for name in CROSS_ENCODERS {
        let copy = Copy::new(name);
        assert!(CrossEncoder::is_at(copy.root()));
        let model = CrossEncoder::load(copy.root()).unwrap();
        let values = model.log_odds(&pairs).unwrap();
        for (pair, score) in pairs.iter().zip(&values) {
            assert!((model.log_odds(&[*pair]).unwrap()[0] - score).abs() < 1e-5, "{name}: {pair:?}");
        }
        check_rows(&Vectors { dimension: 1, values }, &rows(&expected[name]), name);
    }
    assert!(!CrossEncoder::is_at(&fixtures().join("tiny-bert")));
    let error = CrossEncoder::load(&fixtures().join("tiny-bert")).err().unwrap().to_string();
    assert!(error.contains("is not a cross-encoder"), "{error}");
    assert!(!CrossEncoder::is_at(&fixtures().join("no/such")));
}

#[test]
fn the_second_of_two_labels_is_the_match() {
    let copy = Copy::new("tiny-cross-bert");
    copy.change_tensors(|tensors| {
        // The first label has half of the second one's logit.
        for name in ["classifier.weight", "classifier.bias"] {
            let one = tensors[name].clone();
            let two = Tensor::cat(&[(&one * 0.5).unwrap(), one], 0).unwrap();
            tensors.insert(name.into(), two);
        }
    });
    let copy = copy.set("config.json", "id2label", json!({ "0": "no", "1": "yes" }));
    let pairs = [("sort a list", "def sort(values):"), ("one", "")];
    let found = CrossEncoder::load(copy.root()).unwrap().log_odds(&pairs).unwrap();
    let original = CrossEncoder::load(&fixtures().join("tiny-cross-bert")).unwrap().log_odds(&pairs).unwrap();
    for (found, original) in found.iter().zip(original) {
        assert!((found - 0.5 * original).abs() < 1e-5, "{found} {original}");
    }
}

#[test]
fn values_that_are_not_numbers_are_refused() {
    let check = |name: &str, tensor: &str, run: &dyn Fn(&Path) -> Result<(), EmbedError>| {
        let copy = Copy::new(name);
        copy.change_tensors(|tensors| {
            let huge = (tensors[tensor].ones_like().unwrap() * 3e38).unwrap();
            tensors.insert(tensor.into(), huge);
        });
        let error = run(copy.root()).unwrap_err().to_string();
        assert!(error.contains("returns NaN or infinity"), "{error}");
    };
    check("tiny-cross-bert", "classifier.weight", &|path| {
        CrossEncoder::load(path)?.log_odds(&[("sort a list", "def sort")]).map(drop)
    });
    check("tiny-bert", "embeddings.LayerNorm.weight", &|path| {
        TransformerModel::load(path)?.embed_queries(&["sort a list"]).map(drop)
    });
}

#[test]
fn maps_side_by_side_may_have_different_bits() {
    let copy = Copy::new("tiny-bert");
    let texts = ["sort a list", "read every line"];
    let before = copy.load().embed_queries(&texts).unwrap();
    copy.change_tensors(|tensors| {
        let name = "encoder.layer.0.attention.self.query.weight";
        let rows: Vec<Vec<f32>> = tensors[name].to_vec2().unwrap();
        let largest = |row: &Vec<f32>| row.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        let factors: Vec<f32> = rows.iter().map(|row| largest(row) / 127.0).collect();
        let bytes: Vec<u8> = (rows.iter().zip(&factors))
            .flat_map(|(row, factor)| row.iter().map(move |value| ((value / factor).round() + 128.0) as u8))
            .collect();
        let shape = (rows.len(), rows[0].len());
        tensors.insert(name.into(), Tensor::from_vec(bytes, shape, &Device::Cpu).unwrap());
        let factors = Tensor::from_vec(factors, rows.len(), &Device::Cpu).unwrap();
        tensors.insert(format!("{name}.scale"), factors);
    });
    let after = copy.load().embed_queries(&texts).unwrap();
    assert_ne!(before, after);
    for (before, after) in before.rows().zip(after.rows()) {
        let cosine: f32 = before.iter().zip(after).map(|(a, b)| a * b).sum();
        assert!(cosine > 0.999, "{cosine}");
    }
}

#[test]
fn cross_encoders_that_do_not_fit_are_named() {
    let check = |copy: &Copy, parts: &[&str]| {
        let error = CrossEncoder::load(copy.root()).err().unwrap().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "expected {parts:?} in {error}");
    };
    let bert = || Copy::new("tiny-cross-bert");
    let labels = json!({ "0": "a", "1": "b", "2": "c" });
    check(&bert().set("config.json", "id2label", labels), &["config.json: has 3 labels", "one or two"]);
    let labels = json!({ "0": "a", "1": "b" });
    check(
        &bert().set("config.json", "id2label", labels),
        &["model.safetensors: ", "classifier.weight", "[1, 16], expected [2, 16]"],
    );
    check(
        &bert().set("tokenizer_config.json", "model_max_length", json!(3)),
        &["truncates pairs of texts at 3 tokens", "3 special tokens"],
    );
    check(
        &Copy::new("tiny-t5").set("config.json", "architectures", json!(["T5ForSequenceClassification"])),
        &["model.safetensors: ", "cross-encoder", "of T5", "expected one of CodeT5+"],
    );
    check(
        &Copy::new("tiny-cross-modernbert").set("config.json", "classifier_pooling", json!("max")),
        &["config.json: ", "\"max\"", "expected cls or mean"],
    );
    check(&bert().remove("tokenizer.json"), &["has neither tokenizer.json nor vocab.txt"]);
    check_error(&bert(), "", &["MODEL: contains a cross-encoder", "rerank(A, B)"]);
    assert_eq!(load(bert().root(), ":mean").dimension(), 16);
}
