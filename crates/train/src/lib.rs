//! Trains retrieval models. What is in here sees training pairs only: evaluation labels never reach it.

pub mod encoder;
mod pairs;
mod rows;
pub mod static_model;
pub mod teacher;

pub use pairs::read_pairs;
pub use rows::{Example, LeftOut, clean};
pub use teacher::Teacher;

use std::path::{Path, PathBuf};

/// Why training could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error("{}: {problem}", path.display())]
    File {
        /// The file of pairs, vectors or a model.
        path: PathBuf,
        problem: String,
    },
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file of pairs, vectors or a model.
        path: PathBuf,
        /// Line, 1-based.
        line: usize,
        problem: String,
    },
    #[error("{0}")]
    Settings(String),
    #[error("the teacher failed")]
    Teacher(#[source] quarry_embed::EmbedError),
    /// A model could not be read, or its tokenizer failed.
    #[error(transparent)]
    Model(quarry_embed::EmbedError),
    #[error(
        "no CUDA device can be used; check with `nvidia-smi` that there are a driver and a GPU, or omit --device cuda"
    )]
    Device(#[source] candle_core::Error),
    #[error("matrix arithmetic failed")]
    Matrix(#[from] candle_core::Error),
}

impl TrainError {
    pub(crate) fn file(path: &Path, problem: impl ToString) -> TrainError {
        TrainError::File { path: path.to_owned(), problem: problem.to_string() }
    }
}
