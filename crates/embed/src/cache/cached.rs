//! Lists and removes cached vectors.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use quarry_files::cache::{CacheEntry, EntryState, PruneOutcome, Pruned, Selection};
use quarry_files::{Directory, is_same_file, try_lock};

use super::{ENDING, MAGIC};

/// The part of the magic that all versions share.
const MARK: &[u8] = MAGIC.split_at(MAGIC.len() - 1).0;

pub struct CachedVectors;

impl CachedVectors {
    /// Lists them, ascending by path: an entry for each model and side. Other files in the directory are left out.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list(directory: &Path) -> io::Result<Vec<CacheEntry>> {
        Ok(files(directory)?.into_iter().map(|(_, entry)| entry).collect())
    }

    /// Removes files of vectors, except those that a process is reading or writing; with `dry_run` it only lists those
    /// that it would remove. A process that has one open creates a new one.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn prune(directory: &Path, selection: Selection, dry_run: bool) -> io::Result<Vec<Pruned>> {
        let selected =
            files(directory)?.into_iter().filter(|(_, entry)| selection.includes(entry.state, entry.used));
        Ok(selected
            .map(|(directory, CacheEntry { what, path, bytes, .. })| {
                let outcome = match remove(&directory, &path, dry_run) {
                    Ok(true) => PruneOutcome::Removed(bytes),
                    Ok(false) => PruneOutcome::InUse,
                    Err(error) => PruneOutcome::new(Err(error), bytes),
                };
                Pruned { what, path, outcome }
            })
            .collect())
    }
}

/// The files of vectors in a directory.
fn files(cache: &Path) -> io::Result<Vec<(Directory, CacheEntry)>> {
    let directory = match Directory::open(cache) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut names = directory.names()?;
    names.sort();
    let entry = |name: &Path| {
        let what = model_and_side(name.to_str()?)?;
        let file = directory.file(name).ok()?;
        let found = file.metadata().ok()?;
        let used = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let path = cache.join(name);
        let entry = CacheEntry { what, path, bytes: found.len(), used, state: EntryState::Useful };
        is_marked(file).then(|| (directory.clone(), entry))
    };
    Ok(names.iter().filter_map(|name| entry(Path::new(name))).collect())
}

/// The name of the model that a file's name shows, and which side of it: `some_model (queries)`.
fn model_and_side(name: &str) -> Option<String> {
    let (rest, side) = name.strip_suffix(ENDING)?.rsplit_once('-')?;
    let (model, hash) = rest.rsplit_once('-')?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && ["queries", "documents"].contains(&side)).then(|| format!("{model} ({side})"))
}

/// Returns whether a file is a vector file of any version, or still empty.
fn is_marked(mut file: File) -> bool {
    let mut start = [0; MARK.len()];
    match file.metadata().map(|found| found.len()) {
        Ok(0) => true,
        _ => file.read_exact(&mut start).is_ok() && start == MARK,
    }
}

/// Removes a file unless a process has its lock.
fn remove(directory: &Directory, path: &Path, dry_run: bool) -> io::Result<bool> {
    let name = Path::new(path.file_name().unwrap_or_default());
    let file = directory.append_file(name)?;
    if !try_lock(&file)? || !is_same_file(&file, &directory.file(name)?)? {
        return Ok(false);
    }
    if !dry_run {
        directory.remove_file(name)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::cache::Store;

    fn store(directory: &Path, id: &str) -> Store {
        let name = super::super::file_name(id, "queries");
        Store::open(directory.join(format!("{name}{ENDING}")), id, 2).unwrap()
    }

    #[test]
    fn files_that_belong_to_no_model_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let mut store = store(directory.path(), "some/model");
        store.put(&[(1, vec![0.5, 0.5])]);
        let hash = "0123456789abcdef";
        fs::write(at(&format!("m-{hash}-queries.vectors")), "no vectors at all").unwrap();
        fs::write(at("notes.vectors"), MAGIC).unwrap();
        fs::create_dir(at(&format!("d-{hash}-queries.vectors"))).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&store.path, at(&format!("l-{hash}-queries.vectors"))).unwrap();
        let listed = CachedVectors::list(directory.path()).unwrap();
        assert!(
            matches!(listed.as_slice(), [one] if one.what == "some_model (queries)" && one.bytes == 64),
            "{listed:?}"
        );
        for dry_run in [true, false] {
            let pruned = CachedVectors::prune(directory.path(), Selection::All, dry_run).unwrap();
            let is_removed = |pruned: &Pruned| matches!(pruned.outcome, PruneOutcome::Removed(64));
            assert!(pruned.len() == 1 && is_removed(&pruned[0]), "{pruned:?}");
            assert_eq!(store.path.exists(), dry_run);
        }
        assert!(at(&format!("m-{hash}-queries.vectors")).exists() && at("notes.vectors").exists());
        assert!(CachedVectors::list(&at("none")).unwrap().is_empty());
    }

    #[test]
    fn vectors_that_were_not_used_for_long_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let month = Duration::from_secs(30 * 24 * 60 * 60);
        for id in ["old", "new"] {
            store(directory.path(), id).file.set_modified(SystemTime::now() - 2 * month).unwrap();
        }
        drop(store(directory.path(), "new"));
        let unused = Selection::UnusedSince(SystemTime::now() - month);
        let pruned = CachedVectors::prune(directory.path(), unused, false).unwrap();
        assert!(matches!(pruned.as_slice(), [one] if one.what == "old (queries)"), "{pruned:?}");
        assert!(CachedVectors::prune(directory.path(), Selection::Useless, false).unwrap().is_empty());
    }

    #[test]
    fn locked_files_are_kept_and_removed_files_are_started_again() {
        let directory = tempfile::tempdir().unwrap();
        let (mut one, mut other) = (store(directory.path(), "m"), store(directory.path(), "m"));
        one.put(&[(1, vec![0.5, 0.25])]);
        one.locked(|_| {
            let pruned = CachedVectors::prune(directory.path(), Selection::All, false).unwrap();
            assert!(matches!(pruned.as_slice(), [Pruned { outcome: PruneOutcome::InUse, .. }]), "{pruned:?}");
            Ok(())
        })
        .unwrap();
        CachedVectors::prune(directory.path(), Selection::All, false).unwrap();
        assert!(one.get(&[1]).is_empty());
        // Both write to the current file.
        one.put(&[(2, vec![0.5, 0.25])]);
        other.put(&[(3, vec![0.25, 0.5])]);
        assert_eq!((one.get(&[1, 2, 3]).len(), other.get(&[1, 2, 3]).len()), (2, 2));
        fs::remove_dir_all(directory.path()).unwrap();
        one.put(&[(4, vec![0.5, 0.25])]);
        assert_eq!(store(directory.path(), "m").get(&[2, 3, 4]).len(), 1);
    }

    #[test]
    #[cfg(unix)]
    fn vectors_are_private() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("new/embeddings");
        fs::create_dir(directory.path().join("new")).unwrap();
        let store = crate::CachedEmbedder::new(std::sync::Arc::new(crate::StaticModel::builtin()), &inner);
        drop(store.unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&inner), 0o700);
        for entry in fs::read_dir(&inner).unwrap() {
            assert_eq!(mode(&entry.unwrap().path()), 0o600);
        }
    }
}
