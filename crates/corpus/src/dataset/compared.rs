//! The form in which codes are compared: without comments, documentation and layout, which differ between copies of a code.

use crate::pairs::cut_out;
use quarry_source::{Highlight, Language, extract, highlights, language_called, language_of_function};
use std::borrow::Cow;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_128;

/// What begins a comment or a docstring in the languages that a code is recognized as.
const MARKERS: [&str; 5] = ["#", "//", "/*", "\"\"\"", "'''"];

/// The byte ranges of the comments of a source, ascending; `None` without a syntax tree.
#[must_use]
pub fn comments(language: Language, source: &[u8]) -> Option<Vec<Range<usize>>> {
    let parts = highlights(language, source);
    let is_comment = |(range, highlight)| (highlight == Highlight::Comment).then_some(range);
    (!parts.is_empty()).then(|| parts.into_iter().filter_map(is_comment).collect())
}

/// A code without its comments and its documentation; its language is recognized if its name is not known. A text that
/// is not recognized stays unchanged.
#[must_use]
pub fn bare<'c>(code: &'c str, language: Option<&str>) -> Cow<'c, str> {
    let may_hold_comments = || MARKERS.iter().any(|marker| code.contains(marker));
    let recognized = || may_hold_comments().then(|| language_of_function(code)).flatten();
    match language.and_then(language_called).or_else(recognized) {
        Some(language) => Cow::Owned(without_comments(language, code)),
        None => Cow::Borrowed(code),
    }
}

/// A code without its comments and its documentation.
#[must_use]
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

/// Hash of a code that ignores white space except between words.
#[must_use]
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

    #[test]
    fn what_is_in_a_string_and_what_a_code_does_stays() {
        let code = "def f():\n    return '# no comment'";
        assert_eq!(bare_of("python", code), code);
        // The language is recognized if it is not known.
        let commented = format!("{code}  # one");
        assert_eq!((bare(&commented, Some("python")), bare(&commented, None)), (code.into(), code.into()));
        assert_eq!(bare("See https://example.org # about", None), "See https://example.org # about");
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
