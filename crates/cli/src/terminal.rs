//! Results on a terminal: colors, links, and lines of source with highlighted matches.
//!
//! Text from files passes through [`printable`] piece by piece, because the styles around it are escape sequences of
//! our own.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::ops::Range;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use quarry_session::Block;

use crate::output::printable;

const PATH_STYLE: Style = AnsiColor::Cyan.on_default();
const MATCH_STYLE: Style = AnsiColor::Yellow.on_default().bold();
const NAME_STYLE: Style = Style::new().bold();
const FAINT_STYLE: Style = Style::new().dimmed();

/// Maximum length of a printed line, in characters; the rest is cut off.
const MAX_LINE_CHARS: usize = 200;

/// Features that the terminal supports and the user wants.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminal {
    /// Colors may be used.
    pub color: bool,
    /// Links (OSC 8) may be used.
    pub links: bool,
}

impl Terminal {
    /// The features of stdout; `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` count if the user leaves the choice to us.
    pub fn detect(choice: ColorChoice) -> Self {
        let color = match choice {
            ColorChoice::Auto => anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        let links = color
            && io::stdout().is_terminal()
            && supports_hyperlinks::on(supports_hyperlinks::Stream::Stdout);
        Self { color, links }
    }

    /// `text`, [`printable`], in a style.
    fn paint(self, style: Style, text: &str) -> String {
        let text = printable(text);
        if self.color && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.into_owned() }
    }

    /// `text`, which is already painted, as a link to a file.
    fn link(self, file: &Path, text: String) -> String {
        match url::Url::from_file_path(file) {
            Ok(url) if self.links => format!("\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\"),
            _ => text,
        }
    }

    /// `text` on one line with the byte ranges of `matches` (ascending) in the match style.
    fn highlight(self, text: &str, matches: &[Range<usize>]) -> String {
        let end = text.char_indices().nth(MAX_LINE_CHARS).map_or(text.len(), |(end, _)| end);
        let (mut out, mut done) = (String::new(), 0);
        for range in disjoint(matches).into_iter().filter(|range| range.start < end) {
            out.push_str(&printable(&text[done..range.start]));
            done = range.end.min(end);
            out.push_str(&self.paint(MATCH_STYLE, &text[range.start..done]));
        }
        out.push_str(&printable(&text[done..end]));
        if end < text.len() {
            out.push('…');
        }
        out
    }
}

/// Ranges without the parts that earlier ranges cover; `ranges` is ascending.
pub fn disjoint(ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut done = 0;
    let rest = |range: &Range<usize>| {
        let rest = range.start.max(done)..range.end;
        done = done.max(range.end);
        rest
    };
    ranges.iter().map(rest).filter(|range| !range.is_empty()).collect()
}

pub struct HitView<'a> {
    /// Rank, from 1.
    pub rank: usize,
    /// As it can be opened from the current directory.
    pub path: &'a Path,
    /// First line of the unit, 1-based.
    pub start_line: u32,
    /// Empty for a unit without a name.
    pub name: &'a str,
    /// Empty for a unit without a declaration, and where `blocks` show it.
    pub signature: &'a str,
    /// Kind of the unit, in a word.
    pub kind: &'a str,
    /// Ascending.
    pub blocks: &'a [Block],
}

/// Three parts: where and what, the declaration, and lines of the source; `matches` finds what to highlight.
pub fn format_hit(hit: &HitView, terminal: Terminal, matches: impl Fn(&str) -> Vec<Range<usize>>) -> String {
    let position = terminal.paint(PATH_STYLE, &format!("{}:{}", hit.path.display(), hit.start_line));
    // A link needs the absolute path.
    let file = std::path::absolute(hit.path).unwrap_or_default();
    let position = terminal.link(&file, position);
    let name = terminal.paint(NAME_STYLE, hit.name);
    let space = if name.is_empty() { "" } else { " " };
    let mut out = format!("{:>2}. {position}  {}{space}{name}\n", hit.rank, hit.kind);
    if !hit.signature.is_empty() {
        let _ = writeln!(out, "    {}", terminal.highlight(hit.signature, &matches(hit.signature)));
    }
    for (position, block) in hit.blocks.iter().enumerate() {
        if position > 0 {
            let _ = writeln!(out, "{}", terminal.paint(FAINT_STYLE, "       ⋮"));
        }
        for (number, line) in &block.lines {
            let gutter = terminal.paint(FAINT_STYLE, &format!("{number:>8} │"));
            let line = format!("{gutter} {}", terminal.highlight(line, &matches(line)));
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_cannot_speak_to_the_terminal() {
        let block = Block {
            first_index: 6,
            lines: vec![(7, "print(\"\x1b]0;gotcha\x07\")\r".to_owned()), (8, String::new())],
        };
        let hit = HitView {
            rank: 1,
            path: Path::new("a\n\x1b[2Jb.py"),
            start_line: 7,
            name: "f\u{9b}31m",
            signature: "def f(\u{202e})",
            kind: "function",
            blocks: &[block],
        };
        for color in [false, true] {
            let terminal = Terminal { color, links: false };
            let text = format_hit(&hit, terminal, |line| std::iter::once(0..line.len().min(3)).collect());
            let plain = anstream::adapter::strip_str(&text).to_string();
            let expected = concat!(
                " 1. a\\n\\u{1b}[2Jb.py:7  function f\\u{9b}31m\n    def f(\\u{202e})\n",
                "       7 │ print(\"\\u{1b}]0;gotcha\\u{7}\")\\r\n       8 │\n"
            );
            assert_eq!(plain, expected, "{text:?}");
            assert_eq!(text.contains('\x1b'), color);
        }
    }

    #[test]
    fn a_line_is_cut_at_its_limit_with_its_matches() {
        let long = "x".repeat(MAX_LINE_CHARS + 5);
        let terminal = Terminal { color: true, links: false };
        let text = terminal.highlight(&long, std::slice::from_ref(&(MAX_LINE_CHARS - 1..MAX_LINE_CHARS + 3)));
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(plain, format!("{}…", &long[..MAX_LINE_CHARS]));
    }
}
