//! The names of what a build writes, by which its steps and commands find it.

use std::path::{Path, PathBuf};

/// The steps of the last build in a directory.
pub(crate) const BUILD: &str = "build.json";

/// The step, and the directory of exports, of queries in other languages.
pub(crate) const OTHER_LANGUAGES: &str = "other-languages";

/// The queries of a step.
pub(crate) const QUERIES: &str = "queries.jsonl";

/// The candidates, query by query.
pub(crate) const CANDIDATES: &str = "candidates.jsonl";

/// Pairs with a label.
pub(crate) const PAIRS_FILE: &str = "pairs.jsonl";

/// The directory of parts in the step of splits.
pub(crate) const PARTS: &str = "parts";

/// The file of a part in the step of splits.
pub(crate) fn part_file(splits: &Path, part: &str) -> PathBuf {
    splits.join(PARTS).join(part).with_added_extension("jsonl")
}
