//! The byte ranges of the lines of a file.

use std::ops::Range;

/// The lines of a file: rows are 0-based, a row ends after its `\n` or at the end of the file. A byte order mark
/// belongs to no row.
#[derive(Debug)]
pub struct Lines<'source> {
    source: &'source [u8],
    starts: Vec<usize>,
}

impl<'source> Lines<'source> {
    pub fn new(source: &'source [u8]) -> Self {
        let byte_order_mark = if source.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let mut starts = vec![byte_order_mark];
        starts.extend(memchr::memchr_iter(b'\n', source).map(|newline| newline + 1));
        Self { source, starts }
    }

    pub(crate) fn source(&self) -> &'source [u8] {
        self.source
    }

    /// Number of rows, at least one; a file that ends in `\n` has an empty last row.
    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }

    /// First byte of `row`, or the end of the file for a row past the last.
    pub(crate) fn start(&self, row: usize) -> usize {
        self.starts.get(row).copied().unwrap_or(self.source.len())
    }

    /// Byte range of `row`, including the line end.
    pub(crate) fn range(&self, row: usize) -> Range<usize> {
        self.start(row)..self.start(row + 1)
    }

    /// The row that holds `byte`.
    pub fn row(&self, byte: usize) -> usize {
        self.starts.partition_point(|&start| start <= byte).saturating_sub(1)
    }

    pub(crate) fn is_blank(&self, row: usize) -> bool {
        self.source[self.range(row)].trim_ascii().is_empty()
    }
}

/// 1-based line number of a 0-based row.
pub(crate) fn line_number(row: usize) -> u32 {
    u32::try_from(row + 1).unwrap_or(u32::MAX)
}
