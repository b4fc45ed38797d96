//! Turns source code into searchable units: bytes in, units and diagnostics out, no I/O.

use std::ops::Range;

/// What a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnitKind {
    /// A free function.
    Function,
    /// A function that belongs to a type.
    Method,
    /// A class, struct, trait, interface, enum, ...: its header and what is not a unit of its own.
    Type,
    /// Lines between functions.
    Module,
    /// A section of a text document.
    Section,
}

/// A piece of a file that can be found on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// What it is.
    pub kind: UnitKind,
    /// Qualified name within the file (`Class.method`); empty for module parts.
    pub name: String,
    /// Declaration without body, white space collapsed; empty for module parts.
    pub signature: String,
    /// Docstring or leading comment, markers removed.
    pub doc: String,
    /// Where `doc` stands in the file: byte ranges, ascending, disjoint.
    pub doc_bytes: Vec<Range<usize>>,
    /// Byte range of the unit in the file, leading comment and decorators included.
    pub bytes: Range<usize>,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
}
