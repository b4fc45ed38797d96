//! Times the embedding of texts by a transformer: `encode MODEL TEXTS REPEATS`, TEXTS being a JSON array of texts; see
//! `bench/compare_encoding.py`.
//!
//! Prints one JSON object: the median of the repeats in seconds, and the vector of the first text.
#![allow(clippy::print_stdout, reason = "a program for another one to read")]

use quarry_embed::Embedder;
use quarry_transformer::TransformerModel;
use std::path::Path;
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [model, texts, repeats] = &arguments[..] else {
        return println!("usage: encode MODEL TEXTS REPEATS");
    };
    let model = TransformerModel::load(Path::new(model)).unwrap_or_else(|error| panic!("{error}"));
    let texts = std::fs::read(texts).expect("TEXTS is a file");
    let texts: Vec<String> = serde_json::from_slice(&texts).expect("TEXTS is an array of texts");
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (mut seconds, mut first) = (Vec::new(), Vec::new());
    // The first time is for warming up.
    for _ in 0..=repeats.parse::<usize>().expect("REPEATS is a number") {
        let start = Instant::now();
        let vectors = model.embed_documents(&texts).unwrap_or_else(|error| panic!("{error}"));
        seconds.push(start.elapsed().as_secs_f64());
        first = vectors.values[..vectors.dimension].to_vec();
    }
    seconds.remove(0);
    seconds.sort_by(f64::total_cmp);
    println!("{}", serde_json::json!({"seconds": seconds[seconds.len() / 2], "first": first}));
}
