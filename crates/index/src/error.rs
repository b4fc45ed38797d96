use std::io;
use std::path::{Path, PathBuf};

use quarry_source::languages;
use quarry_text::nearest;
use quarry_walk::{Listing, WalkOptions};
use tantivy::TantivyError;
use tantivy::directory::error::OpenWriteError;

use crate::Stale;

/// Languages that an error suggests.
const N_SUGGESTIONS: usize = 3;

/// Bytes of an index with the built-in model's vectors over bytes of the files in it: 0.9 to 1.2 for this repository,
/// tantivy's and some of those of the repository search.
const INDEX_BYTES_PER_SOURCE_BYTE: f64 = 1.2;

/// Bytes that an index of some files takes on disk, about.
#[must_use]
pub fn expected_bytes(listing: &Listing) -> u64 {
    let options = WalkOptions::default();
    let bytes: u64 = listing.files.iter().map(|file| file.max_text_bytes(&options)).sum();
    (bytes as f64 * INDEX_BYTES_PER_SOURCE_BYTE) as u64
}

/// Why an index cannot be built, opened or searched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tree cannot be listed.
    #[error(transparent)]
    Walk(#[from] quarry_walk::WalkError),
    /// The model failed.
    #[error(transparent)]
    Embed(#[from] quarry_embed::EmbedError),
    /// The inverted index failed.
    #[error("lexical index")]
    Lexical(#[from] TantivyError),
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
    /// The folder for the index cannot be made or written; an index that is in it stays as it is.
    #[error("cannot write the index folder {}, which takes about {} MB; {}", path.display(), megabytes(*needed), advice(source))]
    IndexFolder {
        /// The folder.
        path: PathBuf,
        /// Bytes that the index takes, roughly.
        needed: u64,
        /// What failed.
        source: Box<Error>,
    },
    /// The user has no cache folder, so that the index needs a named one.
    #[error("no cache folder is known for this user; name an index folder with --index")]
    NoCacheFolder,
    /// The folder named for the index holds something else.
    #[error("{}: not an index folder and not empty; name a new or empty folder", .0.display())]
    ForeignFolder(PathBuf),
    /// The folder named for the index lies in the tree, and holds what this machine has not made.
    #[error(
        "{}: not an index that this user made on this machine, and it lies in the tree, which comes from others; \
         remove it, or name another folder",
        .0.display()
    )]
    ForeignIndex(PathBuf),
    /// The user has no folder for state, so that an index in a tree could not be known again.
    #[error(
        "no state folder is known for this user, where an index in a tree must be recorded; set XDG_STATE_HOME or HOME"
    )]
    NoStateFolder,
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
    pub(crate) fn unknown_language(name: &str) -> Self {
        let close = nearest(name, languages().map(|language| language.name()), N_SUGGESTIONS);
        Self::UnknownLanguage { name: name.to_owned(), close: close.join(", ") }
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn corrupt(path: &Path, problem: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), problem: problem.into() }
    }

    /// Whether a file of the index could not be written, rather than anything else.
    pub(crate) fn is_of_storage(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Lexical(_) | Self::NoCacheFolder)
    }

    /// Whether something was not there.
    pub(crate) fn is_not_found(&self) -> bool {
        self.kind() == Some(io::ErrorKind::NotFound)
    }

    /// What fails while an index of some files is written says which folder is at fault.
    pub(crate) fn in_folder(self, path: &Path, listing: &Listing) -> Self {
        if !self.is_of_storage() || matches!(self, Self::NoCacheFolder) {
            return self;
        }
        Self::IndexFolder { path: path.to_owned(), needed: expected_bytes(listing), source: Box::new(self) }
    }

    /// With its causes.
    pub(crate) fn in_one_line(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            line = format!("{line}: {error}");
            cause = error.source();
        }
        line
    }

    /// What kind of failure of the system is at the bottom of this.
    fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Io { source, .. } => Some(source.kind()),
            Self::Lexical(error) => lexical_kind(error),
            _ => None,
        }
    }
}

fn lexical_kind(error: &TantivyError) -> Option<io::ErrorKind> {
    match error {
        TantivyError::IoError(error) => Some(error.kind()),
        TantivyError::OpenWriteError(OpenWriteError::IoError { io_error, .. }) => Some(io_error.kind()),
        _ => None,
    }
}

fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1_000_000).max(1)
}

/// What to do about a folder that cannot be written.
fn advice(error: &Error) -> &'static str {
    match error.kind() {
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge) => {
            "make room there, or name a folder elsewhere with --index"
        }
        Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
            "make it writable, or name another folder with --index"
        }
        _ => "name another folder with --index",
    }
}
