//! Lists the indexes of a user and removes unneeded ones.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use quarry_files::cache::{CacheEntry, EntryState, PruneOutcome, Pruned, Selection, mark_used};
use quarry_files::{Directory, EntryKind};
use serde::Deserialize;

use super::{
    ASIDE, CACHED_INDEXES, COPY_FILE, FINISHED_FILE, IndexDirectory, LOCK_FILE, MANIFEST_FILE,
    MAX_MANIFEST_BYTES, ManifestHeader, PART, header, is_ours, is_written, number,
};
use crate::storage::records::Records;
use crate::storage::user_directories::UserDirectories;

/// Maximum depth of directories in an index, which has three levels.
const MAX_DEPTH: usize = 8;

pub struct UserIndexes;

impl UserIndexes {
    /// Lists those in the user's cache, ascending by path, and then those in trees that this user made on this
    /// machine. Other files among the indexes of the cache are ignored. Takes no lock, and follows no link below the
    /// cache.
    ///
    /// # Errors
    /// When the directory of the indexes cannot be read.
    pub fn list(user: &UserDirectories) -> io::Result<Vec<CacheEntry>> {
        let mut entries = Vec::new();
        if let Some((cache, indexes)) = open_indexes(user)? {
            let names = sorted_names(&indexes)?;
            let kept = names.iter().filter_map(|name| CachedIndex::examine(cache, &indexes, name).ok());
            entries.extend(kept.map(|kept| kept.entry));
        }
        let records = Records::new(user.state.as_deref());
        entries.extend(records.indexes().iter().filter_map(|path| entry_in_tree(path, &records)));
        Ok(entries)
    }

    /// Removes indexes from the user's cache, and leftovers of killed writers from those that stay; with `dry_run` it
    /// only returns what it would remove. An index that a process is writing is left alone; a process that is
    /// searching one continues with the files that it has open, and rebuilds the index next time.
    ///
    /// # Errors
    /// When the directory of the indexes cannot be read.
    pub fn prune(user: &UserDirectories, selection: Selection, dry_run: bool) -> io::Result<Vec<Pruned>> {
        let Some((cache, indexes)) = open_indexes(user)? else { return Ok(Vec::new()) };
        let names = sorted_names(&indexes)?;
        Ok(names.iter().filter_map(|name| prune_one(cache, &indexes, name, selection, dry_run)).collect())
    }
}

/// Removes an index or its leftovers; `None` if there was nothing to remove.
fn prune_one(
    cache: &Path,
    indexes: &Directory,
    name: &OsStr,
    selection: Selection,
    dry_run: bool,
) -> Option<Pruned> {
    let path = indexes.path().join(name);
    let pruned = |what: String, outcome| Some(Pruned { what, path: path.clone(), outcome });
    let kept = match CachedIndex::examine(cache, indexes, name) {
        Ok(kept) if kept.is_unneeded(selection) => kept,
        Ok(_) => return None,
        Err(problem) => return pruned(name.to_string_lossy().into_owned(), PruneOutcome::Foreign(problem)),
    };
    let what = kept.entry.what.clone();
    let lock = match kept.lock(&IndexDirectory::for_user(path.clone())) {
        Ok(Some(lock)) => lock,
        Ok(None) => return pruned(what, PruneOutcome::InUse),
        Err(error) => return pruned(what, PruneOutcome::Failed(error)),
    };
    // Check again under the lock.
    let outcome = match CachedIndex::examine(cache, indexes, name) {
        Ok(now) if now.is_unneeded(selection) => {
            match now.remove(indexes, name, (selection, lock.is_some()), dry_run) {
                Ok(bytes) => PruneOutcome::Removed(bytes),
                Err(error) => PruneOutcome::Failed(error),
            }
        }
        Ok(_) => return None,
        Err(problem) => PruneOutcome::Foreign(problem),
    };
    pruned(what, outcome)
}

impl IndexDirectory {
    /// Records that the index was used, for pruning the cache.
    pub fn mark_used(&self) {
        if let Ok(lock) = self.open().and_then(|directory| directory.file(LOCK_FILE.as_ref())) {
            mark_used(&lock);
        }
    }
}

struct CachedIndex {
    directory: Directory,
    entry: CacheEntry,
    /// Files that interrupted writers left in it, and their total size in bytes.
    leftovers: Vec<PathBuf>,
    leftover_bytes: u64,
}

impl CachedIndex {
    /// Examines an entry among the indexes of the cache.
    ///
    /// # Errors
    /// The reason why it does not look like an index.
    fn examine(cache: &Path, indexes: &Directory, name: &OsStr) -> Result<Self, String> {
        let failed = |error: io::Error| error.to_string();
        let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !name.to_str().and_then(|name| name.rsplit_once('-')).is_some_and(|(_, hash)| is_hash(hash)) {
            return Err("is not named as the index of a tree".to_owned());
        }
        let directory = indexes.directory(Path::new(name)).map_err(failed)?;
        let names = directory.names().map_err(failed)?;
        if let Some(name) = names.iter().find(|name| !is_ours(name)) {
            return Err(format!("holds {}, which is not part of an index", name.display()));
        }
        let lock = directory.entry(LOCK_FILE.as_ref()).ok();
        if !names.is_empty() && lock.is_none_or(|lock| lock.kind != EntryKind::File) {
            return Err(format!("has no file named {LOCK_FILE}, as every index has"));
        }
        let is_named_for =
            |root: &String| IndexDirectory::in_cache(cache, Path::new(root)).path().file_name() == Some(name);
        let root = root(&directory, is_named_for);
        let interrupted = if root.is_none() { interrupted_root(&directory) } else { None };
        let has_manifest =
            [MANIFEST_FILE, COPY_FILE].iter().any(|name| directory.entry(name.as_ref()).is_ok());
        let state = match root.as_ref().filter(|root| is_named_for(root)) {
            None if has_manifest => EntryState::Unknown,
            None => match interrupted.as_ref().filter(|root| is_named_for(root)) {
                Some(root) if !is_gone(Path::new(root)) => EntryState::Interrupted,
                _ => EntryState::Unfinished,
            },
            Some(root) if is_gone(Path::new(root)) => EntryState::Orphaned,
            Some(_) => EntryState::Useful,
        };
        let what = root.or(interrupted).unwrap_or_else(|| name.to_string_lossy().into_owned());
        let (leftovers, leftover_bytes) = leftovers(&directory);
        Ok(Self {
            entry: entry(&directory, what, state).map_err(failed)?,
            directory,
            leftovers,
            leftover_bytes,
        })
    }

    /// Returns whether all or part of it is to be removed.
    fn is_unneeded(&self, selection: Selection) -> bool {
        selection.includes(self.entry.state, self.entry.used) || !self.leftovers.is_empty()
    }

    /// Takes the writer's lock, if the directory has one; `None` if another process holds it.
    fn lock(&self, directory: &IndexDirectory) -> io::Result<Option<Option<File>>> {
        if self.directory.entry(LOCK_FILE.as_ref()).is_err() {
            return Ok(Some(None));
        }
        let lock = self.directory.append_file(LOCK_FILE.as_ref())?;
        match lock.try_lock() {
            Ok(()) => Ok(directory.is_current(&lock).then_some(Some(lock))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Removes the index or its leftovers, and returns the number of bytes that this freed.
    fn remove(
        &self,
        indexes: &Directory,
        name: &OsStr,
        (selection, is_locked): (Selection, bool),
        dry_run: bool,
    ) -> io::Result<u64> {
        let is_all = selection.includes(self.entry.state, self.entry.used);
        let bytes = if is_all { self.entry.bytes } else { self.leftover_bytes };
        if dry_run {
            return Ok(bytes);
        }
        if !is_all {
            self.leftovers.iter().try_for_each(|path| remove_below(&self.directory, path))?;
            return Ok(bytes);
        }
        // The manifest first, so that no process opens half an index, and the lock last. Without a lock, there was
        // nothing in it, and any files in it now belong to a writer.
        let mut names = if is_locked { self.directory.names()? } else { Vec::new() };
        names.sort_by_key(|name| (name == LOCK_FILE, name != MANIFEST_FILE && name != COPY_FILE));
        names.iter().try_for_each(|name| self.directory.remove_all(name))?;
        match indexes.remove_directory(Path::new(name)) {
            // Another process has started a new index since.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(bytes),
            removed => removed.map(|()| bytes),
        }
    }
}

/// The user's cache and the directory of the indexes in it; `None` if it does not exist yet.
fn open_indexes(user: &UserDirectories) -> io::Result<Option<(&Path, Directory)>> {
    let Some(cache) = user.cache.as_deref() else { return Ok(None) };
    match Directory::open(cache).and_then(|opened| opened.directory(CACHED_INDEXES.as_ref())) {
        Ok(indexes) => Ok(Some((cache, indexes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let path = cache.join(CACHED_INDEXES);
            Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        }
    }
}

fn sorted_names(directory: &Directory) -> io::Result<Vec<OsString>> {
    let mut names = directory.names()?;
    names.sort();
    Ok(names)
}

/// Returns whether a path certainly does not exist, rather than being inaccessible.
fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The tree named in the manifest of an index of any version, or in its copy if that has the right one.
fn root(directory: &Directory, is_right: impl Fn(&String) -> bool) -> Option<String> {
    let headers = headers(directory);
    let mut roots = headers.into_iter().filter_map(|header| header.root);
    let first = roots.next()?;
    Some(if is_right(&first) { first } else { roots.find(is_right).unwrap_or(first) })
}

/// The headers of the manifest and its copy, which may be damaged.
fn headers(directory: &Directory) -> Vec<ManifestHeader> {
    let bytes = |name: &&str| directory.read(name.as_ref(), MAX_MANIFEST_BYTES).ok();
    [MANIFEST_FILE, COPY_FILE].iter().filter_map(bytes).filter_map(|bytes| header(&bytes).ok()).collect()
}

/// The tree whose first build was interrupted, if it can be resumed. For messages only: it is not verified.
fn interrupted_root(index: &Directory) -> Option<String> {
    #[derive(Deserialize)]
    struct Header {
        root: String,
    }
    let names = index.names().ok()?;
    names.iter().find_map(|name| {
        let bytes =
            index.directory(name.as_ref()).ok()?.read(FINISHED_FILE.as_ref(), MAX_MANIFEST_BYTES).ok()?;
        let header = Header::deserialize(&mut serde_json::Deserializer::from_slice(&bytes));
        header.ok().map(|header| header.root)
    })
}

fn entry(directory: &Directory, what: String, state: EntryState) -> io::Result<CacheEntry> {
    let bytes = bytes_below(directory, 0)?;
    let modified = |name: &str| directory.file(name.as_ref())?.metadata()?.modified();
    // The lock's timestamp is that of the last use. If the index was built by a version that did not record uses, or
    // refreshed since, it was used then.
    let times = [LOCK_FILE, MANIFEST_FILE].iter().filter_map(|name| modified(name).ok());
    let used = times.max().unwrap_or(SystemTime::UNIX_EPOCH);
    Ok(CacheEntry { what, path: directory.path().to_owned(), bytes, used, state })
}

/// The entry for an index in a tree that this machine wrote; `None` if it is gone or was replaced.
fn entry_in_tree(path: &Path, records: &Records) -> Option<CacheEntry> {
    let index = IndexDirectory::in_tree(path.parent()?, path.file_name()?.into(), records.clone());
    if !index.is_trusted() {
        return None;
    }
    let directory = index.open().ok()?;
    let what = root(&directory, |_| true).unwrap_or_else(|| path.display().to_string());
    let entry = entry(&directory, what, EntryState::InTree).ok()?;
    // By its path, not by its handle, which is in a tree.
    Some(CacheEntry { path: path.to_owned(), ..entry })
}

/// Files that are not in the manifest: generations, parts, vectors and files that interrupted writers left. While an
/// index is being written, these are the new files.
fn leftovers(directory: &Directory) -> (Vec<PathBuf>, u64) {
    let mut found = Vec::new();
    let named: Vec<String> = headers(directory).into_iter().flat_map(ManifestHeader::names).collect();
    if named.is_empty() {
        return (found, 0);
    }
    // For another version, only the names of the directories are known.
    let manifest = IndexDirectory::for_user(directory.path().to_owned()).manifest().ok();
    let names = directory.names().unwrap_or_default();
    for name in &names {
        let is_named = named.iter().any(|named| *name == **named);
        let is_aside = name.to_str().is_some_and(|name| name.ends_with(ASIDE));
        if is_aside || (is_written(name) && !is_named) {
            found.push(PathBuf::from(name));
        }
    }
    for part in manifest.iter().flat_map(|manifest| &manifest.parts) {
        if number(OsStr::new(&part.name), PART).is_none() {
            continue;
        }
        let Ok(inner) = directory.directory(part.name.as_ref()) else { continue };
        for name in inner.names().unwrap_or_default() {
            if !part.names(&name) {
                found.push(Path::new(&part.name).join(name));
            }
        }
    }
    let bytes_of = |path: &PathBuf| match directory.entry(path) {
        Ok(entry) if entry.kind == EntryKind::Directory => {
            directory.directory(path).and_then(|inner| bytes_below(&inner, 1)).unwrap_or(0)
        }
        entry => entry.map_or(0, |entry| entry.bytes),
    };
    let bytes = found.iter().map(bytes_of).sum();
    (found, bytes)
}

/// Total size of all files below a directory, in bytes. Files that a writer removes meanwhile are ignored.
pub(super) fn bytes_below(directory: &Directory, depth: usize) -> io::Result<u64> {
    let mut bytes = 0;
    for name in directory.names()? {
        let name = Path::new(&name);
        let Ok(found) = directory.entry(name) else { continue };
        bytes += match found.kind {
            EntryKind::Directory if depth < MAX_DEPTH => {
                directory.directory(name).and_then(|inner| bytes_below(&inner, depth + 1)).unwrap_or(0)
            }
            _ => found.bytes,
        };
    }
    Ok(bytes)
}

/// Removes something below a directory, without following links on the way.
fn remove_below(directory: &Directory, path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else { return Ok(()) };
    match path.parent().filter(|around| *around != Path::new("")) {
        Some(around) => directory.directory(around)?.remove_all(name),
        None => directory.remove_all(name),
    }
}
