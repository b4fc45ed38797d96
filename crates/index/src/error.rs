use std::io;
use std::path::{Path, PathBuf};

use crate::Stale;

/// Why an index cannot be built, opened or searched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tree cannot be listed.
    #[error(transparent)]
    Walk(#[from] quarry_corpus::walk::WalkError),
    /// The model failed.
    #[error(transparent)]
    Embed(#[from] quarry_embed::EmbedError),
    /// The inverted index failed.
    #[error("lexical index")]
    Lexical(#[from] tantivy::TantivyError),
    /// The inverted index has a form that this program does not write.
    #[error("lexical index: {found} segments where 1 belongs")]
    LexicalSegments {
        /// Number of segments found.
        found: usize,
    },
    /// The file system failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder for the index cannot be made or written.
    #[error("cannot write the index folder {}; name another one with --index", path.display())]
    IndexFolder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The user has no cache folder, so that the index needs a named one.
    #[error("no cache folder is known for this user; name an index folder with --index")]
    NoCacheFolder,
    /// The folder named for the index holds something else.
    #[error("{}: not an index folder and not empty; name a new or empty folder", .0.display())]
    ForeignFolder(PathBuf),
    /// A file of the index is not as it was written.
    #[error("{}: {problem}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The tree has no file that can be indexed.
    #[error("{}: nothing to index; {reason}", root.display())]
    NothingToIndex {
        /// The tree.
        root: PathBuf,
        /// What was skipped and why.
        reason: String,
    },
    /// There is no index that can be opened as it is, and none was to be built.
    #[error("{}: {reason}; build an index with `quarry index`", root.display())]
    NoIndex {
        /// The tree.
        root: PathBuf,
        /// Why what is there cannot be used.
        reason: Stale,
    },
    /// A table would need more than 2³² entries or bytes.
    #[error("too much for one index; index a folder below this one")]
    TooLarge,
    /// The query has no word.
    #[error("the query has no word to search for; describe the code in plain words or name a symbol")]
    EmptyQuery,
    /// A filter names a language that there is not.
    #[error("no language is called {name:?}; close to it are {close}; `quarry languages` lists all")]
    UnknownLanguage {
        /// What was asked for.
        name: String,
        /// The languages whose names are closest to it.
        close: String,
    },
    /// A filter has a malformed glob.
    #[error("{glob:?} is no glob as .gitignore has them")]
    Glob {
        /// The glob.
        glob: String,
        /// What is wrong with it.
        source: ignore::Error,
    },
    /// No unit lies at the place that was named.
    #[error(
        "{path}:{line}: nothing is indexed there; name a line of a file in the index, relative to its root"
    )]
    NoUnit {
        /// Path relative to the root.
        path: String,
        /// Line, 1-based.
        line: u32,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn corrupt(path: &Path, problem: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), problem: problem.into() }
    }
}
