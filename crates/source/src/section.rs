//! Sections of a document, and the rows of text that mark them.

use crate::definition::{Definition, Structure};
use crate::line::Lines;
use crate::unit::{MAX_NAME_BYTES, UnitKind, truncate};

/// The headings above the current position in a document.
#[derive(Default)]
pub(crate) struct Headings {
    /// Levels and titles, outermost first.
    open: Vec<(usize, String)>,
    /// Marks of the headings of each level, where a document decides them by their order.
    pub styles: Vec<(u8, bool)>,
}

impl Headings {
    /// Name of the section that they begin.
    pub(crate) fn name(&self) -> String {
        let titles: Vec<&str> = self.open.iter().map(|(_, title)| title.as_str()).collect();
        titles.join(" > ")
    }
}

/// Sections that are being found.
pub(crate) struct Sections<'a> {
    headings: &'a mut Headings,
    definitions: Vec<Definition>,
    end: usize,
}

impl<'a> Sections<'a> {
    pub(crate) fn new(headings: &'a mut Headings, end: usize) -> Self {
        Self { headings, definitions: Vec::new(), end }
    }

    /// The headings up to here.
    pub(crate) fn headings(&mut self) -> &mut Headings {
        self.headings
    }

    /// Begins a section of a level, which ends the one before.
    pub(crate) fn begin(&mut self, start: usize, level: usize, mut title: String) {
        truncate(&mut title, MAX_NAME_BYTES);
        let n_outer = self.headings.open.iter().take_while(|(outer, _)| *outer < level).count();
        self.headings.open.truncate(n_outer);
        self.headings.open.push((level, title.clone()));
        if let Some(previous) = self.definitions.last_mut() {
            previous.bytes.end = start;
        }
        self.definitions.push(Definition {
            kind: UnitKind::Section,
            name: self.headings.name(),
            signature: title,
            doc: String::new(),
            doc_bytes: Vec::new(),
            bytes: start..self.end,
            is_open: false,
        });
    }

    pub(crate) fn finish(self) -> Structure {
        Structure { definitions: self.definitions, ..Structure::default() }
    }
}

/// A row as text, without white space at its end.
pub(crate) fn row_text<'a>(lines: &Lines<'a>, row: usize) -> &'a [u8] {
    lines.source()[lines.range(row)].trim_ascii_end()
}

/// The byte that a row consists of, and how often, if it has one character of punctuation only.
pub(crate) fn uniform(row: &[u8]) -> Option<(u8, usize)> {
    let first = *row.first().filter(|byte| byte.is_ascii_punctuation())?;
    row.iter().all(|byte| *byte == first).then_some((first, row.len()))
}

/// Number of characters of a text, which may be invalid UTF-8.
pub(crate) fn n_characters(text: &[u8]) -> usize {
    String::from_utf8_lossy(text).chars().count()
}
