//! Embeds text: the static model in the binary, and transformers.

mod many;
pub mod static_model;
pub mod transformer;
pub mod vocabulary;

pub use many::{Side, embed_many};
pub use static_model::StaticModel;
pub use transformer::{TokenCutter, TransformerModel};

/// A matrix of row vectors, one row a text, L2-normalised (a zero row where the text held nothing known).
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    /// Number of columns.
    pub dimension: usize,
    /// Row-major values, `len() * dimension` of them.
    pub values: Vec<f32>,
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

/// Why an embedding could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The model folder or file is broken; says which file and what to do.
    #[error("{path}: {problem}")]
    Model {
        /// File or folder that is broken.
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
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
