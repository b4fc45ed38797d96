//! Terms for lexical search.

use std::borrow::Cow;
use std::ops::Range;

use rust_stemmers::{Algorithm, Stemmer};

use crate::{identifiers, is_language_name, is_stop_word, parts};

/// How a text becomes terms. The default is that of search; what else there is shows what each step brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermRules {
    /// Whether terms are reduced to their English stems.
    pub stems: bool,
    /// Whether identifiers are cut into their parts; else each is one term.
    pub parts: bool,
}

impl Default for TermRules {
    fn default() -> Self {
        Self { stems: true, parts: true }
    }
}

impl TermRules {
    /// Calls `emit` with each term of a text, in order, and the byte range that it was read from: every part of an
    /// identifier, lower-cased and reduced to its English stem, and after the parts of an identifier of several the
    /// whole of it, lower-cased, without `_` and unstemmed (`read_csv`, `readCSV` and `ReadCsv` all give `read`,
    /// `csv`, `readcsv`).
    pub fn terms(self, text: &str, mut emit: impl FnMut(&str, Range<usize>)) {
        let stemmer = self.stems.then(|| Stemmer::create(Algorithm::English));
        let offset = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
        let (mut lower, mut whole) = (String::new(), String::new());
        for identifier in identifiers(text) {
            whole.clear();
            let mut n_parts = 0;
            for part in parts(identifier) {
                lower_case(part, &mut lower);
                whole.push_str(&lower);
                n_parts += 1;
                if self.parts {
                    let start = offset(part);
                    let term = stemmer.as_ref().map_or(Cow::Borrowed(lower.as_str()), |to| to.stem(&lower));
                    emit(&term, start..start + part.len());
                }
            }
            if n_parts > 1 || n_parts == 1 && !self.parts {
                let start = offset(identifier);
                let is_word = n_parts == 1;
                let stemmer = stemmer.as_ref().filter(|_| is_word);
                let term = stemmer.map_or(Cow::Borrowed(whole.as_str()), |to| to.stem(&whole));
                emit(&term, start..start + identifier.len());
            }
        }
    }

    /// The distinct terms of a query, in order of first use, without the words that say nothing about what a function
    /// does: stop words, and the name of a programming language where at least two other terms are left (`python read
    /// csv` wants Python code, not code that speaks of Python). A query of stop words alone keeps them.
    #[must_use]
    pub fn query_terms(self, query: &str) -> Vec<String> {
        let (mut all, mut telling, mut languages): (Vec<String>, Vec<String>, Vec<String>) =
            Default::default();
        self.terms(query, |term, at| {
            let word = &query[at];
            let mut list = vec![&mut all];
            if !is_stop_word(word) {
                list.push(&mut telling);
            }
            if is_language_name(word) {
                list.push(&mut languages);
            }
            for list in list {
                if !list.iter().any(|known| known == term) {
                    list.push(term.to_owned());
                }
            }
        });
        if telling.is_empty() {
            return all;
        }
        if telling.len() >= languages.len() + 2 {
            telling.retain(|term| !languages.contains(term));
        }
        telling
    }
}

/// [`TermRules::terms`] of search.
pub fn lexical_terms(text: &str, emit: impl FnMut(&str, Range<usize>)) {
    TermRules::default().terms(text, emit);
}

/// [`TermRules::query_terms`] of search.
#[must_use]
pub fn query_terms(query: &str) -> Vec<String> {
    TermRules::default().query_terms(query)
}

/// Replaces the content of `out` with `text` in lower case.
pub fn lower_case(text: &str, out: &mut String) {
    out.clear();
    if text.is_ascii() {
        out.push_str(text);
        out.make_ascii_lowercase();
    } else {
        out.extend(text.chars().flat_map(char::to_lowercase));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        lexical_terms(text, |term, _| terms.push(term.to_owned()));
        terms
    }

    #[test]
    fn one_concept_has_one_term_however_it_is_written() {
        let expected = ["read", "csv", "readcsv"];
        for name in ["read_csv", "readCSV", "ReadCsv", "__read_csv__"] {
            assert_eq!(terms(name), expected, "{name}");
        }
        assert_eq!(terms("reading reads Read"), ["read", "read", "read"]);
    }

    #[test]
    fn each_step_can_be_left_out() {
        let terms = |rules: TermRules, text: &str| {
            let mut terms = Vec::new();
            rules.terms(text, |term, at| terms.push(format!("{term} {}", &text[at])));
            terms
        };
        let unstemmed = TermRules { stems: false, ..TermRules::default() };
        let expected = ["reading reading", "files Files", "readingfiles readingFiles", "reads reads"];
        assert_eq!(terms(unstemmed, "readingFiles reads"), expected);
        let whole = TermRules { parts: false, ..TermRules::default() };
        assert_eq!(
            terms(whole, "readingFiles reads __x"),
            ["readingfiles readingFiles", "read reads", "x __x"]
        );
        assert_eq!(whole.query_terms("how to read_csv in python, reading"), ["readcsv", "read"]);
    }

    #[test]
    fn ranges_point_at_what_was_read() {
        let text = "x = parseURL(line)";
        lexical_terms(text, |term, at| {
            let read = text[at].to_lowercase();
            assert!(read.starts_with(&term[..1]), "{term} from {read}");
        });
        let mut ranges = Vec::new();
        lexical_terms(text, |_, at| ranges.push(at));
        assert_eq!(ranges, [0..1, 4..9, 9..12, 4..12, 13..17]);
    }

    #[test]
    fn queries_lose_stop_words_unless_nothing_is_left() {
        assert_eq!(query_terms("how to read the file, and Read it again"), ["read", "file", "again"]);
        assert_eq!(query_terms("how to"), ["how", "to"]);
        assert_eq!(query_terms("?!"), Vec::<String>::new());
    }

    #[test]
    fn the_language_that_is_wanted_is_not_searched_for() {
        assert_eq!(query_terms("python read csv"), ["read", "csv"]);
        assert_eq!(query_terms("how to call Python"), ["call", "python"]);
        assert_eq!(query_terms("python"), ["python"]);
        assert_eq!(query_terms("PythonRuntime start now"), ["runtim", "pythonruntime", "start", "now"]);
    }
}
