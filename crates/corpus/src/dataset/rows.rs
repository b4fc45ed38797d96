//! Copies some of the rows of a file unchanged.

use crate::formats::source::Source;
use crate::formats::write::Writer;
use crate::formats::{FormatError, Row};
use std::path::Path;

pub(crate) struct RowWriter(Writer);

impl RowWriter {
    pub(crate) fn create(path: &Path, source: &Source) -> Result<Self, FormatError> {
        Writer::create(path, source.format, source.container, source.header()?).map(Self)
    }

    pub(crate) fn write(&mut self, row: &Row<'_>) -> Result<(), FormatError> {
        self.0.write_text(row.line.text)
    }

    pub(crate) fn finish(self) -> Result<(), FormatError> {
        self.0.finish().map(drop)
    }
}

/// Checks that rows of a file can be copied unchanged.
pub(crate) fn writable(source: &Source) -> Result<(), FormatError> {
    if source.container.is_text() {
        return Ok(());
    }
    Err(FormatError::File {
        path: source.path.clone(),
        expected: "a text file, whose rows can be copied".into(),
        found: "a packed one".into(),
        remedy: "turn it into JSON lines first, with quarry data convert".into(),
    })
}
