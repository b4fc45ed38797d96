//! The directory of an index: generations, the manifest that names the valid one, and the writer's lock.
//!
//! ```text
//! manifest.json       names the generation and its parts, and ends with its checksum; replaced by one rename
//! manifest.copy.json  the same, for what can be saved if the manifest is damaged
//! lock                held by the writer; readers take no lock. Its time of modification says when the index was last used
//! ahead.lock          held by the process that computes vectors ahead of searches
//! generation-7/       the valid one: files, units
//! part-3/             what is known of some of the files, shared by generations: strings, hashes, tokens, lexical/, and the
//!                     vectors of each model that was used, of units or, of a re-ranker, of their passages
//! generation-8/       being written, or left by a writer that died: the next writer removes it
//! ```
//!
//! A file that a manifest names is never written again. The manifest contains its size, its time and hashes of its
//! blocks, which are compared before they are read: at once where all of a file is read, otherwise where a search reads.
//! A damaged index is rebuilt, except for the vectors that are intact.
//!
//! All files are opened relative to the directory, without following links, and only this user can read them. In a
//! tree, a manifest is read only if it is sealed with the key of its record ([`Records`]).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use quarry_files::{Directory, EntryKind, create_private_directory};
use xxhash_rust::xxh3::xxh3_64;

use self::kept::bytes_below;
use self::manifest::{ManifestHeader, checksum, header, verified};
use crate::storage::records::{Key, Records};
use crate::storage::stored_file::{ASIDE, replace_file};
use crate::storage::table::PartSize;
use crate::version::FORMAT;
use crate::{Error, RebuildReason};

const MANIFEST_FILE: &str = "manifest.json";
const COPY_FILE: &str = "manifest.copy.json";
const LOCK_FILE: &str = "lock";
/// Held by the process that computes vectors ahead of searches.
pub(crate) const AHEAD_FILE: &str = "ahead.lock";
const GITIGNORE_FILE: &str = ".gitignore";
const GITIGNORE: &[u8] = b"*\n";
/// In the directory of a finished part of a first build, until that is complete.
pub(crate) const FINISHED_FILE: &str = "finished.json";
const GENERATION: &str = "generation-";
const PART: &str = "part-";
/// Maximum size of a manifest in bytes: enough to name some millions of skipped files.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// Maximum characters of a tree's name in the name of its cache directory: file names are limited to 255 bytes.
const MAX_NAME_CHARS: usize = 50;

/// Directory of the indexes in the user's cache.
pub(crate) const CACHED_INDEXES: &str = "index";

/// Number of tries to lock the directory while it is removed.
const MAX_LOCKS: usize = 10;

/// The directory of an index, which may not exist yet.
#[derive(Debug, Clone)]
pub(crate) struct IndexDirectory {
    location: Location,
}

#[derive(Debug, Clone)]
enum Location {
    /// In the user's own directories, or at a path given by the user.
    User(PathBuf),
    /// In the indexed tree, which is untrusted.
    Tree {
        /// Canonical.
        tree: PathBuf,
        relative: PathBuf,
        records: Records,
    },
    /// The user has no cache directory: the index cannot be stored.
    Nowhere,
}

/// The lock of a directory that may be an index, before it is known whether it is free.
struct LockFile {
    directory: Directory,
    file: File,
    /// True if the directory had nothing written by Quarry.
    is_new: bool,
    /// See [`WriterLock`].
    is_made: bool,
}

/// Held while writing; released when dropped.
pub(crate) struct WriterLock {
    /// The index directory, open for writing.
    pub directory: Directory,
    /// Seals the manifest; `None` in a directory that only this user can write to.
    key: Option<Key>,
    /// True if the directory was created for the index.
    is_made: bool,
    #[expect(dead_code, reason = "the lock lives as long as the file is open")]
    file: File,
}

impl IndexDirectory {
    /// The directory given by the user for the index of `tree` (canonical).
    ///
    /// # Errors
    /// When it is in the tree and contains files that this machine has not written.
    pub fn named(path: &Path, tree: &Path, records: Records) -> Result<Self, Error> {
        let Some(relative) = below(tree, path) else { return Ok(Self::for_user(path.to_owned())) };
        let named = Self::in_tree(tree, relative, records);
        let is_empty = || match named.open() {
            Ok(directory) => directory.names().is_ok_and(|names| names.is_empty()),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if named.key().is_none() && !is_empty() {
            return Err(Error::ForeignIndex(path.to_owned()));
        }
        Ok(named)
    }

    /// A directory that only this user can write to.
    pub fn for_user(path: PathBuf) -> Self {
        Self { location: Location::User(path) }
    }

    /// The location for a user without a cache directory.
    pub fn nowhere() -> Self {
        Self { location: Location::Nowhere }
    }

    /// A directory in a tree (canonical), at a relative path.
    pub fn in_tree(tree: &Path, relative: PathBuf, records: Records) -> Self {
        Self { location: Location::Tree { tree: tree.to_owned(), relative, records } }
    }

    /// The directory for a tree in the user's cache: the tree's name, and a hash of its canonical path.
    pub fn in_cache(cache: &Path, canonical_root: &Path) -> Self {
        let name = canonical_root.file_name().unwrap_or(OsStr::new("root")).to_string_lossy();
        let name: String = name.chars().take(MAX_NAME_CHARS).collect();
        let hash = xxh3_64(canonical_root.as_os_str().as_encoded_bytes());
        Self::for_user(cache.join(CACHED_INDEXES).join(format!("{name}-{hash:016x}")))
    }

    /// The directories of all trees in the user's cache.
    pub fn all_in_cache(cache: &Path) -> Vec<Self> {
        let indexes = cache.join(CACHED_INDEXES);
        let names = Directory::open(&indexes).and_then(|indexes| indexes.names()).unwrap_or_default();
        names.into_iter().map(|name| Self::for_user(indexes.join(name))).collect()
    }

    /// Returns true if only this user can write and read there.
    pub fn is_of_user(&self) -> bool {
        matches!(self.location, Location::User(_))
    }

    /// Its path; empty for [`nowhere`](Self::nowhere).
    pub fn path(&self) -> PathBuf {
        match &self.location {
            Location::User(path) => path.clone(),
            Location::Nowhere => PathBuf::new(),
            Location::Tree { tree, relative, .. } => tree.join(relative),
        }
    }

    /// Opens it. In a tree, no component of its path may be a link.
    ///
    /// # Errors
    /// When it is missing or is not a directory.
    pub fn open(&self) -> io::Result<Directory> {
        match &self.location {
            Location::User(path) => Directory::open(path),
            Location::Nowhere => Err(io::ErrorKind::NotFound.into()),
            Location::Tree { tree, relative, .. } => Directory::open(tree)?.directory(relative),
        }
    }

    /// Opens it, and checks the files that a manifest names.
    ///
    /// # Errors
    /// When one of them is damaged.
    pub fn open_checked(&self, manifest: &Manifest) -> Result<Directory, Error> {
        let directory = self.open().map_err(|source| Error::io("open", &self.path(), source))?;
        manifest.check(&directory)?;
        Ok(directory)
    }

    fn open_or_make(&self) -> io::Result<Directory> {
        match &self.location {
            Location::User(path) => {
                create_private_directory(path)?;
                Directory::open(path)
            }
            Location::Tree { tree, relative, .. } => Directory::open(tree)?.directory_or_new(relative),
            Location::Nowhere => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The key of the record of an index in a tree.
    fn key(&self) -> Option<Key> {
        match &self.location {
            Location::Tree { records, .. } => records.key(&self.path()),
            Location::User(_) | Location::Nowhere => None,
        }
    }

    /// Returns true if it may be read: only this user can write to it, or this machine sealed its manifest.
    pub fn is_trusted(&self) -> bool {
        if matches!(self.location, Location::User(_)) {
            return true;
        }
        let (Some(key), Ok(directory)) = (self.key(), self.open()) else { return false };
        let is_sealed = |name: &str| {
            let bytes = directory.read(name.as_ref(), MAX_MANIFEST_BYTES);
            bytes.is_ok_and(|bytes| verified(&bytes, Some(&key)).is_some())
        };
        is_sealed(MANIFEST_FILE) || is_sealed(COPY_FILE)
    }

    /// Returns true if anything exists at its path, an index or not.
    pub fn exists(&self) -> bool {
        match &self.location {
            Location::User(path) => path.symlink_metadata().is_ok(),
            Location::Nowhere => false,
            Location::Tree { tree, relative, .. } => {
                Directory::open(tree).and_then(|tree| tree.entry(relative)).is_ok()
            }
        }
    }

    /// Returns true if it contains an index of any version.
    pub fn has_manifest(&self) -> bool {
        let manifest = self.open().and_then(|directory| directory.entry(MANIFEST_FILE.as_ref()));
        manifest.is_ok_and(|found| found.kind == EntryKind::File)
    }

    /// Reads the manifest.
    ///
    /// # Errors
    /// Why this program cannot use the index.
    pub fn manifest(&self) -> Result<Manifest, RebuildReason> {
        self.read(MANIFEST_FILE)
    }

    /// The manifest, or its copy if it is damaged.
    pub fn manifest_or_copy(&self) -> Option<Manifest> {
        self.read(MANIFEST_FILE).or_else(|_| self.read(COPY_FILE)).ok()
    }

    /// The first damage to any of its files, all of which are read; `None` for another version's index, or none.
    pub fn damage(&self) -> Option<Error> {
        let broken = |reason| match reason {
            RebuildReason::Broken(problem) => Some(Error::corrupt(&self.path(), problem)),
            _ => None,
        };
        let manifest = match self.read(MANIFEST_FILE) {
            Ok(manifest) => manifest,
            Err(reason) => return broken(reason),
        };
        if let Some(damage) = self.read(COPY_FILE).err().and_then(broken) {
            return Some(damage);
        }
        let verify = || {
            let directory = self.open().map_err(|source| Error::io("open", &self.path(), source))?;
            manifest.verify(&directory)?;
            let path = directory.path().join(GITIGNORE_FILE);
            let found = directory.read(GITIGNORE_FILE.as_ref(), MAX_MANIFEST_BYTES);
            let found = found.map_err(|source| Error::io("read", &path, source))?;
            if found == GITIGNORE { Ok(()) } else { Err(Error::corrupt(&path, "expected one line, \"*\"")) }
        };
        verify().err()
    }

    fn read(&self, name: &str) -> Result<Manifest, RebuildReason> {
        let broken = |problem: &dyn fmt::Display| RebuildReason::Broken(format!("{name}: {problem}"));
        let read = self.open().and_then(|directory| directory.read(name.as_ref(), MAX_MANIFEST_BYTES));
        let bytes = match read {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(RebuildReason::Missing);
            }
            Err(error) => return Err(broken(&error)),
            Ok(bytes) => bytes,
        };
        let is_of_user = matches!(self.location, Location::User(_));
        let key = self.key();
        let json = if is_of_user || key.is_some() { verified(&bytes, key.as_ref()) } else { None };
        let format = header(&bytes).map_err(|error| broken(&error))?.format;
        // Other formats may have another checksum.
        if format != FORMAT && (is_of_user || json.is_some()) {
            return Err(RebuildReason::Format(format));
        }
        let Some(json) = json else { return Err(broken(&"its content differs from what was written")) };
        let manifest: Manifest = serde_json::from_slice(json).map_err(|error| broken(&error))?;
        // A name with separators could point elsewhere.
        let names = manifest.parts.iter().map(|part| (&part.name, PART));
        for (name, prefix) in names.chain([(&manifest.generation, GENERATION)]) {
            if number(OsStr::new(name), prefix).is_none() {
                return Err(broken(&format!("names the directory {name:?}")));
            }
        }
        Ok(manifest)
    }

    /// Total size in bytes of all files below the directory, and the time at which the valid generation was made.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn size_and_time(&self) -> Result<(u64, SystemTime), Error> {
        let read = || {
            let directory = self.open()?;
            let made = directory.file(MANIFEST_FILE.as_ref())?.metadata()?.modified()?;
            Ok((bytes_below(&directory, 0)?, made))
        };
        read().map_err(|source| Error::io("read", &self.path(), source))
    }

    /// Creates the directory if necessary and takes the writer's lock; if another process has it, calls `waiting` and
    /// waits.
    ///
    /// # Errors
    /// When the directory cannot be written, or contains something other than an index.
    pub fn lock(&self, waiting: impl Fn()) -> Result<WriterLock, Error> {
        let path = self.path().join(LOCK_FILE);
        let failed = |source| Error::io("lock", &path, source);
        // Clearing the cache may remove the directory between two steps of creating it.
        let mut removed = None;
        for _ in 0..MAX_LOCKS {
            let taken = match self.lock_file() {
                Err(error) if error.is_not_found() => {
                    removed = Some(error);
                    continue;
                }
                taken => taken?,
            };
            match taken.file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    waiting();
                    taken.file.lock().map_err(failed)?;
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            if self.is_current(&taken.file) {
                match self.locked(taken) {
                    Err(error) if error.is_not_found() => removed = Some(error),
                    locked => return locked,
                }
            }
        }
        Err(removed.unwrap_or_else(|| failed(io::Error::other("it keeps being removed while it is locked"))))
    }

    /// Takes the writer's lock if it is free.
    ///
    /// # Errors
    /// Like [`lock`](Self::lock).
    pub fn try_lock(&self) -> Result<Option<WriterLock>, Error> {
        let taken = self.lock_file()?;
        if taken.file.try_lock().is_err() || !self.is_current(&taken.file) {
            return Ok(None);
        }
        self.locked(taken).map(Some)
    }

    fn locked(&self, LockFile { directory, file, is_new, is_made }: LockFile) -> Result<WriterLock, Error> {
        directory.make_private();
        // An index inside of a working tree is neither committed nor indexed.
        if is_new
            || !directory
                .read(GITIGNORE_FILE.as_ref(), MAX_MANIFEST_BYTES)
                .is_ok_and(|found| found == GITIGNORE)
        {
            replace_file(&directory, GITIGNORE_FILE, &[GITIGNORE])?;
        }
        let key = match &self.location {
            Location::Tree { records, .. } => Some(records.make(&self.path())?),
            Location::User(_) | Location::Nowhere => None,
        };
        Ok(WriterLock { directory, key, file, is_made })
    }

    /// Removes what a writer without a manifest has made, and the directory of the index unless it existed before;
    /// does nothing if there is an index.
    pub fn discard(&self, lock: WriterLock) {
        let directory = &lock.directory;
        lock.remove_unfinished(&[]);
        if [MANIFEST_FILE, COPY_FILE].iter().any(|name| directory.entry(name.as_ref()).is_ok()) {
            return;
        }
        let _ = directory.remove_file(GITIGNORE_FILE.as_ref());
        let _ = directory.remove_file(LOCK_FILE.as_ref());
        // A process that waits for the lock sees that it is gone, and starts again.
        if !lock.is_made {
            return;
        }
        let removed = match &self.location {
            Location::User(path) => path.parent().zip(path.file_name()).map(|(around, name)| {
                Directory::open(around).and_then(|around| around.remove_directory(name.as_ref()))
            }),
            Location::Tree { tree, relative, .. } => {
                Some(Directory::open(tree).and_then(|tree| tree.remove_directory(relative)))
            }
            Location::Nowhere => None,
        };
        drop(removed);
    }

    /// Returns true if a lock is still that of the directory, which may have been removed by a process that held it.
    fn is_current(&self, file: &File) -> bool {
        let same = || {
            let there = self.open()?.file(LOCK_FILE.as_ref())?;
            quarry_files::is_same_file(file, &there)
        };
        same().unwrap_or(false)
    }

    /// Opens or creates the directory and the file of its lock.
    fn lock_file(&self) -> Result<LockFile, Error> {
        if matches!(self.location, Location::Nowhere) {
            return Err(Error::NoCacheDirectory);
        }
        let path = self.path();
        let was_there = self.exists();
        let directory = self.open_or_make().map_err(|source| Error::io("create", &path, source))?;
        let has_lock = directory.entry(LOCK_FILE.as_ref()).is_ok();
        // In a tree, a lock file alone proves nothing.
        let is_new = !has_lock || (matches!(self.location, Location::Tree { .. }) && self.key().is_none());
        if is_new {
            let names = directory.names().map_err(|source| Error::io("list", &path, source))?;
            // Another writer may have created its files since.
            if !names.iter().all(|name| is_ours(name)) {
                return Err(Error::ForeignDirectory(path));
            }
            // Quarry never writes links or pipes.
            for name in names.iter().map(Path::new) {
                let is_index = |kind| matches!(kind, EntryKind::File | EntryKind::Directory);
                if directory.entry(name).is_ok_and(|entry| !is_index(entry.kind)) {
                    let removed = directory.remove_file(name);
                    removed.map_err(|source| Error::io("remove", &path.join(name), source))?;
                }
            }
        }
        let file = directory.append_file(LOCK_FILE.as_ref());
        let file = file.map_err(|source| Error::io("open", &path.join(LOCK_FILE), source))?;
        Ok(LockFile { directory, file, is_new, is_made: has_lock || !was_there })
    }
}

impl WriterLock {
    /// Creates an empty directory for a new generation and returns its name.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn start_generation(&self) -> Result<String, Error> {
        Ok(self.make_directories(GENERATION, 1)?.remove(0))
    }

    /// Creates empty directories for new parts and returns their names.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn start_parts(&self, n: usize) -> Result<Vec<String>, Error> {
        self.make_directories(PART, n)
    }

    fn make_directories(&self, prefix: &str, n: usize) -> Result<Vec<String>, Error> {
        let names = self.written()?;
        let last = names.iter().filter_map(|name| number(name, prefix)).max().unwrap_or(0);
        let make = |number: u64| {
            let name = format!("{prefix}{number}");
            let made = self.directory.create_directory(name.as_ref());
            made.map_err(|source| Error::io("create", &self.directory.path().join(&name), source))?;
            Ok(name)
        };
        (last.saturating_add(1)..).take(n).map(make).collect()
    }

    /// Makes a finished generation the valid one, and removes all others.
    ///
    /// # Errors
    /// When the manifest cannot be replaced; the previous generation is then still valid.
    pub fn publish(&self, manifest: &Manifest) -> Result<(), Error> {
        let failed = |error: serde_json::Error| {
            Error::io("write", &self.directory.path().join(MANIFEST_FILE), error.into())
        };
        let mut written = serde_json::to_vec_pretty(manifest).map_err(failed)?;
        self.seal(&mut written);
        replace_file(&self.directory, MANIFEST_FILE, &[&written])?;
        // The copy only helps to recover vectors.
        let _ = replace_file(&self.directory, COPY_FILE, &[&written]);
        let parts = manifest.parts.iter().map(|part| part.name.as_str());
        self.remove_all_but(&parts.chain([manifest.generation.as_str()]).collect::<Vec<_>>());
        manifest.parts.iter().for_each(|part| self.remove_unnamed(part));
        Ok(())
    }

    /// Appends a checksum or seal to the content, which proves that this machine wrote it.
    pub fn seal(&self, written: &mut Vec<u8>) {
        let checksum = checksum(written, self.key.as_ref());
        written.extend(format!("\n{checksum}\n").bytes());
    }

    /// The content of a file before it was [sealed](Self::seal); `None` if it was not.
    pub fn unsealed<'a>(&self, file: &'a [u8]) -> Option<&'a [u8]> {
        verified(file, self.key.as_ref())
    }

    /// Names of the directories of parts, including those in no manifest, in the order in which they were created.
    pub fn parts(&self) -> Vec<String> {
        let names = self.written().unwrap_or_default();
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number(name, PART)).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| format!("{PART}{number}")).collect()
    }

    /// Removes what an interrupted writer left behind, except for the parts to be reused.
    pub fn remove_unfinished(&self, kept: &[PartSize]) {
        // A manifest of another version still protects its generation.
        let header = |name: &str| header(&self.directory.read(name.as_ref(), MAX_MANIFEST_BYTES).ok()?).ok();
        // If a manifest is damaged, its copy has the names.
        let keep: Vec<String> = [MANIFEST_FILE, COPY_FILE]
            .into_iter()
            .filter_map(header)
            .flat_map(ManifestHeader::names)
            .collect();
        let kept = kept.iter().map(|part| part.name.as_str());
        self.remove_all_but(&keep.iter().map(String::as_str).chain(kept).collect::<Vec<_>>());
    }

    /// Removes from a part what is in no manifest: replaced vectors, checkpoints, and what an interrupted writer left
    /// behind.
    fn remove_unnamed(&self, part: &PartSize) {
        let Ok(directory) = part.directory(&self.directory) else { return };
        for name in directory.names().unwrap_or_default().iter().filter(|name| !part.names(name)) {
            let _ = directory.remove_file(name.as_ref());
        }
    }

    /// Removes all but some; files that cannot be removed (a system may keep mapped files) are left to the next
    /// writer.
    fn remove_all_but(&self, keep: &[&str]) {
        for name in self.written().unwrap_or_default() {
            if !keep.iter().any(|kept| name == *kept) {
                let _ = self.directory.remove_all(&name);
            }
        }
    }

    /// Names of the directories of generations and parts.
    fn written(&self) -> Result<Vec<OsString>, Error> {
        let names = self.directory.names();
        let names = names.map_err(|source| Error::io("list", self.directory.path(), source))?;
        Ok(names.into_iter().filter(|name| is_written(name)).collect())
    }
}

/// The part of a path that is in a tree (canonical); `None` if it is elsewhere. Links are resolved up to the tree;
/// within it they are plain names.
fn below(tree: &Path, path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    let mut at = PathBuf::new();
    let mut relative: Option<PathBuf> = None;
    for part in absolute.components() {
        match (part, &mut relative) {
            (Component::ParentDir, inner) => {
                if !inner.as_mut().is_some_and(PathBuf::pop) {
                    relative = None;
                    at.pop();
                }
            }
            (Component::CurDir, _) => {}
            (part, Some(inner)) => inner.push(part),
            (part, None) => {
                at.push(part);
                at = at.canonicalize().unwrap_or(at);
            }
        }
        if relative.is_none() {
            relative = at.strip_prefix(tree).ok().map(Path::to_owned);
        }
    }
    relative
}

fn number(name: &OsStr, prefix: &str) -> Option<u64> {
    name.to_str()?.strip_prefix(prefix)?.parse().ok()
}

fn is_written(name: &OsStr) -> bool {
    number(name, GENERATION).is_some() || number(name, PART).is_some()
}

fn is_ours(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let files = [MANIFEST_FILE, COPY_FILE, LOCK_FILE, AHEAD_FILE, GITIGNORE_FILE];
    files.contains(&name.strip_suffix(ASIDE).unwrap_or(name)) || is_written(OsStr::new(name))
}

pub(crate) mod kept;
mod manifest;

pub(crate) use manifest::Manifest;

#[cfg(test)]
mod tests;
