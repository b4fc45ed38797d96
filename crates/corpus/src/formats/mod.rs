//! File formats of retrieval data sets.
//!
//! A [`Format`] defines the fields of a row and the [`Record`]s that it contains; all formats are in [`FORMATS`]. The
//! encoding of a file ([`Encoding`]) is detected from its bytes: the same records can be JSON lines, one JSON array,
//! CSV, a pickle or Parquet, with or without gzip compression. Readers hold one record at a time (for Parquet a batch
//! of rows, and for a pickle also the values that it refers to again). A malformed record is rejected with its file,
//! its line, what was expected and what to do. Blank lines are skipped, line breaks are `
//! ` or `\r
//! `, and a byte order mark is ignored.
//!
//! [`beir`], [`qrels`], [`run`], [`cosqa`], [`repo_search`] and [`localize`] also read whole files into values for `eval`.

pub mod advtest;
pub mod beir;
pub mod codesearchnet;
pub mod cosqa;
pub mod cosqa_plus;
pub mod csn99;
mod delimited;
pub mod gecs;
pub mod huggingface;
pub mod localize;
mod parquet;
mod pickle;
pub mod qrels;
pub mod query4code;
pub mod query_code;
mod record;
pub mod repo_search;
mod row;
pub mod run;
pub mod source;
pub mod statcodesearch;
pub mod table;
mod text;
pub mod webquery;
pub mod write;

use quarry_source::{language_called, language_for};
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

pub use record::{Judgment, Label, Pair, Record, Retrieved, Side};
pub use row::{Field, Kind};
pub(crate) use row::{Row, Value};
pub(crate) use text::{Line, excerpt, for_each_line, open};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    JsonLines,
    JsonArray,
    /// One JSON object, each member a record of two fields: its name and its value.
    JsonObject,
    /// Comma-separated values below a line that names the columns.
    Csv,
    /// A pickled Python list of dictionaries of plain data.
    Pickle,
    Parquet,
    /// Lines of fields separated by white space, in the order that the format defines.
    Lines {
        /// True if the first line names the fields.
        header: bool,
    },
}

impl Encoding {
    /// Returns whether rows are text that can be copied from file to file.
    pub(crate) fn is_text(self) -> bool {
        !matches!(self, Self::Pickle | Self::Parquet)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Texts with codes.
    Pairs,
    Queries,
    Documents,
    Judgments,
    Labels,
    /// Ranked documents of a system.
    Rankings,
}

impl RecordKind {
    /// Plural name of the records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Queries => "queries",
            Self::Documents => "documents",
            Self::Judgments => "judgments",
            Self::Labels => "labels",
            Self::Rankings => "results",
        }
    }
}

/// Consumes the records of a row.
pub(crate) type Sink<'a> = dyn FnMut(Record) -> Result<(), FormatError> + 'a;

#[derive(Debug)]
pub struct Format {
    pub name: &'static str,
    /// Contents and publisher.
    pub about: &'static str,
    pub holds: RecordKind,
    /// Encoding in which it is published and written.
    pub container: Encoding,
    /// Fields of its records, in the order of columns. Other fields are ignored.
    pub fields: &'static [Field],
    /// A part of the usual file names, which disambiguates formats with the same fields.
    pub(crate) hint: &'static str,
    pub(crate) read: fn(&Row<'_>, &mut Sink<'_>) -> Result<(), FormatError>,
    /// The values of `fields` for the n-th record (0-based); `None` for records that the format cannot represent.
    pub(crate) write: Option<WriteRecord>,
    /// For [`Encoding::Lines`]: splits a line into values. `None` for a line that names the columns.
    pub(crate) split: Option<SplitLine>,
}

impl Format {
    /// Defaults of formats.
    pub(crate) const BASE: Self = Self {
        name: "",
        about: "",
        holds: RecordKind::Pairs,
        container: Encoding::JsonLines,
        fields: &[],
        hint: "",
        read: |_, _| Ok(()),
        write: None,
        split: None,
    };

    /// The line that names the columns, if files of this format begin with one.
    pub(crate) fn header(&self) -> Option<String> {
        let separator = match self.container {
            Encoding::Csv => ",",
            Encoding::Lines { header: true } => "\t",
            _ => return None,
        };
        Some(self.fields.iter().map(|field| field.name).collect::<Vec<_>>().join(separator))
    }

    /// Returns whether records can be written in it.
    pub fn is_writable(&self) -> bool {
        self.write.is_some()
    }
}

pub(crate) type WriteRecord = fn(&Record, usize) -> Option<Vec<Value<'static>>>;
pub(crate) type SplitLine = for<'a> fn(&Line<'a>) -> Result<Option<Vec<Value<'a>>>, FormatError>;

/// All formats. If several match a file equally well, the first is chosen.
pub static FORMATS: &[&Format] = &[
    &cosqa::QA,
    &cosqa::RETRIEVAL,
    &cosqa::CODES,
    &query_code::PAIRS,
    &webquery::PAIRS,
    &webquery::ANSWERS,
    &codesearchnet::FUNCTIONS,
    &codesearchnet::HUGGINGFACE,
    &codesearchnet::DEFINITIONS,
    &csn99::ANNOTATIONS,
    &csn99::QUERIES,
    &advtest::FUNCTIONS,
    &advtest::PREDICTIONS,
    &gecs::PAIRS,
    &statcodesearch::TABLE,
    &statcodesearch::JSON,
    &cosqa_plus::PAIRS,
    &cosqa_plus::QUERIES,
    &cosqa_plus::CODES,
    &query4code::PAIRS,
    &query4code::ANNOTATIONS,
    &beir::QUERIES,
    &beir::CORPUS,
    &huggingface::QUERIES,
    &huggingface::CORPUS,
    &huggingface::COIR_QRELS,
    &huggingface::MTEB_QRELS,
    &huggingface::TOP_RANKED,
    &qrels::BEIR,
    &qrels::TREC,
    &run::TREC,
    &repo_search::TABLE,
];

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    pub id: String,
    pub title: String,
    pub text: String,
    pub language: Option<String>,
    /// Path and first line in its repository, as `src/a.py:12`, if the data state it.
    pub location: Option<String>,
}

impl Document {
    /// A name for display: location and title, or the id without both.
    pub fn label(&self) -> String {
        let parts = [self.location.as_deref().unwrap_or_default(), self.title.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() { self.id.clone() } else { parts.join(" ") }
    }

    /// A document without a title.
    pub fn new(id: String, text: String) -> Self {
        Self { id, text, ..Self::default() }
    }

    /// Name of the programming language, as in [`quarry_source::Language::name`] if known: the one stated in the
    /// data, otherwise that of a path or URL in the id, with or without lines after it (`src/a.rs:1-9`,
    /// `…/a.py#L1-L9`).
    pub fn language_name(&self) -> Option<Cow<'_, str>> {
        if let Some(said) = self.language.as_deref().filter(|said| !said.trim().is_empty()) {
            let known = language_called(said.trim()).map(|language| language.name().into());
            return Some(known.unwrap_or_else(|| said.trim().to_lowercase().into()));
        }
        let path = self.id.split(['#', '?']).next().unwrap_or_default();
        let lines = |(_, lines): &(&str, &str)| lines.starts_with(|first: char| first.is_ascii_digit());
        let path = path.rsplit_once(':').filter(lines).map_or(path, |(path, _)| path);
        Some(language_for(Path::new(path), &[])?.name().into())
    }

    /// The text to index: title and text joined by a space, as in BEIR; without a title, the text alone, unchanged.
    pub fn full_text(&self) -> Cow<'_, str> {
        if self.title.is_empty() {
            (&self.text).into()
        } else {
            format!("{} {}", self.title, self.text).into()
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub id: String,
    pub text: String,
}

/// The reason why a file of a data set could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error("{}: cannot be read: expected a readable file there; check the path and its permissions", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: cannot be written; check the directory, its permissions and the free space", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{}:{line}: expected {expected}, found {found}; {remedy}", path.display())]
    Line { path: PathBuf, line: usize, expected: String, found: String, remedy: String },
    /// One record of a file without lines is malformed.
    #[error("{}: record {record}: expected {expected}, found {found}; {remedy}", path.display())]
    Record { path: PathBuf, record: usize, expected: String, found: String, remedy: String },
    /// The file as a whole, or a record without a line of its own, is malformed.
    #[error("{}: expected {expected}, found {found}; {remedy}", path.display())]
    File { path: PathBuf, expected: String, found: String, remedy: String },
}

impl FormatError {
    /// The error for a file without what it should have.
    pub(crate) fn empty(path: &Path, expected: &str, found: &str) -> Self {
        let remedy = "check that this is the right file".into();
        Self::File { path: path.to_owned(), expected: expected.into(), found: found.into(), remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_precedes_the_text() {
        let document =
            |title: &str| Document { title: title.into(), ..Document::new("d".into(), " x\n".into()) };
        assert_eq!(document("t").full_text(), "t  x\n");
        assert_eq!(document("").full_text(), " x\n");
    }

    #[test]
    fn the_language_comes_from_the_data_or_the_file_name() {
        for (said, id, expected) in [
            (Some("Golang"), "a.py", Some("go")),
            (Some(" COBOL "), "1", Some("cobol")),
            (Some(""), "src/a.rs:1-9", Some("rust")),
            (None, "src/a.rs:1-9+1", Some("rust")),
            (None, "https://github.com/o/n/blob/0a1b/lib/x.rb#L1-L9", Some("ruby")),
            (None, "lib/x.php", Some("php")),
            (None, "cosqa-dev-1", None),
            (None, "7", None),
        ] {
            let language = said.map(str::to_owned);
            let document = Document { language, ..Document::new(id.into(), String::new()) };
            assert_eq!(document.language_name().as_deref(), expected, "{said:?} {id}");
        }
    }
}
