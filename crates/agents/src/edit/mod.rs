//! Inserting something into a text of settings and removing it again, leaving everything else unchanged.

mod block;
mod json;
mod toml;
mod yaml;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Problem;

/// The name of an entry.
pub(crate) const NAME: &str = "quarry";

/// Why an edit is refused: it would change the meaning of the rest of a text.
const UNSAFE: &str = "it is written in a way that cannot be edited safely";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// An entry called `quarry`.
    Entry {
        format: Format,
        /// The names of the tables around it, outermost first.
        at: Vec<String>,
        value: Value,
    },
    /// An element of a list in a JSON file; the only one there that mentions Quarry.
    Element {
        at: Vec<String>,
        value: Value,
    },
    /// An item of a list in a YAML file.
    Item {
        at: String,
        value: String,
    },
    /// A marked block at the end of a Markdown file.
    Block {
        text: String,
    },
    File {
        text: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// JSON, with comments and trailing commas if the agent allows them.
    Json,
    Toml,
    Yaml,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    No,
    /// The very content.
    Same,
    /// Something else of that name.
    Other,
}

impl Content {
    /// Key that distinguishes the contents of one file.
    pub(crate) fn slot(&self) -> String {
        match self {
            Self::Entry { at, .. } => format!("entry {}", at.join("\0")),
            Self::Element { at, .. } => format!("element {}", at.join("\0")),
            Self::Item { at, value } => format!("item {at}\0{value}"),
            Self::Block { .. } => "block".to_owned(),
            Self::File { .. } => "file".to_owned(),
        }
    }

    /// State of this content in a text.
    pub(crate) fn presence(&self, text: &str) -> Result<Presence, Problem> {
        let found = match self {
            Self::File { text: own } => Some(own == text),
            Self::Block { text: own } => {
                // Whatever its lines end with.
                block::find(text)?.map(|range| text[range].replace('\r', "") == block::lines(own, ""))
            }
            Self::Item { at, value } => yaml::has_item(text, at, value)?.map(|()| true),
            Self::Element { at, value } => {
                let whole = json::parse(text)?;
                let list = elements(&whole, at).unwrap_or_default();
                let is_own = list.contains(value);
                is_own.then_some(true).or_else(|| list.iter().any(mentions).then_some(false))
            }
            Self::Entry { format, at, value } => {
                let whole = format.parse(text)?;
                at.iter()
                    .try_fold(&whole, |table, name| table.get(name))
                    .and_then(|table| table.get(NAME).map(|found| found == value))
            }
        };
        Ok(match found {
            None => Presence::No,
            Some(true) => Presence::Same,
            Some(false) => Presence::Other,
        })
    }

    /// The text with this inserted. It contains nothing in its place before.
    pub(crate) fn insert(&self, text: &str) -> Result<String, Problem> {
        // Programs on Windows put it first; it is not part of what is edited.
        let (mark, text) = split_mark(text);
        let edited = match self {
            Self::File { text } => text.clone(),
            Self::Block { text: own } => block::insert(text, own),
            Self::Item { at, value } => yaml::insert_item(text, at, value)?,
            Self::Element { at, value } => {
                let edited = json::insert_element(text, at, value)?;
                let mut expected = json::parse(text)?;
                push(&mut expected, at, value.clone())
                    .ok_or("a name on the way to the list is not a table")?;
                check(Format::Json, &edited, &expected)?;
                edited
            }
            Self::Entry { format, at, value } => {
                let mut expected = format.parse(text)?;
                let edited = match format {
                    Format::Json => json::insert(text, at, value)?,
                    Format::Toml => toml::insert(text, at, value)?,
                    Format::Yaml => yaml::insert(text, at, value)?,
                };
                put(&mut expected, at, value.clone()).ok_or("a parent of the entry is not a table")?;
                check(*format, &edited, &expected)?;
                edited
            }
        };
        Ok(format!("{mark}{edited}"))
    }

    /// The text without this, which is in it; the last `n_made` tables around an entry are removed too if they contain
    /// nothing else.
    pub(crate) fn remove(&self, text: &str, n_made: usize) -> Result<String, Problem> {
        let (mark, text) = split_mark(text);
        let edited = match self {
            Self::File { .. } => String::new(),
            Self::Block { .. } => block::remove(text)?,
            Self::Item { at, value } => yaml::remove_item(text, at, value)?,
            Self::Element { at, value } => {
                let mut expected = json::parse(text)?;
                let list = elements(&expected, at).unwrap_or_default();
                let number =
                    list.iter().position(|element| element == value).ok_or("the element is not there")?;
                if let Some(list) = at.iter().try_fold(&mut expected, |table, name| table.get_mut(name)) {
                    list.as_array_mut().map(|list| list.remove(number));
                }
                let edited = json::remove_element(text, at, number)?;
                remove_empty_tables(Format::Json, edited, expected, at, n_made)?
            }
            Self::Entry { format, at, .. } => {
                let mut expected = format.parse(text)?;
                take(&mut expected, at);
                let edited = match format {
                    Format::Json => json::remove(text, at, NAME)?,
                    Format::Toml => toml::remove(text, at)?,
                    Format::Yaml => yaml::remove(text, at, NAME)?,
                };
                remove_empty_tables(*format, edited, expected, at, n_made)?
            }
        };
        Ok(format!("{mark}{edited}"))
    }

    /// Returns whether two texts have the same meaning, except for empty tables around an entry.
    pub(crate) fn is_equivalent(&self, a: &str, b: &str) -> bool {
        let (Self::Entry { at, .. } | Self::Element { at, .. }) = self else {
            return a.trim_end() == b.trim_end();
        };
        let format = self.format();
        match (format.parse(a), format.parse(b)) {
            (Ok(a), Ok(b)) => without_empty(a, at) == without_empty(b, at),
            _ => false,
        }
    }

    /// Number of the tables around an entry that are missing in a text.
    pub(crate) fn n_missing(&self, text: &str) -> usize {
        let (Self::Entry { at, .. } | Self::Element { at, .. }) = self else { return 0 };
        let Ok(whole) = self.format().parse(text) else { return 0 };
        let mut table = Some(&whole);
        at.iter()
            .filter(|name| {
                table = table.and_then(|table| table.get(name.as_str()));
                table.is_none()
            })
            .count()
    }

    /// Returns whether a text that was written only for this is now empty.
    pub(crate) fn is_nothing(&self, text: &str) -> bool {
        let text = split_mark(text).1;
        match self {
            Self::Entry { .. } | Self::Element { .. } | Self::Item { .. } => {
                self.format().parse(text).is_ok_and(|value| value.as_object().is_none_or(Map::is_empty))
            }
            Self::Block { .. } | Self::File { .. } => text.trim().is_empty(),
        }
    }

    /// The format of its file, if that holds settings.
    fn format(&self) -> Format {
        match self {
            Self::Entry { format, .. } => *format,
            Self::Item { .. } => Format::Yaml,
            Self::Element { .. } | Self::Block { .. } | Self::File { .. } => Format::Json,
        }
    }

    /// Text that a user would add manually.
    pub(crate) fn by_hand(&self) -> String {
        match self {
            Self::Entry { format: Format::Toml, at, value } => {
                toml::table(at, value, "\n").trim().replace('\n', " ")
            }
            Self::Entry { at, value, .. } => {
                let mut whole = Value::Object(Map::new());
                put(&mut whole, at, value.clone());
                whole.to_string()
            }
            Self::Element { at, value } => {
                let mut whole = Value::Object(Map::new());
                push(&mut whole, at, value.clone());
                whole.to_string()
            }
            Self::Item { at, value } => format!("{at}: [{value}]"),
            Self::Block { .. } | Self::File { .. } => {
                "the instructions that `quarry agent install --dry-run` shows".to_owned()
            }
        }
    }
}

impl Format {
    /// The meaning of a text; an empty object if it is empty.
    fn parse(self, text: &str) -> Result<Value, Problem> {
        let text = split_mark(text).1;
        match self {
            Self::Json => json::parse(text),
            Self::Toml => toml::parse(text),
            Self::Yaml => yaml::parse(text),
        }
    }
}

/// Checks that an edited text has the intended meaning, and no other change.
fn check(format: Format, edited: &str, expected: &Value) -> Result<(), Problem> {
    match format.parse(edited) {
        Ok(found) if found == *expected => Ok(()),
        _ => Err(UNSAFE.into()),
    }
}

/// An edited text without the last `n_made` tables around what was removed, if they are empty.
fn remove_empty_tables(
    format: Format,
    mut edited: String,
    expected: Value,
    at: &[String],
    n_made: usize,
) -> Result<String, Problem> {
    // An empty table is null in YAML, and missing in TOML.
    let expected = without_empty(expected, at);
    let mut found = format.parse(&edited)?;
    if without_empty(found.clone(), at) != expected {
        return Err(UNSAFE.into());
    }
    for n_outer in (0..at.len()).rev().take(n_made) {
        let (outer, name) = (&at[..n_outer], &at[n_outer]);
        let around = outer.iter().try_fold(&found, |table, name| table.get(name));
        if !around.and_then(|table| table.get(name)).is_some_and(is_empty) {
            break;
        }
        edited = match format {
            Format::Json => json::remove(&edited, outer, name)?,
            Format::Yaml => yaml::remove(&edited, outer, name)?,
            Format::Toml => edited,
        };
        found = format.parse(&edited)?;
    }
    Ok(edited)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(table) => table.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn elements<'v>(whole: &'v Value, at: &[String]) -> Option<&'v [Value]> {
    let list = at.iter().try_fold(whole, |table, name| table.get(name))?;
    list.as_array().map(Vec::as_slice)
}

/// Returns whether a text in a value mentions Quarry.
fn mentions(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(NAME),
        Value::Array(items) => items.iter().any(mentions),
        Value::Object(object) => object.values().any(mentions),
        _ => false,
    }
}

/// Appends an element to a list. `None` if one of the names is something other than a table or the list.
fn push(whole: &mut Value, at: &[String], value: Value) -> Option<()> {
    let (list, outer) = at.split_last()?;
    let mut table = whole;
    for name in outer {
        table = table.as_object_mut()?.entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
    let list = table.as_object_mut()?.entry(list).or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut()?.push(value);
    Some(())
}

/// Inserts the entry where it belongs. `None` if one of the names is something other than a table.
fn put(whole: &mut Value, at: &[String], value: Value) -> Option<()> {
    let mut table = whole;
    for name in at {
        table = table.as_object_mut()?.entry(name).or_insert_with(|| Value::Object(Map::new()));
        // A name without a value, in YAML.
        if table.is_null() {
            *table = Value::Object(Map::new());
        }
    }
    table.as_object_mut()?.insert(NAME.to_owned(), value);
    Some(())
}

/// Takes the entry out.
fn take(whole: &mut Value, at: &[String]) {
    let mut table = Some(whole);
    for name in at {
        table = table.and_then(|table| table.get_mut(name));
    }
    if let Some(table) = table.and_then(Value::as_object_mut) {
        table.remove(NAME);
    }
}

/// A value without empty tables along a path.
fn without_empty(mut value: Value, at: &[String]) -> Value {
    for (n_outer, name) in at.iter().enumerate().rev() {
        let outer = at[..n_outer].iter().try_fold(&mut value, |table, name| table.get_mut(name));
        let Some(outer) = outer.and_then(Value::as_object_mut) else { continue };
        if outer.get(name).is_some_and(is_empty) {
            outer.remove(name);
        }
    }
    value
}

fn split_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    }
}

fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// The white space at the beginning of the line of a position.
fn indentation(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = &text[line..at];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

#[cfg(test)]
mod tests;
