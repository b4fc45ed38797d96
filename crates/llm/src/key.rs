//! The credential of an endpoint, which is sent but never shown.

use std::borrow::Cow;
use std::fmt;

use regex::{Captures, Regex, RegexBuilder};

use crate::error::LlmError;

/// Minimum length of a plain word that counts as a key. Shorter ones, such as `none`, `ollama` or `not-needed`, are
/// placeholders for servers without keys: they protect nothing, and removing them from texts would mangle these.
const MIN_WORD_KEY_BYTES: usize = 12;

/// Minimum length of any other key, which is removed from texts. Shorter ones occur in texts by chance, and are
/// rejected as keys.
const MIN_KEY_BYTES: usize = 6;

/// Returns true if `name` is a valid name of an environment variable. A key given in place of the name usually is
/// not, so invalid names are never repeated in messages.
pub(crate) fn is_variable(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// The error if [`is_variable`] returns false.
pub(crate) fn invalid_variable() -> LlmError {
    LlmError::Settings {
        problem: "`key_variable` is not the name of an environment variable; expected letters, digits and `_`, such as \
                  OPENAI_API_KEY (the key itself belongs in that variable)"
            .to_owned(),
    }
}

/// Returns true if a name looks like a key: some keys, such as `hf_…`, consist only of letters, digits and `_`.
fn looks_like_key(name: &str) -> bool {
    let has = |kind: fn(&char) -> bool| name.chars().any(|c| kind(&c));
    name.len() >= 20
        && has(char::is_ascii_lowercase)
        && (has(char::is_ascii_uppercase) || has(char::is_ascii_digit))
}

/// A credential. It cannot be printed, stored or compared; only the transport reads it.
#[derive(Clone)]
pub struct ApiKey {
    secret: String,
    variable: String,
    /// Finds it in texts; `None` for a placeholder word.
    finder: Option<Finder>,
}

impl ApiKey {
    /// Reads the key from the environment variable `variable`, trimming spaces and line breaks.
    ///
    /// # Errors
    /// [`LlmError::Settings`] if this is not a valid name of a variable; [`LlmError::Key`] if the variable is not
    /// set, empty, too short, or contains characters that are invalid in an HTTP header.
    pub fn from_environment(variable: &str) -> Result<Self, LlmError> {
        if !is_variable(variable) {
            return Err(invalid_variable());
        }
        let value = std::env::var(variable).map_err(|_| LlmError::Key {
            variable: if looks_like_key(variable) { "that is named" } else { variable }.to_owned(),
            problem: "is not set, or is not UTF-8".to_owned(),
        })?;
        Self::new(variable, &value)
    }

    /// A given key; `variable` is its name in errors.
    ///
    /// # Errors
    /// [`LlmError::Key`] if the key is empty, too short, or contains characters that are invalid in an HTTP header.
    pub fn new(variable: &str, secret: &str) -> Result<Self, LlmError> {
        let fail =
            |problem: &str| LlmError::Key { variable: variable.to_owned(), problem: problem.to_owned() };
        let secret = secret.trim();
        if secret.is_empty() {
            return Err(fail("is empty"));
        }
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(fail("contains a space or a character outside of ASCII"));
        }
        if !is_word(secret) && secret.len() < MIN_KEY_BYTES {
            return Err(fail(
                "is too short to be recognized and removed from stored texts; if the server needs no key, name no \
                 variable, or set it to a word such as `none`",
            ));
        }
        let is_guarded = !is_word(secret) || secret.len() >= MIN_WORD_KEY_BYTES;
        let finder = is_guarded.then(|| Finder::new(secret)).transpose();
        let finder = finder.map_err(|_| fail("is too long; expected at most a few thousand characters"))?;
        Ok(Self { secret: secret.to_owned(), variable: variable.to_owned(), finder })
    }

    /// The name of the environment variable that the key came from.
    pub fn variable(&self) -> &str {
        &self.variable
    }

    pub(crate) fn expose(&self) -> &str {
        &self.secret
    }

    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.finder.as_ref().is_some_and(|finder| finder.key.is_match(text))
    }

    /// `text` with the name of the variable in place of the key. Servers repeat keys in error messages.
    pub(crate) fn redact(&self, text: &str) -> String {
        let Some(Finder { key, key_or_escape }) = &self.finder else { return text.to_owned() };
        let name = format!("[{}]", self.variable);
        let or_escape = |found: &Captures<'_>| match found.name("key") {
            Some(_) => name.clone(),
            None => found[0].to_owned(),
        };
        // Outside of escapes first: a key that ends within an escape would leave half of it.
        let redacted = key_or_escape.replace_all(text, or_escape);
        match key.replace_all(&redacted, regex::NoExpand(&name)) {
            Cow::Borrowed(_) => redacted.into_owned(),
            Cow::Owned(redacted) => redacted,
        }
    }
}

/// Finds a key verbatim, escaped for JSON (also nested), percent-encoded (also repeatedly), and in hexadecimal or
/// base64 (also as part of a longer text). Keys in other encodings, in parts or paraphrased are not found.
#[derive(Clone)]
struct Finder {
    key: Regex,
    /// The key, as the group `key`, or an escape of JSON.
    key_or_escape: Regex,
}

/// A backslash, escaped any number of times by writers of JSON.
const BACKSLASH: &str = r"\\(?:\\|(?i:u005c))*";

/// Maximum size of a compiled pattern: enough for keys of a few thousand characters.
const MAX_PATTERN_BYTES: usize = 64 << 20;

impl Finder {
    /// Creates a finder for a key of printable ASCII characters.
    fn new(secret: &str) -> Result<Self, regex::Error> {
        let verbatim: String = secret.bytes().map(character).collect();
        let digits: Vec<String> = secret.bytes().map(|byte| format!("(?i:{byte:02x})")).collect();
        let mut forms =
            vec![verbatim, format!("(?:{BACKSLASH})?{}", digits.join(r"[ :,\\-]{0,3}(?:0?[xX])?"))];
        // In a longer text, the key may begin at any byte of a group of three.
        forms.extend((0..3).map(|offset| format!("(?:{BACKSLASH})?{}", in_base64(secret, offset))));
        let key = format!("(?:{})", forms.join("|"));
        let compiled = |pattern: &str| RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build();
        Ok(Self {
            key: compiled(&key)?,
            key_or_escape: compiled(&format!("(?<key>{key})|{BACKSLASH}u[0-9a-fA-F]{{4}}"))?,
        })
    }
}

/// The pattern of a character, plain or escaped.
fn character(byte: u8) -> String {
    let plain = match byte {
        b'\\' => BACKSLASH.to_owned(),
        _ => format!("(?:{BACKSLASH})?{}", regex::escape(&char::from(byte).to_string())),
    };
    format!("(?:{plain}|{BACKSLASH}(?i:u00{byte:02x})|%(?:25)*(?i:{byte:02x}))")
}

/// The pattern of the digits that `secret` determines in base64 (RFC 4648, both alphabets) after `offset` other bytes.
fn in_base64(secret: &str, offset: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes = [&[0; 3][..offset], secret.as_bytes(), &[0]].concat();
    let n_bytes = offset + secret.len();
    let digit = |number: usize| {
        let (at, bit) = (number * 6 / 8, number * 6 % 8);
        let window = u16::from(bytes[at]) << 8 | u16::from(bytes[at + 1]);
        match DIGITS[usize::from(window >> (10 - bit) & 63)] {
            b'+' => format!("(?:{}|-)", character(b'+')),
            b'/' => format!("(?:{}|_)", character(b'/')),
            digit => char::from(digit).to_string(),
        }
    };
    ((offset * 8).div_ceil(6)..n_bytes * 8 / 6).map(digit).collect()
}

/// Returns true if `secret` is a placeholder word: letters of one case, with `-` and `_` between them.
fn is_word(secret: &str) -> bool {
    let is_in_word = |c: char| c.is_ascii_alphabetic() || matches!(c, '-' | '_');
    let has = |kind: fn(&char) -> bool| secret.chars().any(|c| kind(&c));
    secret.chars().all(is_in_word) && !(has(char::is_ascii_lowercase) && has(char::is_ascii_uppercase))
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ApiKey([{}])", self.variable)
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{}]", self.variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_shows_its_variable_only() {
        let key = ApiKey::new("SOME_KEY", " sk-very-secret\n").unwrap();
        assert_eq!(format!("{key} {key:?} {key:#?}"), "[SOME_KEY] ApiKey([SOME_KEY]) ApiKey([SOME_KEY])");
        assert_eq!(key.expose(), "sk-very-secret");
    }

    #[test]
    fn a_key_is_hidden_however_json_writes_it() {
        let key = ApiKey::new("K", r#"a/b"c\d-0123456789"#).unwrap();
        let once = serde_json::to_string(key.expose()).unwrap();
        let twice = serde_json::to_string(&once).unwrap();
        let text = format!("ä a {} {once} {twice} {}", key.expose(), key.expose().replace('/', "\\\\/"));
        assert!(key.is_in(&text));
        assert_eq!(key.redact(&text), r#"ä a [K] "[K]" "\"[K]\"" [K]"#);
        assert_eq!(key.redact(&key.expose()[1..]), key.expose()[1..]);
    }

    #[test]
    fn escaped_characters_are_those_they_stand_for() {
        let key = ApiKey::new("K", "sk-a+b/0123456789").unwrap();
        for form in [
            r"sk-a\u002Bb/0123456789",
            r"\u0073k\u002da\u002bb\u002F0123456789",
            r"sk-a\\u002Bb\\/0123456789",
            r"sk-a\u005Cu002Bb\u002F0123456789",
            "sk-a%2Bb%2f0123456789",
            "sk-a%252Bb%252F0123456789",
        ] {
            assert_eq!(key.redact(&format!("my {form}, ä")), "my [K], ä", "{form}");
        }
        let json = r#"{"message": "line\n\u0073k-a\u002Bb\/0123456789\\"}"#;
        let shown: serde_json::Value = serde_json::from_str(&key.redact(json)).unwrap();
        assert_eq!(shown["message"], "line\n[K]\\");
        // The key may also start in the last digits of an escape, of which half would be left.
        let key_of_digits = ApiKey::new("K", "000000").unwrap();
        assert_eq!(key_of_digits.redact(r#""\u0000000000""#), r#""\u0000[K]""#);
        assert_eq!(key_of_digits.redact(r"C:\u000000"), r"C:\u[K]");
        for other in
            [r"sk-a\u002Cb/0123456789", "sk-au002Bb/0123456789", "sk-a%2", r"sk-a\u00", "sk_a+b/0123456789"]
        {
            assert_eq!(key.redact(other), other);
        }
    }

    #[test]
    fn a_key_is_hidden_in_base64_and_hexadecimal() {
        // Made with Python's `base64` and `bytes.hex`.
        let key = ApiKey::new("K", "sk-a>b?0123456789~~").unwrap();
        for (form, expected) in [
            ("c2stYT5iPzAxMjM0NTY3ODl+fg==", "[K]g=="),
            ("c2stYT5iPzAxMjM0NTY3ODl-fg", "[K]g"),
            ("dXNlcjpzay1hPmI/MDEyMzQ1Njc4OX5+", "dXNlcjp[K]"),
            (r"dXNlcjpzay1hPmI\/MDEyMzQ1Njc4OX5\u002b", "dXNlcjp[K]"),
            ("eHNrLWE+Yj8wMTIzNDU2Nzg5fn55", "eH[K]55"),
            ("eHlzay1hPmI_MDEyMzQ1Njc4OX5-eg", "eHl[K]eg"),
            ("736b2d613e623f303132333435363738397e7e", "[K]"),
            ("73:6B:2D:61:3E:62:3F:30:31:32:33:34:35:36:37:38:39:7E:7E", "[K]"),
            (r"\x73\x6b\x2d\x61\x3e\x62\x3f\x30\x31\x32\x33\x34\x35\x36\x37\x38\x39\x7e\x7e", r"\x[K]"),
        ] {
            assert!(key.is_in(form), "{form}");
            assert_eq!(key.redact(&format!("<{form}>")), format!("<{expected}>"));
        }
        for other in ["c2stYT5iPzAxMjM0NTY3ODl", "736b2d613e623f303132333435363738397e7f"] {
            assert!(!key.is_in(other), "{other}");
        }
        assert!(ApiKey::new("K", &"aB3/".repeat(1000)).is_ok());
    }

    /// `text` as a JSON string, with characters accepted by `escapable` escaped if the corresponding bit of `escapes`
    /// is set.
    fn written(text: &str, escapes: u32, escapable: impl Fn(char) -> bool) -> String {
        let write = |(at, c): (usize, char)| match escapable(c) && escapes >> (at % 32) & 1 == 1 {
            true => format!("\\u{:04x}", u32::from(c)),
            false => {
                let quoted = serde_json::to_string(&c).unwrap();
                quoted[1..quoted.len() - 1].to_owned()
            }
        };
        let inner: String = text.chars().enumerate().map(write).collect();
        format!("\"{inner}\"")
    }

    proptest! {
        /// However often and with whatever escapes it is encoded as JSON, the key cannot be decoded from the text,
        /// and JSON remains valid.
        #[test]
        fn no_reader_finds_the_key(
            secret in "[!-~]{0,20}[0-9!]{6}", before in ".*", after in ".*", escapes: u32,
            outer in prop::collection::vec(any::<u32>(), 0..3),
        ) {
            let key = ApiKey::new("K", &secret).unwrap();
            let text = written(&format!("{before}{secret}{after}"), escapes, |c| c.is_ascii_graphic());
            // Letters within an escape sequence are never escaped themselves.
            let text = outer.iter().fold(text, |text, &escapes| written(&text, escapes, |c| matches!(c, '\\' | '"')));
            let mut shown = key.redact(&text);
            for _ in 0..=outer.len() {
                prop_assert!(!shown.contains(&secret), "{shown}");
                shown = serde_json::from_str::<String>(&shown).unwrap();
            }
            prop_assert!(!shown.contains(&secret), "{shown}");
        }
    }

    #[test]
    fn a_word_in_the_place_of_a_key_stays_in_texts_and_a_short_key_does_not() {
        for word in ["ollama", "none", "EMPTY", "not-needed"] {
            assert_eq!(ApiKey::new("K", word).unwrap().redact(word), word);
        }
        for secret in ["sk-1234", "a1b2c3", "abCDefGH"] {
            assert_eq!(ApiKey::new("K", secret).unwrap().redact(&format!("<{secret}>")), "<[K]>");
        }
        let error = ApiKey::new("SOME_KEY", "k1234").unwrap_err().to_string();
        assert!(error.contains("SOME_KEY is too short") && !error.contains("k1234"), "{error}");
    }

    #[test]
    fn a_key_that_cannot_be_sent_is_refused_without_being_shown() {
        for bad in ["", "  ", "two words", "line\nbreak", "schlüssel"] {
            let error = ApiKey::new("SOME_KEY", bad).unwrap_err().to_string();
            assert!(error.contains("SOME_KEY"), "{error}");
            assert!(bad.trim().is_empty() || !error.contains(bad), "{error}");
        }
    }

    #[test]
    fn the_environment_names_what_is_missing() {
        let error = ApiKey::from_environment("QUARRY_TEST_NO_SUCH_VARIABLE").unwrap_err().to_string();
        assert!(error.contains("QUARRY_TEST_NO_SUCH_VARIABLE"), "{error}");
    }

    #[test]
    fn a_key_in_the_place_of_a_name_is_not_shown() {
        for name in ["sk-live-0123456789abcdef", "", "1KEY", "two words", "hf_abcDEF0123456789abcdef"] {
            let error = ApiKey::from_environment(name).unwrap_err().to_string();
            assert!(name.is_empty() || !error.contains(name), "{error}");
        }
        for name in ["QUARRY_TEST_NO_SUCH_VARIABLE_2", "quarry_no_such_key"] {
            assert!(ApiKey::from_environment(name).unwrap_err().to_string().contains(name));
        }
    }
}
