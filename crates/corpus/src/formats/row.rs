//! A row: the values of one record for the fields of its format, checked against their types.

use super::text::{Line, excerpt};
use super::{Format, FormatError};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Whole,
    Id,
    Ids,
    /// Tokens: a list of texts, or one text with space-separated tokens.
    Tokens,
    Number,
}

impl Kind {
    /// Name of the type in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Whole => "a whole number",
            Self::Id => "text or a whole number",
            Self::Ids => "an id or a list of ids",
            Self::Tokens => "a list of tokens, or text",
            Self::Number => "a number",
        }
    }

    /// Parses a cell of a text table as a value of this kind; returns the cell itself if that fails.
    pub(crate) fn parse_cell(self, cell: &str) -> Value<'_> {
        let number = match self {
            Self::Whole => cell.trim().parse().ok().map(Value::Whole),
            Self::Number => cell.trim().parse().ok().map(Value::Real),
            _ => None,
        };
        number.unwrap_or(Value::Text(Cow::Borrowed(cell)))
    }

    fn admits(self, value: &Value<'_>) -> bool {
        match self {
            Self::Text => matches!(value, Value::Text(_)),
            Self::Whole => matches!(value, Value::Whole(_)),
            Self::Id => matches!(value, Value::Text(_) | Value::Whole(_)),
            Self::Ids => matches!(value, Value::Text(_) | Value::Whole(_) | Value::List(_)),
            Self::Tokens => matches!(value, Value::Text(_) | Value::List(_)),
            Self::Number => {
                matches!(value, Value::Whole(_)) || matches!(value, Value::Real(x) if !x.is_nan())
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    /// True if its values must be unique in a file.
    pub unique: bool,
    /// True if it must contain more than white space.
    pub filled: bool,
    pub about: &'static str,
}

impl Field {
    pub const fn required(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, required: true, unique: false, filled: false, about }
    }

    /// A required text that is not blank, such as a query.
    pub const fn filled(name: &'static str, about: &'static str) -> Self {
        Self { filled: true, ..Self::required(name, Kind::Text, about) }
    }

    /// An optional field, whose value may also be `null`.
    pub const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { required: false, ..Self::required(name, kind, about) }
    }

    /// A required field whose values are unique.
    pub const fn unique(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { unique: true, ..Self::required(name, kind, about) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    /// The record does not have the field, or has `null` there.
    Absent,
    Text(Cow<'a, str>),
    Whole(i64),
    Real(f64),
    List(Vec<String>),
    /// A value of a type that no field has, as named in messages.
    Other(&'static str),
}

impl Value<'_> {
    fn found(&self) -> String {
        match self {
            Self::Absent => "nothing".into(),
            Self::Text(text) => format!("the text {}", excerpt(text)),
            Self::Whole(number) => format!("the number {number}"),
            Self::Real(number) => format!("the number {number}"),
            Self::List(_) => "a list".into(),
            Self::Other(what) => (*what).into(),
        }
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(text.into())
    }
}

impl From<Option<String>> for Value<'_> {
    fn from(text: Option<String>) -> Self {
        text.map_or(Value::Absent, Value::from)
    }
}

impl From<f64> for Value<'_> {
    /// Tables that went through pandas contain integers as 1.0. Below 2^53 the two are the same number.
    fn from(number: f64) -> Self {
        let whole = number.fract() == 0.0 && number.abs() < 9e15;
        if whole { Value::Whole(number as i64) } else { Value::Real(number) }
    }
}

pub(crate) struct Row<'a> {
    pub(crate) line: Line<'a>,
    /// 0-based index of the record in its file.
    pub(crate) index: usize,
    fields: &'static [Field],
    values: Vec<Value<'a>>,
}

impl<'a> Row<'a> {
    /// `values` are those of the fields of `format`, in order.
    pub(crate) fn new(
        line: Line<'a>,
        format: &'static Format,
        values: Vec<Value<'a>>,
    ) -> Result<Self, FormatError> {
        for (field, value) in format.fields.iter().zip(&values) {
            match value {
                Value::Absent if field.required => {
                    return Err(line.error(
                        format!("`{}` ({}: {})", field.name, field.kind.name(), field.about),
                        "a record without it",
                        format!("add it, or name the right format: this was read as {}", format.name),
                    ));
                }
                Value::Absent => {}
                Value::Text(text) if field.filled && text.trim().is_empty() => {
                    return Err(line.error(
                        format!("`{}` ({}) that is not blank", field.name, field.about),
                        "only white space",
                        "write the query, or remove the record and everything that refers to it",
                    ));
                }
                value if field.kind.admits(value) => {}
                value => {
                    return Err(line.error(
                        format!("{} as `{}`", field.kind.name(), field.name),
                        value.found(),
                        format!("fix the record, or name the right format: this was read as {}", format.name),
                    ));
                }
            }
        }
        Ok(Self { line, index: 0, fields: format.fields, values })
    }

    /// Parses a JSON object. Fields that the format does not have are skipped.
    pub(crate) fn from_json(line: Line<'a>, format: &'static Format) -> Result<Self, FormatError> {
        let values = json_values(line.text, format.fields).map_err(|error| {
            let names: Vec<String> = format
                .fields
                .iter()
                .filter(|field| field.required)
                .map(|field| format!("`{}`", field.name))
                .collect();
            json_error(&line, &error, format!("an object with {}", names.join(", ")))
        })?;
        Self::new(line, format, values)
    }

    fn value(&self, name: &str) -> &Value<'a> {
        let position = self.fields.iter().position(|field| field.name == name);
        debug_assert!(position.is_some(), "{name} is not a field of the format");
        position.map_or(&Value::Absent, |position| &self.values[position])
    }

    /// A text, an id as text, or tokens joined by spaces; `None` if the record lacks the field.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        match self.value(name) {
            Value::Text(text) => Some(text.to_string()),
            Value::Whole(number) => Some(number.to_string()),
            Value::List(tokens) => Some(tokens.join(" ")),
            Value::Absent | Value::Real(_) | Value::Other(_) => None,
        }
    }

    /// Like [`Self::get`], but empty if the record lacks the field.
    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }

    /// An integer that fits into the type.
    pub(crate) fn integer<T: TryFrom<i64>>(&self, name: &str) -> Result<Option<T>, FormatError> {
        match self.value(name) {
            Value::Whole(number) => match T::try_from(*number) {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(self.line.error(
                    format!("a smaller number as `{name}`"),
                    number.to_string(),
                    "fix the record",
                )),
            },
            _ => Ok(None),
        }
    }

    /// An integer that is one of a few, such as labels and grades.
    pub(crate) fn one_of(
        &self,
        name: &str,
        allowed: std::ops::RangeInclusive<i32>,
    ) -> Result<Option<i32>, FormatError> {
        match self.integer(name)? {
            Some(number) if !allowed.contains(&number) => Err(self.line.error(
                format!("`{name}` from {} to {}", allowed.start(), allowed.end()),
                number.to_string(),
                "fix the record",
            )),
            number => Ok(number),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        match self.value(name) {
            Value::Whole(number) => Some(*number as f64),
            Value::Real(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn ids(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Value::List(ids) => ids.clone(),
            _ => self.get(name).into_iter().collect(),
        }
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        let present = self.fields.iter().zip(&self.values).filter(|(_, value)| **value != Value::Absent);
        present.map(|(field, _)| field.name).collect()
    }

    /// The values of the fields that must be unique, with their names.
    pub(crate) fn unique_values(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.fields.iter().filter(|field| field.unique).map(|field| (field.name, self.text(field.name)))
    }
}

/// The fields of a JSON object in the order of `fields`.
pub(crate) fn json_values<'a>(text: &'a str, fields: &[Field]) -> serde_json::Result<Vec<Value<'a>>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let values = Object(fields).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(values)
}

/// serde_json counts lines within the parsed text: use the line of the record instead, and its column if the record
/// is a single line.
pub(crate) fn json_error(
    line: &Line<'_>,
    error: &serde_json::Error,
    expected: impl Into<String>,
) -> FormatError {
    let message = error.to_string();
    let problem = message.split(" at line ").next().unwrap_or(&message);
    let number = line.number + error.line().saturating_sub(1);
    Line { number, ..*line }.error(
        expected,
        format!("{} ({problem}, column {})", excerpt(line.text), error.column()),
        "fix the record",
    )
}

/// Deserializes an object into the values of its known fields.
pub(crate) struct Object<'f>(pub(crate) &'f [Field]);

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = Vec<Value<'de>>;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Vec<Value<'de>>;
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = vec![Value::Absent; self.0.len()];
        while let Some(Name(name)) = map.next_key()? {
            match self.0.iter().position(|field| field.name == name) {
                Some(position) => values[position] = map.next_value()?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(values)
    }
}

/// A name, borrowed if it contains no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Value<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value<'de>;
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Value::Text(text.into()))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.to_owned().into())
    }
    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(text.into())
    }
    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Value::Whole(number))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(number).map_or(Value::Real(number as f64), Value::Whole))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(number.into())
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Value::Other("true or false"))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Absent)
    }
    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Absent)
    }
    fn visit_bytes<E>(self, _: &[u8]) -> Result<Self::Value, E> {
        Ok(Value::Other("bytes"))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        let mut other = false;
        while let Some(value) = list.next_element::<Value<'_>>()? {
            match value {
                Value::Text(text) => texts.push(text.into_owned()),
                Value::Whole(number) => texts.push(number.to_string()),
                _ => other = true,
            }
        }
        Ok(if other {
            Value::Other("a list that holds something other than texts")
        } else {
            Value::List(texts)
        })
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Other("an object"))
    }
}
