//! Functions per second that the built-in static model embeds on all cores: 20,000 functions of 20 to 180 words drawn
//! (seed 42) from the words of this crate's own source, so that some are in the vocabulary and some are not, and
//! frequent ones are frequent; and one query of six words. The bar is 50,000 functions a second on two cores.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quarry_embed::{Embedder, StaticModel};

const N_FUNCTIONS: usize = 20_000;
const SOURCES: [&str; 3] = [
    include_str!("../src/static_model.rs"),
    include_str!("../src/vocabulary.rs"),
    include_str!("../src/cache.rs"),
];

fn functions() -> Vec<String> {
    let words: Vec<&str> = SOURCES.iter().flat_map(|source| source.split_whitespace()).collect();
    let mut random = fastrand::Rng::with_seed(42);
    let mut function = || {
        let n_words = random.usize(20..=180);
        let words: Vec<&str> = (0..n_words).map(|_| words[random.usize(..words.len())]).collect();
        words.join(" ")
    };
    (0..N_FUNCTIONS).map(|_| function()).collect()
}

fn benches(criterion: &mut Criterion) {
    let model = StaticModel::builtin();
    let functions = functions();
    let texts: Vec<&str> = functions.iter().map(String::as_str).collect();
    let mut group = criterion.benchmark_group("static model");
    group.sample_size(20).throughput(Throughput::Elements(N_FUNCTIONS as u64));
    group.bench_function("functions", |bencher| {
        bencher.iter(|| model.embed_documents(black_box(&texts)).unwrap());
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("one query", |bencher| {
        bencher.iter(|| model.embed_queries(black_box(&["read a csv file into memory"])).unwrap());
    });
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
