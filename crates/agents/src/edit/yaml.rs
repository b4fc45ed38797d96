//! YAML: one document, a mapping.

use std::ops::Range;

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};
use serde_json::{Map, Value};

use super::{NAME, UNSAFE, line_end};
use crate::Problem;

type Node<'t> = MarkedYaml<'t>;

pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    with_root(text, |root| root.map_or_else(|| Ok(Value::Object(Map::new())), value_of))
}

/// Calls `edit` with the outermost mapping, if there is one.
fn with_root<T>(
    text: &str,
    edit: impl FnOnce(Option<&Node<'_>>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let documents = Node::load_from_str(text).map_err(|error| {
        Problem::on_line(error.marker().line(), format!("not valid YAML: {}", error.info()))
    })?;
    match documents.as_slice() {
        [] => edit(None),
        [only] if matches!(only.data, YamlData::Value(Scalar::Null)) => edit(None),
        [only] if matches!(only.data, YamlData::Mapping(_)) => edit(Some(only)),
        [_] => Err(Problem::on_line(1, "expected a mapping")),
        [_, second, ..] => {
            Err(Problem::on_line(second.span.start.line(), "expected one document, found a second one here"))
        }
    }
}

/// The meaning of a node, for comparisons.
fn value_of(node: &Node<'_>) -> Result<Value, Problem> {
    Ok(match &node.data {
        YamlData::Value(Scalar::Null) => Value::Null,
        YamlData::Value(Scalar::Boolean(is)) => Value::Bool(*is),
        YamlData::Value(Scalar::Integer(number)) => (*number).into(),
        YamlData::Value(Scalar::FloatingPoint(number)) => number.into_inner().into(),
        YamlData::Value(Scalar::String(text)) => Value::String(text.to_string()),
        YamlData::Sequence(items) => items.iter().map(value_of).collect::<Result<Vec<_>, _>>()?.into(),
        YamlData::Mapping(mapping) => {
            let field = |(name, value): (&Node<'_>, &Node<'_>)| {
                let name = match value_of(name)? {
                    Value::String(name) => name,
                    other => format!("({other})"),
                };
                Ok((name, value_of(value)?))
            };
            Value::Object(mapping.iter().map(field).collect::<Result<_, Problem>>()?)
        }
        YamlData::Tagged(tag, inner) => {
            Value::Array(vec![format!("!{}{}", tag.handle, tag.suffix).into(), value_of(inner)?])
        }
        YamlData::Representation(..) | YamlData::Alias(_) | YamlData::BadValue => {
            return Err(Problem::on_line(node.span.start.line(), "a value that cannot be read"));
        }
    })
}

fn field<'n, 't>(mapping: &'n Node<'t>, name: &str) -> Option<(&'n Node<'t>, &'n Node<'t>)> {
    let YamlData::Mapping(mapping) = &mapping.data else { return None };
    mapping.iter().find(|(key, _)| matches!(&key.data, YamlData::Value(Scalar::String(text)) if text == name))
}

/// The bytes of a node. (Its own positions count characters.)
fn range(text: &str, node: &Node<'_>) -> Range<usize> {
    let byte = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(byte, _)| byte);
    byte(node.span.start.index())..byte(node.span.end.index())
}

fn line_begin(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// The position after the line of a position.
fn line_behind(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

pub(super) fn insert(text: &str, at: &[String], value: &Value) -> Result<String, Problem> {
    let [name] = at else { return Err("it is nested too deeply to be edited".into()) };
    let line_end = line_end(text);
    with_root(text, |root| {
        let Some((key, list)) = root.and_then(|root| field(root, name)) else {
            let block = format!("{}:{line_end}{}", scalar(name), lines(NAME, value, "  ", line_end));
            return append(text, root, &block);
        };
        let span = range(text, list);
        match &list.data {
            YamlData::Value(Scalar::Null) if text[span.clone()].trim().is_empty() => {
                let at = line_behind(text, range(text, key).end);
                Ok(insert_lines(text, at, &lines(NAME, value, "  ", line_end)))
            }
            YamlData::Mapping(_) if text[span.start..].starts_with('{') => {
                let comma = if text[span.start + 1..].trim_start().starts_with('}') { "" } else { ", " };
                let entry = format!("{}: {value}{comma}", Value::from(NAME));
                Ok(format!("{}{entry}{}", &text[..=span.start], &text[span.start + 1..]))
            }
            YamlData::Mapping(mapping) => {
                let first = mapping.keys().next().ok_or("it has an empty mapping")?;
                let at = line_begin(text, range(text, first).start);
                let indentation = " ".repeat(first.span.start.col());
                Ok(insert_lines(text, at, &lines(NAME, value, &indentation, line_end)))
            }
            _ => Err(Problem::on_line(key.span.start.line(), format!("`{name}` is not a mapping"))),
        }
    })
}

/// Adds a field at the end of the outermost mapping.
fn append(text: &str, root: Option<&Node<'_>>, block: &str) -> Result<String, Problem> {
    if let Some(root) = root {
        let is_flow = text[range(text, root).start..].starts_with('{');
        if is_flow || root.span.start.col() > 0 {
            return Err("its outermost mapping is in braces, or indented".into());
        }
    }
    if text.lines().any(|line| line.trim_end() == "...") {
        return Err("its document ends before the end of the file".into());
    }
    Ok(insert_lines(text, text.len(), block))
}

/// Inserts lines at the beginning of a line, or at the end of the text.
fn insert_lines(text: &str, at: usize, lines: &str) -> String {
    let separator = if at == 0 || text[..at].ends_with('\n') { "" } else { line_end(text) };
    format!("{}{separator}{lines}{}", &text[..at], &text[at..])
}

/// A field as lines.
fn lines(name: &str, value: &Value, indentation: &str, line_end: &str) -> String {
    let name = scalar(name);
    let one = |value: &Value| match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    };
    match value {
        Value::Object(object) if !object.is_empty() => {
            let inner = format!("{indentation}  ");
            let fields = object.iter().map(|(name, value)| lines(name, value, &inner, line_end));
            format!("{indentation}{name}:{line_end}{}", fields.collect::<String>())
        }
        Value::Array(items) if !items.is_empty() => {
            let items = items.iter().map(|item| format!("{indentation}  - {}{line_end}", one(item)));
            format!("{indentation}{name}:{line_end}{}", items.collect::<String>())
        }
        other => format!("{indentation}{name}: {}{line_end}", one(other)),
    }
}

/// A string, quoted if it would mean something else without quotes.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./ -".contains(c);
    let is_same = || {
        let read = Node::load_from_str(text);
        read.is_ok_and(|read| matches!(read.as_slice(), [Node { data: YamlData::Value(Scalar::String(read)), .. }] if *read == text))
    };
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.' || c == '/');
    if starts_well && text.chars().all(is_plain) && is_same() {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

/// Removes a field of a block mapping, with its lines.
pub(super) fn remove(text: &str, at: &[String], name: &str) -> Result<String, Problem> {
    with_root(text, |root| {
        let mut inner = root.ok_or("it is empty")?;
        for name in at {
            inner = field(inner, name).ok_or("the entry is missing")?.1;
        }
        let (key, _) = field(inner, name).ok_or("the entry is missing")?;
        remove_lines(text, range(text, key).start, key.span.start.col())
    })
}

/// The text without the line of a position and the lines below it that are indented more than `column`.
fn remove_lines(text: &str, at: usize, column: usize) -> Result<String, Problem> {
    let begin = line_begin(text, at);
    if !text[begin..at].trim_matches([' ', '-']).is_empty() {
        return Err("the line of the entry also contains something else".into());
    }
    let mut end = line_behind(text, at);
    let mut next = end;
    for line in text[end..].split_inclusive('\n') {
        next += line.len();
        let content = line.trim_start_matches(' ');
        if content.trim().is_empty() {
            continue;
        }
        if line.len() - content.len() <= column {
            break;
        }
        end = next;
    }
    Ok(format!("{}{}", &text[..begin], &text[end..]))
}

pub(super) fn has_item(text: &str, at: &str, item: &str) -> Result<Option<()>, Problem> {
    let is_item =
        |node: &Node<'_>| matches!(&node.data, YamlData::Value(Scalar::String(text)) if text == item);
    with_root(text, |root| {
        let list = root.and_then(|root| field(root, at)).map(|(_, list)| list);
        let has = list.is_some_and(|list| match &list.data {
            YamlData::Sequence(items) => items.iter().any(is_item),
            _ => is_item(list),
        });
        Ok(has.then_some(()))
    })
}

pub(super) fn insert_item(text: &str, at: &str, item: &str) -> Result<String, Problem> {
    let line_end = line_end(text);
    let own = scalar(item);
    let (edited, mut expected) = with_root(text, |root| {
        let before = root.map_or_else(|| Ok(Value::Object(Map::new())), value_of)?;
        let Some((key, list)) = root.and_then(|root| field(root, at)) else {
            let block = format!("{}:{line_end}  - {own}{line_end}", scalar(at));
            return Ok((append(text, root, &block)?, before));
        };
        let span = range(text, list);
        let edited = match &list.data {
            YamlData::Value(Scalar::Null) if text[span.clone()].trim().is_empty() => {
                let behind = line_behind(text, range(text, key).end);
                insert_lines(text, behind, &format!("  - {own}{line_end}"))
            }
            YamlData::Value(Scalar::String(_)) if !text[span.clone()].contains('\n') => {
                format!("{}[{}, {own}]{}", &text[..span.start], &text[span.clone()], &text[span.end..])
            }
            YamlData::Sequence(_) if text[span.start..].starts_with('[') => {
                let comma = if text[span.start + 1..].trim_start().starts_with(']') { "" } else { ", " };
                format!("{}{own}{comma}{}", &text[..=span.start], &text[span.start + 1..])
            }
            YamlData::Sequence(items) => {
                let first = range(text, items.first().ok_or("it has an empty list")?).start;
                let begin = line_begin(text, first);
                let indentation = super::indentation(text, first);
                insert_lines(text, begin, &format!("{indentation}- {own}{line_end}"))
            }
            _ => return Err(Problem::on_line(key.span.start.line(), format!("`{at}` is not a list"))),
        };
        Ok((edited, before))
    })?;
    // In any order: what matters is that nothing else changed.
    let list = expected.as_object_mut().map(|object| object.entry(at).or_insert(Value::Null));
    let found = parse(&edited)?;
    let mut items = items_of(list.as_deref());
    items.push(item.to_owned());
    items.sort();
    let mut found_items = items_of(found.get(at));
    found_items.sort();
    let rest = |value: &Value| {
        let mut value = value.clone();
        value.as_object_mut().map(|object| object.remove(at));
        value
    };
    if items == found_items && rest(&expected) == rest(&found) { Ok(edited) } else { Err(UNSAFE.into()) }
}

/// The texts of a list, or of a single value.
fn items_of(list: Option<&Value>) -> Vec<String> {
    match list {
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect()
        }
        Some(Value::String(only)) => vec![only.clone()],
        _ => Vec::new(),
    }
}

/// Removes an item from a list of lines, and the list if nothing else is in it.
pub(super) fn remove_item(text: &str, at: &str, item: &str) -> Result<String, Problem> {
    with_root(text, |root| {
        let (key, list) = root.and_then(|root| field(root, at)).ok_or("the list is missing")?;
        let YamlData::Sequence(items) = &list.data else {
            return Err(Problem::on_line(
                key.span.start.line(),
                format!("`{at}` is not a list with one item per line"),
            ));
        };
        if text[range(text, list).start..].starts_with('[') {
            return Err(Problem::on_line(
                key.span.start.line(),
                format!("`{at}` is not a list with one item per line"),
            ));
        }
        let is_own =
            |node: &&Node<'_>| matches!(&node.data, YamlData::Value(Scalar::String(text)) if text == item);
        let own = items.iter().find(is_own).ok_or("the item is missing")?;
        if items.len() == 1 {
            let without = remove_lines(
                text,
                range(text, own).start,
                super::indentation(text, range(text, own).start).len(),
            )?;
            return remove_lines(&without, range(text, key).start, key.span.start.col());
        }
        let at = range(text, own).start;
        let indentation = super::indentation(text, at).len();
        remove_lines(text, at, indentation)
    })
}
