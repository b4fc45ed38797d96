//! Errors, with what to do about them.

use std::io;
use std::path::PathBuf;

use quarry_corpus::formats::FormatError;
use quarry_corpus::toml_file::Mistake;
use quarry_llm::{Failure, LlmError};
#[cfg(feature = "workers")]
use quarry_queue::QueueError;
use quarry_text::counted;

/// Why judging cannot start or continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnnotateError {
    /// A file or directory cannot be read.
    #[error("{}: cannot be read; check the path and its permissions", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The error from the system.
        source: io::Error,
    },
    /// A file or directory cannot be written.
    #[error("{}: cannot be written; check the directory, its permissions and the free space", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The error from the system.
        source: io::Error,
    },
    /// A plan is invalid.
    #[error("{}: {problem}", path.display())]
    Plan {
        /// The file of the plan.
        path: PathBuf,
        /// What was expected, and what to do.
        problem: String,
    },
    /// A plan is not TOML, or has an invalid entry.
    #[error("{}:{mistake}", path.display())]
    PlanEntry {
        /// The file of the plan.
        path: PathBuf,
        /// The line, and what was expected.
        mistake: Mistake,
    },
    /// A prompt or a guideline is invalid.
    #[error("{file}: {problem}")]
    Prompt {
        /// The file, or the name of a built-in prompt.
        file: String,
        /// What was expected.
        problem: String,
    },
    /// Some pairs cannot be judged.
    #[error("cannot judge {n_wrong} of {}; nothing was asked:\n{}", counted(*n_pairs, "pair"), listed.join("\n"))]
    Pairs {
        /// Number of pairs that cannot be judged.
        n_wrong: usize,
        /// Number of all pairs.
        n_pairs: usize,
        /// The first of these pairs, each with what was expected.
        listed: Vec<String>,
    },
    /// A filled-in form cannot be imported.
    #[error("{}: nothing was imported; invalid rows: {n_wrong}\n{}", path.display(), listed.join("\n"))]
    Form {
        /// The file that was read.
        path: PathBuf,
        /// Number of invalid rows.
        n_wrong: usize,
        /// The first of these rows, each with file, line, what was expected and what to do.
        listed: Vec<String>,
    },
    /// A file of pairs is invalid.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The ledger cannot be used.
    #[error("{}: {problem}", path.display())]
    Ledger {
        /// The ledger.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
        /// The error from SQLite.
        #[source]
        source: Option<rusqlite::Error>,
    },
    /// The model cannot be called.
    #[error(transparent)]
    Model(LlmError),
    /// Programs cannot be run.
    #[error(transparent)]
    Sandbox(#[from] quarry_sandbox::Error),
    /// Packages that a program needs could not be fetched this time.
    #[error(transparent)]
    Packages(quarry_sandbox::packages::PackageError),
    /// A program that cannot be run on any machine.
    #[error("the test program cannot be run: {problem}")]
    Unrunnable {
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Tasks cannot be handed to workers, or received.
    #[cfg(feature = "workers")]
    #[error(transparent)]
    Queue(QueueError),
    /// A worker has neither a model nor a sandbox.
    #[error(
        "this worker has nothing to do: name a model that it may use (--model ADDRESS), or install \
         bubblewrap and an interpreter, so that it can run programs"
    )]
    Idle,
    /// Several pairs in a row failed, which suggests a common cause.
    #[error(
        "{in_a_row} consecutive pairs failed, the last one with: {last}; fix that, and run the plan again"
    )]
    Failures {
        /// Number of failures in a row.
        in_a_row: u32,
        /// The last failure.
        last: String,
    },
    /// The user asked to stop.
    #[error("stopped; the answers so far are in the ledger, and the same command resumes from there")]
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
