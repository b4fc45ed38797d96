//! An inverted index: which documents contain a token, and how often.

use std::collections::HashMap;

/// Occurrences of tokens in a corpus of less than 2³² documents.
#[derive(Debug)]
pub(super) struct Postings {
    /// Index of each token's list.
    vocabulary: HashMap<String, usize>,
    /// For each token, the documents that contain it, ascending, with counts.
    lists: Vec<Vec<(u32, u32)>>,
}

impl Postings {
    /// Builds lists from the counts of each document, for the tokens of `vocabulary` only.
    pub(super) fn new(counts: &[HashMap<String, u32>], vocabulary: impl IntoIterator<Item = String>) -> Self {
        let vocabulary: HashMap<String, usize> =
            vocabulary.into_iter().enumerate().map(|(position, token)| (token, position)).collect();
        let mut lists = vec![Vec::new(); vocabulary.len()];
        for (document, counts) in (0..).zip(counts) {
            for (token, count) in counts {
                if let Some(&position) = vocabulary.get(token) {
                    lists[position].push((document, *count));
                }
            }
        }
        Self { vocabulary, lists }
    }

    /// The documents that contain a token, ascending, with counts; `None` for a token that is not in the vocabulary.
    pub(super) fn get(&self, token: &str) -> Option<&[(u32, u32)]> {
        self.vocabulary.get(token).map(|&position| &self.lists[position][..])
    }
}

pub(super) fn counts<'a>(tokens: impl Iterator<Item = &'a str>) -> HashMap<String, u32> {
    let mut counts = HashMap::new();
    for token in tokens {
        match counts.get_mut(token) {
            Some(count) => *count += 1,
            None => _ = counts.insert(token.to_owned(), 1),
        }
    }
    counts
}
