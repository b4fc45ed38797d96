//! Code in markup: scripts and styles between tags, fenced code in Markdown.

use std::ops::Range;
use std::time::Instant;

use crate::language::{Language, Reader, language_called, language_named};
use crate::line::{Lines, line_number};
use crate::magic;
use crate::markdown::{Headings, find_fences};
use crate::parse::{self, Part};
use crate::rules::Embedded;
use crate::size::{MAX_DEFINITION_LINES, MAX_UNIT_BYTES, MAX_WINDOW_LINES};
use crate::unit::{Extraction, Limits, MAX_SYNTAX_DIAGNOSTICS, References, Unit, UnitKind};

/// A block of code in a different language than its file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Span of the block with its delimiters (tags or fences).
    pub bytes: Range<usize>,
    /// Span of the code without delimiters.
    pub code: Range<usize>,
    pub language: Language,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Splits a file in `language` into units: the text between blocks by the rules of that language, each block by those of
/// its own. The time limit of a file applies to all of them together.
pub(crate) fn extract(
    language: Language,
    source: &[u8],
    limits: &Limits,
    mut references: Option<&mut References>,
) -> Extraction {
    let begun = Instant::now();
    let mut headings = Headings::default();
    let blocks = blocks(language, source, limits);
    if blocks.is_empty() {
        return parse::read(Part::whole(language, source), limits, references, &mut headings);
    }
    let lines = Lines::new(source);
    let mut all = Extraction::default();
    let mut position = 0;
    let ends = blocks.into_iter().map(Some).chain([None]);
    for block in ends {
        let start = block.as_ref().map_or(source.len(), |block| block.bytes.start);
        let between = Block { bytes: position..start, code: position..start, language };
        position = block.as_ref().map_or(source.len(), |block| block.bytes.end);
        for Block { bytes, code, language } in [Some(between), block].into_iter().flatten() {
            let limits = Limits { parse_time: limits.parse_time.saturating_sub(begun.elapsed()), ..*limits };
            let inner = code.start - bytes.start..code.end - bytes.start;
            let part = &source[bytes.clone()];
            let masked = without_marks(part, &inner);
            let part = Part { language, source: part, code: &masked };
            let mut found_references = references.is_some().then(References::default);
            let section = headings.name();
            let mut found = parse::read(part, &limits, found_references.as_mut(), &mut headings);
            // Text above the first heading continues the section before the block.
            let rest = found.units.iter_mut().take_while(|unit| unit.name.is_empty());
            rest.filter(|unit| unit.kind == UnitKind::Section)
                .for_each(|unit| unit.name.clone_from(&section));
            join_marks(&mut found.units, part.source, &inner);
            let rows = line_number(lines.row(bytes.start)) - 1;
            add(&mut all, found, bytes.start, rows);
            if let (Some(references), Some(found)) = (references.as_mut(), found_references) {
                add_references(references, found, bytes.start, rows);
            }
        }
    }
    all
}

/// The blocks of a file, ascending and disjoint.
fn blocks(language: Language, source: &[u8], limits: &Limits) -> Vec<Block> {
    // A byte order mark within the file would, at the beginning of a part, be taken for that of a file.
    let is_odd = memchr::memmem::rfind(source, BYTE_ORDER_MARK).is_some_and(|at| at > 0);
    if is_odd || source.len() > limits.parse_bytes {
        return Vec::new();
    }
    match language.reader() {
        Reader::Markup => find_tagged(source, language.embedded()),
        Reader::Markdown => {
            let fences = find_fences(source, limits.parse_time);
            fences.into_iter().filter(|block| has_definition(source, block, limits)).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a block is worth units of its own: a few lines of a program belong to the section that explains them.
fn has_definition(source: &[u8], block: &Block, limits: &Limits) -> bool {
    let is_definition =
        |unit: &Unit| matches!(unit.kind, UnitKind::Function | UnitKind::Method | UnitKind::Type);
    parse::extract(block.language, &source[block.code.clone()], limits).units.iter().any(is_definition)
}

/// `part` with everything outside of `code` replaced by spaces, except line ends.
fn without_marks(part: &[u8], code: &Range<usize>) -> Vec<u8> {
    let mut masked = part.to_vec();
    magic::blank(&mut masked[..code.start], b' ');
    magic::blank(&mut masked[code.end..], b' ');
    masked
}

/// Merges units that contain only a delimiter into the unit beside them, unless that becomes too long.
fn join_marks(units: &mut Vec<Unit>, source: &[u8], code: &Range<usize>) {
    let is_mark = |unit: &Unit| {
        let inside = unit.bytes.start.max(code.start)..unit.bytes.end.min(code.end);
        source.get(inside).unwrap_or_default().trim_ascii().is_empty()
    };
    if let [mark, first, ..] = units.as_mut_slice()
        && is_mark(mark)
        && may_span(first, mark.bytes.start..first.bytes.end, mark.start_line, first.end_line)
    {
        (first.bytes.start, first.start_line) = (mark.bytes.start, mark.start_line);
        units.remove(0);
        let parents = units.iter_mut().filter_map(|unit| unit.parent.as_mut());
        parents.for_each(|parent| *parent = parent.saturating_sub(1));
    }
    if let [.., last, mark] = units.as_mut_slice()
        && is_mark(mark)
        && may_span(last, last.bytes.start..mark.bytes.end, last.start_line, mark.end_line)
    {
        (last.bytes.end, last.end_line) = (mark.bytes.end, mark.end_line);
        units.pop();
    }
}

fn may_span(unit: &Unit, bytes: Range<usize>, start_line: u32, end_line: u32) -> bool {
    let max_lines = match unit.kind {
        UnitKind::Function | UnitKind::Method | UnitKind::Type => MAX_DEFINITION_LINES,
        UnitKind::Module | UnitKind::Section => MAX_WINDOW_LINES,
    };
    bytes.len() <= MAX_UNIT_BYTES && ((end_line - start_line) as usize) < max_lines
}

/// Adds the units of a part of the file that begins at this byte, after this number of lines.
fn add(all: &mut Extraction, found: Extraction, start: usize, rows: u32) {
    let first = all.units.len();
    for mut unit in found.units {
        for span in std::iter::once(&mut unit.bytes).chain(&mut unit.doc_bytes) {
            *span = span.start + start..span.end + start;
        }
        unit.parent = unit.parent.map(|parent| parent + first);
        unit.start_line += rows;
        unit.end_line += rows;
        all.units.push(unit);
    }
    for mut diagnostic in found.diagnostics {
        diagnostic.line += rows;
        if all.diagnostics.len() < MAX_SYNTAX_DIAGNOSTICS {
            all.diagnostics.push(diagnostic);
        }
    }
}

fn add_references(all: &mut References, found: References, start: usize, rows: u32) {
    all.calls.extend(found.calls.into_iter().map(|mut call| {
        call.byte += start;
        call.line += rows;
        call
    }));
    all.imports.extend(found.imports.into_iter().map(|mut import| {
        import.line += rows;
        import
    }));
}

/// The blocks between tags, such as `<script lang="ts">` and `</script>`, outside of comments.
fn find_tagged(source: &[u8], embedded: &[Embedded]) -> Vec<Block> {
    let mut blocks = Vec::new();
    // Avoids searching repeatedly for closing tags that do not occur again.
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
            blocks.push(Block { bytes: start..end, code, language });
        }
    }
    blocks
}

/// The language of a block: the one that its tag names, otherwise the default of the tag. `None` for data and unknown
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
        .filter(|language| !matches!(language.reader(), Reader::Markup | Reader::Markdown | Reader::Notebook))
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
    /// Whether it ends with `/>`.
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
                    tag.note(&source[word_start..at]);
                    tag.end = at + 1;
                    return Some(tag);
                }
                (None, _) if byte.is_ascii_whitespace() => {
                    tag.note(&source[word_start..at]);
                    word_start = at + 1;
                }
                (None, _) => {}
            }
        }
        None
    }

    /// Records an attribute such as `lang="ts"`.
    fn note(&mut self, word: &[u8]) {
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
        let found = blocks(html, source.as_bytes(), &Limits::default());
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
    fn what_is_not_code_is_no_block() {
        check("<script type=\"application/json\">{}</script>", &[]);
        check("<script type=\"text/x-template\"><p></p></script>", &[]);
        check("<script src=\"a.js\"/><p>f()</p>", &[]);
        check("<!-- <script>f()</script> --><scripts>g()</scripts>", &[]);
        check("<script>f()", &[]);
        check("<script", &[]);
        check("", &[]);
    }

    #[test]
    fn many_open_tags_take_no_longer() {
        let source = "<script><style>".repeat(200_000);
        let start = Instant::now();
        check(&source, &[]);
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    }
}
