//! Files and directories as sources of records: detecting their formats, and reading them row by row.

use super::delimited::Rows;
use super::row::{json_error, json_values};
use super::text::{excerpt, for_each_item, for_each_line, open, read_error};
use super::write::write_csv;
use super::{Encoding, FORMATS, Field, Format, FormatError, Line, Record, Row, Value, parquet, pickle};
use std::io::BufRead;
use std::path::{Path, PathBuf};

pub(crate) type TakeRow<'t> = dyn FnMut(Result<Row<'_>, FormatError>) -> Result<(), FormatError> + 't;

#[derive(Debug, Clone)]
pub struct Source {
    pub path: PathBuf,
    pub format: &'static Format,
    pub container: Encoding,
}

pub fn format_named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name == name)
}

impl Source {
    /// Detects the format from the first bytes and the first record of a file. `wanted` is the required format, or a
    /// prefix of the names of allowed ones, up to a `-`; empty for any.
    ///
    /// # Errors
    /// When the file cannot be read, is empty, or matches no wanted format.
    pub fn open(path: &Path, wanted: &str) -> Result<Self, FormatError> {
        check_regular(path)?;
        let container = sniff(path)?;
        // If the format is given, the error is about the content of the file, not that it has another format.
        let format = match format_named(wanted) {
            Some(format) => format,
            None => detect(path, container, wanted)?,
        };
        let container = match format.container {
            // Both begin with a brace, and a table without a header looks like one with.
            Encoding::JsonObject | Encoding::Lines { .. } => format.container,
            _ => container,
        };
        Ok(Self { path: path.to_owned(), format, container })
    }

    /// Reads the records, one at a time, in the order of the file.
    ///
    /// # Errors
    /// The first invalid record, an error of `each`, or when the file cannot be read. Errors of `each` about this
    /// file as a whole ([`FormatError::File`]) are attributed to the line of the record.
    pub fn for_each(
        &self,
        each: &mut dyn FnMut(Record) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        self.for_each_row(&mut |row| {
            let row = row?;
            (self.format.read)(&row, &mut |record| each(record).map_err(|error| row.line.located(error)))
        })
    }

    /// The line that names the columns, if the file has one.
    pub(crate) fn header(&self) -> Result<Option<String>, FormatError> {
        match self.container {
            Encoding::Csv => first(|each| for_each_line(open(&self.path)?, &self.path, each)).map(Some),
            _ => Ok(self.format.header()),
        }
    }

    /// Reads the rows. An invalid row is passed to `each` as an error, and reading can continue.
    pub(crate) fn for_each_row(&self, each: &mut TakeRow<'_>) -> Result<(), FormatError> {
        let (path, format) = (self.path.as_path(), self.format);
        let mut index = 0;
        let mut give = |mut row: Result<Row<'_>, FormatError>| {
            if let Ok(row) = &mut row {
                row.index = index;
            }
            index += 1;
            each(row)
        };
        match self.container {
            Encoding::JsonLines => {
                for_each_line(open(path)?, path, |line| give(Row::from_json(*line, format)))
            }
            Encoding::JsonArray => {
                for_each_item(open(path)?, path, b'[', |line| give(Row::from_json(*line, format)))
            }
            Encoding::JsonObject => {
                for_each_item(open(path)?, path, b'{', |line| give(member(*line, format)))
            }
            Encoding::Csv => for_each_record(path, format, &mut give),
            Encoding::Pickle => {
                pickle::for_each_row(open(path)?, path, format.fields, &mut |line, values| {
                    give(values.and_then(|values| Row::new(line, format, values)))
                })
            }
            Encoding::Parquet => parquet::for_each_row(path, format.fields, &mut |line, values| {
                give(values.and_then(|values| Row::new(line, format, values)))
            }),
            Encoding::Lines { .. } => {
                let Some(split) = format.split else { return Ok(()) };
                for_each_line(open(path)?, path, |line| match split(line) {
                    Ok(Some(values)) => give(Row::new(*line, format, values)),
                    Ok(None) => Ok(()),
                    Err(error) => give(Err(error)),
                })
            }
        }
    }
}

/// The format with the most fields of the first record. If the record has all field names that a matching format
/// knows, and more field names of a format that it does not match, it is an invalid record of that format.
fn detect(path: &Path, container: Encoding, wanted: &str) -> Result<&'static Format, FormatError> {
    let names = [path.file_name(), path.parent().and_then(Path::file_name)]
        .map(|name| name.unwrap_or_default().to_string_lossy().to_lowercase());
    // The name of the file is more significant than that of its directory.
    let hint = |format: &Format| match names.iter().position(|name| name.contains(format.hint)) {
        Some(position) if !format.hint.is_empty() => names.len() - position,
        _ => 0,
    };
    let is_wanted = |format: &&Format| {
        let rest = format.name.strip_prefix(wanted);
        wanted.is_empty() || rest.is_some_and(|rest| rest.starts_with('-'))
    };
    if !FORMATS.iter().copied().any(|format| is_wanted(&format)) {
        return Err(FormatError::File {
            path: path.to_owned(),
            expected: "the name of a format".into(),
            found: format!("{wanted:?}"),
            remedy: "`quarry data formats` lists them; omit the name to have the format detected".into(),
        });
    }
    let head = Head::read(path, container)?;
    let matching = FORMATS
        .iter()
        .copied()
        .filter(is_wanted)
        .filter_map(|format| Some((head.matches(path, format)?, hint(format), format)))
        // The last of ties is taken.
        .rev()
        .collect::<Vec<_>>();
    let best = |fits: bool| {
        let candidates = matching.iter().filter(|(found, ..)| found.fits == fits);
        candidates.max_by_key(|(found, hint, _)| (found.names.len(), *hint))
    };
    let best = match (best(true), best(false)) {
        (Some(right), Some(wrong)) if wrong.0.has_more_than(&right.0) => Some(wrong),
        (right, wrong) => right.or(wrong),
    };
    best.map(|(_, _, format)| *format).ok_or_else(|| FormatError::File {
        path: path.to_owned(),
        expected: match wanted {
            "" => "a file of a known format (`quarry data formats` lists them)".into(),
            wanted => format!("a file of the format {wanted}"),
        },
        found: format!("a first record {}", excerpt(&head.first)),
        remedy:
            "check that this is the right file, and name its format (--from, or `format` in a plan) to see \
                 what is wrong"
                .into(),
    })
}

/// A member of an object as a row with two fields: its name and its value.
fn member<'a>(line: Line<'a>, format: &'static Format) -> Result<Row<'a>, FormatError> {
    let wrong = |error| json_error(&line, &error, "a member of an object: \"name\": value");
    let mut names = serde_json::Deserializer::from_str(line.text).into_iter::<Value<'_>>();
    let name = names.next().transpose().map_err(wrong)?.unwrap_or(Value::Absent);
    let rest = line.text[names.byte_offset()..].trim_start();
    let Some(rest) = rest.strip_prefix(':') else {
        return Err(line.error(
            "a member of an object: \"name\": value",
            excerpt(line.text),
            "add the colon",
        ));
    };
    let value = serde_json::from_str(rest).map_err(wrong)?;
    Row::new(line, format, vec![name, value])
}

/// The records of a CSV file, whose first line names the columns.
fn for_each_record(path: &Path, format: &'static Format, each: &mut TakeRow<'_>) -> Result<(), FormatError> {
    let mut reader = Rows::new(open(path)?, path, b',')?;
    let columns: Vec<Option<usize>> =
        format.fields.iter().map(|field| column(reader.header(), field)).collect();
    let at = |number| Line { path, number, counts_records: false, text: "" };
    let missing: Vec<&str> = format
        .fields
        .iter()
        .zip(&columns)
        .filter(|(field, column)| field.required && column.is_none())
        .map(|(field, _)| field.name)
        .collect();
    if !missing.is_empty() {
        return Err(at(1).error(
            format!("a line that names the columns {}", missing.join(", ")),
            excerpt(&reader.header().iter().collect::<Vec<_>>().join(",")),
            "check that this is the right file",
        ));
    }
    let mut record = csv::StringRecord::new();
    while let Some(number) = reader.read(&mut record)? {
        let line = at(number);
        if let Some(error) = reader.refuse_length(&record, &line) {
            each(Err(error))?;
            continue;
        }
        let mut text = Vec::new();
        write_csv(&mut text, &record).map_err(|error| read_error(error, path, line.number))?;
        let text = String::from_utf8_lossy(&text);
        let line = Line { text: text.trim_end_matches('\n'), ..line };
        let values = format
            .fields
            .iter()
            .zip(&columns)
            .map(|(field, column)| match column.map(|column| &record[column]) {
                None | Some("") if !field.required => Value::Absent,
                Some(cell) => field.kind.parse_cell(cell),
                None => Value::Absent,
            })
            .collect();
        each(Row::new(line, format, values))?;
    }
    Ok(())
}

fn column(header: &csv::StringRecord, field: &Field) -> Option<usize> {
    header.iter().position(|name| name == field.name)
}

/// Checks that a file can be read more than once, as a pipe cannot.
///
/// # Errors
/// When it is missing, or neither a regular file nor a directory.
pub fn check_regular(path: &Path) -> Result<(), FormatError> {
    let found = path.metadata().map_err(|source| FormatError::Read { path: path.to_owned(), source })?;
    if found.is_file() || found.is_dir() {
        return Ok(());
    }
    Err(FormatError::File {
        path: path.to_owned(),
        expected: "a file, which is read more than once".into(),
        found: "a pipe or device".into(),
        remedy: "write its content to a file first".into(),
    })
}

/// Detects the encoding of a file from its first bytes.
fn sniff(path: &Path) -> Result<Encoding, FormatError> {
    let mut reader = open(path)?;
    loop {
        let bytes = reader.fill_buf().map_err(|error| read_error(error, path, 1))?;
        if bytes.starts_with(parquet::MAGIC) {
            return Ok(Encoding::Parquet);
        }
        match bytes.first() {
            None => {
                return Err(FormatError::empty(path, "at least one record", "an empty file"));
            }
            Some(0x80) => return Ok(Encoding::Pickle),
            Some(b'[') => return Ok(Encoding::JsonArray),
            Some(b'{') => return Ok(Encoding::JsonLines),
            Some(b' ' | b'\t' | b'\r' | b'\n' | 0xEF | 0xBB | 0xBF) => reader.consume(1),
            Some(_) => return Ok(Encoding::Csv),
        }
    }
}

/// Degree to which a record matches a format.
struct FormatMatch {
    names: Vec<&'static str>,
    fits: bool,
}

impl FormatMatch {
    fn fitting(names: Vec<&'static str>) -> Self {
        Self { names, fits: true }
    }

    fn has_more_than(&self, other: &Self) -> bool {
        self.names.len() > other.names.len() && other.names.iter().all(|name| self.names.contains(name))
    }
}

/// The beginning of a file whose format is not known yet.
struct Head {
    /// The first line, or the first item of an array.
    first: String,
    /// The first member of a file that may be one object.
    member: Option<String>,
    container: Encoding,
}

impl Head {
    fn read(path: &Path, container: Encoding) -> Result<Self, FormatError> {
        let member = match container {
            Encoding::JsonLines => first(|each| for_each_item(open(path)?, path, b'{', each)).ok(),
            _ => None,
        };
        let first = match container {
            Encoding::JsonArray => first(|each| for_each_item(open(path)?, path, b'[', each))?,
            Encoding::Pickle | Encoding::Parquet => String::new(),
            _ => first(|each| for_each_line(open(path)?, path, each))?,
        };
        Ok(Self { first, member, container })
    }

    /// The fields of `format` that the first record has; `None` if it lacks a required one.
    fn matches(&self, path: &Path, format: &'static Format) -> Option<FormatMatch> {
        let line_of = |text| Line { path, number: 1, counts_records: false, text };
        let is_json = match self.container {
            // Rows of these are read by the names of their fields.
            Encoding::Pickle | Encoding::Parquet => {
                let source = Source { path: path.to_owned(), format, container: self.container };
                return first_row(&source).map(FormatMatch::fitting);
            }
            container => container != Encoding::Csv,
        };
        match (is_json, format.container) {
            // Any object that begins with a name and a number could be one, so it is one only if no other format
            // matches.
            (true, Encoding::JsonObject) => member(line_of(self.member.as_deref()?), format)
                .ok()
                .map(|_| FormatMatch::fitting(Vec::new())),
            (true, Encoding::Lines { .. }) | (false, Encoding::JsonObject) => None,
            (true, _) => {
                let values = json_values(&self.first, format.fields).ok()?;
                let fields = || format.fields.iter().zip(&values);
                let complete = fields().all(|(field, value)| !field.required || *value != Value::Absent);
                let names = fields().filter(|(_, value)| **value != Value::Absent);
                let names = names.map(|(field, _)| field.name).collect();
                let read = |row: Row<'_>| (format.read)(&row, &mut |_| Ok(()));
                let fits = Row::new(line_of(&self.first), format, values).and_then(read).is_ok();
                complete.then_some(FormatMatch { names, fits })
            }
            (false, Encoding::Lines { .. }) => {
                let line = line_of(&self.first);
                match format.split?(&line).ok()? {
                    Some(values) => {
                        Row::new(line, format, values).ok().map(|row| FormatMatch::fitting(row.names()))
                    }
                    None => {
                        Some(FormatMatch::fitting(format.fields.iter().map(|field| field.name).collect()))
                    }
                }
            }
            (false, _) => {
                let reader = Rows::new(self.first.as_bytes(), path, b',').ok()?;
                let found = |field: &&Field| column(reader.header(), field).is_some();
                let complete = format.fields.iter().filter(|field| field.required).all(|field| found(&field));
                let names = format.fields.iter().filter(found).map(|field| field.name);
                complete.then(|| FormatMatch::fitting(names.collect()))
            }
        }
    }
}

/// The fields of the first row, if it is valid in its format.
fn first_row(source: &Source) -> Option<Vec<&'static str>> {
    let mut names = None;
    let _ = source.for_each_row(&mut |row| {
        let row = row?;
        names.get_or_insert(row.names());
        Err(row.line.error("", "", ""))
    });
    names
}

/// The text of the first line or item that `read` yields.
fn first(
    read: impl FnOnce(&mut dyn FnMut(&Line<'_>) -> Result<(), FormatError>) -> Result<(), FormatError>,
) -> Result<String, FormatError> {
    let mut first = None;
    let outcome = read(&mut |line| {
        first.get_or_insert_with(|| line.text.to_owned());
        // Ends the reading; this error is discarded.
        Err(line.error("", "", ""))
    });
    match (first, outcome) {
        (Some(first), _) => Ok(first),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Ok(String::new()),
    }
}
