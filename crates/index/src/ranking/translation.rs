//! Reads a query in another language in English, word by word.
//!
//! The table is `queries.tsv`: a word in lower case, a tab, and the one or two English words that it means, none for a stop
//! word, in the order of bytes. `bench/query_table.py` makes it. It has no English word, so that an English query is as it was
//! typed.

use std::ops::Range;

use quarry_text::{find_in_table, identifiers, lower_case, parts, query_terms, runs_by_script};

use crate::{Error, Index};

static TABLE: &str = include_str!("../../queries.tsv");

/// Maximum characters of a word of a script without spaces.
const MAX_CHARACTERS: usize = 10;

/// Maximum words of a query that is translated.
const MAX_WORDS: usize = 100;

/// Minimum words of another language that the tree does not have. One suffices with a letter that English does not have.
const LEAST_ASCII: usize = 2;

/// A word of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Word<'q> {
    text: &'q str,
    /// Its translation, if it is in the table.
    english: Option<&'static str>,
}

impl Index {
    /// A query in another language in English; `None` if it is in English or of names, or more of its words are the tree's
    /// than in the table.
    pub(crate) fn in_english(&self, query: &str) -> Result<Option<String>, Error> {
        let words = words(query);
        let n_translated = words.iter().filter(|word| word.english.is_some()).count();
        if n_translated == 0 || words.len() > MAX_WORDS {
            return Ok(None);
        }
        let (mut n_foreign, mut n_known) = (0, 0);
        let mut translated = String::new();
        let mut push = |word: &str| {
            if !word.is_empty() {
                translated.push_str(if translated.is_empty() { "" } else { " " });
                translated.push_str(word);
            }
        };
        for Word { text, english } in words {
            let is_known = self.has_terms(text)?;
            match english {
                Some(english) => {
                    n_foreign += usize::from(!is_known);
                    // The tree may have names in this language.
                    push(if is_known && !english.is_empty() { text } else { "" });
                    push(english);
                }
                None => {
                    n_known += usize::from(is_known);
                    push(text);
                }
            }
        }
        let least = if query.is_ascii() { LEAST_ASCII } else { 1 };
        Ok((n_foreign >= least && n_translated >= n_known && !translated.is_empty()).then_some(translated))
    }

    /// Returns whether all terms of a word occur in the tree.
    fn has_terms(&self, word: &str) -> Result<bool, Error> {
        for term in query_terms(word) {
            if !self.lexical.has_term(&term)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The words of a query. Text without spaces is cut from left to right into the longest words of the table.
fn words(query: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut lower = String::new();
    for identifier in identifiers(query) {
        // Names stay.
        if parts(identifier).nth(1).is_some() {
            words.push(Word { text: identifier, english: None });
            continue;
        }
        for (run, is_unspaced) in runs_by_script(identifier) {
            if is_unspaced {
                cut(run, &mut words);
            } else {
                lower_case(run, &mut lower);
                words.push(Word { text: run, english: english(&lower) });
            }
            if words.len() > MAX_WORDS {
                return words;
            }
        }
    }
    words
}

fn cut<'q>(run: &'q str, words: &mut Vec<Word<'q>>) {
    // Characters between words of the table.
    let mut unknown = 0..0;
    let push_unknown = |unknown: Range<usize>, words: &mut Vec<Word<'q>>| {
        if !unknown.is_empty() {
            words.push(Word { text: &run[unknown], english: None });
        }
    };
    let mut at = 0;
    while at < run.len() && words.len() <= MAX_WORDS {
        let ends = run[at..].char_indices().map(|(start, c)| at + start + c.len_utf8());
        let mut ends: Vec<usize> = ends.take(MAX_CHARACTERS).collect();
        let next = ends[0];
        ends.reverse();
        match ends.into_iter().find_map(|end| Some((end, english(&run[at..end])?))) {
            Some((end, english)) => {
                push_unknown(unknown, words);
                words.push(Word { text: &run[at..end], english: Some(english) });
                (at, unknown) = (end, end..end);
            }
            None => (at, unknown) = (next, unknown.start.min(at)..next),
        }
    }
    push_unknown(unknown, words);
}

/// Translation of a word in lower case, by the table.
fn english(word: &str) -> Option<&'static str> {
    find_in_table(TABLE, word)
}

#[cfg(test)]
mod tests {
    use quarry_text::is_stop_word;

    use super::*;

    #[test]
    fn the_table_is_in_order_and_has_no_stop_words() {
        let mut previous = "";
        for line in TABLE.lines() {
            let (word, translation) = line.split_once('\t').unwrap();
            assert!(previous < word, "{previous} {word}");
            assert_eq!(english(word), Some(translation));
            assert!(!is_stop_word(word) && !translation.split(' ').any(is_stop_word), "{line}");
            assert_eq!(word, word.to_lowercase());
            assert!(translation.chars().all(|c| c.is_ascii_lowercase() || c == ' '), "{line}");
            previous = word;
        }
        for word in ["", "a", "file", "parsing", "zzzzzzz", "\u{ffff}", "retry"] {
            assert_eq!(english(word), None, "{word}");
        }
    }

    #[test]
    fn words_without_spaces_are_cut() {
        fn text(query: &str) -> Vec<&str> {
            words(query).into_iter().map(|word| word.text).collect()
        }
        assert_eq!(text("Datei öffnen: readCsv v2"), ["Datei", "öffnen", "readCsv", "v2"]);
        assert_eq!(text("删除文件"), ["删除", "文件"]);
        assert_eq!(text(""), Vec::<&str>::new());
        let rare = "\u{20000}\u{20001}";
        assert_eq!(text(&format!("{rare}文件{rare}")), [rare, "文件", rare]);
        assert!(text(&"文件".repeat(1 << 16)).len() <= MAX_WORDS + 1);
        assert!(text(&"öffnen ".repeat(1 << 16)).len() <= MAX_WORDS + 1);
        assert_eq!(english("datei"), Some("file"));
    }
}
