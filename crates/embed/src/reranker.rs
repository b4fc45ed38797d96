//! A fast model with slower ones that re-rank the first results.

use std::sync::{Arc, LazyLock};

use crate::{EmbedError, Embedder, PairModel, Vectors};

/// The methods that find results, which are those of the embedder in a field.
macro_rules! vectors_of {
    ($field:ident) => {
        fn id(&self) -> &str {
            self.$field.id()
        }

        fn dimension(&self) -> usize {
            self.$field.dimension()
        }

        fn adds_words(&self) -> bool {
            self.$field.adds_words()
        }

        fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
            self.$field.embed_queries(texts)
        }

        fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
            self.$field.embed_documents(texts)
        }
    };
}

/// An embedder that behaves like the first of two, with the second as its re-ranker.
pub struct WithReranker {
    /// Finds results; indexes hold its vectors.
    pub first: Arc<dyn Embedder>,
    /// Re-ranks the first ones.
    pub reranker: Arc<dyn Embedder>,
}

impl Embedder for WithReranker {
    vectors_of!(first);

    fn reranker(&self) -> Option<&dyn Embedder> {
        Some(&*self.reranker)
    }
}

type Load = Box<dyn FnOnce() -> Option<Arc<dyn Embedder>> + Send>;

/// An embedder that behaves like another one, with a re-ranker for results whose vectors are stored. It is loaded when it is
/// first needed.
pub struct WithStoredReranker {
    first: Arc<dyn Embedder>,
    max_precomputed: usize,
    reranker: LazyLock<Option<Arc<dyn Embedder>>, Load>,
}

impl WithStoredReranker {
    /// `first` finds results; `load` loads what re-ranks them, if that can be done. Vectors are computed ahead for indexes of
    /// up to `max_precomputed` units.
    pub fn new(
        first: Arc<dyn Embedder>,
        max_precomputed: usize,
        load: impl FnOnce() -> Option<Arc<dyn Embedder>> + Send + 'static,
    ) -> Self {
        Self { first, max_precomputed, reranker: LazyLock::new(Box::new(load)) }
    }
}

impl Embedder for WithStoredReranker {
    vectors_of!(first);

    fn reranker(&self) -> Option<&dyn Embedder> {
        self.reranker.as_deref()
    }

    fn reranks_stored_only(&self) -> bool {
        true
    }

    fn max_precomputed(&self) -> usize {
        self.max_precomputed
    }
}

/// An embedder that behaves like another one, including its re-ranker, with a cross-encoder.
pub struct WithCrossEncoder {
    /// Finds results, and re-ranks them if it has a re-ranker.
    pub embedder: Arc<dyn Embedder>,
    /// Finally re-ranks the first ones.
    pub cross_encoder: Arc<dyn PairModel>,
}

impl Embedder for WithCrossEncoder {
    vectors_of!(embedder);

    fn reranker(&self) -> Option<&dyn Embedder> {
        self.embedder.reranker()
    }

    fn reranks_stored_only(&self) -> bool {
        self.embedder.reranks_stored_only()
    }

    fn max_precomputed(&self) -> usize {
        self.embedder.max_precomputed()
    }

    fn cross_encoder(&self) -> Option<&dyn PairModel> {
        Some(&*self.cross_encoder)
    }
}
