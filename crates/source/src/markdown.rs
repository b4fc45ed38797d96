//! Splits Markdown into sections.

use std::ops::Range;
use std::time::{Duration, Instant};

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::definition::{Definition, Structure};
use crate::embedded::Block;
use crate::language::{Language, language_called};
use crate::line::Lines;
use crate::unit::{MAX_NAME_BYTES, References, UnitKind, truncate};

/// The headings above the current position in a document, outermost first.
#[derive(Default)]
pub(crate) struct Headings(Vec<(HeadingLevel, String)>);

impl Headings {
    /// Name of the section that they begin.
    pub fn name(&self) -> String {
        let titles: Vec<&str> = self.0.iter().map(|(_, title)| title.as_str()).collect();
        titles.join(" > ")
    }
}

/// The sections of a Markdown text, each from its heading to the next heading of any level; `None` if finding them
/// takes longer than `time`. `headings` are those above the text, and become those at its end.
pub(crate) fn find_sections(lines: &Lines, time: Duration, headings: &mut Headings) -> Option<Structure> {
    let begun = Instant::now();
    let source = lines.source();
    let text = as_text(source);
    let text_start = lines.start(0);
    let mut definitions: Vec<Definition> = Vec::new();
    let mut in_heading = false;
    for (event, bytes) in Parser::new_ext(&text[text_start..], options()).into_offset_iter() {
        if begun.elapsed() > time {
            return None;
        }
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let start = text_start + bytes.start;
                in_heading = true;
                let n_outer = headings.0.iter().take_while(|(outer, _)| *outer < level).count();
                headings.0.truncate(n_outer);
                headings.0.push((level, String::new()));
                if let Some(previous) = definitions.last_mut() {
                    previous.bytes.end = start;
                }
                definitions.push(Definition {
                    kind: UnitKind::Section,
                    name: String::new(),
                    signature: String::new(),
                    doc: String::new(),
                    doc_bytes: Vec::new(),
                    bytes: start..source.len(),
                    is_open: false,
                });
            }
            Event::Text(words) | Event::Code(words) if in_heading => {
                if let Some((_, title)) = headings.0.last_mut() {
                    title.push_str(&words);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                in_heading = false;
                if let (Some(section), Some((_, title))) = (definitions.last_mut(), headings.0.last_mut()) {
                    truncate(title, MAX_NAME_BYTES);
                    section.signature.clone_from(title);
                    section.name = headings.name();
                }
            }
            _ => {}
        }
    }
    Some(Structure { definitions, ..Structure::default() })
}

fn options() -> Options {
    Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
}

/// A fence whose code is being read.
struct OpenFence {
    language: Language,
    code: Option<Range<usize>>,
    gutters: Vec<Range<usize>>,
}

/// The fenced code of a Markdown text that is in a language with a grammar, ascending; without what is not found within
/// `time`.
pub(crate) fn find_fences(source: &[u8], time: Duration) -> Vec<Block> {
    let mut fences = Vec::new();
    if [b"```", b"~~~"].iter().all(|fence| memchr::memmem::find(source, *fence).is_none()) {
        return fences;
    }
    let begun = Instant::now();
    let text = as_text(source);
    let text_start = Lines::new(source).start(0);
    let mut open: Option<OpenFence> = None;
    for (event, bytes) in Parser::new_ext(&text[text_start..], options()).into_offset_iter() {
        if begun.elapsed() > time {
            break;
        }
        let bytes = text_start + bytes.start..text_start + bytes.end;
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                let name = info.split([' ', ',', '{', '\t']).next().unwrap_or_default();
                let language = language_called(name).filter(|language| language.grammar().is_some());
                open = language.map(|language| OpenFence { language, code: None, gutters: Vec::new() });
            }
            Event::Text(_) => {
                // Code in a quotation or a list comes in pieces, between which stand their marks and indents.
                let Some(fence) = &mut open else { continue };
                let end = fence.code.as_ref().map(|code| code.end);
                let line_start =
                    memchr::memrchr(b'\n', &source[..bytes.start]).map_or(text_start, |at| at + 1);
                let gutter = end.unwrap_or(line_start).min(bytes.start)..bytes.start;
                // Line ends of two characters are not part of the text.
                if !source[gutter.clone()].trim_ascii().is_empty() || gutter.len() > 1 {
                    fence.gutters.push(gutter.clone());
                }
                let start = fence.code.as_ref().map_or(gutter.start, |code| code.start);
                fence.code = Some(start..bytes.end.max(start));
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Some(OpenFence { language, code: Some(code), gutters }) = open.take() {
                    let bytes = bytes.start.min(code.start)..bytes.end.max(code.end);
                    let references = References::default();
                    fences.push(Block { bytes, code, gutters, language, has_units: false, references });
                }
            }
            _ => {}
        }
    }
    fences
}

/// `source` as text of equal length, so that offsets stay the same: bad bytes become question marks.
fn as_text(source: &[u8]) -> String {
    let mut text = String::with_capacity(source.len());
    for chunk in source.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &[u8], expected: &[(&str, usize)]) {
        let structure = find_sections(&Lines::new(source), Duration::MAX, &mut Headings::default());
        let sections: Vec<_> = structure
            .iter()
            .flat_map(|structure| &structure.definitions)
            .map(|d| (d.name.as_str(), d.bytes.start))
            .collect();
        assert_eq!(sections, expected);
    }

    #[test]
    fn headings() {
        check(
            b"intro\n\n# A\n\n## B `c`\ntext\n### D\n## E\n",
            &[("A", 7), ("A > B c", 12), ("A > B c > D", 26), ("A > E", 32)],
        );
        check(b"Title\n=====\n\nSub\n---\n", &[("Title", 0), ("Title > Sub", 13)]);
        check(b"---\ntitle: x\n---\n\n```\n# no heading\n```\n", &[]);
        check(b"#no heading\n\n    # code\n", &[]);
        check(b"\xff\xfe\n\n# A\xff\r\n", &[("A?", 4)]);
        check(b"\xef\xbb\xbf# A\n", &[("A", 3)]);
        check(b"", &[]);
    }
}
