//! Measures the time of a query in a warm process, and of building the index. 10,000 functions in 1,000 Python files,
//! with words drawn (seed 42) from a vocabulary of 2,000 with a skewed distribution, as in code; with the built-in
//! model. The target for a query is 1 ms.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use quarry_embed::StaticModel;
use quarry_index::{Filter, Index, OpenOptions, RankingWeights, SearchRequest, Update};

const N_FILES: usize = 1_000;
const FUNCTIONS_PER_FILE: usize = 10;
const N_WORDS: usize = 2_000;

/// Words of two or three syllables.
fn words() -> Vec<String> {
    const SYLLABLES: [&str; 13] =
        ["ba", "con", "de", "fil", "gra", "ket", "lo", "mer", "net", "par", "re", "sto", "tu"];
    let mut words = Vec::with_capacity(N_WORDS);
    for number in 0..N_WORDS {
        let (a, b, c) = (number % 13, number / 13 % 13, number / 169);
        words.push(format!("{}{}{}", SYLLABLES[a], SYLLABLES[b], SYLLABLES[c % 13]));
    }
    words
}

/// A random word; the higher its index, the rarer it is.
fn draw<'a>(random: &mut fastrand::Rng, words: &'a [String]) -> &'a str {
    let share = random.f64();
    &words[(share * share * share * words.len() as f64) as usize]
}

fn write_tree(root: &Path) {
    let (words, mut random) = (words(), fastrand::Rng::with_seed(42));
    let mut word = || draw(&mut random, &words).to_owned();
    for file in 0..N_FILES {
        let mut source = String::new();
        for _ in 0..FUNCTIONS_PER_FILE {
            writeln!(source, "def {}_{}({}, {}):", word(), word(), word(), word()).unwrap();
            writeln!(source, "    \"\"\"{} the {} of {} {}.\"\"\"", word(), word(), word(), word()).unwrap();
            for _ in 0..8 {
                writeln!(source, "    {} = {}.{}({}_{})", word(), word(), word(), word(), word()).unwrap();
            }
            writeln!(source, "    return {}\n\n", word()).unwrap();
        }
        let directory = root.join(word());
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("{}_{file}.py", word())), source).unwrap();
    }
}

fn open(root: &Path, update: Update) -> Index {
    let options = OpenOptions { directory: Some(root.join("index")), update, ..OpenOptions::default() };
    let model = Arc::new(StaticModel::builtin());
    Index::open_or_build(&root.join("tree"), &options, Some(model), &|_| {}).unwrap().index
}

fn search(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    write_tree(&directory.path().join("tree"));
    let index = open(directory.path(), Update::IfPossible);
    assert!(index.n_units() >= N_FILES * FUNCTIONS_PER_FILE);
    let words = words();
    let queries = [
        ("symbol", words[500].clone()),
        ("rare words", format!("how to {} the {} of a {}", words[900], words[1_200], words[1_700])),
        (
            "frequent words",
            format!("how to {} the {} of a {} with {}", words[0], words[3], words[8], words[20]),
        ),
    ];
    for (name, query) in &queries {
        criterion.bench_function(&format!("search/{name}"), |bencher| {
            bencher.iter(|| {
                let request = SearchRequest {
                    query,
                    limit: 10,
                    ranking: RankingWeights::default(),
                    filter: &Filter::default(),
                };
                index.search(black_box(&request)).unwrap()
            });
        });
    }
    criterion.bench_function("open", |bencher| bencher.iter(|| open(directory.path(), Update::IfPossible)));
    let mut group = criterion.benchmark_group("build");
    group
        .sample_size(10)
        .bench_function("10,000 functions", |bencher| bencher.iter(|| open(directory.path(), Update::Anew)));
}

criterion_group!(benches, search);
criterion_main!(benches);
