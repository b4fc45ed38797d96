//! Sets of packages in the cache.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use quarry_files::cache::{CacheEntry, EntryState, PruneOutcome, Pruned, Selection, mark_used};
use quarry_files::{open_private, try_lock};
use serde::{Deserialize, Serialize};

use super::PackageError;
use crate::Error;
use crate::linux::tree;
use crate::semaphore::POLL_INTERVAL;

/// In a set's directory, the directory that programs see, and the description of the set.
pub(super) const PACKAGES: &str = "packages";
pub(super) const MANIFEST: &str = "manifest.json";

/// Lock file of the cache, shared by all processes that use it.
const LOCK: &str = "use.lock";

/// Extensions of the locks of sets, and of directories in which sets are being built.
pub(super) const SET_LOCK: &str = "lock";
pub(super) const PARTIAL: &str = "partial";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) requirements: Vec<String>,
    /// Name and version of each package.
    pub(super) packages: Vec<(String, String)>,
}

/// Reads the description of a set; `None` if the set is not in the cache.
pub(super) fn read_manifest(directory: &Path) -> Result<Option<Manifest>, Error> {
    let path = directory.join(MANIFEST);
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| Error::File {
            path,
            action: "parse it (remove its directory)",
            source: error.into(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", &path)(error)),
    }
}

/// Waits for the lock of a set. The system releases it when its holder ends, however it ends.
pub(super) fn lock(path: &Path, stop: &AtomicBool) -> Result<File, PackageError> {
    let file = open_lock(path).map_err(Error::file("write", path))?;
    while !stop.load(Ordering::SeqCst) {
        if try_lock(&file).map_err(Error::file("lock", path))? {
            return Ok(file);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Err(PackageError::Stopped)
}

fn open_lock(path: &Path) -> io::Result<File> {
    open_private(File::options().create(true).truncate(false).write(true), path)
}

/// Prevents others from removing sets while the file is open. Not needed if the cache belongs to another user.
pub(super) fn share(cache: &Path) -> Option<File> {
    let lock = open_lock(&cache.join(LOCK)).ok()?;
    lock.lock_shared().ok()?;
    Some(lock)
}

pub(super) fn note_use(directory: &Path) {
    if let Ok(manifest) = File::open(directory.join(MANIFEST)) {
        mark_used(&manifest);
    }
}

/// The sets of packages in a cache directory.
pub struct CachedPackages;

impl CachedPackages {
    /// Lists them in order of their paths, including incomplete sets. Anything else in the directory is ignored.
    pub fn list(cache: &Path) -> io::Result<Vec<CacheEntry>> {
        let names = match fs::read_dir(cache) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?,
        };
        let mut entries: Vec<CacheEntry> = names.into_iter().filter_map(entry).collect();
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(entries)
    }

    /// Removes sets, unless a process is using the cache; with `dry_run`, only returns which sets it would remove.
    pub fn prune(cache: &Path, selection: Selection, dry_run: bool) -> io::Result<Vec<Pruned>> {
        let selected = |entry: &CacheEntry| selection.includes(entry.state, entry.used);
        let entries: Vec<CacheEntry> = Self::list(cache)?.into_iter().filter(selected).collect();
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let lock = open_lock(&cache.join(LOCK))?;
        let is_used = !try_lock(&lock)?;
        let prune = |CacheEntry { what, path, bytes, .. }| {
            let outcome = if is_used {
                PruneOutcome::InUse
            } else if dry_run {
                PruneOutcome::Removed(bytes)
            } else {
                // No process is waiting for the lock.
                let _ = fs::remove_file(path.with_extension(SET_LOCK));
                PruneOutcome::new(fs::remove_dir_all(&path), bytes)
            };
            Pruned { what, path, outcome }
        };
        Ok(entries.into_iter().map(prune).collect())
    }
}

/// The entry of a set, complete or not; `None` for anything else.
fn entry(path: PathBuf) -> Option<CacheEntry> {
    let is_partial = path.extension().is_some_and(|extension| extension == PARTIAL);
    let name = if is_partial { path.file_stem() } else { path.file_name() }?.to_str()?;
    let (manager, hash) = name.rsplit_once('-')?;
    let is_set = hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_known = super::MANAGERS.iter().any(|(known, _)| known.name() == manager);
    if !is_set || !is_known || !path.symlink_metadata().ok()?.is_dir() {
        return None;
    }
    let (what, used, state) = if is_partial {
        (format!("{manager}, unfinished"), path.metadata(), EntryState::Unfinished)
    } else {
        let manifest = read_manifest(&path).ok()??;
        let what = format!("{manager}: {}", manifest.requirements.join(", "));
        (what, path.join(MANIFEST).metadata(), EntryState::Useful)
    };
    let used = used.and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    Some(CacheEntry { what, bytes: tree::size(&path), path, used, state })
}

pub(super) fn remove(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", directory)(error)),
        _ => Ok(()),
    }
}

/// Moves a finished directory to its final path atomically and durably.
pub(super) fn publish(ready: &Path, directory: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(ready)?)?;
    fs::rename(ready, directory)?;
    match directory.parent() {
        Some(around) => File::open(around)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    const HASH: &str = "0123456789abcdef0123456789abcdef";

    fn set(cache: &Path, manager: &str) -> PathBuf {
        let directory = cache.join(format!("{manager}-{HASH}"));
        fs::create_dir_all(directory.join(PACKAGES).join("deep/er")).unwrap();
        fs::write(directory.join(PACKAGES).join("deep/er/file"), "content").unwrap();
        let manifest = Manifest { requirements: vec!["numpy".to_owned()], packages: Vec::new() };
        fs::write(directory.join(MANIFEST), serde_json::to_string(&manifest).unwrap()).unwrap();
        drop(open_lock(&directory.with_extension(SET_LOCK)).unwrap());
        directory
    }

    fn outcomes(cache: &Path, selection: Selection) -> Vec<(String, PruneOutcome)> {
        let pruned = CachedPackages::prune(cache, selection, false).unwrap();
        pruned.into_iter().map(|pruned| (pruned.what, pruned.outcome)).collect()
    }

    #[test]
    fn sets_are_removed_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let (cache, outside) = (directory.path().join("packages"), directory.path().join("outside"));
        let kept = set(&cache, "pip");
        set(&outside, "npm");
        std::os::unix::fs::symlink(outside.join(format!("npm-{HASH}")), cache.join(format!("npm-{HASH}")))
            .unwrap();
        std::os::unix::fs::symlink(&outside, kept.join("packages/link")).unwrap();
        fs::create_dir_all(cache.join("notes")).unwrap();
        fs::create_dir_all(cache.join(format!("cargo-{HASH}"))).unwrap();
        fs::create_dir_all(cache.join(format!("npm-{}", HASH.replace('0', "f")))).unwrap();
        let listed = CachedPackages::list(&cache).unwrap();
        assert!(
            matches!(listed.as_slice(), [one] if one.what == "pip: numpy" && one.bytes > 0),
            "{listed:?}"
        );
        assert!(outcomes(&cache, Selection::Useless).is_empty());
        assert!(matches!(&outcomes(&cache, Selection::All)[..], [(_, PruneOutcome::Removed(_))]));
        assert!(!kept.exists() && !kept.with_extension(SET_LOCK).exists());
        assert!(outside.join(format!("npm-{HASH}/packages/deep/er/file")).exists());
        let mut left: Vec<_> =
            fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left.len(), 5, "{left:?}");
        assert!(CachedPackages::list(&cache.join("none")).unwrap().is_empty());
    }

    #[test]
    fn sets_in_use_are_kept_and_old_ones_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path();
        let kept = set(cache, "npm");
        let partial = kept.with_extension(PARTIAL);
        fs::create_dir(&partial).unwrap();
        let using = share(cache).unwrap();
        let other = share(cache).unwrap();
        assert!(
            outcomes(cache, Selection::All).iter().all(|(_, outcome)| matches!(outcome, PruneOutcome::InUse))
        );
        drop((using, other));
        assert!(
            matches!(&outcomes(cache, Selection::Useless)[..], [(what, PruneOutcome::Removed(_))] if what.contains("unfinished"))
        );
        assert!(!partial.exists() && kept.exists());
        let day = Duration::from_secs(24 * 60 * 60);
        let (long_ago, limit) =
            (SystemTime::now() - 40 * day, Selection::UnusedSince(SystemTime::now() - 30 * day));
        let age = || {
            File::options().append(true).open(kept.join(MANIFEST)).unwrap().set_modified(long_ago).unwrap()
        };
        age();
        note_use(&kept);
        assert!(outcomes(cache, limit).is_empty());
        age();
        assert_eq!(outcomes(cache, limit).len(), 1);
    }

    #[test]
    fn locks_are_private() {
        let directory = tempfile::tempdir().unwrap();
        drop(share(directory.path()).unwrap());
        let mode = fs::metadata(directory.path().join(LOCK)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
