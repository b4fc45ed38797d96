//! Signals that two units may share: literals, words of names, and words that documentation takes from code.

use quarry_text::{identifiers, parts};
use xxhash_rust::xxh3::xxh3_64;

/// Lengths of a literal that may be a key, route, column, flag or error code, in bytes.
const LITERAL_BYTES: std::ops::RangeInclusive<usize> = 4..=64;

/// Maximum number of literals of a unit.
const MAX_LITERALS: usize = 200;

/// The number by which a text is compared.
pub(crate) fn hash(text: &str) -> u32 {
    xxh3_64(text.as_bytes()) as u32
}

/// The quoted texts without white space, and names of constants, each once. Comments count: a key is the same wherever
/// it is written.
pub(crate) fn literals(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut found: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if matches!(bytes[at], b'"' | b'\'' | b'`') {
            let end = (at + LITERAL_BYTES.end() + 2).min(bytes.len());
            let stop =
                bytes[at + 1..end].iter().position(|byte| *byte == bytes[at] || byte.is_ascii_whitespace());
            if let Some(length) = stop.filter(|length| bytes[at + 1 + length] == bytes[at]) {
                if let Some(literal) = text.get(at + 1..at + 1 + length).filter(|literal| is_literal(literal))
                {
                    add(&mut found, literal);
                }
                at += length + 2;
                continue;
            }
        }
        at += 1;
    }
    for name in identifiers(text).filter(|name| is_constant(name)) {
        add(&mut found, name);
    }
    found
}

fn add<'a>(found: &mut Vec<&'a str>, literal: &'a str) {
    if found.len() < MAX_LITERALS && !found.contains(&literal) {
        found.push(literal);
    }
}

fn is_literal(text: &str) -> bool {
    LITERAL_BYTES.contains(&text.len())
        && text.bytes().all(|byte| {
            byte.is_ascii_graphic() && !matches!(byte, b'(' | b')' | b'\\' | b'"' | b'\'' | b'`' | b',')
        })
        && text.bytes().filter(u8::is_ascii_alphabetic).count() >= 3
}

/// Returns whether a name is written as constants are: in upper case, of several words.
fn is_constant(name: &str) -> bool {
    name.len() >= 5
        && name.contains('_')
        && !name.starts_with('_')
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The words of documentation that are taken from code: with an underscore or a capital within, between backticks, or
/// before a bracket.
pub(crate) fn code_words(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let is_code = |word: &str| {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        let (before, after) = (start.checked_sub(1).map(|at| bytes[at]), bytes.get(start + word.len()));
        let has_mark = word.trim_matches('_').contains('_') || word.chars().skip(1).any(char::is_uppercase);
        word.len() > 2
            && (has_mark
                || after == Some(&b'(')
                || matches!(before, Some(b'`' | b'.' | b':')) && matches!(after, Some(b'`' | b'(')))
    };
    let mut found: Vec<&str> = identifiers(text).filter(|word| is_code(word)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The words of the last part of a name, hashed, without those that only mark tests.
pub(crate) fn name_words(name: &str) -> Vec<u32> {
    let last = name.rsplit_once('.').map_or(name, |(_, last)| last);
    let words = parts(last)
        .map(str::to_lowercase)
        .filter(|word| !matches!(word.as_str(), "test" | "tests" | "should"));
    let mut words: Vec<u32> = words.map(|word| hash(&word)).collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// The words of a file's name up to its first dot, hashed, without those that only mark tests; of a file that stands
/// for its directory, those of the directory.
pub(crate) fn stem_words(path: &str) -> Vec<u32> {
    let (directory, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.split('.').find(|part| !part.is_empty()).unwrap_or(file);
    let stem = match stem {
        "__init__" | "index" | "mod" | "lib" | "main" => directory.rsplit('/').next().unwrap_or(stem),
        stem => stem,
    };
    let words = parts(stem).map(str::to_lowercase);
    let words = words.filter(|word| !matches!(word.as_str(), "test" | "tests" | "spec" | "specs"));
    let mut words: Vec<u32> = words.map(|word| hash(&word)).collect();
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_routes_flags_and_constants_are_literals() {
        let text = r#"get("user/profile", '--dry-run', "a b c", "x", MAX_RETRIES, T, "1234") # don't, isn't `E_1042`"#;
        assert_eq!(literals(text), ["user/profile", "--dry-run", "MAX_RETRIES", "E_1042"]);
        assert_eq!(literals("'abcd"), Vec::<&str>::new());
        assert_eq!(literals("é'abcd'é'"), ["abcd"]);
    }

    #[test]
    fn code_words_are_distinguished_from_prose() {
        let text = "Call `open` or parse(text), see Index.open() and read_file; The end of Quarry is open.";
        assert_eq!(code_words(text), ["open", "parse", "read_file"]);
    }

    #[test]
    fn names_and_files_of_tests_have_the_words_of_what_they_test() {
        assert_eq!(name_words("Tests.test_parse_url"), name_words("parseUrl"));
        assert_eq!(stem_words("tests/test_url.py"), stem_words("src/url.rs"));
        assert_eq!(stem_words("src/url/index.ts"), stem_words("url.test.ts"));
    }
}
