//! Files that commands write besides their output: whole, or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use quarry_files::{Readers, Replacement};
use quarry_metrics::table::{Layout, Table};
use serde::Serialize;
use serde_json::Value;

/// Writes one JSON object over several lines.
pub fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut file = create(path)?;
    serde_json::to_writer_pretty(&mut file, value)
        .map_err(io::Error::from)
        .and_then(|()| writeln!(file))
        .and_then(|()| file.finish())
        .with_context(|| cannot_write(path))
}

pub fn write_json_lines(path: &Path, mut lines: impl Iterator<Item = impl Serialize>) -> anyhow::Result<()> {
    let mut file = create(path)?;
    lines
        .try_for_each(|line| {
            serde_json::to_writer(&mut file, &line)?;
            writeln!(file)
        })
        .and_then(|()| file.finish())
        .with_context(|| cannot_write(path))
}

/// Writes an object for each record: a row of CSV if the name of the file ends in `.csv`, else a JSON line. Columns are the
/// keys of values, also of those in objects, as `OUTER.INNER` where two objects have the same key; lists are JSON.
pub fn write_records(path: &Path, records: impl Iterator<Item = impl Serialize>) -> anyhow::Result<()> {
    if path.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("csv")) {
        return write_json_lines(path, records);
    }
    let mut columns: Vec<Vec<String>> = Vec::new();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for record in records {
        let mut row = vec![String::new(); columns.len()];
        for (keys, value) in cells(serde_json::to_value(record)?) {
            match columns.iter().position(|known| *known == keys) {
                Some(column) => row[column] = value,
                None => {
                    columns.push(keys);
                    row.push(value);
                }
            }
        }
        rows.push(row);
    }
    let name = |keys: &Vec<String>| {
        let is_twice = columns.iter().filter(|other| other.last() == keys.last()).nth(1).is_some();
        if is_twice { keys.join(".") } else { keys.last().cloned().unwrap_or_default() }
    };
    let mut table = Table::new(columns.iter().map(name));
    for mut row in rows {
        row.resize(columns.len(), String::new());
        table.push(row);
    }
    write_text(path, &table.render(Layout::Csv))
}

/// The values in a record with the keys that lead to each, in order.
fn cells(value: Value) -> Vec<(Vec<String>, String)> {
    let text = match value {
        Value::Object(members) => {
            let member = |(key, value)| {
                cells(value).into_iter().map(move |(mut keys, value)| {
                    keys.insert(0, String::clone(&key));
                    (keys, value)
                })
            };
            return members.into_iter().flat_map(member).collect();
        }
        Value::Null => String::new(),
        Value::String(text) => text,
        Value::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string())
        }
        other => other.to_string(),
    };
    vec![(Vec::new(), text)]
}

pub fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    write_bytes(path, text.as_bytes())
}

pub fn write_bytes(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = create(path)?;
    file.write_all(bytes).and_then(|()| file.finish()).with_context(|| cannot_write(path))
}

/// A file that replaces the one at its path when it is finished. Dropped before that, it changes nothing. An existing
/// path that is not a regular file, such as a pipe, is written to directly.
pub enum NewFile {
    AtOnce(BufWriter<File>),
    Staged(Replacement),
}

pub fn create(path: &Path) -> anyhow::Result<NewFile> {
    let create = || -> io::Result<NewFile> {
        // The target of a link is replaced, not the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(&path)?;
            return Ok(NewFile::AtOnce(BufWriter::new(file)));
        }
        Replacement::create(&path, ".partial-", Readers::Umask).map(NewFile::Staged)
    };
    create().with_context(|| cannot_write(path))
}

impl NewFile {
    /// Gives the file its name.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::AtOnce(mut file) => file.flush(),
            Self::Staged(file) => file.finish(),
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::AtOnce(file) => file.write(bytes),
            Self::Staged(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::AtOnce(file) => file.flush(),
            Self::Staged(file) => file.flush(),
        }
    }
}

pub fn cannot_write(path: &Path) -> String {
    format!("{}: cannot be written", path.display())
}
