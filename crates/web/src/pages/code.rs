//! Lines of code.

use std::ops::Range;

use maud::{Markup, html};

use crate::highlight::ColoredLines;

/// A line of code: its number in the file, its number in the colored text from 0, and its text.
pub(super) struct CodeLine<'a> {
    pub line: u32,
    pub index: usize,
    pub text: &'a str,
}

/// Lines below each other under a name that is unique on its page, with their numbers as links to `address` of a line.
pub(super) fn lines<'a>(
    name: &str,
    colored: &ColoredLines,
    lines: impl Iterator<Item = CodeLine<'a>>,
    marks: impl Fn(&str) -> Vec<Range<usize>>,
    address: impl Fn(u32) -> String,
    (has_anchors, current): (bool, Option<&Range<u32>>),
) -> Markup {
    html! {
        div .code tabindex="0" role="region" aria-label=(name) {
            @for CodeLine { line, index, text } in lines {
                @let is_current = current.is_some_and(|current| current.contains(&line));
                div .line .current[is_current] id=[has_anchors.then(|| format!("L{line}"))] {
                    a .number href=(address(line)) data-line=(line) aria-label={ "Line " (line) } {}
                    span .text { (colored.line(index, text, &marks(text))) }
                }
            }
        }
    }
}
