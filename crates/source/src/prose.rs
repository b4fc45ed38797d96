//! Splits prose into sections, and finds the code in it.

use std::ops::Range;
use std::time::Duration;

use crate::definition::{Definition, Structure};
use crate::embedded::Block;
use crate::language::{Language, language_called};
use crate::line::Lines;
use crate::unit::{MAX_NAME_BYTES, References, UnitKind, truncate};
use crate::{asciidoc, markdown, restructuredtext};

/// How headings and code are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prose {
    Markdown,
    ReStructuredText,
    AsciiDoc,
}

impl Prose {
    /// The sections of a text, each from its heading to the next heading of any level; `None` if finding them takes
    /// longer than `time`. `headings` are those above the text, and become those at its end.
    pub fn find_sections(self, lines: &Lines, time: Duration, headings: &mut Headings) -> Option<Structure> {
        match self {
            Self::Markdown => markdown::find_sections(lines, time, headings),
            Self::ReStructuredText => Some(restructuredtext::find_sections(lines, headings)),
            Self::AsciiDoc => Some(asciidoc::find_sections(lines, headings)),
        }
    }

    /// The blocks of code that is in a language with a grammar, ascending; without what is not found within `time`.
    pub fn find_blocks(self, source: &[u8], time: Duration) -> Vec<Block> {
        match self {
            Self::Markdown => markdown::find_fences(source, time),
            Self::ReStructuredText => restructuredtext::find_blocks(source),
            Self::AsciiDoc => asciidoc::find_blocks(source),
        }
    }
}

/// The headings above the current position in a document.
#[derive(Default)]
pub(crate) struct Headings {
    /// Levels and titles, outermost first.
    open: Vec<(usize, String)>,
    /// How the headings of each level are marked, where a document decides that by their order.
    pub styles: Vec<(u8, bool)>,
}

impl Headings {
    /// Name of the section that they begin.
    pub fn name(&self) -> String {
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
    /// Of a text of `end` bytes.
    pub fn new(headings: &'a mut Headings, end: usize) -> Self {
        Self { headings, definitions: Vec::new(), end }
    }

    /// The headings up to here.
    pub fn headings(&mut self) -> &mut Headings {
        self.headings
    }

    /// Begins a section of a level, which ends the one before.
    pub fn begin(&mut self, start: usize, level: usize, mut title: String) {
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

    pub fn finish(self) -> Structure {
        Structure { definitions: self.definitions, ..Structure::default() }
    }
}

/// The language of a block of code by its name in the document, if it has a grammar.
pub(crate) fn code_language(name: &str) -> Option<Language> {
    language_called(name.trim()).filter(|language| language.grammar().is_some())
}

/// A block of whole rows of code, below rows that mark it.
pub(crate) fn block_of_rows(
    lines: &Lines,
    language: Language,
    mark: usize,
    code: Range<usize>,
    end: usize,
) -> Block {
    Block {
        bytes: lines.start(mark)..lines.start(end),
        code: lines.start(code.start)..lines.start(code.end),
        gutters: Vec::new(),
        language,
        has_units: false,
        references: References::default(),
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Checks the names and starts of the sections of a text.
    #[track_caller]
    pub(crate) fn check_sections(prose: Prose, source: &[u8], expected: &[(&str, usize)]) {
        let lines = Lines::new(source);
        let structure = prose.find_sections(&lines, Duration::MAX, &mut Headings::default());
        let sections: Vec<_> = structure
            .iter()
            .flat_map(|structure| &structure.definitions)
            .map(|d| (d.name.as_str(), d.bytes.start))
            .collect();
        assert_eq!(sections, expected);
    }

    /// Checks the languages and texts of the blocks of code in a text.
    #[track_caller]
    pub(crate) fn check_blocks(prose: Prose, source: &str, expected: &[(&str, &str)]) {
        let found = prose.find_blocks(source.as_bytes(), Duration::MAX);
        let found: Vec<_> =
            found.iter().map(|block| (block.language.name(), &source[block.code.clone()])).collect();
        assert_eq!(found, expected, "{source}");
    }
}
