use super::postings::{Postings, counts};
use super::{Corpus, Scorer};
use crate::EvalError;
use quarry_corpus::formats::{Document, Query};
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Vocabulary {
    /// Tokens of all documents.
    #[default]
    Corpus,
    /// Tokens of documents that are relevant to a query, as in the code of CoSQA+, whose corpus for this method
    /// contained no others. This uses the judgments, which is not allowed for a method that is to be compared with
    /// others.
    Positives,
}

/// Cosine of count vectors over the most frequent tokens, as in the CoSQA+ authors' use of scikit-learn's
/// `CountVectorizer`: tokens are runs of two or more letters, digits or `_`, in lower case. Ties in frequency are
/// broken alphabetically, which scikit-learn leaves open. A text without known tokens scores 0.
#[derive(Debug)]
pub struct BagOfWords {
    postings: Postings,
    /// Norm of each document's vector.
    norms: Vec<f64>,
}

impl BagOfWords {
    pub const VOCABULARY_SIZE: usize = 2_000;

    /// Counts tokens over a corpus of less than 2³² documents.
    ///
    /// # Errors
    /// When the vocabulary is that of relevant documents, and there are none.
    pub fn new(corpus: Corpus<'_>, vocabulary: Vocabulary, size: usize) -> Result<Self, EvalError> {
        let of_document = |document: &Document| counts(tokens(&document.full_text().to_lowercase()));
        let counts: Vec<HashMap<String, u32>> = corpus.documents.par_iter().map(of_document).collect();
        let relevant: Option<HashSet<&str>> = match vocabulary {
            Vocabulary::Corpus => None,
            Vocabulary::Positives => {
                let judged = corpus.qrels.into_iter().flat_map(|qrels| qrels.values().flatten());
                let relevant: HashSet<&str> =
                    judged.filter(|(_, grade)| **grade > 0).map(|(id, _)| id.as_str()).collect();
                if relevant.is_empty() {
                    return Err(EvalError::NoPositives);
                }
                Some(relevant)
            }
        };
        let mut frequencies: HashMap<&str, u64> = HashMap::new();
        for (document, counts) in corpus.documents.iter().zip(&counts) {
            if relevant.as_ref().is_none_or(|relevant| relevant.contains(document.id.as_str())) {
                for (token, count) in counts {
                    *frequencies.entry(token).or_default() += u64::from(*count);
                }
            }
        }
        let mut by_frequency: Vec<(&str, u64)> = frequencies.into_iter().collect();
        by_frequency.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let vocabulary = by_frequency.into_iter().take(size).map(|(token, _)| token.to_owned());
        let postings = Postings::new(&counts, vocabulary);
        let known = |counts: &HashMap<String, u32>| {
            norm(counts.iter().filter(|(token, _)| postings.get(token).is_some()).map(|(_, count)| *count))
        };
        let norms = counts.iter().map(known).collect();
        Ok(Self { postings, norms })
    }

    fn score(&self, query: &str) -> Vec<f32> {
        let counts = counts(tokens(&query.to_lowercase()));
        let known: Vec<(&[(u32, u32)], u32)> =
            counts.iter().filter_map(|(token, count)| Some((self.postings.get(token)?, *count))).collect();
        let query_norm = norm(known.iter().map(|(_, count)| *count));
        // Integers, so that equal cosines are exactly equal whatever the order of the sum.
        let mut products = vec![0_u64; self.norms.len()];
        for (list, query_count) in known {
            for (document, count) in list {
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

fn tokens(lower: &str) -> impl Iterator<Item = &str> {
    let words = lower.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.filter(|word| word.chars().nth(1).is_some())
}

fn norm(counts: impl Iterator<Item = u32>) -> f64 {
    counts.map(|count| f64::from(count) * f64::from(count)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{asked, documents};
    use super::*;
    use std::collections::BTreeMap;

    fn bag_of_words(texts: &[&str], vocabulary_size: usize, query: &str) -> Vec<f32> {
        let documents = documents(texts);
        let scorer = BagOfWords::new(documents[..].into(), Vocabulary::Corpus, vocabulary_size).unwrap();
        scorer.scores(&[&asked(query)]).unwrap().remove(0)
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
        let found: Vec<&str> = tokens("a an x_1 _ __ ünï-日本 9 99").collect();
        assert_eq!(found, ["an", "x_1", "__", "ünï", "日本", "99"]);
    }

    #[test]
    fn the_vocabulary_can_be_that_of_relevant_documents() {
        let documents = documents(&["common common", "rare common", "other"]);
        let grades = |grade| BTreeMap::from([("1".to_owned(), grade), ("2".to_owned(), 0)]);
        let scores = |qrels| {
            let corpus = Corpus { documents: &documents, qrels };
            BagOfWords::new(corpus, Vocabulary::Positives, 1)?.scores(&[&asked("common rare")])
        };
        let qrels = BTreeMap::from([("q".to_owned(), grades(1))]);
        assert_eq!(scores(Some(&qrels)).unwrap(), [[1.0, 1.0, 0.0]]);
        let none = BTreeMap::from([("q".to_owned(), grades(0))]);
        assert!(matches!(scores(Some(&none)), Err(EvalError::NoPositives)));
        assert!(matches!(scores(None), Err(EvalError::NoPositives)));
    }
}
