//! Writes records in a format, and files atomically.

use super::parquet::TableWriter;
use super::{Encoding, Format, FormatError, Record, Value};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file or directory that is written under a temporary name beside its target, and renamed when it is complete. If
/// it is dropped before, it removes the incomplete output.
#[derive(Debug)]
pub struct Staged {
    target: PathBuf,
    pub(crate) path: PathBuf,
    /// The directories that were created for it. Dropped last.
    _around: NewDirectories,
}

impl Staged {
    /// Starts writing a target that does not exist or is an empty directory. Creates its parent directories.
    ///
    /// # Errors
    /// When the target exists, because nothing is overwritten; when the directories cannot be created.
    pub fn new(target: &Path) -> Result<Self, FormatError> {
        let empty = fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none());
        if target.symlink_metadata().is_ok() && !empty {
            return Err(FormatError::File {
                path: target.to_owned(),
                expected: "a path that does not exist, or an empty directory".into(),
                found: "one that exists".into(),
                remedy: "name another, or remove this one".into(),
            });
        }
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}.partial", std::process::id()));
        let around = NewDirectories::create(target.parent().unwrap_or(Path::new("")))
            .map_err(|source| FormatError::Write { path: target.to_owned(), source })?;
        Ok(Self { target: target.to_owned(), path: target.with_file_name(name), _around: around })
    }

    /// Temporary path that it is written to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames it to its final name.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn publish(self) -> Result<(), FormatError> {
        if self.path.is_dir() && self.target.is_dir() {
            fs::remove_dir(&self.target).map_err(|source| self.error(source))?;
        }
        fs::rename(&self.path, &self.target).map_err(|source| self.error(source))
    }

    /// A write error with the final name of the file.
    pub(crate) fn named(&self, mut error: FormatError) -> FormatError {
        if let FormatError::File { path, .. } | FormatError::Write { path, .. } = &mut error
            && let Ok(inner) = path.strip_prefix(&self.path)
        {
            // Joining an empty path would add a slash.
            *path = if inner.as_os_str().is_empty() { self.target.clone() } else { self.target.join(inner) };
        }
        error
    }

    fn error(&self, source: io::Error) -> FormatError {
        FormatError::Write { path: self.target.clone(), source }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After publishing, nothing is left at this path.
        if self.path.is_dir() {
            let _ = fs::remove_dir_all(&self.path);
        } else {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Directories that were created for a file. Those that are still empty when this is dropped are removed, so that a
/// failure leaves nothing behind.
#[derive(Debug)]
pub struct NewDirectories {
    /// Innermost first.
    made: Vec<PathBuf>,
}

impl NewDirectories {
    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// When one cannot be created; none is left behind in that case.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made = directory.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        let directories = Self { made };
        if !directory.as_os_str().is_empty() {
            fs::create_dir_all(directory)?;
        }
        Ok(directories)
    }
}

impl Drop for NewDirectories {
    fn drop(&mut self) {
        // The system does not remove non-empty directories.
        for directory in &self.made {
            let _ = fs::remove_dir(directory);
        }
    }
}

pub(crate) struct Writer {
    path: PathBuf,
    format: &'static Format,
    container: Encoding,
    sink: Sink,
    n_written: usize,
}

enum Sink {
    Text(BufWriter<File>),
    /// Only for [`Encoding::Parquet`].
    Table(Box<TableWriter>),
}

impl Writer {
    /// Creates the file and its directories. `header` is the line that names the columns, if there is one.
    pub(crate) fn create(
        path: &Path,
        format: &'static Format,
        container: Encoding,
        header: Option<String>,
    ) -> Result<Self, FormatError> {
        let error = |source| FormatError::Write { path: path.to_owned(), source };
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            fs::create_dir_all(directory).map_err(error)?;
        }
        let file = File::create(path).map_err(error)?;
        let sink = if container == Encoding::Parquet {
            let table = TableWriter::new(file, format).map_err(io::Error::other).map_err(error)?;
            Sink::Table(Box::new(table))
        } else {
            let mut file = BufWriter::new(file);
            match container {
                Encoding::JsonArray => file.write_all(b"[\n"),
                Encoding::JsonObject => file.write_all(b"{\n"),
                Encoding::Csv | Encoding::Lines { .. } => {
                    header.map_or(Ok(()), |header| writeln!(file, "{header}"))
                }
                Encoding::JsonLines | Encoding::Pickle | Encoding::Parquet => Ok(()),
            }
            .map_err(error)?;
            Sink::Text(file)
        };
        Ok(Self { path: path.to_owned(), format, container, sink, n_written: 0 })
    }

    pub(crate) fn write(&mut self, record: &Record) -> Result<bool, FormatError> {
        let Some(values) = self.format.write.and_then(|write| write(record, self.n_written)) else {
            return Ok(false);
        };
        self.write_values(&values)?;
        Ok(true)
    }

    /// Writes a row with the values of the format's fields in order.
    pub(crate) fn write_values(&mut self, values: &[Value<'_>]) -> Result<(), FormatError> {
        let object = Fields(self.format, values);
        let file = match &mut self.sink {
            Sink::Text(file) => file,
            Sink::Table(table) => {
                table.push(values).map_err(|error| self.error(io::Error::other(error)))?;
                self.n_written += 1;
                return Ok(());
            }
        };
        let is_first = self.n_written == 0;
        match self.container {
            Encoding::JsonLines | Encoding::Pickle | Encoding::Parquet => {
                json(&object).and_then(|line| writeln!(file, "{line}"))
            }
            Encoding::JsonArray => json(&object).and_then(|item| write_item(file, &item, is_first)),
            Encoding::JsonObject => {
                let member = values.iter().map(json).collect::<io::Result<Vec<_>>>();
                member.and_then(|member| write_item(file, &member.join(": "), is_first))
            }
            Encoding::Csv => write_csv(file, values.iter().map(cell).collect::<Vec<_>>()),
            Encoding::Lines { .. } => {
                let cells: Vec<String> = values.iter().map(cell).collect();
                let spaces = self.container == Encoding::Lines { header: true };
                let separates = |c: char| c.is_whitespace() && !(spaces && c == ' ');
                if let Some(wrong) = cells.iter().find(|cell| cell.is_empty() || cell.contains(separates)) {
                    return Err(FormatError::File {
                        path: self.path.clone(),
                        expected: format!("ids without white space, for {}", self.format.name),
                        found: super::excerpt(wrong),
                        remedy: "renumber the ids with --renumber".into(),
                    });
                }
                writeln!(file, "{}", cells.join("\t"))
            }
        }
        .map_err(|source| self.error(source))?;
        self.n_written += 1;
        Ok(())
    }

    /// Writes the text of a record that was read from a file of the same format and encoding, which is textual
    /// ([`Encoding::is_text`]).
    pub(crate) fn write_text(&mut self, text: &str) -> Result<(), FormatError> {
        match (&mut self.sink, self.container) {
            (Sink::Text(file), Encoding::JsonArray | Encoding::JsonObject) => {
                write_item(file, text, self.n_written == 0)
            }
            (Sink::Text(file), _) => writeln!(file, "{text}"),
            (Sink::Table(_), _) => Err(io::ErrorKind::Unsupported.into()),
        }
        .map_err(|source| self.error(source))?;
        self.n_written += 1;
        Ok(())
    }

    fn error(&self, source: io::Error) -> FormatError {
        FormatError::Write { path: self.path.clone(), source }
    }

    pub(crate) fn finish(self) -> Result<usize, FormatError> {
        let end = match self.container {
            Encoding::JsonArray => "\n]\n",
            Encoding::JsonObject => "\n}\n",
            _ => "",
        };
        let file = match self.sink {
            Sink::Text(mut file) => {
                file.write_all(end.as_bytes()).and_then(|()| file.into_inner().map_err(io::Error::from))
            }
            Sink::Table(table) => table.finish().map_err(io::Error::other),
        };
        file.and_then(|file| file.sync_all())
            .map_err(|source| FormatError::Write { path: self.path, source })?;
        Ok(self.n_written)
    }
}

fn write_item(file: &mut impl Write, item: &str, is_first: bool) -> io::Result<()> {
    write!(file, "{}{item}", if is_first { "" } else { ",\n" })
}

fn json(value: &impl Serialize) -> io::Result<String> {
    Ok(serde_json::to_string(value)?)
}

/// Writes a row of comma-separated values (RFC 4180), quoted where necessary, and a line feed.
pub fn write_csv<T: AsRef<[u8]>>(
    file: &mut impl Write,
    cells: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(file);
    writer.write_record(cells).map_err(io::Error::other)?;
    writer.flush()
}

fn cell(value: &Value<'_>) -> String {
    match value {
        Value::Absent | Value::Other(_) => String::new(),
        Value::Text(text) => text.to_string(),
        Value::Whole(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::List(texts) => texts.join(" "),
    }
}

/// An object with the fields that have a value, in the order of the format.
struct Fields<'a>(&'static Format, &'a [Value<'a>]);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (field, value) in self.0.fields.iter().zip(self.1) {
            if *value != Value::Absent {
                map.serialize_entry(field.name, value)?;
            }
        }
        map.end()
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent | Self::Other(_) => serializer.serialize_none(),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Whole(number) => serializer.serialize_i64(*number),
            Self::Real(number) => serializer.serialize_f64(*number),
            Self::List(texts) => texts.serialize(serializer),
        }
    }
}
