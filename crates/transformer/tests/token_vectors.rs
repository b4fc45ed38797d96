//! Static models in the format of model2vec, against what that package computes for the models of
//! `make_tiny_model2vec.py`, and their way into the program's own format and back.

use std::fs;
use std::path::Path;

use crate::copy::{Copy, check_values, expected, fixtures, rows, texts, with_options};
use candle_core::{DType, Device, Tensor};
use quarry_embed::Embedder;
use quarry_embed::static_model::{StaticModel, StaticWeights, write_model};
use quarry_embed::vocabulary::{bigram_hash, build_slots, word_hash};
use quarry_transformer::{TokenVectors, write_token_vectors};

const ALL: [&str; 2] = ["tiny-model2vec", "tiny-model2vec-int8"];

fn with(path: &Path, options: &str) -> TokenVectors {
    TokenVectors::load(&with_options(path, options)).unwrap()
}

#[test]
fn vectors_are_those_of_model2vec() {
    let expected = expected("expected-model2vec.json");
    let texts = texts(&expected);
    for name in ALL {
        let rows = rows(&expected[name]["vectors"]);
        let path = fixtures().join(name);
        assert!(TokenVectors::is_at(&path));
        check_values(&with(&path, ":dot").embed_documents(&texts).unwrap(), &rows, 1e-4, name);
        let unit = |n: usize| -> Vec<Vec<f32>> {
            rows.iter()
                .map(|row| {
                    let mut row = row[..n].to_vec();
                    quarry_embed::normalize(&mut row);
                    row
                })
                .collect()
        };
        check_values(&with(&path, "").embed_queries(&texts).unwrap(), &unit(12), 1e-4, name);
        check_values(&with(&path, ":5").embed_queries(&texts).unwrap(), &unit(5), 1e-4, name);
        assert_ne!(with(&path, ":5").id(), with(&path, "").id());
        // It is what the function for any directory loads.
        assert_eq!(quarry_transformer::load(&path).unwrap().id(), with(&path, "").id());
    }
    assert!(!TokenVectors::is_at(&fixtures().join("tiny-bert")));
}

#[test]
fn vectors_in_16_bits_and_the_layout_of_sentence_transformers_are_read() {
    let name = "tiny-model2vec";
    let vectors = with(&fixtures().join(name), "").embed_documents(&["sort the list"]).unwrap();
    for dtype in [DType::F16, DType::BF16, DType::F64] {
        let copy = Copy::new(name);
        let tensors = candle_core::safetensors::load(copy.path("model.safetensors"), &Device::Cpu).unwrap();
        let tensor: Tensor = tensors["embeddings"].to_dtype(dtype).unwrap();
        let below = copy.path("0_StaticEmbedding");
        fs::create_dir(&below).unwrap();
        fs::rename(copy.path("tokenizer.json"), below.join("tokenizer.json")).unwrap();
        fs::remove_file(copy.path("model.safetensors")).unwrap();
        let tensors = std::iter::once(("embedding.weight".to_owned(), tensor)).collect();
        candle_core::safetensors::save(&tensors, below.join("model.safetensors")).unwrap();
        let found = with(copy.root(), "").embed_documents(&["sort the list"]).unwrap();
        check_values(&found, std::slice::from_ref(&vectors.values), 2e-2, &format!("{dtype:?}"));
    }
}

#[test]
fn inconsistent_files_are_reported() {
    let check_error = |copy: &Copy, options: &str, part: &str| {
        let error = TokenVectors::load(&with_options(copy.root(), options)).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    };
    for name in ALL {
        for (options, words) in [(":13", "12 columns, of which 13"), (":mean", "is a static model")] {
            check_error(&Copy::new(name), options, words);
        }
        check_error(&Copy::new(name).remove("tokenizer.json"), "", "tokenizer.json: is missing");
        let copy = Copy::new(name);
        let bytes = fs::read(copy.path("model.safetensors")).unwrap();
        let copy = copy.write("model.safetensors", &bytes[..bytes.len() - 1]);
        check_error(&copy, "", "is not a complete safetensors file");
    }
    // A tokenizer with more tokens than vectors.
    let copy = Copy::new(ALL[0]);
    let tokenizer = fs::read_to_string(copy.path("tokenizer.json")).unwrap();
    let copy = copy.write("tokenizer.json", tokenizer.replacen("\"vocab\":{", "\"vocab\":{\"more\":400,", 1));
    check_error(&copy, "", "for 401 tokens; use the tokenizer of the same");
}

/// A static model in the program's own format, written and read.
fn read_back(weights: &StaticWeights) -> StaticModel {
    StaticModel::parse(&write_model(weights), Path::new("model.bin")).unwrap()
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn a_static_model_made_of_it_gives_nearly_the_same_vectors_to_words() {
    for name in ALL {
        let model = with(&fixtures().join(name), "");
        let (weights, words) = model.to_static();
        assert_eq!(weights.document_rows.len(), words.len() * 12);
        let made = read_back(&weights);
        if name == "tiny-model2vec" {
            // Whole words, a word with a known rest, several words.
            for text in ["sort", "sorted", "read every line of the file", "sort a list by value"] {
                let [a, b] =
                    [model.embed_documents(&[text]).unwrap(), made.embed_documents(&[text]).unwrap()];
                assert!(cosine(&a.values, &b.values) > 0.999, "{text}: {}", cosine(&a.values, &b.values));
            }
            // A word is preferred to a part of a word that is written like it, and punctuation is none.
            assert_eq!(words.iter().filter(|word| *word == "s").count(), 1);
            assert!(words.iter().all(|word| word.chars().all(char::is_alphanumeric)), "{words:?}");
            let s = made.embed_documents(&["s"]).unwrap();
            assert!(cosine(&s.values, &model.embed_documents(&["s"]).unwrap().values) > 0.999);
            let rest = made.embed_documents(&["values"]).unwrap();
            assert!(cosine(&rest.values, &model.embed_documents(&["values"]).unwrap().values) < 0.999);
        }
    }
}

#[test]
fn a_static_model_goes_into_the_format_of_model2vec_and_back() {
    let words = ["parse", "http", "header", "hash", "map", "read", "read file", "file"];
    let mut hashes: Vec<u64> = words.iter().map(|word| word_hash(word)).collect();
    hashes[6] = bigram_hash(hashes[5], hashes[7]);
    let rows: Vec<f32> = (0..words.len() * 4).map(|at| ((at * 37 % 23) as f32 - 11.0) / 7.0).collect();
    let weights = StaticWeights {
        dimension: 4,
        max_words: 100,
        slots: build_slots(&hashes),
        position_weights: vec![1.0],
        document_rows: rows,
        query_rows: Vec::new(),
    };
    let own = read_back(&weights);
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(write_token_vectors(&own.weights(), &words, directory.path()).unwrap(), 7);
    let written = with(directory.path(), "");
    let again = read_back(&written.to_static().0);
    for text in ["parseHTTPHeader", "parse_http header", "hashmap", "HASHMap (read)", "map(file)", "readHTTP"]
    {
        let vectors = |model: &dyn Embedder| model.embed_documents(&[text]).unwrap().values;
        let own = vectors(&own);
        for other in [vectors(&written), vectors(&again)] {
            assert!(cosine(&own, &other) > 0.999, "{text}: {own:?} {other:?}");
        }
    }
    // The pair is lost.
    let text = ["read file"];
    let [a, b] = [own.embed_documents(&text).unwrap(), written.embed_documents(&text).unwrap()];
    assert!(cosine(&a.values, &b.values) < 0.999);
    let error = write_token_vectors(&own.weights(), &words[1..], directory.path()).unwrap_err().to_string();
    assert!(error.contains("has 7 words for 8 vectors"), "{error}");
}
