//! Errors, with what to do about them.

use std::io;
use std::path::PathBuf;

use quarry_corpus::formats::FormatError;
use quarry_corpus::toml_file::Mistake;
use quarry_llm::{Failure, LlmError};
use quarry_queue::QueueError;
use quarry_text::counted;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    #[error("{}: cannot be read; check the path and its permissions", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: cannot be written; check the directory, its permissions and the free space", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{}: {problem}", path.display())]
    Plan { path: PathBuf, problem: String },
    #[error("{}:{mistake}", path.display())]
    PlanEntry { path: PathBuf, mistake: Mistake },
    #[error("{file}: {problem}")]
    Prompt {
        /// The file, or the name of a built-in prompt.
        file: String,
        problem: String,
    },
    #[error("cannot judge {n_wrong} of {}; nothing was asked:\n{}", counted(*n_pairs, "pair"), listed.join("\n"))]
    Pairs {
        n_wrong: usize,
        n_pairs: usize,
        /// The first of these pairs, each with what was expected.
        listed: Vec<String>,
    },
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("{}: {problem}", path.display())]
    Ledger {
        path: PathBuf,
        problem: String,
        #[source]
        source: Option<rusqlite::Error>,
    },
    #[error(transparent)]
    Model(LlmError),
    #[error(transparent)]
    Sandbox(#[from] quarry_sandbox::Error),
    /// Packages that a program needs could not be fetched this time.
    #[error(transparent)]
    Packages(quarry_sandbox::packages::PackageError),
    #[error("the test program cannot be run: {problem}")]
    Unrunnable { problem: String },
    /// Tasks cannot be handed to workers, or received.
    #[error(transparent)]
    Queue(QueueError),
    #[error(
        "this worker has nothing to do: name a model that it may use (--model ADDRESS), or install \
         bubblewrap and an interpreter, so that it can run programs"
    )]
    Idle,
    /// Several pairs in a row failed, which suggests a common cause.
    #[error(
        "{in_a_row} consecutive pairs failed, the last one with: {last}; fix that, and run the plan again"
    )]
    Failures { in_a_row: u32, last: String },
    #[error("stopped; the answers so far are in the ledger, and the same command resumes from there")]
    Stopped,
}

impl From<LlmError> for JudgeError {
    fn from(error: LlmError) -> Self {
        match error {
            LlmError::Failed { failure: Failure::Withdrawn, .. } => Self::Stopped,
            other => Self::Model(other),
        }
    }
}

impl From<QueueError> for JudgeError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Stopped => Self::Stopped,
            other => Self::Queue(other),
        }
    }
}
