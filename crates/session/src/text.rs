//! Text within a budget of tokens. Text from files can be distinguished from the tool's own words: lines follow a
//! gutter (`12| `), names and paths are one word or in quotes, and control characters are escaped.

use std::borrow::Cow;

use quarry_index::Hit;
use quarry_source::UnitKind;
use quarry_text::printable;

use crate::{count_tokens, kind_name};

/// Tokens reserved for the last line, which reports what was left out.
const RESERVED_TOKENS: usize = 50;

/// Longest line that is shown, in characters; the rest is cut off.
const MAX_LINE_CHARS: usize = 200;

/// A text that grows by whole pieces as long as they fit. Each ends a line, so that no token spans two of them.
pub struct BudgetedText {
    text: String,
    n_left: usize,
}

impl BudgetedText {
    /// Begins with a heading, which always fits.
    pub fn new(heading: &str, max_tokens: usize) -> Self {
        let n_left = max_tokens.saturating_sub(RESERVED_TOKENS + count_tokens(heading));
        Self { text: heading.to_owned(), n_left }
    }

    /// Appends `piece` if all of it fits, and returns whether it did.
    pub fn push(&mut self, piece: &str) -> bool {
        let n_tokens = count_tokens(piece);
        let fits = n_tokens <= self.n_left;
        if fits {
            self.text.push_str(piece);
            self.n_left -= n_tokens;
        }
        fits
    }

    /// The text with a last piece, which always fits.
    #[must_use]
    pub fn finish(mut self, ending: &str) -> String {
        self.text.push_str(ending);
        self.text
    }
}

/// A line of a file after its number and the gutter, cut if it is too long.
pub fn numbered(number: u32, line: &str) -> String {
    content(&number.to_string(), line)
}

/// Text from a file that is not one of its lines, such as a signature, after the gutter.
pub fn unnumbered(text: &str) -> String {
    content("", text)
}

fn content(number: &str, text: &str) -> String {
    // Not padded: of each line that would take two more tokens.
    format!("{number}| {}\n", shortened(text))
}

/// A name or path from the tree, in quotes unless it is one plain word.
pub fn quoted(name: &str) -> Cow<'_, str> {
    let is_odd = |c: char| c.is_whitespace() || matches!(c, '"' | '|' | '\\');
    match printable(name) {
        Cow::Borrowed(name) if !name.contains(is_odd) => Cow::Borrowed(name),
        name => Cow::Owned(format!("\"{}\"", name.replace('"', "\\\""))),
    }
}

/// At most [`MAX_LINE_CHARS`] characters of a line, with control characters escaped.
fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", printable(&line[..end])),
        None => printable(line.trim_end()).into_owned(),
    }
}

/// [`quoted`], at most `MAX_LINE_CHARS` characters of it.
pub fn quoted_start(name: &str) -> String {
    match name.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", quoted(&name[..end])),
        None => quoted(name).into_owned(),
    }
}

/// Kind of a unit, and its name if it has one.
pub fn unit_label(kind: UnitKind, name: &str) -> String {
    let kind = kind_name(kind);
    if name.is_empty() { kind.to_owned() } else { format!("{kind} {}", quoted_start(name)) }
}

/// Location of a unit, and its kind.
pub fn position(hit: &Hit) -> String {
    position_to(hit, hit.end_line)
}

/// Location of a definition, given by its beginning, and its kind.
pub fn position_to(hit: &Hit, end_line: u32) -> String {
    let Hit { path, start_line, kind, name, .. } = hit;
    format!("{}:{start_line}-{end_line} {}", quoted(path), unit_label(*kind, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_or_absent() {
        let mut text = BudgetedText::new("heading\n", 100);
        assert!(text.push(&format!("{}\n", "a(1) ".repeat(9))));
        assert!(!text.push(&format!("{}\n", "b(1) ".repeat(9))));
        assert!(text.push("c\n"));
        let text = text.finish("end");
        assert!(text.starts_with("heading\na(1)") && text.ends_with("c\nend") && !text.contains('b'));
        assert!(count_tokens(&text) <= 100);
    }

    #[test]
    fn long_lines_are_cut_at_characters() {
        assert_eq!(shortened("short  "), "short");
        let cut = shortened(&"é".repeat(1000));
        assert_eq!(cut.chars().count(), MAX_LINE_CHARS + 1);
        assert!(cut.ends_with('…'));
    }

    #[test]
    fn quoted_file_text_cannot_imitate_the_tool() {
        assert_eq!(numbered(7, "x\r1. a.py\u{1b}[2J\u{202e}\n"), "7| x\\r1. a.py\\u{1b}[2J\\u{202e}\n");
        assert_eq!(unnumbered("def f()"), "| def f()\n");
        for plain in ["src/größe.rs", "Cart.total", "operator<<", "a'b", "~T"] {
            assert_eq!(quoted(plain), plain);
        }
        assert_eq!(quoted("a b"), "\"a b\"");
        assert_eq!(quoted("a\n2. b.py:1-2 \"f"), r#""a\n2. b.py:1-2 \"f""#);
        assert_eq!(quoted("     7|x"), "\"     7|x\"");
        assert!(quoted_start(&"é ".repeat(1000)).ends_with("\"…"));
    }
}
