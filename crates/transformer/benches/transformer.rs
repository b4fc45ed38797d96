//! Texts per second that the transformer embeds on all cores. Texts of 16 tokens (the length of a docstring's first
//! sentence) and of 128 (a function), 1,024 and 128 of them at once, and one alone; a model of the shape of
//! all-MiniLM-L6-v2 with random weights, since values do not change the time. `bench/compare_encoding.py` measures a
//! real model beside PyTorch.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;

use candle_core::{Device, Tensor};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use quarry_embed::Embedder;
use quarry_transformer::TransformerModel;

const HIDDEN: usize = 384;
const INTERMEDIATE: usize = 1536;
const N_LAYERS: usize = 6;
const N_HEADS: usize = 12;
const N_TOKENS: usize = 30_522;
const N_POSITIONS: usize = 512;
const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

fn write_model(directory: &Path) {
    let config = serde_json::json!({
        "model_type": "bert", "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE, "num_attention_heads": N_HEADS,
        "num_hidden_layers": N_LAYERS, "vocab_size": N_TOKENS, "max_position_embeddings": N_POSITIONS,
        "type_vocab_size": 2,
    });
    std::fs::write(directory.join("config.json"), config.to_string()).unwrap();
    let words = (SPECIAL.len()..N_TOKENS).map(|id| format!("w{id}"));
    let vocabulary: Vec<String> = SPECIAL.into_iter().map(str::to_owned).chain(words).collect();
    std::fs::write(directory.join("vocab.txt"), vocabulary.join("\n")).unwrap();

    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("embeddings.word_embeddings.weight".into(), vec![N_TOKENS, HIDDEN]),
        ("embeddings.position_embeddings.weight".into(), vec![N_POSITIONS, HIDDEN]),
        ("embeddings.token_type_embeddings.weight".into(), vec![2, HIDDEN]),
        ("embeddings.LayerNorm.weight".into(), vec![HIDDEN]),
        ("embeddings.LayerNorm.bias".into(), vec![HIDDEN]),
    ];
    for layer in 0..N_LAYERS {
        for (name, inputs, outputs) in [
            ("attention.self.query", HIDDEN, HIDDEN),
            ("attention.self.key", HIDDEN, HIDDEN),
            ("attention.self.value", HIDDEN, HIDDEN),
            ("attention.output.dense", HIDDEN, HIDDEN),
            ("intermediate.dense", HIDDEN, INTERMEDIATE),
            ("output.dense", INTERMEDIATE, HIDDEN),
        ] {
            shapes.push((format!("encoder.layer.{layer}.{name}.weight"), vec![outputs, inputs]));
            shapes.push((format!("encoder.layer.{layer}.{name}.bias"), vec![outputs]));
        }
        for name in ["attention.output", "output"] {
            shapes.push((format!("encoder.layer.{layer}.{name}.LayerNorm.weight"), vec![HIDDEN]));
            shapes.push((format!("encoder.layer.{layer}.{name}.LayerNorm.bias"), vec![HIDDEN]));
        }
    }
    let tensors: HashMap<String, Tensor> = shapes
        .into_iter()
        .map(|(name, shape)| (name, Tensor::randn(0f32, 0.05, shape, &Device::Cpu).unwrap()))
        .collect();
    candle_core::safetensors::save(&tensors, directory.join("model.safetensors")).unwrap();
}

/// Texts of `length` tokens, the two special ones included.
fn texts(n: usize, length: usize) -> Vec<String> {
    let n_words = N_TOKENS - SPECIAL.len();
    let word = |index: usize| format!("w{}", SPECIAL.len() + index * 7919 % n_words);
    (0..n)
        .map(|text| (0..length - 2).map(|at| word(text * length + at)).collect::<Vec<_>>().join(" "))
        .collect()
}

fn transformer(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    write_model(directory.path());
    let model = TransformerModel::load(directory.path()).unwrap();
    let mut group = criterion.benchmark_group("transformer");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for (n, length) in [(1024, 16), (128, 128), (1, 16), (1, 128)] {
        let texts = texts(n, length);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new(format!("{length} tokens"), n), |bencher| {
            bencher.iter(|| model.embed_documents(black_box(&texts)).unwrap());
        });
    }
    group.finish();
    criterion.bench_function("transformer/load", |bencher| {
        bencher.iter(|| TransformerModel::load(black_box(directory.path())).unwrap());
    });
}

criterion_group!(benches, transformer);
criterion_main!(benches);
