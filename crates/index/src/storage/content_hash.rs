//! Identifies the content of a file.

use std::hash::Hash;

use quarry_source::SourceText;
use xxhash_rust::xxh3::Xxh3;

/// The hash of a file's content, nonzero: of everything that its units are made from, so that changed outputs of a
/// notebook affect it only if they move lines.
pub(crate) fn content_hash(text: &SourceText) -> u64 {
    let mut hasher = Xxh3::new();
    text.hash(&mut hasher);
    hasher.digest().max(1)
}
