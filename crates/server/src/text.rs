//! Text within a budget of tokens.

/// Bytes of source code to a token, about: tokenizers of large language models differ.
const BYTES_PER_TOKEN: usize = 4;

/// Bytes kept free for the last line, which says what was left out.
const RESERVED_BYTES: usize = 200;

/// Longest line that is shown, in characters; the rest is cut off.
const MAX_LINE_CHARS: usize = 200;

/// A text that grows by whole pieces as long as they fit.
pub(crate) struct BudgetedText {
    text: String,
    max_bytes: usize,
}

impl BudgetedText {
    /// Begins with a heading, which always fits.
    pub fn new(heading: &str, max_tokens: usize) -> Self {
        let max_bytes = (max_tokens * BYTES_PER_TOKEN).saturating_sub(RESERVED_BYTES);
        Self { text: heading.to_owned(), max_bytes }
    }

    /// Appends `piece` if all of it fits, and says whether it did.
    pub fn push(&mut self, piece: &str) -> bool {
        let fits = self.text.len() + piece.len() <= self.max_bytes;
        if fits {
            self.text.push_str(piece);
        }
        fits
    }

    /// The text with a last piece, which always fits.
    pub fn finish(mut self, ending: &str) -> String {
        self.text.push_str(ending);
        self.text
    }
}

/// Lines with their numbers; over-long ones are cut.
pub(crate) fn numbered<'a>(lines: impl Iterator<Item = (u32, &'a str)>) -> impl Iterator<Item = String> {
    lines.map(|(number, line)| format!("{number:>6}| {}\n", shortened(line)))
}

/// At most [`MAX_LINE_CHARS`] characters of a line.
pub(crate) fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_or_absent() {
        let mut text = BudgetedText::new("heading\n", 100);
        assert!(text.push(&"a".repeat(150)));
        assert!(!text.push(&"b".repeat(150)));
        assert!(text.push("c"));
        let text = text.finish("\nend");
        assert!(text.starts_with("heading\naaa") && text.ends_with("c\nend") && !text.contains('b'));
        assert!(text.len() <= 400);
    }

    #[test]
    fn long_lines_are_cut_at_characters() {
        assert_eq!(shortened("short  "), "short");
        let cut = shortened(&"é".repeat(1000));
        assert_eq!(cut.chars().count(), MAX_LINE_CHARS + 1);
        assert!(cut.ends_with('…'));
    }
}
