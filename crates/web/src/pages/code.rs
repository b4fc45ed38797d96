//! Lines of code.

use std::ops::Range;

use maud::{Markup, html};

use crate::highlight::ColoredLines;

/// The longest line of a result, in bytes.
const MAX_PREVIEW_BYTES: usize = 500;

/// A line of code: its number in the file, its number in the colored text from 0, and its text.
pub(super) struct CodeLine<'a> {
    pub line: u32,
    pub index: usize,
    pub text: &'a str,
}

/// What addresses can ask for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked<'a> {
    /// Whether addresses can point at lines.
    pub has_anchors: bool,
    /// The lines that are asked for.
    pub current: Option<&'a Range<u32>>,
    /// The line that browsers go to where the address points at none.
    pub focus: Option<u32>,
}

/// Lines of a result, with their numbers as links to `address` of a line.
pub(super) fn preview<'a>(
    colored: &ColoredLines,
    lines: impl Iterator<Item = CodeLine<'a>>,
    marks: impl Fn(&str) -> Vec<Range<usize>>,
    address: impl Fn(u32) -> String,
) -> Markup {
    html! {
        @for CodeLine { line, index, text } in lines {
            div .line {
                // Not for the key Tab, which would take ten of them to the next result.
                a .number href=(address(line)) data-line=(line) aria-label={ "Line " (line) } tabindex="-1" {}
                @let shown = &text[..text.floor_char_boundary(MAX_PREVIEW_BYTES)];
                span .text { (colored.line(index, shown, &marks(shown))) @if shown.len() < text.len() { "…" } }
            }
        }
    }
}

/// Lines below each other under a name that is unique on its page, with their numbers as links to `address` of a line.
pub(super) fn lines<'a>(
    name: &str,
    colored: &ColoredLines,
    lines: impl Iterator<Item = CodeLine<'a>>,
    marks: impl Fn(&str) -> Vec<Range<usize>>,
    address: impl Fn(u32) -> String,
    asked: Asked,
) -> Markup {
    html! {
        div .code tabindex="0" role="region" aria-label=(name) {
            @for CodeLine { line, index, text } in lines {
                @let is_current = asked.current.is_some_and(|current| current.contains(&line));
                @let is_focused = asked.focus == Some(line);
                div .line .current[is_current] id=[asked.has_anchors.then(|| format!("L{line}"))] {
                    a .number href=(address(line)) data-line=(line) aria-label={ "Line " (line) } autofocus[is_focused] {}
                    span .text { (colored.line(index, text, &marks(text))) }
                }
            }
        }
    }
}
