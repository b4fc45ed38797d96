use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why settings cannot be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The agent has no files in this scope.
    #[error("{agent} has no {scope} settings; omit --scope {scope}, or name another agent")]
    NoTarget {
        /// Its name for people.
        agent: String,
        /// `user` or `project`.
        scope: String,
    },
    /// A file cannot be read, or is not text.
    #[error("{}: cannot be read as text; nothing was changed", path.display())]
    Read {
        /// The file that was to be edited.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A definition of agents is invalid.
    #[error("{}: {problem}; expected tables [[agent]] with name, title, found and [[agent.target]], as \
        docs/guides/agents.md shows", path.display())]
    Definition {
        /// The file of the definition.
        path: PathBuf,
        /// The problem, with its line.
        problem: String,
    },
    /// A file cannot be written.
    #[error("{}: cannot be written; check its permissions and those of its directory, and run the command again", path.display())]
    Write {
        /// The file that was to be written.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The target of a link does not exist, so the intended file is unknown.
    #[error("{}: the target of the link does not exist; create it, or remove the link", path.display())]
    Dangling {
        /// The link.
        path: PathBuf,
    },
    /// A project must not decide which files outside of it, or in its `.git`, are written.
    #[error(
        "{}: a link leads to {}, outside the project; nothing was changed: replace the link, or add the entry by hand",
        path.display(), target.display()
    )]
    Outside {
        /// The file in the project.
        path: PathBuf,
        /// Target of the link.
        target: PathBuf,
    },
    /// Another program wrote the file after it was read.
    #[error("{}: was changed by another program in the meantime; run the command again", path.display())]
    Changed {
        /// The file that was to be written.
        path: PathBuf,
    },
    /// The file is invalid, or cannot be edited without damage.
    #[error("{}{problem}; nothing was changed: fix the file, or {by_hand}", path.display())]
    Edit {
        /// The file that was to be edited.
        path: PathBuf,
        /// The obstacle, with its line.
        problem: Problem,
        /// Manual remedy.
        by_hand: String,
    },
    /// The record of earlier installations cannot be read.
    #[error("{}: not a record of installed entries; move it away, and remove those entries by hand", path.display())]
    Receipts {
        /// The file of the record.
        path: PathBuf,
        source: serde_json::Error,
    },
}

/// A problem of a text, and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Counted from 1; not every problem has one.
    pub line: Option<usize>,
    pub words: String,
}

impl Problem {
    pub(crate) fn on_line(line: usize, words: impl Into<String>) -> Self {
        Self { line: Some(line), words: words.into() }
    }

    /// A problem at a position, in bytes.
    pub(crate) fn at(text: &str, position: usize, words: impl Into<String>) -> Self {
        Self::on_line(quarry_files::line_of(text.as_bytes(), position), words)
    }
}

impl From<&str> for Problem {
    fn from(words: &str) -> Self {
        Self { line: None, words: words.to_owned() }
    }
}

impl From<String> for Problem {
    fn from(words: String) -> Self {
        Self { line: None, words }
    }
}

/// The text that follows the name of a file in messages.
impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        write!(formatter, ": {}", self.words)
    }
}
