//! The query syntax of all interfaces.
//!
//! Known keys, and quotes and slashes at the edges of a token, are syntax; everything else is words. A text of several
//! lines is words alone, as are texts that programs send ([`Query::plain`]).

use quarry_index::{Error, Filter};
use quarry_source::{UnitKind, language_called};
use quarry_text::did_you_mean;
use regex::{Regex, RegexBuilder};

use crate::KINDS;

/// The keys, each with a description of its value.
pub const KEYS: [(&str, &str); 6] = [
    ("lang", "a language, by its name or extension"),
    ("path", "a part of the path, or a glob such as *.go; -path: and !path: leave out"),
    ("kind", "function, method, type, module or section"),
    ("name", "the name of a function or type, in which * stands for any text"),
    ("tree", "the name of a searched directory"),
    ("case", "yes: quotes and slashes match letters in their case"),
];

/// Keys of other programs, each with its equivalent here.
const OTHER_KEYS: [(&str, &str); 12] = [
    ("content", "\"…\""),
    ("dir", "path:"),
    ("ext", "path:*.EXTENSION"),
    ("extension", "path:*.EXTENSION"),
    ("f", "path:"),
    ("file", "path:"),
    ("filename", "path:"),
    ("language", "lang:"),
    ("r", "tree:"),
    ("repo", "tree:"),
    ("symbol", "name:"),
    ("type", "kind:"),
];

/// Maximum tokens of a query in which unknown keys are mentioned; a longer one is probably prose.
const MAX_HINTED_TOKENS: usize = 12;

/// Words of a phrase that may be the text of a message.
const MIN_MESSAGE_WORDS: usize = 3;

/// A parsed query.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The text, as given.
    pub text: String,
    /// The words, which rank; the whole text if nothing in it is syntax.
    pub words: String,
    /// Expressions that a result has to match, each in one of its lines.
    pub(crate) expressions: Vec<Expression>,
    /// The expressions as they were written.
    pub patterns: Vec<String>,
    /// Names of searched directories, one of which a result has to be in.
    pub trees: Vec<String>,
    /// Hints about how the text was interpreted.
    pub hints: Vec<String>,
    languages: Vec<String>,
    kinds: Vec<UnitKind>,
    names: Vec<String>,
    /// Parts of paths, each with true if it excludes them.
    paths: Vec<(String, bool)>,
    /// True if everything but the words is between quotes or slashes in the text, which then may be a pasted message.
    may_be_plain: bool,
}

/// A regular expression for lines.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    pub regex: Regex,
    pub ignores_case: bool,
}

/// An expression that does not parse.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a regular expression")]
pub struct PatternError {
    text: String,
    source: Box<regex::Error>,
}

impl PatternError {
    /// The message, and below it the place in the expression with a caret.
    pub fn with_place(&self) -> String {
        format!("{self}:\n{}", self.source)
    }
}

impl Query {
    /// A query of words alone; nothing in the text is syntax.
    pub fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), words: text.to_owned(), ..Self::default() }
    }

    /// Reads a text; one of several lines is [`plain`](Self::plain).
    ///
    /// # Errors
    /// When a regular expression does not parse.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let plain = Self::plain(text);
        if text.trim().contains(['\n', '\r']) {
            return Ok(plain);
        }
        let tokens = tokens(text);
        let mut query = Self { words: String::new(), ..plain };
        let (mut words, mut patterns) = (Vec::new(), Vec::new());
        let (mut ignores_case, mut has_keys) = (true, false);
        for token in &tokens {
            match token {
                Token::Phrase(text) => patterns.push((regex::escape(text), format!("\"{text}\""))),
                Token::Regex(pattern) => patterns.push(((*pattern).to_owned(), format!("/{pattern}/"))),
                Token::Key { sign, key, value, whole } => {
                    let is_known = match query.filter_by(sign, key, value) {
                        Ok(is_known) => is_known,
                        Err(hint) => {
                            query.hints.push(format!("`{whole}`: {hint}; searched for as words"));
                            false
                        }
                    };
                    match (*sign, *key, value.as_str()) {
                        ("", "case", "yes" | "no") => ignores_case = value == "no",
                        _ if is_known => {}
                        _ => {
                            words.push(*whole);
                            continue;
                        }
                    }
                    has_keys = true;
                }
                Token::Word(word) => {
                    if tokens.len() <= MAX_HINTED_TOKENS {
                        query.hints.extend(unknown_key(word));
                    }
                    words.push(*word);
                }
            }
        }
        for (pattern, shown) in &patterns {
            query.expressions.push(Expression::new(pattern, shown, ignores_case)?);
            query.patterns.push(pattern.clone());
        }
        query.may_be_plain = !patterns.is_empty() && !has_keys;
        let is_plain = patterns.is_empty() && !has_keys;
        query.words = if is_plain { text.to_owned() } else { words.join(" ") };
        Ok(query)
    }

    /// Applies a key; returns true if there is such a key.
    ///
    /// # Errors
    /// When there is no such value; the error says why.
    fn filter_by(&mut self, sign: &str, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "path" => self.paths.push((value.to_owned(), !sign.is_empty())),
            _ if !sign.is_empty() => return Err("only `path:` can be excluded".to_owned()),
            "lang" => {
                language_called(value).ok_or_else(|| Error::unknown_language(value).to_string())?;
                self.languages.push(value.to_owned());
            }
            "kind" => {
                let known = KINDS.iter().find(|(name, _)| *name == value);
                let expected = || format!("expected one of {}", KINDS.map(|(name, _)| name).join(", "));
                self.kinds.push(known.ok_or_else(expected)?.1);
            }
            "name" => self.names.push(value.to_owned()),
            "tree" => self.trees.push(value.to_owned()),
            "case" if !matches!(value, "yes" | "no") => return Err("expected yes or no".to_owned()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Also asks for lines that match any of some regular expressions, as the option `-e` does.
    ///
    /// # Errors
    /// When one does not parse.
    pub fn with_patterns(mut self, patterns: &[String], ignores_case: bool) -> Result<Self, PatternError> {
        if patterns.is_empty() {
            return Ok(self);
        }
        for pattern in patterns {
            Expression::new(pattern, pattern, ignores_case)?;
        }
        let any = patterns.iter().map(|pattern| format!("(?:{pattern})")).collect::<Vec<_>>().join("|");
        self.expressions.push(Expression::new(&any, &any, ignores_case)?);
        self.patterns.extend_from_slice(patterns);
        self.may_be_plain = false;
        Ok(self)
    }

    /// Returns true if words rank the results.
    pub fn is_ranked(&self) -> bool {
        !self.words.trim().is_empty()
    }

    /// Returns true if the text is searched for as words if no line matches its phrases and expressions.
    pub(crate) fn may_be_plain(&self) -> bool {
        let is_message = || self.text.split_whitespace().count() >= MIN_MESSAGE_WORDS;
        self.may_be_plain && (self.is_ranked() || is_message())
    }

    /// Returns true if lines have to match.
    pub fn is_exact(&self) -> bool {
        !self.expressions.is_empty()
    }

    /// Returns true if units are selected by filters alone.
    pub(crate) fn only_filters(&self) -> bool {
        let has_filters = !self.trees.is_empty() || !self.languages.is_empty() || !self.kinds.is_empty();
        !self.is_ranked() && (has_filters || !self.names.is_empty() || !self.paths.is_empty())
    }

    /// Adds the filters of the query to `filter`: values of a key are alternatives, also to those of `filter`, and
    /// every condition on paths must hold. `trees` has the names of the searched paths.
    ///
    /// # Errors
    /// When a glob is malformed, or no searched path has the name.
    pub fn narrow(&self, filter: Filter, trees: &[String]) -> Result<Filter, Error> {
        let mut filter = filter.or(&self.languages, &self.kinds, &self.names)?;
        for (path, is_exclusion) in &self.paths {
            filter = filter.and_path(path, *is_exclusion)?;
        }
        if self.trees.is_empty() {
            return Ok(filter);
        }
        let number = |name: &String| {
            let unknown = || Error::UnknownTree { name: name.clone(), known: trees.to_vec() };
            trees.iter().position(|known| known.eq_ignore_ascii_case(name)).ok_or_else(unknown)
        };
        let mut numbers = filter.roots().to_vec();
        for name in &self.trees {
            numbers.push(number(name)?);
        }
        Ok(filter.in_roots(numbers))
    }
}

impl Expression {
    /// Compiles an expression, which messages show as `shown`.
    pub(crate) fn new(pattern: &str, shown: &str, ignores_case: bool) -> Result<Self, PatternError> {
        let compiled = RegexBuilder::new(pattern).case_insensitive(ignores_case).build();
        let regex =
            compiled.map_err(|source| PatternError { text: shown.to_owned(), source: Box::new(source) })?;
        Ok(Self { regex, ignores_case })
    }
}

/// A part of a text, between white space or between quotes or slashes.
#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    /// Without its quotes and their escapes.
    Phrase(String),
    /// Without its slashes.
    Regex(&'a str),
    /// A known key with its value.
    Key {
        /// `-`, `!` or nothing.
        sign: &'a str,
        key: &'a str,
        value: String,
        whole: &'a str,
    },
    Word(&'a str),
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (token, length) = match (phrase(rest), regex_at(rest), key_at(rest)) {
            (Some((phrase, length)), ..) => (Token::Phrase(phrase), length),
            (_, Some((pattern, length)), _) => (Token::Regex(pattern), length),
            (.., Some((key, length))) => (key, length),
            _ => {
                let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (Token::Word(&rest[..length]), length)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Returns true if a token ends here.
fn ends(rest: &str) -> bool {
    rest.chars().next().is_none_or(char::is_whitespace)
}

/// The phrase that a text begins with, and its length with the quotes: up to the first quote at the end of a token.
fn phrase(text: &str) -> Option<(String, usize)> {
    let inner =
        text.strip_prefix('"').filter(|inner| !inner.starts_with(|c: char| c.is_whitespace() || c == '"'))?;
    let mut is_escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            '\\' if !is_escaped => is_escaped = true,
            '"' if !is_escaped && ends(&inner[at + 1..]) => {
                return Some((inner[..at].replace("\\\"", "\""), at + 2));
            }
            _ => is_escaped = false,
        }
    }
    None
}

/// The regular expression that a text begins with, and its length with the slashes. Slashes in it must be escaped, so
/// that a path is not an expression.
fn regex_at(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix('/').filter(|inner| !ends(inner) && !inner.starts_with('/'))?;
    let mut is_escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            '\\' if !is_escaped => is_escaped = true,
            '/' if !is_escaped => return ends(&inner[at + 1..]).then(|| (&inner[..at], at + 2)),
            _ => is_escaped = false,
        }
    }
    None
}

/// The known key with a value that a text begins with, and their length.
fn key_at(text: &str) -> Option<(Token<'_>, usize)> {
    let unsigned = text.strip_prefix(['-', '!']).unwrap_or(text);
    let sign = &text[..text.len() - unsigned.len()];
    let (key, rest) = unsigned.split_once(':')?;
    if !KEYS.iter().any(|(known, _)| *known == key) || ends(rest) {
        return None;
    }
    let (value, length) = phrase(rest).unwrap_or_else(|| {
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        (rest[..length].to_owned(), length)
    });
    let length = text.len() - rest.len() + length;
    Some((Token::Key { sign, key, value, whole: &text[..length] }, length))
}

/// Hint about a word that looks like a key with a value.
fn unknown_key(word: &str) -> Option<String> {
    let (key, value) = word.trim_start_matches(['-', '!']).split_once(':')?;
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphabetic());
    // `std::fmt`, `https://…` and `localhost:8080` do not.
    let is_value = !value.is_empty()
        && !value.starts_with([':', '/'])
        && !value.bytes().all(|byte| byte.is_ascii_digit());
    if !is_key || !is_value {
        return None;
    }
    let other = OTHER_KEYS.iter().find(|(other, _)| key.eq_ignore_ascii_case(other));
    let meant = match other {
        Some((_, own)) => format!("did you mean `{own}`?"),
        None => did_you_mean(key, KEYS.map(|(key, _)| key))
            .unwrap_or_else(|| format!("the keys are {}", KEYS.map(|(key, _)| key).join(", "))),
    };
    Some(format!("`{key}:` is not a key, so `{word}` is searched for as words; {meant}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words, the expressions and the number of hints of a query.
    #[track_caller]
    fn check(text: &str, words: &str, expressions: &[&str], n_hints: usize) -> Query {
        let query = Query::parse(text).unwrap();
        let found: Vec<&str> = query.expressions.iter().map(|found| found.regex.as_str()).collect();
        assert_eq!((query.words.as_str(), found.as_slice()), (words, expressions), "{text}");
        assert_eq!(query.hints.len(), n_hints, "{text}: {:?}", query.hints);
        query
    }

    #[test]
    fn every_key_is_documented() {
        let page = include_str!("../../../docs/reference/query-syntax.md");
        KEYS.iter().for_each(|(key, _)| assert!(page.contains(&format!("| `{key}:")), "{key}"));
    }

    #[test]
    fn words_stay_as_they_are() {
        for text in [
            "retry with  backoff ",
            "std::fmt::Display",
            "see https://example.org/a",
            "listen on localhost:8080",
            "a \" b",
            "5\" disk",
            "say \"hi\", then leave",
            "/usr/lib/x/",
            "open /etc/passwd and /var/log/",
            "and/or a / b",
            "// a comment",
            "path: must be set",
            "\"\"",
            "cannot open \"a.txt\": no such file",
            "lang:go\nlang:rust \"x\"",
        ] {
            check(text, text, &[], 0);
        }
    }

    #[test]
    fn quotes_and_slashes_at_the_edges_of_a_token_are_exact() {
        check("\"exact phrase\"", "", &["exact phrase"], 0);
        check("retry \"a.b(\" now", "retry now", &["a\\.b\\("], 0);
        check("\"fmt.Sprintf(\"%d\")\"", "", &["fmt\\.Sprintf\\(\"%d\"\\)"], 0);
        check("\"say \\\"hi\\\" now\"", "", &["say \"hi\" now"], 0);
        check("/fo+ bar/ words", "words", &["fo+ bar"], 0);
        check("/a\\/b/", "", &["a\\/b"], 0);
        check("/a/ \"b\"", "", &["a", "b"], 0);
    }

    #[test]
    fn letters_match_in_any_case_unless_asked() {
        let is_match = |text: &str| Query::parse(text).unwrap().expressions[0].regex.is_match("Foo");
        assert!(is_match("\"foo\"") && is_match("/fo+/") && is_match("/Foo/ case:yes"));
        assert!(!is_match("case:yes \"foo\"") && is_match("/foo/ case:no"));
    }

    #[test]
    fn known_keys_narrow() {
        let query =
            check("retry lang:go path:modules/ -path:test kind:function name:parse*", "retry", &[], 0);
        assert_eq!(query.paths, [("modules/".to_owned(), false), ("test".to_owned(), true)]);
        assert_eq!((query.languages.len(), query.kinds.len(), query.names.len()), (1, 1, 1));
        assert!(!query.only_filters() && Query::parse("kind:type").unwrap().only_filters());
        let query = check("!path:test path:\"my files/\" tree:caddy", "", &[], 0);
        assert_eq!(query.paths, [("test".to_owned(), true), ("my files/".to_owned(), false)]);
        assert_eq!(query.trees, ["caddy"]);
    }

    #[test]
    fn unknown_keys_and_values_are_words_with_a_hint() {
        let hint = |text: &str| Query::parse(text).unwrap().hints.join("; ");
        check("file:main.go retry", "file:main.go retry", &[], 1);
        assert!(hint("file:main.go").contains("did you mean `path:`?"));
        assert!(hint("langs:go").contains("did you mean `lang`?"));
        assert!(hint("foo:bar").contains("the keys are lang, path"));
        check("kind:Pod not found", "kind:Pod not found", &[], 1);
        assert!(hint("kind:Pod").contains("expected one of function, method"));
        assert!(hint("lang:pyhton").contains("python"));
        check("-lang:go case:maybe", "-lang:go case:maybe", &[], 2);
        assert_eq!(hint("a b c d e f g h i j k l foo:bar"), "", "prose");
    }

    #[test]
    fn a_malformed_expression_is_shown_with_a_caret() {
        let error = Query::parse("retry /fo(o/").unwrap_err();
        assert_eq!(error.to_string(), "`/fo(o/` is not a regular expression");
        assert!(error.with_place().contains("\n    fo(o\n      ^\n"), "{}", error.with_place());
        let patterns = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            Query::plain("").with_patterns(&patterns, false)
        };
        let any = patterns(&["fo+", "^x|y$"]).unwrap();
        let is_match = |text: &str| any.expressions[0].regex.is_match(text);
        assert!(is_match("a foo") && is_match("xa") && is_match("ay") && !is_match("FOO"));
        assert!(patterns(&["a)(b", "c"]).unwrap_err().to_string().contains("`a)(b`"));
    }
}
