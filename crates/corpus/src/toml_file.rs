//! Files that people write in TOML: plans, recipes, guidelines. Mistakes are reported with their lines.

use std::fmt;

use quarry_text::plain_message;
use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub line: usize,
    /// The finding and the expectation, without the line itself, which may hold a secret.
    pub problem: String,
}

/// As after the name of a file: `3: unknown field`.
impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.line, self.problem)
    }
}

/// Parses the text of a file.
///
/// # Errors
/// When it is not TOML, or does not fit `T`. The error suggests a known name for an unknown one.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Mistake> {
    toml::from_str(text).map_err(|error| Mistake {
        line: quarry_files::line_of(text.as_bytes(), error.span().map_or(0, |span| span.start)),
        problem: plain_message(error.message()),
    })
}

/// A segment of the path to an entry.
#[derive(Debug, Clone, Copy)]
pub enum At {
    /// A key of a table.
    Key(&'static str),
    /// A 0-based index in an array.
    Item(usize),
}

/// The 1-based line of an entry, or of its innermost ancestor that exists.
pub fn line_of(text: &str, path: &[At]) -> usize {
    let Ok(document) = DeTable::parse(text) else { return 1 };
    let mut begin = 0;
    let mut value: Option<&DeValue<'_>> = None;
    for at in path {
        let table = match value {
            None => Some(document.get_ref()),
            Some(value) => value.as_table(),
        };
        let next = match at {
            Key(key) => table.and_then(|table| {
                table
                    .iter()
                    .find(|(name, _)| name.get_ref() == key)
                    .map(|(name, value)| (name.span().start, value))
            }),
            Item(number) => {
                let items = value.and_then(DeValue::as_array);
                items.and_then(|items| items.get(*number)).map(|item| (item.span().start, item))
            }
        };
        let Some((start, found)) = next else { break };
        begin = start;
        value = Some(found.get_ref());
    }
    quarry_files::line_of(text.as_bytes(), begin)
}

use At::{Item, Key};

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        judge: Option<String>,
        candidates: Option<Candidates>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Candidates {
        k: usize,
    }

    #[test]
    fn mistakes_have_a_line_and_a_suggestion() {
        let check = |text: &str, expected: &str| {
            assert_eq!(parse::<File>(text).unwrap_err().to_string(), expected);
        };
        check("# é\njuge = \"x\"\n", "2: unknown field `juge`; did you mean `judge`?");
        check("[candidates]\n\nkk = 3\n", "3: unknown field `kk`; did you mean `k`?");
        check("[candidates]\nk = 'a'\n", "2: expected a whole number of 0 or more, found the string \"a\"");
        check("other = 1\n", "1: unknown field `other`, expected `judge` or `candidates`");
        assert_eq!(parse::<File>("\njudge = = 1\n").unwrap_err().line, 2);
        let file = File { judge: None, candidates: Some(Candidates { k: 3 }) };
        assert_eq!(parse::<File>("[candidates]\nk = 3\n"), Ok(file));
    }

    #[test]
    fn entries_are_found() {
        let text = "a = 1\n[b]\nc = [\n 1,\n 2]\n[[d]]\ne = 1\n[[d]]\ne = 2\nf = 3\n";
        for (path, line) in [
            (&[Key("a")][..], 1),
            (&[Key("b"), Key("c")], 3),
            (&[Key("b"), Key("c"), Item(1)], 5),
            (&[Key("b"), Key("x")], 2),
            (&[Key("d"), Item(0), Key("e")], 7),
            (&[Key("d"), Item(1), Key("f")], 10),
            (&[Key("d"), Item(1), Key("x")], 8),
            (&[], 1),
        ] {
            assert_eq!(line_of(text, path), line, "{path:?}");
        }
    }
}
