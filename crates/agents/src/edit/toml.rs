//! TOML.

use serde_json::{Map, Value};

use super::{NAME, line_end};
use crate::Problem;

pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    let invalid = |error: toml::de::Error| {
        let position = error.span().map_or(0, |span| span.start);
        Problem::at(text, position, format!("not valid TOML: {}", error.message()))
    };
    let table: toml::Table = text.parse().map_err(invalid)?;
    serde_json::to_value(table).map_err(|error| error.to_string().into())
}

/// The text with the table of the entry at its end.
pub(super) fn insert(text: &str, at: &[String], value: &Value) -> Result<String, Problem> {
    let line_end = line_end(text);
    let between = match text {
        "" => String::new(),
        text if text.ends_with('\n') => line_end.to_owned(),
        _ => line_end.repeat(2),
    };
    Ok(format!("{text}{between}{}", table(at, value, line_end)))
}

pub(super) fn table(at: &[String], value: &Value, line_end: &str) -> String {
    let names: Vec<String> = at.iter().map(String::as_str).chain([NAME]).map(key).collect();
    let mut text = format!("[{}]{line_end}", names.join("."));
    let entries = value.as_object().into_iter().flatten();
    for (name, value) in entries {
        text.push_str(&format!("{} = {}{line_end}", key(name), inline(value)));
    }
    text
}

fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        Value::from(name).to_string()
    }
}

/// A value on one line. (JSON strings are TOML strings.)
fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Object(object) => {
            let fields: Vec<String> =
                object.iter().map(|(name, value)| format!("{} = {}", key(name), inline(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// The text without the lines of the entry's table, from its header to the next one.
pub(super) fn remove(text: &str, at: &[String]) -> Result<String, Problem> {
    let header = table(at, &Value::Object(Map::new()), "");
    let is_header = |line: &str| line.split_once('#').map_or(line, |(line, _)| line).trim() == header;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let begin = lines.iter().position(|line| is_header(line)).ok_or("the entry's table is missing")?;
    let next = lines[begin + 1..].iter().position(|line| line.trim_start().starts_with('['));
    let end = next.map_or(lines.len(), |next| begin + 1 + next);
    // Comments before the next table are its own.
    let is_own = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let end = lines[..end].iter().rposition(is_own).map_or(begin + 1, |last| last + 1);
    let before = lines[..begin].concat();
    let before = match before.strip_suffix("\r\n").or_else(|| before.strip_suffix('\n')) {
        // The empty line before the header.
        Some(shorter) if shorter.ends_with('\n') || shorter.is_empty() => shorter,
        _ => &before,
    };
    Ok(format!("{before}{}", lines[end..].concat()))
}
