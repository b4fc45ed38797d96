//! Measures the time of a query in a warm process, and the memory of that process, in a real tree.
//!
//! `cargo bench -p quarry-index --bench tree -- TREE INDEX QUERIES` opens the index of TREE in the directory INDEX
//! (built before by `quarry index TREE --index INDEX`) with the built-in model, and answers each query of the table
//! QUERIES (`bench/repo-queries.tsv`) once to warm up and then several times in turn. Prints one JSON object: the
//! size of the index, the median and the 90th percentile over the queries of each query's median time, by category,
//! the mean processor time per query of all threads together, and the memory as reported by Linux (`RssFile` counts
//! mapped pages that were touched, which belong to the page cache and can be dropped; `RssAnon` is the process's
//! own).
#![allow(clippy::print_stdout, reason = "printing is what it is for")]
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use quarry_embed::StaticModel;
use quarry_index::{Filter, Index, OpenOptions, RankingWeights, SearchRequest, Update};
use serde_json::json;

const ROUNDS: usize = 9;

/// Words that occur in nearly every source tree, many of them in a large share of the functions.
const FREQUENT: [&str; 4] = [
    "get the value of a name",
    "return the data of a type",
    "set a new string for the key",
    "add a test for the list of values",
];

fn main() {
    // Cargo passes `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [tree, index, queries] = arguments.as_slice() else {
        // When cargo runs all benches, no tree is given.
        println!("usage: TREE INDEX QUERIES");
        return;
    };
    let start = Instant::now();
    let options =
        OpenOptions { directory: Some(index.into()), update: Update::Never, ..OpenOptions::default() };
    let model = Arc::new(StaticModel::builtin());
    let index = Index::open_or_build(Path::new(tree), &options, Some(model), &|_| {}).unwrap().index;
    let open_ms = milliseconds(start);
    let after_open = memory();
    let table = fs::read_to_string(queries).unwrap();
    let queries = queries_of(&table);
    let mut times = vec![Vec::with_capacity(ROUNDS); queries.len()];
    let mut cpu_before = 0.0;
    for round in 0..=ROUNDS {
        if round == 1 {
            cpu_before = cpu_ms();
        }
        for ((_, query), times) in queries.iter().zip(&mut times) {
            let filter = Filter::default();
            let request =
                SearchRequest { query, limit: 10, ranking: RankingWeights::default(), filter: &filter };
            let start = Instant::now();
            index.search(&request).unwrap();
            if round > 0 {
                times.push(milliseconds(start));
            }
        }
    }
    let cpu_ms_a_query = (cpu_ms() - cpu_before) / (ROUNDS * queries.len()) as f64;
    let mut by_category: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for ((category, _), times) in queries.iter().zip(times) {
        for category in [category, "all"] {
            by_category.entry(category).or_default().push(quantile(times.clone(), 0.5));
        }
    }
    let query_ms: BTreeMap<&str, _> = by_category
        .into_iter()
        .map(|(category, times)| {
            let (median, p90) = (quantile(times.clone(), 0.5), quantile(times.clone(), 0.9));
            (category, json!({ "queries": times.len(), "median": median, "p90": p90 }))
        })
        .collect();
    let summary = json!({
        "units": index.n_units(),
        "files": index.n_files(),
        "threads": std::thread::available_parallelism().map_or(1, usize::from),
        "open_ms": open_ms,
        "query_ms": query_ms,
        "query_cpu_ms": cpu_ms_a_query,
        "memory_kb": { "after_open": after_open, "after_queries": memory() },
    });
    println!("{summary}");
}

/// Category and query of each row, and of additional queries of frequent words.
fn queries_of(table: &str) -> Vec<(&str, &str)> {
    let mut rows = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let column = |name| header.iter().position(|column| *column == name).unwrap();
    let (category, query) = (column("category"), column("query"));
    rows.map(|row| (row[category], row[query]))
        .chain(FREQUENT.map(|query| ("frequent words", query)))
        .collect()
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

/// Processor time of all threads of this process, as reported by Linux; 0 elsewhere.
fn cpu_ms() -> f64 {
    let of_thread = |entry: fs::DirEntry| {
        let times = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        times.split(' ').next()?.parse::<f64>().ok()
    };
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.filter_map(of_thread).sum::<f64>() / 1e6
}

/// Memory of this process, as reported by Linux; empty elsewhere.
fn memory() -> BTreeMap<String, u64> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kept = ["VmRSS", "RssAnon", "RssFile", "VmHWM"];
    let lines = status.lines().filter_map(|line| line.split_once(':')).filter(|(key, _)| kept.contains(key));
    let kilobytes = |value: &str| value.trim().trim_end_matches(" kB").parse().ok();
    lines.filter_map(|(key, value)| Some((key.to_owned(), kilobytes(value)?))).collect()
}
