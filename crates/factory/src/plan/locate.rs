//! Finding the line of an entry in a TOML file.

use toml::de::{DeTable, DeValue};

/// A segment of the path to an entry.
#[derive(Debug, Clone, Copy)]
pub(super) enum At {
    /// A key of a table.
    Key(&'static str),
    /// A 0-based index in an array.
    Item(usize),
}

/// The 1-based line of an entry, or of its innermost ancestor that exists.
pub(super) fn line_of(text: &str, path: &[At]) -> usize {
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
    1 + text[..begin].matches('\n').count()
}

use At::{Item, Key};

#[cfg(test)]
mod tests {
    use super::*;

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
