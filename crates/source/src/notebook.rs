//! Reads Jupyter notebooks: JSON in, cells out, with their lines in the file.
//!
//! serde_json validates the JSON. It does not report the positions of values in the file, so [`json`] locates them,
//! and may assume that brackets and quotes match.

use std::borrow::Cow;
use std::iter;
use std::ops::Range;
use std::time::Instant;

use serde::de::IgnoredAny;

use crate::json;
use crate::language::{Language, language_named};
use crate::magic::{CellMagic, cell_language};
use crate::parse::{self, Part};
use crate::section::Headings;
use crate::unit::{Extraction, Limits, MAX_SYNTAX_DIAGNOSTICS, References, UnitKind};

/// The reason why a notebook cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NotebookError {
    /// Not JSON; the message has line and column.
    #[error("a notebook must be JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// There is no list of cells.
    #[error("a notebook must have a list of `cells` (nbformat 4) or `worksheets` (nbformat 3)")]
    NoCells,
    /// A cell is not an object.
    #[error("line {line}: a cell must be an object")]
    NotACell {
        /// Line of the file, 1-based.
        line: u32,
    },
    /// A source is neither a string nor a list of strings.
    #[error("line {line}: the source of a cell must be a string or a list of strings")]
    NotASource {
        /// Line of the file, 1-based.
        line: u32,
    },
}

/// The metadata of a notebook's text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Notebook {
    /// The lines of the text, ascending.
    lines: Vec<TextLine>,
    /// Ascending and disjoint.
    cells: Vec<Cell>,
    /// Number of lines of the file.
    pub n_lines: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct TextLine {
    /// Its first byte in the text.
    start: usize,
    /// Line of the file, 1-based.
    number: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Cell {
    /// Byte range in the text.
    bytes: Range<usize>,
    language: Language,
    /// Length of the cell magic at its start, such as `%%bash` with its line.
    magic_bytes: usize,
}

impl Notebook {
    /// The text of a notebook and its metadata. Outputs and raw cells are omitted, as are cells and source strings
    /// of the wrong type, which are an error only if nothing else remains.
    pub(crate) fn read(file: &[u8]) -> Result<(Vec<u8>, Self), NotebookError> {
        // NUL has no use in JSON; replacing it by a space keeps the length, so that lines stay in place.
        let without_nul = memchr::memchr(0, file)
            .map(|_| file.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).collect::<Vec<u8>>());
        let file = without_nul.as_deref().unwrap_or(file);
        let start = if file.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        serde_json::from_slice::<IgnoredAny>(&file[start..])?;
        let (mut cells, mut worksheets, mut metadata, mut version) = (None, None, None, 4);
        for (key, value) in values(file, start) {
            match &*key {
                "cells" => cells = Some(value),
                "worksheets" => worksheets = Some(value),
                "metadata" => metadata = Some(value),
                "nbformat" => version = serde_json::from_slice(&file[value]).unwrap_or(version),
                _ => {}
            }
        }
        let is_list = |value: &Range<usize>| file[value.start] == b'[';
        let mut lists = Vec::new();
        if let Some(cells) = cells.filter(is_list) {
            lists.push(cells);
        } else if let Some(worksheets) = worksheets.filter(is_list) {
            for worksheet in json::elements(file, worksheets.start) {
                let found = values(file, worksheet.start).filter(|(key, _)| key == "cells");
                lists.extend(found.map(|(_, value)| value).filter(is_list));
            }
        } else {
            return Err(NotebookError::NoCells);
        }
        let metadata = metadata.map_or(file.len(), |value: Range<usize>| value.start);
        let mut text = TextBuilder {
            file,
            has_line_ends: version >= 3,
            counted: (0, 1),
            bytes: Vec::new(),
            notebook: Self { lines: Vec::new(), cells: Vec::new(), n_lines: 0 },
            language: notebook_language(file, metadata),
            markdown: language_named("markdown"),
            problem: None,
        };
        for cells in lists {
            for cell in json::elements(file, cells.start) {
                text.add_cell(cell);
            }
        }
        if let Some(problem) = text.problem.take_if(|_| text.notebook.cells.is_empty()) {
            return Err(problem);
        }
        let n_lines = text.line(file.trim_ascii_end().len());
        Ok((text.bytes, Self { n_lines, ..text.notebook }))
    }

    /// The lines of a text whose numbers in the file are known, without cells.
    pub(crate) fn from_lines(text: &[u8], numbers: &[u32]) -> Self {
        let after_newlines =
            text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let starts = iter::once(0).chain(after_newlines);
        let lines = starts.zip(numbers).map(|(start, &number)| TextLine { start, number }).collect();
        Self { lines, cells: Vec::new(), n_lines: numbers.last().copied().unwrap_or_default() }
    }

    /// The line of the file for each line of the text.
    pub(crate) fn line_numbers(&self) -> impl Iterator<Item = u32> {
        self.lines.iter().map(|line| line.number)
    }

    pub(crate) fn line_number(&self, index: usize) -> u32 {
        self.lines.get(index).or(self.lines.last()).map_or(1, |line| line.number)
    }

    pub(crate) fn line_indexes(&self, bytes: Range<usize>) -> Range<usize> {
        let end = self.lines.partition_point(|line| line.start < bytes.end);
        self.line_index(bytes.start).min(end)..end
    }

    /// The 0-based line of the text that contains a byte.
    fn line_index(&self, byte: usize) -> usize {
        self.lines.partition_point(|line| line.start <= byte).saturating_sub(1)
    }

    /// Splits the cells of `text` into units, each separately, so that a broken one does not affect the others. All
    /// cells share the time limit of one file. Fills `references`, if any; the calls have no unit yet.
    pub(crate) fn extract(
        &self,
        text: &[u8],
        limits: &Limits,
        mut references: Option<&mut References>,
    ) -> Extraction {
        let begun = Instant::now();
        let mut all = Extraction::default();
        let mut headings = Headings::default();
        for Cell { bytes, language, magic_bytes } in &self.cells {
            let Some(source) = text.get(bytes.clone()) else { continue };
            let parse_time = limits.parse_time.saturating_sub(begun.elapsed());
            let limits = Limits { parse_time, ..*limits };
            let code = CellMagic::blanked(source, *magic_bytes);
            let code = parse::without_line_magics(*language, code, &limits);
            let part = Part { language: *language, source, code: &code };
            let section = headings.name();
            let mut found_references = references.is_some().then(References::default);
            let mut found = parse::read(part, &limits, found_references.as_mut(), &mut headings);
            if found.units.len() > 1 && found.units[0].bytes.end <= *magic_bytes {
                // A lone kernel command is not worth indexing.
                found.units.remove(0);
                let parents = found.units.iter_mut().filter_map(|unit| unit.parent.as_mut());
                parents.for_each(|parent| *parent = parent.saturating_sub(1));
            }
            let (first_line, first_unit) = (self.line_index(bytes.start), all.units.len());
            if let (Some(references), Some(found)) = (references.as_deref_mut(), found_references) {
                let line = |line: u32| self.line_number(first_line + line as usize - 1);
                references.append(found, bytes.start, line);
            }
            // Text above the first heading of a cell belongs to the section of the cells before it.
            let rest = found.units.iter_mut().take_while(|unit| unit.name.is_empty());
            rest.filter(|unit| unit.kind == UnitKind::Section)
                .for_each(|unit| unit.name.clone_from(&section));
            for mut unit in found.units {
                for span in iter::once(&mut unit.bytes).chain(&mut unit.doc_bytes) {
                    *span = span.start + bytes.start..span.end + bytes.start;
                }
                unit.parent = unit.parent.map(|parent| parent + first_unit);
                unit.start_line = self.line_number(first_line + unit.start_line as usize - 1);
                unit.end_line = self.line_number(first_line + unit.end_line as usize - 1);
                all.units.push(unit);
            }
            for mut diagnostic in found.diagnostics {
                diagnostic.line = self.line_number(first_line + diagnostic.line as usize - 1);
                if all.diagnostics.len() < MAX_SYNTAX_DIAGNOSTICS {
                    all.diagnostics.push(diagnostic);
                }
            }
        }
        all
    }
}

/// The default language of cells: Python if the notebook names none, plain text if its language is unknown.
fn notebook_language(file: &[u8], metadata: usize) -> Option<Language> {
    let paths = [["kernelspec", "language"], ["language_info", "name"], ["language_info", "file_extension"]];
    let names = paths.iter().filter_map(|path| text_at(file, metadata, path));
    let mut names = names.filter(|name| !name.is_empty()).peekable();
    if names.peek().is_none() {
        return language_named("python");
    }
    names.find_map(|name| cell_language(&name)).or_else(|| language_named("text"))
}

/// The values of the object at `start` with their keys; a key that is not text is empty.
fn values(file: &[u8], start: usize) -> impl Iterator<Item = (Cow<'_, str>, Range<usize>)> {
    json::members(file, start).map(|(key, value)| (json::string(file, key).unwrap_or_default(), value))
}

/// The string at the path of keys `path` in the object at `start`.
fn text_at<'a>(file: &'a [u8], mut start: usize, path: &[&str]) -> Option<Cow<'a, str>> {
    for wanted in path {
        start = values(file, start).find(|(key, _)| key == wanted)?.1.start;
    }
    let value = json::value_at(file, start)?;
    json::string(file, value)
}

/// Builds the text of a notebook.
struct TextBuilder<'a> {
    file: &'a [u8],
    /// True if the strings of a list end with the line ends of the source; before nbformat 3 they did not.
    has_line_ends: bool,
    /// An offset in the file and its line, from which line counting continues.
    counted: (usize, u32),
    bytes: Vec<u8>,
    notebook: Notebook,
    language: Option<Language>,
    markdown: Option<Language>,
    /// The first part that was omitted because it has the wrong type.
    problem: Option<NotebookError>,
}

impl TextBuilder<'_> {
    /// Adds a cell of the file if it is code or Markdown and not empty.
    fn add_cell(&mut self, cell: Range<usize>) {
        let file = self.file;
        if file[cell.start] != b'{' {
            let line = self.line(cell.start);
            self.problem.get_or_insert(NotebookError::NotACell { line });
            return;
        }
        let (mut kind, mut source, mut language, mut level) = (None, None, None, None);
        for (key, value) in values(file, cell.start) {
            match &*key {
                "cell_type" => kind = json::string(file, value),
                // Code of nbformat 3 is an `input`.
                "source" | "input" => source = Some(value),
                "language" => language = json::string(file, value),
                "level" => level = serde_json::from_slice::<usize>(&file[value]).ok(),
                // Visual Studio Code records it here if it differs from the notebook's language.
                "metadata" => language = text_at(file, value.start, &["vscode", "languageId"]).or(language),
                _ => {}
            }
        }
        let Some(source) = source else { return };
        let language = language.and_then(|name| cell_language(&name)).or(self.language);
        match kind.as_deref() {
            Some("code") => self.add_source(source, "", language),
            Some("markdown") => self.add_source(source, "", self.markdown),
            // A heading cell of nbformat 3.
            Some("heading") => {
                let marker = "#".repeat(level.unwrap_or(1).clamp(1, 6)) + " ";
                self.add_source(source, &marker, self.markdown)
            }
            _ => {}
        }
    }

    /// Adds a source of the file with `marker` before it.
    fn add_source(&mut self, source: Range<usize>, marker: &str, language: Option<Language>) {
        let pieces = self.pieces(source);
        let Some(language) = language else { return };
        let Some((_, first_line)) = pieces.iter().find(|(piece, _)| !piece.is_empty()) else { return };
        self.end_cell();
        let start = self.bytes.len();
        self.add_piece(marker, *first_line);
        let last = pieces.len() - 1;
        for (index, (piece, line)) in pieces.iter().enumerate() {
            self.add_piece(piece, *line);
            if !self.has_line_ends && index < last {
                self.add_piece("\n", *line);
            }
        }
        let bytes = start..self.bytes.len();
        let magic = CellMagic::parse(&self.bytes[bytes.clone()], language);
        self.notebook.cells.push(Cell { bytes, language: magic.language, magic_bytes: magic.bytes });
    }

    /// The strings of a source, which is one string or a list of them, with their line numbers. A NUL, which would
    /// make the text binary, becomes a replacement character.
    fn pieces(&mut self, source: Range<usize>) -> Vec<(String, u32)> {
        let file = self.file;
        let spans = match file[source.start] {
            b'[' => json::elements(file, source.start).collect(),
            _ => vec![source],
        };
        let mut pieces = Vec::with_capacity(spans.len());
        for span in spans {
            let (line, is_null) = (self.line(span.start), file[span.start] == b'n');
            match json::string(file, span) {
                Some(text) => pieces.push((text.replace('\0', "\u{fffd}"), line)),
                None if is_null => {}
                None => {
                    self.problem.get_or_insert(NotebookError::NotASource { line });
                }
            }
        }
        pieces
    }

    /// Ends the last line of the previous cell and adds an empty line.
    fn end_cell(&mut self) {
        let Some(&TextLine { number, .. }) = self.notebook.lines.last() else { return };
        if !self.bytes.ends_with(b"\n") {
            self.add_piece("\n", number);
        }
        self.add_piece("\n", number);
    }

    /// Adds text from one line of the file.
    fn add_piece(&mut self, piece: &str, number: u32) {
        for line in piece.split_inclusive('\n') {
            if self.bytes.last().is_none_or(|&byte| byte == b'\n') {
                self.notebook.lines.push(TextLine { start: self.bytes.len(), number });
            }
            self.bytes.extend_from_slice(line.as_bytes());
        }
    }

    /// The line of an offset in the file, which must not be before the previous one.
    fn line(&mut self, byte: usize) -> u32 {
        let (from, line) = self.counted;
        let newlines = memchr::memchr_iter(b'\n', &self.file[from.min(byte)..byte]).count();
        self.counted = (byte.max(from), line.saturating_add(u32::try_from(newlines).unwrap_or(u32::MAX)));
        self.counted.1
    }
}
