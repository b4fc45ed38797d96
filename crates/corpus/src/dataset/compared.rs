//! The forms in which texts are compared, to find evaluation data among training data, and parts of one among the other.
//!
//! A code is compared as its tokens without comments, documentation, imports and types of variables, whatever its variables are
//! called, the whole and the body of each function in it; where the language is not known, as its identifiers. A query is compared as the
//! stems of its words without those that say little, in any order, also if it has two words more.

use crate::disguise::undisguised;
use crate::summary::{MIN_CODE_WORDS, cut_out, fingerprint, split_summary};
use quarry_source::{
    ComparableCode, Highlight, Language, comparable, extract, highlights, language_called,
    language_of_function,
};
use quarry_text::near::{NearIndex, Shingles};
use quarry_text::{TermRules, identifiers, is_language_name, is_stop_word, parts};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Minimum number of identifiers of a code for near duplicates to mean anything.
const MIN_NEAR_WORDS: usize = 20;
/// Minimum number of tokens of a code whose variables have no names, for equality and for near duplicates to mean anything.
const MIN_TOKENS: usize = 15;
const MIN_NEAR_TOKENS: usize = 30;
/// Length of the n-grams of these tokens.
const TOKEN_RUN: usize = 5;
/// Number of first lines of a code before which something else may precede.
const MAX_STARTS: usize = 12;
/// Minimum number of words of a query that is compared: shorter ones are asked by many.
const MIN_QUERY_WORDS: usize = 3;
/// Maximum number of words of a query that is compared by its words; of a longer one, the first sentence is.
const MAX_QUERY_WORDS: usize = 40;
/// Number of words that a query may have more, if it has enough others.
const MORE_WORDS: usize = 2;
const MIN_OTHER_WORDS: usize = 4;

/// A code in the forms in which it is compared.
#[derive(Debug)]
pub struct ComparedCode {
    /// Hashes of the text, whole and from each of its first lines on.
    starts: Vec<u64>,
    /// Hashes without layout and comments, and without the names of variables where there are enough tokens.
    exact: Vec<u64>,
    /// The forms by which similar codes are found; the first one, of the text, may be short.
    near: Vec<Shingles>,
    is_long: bool,
    documentation: Vec<ComparedQuery>,
    is_blank: bool,
}

impl ComparedCode {
    /// A code; its language is recognized if its name is not known.
    pub fn new(code: &str, language: Option<&str>) -> Self {
        let code = &*undisguised(code);
        let mut compared = Self::from_text(code);
        let language = language.and_then(language_called).or_else(|| language_of_function(code));
        let Some(language) = language else { return compared };
        let found = comparable(language, code);
        // If its line breaks were lost, code follows a comment.
        let is_read = |found: &ComparableCode| found.comments.is_empty() || code.trim().contains('\n');
        let Some(found) = found.filter(is_read) else { return compared };
        compared.exact.push(layout_hash(&found.uncommented(code)) as u64);
        let whole = 0..found.tokens.len();
        // A body does not depend on how its function is declared.
        for part in std::iter::once(whole).chain(found.bodies) {
            let tokens = &found.tokens[part];
            if tokens.len() >= MIN_TOKENS {
                compared.exact.push(xxh3_64(tokens.join(" ").as_bytes()));
            }
            if tokens.len() >= MIN_NEAR_TOKENS {
                compared.near.push(Shingles::new(tokens.iter().map(String::as_str), TOKEN_RUN));
            }
        }
        compared.documentation =
            found.documentation.iter().map(|text| ComparedQuery::documented(text)).collect();
        compared
    }

    /// A code in an unknown language.
    pub fn from_text(code: &str) -> Self {
        let lines = code.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(lines).take(MAX_STARTS).map(|at| &code[at..]);
        let starts = starts.filter(|text| identifiers(text).take(MIN_CODE_WORDS).count() == MIN_CODE_WORDS);
        let is_long = identifiers(code).take(MIN_NEAR_WORDS).count() == MIN_NEAR_WORDS;
        Self {
            starts: starts.map(fingerprint).collect(),
            exact: vec![layout_hash(code) as u64],
            near: vec![Shingles::from_identifiers(code)],
            is_long,
            documentation: Vec::new(),
            is_blank: code.trim().is_empty(),
        }
    }

    /// Hashes that equal codes have in common.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        let hashes = self.starts.iter().take(1).chain(&self.exact).copied();
        hashes.take(if self.is_blank { 0 } else { usize::MAX })
    }

    /// The forms by which similar codes are found, without those that are similar by chance unless they are asked for.
    pub(super) fn shingles(&self, with_short: bool) -> &[Shingles] {
        let first = usize::from(!self.is_long && !with_short);
        &self.near[if self.is_blank { self.near.len() } else { first }..]
    }

    /// The first sentences of the documentation in the code.
    pub fn documentation(&self) -> &[ComparedQuery] {
        &self.documentation
    }
}

/// A query in the forms in which it is compared.
#[derive(Debug)]
pub struct ComparedQuery {
    hash: u64,
    /// Number of its words, up to [`MIN_QUERY_WORDS`].
    n_words: usize,
    /// Hashes of the distinct stems of its words, without those that say little.
    stems: Vec<u64>,
}

impl ComparedQuery {
    pub fn new(text: &str) -> Self {
        let text = &*undisguised(text);
        let words = |text: &str, most: usize| identifiers(text).flat_map(parts).take(most).count();
        let is_long = words(text, MAX_QUERY_WORDS + 1) > MAX_QUERY_WORDS || text.trim().contains('\n');
        let text = if is_long { Cow::Owned(split_summary(&prose(text), "").0) } else { Cow::Borrowed(text) };
        let mut stems = BTreeSet::new();
        if words(&text, MAX_QUERY_WORDS + 1) <= MAX_QUERY_WORDS {
            TermRules::default().terms(&text, |term, at| {
                let is_one_part = parts(&text[at.clone()]).nth(1).is_none();
                let word = text[at].to_lowercase();
                if is_one_part && !is_stop_word(&word) && !is_language_name(&word) {
                    stems.insert(xxh3_64(term.as_bytes()));
                }
            });
        }
        Self {
            hash: fingerprint(&text),
            n_words: words(&text, MIN_QUERY_WORDS),
            stems: stems.into_iter().collect(),
        }
    }

    /// Hash of its words, or of the words of its first sentence if it is long.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The first sentence of a comment or docstring.
    fn documented(text: &str) -> Self {
        Self::new(&split_summary(&prose(text), "").0)
    }

    /// Hashes that nearly equal queries have in common.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        let stems = (self.stems.len() >= MIN_QUERY_WORDS).then(|| self.sum());
        (self.n_words > 0).then_some(self.hash).into_iter().chain(stems)
    }

    fn sum(&self) -> u64 {
        self.stems.iter().fold(0, |sum, stem| sum.wrapping_add(*stem))
    }

    /// Sums of its stems without up to [`MORE_WORDS`] of them.
    fn sums(&self) -> impl Iterator<Item = u64> + '_ {
        let (sum, n) = (self.sum(), self.stems.len());
        let may_lose = |more: usize| n >= MIN_OTHER_WORDS + more;
        let one =
            self.stems.iter().take(if may_lose(1) { n } else { 0 }).map(move |stem| sum.wrapping_sub(*stem));
        let pairs = (0..if may_lose(MORE_WORDS) { n } else { 0 }).flat_map(move |first| {
            let without = sum.wrapping_sub(self.stems[first]);
            self.stems[first + 1..].iter().map(move |second| without.wrapping_sub(*second))
        });
        (n >= MIN_QUERY_WORDS).then_some(sum).into_iter().chain(one).chain(pairs)
    }
}

/// A comment or docstring without its marks.
fn prose(text: &str) -> String {
    let marks = |c: char| c.is_whitespace() || "/*#!;%\"'`-".contains(c);
    text.lines().map(|line| line.trim_matches(marks)).collect::<Vec<_>>().join("\n")
}

/// Texts that others are compared with.
#[derive(Debug)]
pub struct TextSet {
    queries: HashSet<u64>,
    /// Sums of the stems of queries.
    stems: HashSet<u64>,
    codes: HashSet<u64>,
    near: Option<NearIndex>,
    /// True if short texts are compared too.
    with_short: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insertion {
    /// It is new.
    New,
    /// An equal one, or a blank text, which is equal to none.
    Known,
    /// It is too short to be compared.
    Short,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// It is equal, but for what is not compared.
    Same,
    Near,
}

impl TextSet {
    /// No texts. `near` is the similarity from which on codes are near duplicates; without it, only equal texts are found.
    /// `with_short` also compares those that are short enough to be equal by chance.
    pub fn new(near: Option<f64>, with_short: bool) -> Self {
        let [queries, stems, codes] = [(); 3].map(|()| HashSet::new());
        Self { queries, stems, codes, near: near.map(NearIndex::new), with_short }
    }

    pub fn add_query(&mut self, query: &ComparedQuery) -> Insertion {
        if query.n_words == 0 {
            return Insertion::Known;
        }
        if query.n_words < MIN_QUERY_WORDS && !self.with_short {
            return Insertion::Short;
        }
        if query.stems.len() >= MIN_QUERY_WORDS && self.near.is_some() {
            self.stems.insert(query.sum());
        }
        if self.queries.insert(query.hash) { Insertion::New } else { Insertion::Known }
    }

    pub fn add_code(&mut self, code: &ComparedCode) -> Insertion {
        if code.is_blank {
            return Insertion::Known;
        }
        if code.starts.is_empty() && code.shingles(self.with_short).is_empty() && !self.with_short {
            return Insertion::Short;
        }
        if let Some(near) = &mut self.near {
            let shingles = code.shingles(self.with_short).iter();
            shingles.for_each(|shingles| _ = near.find_or_add_shingles(shingles.clone()));
        }
        let before = self.codes.len();
        self.codes.extend(code.starts.first().into_iter().chain(&code.exact));
        if self.codes.len() > before { Insertion::New } else { Insertion::Known }
    }

    /// Finds a query: equal but for punctuation and case, or of the same words.
    pub fn find_query(&self, query: &ComparedQuery) -> Option<Likeness> {
        let is_compared = query.n_words >= MIN_QUERY_WORDS || self.with_short && query.n_words > 0;
        if is_compared && self.queries.contains(&query.hash) {
            return Some(Likeness::Same);
        }
        query.sums().any(|sum| self.stems.contains(&sum)).then_some(Likeness::Near)
    }

    pub fn find_code(&self, code: &ComparedCode) -> Option<Likeness> {
        if code.is_blank {
            return None;
        }
        if code.starts.iter().chain(&code.exact).any(|hash| self.codes.contains(hash)) {
            return Some(Likeness::Same);
        }
        let near = self.near.as_ref()?;
        let mut shingles = code.shingles(self.with_short).iter();
        shingles.any(|shingles| near.find_shingles(shingles).is_some()).then_some(Likeness::Near)
    }
}

/// The byte ranges of the comments of a source, ascending; `None` without a syntax tree.
pub fn comments(language: Language, source: &[u8]) -> Option<Vec<Range<usize>>> {
    let parts = highlights(language, source);
    let is_comment = |(range, highlight)| (highlight == Highlight::Comment).then_some(range);
    (!parts.is_empty()).then(|| parts.into_iter().filter_map(is_comment).collect())
}

pub fn without_comments(language: Language, code: &str) -> String {
    // Without it, PHP is text.
    const OPENING: &str = "<?php ";
    let opening = if language.name() == "php" && !code.contains("<?") { OPENING } else { "" };
    let source = format!("{opening}{code}");
    let mut holes = comments(language, source.as_bytes()).unwrap_or_default();
    holes.extend(extract(language, source.as_bytes()).units.into_iter().flat_map(|unit| unit.doc_bytes));
    if !code.trim().contains('\n') {
        // If its line breaks were lost, code follows the comment.
        let end = source.trim_end().len();
        holes.retain(|hole| hole.end < end);
    }
    holes.sort_unstable_by_key(|hole| (hole.start, hole.end));
    let bare = cut_out(source.as_bytes(), opening.len()..source.len(), &holes);
    // Without its comments, one code that is nothing else would be the same as any other.
    if bare.is_empty() { code.to_owned() } else { bare }
}

/// The text by which a code is compared: its tokens without comments, documentation and the names of variables, or the
/// text itself where its language is not recognized.
pub(super) fn compared_text(code: &str, language: Option<&str>) -> String {
    let language = language.and_then(language_called).or_else(|| language_of_function(code));
    let found = language.and_then(|language| comparable(language, code));
    let tokens = found.map(|found| found.tokens).filter(|tokens| !tokens.is_empty());
    tokens.map_or_else(|| code.to_owned(), |tokens| tokens.join(" "))
}

/// Hash of a code that ignores white space except between words.
pub fn layout_hash(code: &str) -> u128 {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut dense = String::with_capacity(code.len());
    for part in code.split_whitespace() {
        if dense.ends_with(is_word) && part.starts_with(is_word) {
            dense.push(' ');
        }
        dense.push_str(part);
    }
    xxh3_128(dense.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_source::language_named;

    fn bare_of(language: &str, code: &str) -> String {
        without_comments(language_named(language).unwrap(), code)
    }

    fn same(language: &str, codes: &[&str]) {
        let hashes: Vec<u128> = codes.iter().map(|code| layout_hash(&bare_of(language, code))).collect();
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{codes:?}");
    }

    #[test]
    fn codes_that_differ_in_comments_and_layout_are_the_same() {
        same(
            "python",
            &[
                "def f(a, b):\n    return a + b\n",
                "def f(a, b):\n    \"\"\"Add.\"\"\"\n    # Both.\n    return a + b  # the sum\n",
                "# Adds.\ndef f( a,b ):\n\n    return (a+b)\n".replace("(a+b)", "a+b").as_str(),
            ],
        );
        same("java", &["int f() {\n  return 1;\n}", "/** One. */\nint f()\n{ // one\n  return 1; /* 1 */ }"]);
        same("php", &["function f() {\n return 1; }", "function f() {\n # one\n // one\n return 1; }"]);
        same("javascript", &["get() {\n return 1 }", "get() {\n /* a */ return 1 // b\n}"]);
        same("r", &["f <- function(x) {\n x\n}", "#' Title\nf <- function(x) {\n # same\n x\n}"]);
        same("go", &["func F() int { return 1 }", "// F is 1.\nfunc F() int {\n\treturn 1 // one\n}"]);
    }

    const CODE: &str = "def pick(values, key, least):\n    found = []\n    for value in values:\n        if key(value) > \
        least:\n            found.append(value.copy())\n    return sorted(found, key=key)[0]\n";

    fn set(near: Option<f64>) -> TextSet {
        let mut set = TextSet::new(near, false);
        assert_eq!(set.add_code(&ComparedCode::new(CODE, None)), Insertion::New);
        assert_eq!(set.add_code(&ComparedCode::new("def f(a): return a", None)), Insertion::Short);
        assert_eq!(
            set.add_query(&ComparedQuery::new("how to sort a list of strings by length")),
            Insertion::New
        );
        assert_eq!(set.add_query(&ComparedQuery::new("sort list")), Insertion::Short);
        set
    }

    #[test]
    fn copies_of_a_code_are_found_however_they_are_disguised() {
        let set = set(Some(0.8));
        let find = |code: &str| set.find_code(&ComparedCode::new(code, None));
        let commented = CODE.replace('\n', "  # Then the next.\n");
        let documented =
            CODE.replacen(":\n", ":\n    \"\"\"Find all that is not there.\n\n    Twice.\"\"\"\n", 1);
        let renamed = CODE.replace("values", "rows").replace("found", "out").replace("value", "row");
        let typed = CODE.replace(
            "(values, key, least)",
            "(values: list[str], key: Callable, least: int = 0) -> str | None",
        );
        let imported = format!("import os\nfrom typing import Callable\n\n\n@cached\n{CODE}");
        let appended = format!(
            "{CODE}\n\ndef other(a, b):\n    return a.one(b) or b.two(a) or a.three() or b.four(a, b)\n"
        );
        let all = typed.replace('\n', "  # Then.\n").replace("found", "out");
        let within =
            format!("class A:\n    def first(self):\n        pass\n\n    {}", CODE.replace('\n', "\n    "));
        for code in [&commented, &documented, &renamed, &typed, &imported, &appended, &all, &within] {
            assert!(find(code).is_some(), "{code}");
        }
        assert_eq!(find(&renamed), Some(Likeness::Same));
        let other = "def pick(values, key, least):\n    found = {}\n    while values:\n        value = values.pop(0)\n        \
                     if not key(value):\n            found[value.name] = least.count(value)\n    return found.items()\n";
        assert_eq!(find(other), None);
    }

    #[test]
    fn copies_of_a_query_are_found_however_they_are_disguised() {
        let set = set(Some(0.8));
        let find = |query: &str| set.find_query(&ComparedQuery::new(query));
        for query in [
            "How to sort a list of strings by length?",
            "python: sorting lists by the lengths of their strings",
            "sort_list_strings_by_length",
            "sortListOfStringsByLength",
            "sort a list of strings by length quickly today",
            "\"\"\"Sort a list of strings by length.\n\n    Returns the list.\n    \"\"\"",
        ] {
            assert!(find(query).is_some(), "{query}");
        }
        for query in [
            "sort list",
            "sort a list of numbers by length",
            "sort a list of strings",
            "sort a list of strings by length quickly today without copying",
        ] {
            assert_eq!(find(query), None, "{query}");
        }
        let documented = ComparedCode::new(
            "def f(a):\n    \"\"\"Sort a list of strings by length.\"\"\"\n    return a\n",
            None,
        );
        assert!(documented.documentation().iter().any(|query| set.find_query(query).is_some()));
        // Without near duplicates, only equal ones are found.
        let exact = self::set(None);
        assert_eq!(exact.find_query(&ComparedQuery::new("sorting lists of strings by length")), None);
        assert_eq!(
            exact.find_query(&ComparedQuery::new("How to sort a list of strings by length?")),
            Some(Likeness::Same)
        );
    }

    #[test]
    fn strings_are_compared_and_comments_are_not() {
        let code = "def f():\n    return '# no comment'";
        assert_eq!(bare_of("python", code), code);
        // The language is recognized if it is not known.
        let commented = format!("{code}  # one");
        let text = "def f return # no comment";
        assert_eq!([Some("python"), None].map(|language| compared_text(&commented, language)), [text, text]);
        let text = "See https://example.org # about";
        assert_eq!(compared_text(text, None), text);
        assert_ne!(layout_hash("print('a b')"), layout_hash("print('ab')"));
        assert_ne!(layout_hash("return x"), layout_hash("returnx"));
        // A text that is a comment is not empty, and a code whose line breaks were lost keeps what follows the comment.
        assert_eq!(bare_of("python", "# one\n# two\n"), "# one\n# two\n");
        let flat = "y <- x / 2 # half if (y > 1) { y }";
        assert_eq!(bare_of("r", flat), flat);
        assert_eq!(bare_of("c", "int f() { /* one */ return 1; }"), "int f() {  return 1; }");
        // Without a grammar nothing is known to be a comment.
        assert_eq!(bare_of("markdown", "// text"), "// text");
    }
}
