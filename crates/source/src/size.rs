//! Limits for the size of units.

use std::ops::Range;

use crate::line::Lines;

/// Maximum lines of a function, method or type in one unit; a longer one becomes several units.
pub const MAX_DEFINITION_LINES: usize = 200;
/// Maximum lines of any other unit.
pub const MAX_WINDOW_LINES: usize = 60;
/// Maximum bytes of a window whose lines have usual lengths.
const MAX_WINDOW_BYTES: usize = 8 << 10;
/// Maximum bytes of a unit of any kind: minified files have few lines.
pub const MAX_UNIT_BYTES: usize = 32 << 10;

/// Returns whether to split a definition into parts.
pub(crate) fn is_long(lines: &Lines, bytes: &Range<usize>) -> bool {
    bytes.len() > MAX_UNIT_BYTES || lines.row(bytes.end) - lines.row(bytes.start) >= MAX_DEFINITION_LINES
}

/// Returns whether code is too short for a unit of its own.
pub(crate) fn fits_window(lines: &Lines, bytes: &Range<usize>) -> bool {
    bytes.len() <= MAX_WINDOW_BYTES && lines.row(bytes.end) - lines.row(bytes.start) < MAX_WINDOW_LINES
}
