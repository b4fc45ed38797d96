//! Options for opening an index, and the events while it is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_walk::{WalkChoice, WalkOptions};

use crate::{RebuildReason, SegmentPool, UserDirectories};

/// Selects the index to open, when to build it and which files it covers.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Directory of the index, which then covers exactly the given path. By default the nearest index is used: the
    /// one in the tree ([`LOCAL_DIRECTORY`](crate::LOCAL_DIRECTORY)), if this user wrote it on this machine, or in
    /// the user's cache, of the path or of an enclosing directory.
    pub directory: Option<PathBuf>,
    /// True to store the index in the tree; it then also covers exactly the path.
    pub local: bool,
    /// True if an index of an enclosing directory may be used (the default), which then finds only files in the path.
    /// It keeps the files that it was built with, and is not used if it lacks files that `walk` requests.
    pub enclosing: bool,
    /// When to update the index.
    pub update: Update,
    /// Files to find; unset options are taken from the index.
    pub walk: WalkChoice,
    /// Files to find if neither `walk` nor the index sets an option.
    pub defaults: WalkOptions,
    /// Name of a model for the index to remember; the index may be opened with another one.
    pub model: Option<String>,
    /// True if the index remembers `walk` and `model` as defaults for later searches, and drops all other files.
    pub remember: bool,
    /// The user's own directories.
    pub user: UserDirectories,
    /// Opens postings and vectors when they are needed, and closes those of other indexes for them. By default they
    /// stay open as long as the index, which is then not affected by later generations.
    pub pool: Option<Arc<SegmentPool>>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            directory: None,
            local: false,
            enclosing: true,
            update: Update::default(),
            walk: WalkChoice::default(),
            defaults: WalkOptions::default(),
            model: None,
            remember: false,
            user: UserDirectories::default(),
            pool: None,
        }
    }
}

impl OpenOptions {
    /// Returns true if the index may be built in memory, because the caller has not specified its location.
    pub(crate) fn may_be_in_memory(&self) -> bool {
        self.update == Update::IfPossible && self.directory.is_none() && !self.local
    }
}

/// When an index is updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Update {
    /// Never: the index is opened as it is, however many files have changed; a missing index is an error. The
    /// tree is not read.
    Never,
    /// If files have changed. If the index directory cannot be written, the index is opened as it is
    /// ([`outdated`](crate::Opened::outdated)); if there is none, it is built in memory
    /// ([`unsaved`](crate::Opened::unsaved)), unless [`OpenOptions`] specify its location.
    #[default]
    IfPossible,
    /// If files have changed; it is an error if the index directory cannot be written.
    Required,
    /// Always: the index is rebuilt from scratch.
    Anew,
}

/// A progress report while an index is opened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The index is built or updated, for this reason.
    Rebuilding(&'a RebuildReason),
    /// An index in the tree is ignored: this user did not write it on this machine.
    Ignored(&'a Path),
    /// Waiting for another process that is writing this index.
    Waiting,
    /// A file was read and split into units.
    Read {
        /// Number of files read so far.
        done: usize,
        /// Total number of files to read.
        total: usize,
    },
    /// A batch of units was embedded.
    Embedded {
        /// Number of units embedded so far.
        done: usize,
        /// Total number of units to embed.
        total: usize,
    },
}

impl Event<'_> {
    /// Approximate fraction of the work that is done (0 to 1), and the current step; `None` if it takes no time.
    pub fn progress(&self) -> Option<(f64, &'static str)> {
        let half = |done: &usize, total: &usize| *done as f64 / (*total).max(1) as f64 / 2.0;
        Some(match self {
            Self::Rebuilding(_) | Self::Ignored(_) => return None,
            Self::Waiting => (0.0, "another process is building this index; waiting for it"),
            Self::Read { done, total } => (half(done, total), "reading files"),
            Self::Embedded { done, total } => (0.5 + half(done, total), "embedding units"),
        })
    }
}
