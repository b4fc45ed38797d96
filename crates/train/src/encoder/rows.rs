//! Positions of the tokens of texts among the rows of a matrix.

use std::ops::Range;

/// The rows of the tokens of texts, text after text; a text without tokens has one of padding.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    /// The rows of each text, without those that pad it.
    pub spans: Vec<Range<usize>>,
    pub n: usize,
    /// Tokens that each text is padded to; none if texts follow each other without padding.
    pub padded_to: Option<usize>,
    /// Start of each text without padding.
    starts: Vec<usize>,
}

impl Rows {
    /// Rows of texts without padding, or padded to the longest.
    pub(super) fn new(texts: &[&[u32]], padded: bool) -> Rows {
        let lengths = || texts.iter().map(|text| text.len().max(1));
        let padded_to = padded.then(|| lengths().max().unwrap_or(1));
        let (mut spans, mut starts) = (Vec::with_capacity(texts.len()), Vec::with_capacity(texts.len()));
        let (mut n, mut n_tokens) = (0, 0);
        for length in lengths() {
            spans.push(n..n + length);
            starts.push(n_tokens);
            n += padded_to.unwrap_or(length);
            n_tokens += length;
        }
        Rows { spans, n, padded_to, starts }
    }

    /// Number of tokens of the longest text.
    pub(super) fn longest(&self) -> usize {
        self.spans.iter().map(Range::len).max().unwrap_or(1)
    }

    /// The number that a row would have without padding; none if it pads a text.
    pub(super) fn without_padding(&self, row: usize) -> Option<usize> {
        let Some(length) = self.padded_to else { return Some(row) };
        let (text, at) = (row / length, row % length);
        (at < self.spans[text].len()).then(|| self.starts[text] + at)
    }
}
