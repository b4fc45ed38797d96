use std::io;
use std::path::{Path, PathBuf};

use quarry_source::languages;
use quarry_text::did_you_mean;
use quarry_walk::{Listing, WalkOptions};
use tantivy::TantivyError;
use tantivy::directory::error::OpenWriteError;

use crate::RebuildReason;

/// Size of an index with the built-in model's vectors relative to the size of its files: 0.9 to 1.2 for this
/// repository, tantivy's and some of those of the repository search.
const INDEX_BYTES_PER_SOURCE_BYTE: f64 = 1.2;

/// Estimated size on disk of an index of the listed files, in bytes.
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
    /// The inverted index does not have exactly one segment, as this program writes it.
    #[error("lexical index: expected 1 segment, found {found}")]
    LexicalSegments {
        /// Number of segments found.
        found: usize,
    },
    /// A file has changed since it was indexed.
    #[error("{path} has changed since it was indexed; run the command again")]
    Changed {
        /// The file, relative to its tree.
        path: String,
    },
    /// An index of files that are kept elsewhere lacks the requested data.
    #[error(
        "{what} is not kept in the engine that these trees are served from; run `quarry` where their files are"
    )]
    NotKept {
        /// The requested data.
        what: &'static str,
    },
    /// The external storage of a part of the index failed.
    #[error(transparent)]
    Elsewhere(Box<dyn std::error::Error + Send + Sync>),
    /// The file system failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation, such as `open`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The directory for the index cannot be created or written; an index in it is left unchanged.
    #[error("cannot write the index directory {}, which takes about {} MB; {}", path.display(), megabytes(*needed), advice(source))]
    IndexDirectory {
        path: PathBuf,
        /// Estimated size of the index, in bytes.
        needed: u64,
        /// The cause.
        source: Box<Error>,
    },
    /// The user has no cache directory, so the index directory must be named.
    #[error("this user has no cache directory; name an index directory with --index")]
    NoCacheDirectory,
    /// The directory given for the index contains something else.
    #[error("{}: not an index directory and not empty; name a new or empty directory", .0.display())]
    ForeignDirectory(PathBuf),
    /// The directory given for the index is in the tree and contains files that this machine has not written.
    #[error(
        "{}: not an index that this user built on this machine, so it is not trusted; remove it, or name another \
         directory",
        .0.display()
    )]
    ForeignIndex(PathBuf),
    /// The user has no state directory, so an index in a tree could not be recorded.
    #[error(
        "this user has no state directory, in which an index in a tree must be recorded; set XDG_STATE_HOME or HOME"
    )]
    NoStateDirectory,
    /// A file of the index is damaged.
    #[error("{}: {problem}", path.display())]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The tree has no file that can be indexed.
    #[error("{}: nothing to index; {reason}", root.display())]
    NothingToIndex {
        /// Root of the tree.
        root: PathBuf,
        /// The skipped files and the reasons.
        reason: String,
    },
    /// The index is missing or unusable, and the caller asked not to build one.
    #[error("{}: {reason}; build an index with `quarry index`", root.display())]
    NoIndex {
        /// Root of the tree.
        root: PathBuf,
        /// Why an index would have to be built.
        reason: RebuildReason,
    },
    /// Data cannot be opened on demand: usually they belong to a generation of the index that is gone or being
    /// removed.
    #[error("{}: the index was replaced during the search, or is damaged; open it again", path.display())]
    Replaced {
        /// The index directory.
        path: PathBuf,
        /// Why it cannot be opened.
        source: Box<Error>,
    },
    /// A table would need more than 2³² entries or bytes.
    #[error("the tree is too large for one index; index a directory in it")]
    TooLarge,
    /// The query has no word.
    #[error("the query has no word to search for; describe the code in plain words or name a symbol")]
    EmptyQuery,
    /// A filter names an unknown language.
    #[error("unknown language {name:?}; {hint}")]
    UnknownLanguage {
        /// The name as given.
        name: String,
        /// The languages that may be meant, else where all are listed.
        hint: String,
    },
    /// A filter names a tree that is not searched.
    #[error("unknown tree {name:?}; the searched ones are {}", known.join(", "))]
    UnknownTree {
        /// The name as given.
        name: String,
        /// The names of the searched trees.
        known: Vec<String>,
    },
    /// A filter has a malformed glob.
    #[error("{glob:?} is not a valid glob in the syntax of .gitignore")]
    Glob {
        /// The glob as given.
        glob: String,
        /// The cause.
        source: ignore::Error,
    },
    /// No unit covers the given position.
    #[error(
        "{path}:{line}: no indexed unit covers this line; name a line of code in an indexed file, relative to the root"
    )]
    NoUnit {
        /// Path relative to the root.
        path: String,
        /// Line, 1-based.
        line: u32,
    },
}

impl Error {
    /// The error for an unknown language, with similar ones.
    pub fn unknown_language(name: &str) -> Self {
        let meant = did_you_mean(name, languages().map(|language| language.name()));
        let hint = meant.unwrap_or_else(|| "`quarry languages` lists all".to_owned());
        Self::UnknownLanguage { name: name.to_owned(), hint }
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn corrupt(path: &Path, problem: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), problem: problem.into() }
    }

    /// Returns true if the file system refused to read or write the index.
    pub(crate) fn is_of_storage(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Lexical(_) | Self::NoCacheDirectory)
    }

    /// Returns true if a file or directory was missing.
    pub(crate) fn is_not_found(&self) -> bool {
        self.kind() == Some(io::ErrorKind::NotFound)
    }

    /// Adds the index directory to a storage error that occurred while the listed files were indexed.
    pub(crate) fn in_directory(self, path: &Path, listing: &Listing) -> Self {
        if !self.is_of_storage() || matches!(self, Self::NoCacheDirectory) {
            return self;
        }
        Self::IndexDirectory {
            path: path.to_owned(),
            needed: expected_bytes(listing),
            source: Box::new(self),
        }
    }

    /// The kind of the underlying I/O error.
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

/// The remedy for a directory that cannot be written.
fn advice(error: &Error) -> &'static str {
    match error.kind() {
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge) => {
            "free some space, or name a directory elsewhere with --index"
        }
        Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
            "make it writable, or name another directory with --index"
        }
        _ => "name another directory with --index",
    }
}
