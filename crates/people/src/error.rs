//! Errors, with what to do about them.

use std::path::PathBuf;

use quarry_judge::JudgeError;

/// The reason that a filled-in form was not imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    #[error("{}: nothing was imported; invalid rows: {n_wrong}\n{}", path.display(), listed.join("\n"))]
    Rows {
        path: PathBuf,
        n_wrong: usize,
        /// The first of these rows, each with file, line, what was expected and what to do.
        listed: Vec<String>,
    },
    #[error(transparent)]
    Judge(#[from] JudgeError),
}
