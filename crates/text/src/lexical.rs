//! Terms for lexical search.

use std::collections::HashSet;
use std::ops::Range;

use crate::script::{is_unspaced, runs_by_script};
use crate::stems::Stems;
use crate::{identifiers, is_language_name, is_stop_word, parts};

/// Rules for splitting a text into terms. The default is used by search; the others measure the effect of each
/// step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermRules {
    /// True to reduce terms to their English stems.
    pub stems: bool,
    /// True to split identifiers into their parts; otherwise each is one term.
    pub parts: bool,
}

impl Default for TermRules {
    fn default() -> Self {
        Self { stems: true, parts: true }
    }
}

impl TermRules {
    /// Calls `emit` with each term of a text, in order, and its byte range in the text: every part of an
    /// identifier, lower-cased, in American spelling and reduced to its English stem; and after the parts of an
    /// identifier with several, the whole identifier, lower-cased, without `_` and unstemmed (`read_csv`, `readCSV`
    /// and `ReadCsv` all give `read`, `csv`, `readcsv`). In scripts without spaces between words, every character
    /// and every two adjacent characters are terms.
    pub fn terms(self, text: &str, emit: impl FnMut(&str, Range<usize>)) {
        if self.stems {
            Stems::with(|stems| self.terms_by(Some(stems), text, emit));
        } else {
            self.terms_by(None, text, emit);
        }
    }

    fn terms_by(self, mut stems: Option<&mut Stems>, text: &str, mut emit: impl FnMut(&str, Range<usize>)) {
        let offset = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
        let (mut lower, mut whole) = (String::new(), String::new());
        for identifier in identifiers(text) {
            whole.clear();
            let mut n_parts = 0;
            let mut is_spaced = true;
            for part in parts(identifier) {
                n_parts += 1;
                for (run, run_is_unspaced) in runs_by_script(part) {
                    let start = offset(run);
                    if run_is_unspaced && self.parts {
                        is_spaced = false;
                        characters_and_pairs(run, |term, at| emit(term, start + at.start..start + at.end));
                        continue;
                    }
                    lower_case(run, &mut lower);
                    whole.push_str(&lower);
                    if self.parts {
                        let term = stems.as_mut().map_or(lower.as_str(), |stems| stems.stem(&lower));
                        emit(term, start..start + run.len());
                    }
                }
            }
            if is_spaced && (n_parts > 1 || n_parts == 1 && !self.parts) {
                let start = offset(identifier);
                let stems = stems.as_mut().filter(|_| n_parts == 1);
                let term = stems.map_or(whole.as_str(), |stems| stems.stem(&whole));
                emit(term, start..start + identifier.len());
            }
        }
    }

    /// The distinct terms of a query, in order of first use, without words that carry no information about a
    /// function's behavior: stop words, and the name of a programming language if at least two other terms are left
    /// (`python read csv` wants Python code, not code that mentions Python). A query that consists of stop words
    /// keeps them.
    #[must_use]
    pub fn query_terms(self, query: &str) -> Vec<String> {
        let (mut all, mut telling, mut languages) = <(Distinct, Distinct, Distinct)>::default();
        self.terms(query, |term, at| {
            // For two characters or more, the pairs suffice.
            if is_character_of_run(query, &at) {
                return;
            }
            let word = &query[at];
            all.push(term);
            if !is_stop_word(word) {
                telling.push(term);
            }
            if is_language_name(word) {
                languages.push(term);
            }
        });
        let (all, mut telling, languages) = (all.terms, telling.terms, languages.terms);
        if telling.is_empty() {
            return all;
        }
        if telling.len() >= languages.len() + 2 {
            telling.retain(|term| !languages.contains(term));
        }
        telling
    }
}

/// Terms in the order of their first use, with fast lookup because a pasted text has thousands.
#[derive(Default)]
struct Distinct {
    terms: Vec<String>,
    known: HashSet<String>,
}

impl Distinct {
    fn push(&mut self, term: &str) {
        if !self.known.contains(term) {
            self.known.insert(term.to_owned());
            self.terms.push(term.to_owned());
        }
    }
}

/// Calls [`TermRules::terms`] with the rules of search.
pub fn lexical_terms(text: &str, emit: impl FnMut(&str, Range<usize>)) {
    TermRules::default().terms(text, emit);
}

/// Calls [`TermRules::query_terms`] with the rules of search.
pub fn query_terms(query: &str) -> Vec<String> {
    TermRules::default().query_terms(query)
}

/// The spelling-independent form of a symbol: its letters and digits in lower case (`parsehttpheader` of
/// `parseHTTPHeader` and `parse_http_header`).
pub fn folded(symbol: &str) -> String {
    symbol.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Calls `emit` with each character of `run`, and with each two adjacent ones, in the order of their starts.
fn characters_and_pairs(run: &str, mut emit: impl FnMut(&str, Range<usize>)) {
    let ends = |from: usize| run[from..].char_indices().map(move |(at, c)| from + at + c.len_utf8());
    for (start, _) in run.char_indices() {
        for end in ends(start).take(2) {
            emit(&run[start..end], start..end);
        }
    }
}

/// Returns whether a range of `text` is one character of a script without spaces, with another one beside it.
fn is_character_of_run(text: &str, at: &Range<usize>) -> bool {
    let mut characters = text[at.clone()].chars();
    let is_single = characters.next().is_some_and(is_unspaced) && characters.next().is_none();
    let beside = [text[..at.start].chars().next_back(), text[at.end..].chars().next()];
    is_single && beside.into_iter().flatten().any(is_unspaced)
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
    fn symbols_are_the_same_however_they_are_written() {
        for symbol in [
            "parseHTTPHeader",
            "parse_http_header",
            "PARSE_HTTP_HEADER",
            "parsehttpheader",
            "$parseHttpHeader",
        ] {
            assert_eq!(folded(symbol), "parsehttpheader");
        }
        assert_eq!(folded("__"), "");
    }

    #[test]
    fn british_and_american_spellings_are_one() {
        for (british, american) in
            [("parseColour", "parse_color"), ("initialised", "initializing"), ("isCancelled", "is_canceled")]
        {
            assert_eq!(terms(british)[0], terms(american)[0]);
            assert!(query_terms(british).iter().any(|term| terms(american).contains(term)));
        }
        assert_eq!(query_terms("colour behaviour"), query_terms("color behavior"));
    }

    #[test]
    fn scripts_without_spaces_are_read_in_pairs() {
        assert_eq!(terms("解析请求"), ["解", "解析", "析", "析请", "请", "请求", "求"]);
        assert_eq!(terms("锁 HTTP请求 x"), ["锁", "http", "请", "请求", "求", "x"]);
        assert_eq!(terms("長さ_max"), ["長", "長さ", "さ", "max"]);
        assert_eq!(terms("요청을 보내다").len(), 5 + 5);
        assert_eq!(query_terms("解析请求"), ["解析", "析请", "请求"]);
        assert_eq!(query_terms("锁"), ["锁"]);
        assert_eq!(query_terms("parse请求"), ["pars", "请求"]);
        // Scripts with spaces are read as words.
        assert_eq!(terms("длина строки"), ["длина", "строки"]);
        let mut ranges = Vec::new();
        let text = "x 请求";
        lexical_terms(text, |term, at| {
            assert_eq!(term, &text[at.clone()]);
            ranges.push(at);
        });
        assert_eq!(ranges, [0..1, 2..5, 2..8, 5..8]);
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
    fn names_of_a_wanted_language_are_not_searched_for() {
        assert_eq!(query_terms("python read csv"), ["read", "csv"]);
        assert_eq!(query_terms("how to call Python"), ["call", "python"]);
        assert_eq!(query_terms("python"), ["python"]);
        assert_eq!(query_terms("PythonRuntime start now"), ["runtim", "pythonruntime", "start", "now"]);
    }
}
