//! Shared parts of caches: entries, their last use, and the selection of those to remove.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Precision of the time of last use: more frequent recording would cost a write each time.
const USE_IS_NOTED_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Age from which a temporary file counts as left by a killed process.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Clone)]
pub struct CacheEntry {
    /// Owner of the entry, such as the path of a tree or the name of a model.
    pub what: String,
    pub path: PathBuf,
    /// Bytes on disk.
    pub bytes: u64,
    /// Time of last use, to a day.
    pub used: SystemTime,
    pub state: EntryState,
}

/// State of a cache entry: whether it is still usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryState {
    /// It is usable.
    Useful,
    /// Its owner no longer exists.
    Orphaned,
    /// An interrupted process left it.
    Unfinished,
    /// Left by an interrupted process, and continued by the next one.
    Interrupted,
    /// Its owner is unknown.
    Unknown,
    /// It is usable, and located in the tree of its owner, where it is not removed.
    InTree,
}

/// Entries of a cache to remove. Each variant includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selection {
    /// Entries that are certainly unusable.
    Useless,
    /// Entries last used before this time.
    UnusedSince(SystemTime),
    /// Everything.
    All,
}

impl Selection {
    /// Returns whether to remove an entry.
    #[must_use]
    pub fn includes(self, state: EntryState, used: SystemTime) -> bool {
        match self {
            Self::Useless => matches!(state, EntryState::Orphaned | EntryState::Unfinished),
            Self::UnusedSince(time) => Self::Useless.includes(state, used) || used < time,
            Self::All => true,
        }
    }
}

/// The result of removing an entry.
#[derive(Debug)]
pub struct Pruned {
    /// Owner of the entry.
    pub what: String,
    /// Path of the entry, which may be gone.
    pub path: PathBuf,
    pub outcome: PruneOutcome,
}

/// The outcome of removing an entry.
#[derive(Debug)]
pub enum PruneOutcome {
    /// It was removed, or would be; its bytes.
    Removed(u64),
    /// A running process uses it; it was not removed.
    InUse,
    /// It does not look like an entry of this program and was not removed, for this reason.
    Foreign(String),
    /// It could not be removed.
    Failed(io::Error),
}

impl PruneOutcome {
    /// The outcome of an attempt to remove this many bytes.
    pub fn new(removed: io::Result<()>, bytes: u64) -> Self {
        match removed {
            Ok(()) => Self::Removed(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Removed(bytes),
            Err(error) => Self::Failed(error),
        }
    }
}

/// Records in a file's time of modification that an entry is used now, at most once a day. Missing permissions
/// are ignored.
pub fn mark_used(file: &File) {
    let now = SystemTime::now();
    let is_noted = |noted: SystemTime| now.duration_since(noted).is_ok_and(|age| age < USE_IS_NOTED_EVERY);
    if file.metadata().and_then(|found| found.modified()).is_ok_and(|noted| !is_noted(noted)) {
        let _ = file.set_modified(now);
    }
}

/// Returns whether a temporary file, last modified at this time, was left by a process that was killed.
pub fn is_abandoned(modified: SystemTime) -> bool {
    SystemTime::now().duration_since(modified).is_ok_and(|age| age > ABANDONED_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_noted_once_a_day() {
        let file = tempfile::tempfile().unwrap();
        let noted = || file.metadata().unwrap().modified().unwrap();
        let hours_ago = |hours: u64| SystemTime::now() - Duration::from_secs(hours * 3600);
        let recently = hours_ago(20);
        file.set_modified(recently).unwrap();
        mark_used(&file);
        assert!(noted() < hours_ago(19), "noted again within a day");
        file.set_modified(hours_ago(30)).unwrap();
        mark_used(&file);
        assert!(noted() > hours_ago(1));
        // A wrong clock must not keep an entry forever.
        file.set_modified(SystemTime::now() + Duration::from_secs(1 << 20)).unwrap();
        mark_used(&file);
        assert!(noted() < SystemTime::now() + Duration::from_secs(60));
    }

    #[test]
    fn a_selection_includes_those_before_it() {
        let (old, new) = (SystemTime::UNIX_EPOCH, SystemTime::now());
        let time = old + Duration::from_secs(1);
        let check = |selection: Selection, expected: [bool; 4]| {
            use EntryState::{Orphaned, Useful};
            let entries = [(Useful, old), (Useful, new), (Orphaned, old), (Orphaned, new)];
            assert_eq!(
                entries.map(|(state, used)| selection.includes(state, used)),
                expected,
                "{selection:?}"
            );
        };
        check(Selection::Useless, [false, false, true, true]);
        check(Selection::UnusedSince(time), [true, false, true, true]);
        check(Selection::All, [true; 4]);
        assert!(!Selection::Useless.includes(EntryState::Unknown, old));
    }
}
