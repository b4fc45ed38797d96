//! Queries that the trees answer, for those who do not know what to ask.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use quarry_index::{Filter, IndexedFile};
use quarry_session::Tree;
use quarry_source::{UnitKind, language_named};
use quarry_text::query_terms;
use quarry_walk::FileFlags;

/// The most examples, and trees that they come from.
const MAX_EXAMPLES: usize = 5;
const MAX_TREES: usize = 8;
/// The most files that are read for them, and the longest one, in bytes.
const MAX_FILES: usize = 24;
const MAX_FILE_BYTES: usize = 200_000;
/// Words and bytes of a description that serves as a query.
const WORDS: RangeInclusive<usize> = 5..=9;
const MAX_BYTES: usize = 60;
/// First words of what names a thing instead of telling what a function does.
const NOUN_STARTS: [&str; 8] = ["A", "All", "An", "How", "The", "This", "Whether", "Which"];
/// The most names.
const MAX_NAMES: usize = 2;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Examples {
    /// Descriptions of some functions, from their documentation.
    pub descriptions: Vec<String>,
    pub names: Vec<String>,
}

impl Examples {
    /// From files spread over the trees, from each in turn; none of trees that are kept elsewhere.
    pub(crate) fn collect(tree: &Tree) -> Self {
        let mut examples = Self::default();
        if tree.is_elsewhere() {
            return examples;
        }
        let Ok(filter) = Filter::new(&[], &[UnitKind::Function, UnitKind::Method], &[]) else {
            return examples;
        };
        let without = FileFlags::TEST | FileFlags::GENERATED | FileFlags::VENDORED | FileFlags::EXAMPLE;
        let filter = filter.without(without);
        let n_trees = tree.n_paths().clamp(1, MAX_TREES);
        let max_files = MAX_FILES / n_trees;
        let of_tree = |number| {
            let files = tree.index.files(&filter.clone().in_roots(vec![number]));
            let step = files.len().div_ceil(max_files).max(1);
            files.iter().step_by(step).filter_map(described).take(MAX_EXAMPLES).collect::<Vec<_>>()
        };
        let mut of_trees: Vec<_> =
            (0..tree.n_paths().min(MAX_TREES)).map(|number| of_tree(number).into_iter()).collect();
        while of_trees.iter().any(|tree| tree.len() > 0) && examples.descriptions.len() < MAX_EXAMPLES {
            for (description, name) in of_trees.iter_mut().filter_map(Iterator::next) {
                let is_new = !examples.descriptions.iter().any(|other| are_alike(other, &description));
                if is_new && examples.descriptions.len() < MAX_EXAMPLES {
                    examples.descriptions.push(description);
                    examples.names.push(name);
                }
            }
        }
        examples.names.dedup();
        // Names of several words tell more.
        examples
            .names
            .sort_by_key(|name| !name.contains('_') && !name.chars().skip(1).any(char::is_uppercase));
        examples.names.truncate(MAX_NAMES);
        examples
    }
}

/// The description and name of a function of a file, if one has a description that serves as a query.
fn described(file: &IndexedFile) -> Option<(String, String)> {
    let language = language_named(file.language())?;
    let text = file.text().ok().filter(|text| text.bytes().len() <= MAX_FILE_BYTES)?;
    let names: HashSet<String> = file.hits().map(|hit| hit.name).collect();
    let units = text.extract(language).units;
    units.iter().filter(|unit| names.contains(&unit.name)).find_map(|unit| {
        let own_name = unit.name.rsplit(['.', ':', '#']).next().unwrap_or_default();
        Some((as_query(&unit.doc, own_name)?, own_name.to_owned()))
    })
}

/// Returns whether most words of one description are in another.
fn are_alike(a: &str, b: &str) -> bool {
    let words = |text: &str| -> HashSet<String> { query_terms(text).into_iter().collect() };
    let (a, b) = (words(a), words(b));
    2 * a.intersection(&b).count() > a.len().min(b.len())
}

/// The first sentence of the documentation of a function, without the name of the function at its beginning, if it is plain
/// words.
fn as_query(doc: &str, own_name: &str) -> Option<String> {
    let paragraph = doc.split("\n\n").next()?.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = paragraph.split_inclusive(". ").next()?.trim_end().strip_suffix('.')?;
    // The part after a colon, semicolon or comma is detail.
    let sentence = sentence.split([';', ':', ',']).next()?.trim_end();
    let sentence = sentence.strip_prefix(own_name).unwrap_or(sentence).trim_start();
    // Words with capitals within them are names.
    let is_name =
        |word: &str| word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    if sentence.split([' ', '-']).any(is_name) {
        return None;
    }
    let is_plain = |c: char| c.is_alphabetic() || matches!(c, ' ' | '-' | '\'');
    let is_named = NOUN_STARTS.iter().any(|word| sentence.split(' ').next() == Some(word));
    let n_words = sentence.split(' ').count();
    if is_named || sentence.len() > MAX_BYTES || !WORDS.contains(&n_words) || !sentence.chars().all(is_plain)
    {
        return None;
    }
    let mut chars = sentence.chars();
    let first = chars.next()?;
    let is_word = chars.as_str().starts_with(char::is_lowercase);
    Some(if is_word { first.to_lowercase().chain(chars).collect() } else { sentence.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_differ() {
        assert!(are_alike("waits until a lock is free", "waits for a free lock"));
        assert!(!are_alike("waits until a lock is free", "sends a request again after a pause"));
    }

    #[test]
    fn plain_sentences_are_queries() {
        let check = |doc: &str, expected: Option<&str>| {
            assert_eq!(as_query(doc, "Lock").as_deref(), expected, "{doc}")
        };
        check("Waits until a lock is free.", Some("waits until a lock is free"));
        check(
            "Waits until a\nlock is free, or fails. Then more.\n\nAnd more.",
            Some("waits until a lock is free"),
        );
        check("HTTP requests are sent again.", Some("HTTP requests are sent again"));
        check("Waits.", None);
        check("The lock that all processes wait for.", None);
        check("Waits until a lock is free", None);
        check("Waits until `lock` is free.", None);
        check("Waits until <b>a lock</b> is free.", None);
        check(&format!("Waits until {} is free.", "very ".repeat(20)), None);
        check("Lock waits until nobody else holds it.", Some("waits until nobody else holds it"));
        check("ServeHTTP waits until a lock is free.", None);
        check("", None);
        check("., .", None);
    }
}
