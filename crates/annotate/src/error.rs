//! What can go wrong, and what to do about it.

use std::io;
use std::path::PathBuf;

use quarry_corpus::formats::FormatError;
use quarry_llm::{Failure, LlmError};
#[cfg(feature = "workers")]
use quarry_queue::QueueError;

/// Why judging cannot begin or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnnotateError {
    /// A file or directory cannot be read.
    #[error("{}: cannot be read; check the path and its permissions", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file or directory cannot be written.
    #[error("{}: cannot be written; check the directory, its permissions and the free space", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A plan is wrong.
    #[error("{}: {problem}", path.display())]
    Plan {
        /// The file of the plan.
        path: PathBuf,
        /// What was expected, and what to do.
        problem: String,
    },
    /// A prompt or a guideline is wrong.
    #[error("{file}: {problem}")]
    Prompt {
        /// The file, or the name of a built-in one.
        file: String,
        /// What was expected.
        problem: String,
    },
    /// Pairs that cannot be judged.
    #[error("{n_wrong} of {n_pairs} pairs cannot be judged; nothing was asked:\n{}", listed.join("\n"))]
    Pairs {
        /// How many cannot.
        n_wrong: usize,
        /// How many there are.
        n_pairs: usize,
        /// The first of them, with what was expected.
        listed: Vec<String>,
    },
    /// A form that people filled in cannot be taken.
    #[error("{}: nothing was imported; rows that are wrong: {n_wrong}\n{}", path.display(), listed.join("\n"))]
    Form {
        /// The file that was read.
        path: PathBuf,
        /// How many rows are wrong.
        n_wrong: usize,
        /// The first of them, with file, line, what was expected and what to do.
        listed: Vec<String>,
    },
    /// A file of pairs is wrong.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The ledger cannot be used.
    #[error("{}: {problem}", path.display())]
    Ledger {
        /// The ledger.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
        /// What SQLite said.
        #[source]
        source: Option<rusqlite::Error>,
    },
    /// The model cannot be asked.
    #[error(transparent)]
    Model(LlmError),
    /// Programs cannot be run.
    #[error(transparent)]
    Sandbox(#[from] quarry_sandbox::Error),
    /// Packages that a program needs could not be fetched this time.
    #[error(transparent)]
    Packages(quarry_sandbox::packages::PackageError),
    /// One program cannot be run, by anybody.
    #[error("the test program cannot be run: {problem}")]
    Unrunnable {
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Work cannot be handed to workers, or taken.
    #[cfg(feature = "workers")]
    #[error(transparent)]
    Queue(QueueError),
    /// A worker can do nothing.
    #[error(
        "there is nothing that this worker could do: name a model that it may ask (--model ADDRESS), or install \
         bubblewrap and an interpreter, so that it can run programs"
    )]
    Idle,
    /// One pair after the other failed, so that something is wrong with all of them.
    #[error(
        "{in_a_row} pairs in a row failed, the last of them so: {last}; fix that, and run the plan again"
    )]
    Failures {
        /// How many.
        in_a_row: u32,
        /// The last failure.
        last: String,
    },
    /// The user asked to stop.
    #[error("stopped; what was answered is in the ledger, and the same command goes on from there")]
    Stopped,
}

impl From<LlmError> for AnnotateError {
    fn from(error: LlmError) -> Self {
        match error {
            LlmError::Failed { failure: Failure::Withdrawn, .. } => Self::Stopped,
            other => Self::Model(other),
        }
    }
}

#[cfg(feature = "workers")]
impl From<QueueError> for AnnotateError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Stopped => Self::Stopped,
            other => Self::Queue(other),
        }
    }
}
