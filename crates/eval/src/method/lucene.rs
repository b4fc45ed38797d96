//! Lucene's BM25.

use super::Scorer;
use super::postings::{Postings, counts};
use crate::EvalError;
use quarry_corpus::formats::{Document, Query};
use rayon::prelude::*;
use std::collections::HashMap;
use unicode_segmentation::UnicodeSegmentation;

/// Saturation of term frequencies, Lucene's default.
const K1: f32 = 1.2;
/// Weight of length normalization, Lucene's default.
const B: f32 = 0.75;
/// Longer tokens are split into pieces of this length, in characters.
const MAX_TOKEN_LENGTH: usize = 255;

/// BM25 with the defaults of Lucene, as used by CoSQA+: `StandardAnalyzer` without stop words (words by Unicode text
/// segmentation, UAX 29, in lower case: `read_csv` and `os.path` are one token each), `BM25Similarity` (Robertson and
/// Zaragoza, 2009, with the idf ln(1 + (N - n + 0.5) / (n + 0.5)), without the factor k1 + 1, which does not affect
/// the order), document lengths encoded in one byte, and the terms of the query joined by OR, repeated terms counting
/// repeatedly. A document without any of them scores 0.
///
/// Lucene's classic query parser interprets operators in a question (`?`, `*`, `-`, `:`); here they are stripped as
/// in a document.
#[derive(Debug)]
pub struct LuceneBm25 {
    postings: Postings,
    /// For each document k1 · (1 - b + b · length / mean length), with the length decoded from one byte.
    saturations: Vec<f32>,
    n_with_tokens: usize,
}

impl LuceneBm25 {
    /// Counts tokens over a corpus of less than 2³² documents.
    pub fn new(documents: &[Document]) -> Self {
        let counts: Vec<HashMap<String, u32>> = documents
            .par_iter()
            .map(|document| counts(tokens(&document.full_text()).iter().map(String::as_str)))
            .collect();
        let lengths: Vec<u64> =
            counts.iter().map(|counts| counts.values().map(|count| u64::from(*count)).sum()).collect();
        let n_with_tokens = lengths.iter().filter(|length| **length > 0).count();
        let mean = lengths.iter().sum::<u64>() as f64 / n_with_tokens.max(1) as f64;
        let saturation = |length: &u64| K1 * (1.0 - B + B * (rounded(*length) as f32 / mean as f32));
        let saturations = lengths.iter().map(saturation).collect();
        let mut vocabulary: Vec<String> = counts.iter().flat_map(HashMap::keys).cloned().collect();
        vocabulary.sort_unstable();
        vocabulary.dedup();
        Self { postings: Postings::new(&counts, vocabulary), saturations, n_with_tokens }
    }

    fn score(&self, query: &str) -> Vec<f32> {
        let mut scores = vec![0.0_f64; self.saturations.len()];
        for token in tokens(query) {
            let Some(list) = self.postings.get(&token) else { continue };
            let (n, with_term) = (self.n_with_tokens as f64, list.len() as f64);
            let weight = (1.0 + (n - with_term + 0.5) / (with_term + 0.5)).ln() as f32;
            for &(document, count) in list {
                // In single precision as in Lucene: 1 - 1 / (1 + tf / saturation).
                let inverse = 1.0 / self.saturations[document as usize];
                scores[document as usize] += f64::from(weight - weight / (1.0 + count as f32 * inverse));
            }
        }
        scores.into_iter().map(|score| score as f32).collect()
    }
}

impl Scorer for LuceneBm25 {
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        Ok(queries.par_iter().map(|query| self.score(&query.text)).collect())
    }
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for word in text.unicode_words() {
        let lower: Vec<char> = word.chars().flat_map(char::to_lowercase).collect();
        tokens.extend(lower.chunks(MAX_TOKEN_LENGTH).map(|piece| piece.iter().collect::<String>()));
    }
    tokens
}

/// A length after encoding in one byte of Lucene's index (`SmallFloat.intToByte4`): exact up to 39, above that with
/// the four leading bits of the excess over 24.
fn rounded(length: u64) -> u64 {
    const EXACT: u64 = 24;
    if length < EXACT {
        return length;
    }
    let rest = length - EXACT;
    let shift = (u64::BITS - rest.leading_zeros()).saturating_sub(4);
    EXACT + (rest >> shift << shift)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, documents};
    use super::*;

    #[test]
    fn tokens_are_words_of_unicode_in_lower_case() {
        let found = tokens("def Read_CSV(os.path, x=3.14): # it's ÄÖ a-b __ 日本");
        let expected = ["def", "read_csv", "os.path", "x", "3.14", "it's", "äö", "a", "b", "日", "本"];
        assert_eq!(found, expected);
        let pieces = tokens(&"é".repeat(600));
        assert_eq!(pieces.iter().map(|piece| piece.chars().count()).collect::<Vec<_>>(), [255, 255, 90]);
    }

    #[test]
    fn lengths_are_rounded_to_a_byte() {
        // Values of SmallFloat.byte4ToInt(SmallFloat.intToByte4(length)): 8 steps for each doubling beyond 40.
        for (length, expected) in [
            (0, 0),
            (23, 23),
            (39, 39),
            (40, 40),
            (41, 40),
            (42, 42),
            (55, 54),
            (56, 56),
            (59, 56),
            (60, 60),
            (100, 96),
        ] {
            assert_eq!(rounded(length), expected, "{length}");
        }
    }

    #[test]
    fn scores_follow_the_formula() {
        let corpus = documents(&["a b b", "a c", "", "c c c d"]);
        let scores = LuceneBm25::new(&corpus).scores(&[&asked("B a, a?"), &asked("z")]).unwrap();
        let term = |n_with: f64, count: f64, length: f64| {
            let idf = (1.0 + (3.0 - n_with + 0.5) / (n_with + 0.5)).ln();
            idf * count / (count + 1.2 * (0.25 + 0.75 * length / 3.0))
        };
        let expected = [term(1.0, 2.0, 3.0) + 2.0 * term(2.0, 1.0, 3.0), 2.0 * term(2.0, 1.0, 2.0), 0.0, 0.0];
        for (found, expected) in scores[0].iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{found} {expected}");
        }
        assert_eq!(scores[1], [0.0; 4]);
    }
}
