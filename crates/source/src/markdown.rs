//! Splits Markdown into sections.

use std::ops::Range;
use std::time::{Duration, Instant};

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::block::{Block, code_language};
use crate::definition::Structure;
use crate::language::Language;
use crate::line::Lines;
use crate::section::{Headings, Sections};
use crate::unit::References;

/// The sections of a Markdown text; see [`Prose::find_sections`](crate::language::Prose::find_sections).
pub(crate) fn find_sections(lines: &Lines, time: Duration, headings: &mut Headings) -> Option<Structure> {
    let begun = Instant::now();
    let source = lines.source();
    let text = as_text(source);
    let text_start = lines.start(0);
    let mut sections = Sections::new(headings, source.len());
    let mut title: Option<(usize, HeadingLevel, String)> = None;
    for (event, bytes) in Parser::new_ext(&text[text_start..], options()).into_offset_iter() {
        if begun.elapsed() > time {
            return None;
        }
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                title = Some((text_start + bytes.start, level, String::new()));
            }
            Event::Text(words) | Event::Code(words) => {
                if let Some((_, _, title)) = &mut title {
                    title.push_str(&words);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                if let Some((start, level, title)) = title.take() {
                    sections.begin(start, level as usize, title);
                }
            }
            _ => {}
        }
    }
    Some(sections.finish())
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
                open = code_language(name).map(|language| OpenFence {
                    language,
                    code: None,
                    gutters: Vec::new(),
                });
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
    use crate::language::Prose;
    use crate::prose::tests::check_sections;

    fn check(source: &[u8], expected: &[(&str, usize)]) {
        check_sections(Prose::Markdown, source, expected);
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
