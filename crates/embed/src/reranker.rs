//! A fast model with slower ones for the first results.

use std::iter;
use std::sync::Arc;

use crate::{EmbedError, Embedder, PairModel, Vectors};

/// The re-ranker of a model, the re-ranker of that one, and so on.
pub fn rerankers(model: &dyn Embedder) -> impl Iterator<Item = &dyn Embedder> {
    iter::successors(model.reranker(), |reranker| reranker.reranker())
}

/// An embedder that behaves like the first of two, with the second as its re-ranker.
pub struct WithReranker {
    /// Finds results; indexes hold its vectors.
    pub first: Arc<dyn Embedder>,
    /// Re-ranks the first ones.
    pub reranker: Arc<dyn Embedder>,
}

impl Embedder for WithReranker {
    fn id(&self) -> &str {
        self.first.id()
    }

    fn dimension(&self) -> usize {
        self.first.dimension()
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.first.embed_queries(texts)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.first.embed_documents(texts)
    }

    fn reranker(&self) -> Option<&dyn Embedder> {
        Some(&*self.reranker)
    }
}

/// An embedder that behaves like another one, including its re-rankers, with a cross-encoder.
pub struct WithCrossEncoder {
    /// Finds results, and re-ranks them if it has a re-ranker.
    pub embedder: Arc<dyn Embedder>,
    /// Finally re-ranks the first ones.
    pub cross_encoder: Arc<dyn PairModel>,
}

impl Embedder for WithCrossEncoder {
    fn id(&self) -> &str {
        self.embedder.id()
    }

    fn dimension(&self) -> usize {
        self.embedder.dimension()
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.embedder.embed_queries(texts)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.embedder.embed_documents(texts)
    }

    fn reranker(&self) -> Option<&dyn Embedder> {
        self.embedder.reranker()
    }

    fn cross_encoder(&self) -> Option<&dyn PairModel> {
        Some(&*self.cross_encoder)
    }
}
