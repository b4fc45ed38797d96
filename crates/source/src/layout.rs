//! Splits a file into units: definitions, the lines between them, and parts of long definitions.

use std::iter::Peekable;
use std::ops::Range;
use std::vec;

use crate::definition::{Definition, Structure};
use crate::language::Language;
use crate::line::{Lines, line_number};
use crate::size::{MAX_DEFINITION_LINES, MAX_UNIT_BYTES, MAX_WINDOW_LINES};
use crate::unit::{Unit, UnitKind};

/// Code beside a unit on its line, such as a `;`, becomes a unit of its own only if it has more bytes than this.
const MAX_REST_BYTES: usize = 200;

/// The units of a file: together they hold every line that is not blank. Code outside definitions becomes
/// units of the kind `between`.
pub(crate) fn lay_out(
    language: Language,
    lines: &Lines,
    structure: Structure,
    between: UnitKind,
) -> Vec<Unit> {
    let mut layout = Layout {
        language,
        lines,
        row_depths: structure.row_depths,
        test_bytes: structure.test_bytes.into_iter().peekable(),
        units: Vec::new(),
    };
    let length = lines.source().len();
    let mut position = lines.start(0);
    let mut file = Open { end: length, head: None, kind: between, name: String::new(), parent: None };
    let mut open: Vec<Open> = Vec::new();
    for definition in structure.definitions {
        let bytes = definition.bytes.clone();
        while let Some(mut container) = open.pop_if(|container| container.end <= bytes.start) {
            let end = container.end;
            layout.add_gap(&mut container, position..end, false);
            position = position.max(end);
        }
        let container = open.last_mut().unwrap_or(&mut file);
        layout.add_gap(container, position..bytes.start, true);
        let parent = container.parent;
        let (kind, name) = (definition.kind, definition.name.clone());
        if definition.is_open {
            position = bytes.start;
            let (kind, name) =
                if kind == UnitKind::Type { (UnitKind::Module, String::new()) } else { (kind, name) };
            open.push(Open { end: bytes.end, head: Some(definition), kind, name, parent });
        } else {
            position = bytes.end;
            layout.add(bytes, kind, &name, parent, Some(definition));
        }
    }
    while let Some(mut container) = open.pop() {
        let end = container.end;
        layout.add_gap(&mut container, position..end, false);
        position = position.max(end);
    }
    layout.add_gap(&mut file, position..length, false);
    layout.units
}

/// A container whose definitions are units of their own.
struct Open {
    end: usize,
    /// Description of the unit that holds its beginning, until that unit takes it.
    head: Option<Definition>,
    /// Kind and name of its other units.
    kind: UnitKind,
    name: String,
    /// Index of the unit that holds its beginning; until there is one, the `parent` of the container around it.
    parent: Option<usize>,
}

struct Layout<'a> {
    language: Language,
    lines: &'a Lines<'a>,
    /// See [`Structure::row_depths`].
    row_depths: Vec<u16>,
    /// The [`Structure::test_bytes`] that extend beyond the last unit.
    test_bytes: Peekable<vec::IntoIter<Range<usize>>>,
    units: Vec<Unit>,
}

impl Layout<'_> {
    /// Adds the code of `container` between two of its definitions, or between one of them and its start or end.
    fn add_gap(&mut self, container: &mut Open, bytes: Range<usize>, is_before_unit: bool) {
        if let Some(head) = container.head.take() {
            let name = head.name.clone();
            let index = self.units.len();
            self.add(bytes, head.kind, &name, container.parent, Some(head));
            if index < self.units.len() {
                container.parent = Some(index);
            }
            return;
        }
        let Range { mut start, mut end } = bytes;
        let row = self.lines.range(self.lines.row(start));
        if start > row.start && row.end - start <= MAX_REST_BYTES {
            start = row.end;
        }
        let row = self.lines.range(self.lines.row(end));
        if is_before_unit && end - row.start <= MAX_REST_BYTES {
            end = row.start;
        }
        if start < end {
            self.add(start..end, container.kind, &container.name, container.parent, None);
        }
    }

    /// Splits `bytes` into units and adds them; `head` describes the first.
    fn add(
        &mut self,
        bytes: Range<usize>,
        kind: UnitKind,
        name: &str,
        mut parent: Option<usize>,
        mut head: Option<Definition>,
    ) {
        let max_rows = match kind {
            UnitKind::Function | UnitKind::Method | UnitKind::Type => MAX_DEFINITION_LINES,
            UnitKind::Module | UnitKind::Section => MAX_WINDOW_LINES,
        };
        let source = self.lines.source();
        let text = source[bytes.clone()].trim_ascii_end();
        let bytes = bytes.start..bytes.start + text.len();
        let mut position = bytes.end - text.trim_ascii_start().len();
        while position < bytes.end {
            let row = self.lines.row(position);
            let end = self.part_end(row..self.lines.row(bytes.end - 1) + 1, max_rows).min(bytes.end);
            // The indentation of a part's first line is kept, so that its lines stay aligned.
            let mut start = bytes.start.max(self.lines.start(row));
            while start < end {
                let piece_end = piece_end(source, start..end);
                let had_head = head.is_some();
                self.push(start..piece_end, kind, name, parent, &mut head);
                if had_head && head.is_none() {
                    parent = Some(self.units.len() - 1);
                }
                start = piece_end;
            }
            position = bytes.end - source[end..bytes.end].trim_ascii_start().len();
        }
    }

    /// The row that ends a part beginning with `rows`: the next one begins as high in the tree as possible, after a
    /// blank line if possible, and such that the parts have about equal lengths.
    fn part_end(&self, rows: Range<usize>, max_rows: usize) -> usize {
        let max_end = self.lines.start(rows.start) + MAX_UNIT_BYTES;
        let mut limit = rows.end.min(rows.start + max_rows);
        while limit > rows.start + 1 && self.lines.start(limit) > max_end {
            limit -= 1;
        }
        if limit == rows.end {
            return self.lines.start(limit);
        }
        let target = rows.len().div_ceil(rows.len().div_ceil(limit - rows.start));
        let cost = |row: &usize| {
            let depth = self.row_depths.get(*row).copied().unwrap_or(u16::MAX);
            (depth, !self.lines.is_blank(row - 1), row.abs_diff(rows.start + target))
        };
        let end = (rows.start + target.div_ceil(2)..=limit).min_by_key(cost).unwrap_or(limit);
        self.lines.start(end)
    }

    fn push(
        &mut self,
        bytes: Range<usize>,
        kind: UnitKind,
        name: &str,
        parent: Option<usize>,
        head: &mut Option<Definition>,
    ) {
        let text = self.lines.source()[bytes.clone()].trim_ascii_end();
        if text.is_empty() {
            return;
        }
        let bytes = bytes.start..bytes.start + text.len();
        let is_test = self.is_test(&bytes);
        let (signature, doc, doc_bytes) =
            head.take().map(|head| (head.signature, head.doc, head.doc_bytes)).unwrap_or_default();
        self.units.push(Unit {
            kind,
            language: self.language,
            name: name.to_owned(),
            signature,
            doc,
            doc_bytes,
            start_line: line_number(self.lines.row(bytes.start)),
            end_line: line_number(self.lines.row(bytes.end - 1)),
            bytes,
            parent,
            is_test,
        });
    }

    /// Returns whether all of `bytes`, which begin after the last unit, except white space are in a test.
    fn is_test(&mut self, bytes: &Range<usize>) -> bool {
        while self.test_bytes.next_if(|test| test.end < bytes.end).is_some() {}
        let first = || bytes.end - self.lines.source()[bytes.clone()].trim_ascii_start().len();
        self.test_bytes.peek().is_some_and(|test| test.start <= first())
    }
}

/// The end of the first unit of `bytes`, which is all of them unless they are one overlong line: such a line
/// is split after white space or punctuation, never within a character.
fn piece_end(source: &[u8], bytes: Range<usize>) -> usize {
    if bytes.len() <= MAX_UNIT_BYTES {
        return bytes.end;
    }
    let limit = bytes.start + MAX_UNIT_BYTES;
    let earliest = bytes.start + MAX_UNIT_BYTES / 2;
    let is_border = |byte: &u8| byte.is_ascii_whitespace() || b";,})]>".contains(byte);
    if let Some(border) = source[earliest..limit].iter().rposition(is_border) {
        return earliest + border + 1;
    }
    let is_character_start = |at: &usize| source[*at] & 0xc0 != 0x80;
    (limit - 3..=limit).rev().find(is_character_start).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use crate::language::language_named;

    use super::*;

    fn units(source: &str) -> Vec<Unit> {
        let text = language_named("text").unwrap();
        lay_out(text, &Lines::new(source.as_bytes()), Structure::default(), UnitKind::Module)
    }

    /// Lines of the units that plain text is split into.
    fn windows(source: &str) -> Vec<(u32, u32)> {
        units(source).iter().map(|unit| (unit.start_line, unit.end_line)).collect()
    }

    #[test]
    fn windows_end_at_blank_lines() {
        assert_eq!(windows(""), []);
        assert_eq!(windows(" \n\t\r\n"), []);
        assert_eq!(windows("\n\na\nb\n\n"), [(3, 4)]);
        assert_eq!(windows(&"x\n".repeat(60)), [(1, 60)]);
        assert_eq!(windows(&"x\n".repeat(61)), [(1, 31), (32, 61)]);
        let paragraph = "x\n".repeat(24) + "\n";
        assert_eq!(windows(&paragraph.repeat(4)), [(1, 49), (51, 99)]);
    }

    #[test]
    fn long_lines_are_cut() {
        for source in ["word ".repeat(20_000), "\u{20ac}".repeat(30_000), "\0".repeat(100_000)] {
            let units = units(&source);
            assert!(units.len() >= 3);
            assert!(units.iter().all(|unit| unit.bytes.len() <= MAX_UNIT_BYTES && unit.end_line == 1));
            let text: String = units.iter().map(|unit| &source[unit.bytes.clone()]).collect();
            assert_eq!(text.replace(' ', ""), source.replace(' ', ""));
        }
    }
}
