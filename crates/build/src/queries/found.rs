//! The queries that a source has, and those that were removed.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::queries::mask;
use crate::record::normalized_hash;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Excluded {
    pub(crate) text: String,
    /// The name of the filter, as it is counted.
    pub(crate) filter: String,
    pub(crate) rule: String,
}

/// Queries with distinct texts, in the original order.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) queries: Vec<(String, Vec<String>)>,
    /// Only needed while texts are added.
    #[serde(skip)]
    places: HashMap<u128, usize>,
    pub(crate) n_read: u64,
}

impl Found {
    fn put(&mut self, text: String, codes: impl IntoIterator<Item = String>) {
        let next = self.queries.len();
        let place = *self.places.entry(normalized_hash(&text)).or_insert(next);
        if place == next {
            self.queries.push((text, Vec::new()));
        }
        self.queries[place].1.extend(codes);
    }

    pub(crate) fn add(&mut self, text: &str, code: Option<String>) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !text.is_empty() {
            self.n_read += 1;
            self.put(text, code);
        }
    }

    /// Adds a query with all its codes, unless it is there already; returns whether it was added.
    pub(crate) fn add_new(&mut self, text: &str, codes: Vec<String>) -> bool {
        self.n_read += 1;
        let next = self.queries.len();
        let is_new = *self.places.entry(normalized_hash(&text.to_lowercase())).or_insert(next) == next;
        if is_new {
            self.queries.push((text.to_owned(), codes));
        }
        is_new
    }

    /// The same with secrets and personal data masked; queries that become equal are merged.
    pub(crate) fn masked(self, counts: &mut BTreeMap<String, u64>) -> Self {
        let (mut masked, mut n_masked) = (Self { n_read: self.n_read, ..Self::default() }, BTreeMap::new());
        for (text, codes) in self.queries {
            masked.put(mask::masked(&text, &mut n_masked).into_owned(), codes);
        }
        counts.extend(n_masked.into_iter().map(|(rule, count)| (format!("masked: {rule}"), count)));
        masked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_asked_once() {
        let mut found = Found::default();
        for (text, code) in [("a  b", "1"), ("c", "2"), (" a b ", "3"), ("", "4")] {
            found.add(text, Some(code.into()));
        }
        assert_eq!(found.n_read, 3);
        assert_eq!(
            found.queries,
            [("a b".into(), vec!["1".into(), "3".into()]), ("c".into(), vec!["2".into()])]
        );
    }
}
