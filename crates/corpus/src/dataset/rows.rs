//! Copies some of the rows of a file unchanged.

use crate::formats::FormatError;
use crate::formats::source::Source;
use crate::formats::write::Writer;
use std::path::Path;

/// A file in the format and with the header of a source.
pub(crate) fn row_writer(path: &Path, source: &Source) -> Result<Writer, FormatError> {
    Writer::create(path, source.format, source.container, source.header()?)
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
