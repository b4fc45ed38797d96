//! Hashes of the queries that a model was trained on, beside the model, so that `eval` notices questions among them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use quarry_corpus::dataset::compared::ComparedQuery;

/// Name of the file in a trained model's directory: one hash per line, ascending.
pub const FILE: &str = "trained-queries.txt";

/// The content of [`FILE`].
#[cfg(feature = "train")]
pub fn listed<'q>(queries: impl Iterator<Item = &'q str>) -> String {
    let hashes: BTreeSet<u64> = queries.map(hash).collect();
    hashes.into_iter().fold(String::new(), |mut text, hash| {
        let _ = writeln!(text, "{hash:016x}");
        text
    })
}

/// Number of queries that the model at a path was trained on; 0 if it has no list.
pub fn count<'q>(model: &Path, queries: impl Iterator<Item = &'q str>) -> usize {
    let model = quarry_transformer::split_options(model).0;
    let directory = if model.is_file() { model.parent().unwrap_or(&model).to_owned() } else { model };
    let Ok(text) = std::fs::read_to_string(directory.join(FILE)) else { return 0 };
    let hashes: BTreeSet<u64> = text.lines().filter_map(|line| u64::from_str_radix(line, 16).ok()).collect();
    queries.filter(|query| hashes.contains(&hash(query))).count()
}

fn hash(query: &str) -> u64 {
    ComparedQuery::new(query).hash()
}
