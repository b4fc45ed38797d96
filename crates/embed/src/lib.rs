//! Embeds text: the trait of embedders, the static model in the binary, and a cache for the vectors of other embedders.

mod cache;
mod many;
mod reranker;
pub mod shipped;
pub mod static_model;
mod thesaurus;
mod token_match;
pub mod vocabulary;
mod word_vectors;

use std::error::Error;
use std::io;
use std::path::Path;

pub use cache::CachedEmbedder;
pub use cache::cached::CachedVectors;
pub use many::{Side, embed_many};
pub use reranker::{WithCrossEncoder, WithReranker, WithStoredReranker};
pub use static_model::StaticModel;
pub use thesaurus::{Meaning, meanings, meanings_per_word};
pub use token_match::QueryTokens;

/// A matrix of row vectors, one row per text, L2-normalized (a zero row if the text held nothing known), unless
/// stated otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    /// Number of columns.
    pub dimension: usize,
    /// Row-major values, `len() * dimension` of them.
    pub values: Vec<f32>,
}

impl Vectors {
    /// Number of rows; 0 if there are no columns.
    pub fn n_rows(&self) -> usize {
        self.values.len().checked_div(self.dimension).unwrap_or(0)
    }

    pub fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.dimension.max(1))
    }

    /// Scales every row to length 1; a row of zeros is unchanged.
    pub fn normalize(&mut self) {
        self.values.chunks_mut(self.dimension.max(1)).for_each(normalize);
    }
}

/// Partial sums of [`normalize`], in an order that no compiler changes.
const LANES: usize = 16;

/// Scales a vector to length 1; a vector of zeros is unchanged.
pub fn normalize(vector: &mut [f32]) {
    let (chunks, rest) = vector.as_chunks::<LANES>();
    let mut lanes = [0.0f32; LANES];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value * value;
        }
    }
    let squares = lanes.iter().sum::<f32>() + rest.iter().map(|value| value * value).sum::<f32>();
    let length = squares.sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
}

/// Turns queries and documents into vectors whose dot product (in -1..=1, larger is closer) is their similarity.
pub trait Embedder: Send + Sync {
    /// Identifies the model and its weights: two embedders with equal ids give equal vectors.
    fn id(&self) -> &str;
    /// Number of columns of every result.
    fn dimension(&self) -> usize;
    /// Embeds queries in plain words, one row each.
    ///
    /// # Errors
    /// When the model cannot run on its input.
    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError>;
    /// Embeds code, one row each.
    ///
    /// # Errors
    /// When the model cannot run on its input.
    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError>;
    /// This model, if it gives texts several vectors: only these can be used then.
    fn token_embedder(&self) -> Option<&dyn TokenEmbedder> {
        None
    }
    /// Returns true if the vector of a text is the sum of those of its words.
    fn adds_words(&self) -> bool {
        false
    }
    /// A slower model that re-ranks the first results of a search ([`WithReranker`], [`WithStoredReranker`]). The first call
    /// may load it.
    fn reranker(&self) -> Option<&dyn Embedder> {
        None
    }
    /// Returns whether the re-ranker reads no result during a search, but uses the vectors that an index has of it.
    fn reranks_stored_only(&self) -> bool {
        false
    }
    /// The largest number of units of an index of which the re-ranker's vectors are computed ahead, unasked.
    fn max_precomputed(&self) -> usize {
        usize::MAX
    }
    /// A model that re-ranks the first results after all re-rankers ([`WithCrossEncoder`]).
    fn cross_encoder(&self) -> Option<&dyn PairModel> {
        None
    }
}

/// Gives a text a vector for each of its tokens. A document is the closer to a query, the larger their [`max_sim`] is.
pub trait TokenEmbedder: Send + Sync {
    /// The vectors of a query, of length 1.
    ///
    /// # Errors
    /// When the model cannot run on its input.
    fn query_tokens(&self, text: &str) -> Result<Vectors, EmbedError>;
    /// The vectors of documents, in order, of length 1.
    ///
    /// # Errors
    /// When the model cannot run on its input.
    fn document_tokens(&self, texts: &[&str]) -> Result<Vec<Vectors>, EmbedError>;
}

/// The sum, over the vectors of a query, of the maximum dot product with a vector of the document (Khattab & Zaharia,
/// *ColBERT*, SIGIR 2020, §3.3); 0 of a document without vectors.
pub fn max_sim(query: &Vectors, document: &Vectors) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let best = |query: &[f32]| document.rows().map(|row| dot(query, row)).reduce(f32::max);
    query.rows().filter_map(best).sum()
}

/// Reads a query and a document together, as cross-encoders do.
pub trait PairModel: Send + Sync {
    /// Identifies the model and its weights.
    fn id(&self) -> &str;
    /// The log-odds that the document answers the query, for each pair of a query and a document.
    ///
    /// # Errors
    /// When the model cannot run on its input.
    fn log_odds(&self, pairs: &[(&str, &str)]) -> Result<Vec<f32>, EmbedError>;
}

/// Maximum bytes of a file of a model or of vectors.
const MAX_FILE_BYTES: u64 = 16 << 30;

/// Reads a file of a model or of vectors, which must be regular.
///
/// # Errors
/// When it cannot be read, is not a regular file, or is too large.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    quarry_files::read_regular(path, MAX_FILE_BYTES)
}

/// Why an embedding could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The model directory or file is broken; names the file and what to do.
    #[error("{path}: {problem}")]
    Model {
        /// File or directory that is broken.
        path: String,
        /// The problem and its remedy.
        problem: String,
    },
    /// A step on a model file failed; names the file and what to do.
    #[error("{path}: {problem}")]
    ModelFile {
        path: String,
        /// The problem and its remedy.
        problem: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A server returned no vectors.
    #[error(transparent)]
    Remote(Box<dyn Error + Send + Sync>),
}

impl EmbedError {
    /// A file or directory of a model that is broken.
    pub fn model(path: &Path, problem: impl Into<String>) -> Self {
        Self::Model { path: path.display().to_string(), problem: problem.into() }
    }

    /// A model file on which a deeper step failed.
    pub fn model_file(path: &Path, problem: &str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::ModelFile {
            path: path.display().to_string(),
            problem: problem.to_owned(),
            source: source.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalize_keeps_zeros() {
        let mut vector = [3.0, 0.0, -4.0];
        normalize(&mut vector);
        assert_eq!(vector, [0.6, 0.0, -0.8]);
        let mut zeros = [0.0; 3];
        normalize(&mut zeros);
        assert_eq!(zeros, [0.0; 3]);
    }
}
