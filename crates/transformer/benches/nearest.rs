//! Times the exact nearest documents of queries: `nearest QUERIES.npy DOCUMENTS.npy K REPEATS`, see
//! `bench/compare_topk.py`.
//!
//! Prints one JSON object: the median of the repeats in seconds, and the positions that were found.
#![allow(clippy::print_stdout, reason = "a program for another one to read")]

use quarry_transformer::{nearest, read_vectors};
use std::path::Path;
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [queries, documents, k, repeats] = &arguments[..] else {
        return println!("usage: nearest QUERIES.npy DOCUMENTS.npy K REPEATS");
    };
    let number = |text: &str| text.parse::<usize>().expect("K and REPEATS are numbers");
    let read = |path: &str| read_vectors(Path::new(path)).unwrap_or_else(|error| panic!("{error}"));
    let (queries, documents) = (read(queries), read(documents));
    let (mut seconds, mut found) = (Vec::new(), Vec::new());
    for _ in 0..number(repeats).max(1) {
        let start = Instant::now();
        found = nearest::nearest(&queries, &documents, number(k));
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let positions: Vec<Vec<usize>> =
        found.iter().map(|found| found.iter().map(|neighbor| neighbor.position).collect()).collect();
    println!("{}", serde_json::json!({"seconds": seconds[seconds.len() / 2], "positions": positions}));
}
