//! Queries that a tree answers, for those who do not know what to ask.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use quarry_answer::Tree;
use quarry_index::{Filter, IndexedFile};
use quarry_source::{UnitKind, language_named};
use quarry_walk::FileFlags;

/// The most examples.
const MAX_EXAMPLES: usize = 4;
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

/// What a tree can be asked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Examples {
    /// What some functions do, in the words of their documentation.
    pub descriptions: Vec<String>,
    /// Their names.
    pub names: Vec<String>,
}

impl Examples {
    /// From files spread over the tree; none of a tree that is kept elsewhere.
    pub(crate) fn of(tree: &Tree) -> Self {
        let mut examples = Self::default();
        if tree.is_elsewhere() {
            return examples;
        }
        let Ok(filter) = Filter::new(&[], &[UnitKind::Function, UnitKind::Method], &[]) else {
            return examples;
        };
        let without = FileFlags::TEST | FileFlags::GENERATED | FileFlags::VENDORED | FileFlags::EXAMPLE;
        let files = tree.index.files(&filter.without(without));
        let step = files.len().div_ceil(MAX_FILES).max(1);
        let described = files.iter().step_by(step).filter_map(described).take(MAX_EXAMPLES);
        (examples.descriptions, examples.names) = described.unzip();
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
        Some((as_query(&unit.doc)?, own_name.to_owned()))
    })
}

/// The first sentence of a documentation, if it is plain words.
fn as_query(doc: &str) -> Option<String> {
    let paragraph = doc.split("\n\n").next()?.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = paragraph.split_inclusive(". ").next()?.trim_end().strip_suffix('.')?;
    // What follows a colon or semicolon only adds to it.
    let sentence = sentence.split([';', ':', ',']).next()?.trim_end();
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
    fn plain_sentences_are_queries() {
        let check =
            |doc: &str, expected: Option<&str>| assert_eq!(as_query(doc).as_deref(), expected, "{doc}");
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
        check("", None);
        check("., .", None);
    }
}
