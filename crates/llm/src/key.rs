//! The credential of an endpoint, which is sent and never shown.

use std::fmt;

use crate::error::LlmError;

/// A plain word that is shorter, such as `none`, `ollama` or `not-needed`, is what servers without keys are given: it
/// guards nothing, and taking it out of texts would mangle them.
const SHORTEST_WORD: usize = 12;

/// Anything else is taken out of texts from this length on. What is shorter stands in too many of them by chance, so
/// that it is refused as a key.
const SHORTEST_KEY: usize = 6;

/// Whether `name` can be that of an environment variable. A key that was written in the place of the name mostly
/// cannot, so that what is none is never repeated in a message.
pub(crate) fn is_variable(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// What is wrong where [`is_variable`] says no.
pub(crate) fn no_variable() -> LlmError {
    LlmError::Settings {
        problem: "`key_variable` is not the name of an environment variable; expected letters, digits and `_`, such as \
                  OPENAI_API_KEY (the key itself belongs into that variable)"
            .to_owned(),
    }
}

/// Whether a name looks like a key: some keys, such as `hf_…`, are made of nothing but letters, digits and `_`.
fn looks_like_key(name: &str) -> bool {
    let has = |kind: fn(&char) -> bool| name.chars().any(|c| kind(&c));
    name.len() >= 20
        && has(char::is_ascii_lowercase)
        && (has(char::is_ascii_uppercase) || has(char::is_ascii_digit))
}

/// A credential. It has no way to be printed, stored or compared; only the transport reads it.
#[derive(Clone)]
pub struct ApiKey {
    secret: String,
    variable: String,
}

impl ApiKey {
    /// Reads the key from the environment variable `variable`; spaces and line ends around it are cut off.
    ///
    /// # Errors
    /// [`LlmError::Settings`] where no variable has such a name; [`LlmError::Key`] where the variable is not set, is
    /// empty, too short, or holds what no HTTP header can carry.
    pub fn from_environment(variable: &str) -> Result<Self, LlmError> {
        if !is_variable(variable) {
            return Err(no_variable());
        }
        let value = std::env::var(variable).map_err(|_| LlmError::Key {
            variable: if looks_like_key(variable) { "that is named" } else { variable }.to_owned(),
            problem: "is not set, or is not UTF-8".to_owned(),
        })?;
        Self::new(variable, &value)
    }

    /// A key from elsewhere; `variable` is the name that errors give it.
    ///
    /// # Errors
    /// [`LlmError::Key`] where the key is empty, too short, or holds what no HTTP header can carry.
    pub fn new(variable: &str, secret: &str) -> Result<Self, LlmError> {
        let fail =
            |problem: &str| LlmError::Key { variable: variable.to_owned(), problem: problem.to_owned() };
        let secret = secret.trim();
        if secret.is_empty() {
            return Err(fail("is empty"));
        }
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(fail("holds a space or a character outside of ASCII"));
        }
        if !is_word(secret) && secret.len() < SHORTEST_KEY {
            return Err(fail(
                "is too short to be told from other text, and so to be kept out of what is stored; where the server \
                 needs no key, name no variable, or put a word such as `none` into it",
            ));
        }
        Ok(Self { secret: secret.to_owned(), variable: variable.to_owned() })
    }

    /// The name of the environment variable that the key came from.
    pub fn variable(&self) -> &str {
        &self.variable
    }

    pub(crate) fn expose(&self) -> &str {
        &self.secret
    }

    /// Whether `text` holds the key.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.find(text).is_some()
    }

    /// `text` with the name of the variable in the place of the key. Servers repeat keys in error messages.
    pub(crate) fn redact(&self, text: &str) -> String {
        let (mut redacted, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((begin, end)) = self.find(rest) {
            redacted.push_str(&rest[..begin]);
            redacted.push_str(&format!("[{}]", self.variable));
            rest = &rest[end..];
        }
        redacted + rest
    }

    /// Where the key begins and ends in `text`, however servers spell it: as it is, or with characters as `\u002B` in
    /// JSON, in JSON inside of JSON, as `%2B` in addresses or as `&#43;` in HTML. Backslashes do not count, as writers
    /// of JSON put them before `"`, `\` and `/`. A word in the place of a key is found nowhere.
    fn find(&self, text: &str) -> Option<(usize, usize)> {
        let key: Vec<u8> = self.secret.bytes().filter(|&byte| !is_skipped(byte)).collect();
        if key.is_empty() || is_word(&self.secret) && self.secret.len() < SHORTEST_WORD {
            return None;
        }
        let bytes = text.as_bytes();
        // What is skipped before a key belongs to its first character, or a lone backslash would be left.
        let may_begin = |at: usize| {
            (bytes[at] == key[0] || matches!(bytes[at], b'%' | b'&') || is_skipped(bytes[at]))
                && (at == 0 || !is_skipped(bytes[at - 1]))
        };
        (0..bytes.len())
            .filter(|&begin| may_begin(begin))
            .find_map(|begin| end_of(&key, bytes, begin).map(|end| (begin, end)))
    }
}

/// Whether `secret` is a word rather than a key: letters of one case, with `-` and `_` between.
fn is_word(secret: &str) -> bool {
    let is_in_word = |c: char| c.is_ascii_alphabetic() || matches!(c, '-' | '_');
    let has = |kind: fn(&char) -> bool| secret.chars().any(|c| kind(&c));
    secret.chars().all(is_in_word) && !(has(char::is_ascii_lowercase) && has(char::is_ascii_uppercase))
}

/// Backslashes, and what stands between letters in texts of two bytes a letter.
fn is_skipped(byte: u8) -> bool {
    matches!(byte, b'\\' | 0)
}

/// Where `key` ends in `bytes` if it begins at `at`, each character in any spelling.
fn end_of(key: &[u8], bytes: &[u8], mut at: usize) -> Option<usize> {
    let Some((&wanted, rest)) = key.split_first() else { return Some(at) };
    let (mut is_after_backslash, mut skipped_escapes) = (false, 0);
    loop {
        let byte = *bytes.get(at)?;
        if is_skipped(byte) {
            (at, is_after_backslash) = (at + 1, true);
            continue;
        }
        if byte == wanted
            && let Some(end) = end_of(rest, bytes, at + 1)
        {
            return Some(end);
        }
        match escaped(&bytes[at..], is_after_backslash) {
            Some((found, length)) if found == wanted => return end_of(rest, bytes, at + length),
            // No writer puts many in a row, and whoever sends nothing else must not keep us busy.
            Some((found, length)) if is_skipped(found) && skipped_escapes < 16 => {
                (at, is_after_backslash, skipped_escapes) = (at + length, true, skipped_escapes + 1);
            }
            _ => return None,
        }
    }
}

/// The character that an escape at the beginning of `bytes` stands for, and the length of the escape.
fn escaped(bytes: &[u8], is_after_backslash: bool) -> Option<(u8, usize)> {
    let number = |digits: &[u8], radix: u32| {
        let is_number = !digits.is_empty() && digits.iter().all(|digit| char::from(*digit).is_digit(radix));
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
        u8::from_str_radix(digits.trim_start_matches('0'), radix).ok()
    };
    match bytes {
        [b'u', rest @ ..] if is_after_backslash => Some((number(rest.get(..4)?, 16)?, 5)),
        [b'%', rest @ ..] => Some((number(rest.get(..2)?, 16)?, 3)),
        [b'&', b'#', rest @ ..] => {
            // No character that a key can hold has more digits, with a few zeros before them.
            let length = rest.iter().take(8).position(|&byte| byte == b';')?;
            let found = match &rest[..length] {
                [b'x' | b'X', digits @ ..] => number(digits, 16)?,
                digits => number(digits, 10)?,
            };
            Some((found, length + 3))
        }
        _ => None,
    }
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
    fn every_spelling_of_a_key_is_hidden() {
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
        for spelling in [
            r"sk-a\u002Bb/0123456789",
            r"\u0073k\u002da\u002bb\u002F0123456789",
            r"sk-a\\u002Bb\\/0123456789",
            r"sk-a\u005Cu002Bb\u002F0123456789",
            "sk-a%2Bb%2f0123456789",
            "sk-a&#43;b&#x2F;0123456789",
            "s\0k\0-\0a\0+\0b\0/\x000\x001\x002\x003\x004\x005\x006\x007\x008\x009",
        ] {
            assert_eq!(key.redact(&format!("my {spelling}, ä")), "my [K], ä", "{spelling}");
        }
        let json = r#"{"message": "line\n\u0073k-a\u002Bb\/0123456789\\"}"#;
        let shown: serde_json::Value = serde_json::from_str(&key.redact(json)).unwrap();
        assert_eq!(shown["message"], "line\n[K]\\");
        for other in [r"sk-a\u002Cb/0123456789", "sk-au002Bb/0123456789", "sk-a%2", "sk-a&#43", r"sk-a\u00"] {
            assert_eq!(key.redact(other), other);
        }
    }

    /// `text` as a JSON string, with characters of `escapable` as numbers where a bit of `escapes` says so.
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
        /// However often it is written as JSON, and with whatever escapes: the key is in nothing that can be read out of
        /// the text, and JSON stays JSON.
        #[test]
        fn no_reader_finds_the_key(
            secret in "[!-~]{0,20}[0-9!]{6}", before in ".*", after in ".*", escapes: u32,
            outer in prop::collection::vec(any::<u32>(), 0..3),
        ) {
            let key = ApiKey::new("K", &secret).unwrap();
            let text = written(&format!("{before}{secret}{after}"), escapes, |c| c.is_ascii_graphic());
            // Letters within an escape are never escaped themselves.
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
