//! Histories of git repositories: what each commit changed, by file and by function.
//!
//! [`read_history`] and [`Snapshot`] read a repository (feature `git`). A [`ChangeLog`] has the functions that each
//! commit changed; it is kept in a file of the user's cache, and [`update`](ChangeLog::update) adds the new commits.

#[cfg(feature = "git")]
mod git;
mod log;
#[cfg(feature = "git")]
mod update;

#[cfg(feature = "git")]
pub use git::*;
pub use log::{ChangeLog, CommitId, LogError, LoggedCommit, Place, Texts};
#[cfg(feature = "git")]
pub use update::{UpdateOptions, changed_between};

/// Number of commits that are read by default.
pub const DEFAULT_COMMITS: usize = 10_000;
