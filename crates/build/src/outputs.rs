//! The names of what a build writes, by which its steps and commands find it.

use std::path::{Path, PathBuf};

pub(crate) const BUILD: &str = "build.json";

pub(crate) const QUERIES: &str = "queries.jsonl";

pub(crate) const CANDIDATES: &str = "candidates.jsonl";

pub(crate) const PAIRS_FILE: &str = "pairs.jsonl";

pub(crate) const PARTS: &str = "parts";

pub(crate) fn part_file(splits: &Path, part: &str) -> PathBuf {
    splits.join(PARTS).join(part).with_added_extension("jsonl")
}
