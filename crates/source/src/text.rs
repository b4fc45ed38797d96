//! The text of a file: what is split into units, searched for patterns and shown.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use crate::language::{Language, Reader, language_for};
use crate::notebook::{Notebook, NotebookError};
use crate::parse;
use crate::unit::{Extraction, Limits, References};

/// The text of a file, for units, patterns and people alike. For most files that is their content; for a Jupyter
/// notebook it is the source of its code and Markdown cells, without JSON, with an empty line between two cells. Spans
/// of bytes are in the text; lines that are shown to people are those of the file.
///
/// ```
/// use quarry_source::{SourceText, language_named};
///
/// let notebook = br#"{
///  "cells": [{
///   "cell_type": "code",
///   "source": [
///    "def double(x):\n",
///    "    return 2 * x"
///   ]
///  }]
/// }"#;
/// let text = SourceText::read("sums.ipynb".as_ref(), notebook.to_vec()).unwrap();
/// assert_eq!(text.bytes(), b"def double(x):\n    return 2 * x");
/// let unit = &text.extract(language_named("jupyter").unwrap()).units[0];
/// assert_eq!((unit.name.as_str(), unit.language.name()), ("double", "python"));
/// assert_eq!((unit.start_line, unit.end_line), (5, 6));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceText {
    bytes: Vec<u8>,
    notebook: Option<Notebook>,
}

impl SourceText {
    /// The text of the file at `path` (of which only the name counts) that holds `bytes`.
    ///
    /// # Errors
    /// When the name is that of a notebook and the bytes are not one.
    pub fn read(path: &Path, bytes: Vec<u8>) -> Result<Self, NotebookError> {
        if !language_for(path, b"").is_some_and(Language::is_notebook) {
            return Ok(Self { bytes, notebook: None });
        }
        let (bytes, notebook) = Notebook::read(&bytes)?;
        Ok(Self { bytes, notebook: Some(notebook) })
    }

    /// A text that is the content of its file.
    pub fn plain(bytes: Vec<u8>) -> Self {
        Self { bytes, notebook: None }
    }

    /// The text of a notebook whose [`notebook_lines`](Self::notebook_lines) are known, to be shown; it has no cells to
    /// [`extract`](Self::extract).
    pub fn with_lines(bytes: Vec<u8>, lines: &[u32]) -> Self {
        let notebook = Some(Notebook::from_lines(&bytes, lines));
        Self { bytes, notebook }
    }

    /// For a notebook, the line of the file for each line of the text.
    pub fn notebook_lines(&self) -> Option<Vec<u32>> {
        Some(self.notebook.as_ref()?.line_numbers().collect())
    }

    /// The text; not always UTF-8.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The text; bytes that are not UTF-8 are replaced, which changes offsets, but not lines.
    pub fn to_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Line of the file for a line of the text: `index` is counted from 0, the line from 1. Several lines of a
    /// notebook may be on one line of its file.
    pub fn line_number(&self, index: usize) -> u32 {
        match &self.notebook {
            Some(notebook) => notebook.line_number(index),
            None => u32::try_from(index + 1).unwrap_or(u32::MAX),
        }
    }

    /// Number of lines of the file.
    pub fn n_lines(&self) -> u32 {
        match &self.notebook {
            Some(notebook) => notebook.n_lines,
            None => u32::try_from(self.to_str().lines().count()).unwrap_or(u32::MAX),
        }
    }

    /// Lines of the text, counted from 0, of a unit on `lines` of the file whose span is `bytes`.
    pub fn line_indexes(&self, lines: RangeInclusive<u32>, bytes: Range<usize>) -> Range<usize> {
        match &self.notebook {
            Some(notebook) => notebook.line_indexes(bytes),
            None => (*lines.start() as usize).saturating_sub(1)..*lines.end() as usize,
        }
    }

    /// Splits it into units, within the default [`Limits`]: like [`extract`](crate::extract) for a file in
    /// `language`; of a notebook, each cell in its own language.
    pub fn extract(&self, language: Language) -> Extraction {
        let limits = Limits::default();
        match &self.notebook {
            Some(notebook) => notebook.extract(&self.bytes, &limits, None),
            None => parse::read_file(language, &self.bytes, &limits, None),
        }
    }

    /// Like [`extract`](Self::extract), and also finds calls and imports; none of the calls has its unit.
    pub fn extract_with_references(&self, language: Language) -> (Extraction, References) {
        let limits = Limits::default();
        let mut references = References::default();
        let extraction = match &self.notebook {
            Some(notebook) => notebook.extract(&self.bytes, &limits, Some(&mut references)),
            None => parse::read_file(language, &self.bytes, &limits, Some(&mut references)),
        };
        (extraction, references)
    }
}

impl Language {
    /// Returns whether its files are Jupyter notebooks, whose cells have languages of their own.
    pub fn is_notebook(self) -> bool {
        matches!(self.reader(), Reader::Notebook)
    }
}
