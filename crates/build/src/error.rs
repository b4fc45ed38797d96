//! Errors, with what to do about them.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use quarry_corpus::formats::FormatError;
use quarry_embed::EmbedError;
use quarry_eval::EvalError;
use quarry_judge::JudgeError;
use quarry_walk::WalkError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    #[error("{}: cannot be read; check the path and its permissions", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: cannot be written; check the directory, its permissions and the free space", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {problem}", path.display())]
    Plan { path: PathBuf, line: usize, problem: String },
    /// A line of a file that a step wrote, or that a plan names, is invalid.
    #[error("{}:{line}: {problem}", path.display())]
    Line { path: PathBuf, line: usize, problem: String },
    /// A symbolic link in place of a file or directory of a build.
    #[error("{}: is a link, which a build does not follow; remove it, or build in another directory with --out", .0.display())]
    Link(PathBuf),
    #[error(
        "{}: another `quarry data build` is running here; wait for it, or build in another directory with --out",
        .0.display()
    )]
    InUse(PathBuf),
    #[error("source {name}: {problem}")]
    Source {
        /// The name of the source in the plan.
        name: String,
        problem: String,
    },
    /// A step has no output for other steps to work on.
    #[error("step {step}: {problem}")]
    Step { step: String, problem: String },
    #[error(transparent)]
    Walk(#[from] WalkError),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Method(#[from] EvalError),
    #[error(transparent)]
    Model(#[from] EmbedError),
    #[error(transparent)]
    Judging(#[from] JudgeError),
    #[error(transparent)]
    Tool(Box<dyn Error + Send + Sync>),
    /// Nothing is wrong, but people have not labeled enough pairs yet.
    #[error("{0}")]
    Waiting(String),
    #[error("stopped; completed steps are kept, and the same command resumes from there")]
    Stopped,
}

impl BuildError {
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
