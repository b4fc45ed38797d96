//! The two sides of `quarry search` and their fusion, over documents of one field: no files, no rules.

use super::Scorer;
use crate::EvalError;
use quarry_corpus::formats::{Document, Query};
use quarry_embed::{Embedder, Vectors};
use quarry_index::Ranking;
use quarry_index::fusion::convex_combination;
use quarry_index::lexical::{Groups, LexicalIndex, LexicalText};
use quarry_index::vectors::VectorMatrix;
use quarry_text::query_terms;
use rayon::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

/// Documents that a model gets at once: enough for it to make batches of equal length.
const DOCUMENTS_PER_CALL: usize = 512;

/// BM25 with the parameters of search, a document being one body.
pub struct Bm25 {
    index: LexicalIndex,
    ranking: Ranking,
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
        Ok(Self { index: LexicalIndex::in_memory(texts)?, ranking: Ranking::default() })
    }

    fn score(&self, query: &str) -> Result<Vec<f32>, EvalError> {
        let no_groups = Groups { of_text: &[], lengths: &[] };
        Ok(self.index.scores(&query_terms(query), &self.ranking.bm25f, no_groups)?.texts)
    }
}

impl Scorer for Bm25 {
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        queries.par_iter().map(|query| self.score(&query.text)).collect()
    }
}

/// Cosine of a model's vectors, those of documents held in 8 bits a value as in an index.
pub struct Dense {
    embedder: Arc<dyn Embedder>,
    documents: VectorMatrix,
}

impl Dense {
    /// Embeds documents; `on_embedded` hears how many more are done.
    ///
    /// # Errors
    /// When the model fails.
    pub fn new(
        embedder: Arc<dyn Embedder>,
        documents: &[Document],
        on_embedded: &mut dyn FnMut(usize),
    ) -> Result<Self, EvalError> {
        let mut vectors = Vectors { dimension: embedder.dimension(), values: Vec::new() };
        for documents in documents.chunks(DOCUMENTS_PER_CALL) {
            let texts: Vec<Cow<'_, str>> = documents.iter().map(Document::full_text).collect();
            let texts: Vec<&str> = texts.iter().map(Cow::as_ref).collect();
            vectors.values.extend(embedder.embed_documents(&texts)?.values);
            on_embedded(documents.len());
        }
        Ok(Self { embedder, documents: VectorMatrix::in_memory(&vectors) })
    }
}

impl Scorer for Dense {
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        let texts: Vec<&str> = queries.iter().map(|query| query.text.as_str()).collect();
        let vectors = self.embedder.embed_queries(&texts)?;
        Ok(vectors
            .values
            .par_chunks_exact(vectors.dimension)
            .map(|query| self.documents.similarities(query))
            .collect())
    }
}

/// Both sides, fused as search fuses them.
pub struct Hybrid {
    lexical: Bm25,
    dense: Dense,
}

impl Hybrid {
    /// Joins two sides over the same documents.
    #[must_use]
    pub fn new(lexical: Bm25, dense: Dense) -> Self {
        Self { lexical, dense }
    }
}

impl Scorer for Hybrid {
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        let dense_weight = self.lexical.ranking.dense_weight;
        let sides = self.lexical.scores(queries)?.into_iter().zip(self.dense.scores(queries)?);
        Ok(sides.map(|(lexical, dense)| convex_combination(&lexical, &dense, dense_weight)).collect())
    }
}
