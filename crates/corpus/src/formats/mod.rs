//! File formats of retrieval data sets: BEIR folders, TREC runs and qrels, CoSQA, repository search.
//!
//! Every reader has a `parse` function over a [`BufRead`] and a `read` function that opens a file; a wrong
//! line is refused with its file, its number, what was expected and what to do. Blank lines are skipped,
//! line ends may be `\n` or `\r\n`, a byte order mark is ignored.

pub mod beir;
pub mod convert;
pub mod cosqa;
pub mod qrels;
pub mod repo_search;
pub mod run;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// A text that can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Identifier, unique in its corpus.
    pub id: String,
    /// Title, often empty.
    pub title: String,
    /// Body, unchanged.
    pub text: String,
}

impl Document {
    /// What is indexed: title and text with a space between, as BEIR does; the text alone, unchanged, without
    /// a title.
    #[must_use]
    pub fn full_text(&self) -> std::borrow::Cow<'_, str> {
        if self.title.is_empty() {
            (&self.text).into()
        } else {
            format!("{} {}", self.title, self.text).into()
        }
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Identifier, unique in its data set.
    pub id: String,
    /// What is asked.
    pub text: String,
}

/// Why a data set file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The file cannot be read.
    #[error("{}: cannot be read: expected a readable file there; check the path and its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("{}: cannot be written; check the folder, its permissions and the free space", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// One line is wrong.
    #[error("{}:{line}: expected {expected}, found {found}; {remedy}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, 1-based.
        line: usize,
        /// What the format wants there.
        expected: String,
        /// What stands there.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// The file as a whole, or one of its records without a line of its own, is wrong.
    #[error("{}: expected {expected}, found {found}; {remedy}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the format wants.
        expected: String,
        /// What stands there.
        found: String,
        /// What to do.
        remedy: String,
    },
}

/// One line of a text file, with its place for messages.
pub(crate) struct Line<'a> {
    path: &'a Path,
    number: usize,
    /// The line without its end.
    pub(crate) text: &'a str,
}

impl Line<'_> {
    pub(crate) fn error(
        &self,
        expected: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> FormatError {
        FormatError::Line {
            path: self.path.to_owned(),
            line: self.number,
            expected: expected.into(),
            found: found.into(),
            remedy: remedy.into(),
        }
    }
}

/// Calls `each` for every line that is not blank.
pub(crate) fn for_each_line(
    reader: impl BufRead,
    path: &Path,
    mut each: impl FnMut(&Line<'_>) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    for (index, text) in reader.lines().enumerate() {
        let number = index + 1;
        let text = text.map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData => Line { path, number, text: "" }.error(
                "UTF-8 text",
                "bytes that are not UTF-8",
                "convert the file to UTF-8",
            ),
            _ => FormatError::Read { path: path.to_owned(), source },
        })?;
        let text = if index == 0 { text.trim_start_matches('\u{feff}') } else { &text };
        if !text.trim().is_empty() {
            each(&Line { path, number, text })?;
        }
    }
    Ok(())
}

pub(crate) fn open(path: &Path) -> Result<BufReader<File>, FormatError> {
    File::open(path).map(BufReader::new).map_err(|source| FormatError::Read { path: path.to_owned(), source })
}

/// The start of a text, in quotes, short enough for a message.
pub(crate) fn excerpt(text: &str) -> String {
    const LENGTH: usize = 60;
    if text.chars().count() <= LENGTH {
        format!("{text:?}")
    } else {
        format!("{:?}...", text.chars().take(LENGTH).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_stands_before_the_text() {
        let document = |title: &str| Document { id: "d".into(), title: title.into(), text: " x\n".into() };
        assert_eq!(document("t").full_text(), "t  x\n");
        assert_eq!(document("").full_text(), " x\n");
    }

    #[test]
    fn lines_are_numbered_through_blanks_carriage_returns_and_byte_order_marks() {
        let mut seen = Vec::new();
        for_each_line("\u{feff}a\r\n\r\nb".as_bytes(), Path::new("f"), |line| {
            seen.push((line.number, line.text.to_owned()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(1, "a".to_owned()), (3, "b".to_owned())]);
    }

    #[test]
    fn bytes_that_are_not_text_are_refused_with_their_line() {
        let error = for_each_line(&b"a\n\xff\n"[..], Path::new("f"), |_| Ok(())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "f:2: expected UTF-8 text, found bytes that are not UTF-8; convert the file to UTF-8"
        );
    }
}
