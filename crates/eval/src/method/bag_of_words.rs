use super::Scorer;
use crate::EvalError;
use quarry_corpus::formats::{Document, Query};
use rayon::prelude::*;
use std::collections::HashMap;

/// Cosine of count vectors over the most frequent tokens, as the CoSQA+ authors do it with scikit-learn's
/// `CountVectorizer`: tokens are runs of two or more letters, digits or `_`, in lower case. Tokens of equal
/// frequency are taken in alphabetical order, which scikit-learn leaves open. A text without known tokens scores 0.
#[derive(Debug)]
pub struct BagOfWords {
    /// Column of each token of the vocabulary.
    vocabulary: HashMap<String, usize>,
    /// For each column, the documents that hold the token, with counts.
    postings: Vec<Vec<(u32, u32)>>,
    /// Length of each document's vector.
    norms: Vec<f64>,
}

impl BagOfWords {
    /// Size of the vocabulary in CoSQA+.
    pub const VOCABULARY_SIZE: usize = 2_000;

    /// Counts tokens over a corpus of less than 2³² documents.
    #[must_use]
    pub fn new(documents: &[Document], vocabulary_size: usize) -> Self {
        let counts: Vec<HashMap<String, u32>> =
            documents.par_iter().map(|document| token_counts(&document.full_text())).collect();
        let mut frequencies: HashMap<&str, u64> = HashMap::new();
        for (token, count) in counts.iter().flatten() {
            *frequencies.entry(token).or_default() += u64::from(*count);
        }
        let mut by_frequency: Vec<(&str, u64)> = frequencies.into_iter().collect();
        by_frequency.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let vocabulary: HashMap<String, usize> = by_frequency
            .into_iter()
            .take(vocabulary_size)
            .enumerate()
            .map(|(column, (token, _))| (token.to_owned(), column))
            .collect();
        let mut postings = vec![Vec::new(); vocabulary.len()];
        let mut norms = Vec::with_capacity(documents.len());
        for (document, counts) in (0..).zip(&counts) {
            let known = || counts.iter().filter_map(|(token, count)| Some((*vocabulary.get(token)?, *count)));
            known().for_each(|(column, count)| postings[column].push((document, count)));
            norms.push(norm(known().map(|(_, count)| count)));
        }
        Self { vocabulary, postings, norms }
    }

    fn score(&self, query: &str) -> Vec<f32> {
        let counts = token_counts(query);
        let known: Vec<(usize, u32)> =
            counts.iter().filter_map(|(token, count)| Some((*self.vocabulary.get(token)?, *count))).collect();
        let query_norm = norm(known.iter().map(|(_, count)| *count));
        // Whole numbers, so that equal cosines come out equal whatever the order of the sum.
        let mut products = vec![0_u64; self.norms.len()];
        for (column, query_count) in known {
            for (document, count) in &self.postings[column] {
                products[*document as usize] += u64::from(query_count) * u64::from(*count);
            }
        }
        let cosine =
            |product: u64, norm: f64| if product == 0 { 0.0 } else { product as f64 / (query_norm * norm) };
        products.into_iter().zip(&self.norms).map(|(product, norm)| cosine(product, *norm) as f32).collect()
    }
}

impl Scorer for BagOfWords {
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        Ok(queries.par_iter().map(|query| self.score(&query.text)).collect())
    }
}

fn token_counts(text: &str) -> HashMap<String, u32> {
    let mut counts = HashMap::new();
    let lower = text.to_lowercase();
    for token in lower.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
        if token.chars().nth(1).is_some() {
            *counts.entry(token.to_owned()).or_default() += 1;
        }
    }
    counts
}

fn norm(counts: impl Iterator<Item = u32>) -> f64 {
    counts.map(|count| f64::from(count) * f64::from(count)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, documents};
    use super::*;

    fn bag_of_words(texts: &[&str], vocabulary_size: usize, query: &str) -> Vec<f32> {
        BagOfWords::new(&documents(texts), vocabulary_size).scores(&[&asked(query)]).unwrap().remove(0)
    }

    #[test]
    fn bag_of_words_is_the_cosine_of_counts() {
        let scores =
            bag_of_words(&["read_file read", "READ x(read)", "", "write"], 2_000, "Read read, file!");
        // Over read_file, read, write: (1, 1, 0), (0, 2, 0), 0, (0, 0, 1); the query is (0, 2, 0), `file` unknown.
        assert_eq!(scores, [0.5_f32.sqrt(), 1.0, 0.0, 0.0]);
        assert_eq!(bag_of_words(&["read"], 2_000, "nothing known"), [0.0]);
    }

    #[test]
    fn only_the_most_frequent_tokens_count_and_equals_come_alphabetically() {
        let texts = ["beta beta alpha", "alpha gamma", "beta delta"];
        assert_eq!(bag_of_words(&texts, 1, "alpha gamma"), [0.0, 0.0, 0.0]);
        assert_eq!(bag_of_words(&texts, 3, "gamma"), [0.0, 0.0, 0.0]);
        assert_eq!(bag_of_words(&texts, 3, "delta"), [0.0, 0.0, 0.5_f32.sqrt()]);
        assert_eq!(bag_of_words(&texts, 4, "gamma"), [0.0, 0.5_f32.sqrt(), 0.0]);
    }

    #[test]
    fn tokens_are_words_of_two_letters_or_more_in_any_script() {
        let tokens = token_counts("a an x_1 _ __ Ünï-日本 9 99");
        let mut names: Vec<&str> = tokens.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["99", "__", "an", "x_1", "ünï", "日本"]);
    }
}
