//! CoCLR's rewriting of queries: a query is changed a little, and should find the same code.

use serde::{Deserialize, Serialize};

/// Rewriting of a query. Words are separated by spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rewrite {
    /// Not at all.
    #[default]
    None,
    /// Every occurrence of one of its words is removed.
    Delete,
    /// One of its words is inserted somewhere.
    Copy,
    /// The first occurrences of two of its words change places.
    Switch,
}

impl Rewrite {
    /// A changed query; `None` where there is nothing to change, or nothing left.
    pub fn apply(self, query: &str, random: &mut fastrand::Rng) -> Option<String> {
        let words: Vec<&str> = query.split(' ').collect();
        let mut distinct = words.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let changed = match self {
            Rewrite::None => return None,
            Rewrite::Delete => {
                let dropped = distinct[random.usize(..distinct.len())];
                words.into_iter().filter(|word| *word != dropped).collect()
            }
            Rewrite::Copy => {
                let copied = distinct[random.usize(..distinct.len())];
                let mut words = words;
                words.insert(random.usize(..=words.len()), copied);
                words
            }
            Rewrite::Switch => {
                if distinct.len() < 2 {
                    return None;
                }
                let one = distinct.swap_remove(random.usize(..distinct.len()));
                let other = distinct[random.usize(..distinct.len())];
                let place = |wanted: &str| words.iter().position(|word| *word == wanted);
                let (one, other) = (place(one)?, place(other)?);
                let mut words = words;
                words.swap(one, other);
                words
            }
        };
        Some(changed.join(" ")).filter(|query| !query.trim().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrites(rewrite: Rewrite, query: &str) -> Vec<String> {
        let mut found: Vec<String> =
            (0..200).filter_map(|seed| rewrite.apply(query, &mut fastrand::Rng::with_seed(seed))).collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn delete_removes_every_occurrence_of_a_word() {
        assert_eq!(rewrites(Rewrite::Delete, "a b a"), ["a a", "b"]);
        assert!(rewrites(Rewrite::Delete, "word").is_empty());
    }

    #[test]
    fn copy_inserts_a_word_anywhere() {
        assert_eq!(rewrites(Rewrite::Copy, "a b"), ["a a b", "a b a", "a b b", "b a b"]);
        assert_eq!(rewrites(Rewrite::Copy, "word"), ["word word"]);
    }

    #[test]
    fn switch_swaps_first_occurrences() {
        assert_eq!(
            rewrites(Rewrite::Switch, "a b a c"),
            ["b a a c", "c b a a", "a c a b"]
                .map(str::to_owned)
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
        assert!(rewrites(Rewrite::Switch, "a a").is_empty());
        assert!(rewrites(Rewrite::None, "a b").is_empty());
    }
}
