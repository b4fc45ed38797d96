//! The credential of an endpoint, which is sent and never shown.

use std::fmt;

use crate::error::LlmError;

/// Words such as `none` or `ollama`, which servers without keys are given, are not taken out of texts.
const SHORTEST_SECRET: usize = 12;

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
    /// [`LlmError::Key`] where the variable is not set, is empty, or holds what no HTTP header can carry.
    pub fn from_environment(variable: &str) -> Result<Self, LlmError> {
        let value = std::env::var(variable).map_err(|_| LlmError::Key {
            variable: variable.to_owned(),
            problem: "is not set, or is not UTF-8".to_owned(),
        })?;
        Self::new(variable, &value)
    }

    /// A key from elsewhere; `variable` is the name that errors give it.
    ///
    /// # Errors
    /// [`LlmError::Key`] where the key is empty, or holds what no HTTP header can carry.
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

    /// Where the key begins and ends in `text`. Backslashes do not count, as JSON writers put them before `"`, `\` and
    /// `/`, and writers of JSON inside of JSON put more. A key shorter than [`SHORTEST_SECRET`] is found nowhere.
    fn find(&self, text: &str) -> Option<(usize, usize)> {
        let key: Vec<u8> = self.secret.bytes().filter(|&byte| byte != b'\\').collect();
        let first = *key.first().filter(|_| key.len() >= SHORTEST_SECRET)?;
        let bytes = text.as_bytes();
        (0..bytes.len()).filter(|&begin| bytes[begin] == first).find_map(|begin| {
            let mut rest = bytes.iter().enumerate().skip(begin).filter(|(_, byte)| **byte != b'\\');
            let mut end = begin;
            for wanted in &key {
                let (at, _) = rest.next().filter(|(_, byte)| *byte == wanted)?;
                end = at + 1;
            }
            Some((begin, end))
        })
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
    fn a_word_in_the_place_of_a_key_stays_in_texts() {
        let key = ApiKey::new("K", "ollama").unwrap();
        assert_eq!(key.redact("ollama"), "ollama");
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
}
