//! How long units may be.

use std::ops::Range;

use crate::line::Lines;

/// Most lines of a function, method or type in one unit; a longer one becomes several.
pub const MAX_DEFINITION_LINES: usize = 200;
/// Most lines of any other unit.
pub const MAX_WINDOW_LINES: usize = 60;
/// As many bytes as a window has at most when its lines are of usual length.
const MAX_WINDOW_BYTES: usize = 8 << 10;
/// Most bytes of a unit of any kind: minified files have few lines.
pub const MAX_UNIT_BYTES: usize = 32 << 10;

/// Whether a definition is to be cut into parts.
pub(crate) fn is_long(lines: &Lines, bytes: &Range<usize>) -> bool {
    bytes.len() > MAX_UNIT_BYTES || lines.row(bytes.end) - lines.row(bytes.start) >= MAX_DEFINITION_LINES
}

/// Whether code is short enough to be best left in one unit with what surrounds it.
pub(crate) fn fits_window(lines: &Lines, bytes: &Range<usize>) -> bool {
    bytes.len() <= MAX_WINDOW_BYTES && lines.row(bytes.end) - lines.row(bytes.start) < MAX_WINDOW_LINES
}
