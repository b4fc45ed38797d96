//! Methods that score a query and a document together.

use super::{Scale, Scorer};
use crate::EvalError;
use quarry_corpus::formats::{Document, Query};
use quarry_text::{lexical_terms, query_terms};
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::HashSet;

/// Scores pairs of a query and a document, rather than comparing vectors of each.
///
/// Work that can be done on each text separately is done once per text: a cross-encoder tokenizes it, a siamese
/// matcher computes a vector, a chat model formats part of a prompt. The rest is done for every pair.
pub trait PairScorer: Send + Sync {
    type Query: Send + Sync;
    type Document: Send + Sync;

    const SCALE: Scale;

    /// Number of pairs passed to [`PairScorer::score_pairs`] at a time.
    const PAIRS_PER_CALL: usize;

    /// Prepares queries, in order.
    ///
    /// # Errors
    /// When a model fails.
    fn prepare_queries(&self, texts: &[&str]) -> Result<Vec<Self::Query>, EvalError>;

    /// Prepares documents, in order.
    ///
    /// # Errors
    /// When a model fails.
    fn prepare_documents(&self, texts: &[&str]) -> Result<Vec<Self::Document>, EvalError>;

    /// Scores pairs, in order; higher is better, never NaN.
    ///
    /// # Errors
    /// When a model fails.
    fn score_pairs(&self, pairs: &[(&Self::Query, &Self::Document)]) -> Result<Vec<f32>, EvalError>;
}

const DOCUMENTS_PER_CALL: usize = 512;

/// A pair scorer as a method over a corpus: of all pairs, or of candidates only.
pub struct AllPairs<P: PairScorer> {
    scorer: P,
    documents: Vec<P::Document>,
}

impl<P: PairScorer> AllPairs<P> {
    /// Prepares documents.
    ///
    /// # Errors
    /// When a model fails.
    pub fn new(scorer: P, documents: &[Document]) -> Result<Self, EvalError> {
        let mut prepared = Vec::with_capacity(documents.len());
        for documents in documents.chunks(DOCUMENTS_PER_CALL) {
            let texts: Vec<Cow<'_, str>> = documents.iter().map(Document::full_text).collect();
            let texts: Vec<&str> = texts.iter().map(Cow::as_ref).collect();
            prepared.extend(scorer.prepare_documents(&texts)?);
        }
        Ok(Self { scorer, documents: prepared })
    }

    fn score(
        &self,
        queries: &[&Query],
        positions: impl Fn(usize) -> Vec<usize>,
    ) -> Result<Vec<Vec<f32>>, EvalError> {
        let texts: Vec<&str> = queries.iter().map(|query| query.text.as_str()).collect();
        let queries = self.scorer.prepare_queries(&texts)?;
        let mut scores = Vec::with_capacity(queries.len());
        for (index, query) in queries.iter().enumerate() {
            let positions = positions(index);
            let mut of_query = Vec::with_capacity(positions.len());
            for positions in positions.chunks(P::PAIRS_PER_CALL) {
                let pairs: Vec<_> =
                    positions.iter().map(|&position| (query, &self.documents[position])).collect();
                of_query.extend(self.scorer.score_pairs(&pairs)?);
            }
            scores.push(of_query);
        }
        Ok(scores)
    }
}

impl<P: PairScorer> Scorer for AllPairs<P> {
    fn scale(&self) -> Scale {
        P::SCALE
    }

    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        self.score(queries, |_| (0..self.documents.len()).collect())
    }

    fn scores_of(&self, candidates: &[(&Query, &[usize])]) -> Result<Vec<Vec<f32>>, EvalError> {
        let queries: Vec<&Query> = candidates.iter().map(|(query, _)| *query).collect();
        self.score(&queries, |index| candidates[index].1.to_vec())
    }
}

/// Containment of the query's terms in the document's: the share of the query's terms that the document contains,
/// from 0 to 1, and 0 for a query without terms (Broder, *On the Resemblance and Containment of Documents*, 1997).
/// Terms are those of lexical search.
#[derive(Debug, Clone, Copy)]
pub struct Overlap;

impl PairScorer for Overlap {
    type Query = Vec<String>;
    type Document = HashSet<String>;

    const SCALE: Scale = Scale::Similarity;
    const PAIRS_PER_CALL: usize = 4_096;

    fn prepare_queries(&self, texts: &[&str]) -> Result<Vec<Vec<String>>, EvalError> {
        Ok(texts.par_iter().map(|text| query_terms(text)).collect())
    }

    fn prepare_documents(&self, texts: &[&str]) -> Result<Vec<HashSet<String>>, EvalError> {
        let terms = |text: &&str| {
            let mut terms = HashSet::new();
            lexical_terms(text, |term, _| _ = terms.insert(term.to_owned()));
            terms
        };
        Ok(texts.par_iter().map(terms).collect())
    }

    fn score_pairs(&self, pairs: &[(&Vec<String>, &HashSet<String>)]) -> Result<Vec<f32>, EvalError> {
        let score = |(query, document): &(&Vec<String>, &HashSet<String>)| {
            let n_shared = query.iter().filter(|term| document.contains(*term)).count();
            n_shared as f32 / query.len().max(1) as f32
        };
        Ok(pairs.par_iter().map(score).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fusion::Reranked;
    use super::super::tests::{asked, documents};
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn overlap_is_the_share_of_the_querys_terms() {
        let documents = documents(&["def read_csv(path): pass", "csv csv", "", "READ a PATH of csv"]);
        let scorer = AllPairs::new(Overlap, &documents).unwrap();
        let scores = scorer.scores(&[&asked("read the csv paths"), &asked("?")]).unwrap();
        assert_eq!(scores, [[1.0, 1.0 / 3.0, 0.0, 1.0], [0.0; 4]]);
        let (first, second) = (asked("csv"), asked("path"));
        assert_eq!(
            scorer.scores_of(&[(&first, &[1, 2]), (&second, &[3])]).unwrap(),
            [vec![1.0, 0.0], vec![1.0]]
        );
    }

    /// Scores a document by its first number, and counts its calls.
    #[derive(Default)]
    struct Numbers {
        n_documents: AtomicUsize,
        n_pairs: AtomicUsize,
    }

    impl PairScorer for Arc<Numbers> {
        type Query = f32;
        type Document = f32;

        const SCALE: Scale = Scale::Similarity;
        const PAIRS_PER_CALL: usize = 3;

        fn prepare_queries(&self, texts: &[&str]) -> Result<Vec<f32>, EvalError> {
            Ok(texts.iter().map(|text| text.parse().unwrap()).collect())
        }

        fn prepare_documents(&self, texts: &[&str]) -> Result<Vec<f32>, EvalError> {
            self.n_documents.fetch_add(texts.len(), Ordering::SeqCst);
            self.prepare_queries(texts)
        }

        fn score_pairs(&self, pairs: &[(&f32, &f32)]) -> Result<Vec<f32>, EvalError> {
            assert!(pairs.len() <= Self::PAIRS_PER_CALL);
            self.n_pairs.fetch_add(pairs.len(), Ordering::SeqCst);
            Ok(pairs.iter().map(|(query, document)| *query * *document).collect())
        }
    }

    #[test]
    fn texts_are_prepared_once_and_only_candidates_are_scored() {
        let numbers = Arc::new(Numbers::default());
        let documents = documents(&["1", "2", "3", "4", "5", "6", "7"]);
        let all = AllPairs::new(numbers.clone(), &documents).unwrap();
        assert_eq!(all.scores(&[&asked("2"), &asked("-1")]).unwrap()[1], [-1., -2., -3., -4., -5., -6., -7.]);
        assert_eq!(numbers.n_pairs.swap(0, Ordering::SeqCst), 14);
        let first = Box::new(AllPairs::new(numbers.clone(), &documents).unwrap());
        let reranked = Reranked { first, second: Box::new(all), depth: 2 };
        assert_eq!(reranked.scores(&[&asked("2")]).unwrap()[0], [7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 14.0]);
        assert_eq!(numbers.n_pairs.load(Ordering::SeqCst), 7 + 2);
        assert_eq!(numbers.n_documents.load(Ordering::SeqCst), 14);
    }
}
