//! Embeds text: what an embedder is, the static model in the binary, and a cache for the vectors of others.

mod cache;
mod many;
pub mod static_model;
pub mod vocabulary;

use std::error::Error;
use std::io;
use std::path::Path;

pub use cache::CachedEmbedder;
pub use cache::kept::KeptVectors;
pub use many::{Side, embed_many};
pub use static_model::StaticModel;

/// A matrix of row vectors, one row a text, L2-normalised (a zero row where the text held nothing known), unless it is
/// said otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    /// Number of columns.
    pub dimension: usize,
    /// Row-major values, `len() * dimension` of them.
    pub values: Vec<f32>,
}

impl Vectors {
    /// Number of rows; 0 where they have no columns.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.values.len().checked_div(self.dimension).unwrap_or(0)
    }

    /// Scales every row to length 1; a row of zeros stays as it is.
    pub fn normalise(&mut self) {
        self.values.chunks_mut(self.dimension.max(1)).for_each(normalise);
    }
}

/// Partial sums of [`normalise`], in an order that no compiler changes.
const LANES: usize = 16;

/// Scales a vector to length 1; a vector of zeros stays as it is.
pub fn normalise(vector: &mut [f32]) {
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

/// Turns queries and documents into vectors whose dot product (in -1..=1, greater is closer) is their similarity.
pub trait Embedder: Send + Sync {
    /// Identifies the model and its weights: two embedders with equal ids give equal vectors.
    fn id(&self) -> &str;
    /// Number of columns of every result.
    fn dimension(&self) -> usize;
    /// Embeds questions in plain words, one row each.
    ///
    /// # Errors
    /// When the model cannot run on its input.
    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError>;
    /// Embeds code, one row each.
    ///
    /// # Errors
    /// When the model cannot run on its input.
    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError>;
}

/// Bytes of the largest file of a model, or of vectors, that is read.
const MAX_FILE_BYTES: u64 = 16 << 30;

/// Reads a file of a model, or of vectors: a regular one, which ends.
///
/// # Errors
/// When it cannot be read, is not a regular file, or is too large.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    quarry_files::read_regular(path, MAX_FILE_BYTES)
}

/// Why an embedding could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The model directory or file is broken; says which file and what to do.
    #[error("{path}: {problem}")]
    Model {
        /// File or directory that is broken.
        path: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// A step on a model file failed; says which file and what to do.
    #[error("{path}: {problem}")]
    ModelFile {
        /// File that is broken.
        path: String,
        /// What is wrong with it and what to do.
        problem: String,
        /// What the step reported.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A model that a server runs gave no vectors.
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
    fn normalise_keeps_zeros() {
        let mut vector = [3.0, 0.0, -4.0];
        normalise(&mut vector);
        assert_eq!(vector, [0.6, 0.0, -0.8]);
        let mut zeros = [0.0; 3];
        normalise(&mut zeros);
        assert_eq!(zeros, [0.0; 3]);
    }
}
