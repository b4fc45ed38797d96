//! The folder of an index: generations, the manifest that names the valid one, and the writer's lock.
//!
//! ```text
//! manifest.json     names the generation; replaced by one rename
//! lock              held by the writer; readers take no lock
//! generation-7/     the valid one: units, files, strings, vectors.i8, factors.f32, lexical/
//! generation-8/     being written, or left by a writer that died: the next writer removes it
//! ```

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use quarry_corpus::walk::Skipped;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::storage::{replace_file, write_file};
use crate::table::TableSize;
use crate::{Error, Stale};

/// Version of everything below the folder; another one is rebuilt, never read.
pub(crate) const FORMAT: u32 = 2;

const MANIFEST_FILE: &str = "manifest.json";
const LOCK_FILE: &str = "lock";
const GITIGNORE_FILE: &str = ".gitignore";
const GENERATION: &str = "generation-";

/// What the valid generation is and was made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub format: u32,
    pub generation: String,
    /// Canonical path of the tree.
    pub root: String,
    /// Identity of the embedding model; none for a lexical index.
    pub model: Option<String>,
    pub max_bytes: u64,
    pub size: TableSize,
    /// Files of the tree that were left out, ascending by path.
    pub skipped: Vec<Skipped>,
}

/// The part of a [`Manifest`] that every version has.
#[derive(Deserialize)]
struct ManifestHeader {
    format: u32,
    generation: String,
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

    /// The manifest.
    ///
    /// # Errors
    /// The reason why there is none that this program can use.
    pub fn manifest(&self) -> Result<Manifest, Stale> {
        let bytes = match fs::read(self.0.join(MANIFEST_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Stale::Missing),
            Err(error) => return Err(Stale::Broken(format!("{MANIFEST_FILE}: {error}"))),
            Ok(bytes) => bytes,
        };
        let broken = |error: serde_json::Error| Stale::Broken(format!("{MANIFEST_FILE}: {error}"));
        let header: ManifestHeader = serde_json::from_slice(&bytes).map_err(broken)?;
        if header.format != FORMAT {
            return Err(Stale::Format(header.format));
        }
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(broken)?;
        // A name with separators could lead out of the folder.
        if generation_number(OsStr::new(&manifest.generation)).is_none() {
            return Err(Stale::Broken(format!(
                "{MANIFEST_FILE}: names the generation {:?}",
                manifest.generation
            )));
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
        let failed = |source| Error::IndexFolder { path: self.0.clone(), source };
        fs::create_dir_all(&self.0).map_err(failed)?;
        let lock = self.0.join(LOCK_FILE);
        if !lock.exists() {
            let mut entries = fs::read_dir(&self.0).map_err(failed)?.flatten();
            // Another writer may have made its files since.
            if entries.any(|entry| !is_ours(&entry.file_name())) {
                return Err(Error::ForeignFolder(self.0.clone()));
            }
            // An index inside of a working tree is neither committed nor indexed.
            write_file(&self.0.join(GITIGNORE_FILE), b"*\n")?;
        }
        let file = File::options().create(true).append(true).open(&lock).map_err(failed)?;
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

    /// Makes an empty folder for a new generation and returns its name.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn start_generation(&self, _lock: &WriterLock) -> Result<String, Error> {
        let last = self.generations()?.into_iter().map(|(number, _)| number).max().unwrap_or(0);
        let name = format!("{GENERATION}{}", last + 1);
        let path = self.0.join(&name);
        fs::create_dir(&path).map_err(|source| Error::IndexFolder { path, source })?;
        Ok(name)
    }

    /// Makes a finished generation the valid one, and removes all others.
    ///
    /// # Errors
    /// When the manifest cannot be replaced; the former generation is then still valid.
    pub fn publish(&self, manifest: &Manifest, _lock: &WriterLock) -> Result<(), Error> {
        let json = serde_json::to_vec_pretty(manifest).map_err(io::Error::from);
        let path = self.0.join(MANIFEST_FILE);
        replace_file(&path, &json.map_err(|source| Error::io("write", &path, source))?)?;
        self.remove_all_but(Some(&manifest.generation));
        Ok(())
    }

    /// Removes what a writer left that died.
    pub fn remove_unfinished(&self, _lock: &WriterLock) {
        // A manifest of another version still protects its generation.
        let keep = fs::read(self.0.join(MANIFEST_FILE)).ok();
        let keep = keep.and_then(|bytes| serde_json::from_slice::<ManifestHeader>(&bytes).ok());
        self.remove_all_but(keep.as_ref().map(|manifest| manifest.generation.as_str()));
    }

    /// What cannot be removed (a system may keep mapped files) is left to the next writer.
    fn remove_all_but(&self, keep: Option<&str>) {
        for (_, path) in self.generations().unwrap_or_default() {
            if path.file_name() != keep.map(OsStr::new) {
                let _ = fs::remove_dir_all(path);
            }
        }
    }

    fn generations(&self) -> Result<Vec<(u64, PathBuf)>, Error> {
        let entries = fs::read_dir(&self.0).map_err(|source| Error::io("list", &self.0, source))?;
        let numbered = |entry: fs::DirEntry| Some((generation_number(&entry.file_name())?, entry.path()));
        Ok(entries.flatten().filter_map(numbered).collect())
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

fn generation_number(name: &OsStr) -> Option<u64> {
    name.to_str()?.strip_prefix(GENERATION)?.parse().ok()
}

fn is_ours(name: &OsStr) -> bool {
    [MANIFEST_FILE, LOCK_FILE, GITIGNORE_FILE].map(OsStr::new).contains(&name)
        || generation_number(name).is_some()
}
