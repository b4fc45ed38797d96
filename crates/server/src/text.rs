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

/// Lines with their numbers, the first of them being `first`, 1-based; over-long ones are cut.
pub(crate) fn numbered<'a>(lines: impl Iterator<Item = &'a str>, first: u32) -> impl Iterator<Item = String> {
    (first..).zip(lines).map(|(number, line)| format!("{number:>6}| {}\n", shortened(line)))
}

/// At most [`MAX_LINE_CHARS`] characters of a line.
pub(crate) fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.trim_end().to_owned(),
    }
}

/// `candidates` by how alike they are to `wanted`, at most `n`, each once; of equal ones the first by name.
pub(crate) fn nearest<'a>(wanted: &str, candidates: impl Iterator<Item = &'a str>, n: usize) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let last = |path: &str| path.rsplit(['/', '.']).next().unwrap_or_default().to_owned();
    let likeness = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        let parts = strsim::jaro_winkler(&last(&wanted), &last(&candidate));
        strsim::normalized_damerau_levenshtein(&wanted, &candidate).max(0.0) + parts
    };
    let mut ranked: Vec<(f64, &str)> = candidates.map(|candidate| (likeness(candidate), candidate)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    ranked.dedup_by_key(|(_, candidate)| *candidate);
    ranked.into_iter().take(n).map(|(_, candidate)| candidate.to_owned()).collect()
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

    #[test]
    fn the_nearest_come_first() {
        let names = ["Parser.read", "Parser.write", "open_file", "Parser.read"];
        assert_eq!(nearest("Parser.raed", names.into_iter(), 1), ["Parser.read"]);
        assert_eq!(nearest("openfile", names.into_iter(), 1), ["open_file"]);
        assert_eq!(nearest("x", names.into_iter(), 9).len(), 3);
        assert_eq!(nearest("x", [].into_iter(), 3), [""; 0]);
    }
}
