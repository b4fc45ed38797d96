//! The kind of a question, by its text alone.

use quarry_text::parts;
use serde::Serialize;

/// Minimum number of words of a long text.
const LONG: usize = 30;

/// Maximum number of words of a query that asks for a name in it.
const NAME_WORDS: usize = 4;

/// Words of messages that report a failure.
const FAILURES: [&str; 32] = [
    "already",
    "can't",
    "cannot",
    "couldn't",
    "denied",
    "doesn't",
    "error",
    "exception",
    "expected",
    "fail",
    "failed",
    "fails",
    "failure",
    "fatal",
    "illegal",
    "invalid",
    "missing",
    "must",
    "not",
    "panic",
    "panicked",
    "refused",
    "refusing",
    "unable",
    "uncaught",
    "unexpected",
    "unknown",
    "unsupported",
    "warn",
    "warning",
    "wasn't",
    "won't",
];

/// Characters of messages that are rare in the prose of queries.
const MESSAGE_CHARACTERS: [char; 12] = ['"', '`', '%', '{', '}', '[', ']', '<', '>', '$', '=', '|'];

/// The kind of a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// Words for what code does.
    #[default]
    Description,
    /// A name, alone or in a few words.
    Name,
    /// The message of an error.
    Error,
    /// Several sentences.
    Long,
}

impl QuestionKind {
    /// All kinds, in order.
    pub const ALL: [Self; 4] = [Self::Description, Self::Name, Self::Error, Self::Long];

    /// The kind of a query.
    pub fn classify(query: &str) -> Self {
        let words: Vec<&str> = query.split_whitespace().collect();
        match words.len() {
            0 | 1 => Self::Name,
            LONG.. => Self::Long,
            _ if is_message(query, &words) => Self::Error,
            n if n <= NAME_WORDS && words.iter().any(|word| is_name(word)) => Self::Name,
            _ => Self::Description,
        }
    }

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Description => "description",
            Self::Name => "name",
            Self::Error => "error",
            Self::Long => "long",
        }
    }
}

/// Words before the noun in a query for tests: "where is the unit test for …".
const BEFORE_TESTS: [&str; 20] = [
    "a", "all", "an", "any", "are", "do", "find", "have", "is", "list", "me", "show", "some", "that", "the",
    "there", "we", "what", "where", "which",
];
const KINDS_OF_TESTS: [&str; 7] =
    ["acceptance", "functional", "integration", "regression", "smoke", "unit", "e2e"];

/// Words after the noun. Behind a bare `test`, those of the second list begin the description of a function: "test if a
/// path is absolute".
const AFTER_TEST: [&str; 14] = [
    "asserting",
    "asserts",
    "case",
    "cases",
    "checking",
    "checks",
    "covering",
    "covers",
    "ensures",
    "ensuring",
    "that",
    "verifies",
    "verifying",
    "which",
];
const AFTER_TESTS: [&str; 6] = ["for", "if", "of", "on", "when", "whether"];

/// Returns true if a query asks for tests: "test that the retry stops", "where is the retry tested".
pub fn asks_for_tests(query: &str) -> bool {
    let words: Vec<String> = query
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
        .collect();
    let is_among =
        |words: &[&str], word: Option<&String>| word.is_some_and(|word| words.contains(&word.as_str()));
    let ends = [" tested", " covered by tests", " covered by a test"];
    let asked = words.join(" ");
    if ["where is ", "where are ", "how is ", "how are ", "is ", "are "]
        .iter()
        .any(|start| asked.starts_with(start))
        && ends.iter().any(|end| asked.ends_with(end))
    {
        return true;
    }
    let noun = words
        .iter()
        .position(|word| !BEFORE_TESTS.contains(&word.as_str()) && !KINDS_OF_TESTS.contains(&word.as_str()));
    let Some(noun) = noun else { return false };
    let is_noun = noun > 0 || words[noun] == "tests";
    let next = words.get(noun + 1);
    ["test", "tests"].contains(&words[noun].as_str())
        && (is_among(&AFTER_TEST, next) || is_noun && is_among(&AFTER_TESTS, next))
}

/// Returns true if a text reports a failure and is written like a message of a program rather than a description.
fn is_message(text: &str, words: &[&str]) -> bool {
    let reports = |word: &&str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_type = |end: &str| word.len() > end.len() && word.ends_with(end);
        FAILURES.contains(&word.to_lowercase().as_str()) || is_type("Error") || is_type("Exception")
    };
    let is_punctuated = || {
        text.contains(MESSAGE_CHARACTERS)
            || text.ends_with(['.', '!'])
            || words.iter().any(|word| word.ends_with(':') || word.starts_with('\''))
    };
    !text.trim_end().ends_with('?')
        && words.iter().any(reports)
        && (is_punctuated() || text.starts_with(char::is_uppercase))
}

/// Returns true if a word can only be a name in code: prose has `TypeScript`, but not `parse_url`, `a::b`, `close()`
/// or `readCsvFile`.
fn is_name(word: &str) -> bool {
    let word = word.trim_matches([',', '.', ';', ':', '?', '!']);
    word.contains(['_', '$']) || word.contains("::") || word.ends_with("()") || parts(word).count() > 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_recognized_by_the_wording() {
        use QuestionKind::{Description, Error, Long, Name};
        for (query, expected) in [
            ("parse_jwt_claims", Name),
            ("HeaderParser", Name),
            ("retry", Name),
            ("where is FetchVaultSecret called", Name),
            ("callers of close()", Name),
            ("translate Lua to TypeScript", Description),
            ("retry with backoff", Description),
            ("refuse unknown columns in requested ordering", Description),
            ("why can't a user be deleted?", Description),
            ("what happens if the key is missing?", Description),
            ("Could not open {path}: permission denied", Error),
            ("error: invalid argument", Error),
            ("java.lang.IllegalStateException: not attached", Error),
            ("A gemset name must be specified in order to delete a gemset.", Error),
            ("", Name),
        ] {
            assert_eq!(QuestionKind::classify(query), expected, "{query:?}");
        }
        assert_eq!(QuestionKind::classify(&"why does it stop after a while? ".repeat(5)), Long);
    }

    #[test]
    fn tests_are_asked_for_by_the_noun() {
        for query in [
            "test that the retry stops",
            "tests for the JSON reader",
            "the unit test of the retry loop",
            "show me all tests that cover redirects",
            "Where is the retry tested?",
            "regression test for an empty header",
            "where are the tests when the disk is full",
        ] {
            assert!(asks_for_tests(query), "{query}");
        }
        for query in [
            "test if a path is absolute",
            "test whether two sets overlap",
            "test runner",
            "run tests in parallel",
            "how are tests discovered",
            "is the password tested against a list?",
            "the connection is tested",
            "tests",
            "",
        ] {
            assert!(!asks_for_tests(query), "{query}");
        }
    }
}
