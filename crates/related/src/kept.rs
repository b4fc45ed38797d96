//! The kept relations and histories of this user's trees.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quarry_files::Readers;
use quarry_files::cache::{CacheEntry, EntryState, PruneOutcome, Pruned, Selection, is_abandoned};

use crate::tree::{HISTORY, RELATIONS};

/// Name of the file with the directories that an entry is of, one on each line.
const ROOTS: &str = "roots";

/// Maximum size of that file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Notes what an entry is of.
pub(crate) fn note_roots(place: &Path, roots: &[&str]) -> io::Result<()> {
    let (path, text) = (place.join(ROOTS), roots.join("\n"));
    if quarry_files::read_regular_text(&path, MAX_BYTES).is_ok_and(|known| known == text) {
        return Ok(());
    }
    quarry_files::create_private_directory(place)?;
    quarry_files::replace(&path, ".roots-", Readers::User, text.as_bytes())
}

/// Entries of the directory of kept relations.
pub struct KeptRelations;

impl KeptRelations {
    /// Lists the entries.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list(directory: &Path) -> io::Result<Vec<CacheEntry>> {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push(described(&entry.path())?);
            }
        }
        found.sort_by(|a, b| (&a.what, &a.path).cmp(&(&b.what, &b.path)));
        Ok(found)
    }

    /// Removes the selected entries.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn prune(directory: &Path, selection: Selection, dry_run: bool) -> io::Result<Vec<Pruned>> {
        let selected =
            Self::list(directory)?.into_iter().filter(|entry| selection.includes(entry.state, entry.used));
        let prune = |entry: CacheEntry| {
            let outcome = match foreign(&entry.path) {
                Ok(Some(name)) => PruneOutcome::Foreign(format!("contains {name}")),
                Ok(None) if dry_run => PruneOutcome::Removed(entry.bytes),
                Ok(None) => PruneOutcome::new(fs::remove_dir_all(&entry.path), entry.bytes),
                Err(error) => PruneOutcome::Failed(error),
            };
            Pruned { what: entry.what, path: entry.path, outcome }
        };
        Ok(selected.map(prune).collect())
    }
}

fn described(path: &Path) -> io::Result<CacheEntry> {
    let (mut bytes, mut used) = (0, UNIX_EPOCH);
    for file in fs::read_dir(path)? {
        let metadata = file?.metadata()?;
        bytes += metadata.len();
        used = used.max(metadata.modified().unwrap_or(SystemTime::now() - Duration::from_secs(1)));
    }
    let roots = quarry_files::read_regular_text(&path.join(ROOTS), MAX_BYTES).unwrap_or_default();
    let state = match roots.as_str() {
        "" if is_abandoned(used) => EntryState::Unfinished,
        "" => EntryState::Unknown,
        roots if roots.lines().all(|root| !Path::new(root).exists()) => EntryState::Orphaned,
        _ => EntryState::Useful,
    };
    Ok(CacheEntry {
        what: roots.lines().collect::<Vec<_>>().join(", "),
        path: path.to_owned(),
        bytes,
        used,
        state,
    })
}

/// The name of a file that this program does not write there.
fn foreign(path: &Path) -> io::Result<Option<String>> {
    for file in fs::read_dir(path)? {
        let name = file?.file_name().to_string_lossy().into_owned();
        if ![ROOTS, RELATIONS, HISTORY].contains(&name.as_str()) && !name.starts_with('.') {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_removed_trees_are_pruned_and_foreign_ones_kept() {
        let directory = tempfile::tempdir().unwrap();
        let [there, gone, foreign] = ["a", "b", "c"].map(|name| directory.path().join(name));
        note_roots(&there, &[&directory.path().to_string_lossy()]).unwrap();
        note_roots(&gone, &["/no/such/tree"]).unwrap();
        note_roots(&foreign, &["/no/such/tree"]).unwrap();
        fs::write(foreign.join("mine.txt"), "x").unwrap();
        fs::write(there.join(HISTORY), "12345").unwrap();
        let listed = KeptRelations::list(directory.path()).unwrap();
        assert_eq!(listed.iter().filter(|entry| entry.state == EntryState::Orphaned).count(), 2);
        assert!(KeptRelations::list(&directory.path().join("none")).unwrap().is_empty());
        let pruned = KeptRelations::prune(directory.path(), Selection::Useless, true).unwrap();
        assert!(pruned.len() == 2 && gone.exists());
        KeptRelations::prune(directory.path(), Selection::Useless, false).unwrap();
        assert!(there.exists() && !gone.exists() && foreign.exists());
        KeptRelations::prune(directory.path(), Selection::All, false).unwrap();
        assert!(!there.exists());
    }
}
