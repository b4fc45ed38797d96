//! What results show, read from the tree.

use std::ops::Range;

use quarry_source::SourceText;
use quarry_walk as walk;

use crate::{Error, Hit, Index};

/// The source of a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitSource {
    /// Its text.
    pub text: String,
    /// Lines of the file that the lines of the text are on, 1-based; several of a notebook may be on one.
    pub line_numbers: Vec<u32>,
}

impl Index {
    /// The source of a unit that was found, read from the tree; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn source(&self, hit: &Hit) -> Result<UnitSource, Error> {
        let record = &self.table.units[hit.unit];
        let bytes = record.start_byte as usize..record.end_byte as usize;
        // What is UTF-16 in the file has at most twice the bytes there; a notebook is read as a whole.
        let is_cell = record.language != self.table.file_of(record).language;
        let limit = if is_cell { walk::MAX_FILE_BYTES } else { 2 * u64::from(record.end_byte) + 2 };
        let text = self.read_start(&hit.path, limit)?;
        // Shorter than recorded if it changed since.
        let unit = text.bytes().get(bytes).unwrap_or_default();
        let source = String::from_utf8_lossy(unit).into_owned();
        let line_numbers = self.lines(hit, &text).map(|index| text.line_number(index)).collect();
        Ok(UnitSource { text: source, line_numbers })
    }

    /// The text of the file that a path of a result names, read from the tree, which no link leads out of. What follows the
    /// largest file that can be indexed is left out.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn text(&self, path: &str) -> Result<SourceText, Error> {
        self.read_start(path, walk::MAX_FILE_BYTES)
    }

    /// The lines of a unit that was found in the [`text`](Self::text) of its file, counted from 0.
    #[must_use]
    pub fn lines(&self, hit: &Hit, text: &SourceText) -> Range<usize> {
        let record = &self.table.units[hit.unit];
        text.line_indexes(hit.start_line..=hit.end_line, record.start_byte as usize..record.end_byte as usize)
    }

    fn read_start(&self, path: &str, limit: u64) -> Result<SourceText, Error> {
        walk::read_text(&walk::open(&self.base)?, path, limit)
            .map_err(|source| Error::io("read", &self.absolute_path(path), source))
    }
}
