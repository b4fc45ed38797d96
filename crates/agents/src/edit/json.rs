//! JSON, with comments and trailing commas.

use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::cst::{CstArray, CstInputValue, CstRootNode};
use jsonc_parser::errors::ParseError;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast, parse_to_serde_value};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use super::{NAME, indentation, line_end};
use crate::Problem;

/// Indentation of one level if the text has no example.
const INDENTATION: &str = "  ";

pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    let value: Option<Value> = parse_to_serde_value(text, &OPTIONS).map_err(|error| invalid(&error))?;
    Ok(value.unwrap_or_else(|| Value::Object(Map::new())))
}

/// The syntax that agents read: JSON, with comments and trailing commas, and nothing else.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
};

fn invalid(error: &ParseError) -> Problem {
    Problem::on_line(error.line_display(), format!("not valid JSON: {}", error.kind()))
}

/// Calls `edit` with the outermost object, if there is one.
fn with_root<T>(
    text: &str,
    edit: impl FnOnce(Option<&Object<'_>>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS);
    match parsed.map_err(|error| invalid(&error))?.value {
        None => edit(None),
        Some(Node::Object(object)) => edit(Some(&object)),
        Some(_) => Err(Problem::on_line(1, "expected an object")),
    }
}

/// The value of a name, which must not occur twice.
fn property<'o, 't>(
    text: &str,
    object: &'o Object<'t>,
    name: &str,
) -> Result<Option<&'o ObjectProp<'t>>, Problem> {
    let mut found = object.properties.iter().filter(|property| property.name.as_str() == name);
    match (found.next(), found.next()) {
        (_, Some(second)) => {
            Err(Problem::at(text, second.start(), format!("{name:?} occurs twice: keep one of them")))
        }
        (found, None) => Ok(found),
    }
}

fn object<'o, 't>(text: &str, property: &'o ObjectProp<'t>) -> Result<&'o Object<'t>, Problem> {
    match &property.value {
        Node::Object(object) => Ok(object),
        _ => {
            let words = format!("{:?} is not an object", property.name.as_str());
            Err(Problem::at(text, property.start(), words))
        }
    }
}

pub(super) fn insert(text: &str, at: &[String], value: &Value) -> Result<String, Problem> {
    with_root(text, |root| {
        let Some(mut inner) = root else {
            let whole = nested(at, value);
            let line_end = line_end(text);
            let separator = if text.is_empty() || text.ends_with('\n') { "" } else { line_end };
            return Ok(format!("{text}{separator}{}{line_end}", pretty(&whole, INDENTATION, "", line_end)));
        };
        let mut missing = at;
        while let [name, rest @ ..] = missing {
            let Some(property) = property(text, inner, name)? else { break };
            inner = object(text, property)?;
            missing = rest;
        }
        let unit = unit(text, root);
        Ok(match missing {
            [] => insert_property(text, inner, NAME, value, unit),
            [name, rest @ ..] => insert_property(text, inner, name, &nested(rest, value), unit),
        })
    })
}

/// The entry within new tables.
fn nested(at: &[String], value: &Value) -> Value {
    let innermost = Map::from_iter([(NAME.to_owned(), value.clone())]);
    at.iter()
        .rev()
        .fold(Value::Object(innermost), |inner, name| Value::Object(Map::from_iter([(name.clone(), inner)])))
}

/// The indentation of one level.
fn unit<'t>(text: &'t str, root: Option<&Object<'_>>) -> &'t str {
    let first = root.and_then(|root| root.properties.first());
    let indented = first.map(|first| indentation(text, first.start())).filter(|white| !white.is_empty());
    indented.unwrap_or(INDENTATION)
}

fn insert_property(text: &str, object: &Object<'_>, name: &str, value: &Value, unit: &str) -> String {
    let line_end = line_end(text);
    let is_one_line = !text[object.range.start..object.range.end].contains('\n');
    let named = |value: String| format!("{}: {value}", Value::from(name));
    match object.properties.last() {
        Some(last) if is_one_line => {
            let (comma, after) = tail(text, last.end(), object.range.end - 1);
            let entry = named(value.to_string());
            match comma {
                None => splice(text, after, &format!(", {entry}")),
                Some(_) => splice(text, after, &format!(" {entry},")),
            }
        }
        Some(last) => {
            let (comma, after) = tail(text, last.end(), object.range.end - 1);
            let outer = indentation(text, object.properties.first().unwrap_or(last).start());
            let entry = named(pretty(value, unit, outer, line_end));
            let comma_behind = if comma.is_some() { "," } else { "" };
            let edited = splice(text, after, &format!("{line_end}{outer}{entry}{comma_behind}"));
            if comma.is_some() { edited } else { splice(&edited, last.end(), ",") }
        }
        None => {
            let outer = indentation(text, object.range.start);
            let inner = format!("{outer}{unit}");
            let entry = format!("{line_end}{inner}{}", named(pretty(value, unit, &inner, line_end)));
            // A comment between the braces, and a line that ends before the second one, stay.
            let end = object.range.end - 1;
            let between = &text[object.range.start + 1..end];
            let white = between.trim_end_matches([' ', '\t', '\r', '\n']);
            let at = object.range.start + 1 + white.len();
            let closing =
                if text[at..end].contains('\n') { String::new() } else { format!("{line_end}{outer}") };
            splice(text, at, &format!("{entry}{closing}"))
        }
    }
}

/// After a property: the position of its comma, if it has one, and the end of what belongs to its line.
fn tail(text: &str, from: usize, end: usize) -> (Option<usize>, usize) {
    let (mut at, mut comma, mut after) = (from, None, from);
    while at < end {
        let rest = &text[at..end];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |close| close + 2)
        } else if rest.starts_with(',') && comma.is_none() {
            comma = Some(at);
            1
        } else if rest.starts_with([' ', '\t', '\r']) {
            at += 1;
            continue;
        } else {
            // The end of the line, unless the comma is on another one.
            let is_before_comma = comma.is_none() && next_is_comma(rest);
            if !is_before_comma {
                break;
            }
            at += 1;
            continue;
        };
        at += length;
        after = at;
    }
    // The end of a line with a comment may be of two characters.
    (comma, from + text[from..after].trim_end_matches('\r').len())
}

/// Returns whether white space and comments lead to a comma.
fn next_is_comma(text: &str) -> bool {
    let mut rest = text.trim_start();
    loop {
        rest = if let Some(comment) = rest.strip_prefix("//") {
            comment.split_once('\n').map_or("", |(_, rest)| rest).trim_start()
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, rest)| rest).trim_start()
        } else {
            return rest.starts_with(',');
        };
    }
}

fn splice(text: &str, at: usize, inserted: &str) -> String {
    format!("{}{inserted}{}", &text[..at], &text[at..])
}

fn pretty(value: &Value, unit: &str, outer: &str, line_end: &str) -> String {
    let mut bytes = Vec::new();
    let formatter = PrettyFormatter::with_indent(unit.as_bytes());
    // A value has only texts as names, and a vector takes all bytes.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter));
    String::from_utf8_lossy(&bytes).replace('\n', &format!("{line_end}{outer}"))
}

pub(super) fn remove(text: &str, at: &[String], name: &str) -> Result<String, Problem> {
    with_root(text, |root| {
        let mut inner = root.ok_or("it is empty")?;
        for name in at {
            inner = object(text, property(text, inner, name)?.ok_or("the entry is missing")?)?;
        }
        let own = property(text, inner, name)?.ok_or("the entry is missing")?;
        let number =
            inner.properties.iter().position(|property| property.start() == own.start()).unwrap_or_default();
        let previous = number.checked_sub(1).map(|number| &inner.properties[number]);
        let end = inner.range.end - 1;
        let (comma, _) = tail(text, own.end(), end);
        let white =
            |at: usize| at - (text[..at].len() - text[..at].trim_end_matches([' ', '\t', '\r', '\n']).len());
        let (from, to) = match (previous, comma) {
            // Up to the next one, which takes its place.
            (_, Some(comma)) if number + 1 < inner.properties.len() => {
                let rest = &text[comma + 1..end];
                (own.start(), comma + 1 + (rest.len() - rest.trim_start().len()))
            }
            // The last one, with a comma behind it as all have.
            (_, Some(comma)) => (white(own.start()), comma + 1),
            (None, None) => (white(own.start()), own.end()),
            (Some(previous), None) => {
                let edited = format!("{}{}", &text[..white(own.start())], &text[own.end()..]);
                let (comma, _) = tail(text, previous.end(), own.start());
                return Ok(match comma {
                    Some(comma) => format!("{}{}", &edited[..comma], &edited[comma + 1..]),
                    None => edited,
                });
            }
        };
        Ok(format!("{}{}", &text[..from], &text[to..]))
    })
}

/// The text with an element at the end of a list.
pub(super) fn insert_element(text: &str, at: &[String], value: &Value) -> Result<String, Problem> {
    let root = CstRootNode::parse(text, &OPTIONS).map_err(|error| invalid(&error))?;
    list(&root, at).ok_or("the list, or a table on the way to it, is something else")?.append(input(value));
    Ok(root.to_string())
}

/// The text without an element of a list.
pub(super) fn remove_element(text: &str, at: &[String], number: usize) -> Result<String, Problem> {
    let root = CstRootNode::parse(text, &OPTIONS).map_err(|error| invalid(&error))?;
    let elements = list(&root, at).map(|list| list.elements()).unwrap_or_default();
    elements.into_iter().nth(number).ok_or("the element is not there")?.remove();
    Ok(root.to_string())
}

/// A list, which is made if it is missing. None where it or a table on the way is something else.
fn list(root: &CstRootNode, at: &[String]) -> Option<CstArray> {
    let (list, outer) = at.split_last()?;
    let table = root.object_value_or_create()?;
    let table = outer.iter().try_fold(table, |table, name| table.object_value_or_create(name))?;
    table.array_value_or_create(list)
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(object) => {
            CstInputValue::Object(object.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}
