//! The folder of an index: generations, the manifest that names the valid one, and the writer's lock.
//!
//! ```text
//! manifest.json       names the generation and its parts; replaced by one rename
//! manifest.copy.json  the same, for what can be saved if the manifest is damaged
//! lock                held by the writer; readers take no lock
//! generation-7/       the valid one: files, units
//! part-3/             what is known of some of the files, shared by generations: strings, hashes, lexical/, and the
//!                     vectors of each model that was used
//! generation-8/       being written, or left by a writer that died: the next writer removes it
//! ```
//!
//! A file that a manifest names is never written again. The manifest has its length, time and hash, so that a damaged
//! one is found before it is searched; the index is then built anew, but for the vectors that are whole.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use quarry_corpus::walk::{SkipReason, Skipped, WalkOptions};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::storage::{StoredFile, replace_file, write_file};
use crate::table::{PartSize, TableSize};
use crate::{Error, Stale};

/// Version of everything below the folder; another one is rebuilt, never read.
pub(crate) const FORMAT: u32 = 6;

/// Version of this program.
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

const MANIFEST_FILE: &str = "manifest.json";
const COPY_FILE: &str = "manifest.copy.json";
const LOCK_FILE: &str = "lock";
const GITIGNORE_FILE: &str = ".gitignore";
const GENERATION: &str = "generation-";
const PART: &str = "part-";
/// Beginning of the names of files with vectors.
pub(crate) const VECTORS: &str = "vectors-";

/// What the valid generation is and was made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub format: u32,
    /// Of all else in it.
    pub checksum: u64,
    pub generation: String,
    /// Canonical path of the tree.
    pub root: String,
    /// Version of the program: another one may cut files into other units.
    pub program: String,
    /// Which files were indexed.
    pub walk: WalkOptions,
    /// Ids of the models that units have vectors of.
    pub models: Vec<String>,
    pub size: TableSize,
    /// The files of the generation.
    pub files: Vec<StoredFile>,
    pub parts: Vec<PartSize>,
    /// When the tree was listed, in nanoseconds since 1970.
    pub looked_ns: u64,
    /// Files that were listed and then read in vain, ascending by path.
    pub skipped: Vec<Skipped>,
}

impl Manifest {
    /// Looks whether the files that it names are as they were written, but for vectors.
    ///
    /// # Errors
    /// When one is not.
    pub fn check(&self, index: &Path) -> Result<(), Error> {
        let generation = index.join(&self.generation);
        self.files.iter().try_for_each(|file| file.check(&generation))?;
        self.parts.iter().try_for_each(|part| {
            let folder = part.folder(index);
            part.files.iter().try_for_each(|file| file.check(&folder))
        })
    }

    /// Whether a file was listed but could not be read.
    pub fn is_unreadable(&self, path: &str) -> bool {
        let place = self.skipped.binary_search_by(|file| file.path.as_str().cmp(path));
        place.is_ok_and(|place| matches!(self.skipped[place].reason, SkipReason::Unreadable(_)))
    }

    fn checksum(&self) -> Result<u64, serde_json::Error> {
        Ok(xxh3_64(&serde_json::to_vec(&Self { checksum: 0, ..self.clone() })?))
    }
}

/// The part of a [`Manifest`] that every version has.
#[derive(Deserialize)]
struct ManifestHeader {
    format: u32,
    generation: String,
    #[serde(default)]
    parts: Vec<PartName>,
}

#[derive(Deserialize)]
struct PartName {
    name: String,
}

#[derive(Debug, Clone)]
pub(crate) struct IndexFolder(PathBuf);

/// Held while writing; dropping it lets the next writer in.
pub(crate) struct WriterLock(
    #[expect(dead_code, reason = "the lock lives as long as the file is open")] File,
);

impl IndexFolder {
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The folder for a tree in the user's cache: the tree's name, and a hash of its canonical path.
    ///
    /// # Errors
    /// When the user has no cache folder.
    pub fn in_cache(canonical_root: &Path) -> Result<Self, Error> {
        let cache = dirs::cache_dir().ok_or(Error::NoCacheFolder)?;
        let name = canonical_root.file_name().unwrap_or(OsStr::new("root")).to_string_lossy();
        let hash = xxh3_64(canonical_root.as_os_str().as_encoded_bytes());
        Ok(Self(cache.join("quarry").join("index").join(format!("{name}-{hash:016x}"))))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether it holds an index, of whatever version.
    pub fn has_manifest(&self) -> bool {
        self.0.join(MANIFEST_FILE).is_file()
    }

    /// The manifest.
    ///
    /// # Errors
    /// The reason why there is none that this program can use.
    pub fn manifest(&self) -> Result<Manifest, Stale> {
        self.read(MANIFEST_FILE)
    }

    /// The manifest, or its copy if it is damaged.
    pub fn manifest_or_copy(&self) -> Option<Manifest> {
        self.read(MANIFEST_FILE).or_else(|_| self.read(COPY_FILE)).ok()
    }

    fn read(&self, name: &str) -> Result<Manifest, Stale> {
        let broken = |problem: &dyn fmt::Display| Stale::Broken(format!("{name}: {problem}"));
        let bytes = match fs::read(self.0.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Stale::Missing),
            Err(error) => return Err(broken(&error)),
            Ok(bytes) => bytes,
        };
        let header: ManifestHeader = serde_json::from_slice(&bytes).map_err(|error| broken(&error))?;
        if header.format != FORMAT {
            return Err(Stale::Format(header.format));
        }
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| broken(&error))?;
        if manifest.checksum().map_err(|error| broken(&error))? != manifest.checksum {
            return Err(broken(&"other values than were written"));
        }
        // A name with separators could lead out of the folder.
        let names = manifest.parts.iter().map(|part| (&part.name, PART));
        for (name, prefix) in names.chain([(&manifest.generation, GENERATION)]) {
            if number(OsStr::new(name), prefix).is_none() {
                return Err(broken(&format!("names the folder {name:?}")));
            }
        }
        Ok(manifest)
    }

    /// Bytes of all files below the folder, and when the valid generation was made.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn size_and_time(&self) -> Result<(u64, SystemTime), Error> {
        let failed = |source| Error::io("read", &self.0, source);
        let made =
            fs::metadata(self.0.join(MANIFEST_FILE)).and_then(|file| file.modified()).map_err(failed)?;
        Ok((bytes_below(&self.0).map_err(failed)?, made))
    }

    /// Makes the folder where there is none, and takes the writer's lock; calls `waiting` when another process has
    /// it, and waits.
    ///
    /// # Errors
    /// When the folder cannot be written, or holds something other than an index.
    pub fn lock(&self, waiting: impl FnOnce()) -> Result<WriterLock, Error> {
        let failed = |source| Error::io("lock", &self.0.join(LOCK_FILE), source);
        let file = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                waiting();
                file.lock().map_err(failed)?;
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(WriterLock(file))
    }

    /// Takes the writer's lock if nobody has it.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn try_lock(&self) -> Result<Option<WriterLock>, Error> {
        let file = self.lock_file()?;
        Ok(file.try_lock().is_ok().then_some(WriterLock(file)))
    }

    fn lock_file(&self) -> Result<File, Error> {
        fs::create_dir_all(&self.0).map_err(|source| Error::io("create", &self.0, source))?;
        let lock = self.0.join(LOCK_FILE);
        if !lock.exists() {
            let entries = fs::read_dir(&self.0).map_err(|source| Error::io("list", &self.0, source))?;
            let mut entries = entries.flatten();
            // Another writer may have made its files since.
            if entries.any(|entry| !is_ours(&entry.file_name())) {
                return Err(Error::ForeignFolder(self.0.clone()));
            }
            // An index inside of a working tree is neither committed nor indexed.
            write_file(&self.0.join(GITIGNORE_FILE), &[b"*\n"])?;
        }
        let open = File::options().create(true).append(true).open(&lock);
        open.map_err(|source| Error::io("open", &lock, source))
    }

    /// Makes an empty folder for a new generation and returns its name.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn start_generation(&self, _lock: &WriterLock) -> Result<String, Error> {
        Ok(self.make_folders(GENERATION, 1)?.remove(0))
    }

    /// Makes empty folders for new parts and returns their names.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn start_parts(&self, n: usize, _lock: &WriterLock) -> Result<Vec<String>, Error> {
        self.make_folders(PART, n)
    }

    fn make_folders(&self, prefix: &str, n: usize) -> Result<Vec<String>, Error> {
        let names = self.written()?;
        let last = names.iter().filter_map(|name| number(name, prefix)).max().unwrap_or(0);
        let make = |number: u64| {
            let name = format!("{prefix}{number}");
            let path = self.0.join(&name);
            fs::create_dir(&path).map_err(|source| Error::io("create", &path, source))?;
            Ok(name)
        };
        (last + 1..).take(n).map(make).collect()
    }

    /// Makes a finished generation the valid one, and removes all others.
    ///
    /// # Errors
    /// When the manifest cannot be replaced; the former generation is then still valid.
    pub fn publish(&self, manifest: &Manifest, _lock: &WriterLock) -> Result<(), Error> {
        let path = self.0.join(MANIFEST_FILE);
        let json = manifest
            .checksum()
            .and_then(|checksum| serde_json::to_vec_pretty(&Manifest { checksum, ..manifest.clone() }));
        let json = json.map_err(|error| Error::io("write", &path, error.into()))?;
        replace_file(&path, &[&json])?;
        // Without it there is only less to save.
        let _ = fs::write(self.0.join(COPY_FILE), &json);
        let parts = manifest.parts.iter().map(|part| part.name.as_str());
        self.remove_all_but(&parts.chain([manifest.generation.as_str()]).collect::<Vec<_>>());
        manifest.parts.iter().for_each(|part| self.remove_old_vectors(part));
        Ok(())
    }

    /// Removes what a writer left that died.
    pub fn remove_unfinished(&self, _lock: &WriterLock) {
        // A manifest of another version still protects its generation.
        let header = |name| serde_json::from_slice::<ManifestHeader>(&fs::read(self.0.join(name)).ok()?).ok();
        let keep = header(MANIFEST_FILE).or_else(|| header(COPY_FILE));
        let names = |header: ManifestHeader| {
            header.parts.into_iter().map(|part| part.name).chain([header.generation]).collect::<Vec<_>>()
        };
        let keep = keep.map(names).unwrap_or_default();
        self.remove_all_but(&keep.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Removes vectors of a part that later ones have replaced, or that a writer left that died.
    fn remove_old_vectors(&self, part: &PartSize) {
        let folder = part.folder(&self.0);
        let kept: Vec<PathBuf> = part.vectors.values().map(|file| file.path(&folder)).collect();
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let is_vectors = entry.file_name().to_string_lossy().starts_with(VECTORS);
            if is_vectors && !kept.contains(&entry.path()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// What cannot be removed (a system may keep mapped files) is left to the next writer.
    fn remove_all_but(&self, keep: &[&str]) {
        for name in self.written().unwrap_or_default() {
            if !keep.iter().any(|kept| name == *kept) {
                let _ = fs::remove_dir_all(self.0.join(name));
            }
        }
    }

    /// Names of the folders of generations and parts.
    fn written(&self) -> Result<Vec<OsString>, Error> {
        let entries = fs::read_dir(&self.0).map_err(|source| Error::io("list", &self.0, source))?;
        Ok(entries.flatten().map(|entry| entry.file_name()).filter(|name| is_written(name)).collect())
    }
}

/// Files that a writer removes meanwhile are left out.
fn bytes_below(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)?.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_dir() { bytes_below(&entry.path()).unwrap_or(0) } else { metadata.len() };
    }
    Ok(bytes)
}

fn number(name: &OsStr, prefix: &str) -> Option<u64> {
    name.to_str()?.strip_prefix(prefix)?.parse().ok()
}

fn is_written(name: &OsStr) -> bool {
    number(name, GENERATION).is_some() || number(name, PART).is_some()
}

fn is_ours(name: &OsStr) -> bool {
    [MANIFEST_FILE, COPY_FILE, LOCK_FILE, GITIGNORE_FILE].map(OsStr::new).contains(&name) || is_written(name)
}
