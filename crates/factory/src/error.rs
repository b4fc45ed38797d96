//! Errors, with what to do about them.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use quarry_annotate::AnnotateError;
use quarry_corpus::formats::FormatError;
use quarry_embed::EmbedError;
use quarry_eval::EvalError;
use quarry_walk::WalkError;

/// Why a data set cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FactoryError {
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
    #[error("{}:{line}: {problem}", path.display())]
    Plan {
        /// The file of the plan.
        path: PathBuf,
        /// The 1-based line.
        line: usize,
        /// What was expected, what was found, and what to do.
        problem: String,
    },
    /// A line of a file that a step wrote, or that a plan names, is invalid.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The 1-based line.
        line: usize,
        /// What was expected, and what to do.
        problem: String,
    },
    /// A symbolic link in place of a file or directory of a build.
    #[error("{}: is a link, which a build does not follow; remove it, or build in another directory with --out", .0.display())]
    Link(PathBuf),
    /// Another process is building in the same directory.
    #[error(
        "{}: another `quarry data build` is running here; wait for it, or build in another directory with --out",
        .0.display()
    )]
    InUse(PathBuf),
    /// The files of a source cannot be used.
    #[error("source {name}: {problem}")]
    Source {
        /// The name of the source in the plan.
        name: String,
        /// What was expected, what was found, and what to do.
        problem: String,
    },
    /// A step has no output for other steps to work on.
    #[error("step {step}: {problem}")]
    Step {
        /// The name of the step.
        step: String,
        /// What was expected, what was found, and what to do.
        problem: String,
    },
    /// A source cannot be listed.
    #[error(transparent)]
    Walk(#[from] WalkError),
    /// A data set cannot be read or written.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A method failed.
    #[error(transparent)]
    Method(#[from] EvalError),
    /// A model cannot be loaded or run.
    #[error(transparent)]
    Model(#[from] EmbedError),
    /// Pairs cannot be judged.
    #[error(transparent)]
    Judging(#[from] AnnotateError),
    /// A callback of the caller failed.
    #[error(transparent)]
    Tool(Box<dyn Error + Send + Sync>),
    /// The user stopped.
    #[error("stopped; completed steps are kept, and the same command resumes from there")]
    Stopped,
}

impl FactoryError {
    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Read { path, source }
    }

    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Write { path, source }
    }

    pub(crate) fn step(step: &str, problem: impl Into<String>) -> Self {
        Self::Step { step: step.to_owned(), problem: problem.into() }
    }
}

/// An error with all its causes, on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
