//! Results of opening an index.

use quarry_walk::Skipped;

use crate::{Error, Index, RebuildReason};

/// An open index, with the result of its build or the reason why it could not be updated or stored.
pub struct Opened {
    /// The index, ready for search.
    pub index: Index,
    /// The result of the build; `None` if the index was fresh.
    pub built: Option<BuildReport>,
    /// Why it is out of date; `None` if it is up to date or was opened with [`Update::Never`](crate::Update::Never).
    pub outdated: Option<Outdated>,
    /// Why it could not be stored and is only in memory, for this process.
    pub unsaved: Option<Error>,
}

/// Why an index was opened although files have changed.
#[derive(Debug)]
pub struct Outdated {
    /// Why it should have been updated.
    pub reason: RebuildReason,
    /// Why it was not updated: the index directory cannot be written.
    pub error: Error,
}

/// The result of building an index.
#[derive(Debug)]
pub struct BuildReport {
    /// Why the index was built.
    pub reason: RebuildReason,
    /// Files of the tree that were skipped, ascending by path.
    pub skipped: Vec<Skipped>,
    /// Number of units that were embedded; the vectors of all others were known.
    pub n_embedded: usize,
}
