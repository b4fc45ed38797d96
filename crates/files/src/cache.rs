//! What the caches of different parts of the program have in common: when an entry was last used, and what may be
//! removed.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// How exactly it is known when an entry was last used: noting it more often would cost a write each time.
const USE_IS_NOTED_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// How old a temporary file must be before it is taken for one that a killed process left.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// An entry of a cache.
#[derive(Debug, Clone)]
pub struct CacheEntry {
    /// What it belongs to, such as the path of a tree or the name of a model.
    pub what: String,
    /// Where it is.
    pub path: PathBuf,
    /// Bytes on disk.
    pub bytes: u64,
    /// When it was last used, to a day.
    pub used: SystemTime,
    /// Whether it can still be used.
    pub state: EntryState,
}

/// Whether an entry of a cache can still be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryState {
    /// It can.
    Useful,
    /// What it belongs to does not exist any more.
    Orphaned,
    /// A process that did not finish left it.
    Unfinished,
    /// What it belongs to cannot be told.
    Unknown,
    /// It can, and lies in the tree that it is of, where it is not removed.
    InTree,
}

/// Which entries of a cache are to be removed. Each includes what those before it name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selection {
    /// What certainly cannot be used any more.
    Useless,
    /// What was last used before this time.
    UnusedSince(SystemTime),
    /// Everything.
    All,
}

impl Selection {
    /// Whether an entry is to be removed.
    #[must_use]
    pub fn includes(self, state: EntryState, used: SystemTime) -> bool {
        match self {
            Self::Useless => matches!(state, EntryState::Orphaned | EntryState::Unfinished),
            Self::UnusedSince(time) => Self::Useless.includes(state, used) || used < time,
            Self::All => true,
        }
    }
}

/// What became of an entry that was to be removed.
#[derive(Debug)]
pub struct Pruned {
    /// What it belongs to.
    pub what: String,
    /// Where it is, or was.
    pub path: PathBuf,
    /// What was done.
    pub outcome: PruneOutcome,
}

/// What was done with an entry that was to be removed.
#[derive(Debug)]
pub enum PruneOutcome {
    /// It is removed, or would be; bytes.
    Removed(u64),
    /// A running process uses it, and it is left alone.
    InUse,
    /// It does not look like what this program makes, and is left alone; why.
    Foreign(String),
    /// It cannot be removed.
    Failed(io::Error),
}

impl PruneOutcome {
    /// Of an attempt to remove so many bytes.
    #[must_use]
    pub fn of(removed: io::Result<()>, bytes: u64) -> Self {
        match removed {
            Ok(()) => Self::Removed(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Removed(bytes),
            Err(error) => Self::Failed(error),
        }
    }
}

/// Notes in a file's time of modification that an entry is used now, at most once a day. Where that is not ours to do,
/// nothing is lost.
pub fn mark_used(file: &File) {
    let now = SystemTime::now();
    let is_noted = |noted: SystemTime| now.duration_since(noted).is_ok_and(|age| age < USE_IS_NOTED_EVERY);
    if file.metadata().and_then(|found| found.modified()).is_ok_and(|noted| !is_noted(noted)) {
        let _ = file.set_modified(now);
    }
}

/// Whether a temporary file, last modified at this time, was left by a process that was killed.
#[must_use]
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
        // A clock that was wrong does not keep an entry for ever.
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
