//! The lexical and dense parts of `quarry search` and their fusion, over documents with one field: no files, no
//! rules.

use super::Scorer;
use crate::EvalError;
use quarry_corpus::formats::{Document, Query};
use quarry_embed::{Embedder, Vectors};
use quarry_index::RankingWeights;
use quarry_index::fusion::convex_combination;
use quarry_index::lexical::{Groups, LexicalIndex, LexicalText};
use quarry_index::rerank;
use quarry_index::vectors::VectorMatrix;
use quarry_text::TermRules;
use quarry_transformer::nearest::{self, Neighbor};
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Documents passed to a model at a time: enough for it to form batches of equal length.
const DOCUMENTS_PER_CALL: usize = 512;

/// BM25 with the parameters of search; a document is a single body field.
pub struct Bm25 {
    pub(crate) index: LexicalIndex,
    /// The rules for terms by which the index was made.
    pub(crate) rules: TermRules,
    pub(crate) ranking: RankingWeights,
}

impl Bm25 {
    /// Indexes documents in memory.
    ///
    /// # Errors
    /// When they do not fit into an index.
    pub fn new(documents: &[Document]) -> Result<Self, EvalError> {
        let texts = documents
            .iter()
            .map(|document| LexicalText { body: document.full_text(), ..LexicalText::default() });
        let index = LexicalIndex::in_memory(texts)?;
        Ok(Self { index, rules: TermRules::default(), ranking: RankingWeights::default() })
    }

    fn score(&self, query: &str) -> Result<Vec<f32>, EvalError> {
        let no_groups = Groups { of_text: &[], lengths: &[] };
        Ok(self.index.scores(&self.rules.query_terms(query), &self.ranking.bm25f, no_groups)?.texts)
    }
}

impl Scorer for Bm25 {
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        queries.par_iter().map(|query| self.score(&query.text)).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 8 bits per value, as in an index, to measure search.
    Search,
    /// As returned by the model, to measure the model.
    Full,
}

/// Cosine similarity of a model's vectors.
pub struct Dense {
    embedder: Arc<dyn Embedder>,
    documents: DocumentVectors,
}

enum DocumentVectors {
    Quantised(VectorMatrix),
    Full(Vectors),
}

impl Dense {
    /// Embeds documents; `on_embedded` is called with the number of further documents done.
    ///
    /// # Errors
    /// When the model fails.
    pub fn new(
        embedder: Arc<dyn Embedder>,
        documents: &[Document],
        precision: Precision,
        on_embedded: &mut dyn FnMut(usize),
    ) -> Result<Self, EvalError> {
        let mut vectors = Vectors { dimension: embedder.dimension(), values: Vec::new() };
        for documents in documents.chunks(DOCUMENTS_PER_CALL) {
            let texts: Vec<Cow<'_, str>> = documents.iter().map(Document::full_text).collect();
            let texts: Vec<&str> = texts.iter().map(Cow::as_ref).collect();
            vectors.values.extend(embedder.embed_documents(&texts)?.values);
            on_embedded(documents.len());
        }
        let documents = match precision {
            Precision::Search => DocumentVectors::Quantised(VectorMatrix::in_memory(&vectors)),
            Precision::Full => DocumentVectors::Full(vectors),
        };
        Ok(Self { embedder, documents })
    }

    fn embed(&self, queries: &[&Query]) -> Result<Vectors, EvalError> {
        let texts: Vec<&str> = queries.iter().map(|query| query.text.as_str()).collect();
        Ok(self.embedder.embed_queries(&texts)?)
    }
}

impl Scorer for Dense {
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        let vectors = self.embed(queries)?;
        Ok(match &self.documents {
            DocumentVectors::Quantised(documents) => {
                let queries = vectors.values.par_chunks_exact(vectors.dimension);
                queries.map(|query| documents.similarities(query)).collect()
            }
            DocumentVectors::Full(documents) => nearest::products(&vectors, documents),
        })
    }

    fn best(&self, queries: &[&Query], k: usize) -> Result<Vec<Vec<Neighbor>>, EvalError> {
        let vectors = self.embed(queries)?;
        Ok(match &self.documents {
            DocumentVectors::Quantised(documents) => {
                let queries = vectors.values.par_chunks_exact(vectors.dimension);
                queries.map(|query| nearest::largest(&documents.similarities(query), k)).collect()
            }
            DocumentVectors::Full(documents) => nearest::nearest(&vectors, documents, k),
        })
    }
}

/// The lexical and dense parts, fused as in search.
pub struct Hybrid {
    pub lexical: Bm25,
    /// Over the same documents.
    pub dense: Dense,
}

impl Scorer for Hybrid {
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        let dense_weight = self.lexical.ranking.dense_weight;
        let sides = self.lexical.scores(queries)?.into_iter().zip(self.dense.scores(queries)?);
        Ok(sides.map(|(lexical, dense)| convex_combination(&lexical, &dense, dense_weight)).collect())
    }
}

/// The lexical and dense parts, fused, and a transformer that reads the first documents, as `--quality best` orders
/// functions.
pub struct Tiered {
    hybrid: Hybrid,
    reranker: Arc<dyn Embedder>,
    texts: Vec<String>,
    /// The vectors of the pieces of documents that were read.
    read: Mutex<HashMap<usize, Arc<Vectors>>>,
}

impl Tiered {
    /// Re-ranks the first documents of `hybrid`, which is over the same documents.
    pub fn new(hybrid: Hybrid, reranker: Arc<dyn Embedder>, documents: &[Document]) -> Self {
        let texts = documents.iter().map(|document| document.full_text().into_owned()).collect();
        Self { hybrid, reranker, texts, read: Mutex::default() }
    }

    /// The vectors of some documents, of which each is read once.
    fn vectors(&self, wanted: &BTreeSet<usize>) -> Result<HashMap<usize, Arc<Vectors>>, EvalError> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<usize> = wanted.iter().copied().filter(|at| !read.contains_key(at)).collect();
        for missing in missing.chunks(DOCUMENTS_PER_CALL) {
            let texts: Vec<&str> = missing.iter().map(|&at| self.texts[at].as_str()).collect();
            let vectors = rerank::piece_vectors(&texts, &*self.reranker)?;
            read.extend(missing.iter().copied().zip(vectors.into_iter().map(Arc::new)));
        }
        Ok(wanted.iter().filter_map(|at| Some((*at, Arc::clone(read.get(at)?)))).collect())
    }
}

/// The positions of the largest scores.
fn first(scores: &[f32], n: usize) -> Vec<usize> {
    nearest::largest(scores, n).into_iter().map(|found| found.position).collect()
}

/// Multiplies scores by the factors of a re-ranker that has read some of the documents.
fn multiply(scores: &mut [f32], read: impl Iterator<Item = (usize, f32)>, weight: f32) {
    let mut cosines = vec![None; scores.len()];
    read.for_each(|(at, cosine)| cosines[at] = Some(cosine));
    let factors = rerank::factors(&cosines, std::iter::repeat(weight));
    scores.iter_mut().zip(factors).for_each(|(score, factor)| *score *= factor);
}

impl Scorer for Tiered {
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        let mut all = self.hybrid.scores(queries)?;
        let wanted: Vec<Vec<usize>> = all.par_iter().map(|scores| first(scores, rerank::DEPTH)).collect();
        let vectors = self.vectors(&wanted.iter().flatten().copied().collect())?;
        let texts: Vec<&str> = queries.iter().map(|query| query.text.as_str()).collect();
        let of_queries = self.reranker.embed_queries(&texts)?;
        let weight = RankingWeights::default().rerank_function;
        all.par_iter_mut()
            .zip(&wanted)
            .zip(of_queries.values.par_chunks_exact(of_queries.dimension))
            .for_each(|((scores, wanted), query)| {
                let query = &Vectors { dimension: query.len(), values: query.to_vec() };
                let cosine = |at: &usize| Some((*at, rerank::best_cosine(vectors.get(at)?, query)?));
                multiply(scores, wanted.iter().filter_map(cosine), weight);
            });
        Ok(all)
    }
}
