//! Model directories that are damaged, or made to do damage.

use std::collections::HashMap;
use std::fs;
use std::io::Write;

use crate::copy::{self, Copy, check_error, fixtures};
use candle_core::{Device, Tensor};
use quarry_embed::PairModel;
use quarry_transformer::CrossEncoder;
use quarry_transformer::convert::{Precision, rewrite};
use quarry_transformer::trainable::{MATCHER_FILE, Trainable};
use serde_json::json;
use zip::write::SimpleFileOptions;

/// A safetensors file with this header and `n_bytes` zeros after it.
fn safetensors(header: &str, n_bytes: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; n_bytes]].concat()
}

fn checkpoint(pickle: &[u8]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.start_file("archive/data.pkl", SimpleFileOptions::default()).unwrap();
    archive.write_all(pickle).unwrap();
    archive.finish().unwrap().into_inner()
}

#[test]
fn a_deeply_nested_pickle_is_an_error_in_every_reader() {
    let out = tempfile::tempdir().unwrap();
    let pickle = [&b"\x80\x02"[..], &b"]".repeat(2_000_000), &b"a".repeat(1_999_999), b"."].concat();
    let copy =
        Copy::new("tiny-bert").remove("model.safetensors").write("pytorch_model.bin", checkpoint(&pickle));
    let parts = ["MODEL/pytorch_model.bin", "nested over 100 deep", "safetensors"];
    check_error(&copy, "", &parts);
    let errors = [
        Trainable::read(copy.root()).err().unwrap(),
        rewrite(copy.root(), &out.path().join("out"), Precision::Int8).unwrap_err(),
    ];
    for error in errors.map(|error| error.to_string()) {
        assert!(parts[1..].iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn a_checkpoint_without_tensors_is_not_converted() {
    // An empty dictionary, a list and a number.
    for pickle in [&b"\x80\x02}."[..], b"\x80\x02].", b"\x80\x02K\x01."] {
        let out = tempfile::tempdir().unwrap();
        let copy =
            Copy::new("tiny-bert").remove("model.safetensors").write("pytorch_model.bin", checkpoint(pickle));
        let error = rewrite(copy.root(), &out.path().join("out"), Precision::Same).unwrap_err().to_string();
        assert!(error.contains("pytorch_model.bin"), "{error}");
    }
}

#[test]
fn a_tensor_that_is_there_twice_is_an_error() {
    let out = tempfile::tempdir().unwrap();
    let tensor = r#""a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    let twice = safetensors(&format!("{{{tensor},{tensor}}}"), 4);
    let copy = Copy::new("tiny-bert").write("model.safetensors", &twice);
    check_error(&copy, "", &["MODEL/model.safetensors", "\"a\" occurs twice"]);
    assert!(rewrite(copy.root(), &out.path().join("out"), Precision::Same).is_err());
    fs::write(copy.path("vectors.safetensors"), &twice).unwrap();
    assert!(quarry_transformer::read_vectors(&copy.path("vectors.safetensors")).is_err());
    for bytes in [vec![], vec![0xff; 8], safetensors("[1]", 0), safetensors("{\"a\":", 0)] {
        check_error(
            &Copy::new("tiny-bert").write("model.safetensors", bytes),
            "",
            &["not a complete safetensors"],
        );
    }
}

#[test]
fn values_that_are_not_numbers_are_not_converted() {
    for value in [f32::NAN, f32::INFINITY] {
        let out = tempfile::tempdir().unwrap();
        let copy = Copy::new("tiny-bert");
        copy.change_tensors(|tensors| {
            let values = Tensor::from_vec(vec![1.0, value], 2, &Device::Cpu).unwrap();
            tensors.insert("extra.bias".to_owned(), values);
        });
        for precision in [Precision::Same, Precision::Int8, Precision::Int4] {
            let error = rewrite(copy.root(), &out.path().join("out"), precision).unwrap_err().to_string();
            assert!(error.contains("contains NaN or infinity in extra.bias"), "{error}");
        }
    }
}

#[test]
fn a_tokenizer_that_lengthens_texts_without_limit_is_refused() {
    let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let normalizer = json!({"type": "Sequence", "normalizers": vec![double; 12]});
    let copy = Copy::new("tiny-bert").set("tokenizer.json", "normalizer", normalizer.clone());
    check_error(&copy, "", &["MODEL/tokenizer.json", "4096 times as long"]);
    assert!(Trainable::read(copy.root()).is_err());
    assert!(quarry_transformer::TokenCutter::read(&copy.path("tokenizer.json")).is_err());
    let copy = Copy::new("tiny-model2vec").set("tokenizer.json", "normalizer", normalizer.clone());
    assert!(quarry_transformer::load(copy.root()).err().unwrap().to_string().contains("4096 times"));
    let copy = Copy::new("tiny-cross-bert").set("tokenizer.json", "normalizer", normalizer);
    assert!(CrossEncoder::load(copy.root()).err().unwrap().to_string().contains("4096 times"));
}

#[test]
fn a_matcher_is_kept_by_conversion_and_not_ignored() {
    let out = tempfile::tempdir().unwrap();
    let tensor = Tensor::zeros((1, 2), candle_core::DType::F32, &Device::Cpu).unwrap();
    let copy = Copy::new("tiny-bert");
    candle_core::safetensors::save(
        &HashMap::from([("matcher.dense.weight", tensor)]),
        copy.path(MATCHER_FILE),
    )
    .unwrap();
    check_error(&copy, "", &["MODEL/matcher.safetensors", "DIR:mean"]);
    assert!(quarry_transformer::load(copy.root()).is_err());
    rewrite(copy.root(), &out.path().join("out"), Precision::Int8).unwrap();
    assert!(out.path().join("out").join(MATCHER_FILE).is_file());
    copy::load(copy.root(), ":mean");
}

#[test]
fn a_cross_encoder_reads_no_more_of_a_query_than_it_was_trained_on() {
    let copy = Copy::new("tiny-cross-bert").set("config.json", "max_query_tokens", json!(3));
    let limited = CrossEncoder::load(copy.root()).unwrap();
    let whole = CrossEncoder::load(&fixtures().join("tiny-cross-bert")).unwrap();
    let pairs =
        [("sort a list", "def sort ( values )"), ("sort a list of every line", "def sort ( values )")];
    let (found, all) = (limited.log_odds(&pairs).unwrap(), whole.log_odds(&pairs).unwrap());
    assert!((found[0] - found[1]).abs() < 1e-5, "{found:?}");
    assert!((all[0] - all[1]).abs() > 1e-5, "{all:?}");
}
