//! Code in markup and prose: scripts and styles between tags, fenced code.

use std::ops::Range;
use std::time::Instant;

use crate::block::Block;
use crate::language::{Language, Reader, language_called, language_named};
use crate::line::{Lines, line_number};
use crate::magic;
use crate::parse::{self, Part};
use crate::rules::Embedded;
use crate::section::Headings;
use crate::size::{MAX_UNIT_BYTES, MAX_WINDOW_LINES};
use crate::unit::{Extraction, Limits, MAX_SYNTAX_DIAGNOSTICS, References, Unit, UnitKind};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Splits a file in `language` into units: the text between the blocks, with their delimiters, by the rules of that
/// language, and the code of each block by its own language's rules. All of them share the time limit of one file.
pub(crate) fn extract(
    language: Language,
    source: &[u8],
    limits: &Limits,
    references: Option<&mut References>,
) -> Extraction {
    let begun = Instant::now();
    let blocks = blocks(language, source, limits, &begun, references.is_some());
    let mut reader = EmbeddedReader {
        source,
        lines: Lines::new(source),
        limits,
        begun,
        headings: Headings::default(),
        all: Extraction::default(),
        references,
    };
    // The text around blocks, without their delimiters.
    let mut text = source.to_vec();
    for block in blocks.iter().filter(|block| block.has_units) {
        for mark in [block.bytes.start..block.code.start, block.code.end..block.bytes.end] {
            magic::blank(&mut text[mark], b' ');
        }
    }
    let mut position = 0;
    for block in blocks {
        if !block.has_units {
            reader.add_references(block);
            continue;
        }
        let marks = reader.read_between(language, &text, position..block.code.start);
        let found = reader.cut(block.language, block.code.clone(), &code_of(source, &block));
        if let Some(marks) = marks {
            reader.add_marks(language, &text, marks, found);
        } else {
            reader.add(found);
        }
        position = block.code.end;
    }
    if let Some(marks) = reader.read_between(language, &text, position..source.len()) {
        reader.read(language, marks.clone(), &text[marks]);
    }
    reader.all
}

/// The code of a block, with everything else replaced by spaces.
fn code_of(source: &[u8], block: &Block) -> Vec<u8> {
    let mut code = source[block.code.clone()].to_vec();
    for gutter in &block.gutters {
        magic::blank(&mut code[gutter.start - block.code.start..gutter.end - block.code.start], b' ');
    }
    code
}

/// Units of a part of a file, relative to that part.
struct CutPart {
    /// Start of the part, and the number of lines before it.
    start: usize,
    rows: u32,
    extraction: Extraction,
    references: Option<References>,
}

/// Reads the parts of a file one after the other.
struct EmbeddedReader<'a> {
    source: &'a [u8],
    lines: Lines<'a>,
    limits: &'a Limits,
    begun: Instant,
    headings: Headings,
    all: Extraction,
    references: Option<&'a mut References>,
}

impl EmbeddedReader<'_> {
    /// Limits with the remaining time.
    fn limits(&self) -> Limits {
        Limits { parse_time: self.limits.parse_time.saturating_sub(self.begun.elapsed()), ..*self.limits }
    }

    fn line(&self, byte: usize) -> u32 {
        line_number(self.lines.row(byte))
    }

    /// Splits a part into units; `code` is parsed in place of its text.
    fn cut(&mut self, language: Language, bytes: Range<usize>, code: &[u8]) -> CutPart {
        let part = Part { language, source: &self.source[bytes.clone()], code };
        let mut references = self.references.is_some().then(References::default);
        let section = self.headings.name();
        let mut extraction = parse::read(part, &self.limits(), references.as_mut(), &mut self.headings);
        // Text above the first heading continues the section before the block.
        let rest = extraction.units.iter_mut().take_while(|unit| unit.name.is_empty());
        rest.filter(|unit| unit.kind == UnitKind::Section).for_each(|unit| unit.name.clone_from(&section));
        CutPart { start: bytes.start, rows: self.line(bytes.start) - 1, extraction, references }
    }

    fn add(&mut self, part: CutPart) {
        let CutPart { start, rows, extraction, references } = part;
        let first = self.all.units.len();
        for mut unit in extraction.units {
            for span in std::iter::once(&mut unit.bytes).chain(&mut unit.doc_bytes) {
                *span = span.start + start..span.end + start;
            }
            unit.parent = unit.parent.map(|parent| parent + first);
            unit.start_line += rows;
            unit.end_line += rows;
            self.all.units.push(unit);
        }
        for mut diagnostic in extraction.diagnostics {
            diagnostic.line += rows;
            if self.all.diagnostics.len() < MAX_SYNTAX_DIAGNOSTICS {
                self.all.diagnostics.push(diagnostic);
            }
        }
        if let (Some(all), Some(found)) = (self.references.as_mut(), references) {
            all.append(found, start, |line| line + rows);
        }
    }

    fn read(&mut self, language: Language, bytes: Range<usize>, code: &[u8]) {
        let part = self.cut(language, bytes, code);
        self.add(part);
    }

    /// Splits the text around blocks into units; `text` is the file without their delimiters. If there are only
    /// delimiters, they are added to the previous unit, unless that is a definition; otherwise they are returned.
    fn read_between(&mut self, language: Language, text: &[u8], bytes: Range<usize>) -> Option<Range<usize>> {
        if !text[bytes.clone()].trim_ascii().is_empty() {
            self.read(language, bytes.clone(), &text[bytes]);
            return None;
        }
        let marks = self.source[bytes.clone()].trim_ascii();
        let start = bytes.end - self.source[bytes.clone()].trim_ascii_start().len();
        let marks = start..start + marks.len();
        let end_line = self.line(marks.end.saturating_sub(1));
        match self.all.units.last_mut() {
            _ if marks.is_empty() => None,
            Some(last) if can_extend(last, last.bytes.start..marks.end, last.start_line, end_line) => {
                (last.bytes.end, last.end_line) = (marks.end, end_line);
                None
            }
            _ => Some(bytes),
        }
    }

    /// Adds the units of a block, with the delimiters before it as lines of the first unit, unless that is a
    /// definition.
    fn add_marks(&mut self, language: Language, text: &[u8], marks: Range<usize>, found: CutPart) {
        let start = marks.end - self.source[marks.clone()].trim_ascii_start().len();
        let start_line = self.line(start);
        let holds_marks = found.extraction.units.first().is_some_and(|first| {
            can_extend(first, start..first.bytes.end + found.start, start_line, first.end_line + found.rows)
        });
        if !holds_marks {
            self.read(language, marks.clone(), &text[marks]);
            return self.add(found);
        }
        let first = self.all.units.len();
        self.add(found);
        if let Some(unit) = self.all.units.get_mut(first) {
            (unit.bytes.start, unit.start_line) = (start, start_line);
        }
    }

    /// Adds the calls of a block whose code is part of the text around it.
    fn add_references(&mut self, block: Block) {
        let rows = self.line(block.code.start) - 1;
        if let Some(all) = self.references.as_mut() {
            all.append(block.references, block.code.start, |line| line + rows);
        }
    }
}

/// The blocks of a file, ascending and disjoint, with the references of those without units if these are wanted.
fn blocks(
    language: Language,
    source: &[u8],
    limits: &Limits,
    begun: &Instant,
    with_references: bool,
) -> Vec<Block> {
    // A byte order mark at the beginning of a part would be mistaken for one at the beginning of a file.
    let is_odd = memchr::memmem::rfind(source, BYTE_ORDER_MARK).is_some_and(|at| at > 0);
    if is_odd || source.len() > limits.parse_bytes {
        return Vec::new();
    }
    match language.reader() {
        Reader::Markup => find_tagged(source, language.embedded()),
        Reader::Prose(prose) => {
            let mut blocks = prose.find_blocks(source, limits.parse_time);
            for block in &mut blocks {
                let parse_time = limits.parse_time.saturating_sub(begun.elapsed());
                analyze_block(source, block, &Limits { parse_time, ..*limits }, with_references);
            }
            blocks
        }
        _ => Vec::new(),
    }
}

/// Determines whether a block gets units of its own: a few lines of code belong to the section that explains them.
fn analyze_block(source: &[u8], block: &mut Block, limits: &Limits, with_references: bool) {
    let is_definition =
        |unit: &Unit| matches!(unit.kind, UnitKind::Function | UnitKind::Method | UnitKind::Type);
    let code = code_of(source, block);
    let references = with_references.then_some(&mut block.references);
    block.has_units =
        parse::read_file(block.language, &code, limits, references).units.iter().any(is_definition);
}

/// Returns whether a unit may be extended to lines that are not code.
fn can_extend(unit: &Unit, bytes: Range<usize>, start_line: u32, end_line: u32) -> bool {
    matches!(unit.kind, UnitKind::Module | UnitKind::Section)
        && bytes.len() <= MAX_UNIT_BYTES
        && ((end_line - start_line) as usize) < MAX_WINDOW_LINES
}

/// The blocks between tags, such as `<script lang="ts">` and `</script>`, outside of comments.
fn find_tagged(source: &[u8], embedded: &[Embedded]) -> Vec<Block> {
    let mut blocks = Vec::new();
    // Avoids repeated searches for closing tags that do not occur again.
    let mut unclosed: Vec<&str> = Vec::new();
    let mut position = 0;
    while let Some(at) = memchr::memchr(b'<', &source[position..]) {
        let start = position + at;
        position = start + 1;
        if source[start..].starts_with(b"<!--") {
            let Some(end) = memchr::memmem::find(&source[start..], b"-->") else { break };
            position = start + end;
            continue;
        }
        let Some(rule) = embedded.iter().find(|rule| begins_with_tag(&source[start + 1..], &rule.tag)) else {
            continue;
        };
        let Some(tag) = Tag::at(source, start) else { break };
        position = tag.end;
        if tag.is_empty || unclosed.contains(&rule.tag.as_str()) {
            continue;
        }
        let Some(close) = find_closing(&source[tag.end..], &rule.tag) else {
            unclosed.push(&rule.tag);
            continue;
        };
        let code = tag.end..tag.end + close;
        let end = memchr::memchr(b'>', &source[code.end..]).map_or(source.len(), |at| code.end + at + 1);
        position = end;
        if let Some(language) = block_language(&tag, rule) {
            let gutters = Vec::new();
            let references = References::default();
            blocks.push(Block { bytes: start..end, code, gutters, language, has_units: true, references });
        }
    }
    blocks
}

/// The language of a block: the one named by its tag, otherwise the default of the tag. `None` for data and unknown
/// languages.
fn block_language(tag: &Tag, rule: &Embedded) -> Option<Language> {
    let default = || language_named(&rule.language);
    let named = match (&tag.language, &tag.media_type) {
        (Some(language), _) => language_called(language),
        (None, Some(kind)) if kind.is_empty() || kind == "module" => default(),
        (None, Some(kind)) => language_called(kind.rsplit('/').next()?.trim_start_matches("x-")),
        (None, None) => default(),
    };
    named
        .filter(|language| !matches!(language.reader(), Reader::Markup | Reader::Prose(_) | Reader::Notebook))
}

fn begins_with_tag(text: &[u8], name: &str) -> bool {
    let Some((head, rest)) = text.split_at_checked(name.len()) else { return false };
    head.eq_ignore_ascii_case(name.as_bytes())
        && rest.first().is_some_and(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/'))
}

/// Offset of the closing tag.
fn find_closing(text: &[u8], name: &str) -> Option<usize> {
    let begins = |at: &usize| {
        text[at + 2..].get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name.as_bytes()))
    };
    memchr::memmem::find_iter(text, b"</").find(begins)
}

/// An opening tag.
#[derive(Default)]
struct Tag {
    /// Offset after its `>`.
    end: usize,
    /// True if it ends with `/>`.
    is_empty: bool,
    /// Value of the attribute `lang`.
    language: Option<String>,
    /// Value of the attribute `type`, in lower case.
    media_type: Option<String>,
}

impl Tag {
    /// Parses the tag that begins at a `<`; `None` if the file ends within it.
    fn at(source: &[u8], start: usize) -> Option<Self> {
        let mut tag = Self::default();
        let mut quote = None;
        let mut word_start = start + 1;
        for (at, &byte) in source.iter().enumerate().skip(start + 1) {
            match (quote, byte) {
                (Some(open), _) if open == byte => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'>') => {
                    tag.is_empty = source[at - 1] == b'/';
                    tag.record_attribute(&source[word_start..at]);
                    tag.end = at + 1;
                    return Some(tag);
                }
                (None, _) if byte.is_ascii_whitespace() => {
                    tag.record_attribute(&source[word_start..at]);
                    word_start = at + 1;
                }
                (None, _) => {}
            }
        }
        None
    }

    /// Records an attribute such as `lang="ts"`.
    fn record_attribute(&mut self, word: &[u8]) {
        let word = String::from_utf8_lossy(word);
        let Some((name, value)) = word.split_once('=') else { return };
        let value = value.trim_end_matches('/').trim_matches(['"', '\'']).to_lowercase();
        match name.to_lowercase().as_str() {
            "lang" => self.language = Some(value),
            "type" => self.media_type = Some(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &[(&str, &str)]) {
        let html = language_named("html").unwrap();
        let found = blocks(html, source.as_bytes(), &Limits::default(), &Instant::now(), false);
        let found: Vec<_> =
            found.iter().map(|block| (block.language.name(), &source[block.code.clone()])).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn blocks_have_the_language_that_their_tag_says() {
        check("<p>a</p><script>f()</script>", &[("javascript", "f()")]);
        check("<SCRIPT type=module\n>f()</Script >x", &[("javascript", "f()")]);
        check("<script setup lang=\"ts\">f()</script>", &[("typescript", "f()")]);
        check("<script type='text/typescript'>f()</script>", &[("typescript", "f()")]);
        check("<script data-a=\"a > b\">f()</script>", &[("javascript", "f()")]);
        check("<style>a {}</style><style lang='scss'>b</style>", &[("css", "a {}"), ("scss", "b")]);
    }

    #[test]
    fn text_that_is_not_code_is_no_block() {
        check("<script type=\"application/json\">{}</script>", &[]);
        check("<script type=\"text/x-template\"><p></p></script>", &[]);
        check("<script src=\"a.js\"/><p>f()</p>", &[]);
        check("<!-- <script>f()</script> --><scripts>g()</scripts>", &[]);
        check("<script>f()", &[]);
        check("<script", &[]);
        check("", &[]);
    }

    #[test]
    fn many_open_tags_are_handled_in_linear_time() {
        let source = "<script><style>".repeat(200_000);
        let start = Instant::now();
        check(&source, &[]);
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    }
}
