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
                span .text { (colored.line(index, shown, &marks(shown), &[])) @if shown.len() < text.len() { "…" } }
            }
        }
    }
}

/// A line of a file, with its number as a link to itself.
pub(super) fn line(line: u32, is_current: bool, is_focused: bool, text: &Markup) -> String {
    let current = if is_current { " current" } else { "" };
    let focus = if is_focused { " autofocus" } else { "" };
    // Attributes without quotes: there are thousands.
    format!(
        "<div class=\"line{current}\" id=L{line}><a class=number href=#L{line}{focus}>{line}</a><span class=text>{}</span></div>",
        text.0
    )
}
