use std::fmt;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{agent} has no {scope} settings; omit --scope {scope}, or name another agent")]
    NoTarget { agent: String, scope: String },
    #[error("{}: cannot be read as text; nothing was changed", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {problem}; expected tables [[agent]] with name, title, found and [[agent.target]], as \
        docs/guides/agents.md shows", path.display())]
    Definition { path: PathBuf, problem: String },
    #[error("{}: cannot be written; check its permissions and those of its directory, and run the command again", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The target of a link does not exist, so the intended file is unknown.
    #[error("{}: the target of the link does not exist; create it, or remove the link", path.display())]
    Dangling { path: PathBuf },
    /// A project must not decide which files outside of it, or in its `.git`, are written.
    #[error(
        "{}: a link leads to {}, outside the project; nothing was changed: replace the link, or add the entry by hand",
        path.display(), target.display()
    )]
    Outside { path: PathBuf, target: PathBuf },
    #[error("{}: was changed by another program in the meantime; run the command again", path.display())]
    Changed { path: PathBuf },
    #[error("{}{problem}; nothing was changed: fix the file, or {by_hand}", path.display())]
    Edit { path: PathBuf, problem: Problem, by_hand: String },
    #[error("{}: not a record of installed entries; move it away, and remove those entries by hand", path.display())]
    Receipts { path: PathBuf, source: serde_json::Error },
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
