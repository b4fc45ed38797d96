//! Arrays of fixed-size records in files that are mapped, not read.
//!
//! Records are in the machine's own byte order: an index is a cache of one machine.

use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::Path;

use bytemuck::{AnyBitPattern, NoUninit};
use quarry_files::{Directory, EntryKind};
use quarry_walk as walk;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Error;
use crate::storage::map::Map;

/// An array of records, in memory or in a mapped file.
pub(crate) struct Column<T>(Backing<T>);

enum Backing<T> {
    Owned(Vec<T>),
    Mapped(Map, PhantomData<T>),
}

impl<T: AnyBitPattern + NoUninit> Column<T> {
    /// Maps a file of records.
    ///
    /// # Errors
    /// When the file cannot be read or does not contain `expected` records.
    pub fn open(directory: &Directory, name: &str, expected: usize) -> Result<Self, Error> {
        let path = directory.path().join(name);
        let file = directory.file(name.as_ref()).map_err(|source| Error::io("open", &path, source))?;
        let bytes = file.metadata().map_err(|source| Error::io("read", &path, source))?.len();
        if bytes != (expected * size_of::<T>()) as u64 {
            let problem =
                format!("expected {expected} records of {} bytes, found {bytes} bytes", size_of::<T>());
            return Err(Error::corrupt(&path, problem));
        }
        Self::part_of(&file, &path, 0, expected)
    }

    /// Maps `expected` records starting at byte `start` of a file that is known to contain them.
    ///
    /// # Errors
    /// When the file cannot be mapped.
    pub fn part_of(file: &File, path: &Path, start: usize, expected: usize) -> Result<Self, Error> {
        if expected == 0 {
            return Ok(Self::from(Vec::new()));
        }
        let map = Map::new(file, path, start as u64, expected * size_of::<T>())
            .map_err(|source| Error::io("map", path, source))?;
        bytemuck::try_cast_slice::<u8, T>(&map).map_err(|error| Error::corrupt(path, error.to_string()))?;
        Ok(Self(Backing::Mapped(map, PhantomData)))
    }

    /// Writes records to a new file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(directory: &Directory, name: &str, records: &[T]) -> Result<(), Error> {
        write_file(directory, name, &[bytemuck::cast_slice(records)])
    }
}

impl<T> From<Vec<T>> for Column<T> {
    fn from(records: Vec<T>) -> Self {
        Self(Backing::Owned(records))
    }
}

impl<T: AnyBitPattern> Deref for Column<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Backing::Owned(records) => records,
            // `open` has checked this cast; the map does not move.
            Backing::Mapped(map, _) => bytemuck::try_cast_slice(map).unwrap_or_default(),
        }
    }
}

/// Suffix of the name of a file that will replace another one.
pub(crate) const ASIDE: &str = ".new";

/// Metadata and hash of a written file, to detect damage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredFile {
    /// Path relative to the directory for which it is recorded, `/` between its parts.
    path: String,
    bytes: u64,
    modified_ns: u64,
    /// Random, so that nobody can construct another file with the same hash without reading the manifest.
    seed: u64,
    hash: u64,
}

impl StoredFile {
    /// Records a written file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(directory: &Directory, path: String) -> Result<Self, Error> {
        let (metadata, bytes) = read(directory, &path)?;
        let seed = RandomState::new().hash_one(&path);
        Ok(Self {
            path,
            bytes: bytes.len() as u64,
            modified_ns: walk::modified_ns(&metadata),
            seed,
            hash: xxh3_64_with_seed(&bytes, seed),
        })
    }

    /// Records all files below a directory.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn all(directory: &Directory) -> Result<Vec<Self>, Error> {
        let mut files = Vec::new();
        let mut directories = vec![String::new()];
        while let Some(inner) = directories.pop() {
            let failed = |source| Error::io("list", &directory.path().join(&inner), source);
            for name in directory.directory(inner.as_ref()).and_then(|inner| inner.names()).map_err(failed)? {
                let path = format!("{inner}{}", name.to_string_lossy());
                match directory.entry(path.as_ref()).map_err(failed)?.kind {
                    EntryKind::Directory => directories.push(format!("{path}/")),
                    _ => files.push(Self::of(directory, path)?),
                }
            }
        }
        Ok(files)
    }

    /// Copies it into another directory, if it is intact.
    ///
    /// # Errors
    /// When it is not, or the copy cannot be written.
    pub fn copy(&self, from: &Directory, to: &Directory) -> Result<Self, Error> {
        let path = from.path().join(&self.path);
        let file = from.file(self.path.as_ref()).map_err(|source| Error::io("read", &path, source))?;
        let bytes = quarry_files::read_whole(file, self.bytes);
        let bytes = bytes.map_err(|source| Error::io("read", &path, source))?;
        if xxh3_64_with_seed(&bytes, self.seed) != self.hash {
            return Err(Error::corrupt(&path, "other bytes than were written"));
        }
        match self.path.rsplit_once('/') {
            Some((inner, name)) => {
                let made = to.directory_or_new(inner.as_ref());
                let made = made.map_err(|source| Error::io("create", &to.path().join(inner), source))?;
                write_file(&made, name, &[&bytes])?;
            }
            None => write_file(to, &self.path, &[&bytes])?,
        }
        Self::of(to, self.path.clone())
    }

    /// Path relative to the directory.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checks that it is intact. Its content is read only if its modification time differs, as that of a copy does.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self, directory: &Directory) -> Result<(), Error> {
        let path = directory.path().join(&self.path);
        let failed = |source| Error::io("read", &path, source);
        let file = directory.file(self.path.as_ref()).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.len() != self.bytes {
            return Err(Error::corrupt(
                &path,
                format!("expected {} bytes, found {}", self.bytes, metadata.len()),
            ));
        }
        if walk::modified_ns(&metadata) != self.modified_ns {
            let bytes = quarry_files::read_whole(file, self.bytes).map_err(failed)?;
            if xxh3_64_with_seed(&bytes, self.seed) != self.hash {
                return Err(Error::corrupt(&path, "its content differs from what was written"));
            }
        }
        Ok(())
    }
}

fn read(directory: &Directory, path: &str) -> Result<(Metadata, Vec<u8>), Error> {
    let read = || {
        let file = directory.file(path.as_ref())?;
        Ok((file.metadata()?, quarry_files::read_start(file, u64::MAX)?))
    };
    read().map_err(|source| Error::io("read", &directory.path().join(path), source))
}

/// Writes a new file from pieces and syncs it to disk.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write_file(directory: &Directory, name: &str, pieces: &[&[u8]]) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let mut file = directory.create_file(name.as_ref())?;
        pieces.iter().try_for_each(|piece| file.write_all(piece))?;
        file.sync_all()
    };
    write().map_err(|source| Error::io("write", &directory.path().join(name), source))
}

/// Replaces a file by renaming, so that a reader sees the old content or the new, never a mixture.
///
/// # Errors
/// When the directory cannot be written.
pub(crate) fn replace_file(directory: &Directory, name: &str, pieces: &[&[u8]]) -> Result<(), Error> {
    let aside = format!("{name}{ASIDE}");
    match directory.remove_all(aside.as_ref()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove", &directory.path().join(aside), error));
        }
        _ => {}
    }
    write_file(directory, &aside, pieces)?;
    let renamed = directory.rename(&aside, name);
    renamed.map_err(|source| Error::io("replace", &directory.path().join(name), source))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn directory() -> (tempfile::TempDir, Directory) {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(temporary.path()).unwrap();
        (temporary, directory)
    }

    #[test]
    fn records_survive_the_file() {
        let (_temporary, directory) = directory();
        Column::write(&directory, "numbers", &[1_u64, 2, 3]).unwrap();
        assert_eq!(&*Column::<u64>::open(&directory, "numbers", 3).unwrap(), [1, 2, 3]);
        assert!(matches!(Column::<u64>::open(&directory, "numbers", 2), Err(Error::Corrupt { .. })));
        assert!(matches!(Column::<u64>::open(&directory, "none", 2), Err(Error::Io { .. })));
    }

    #[test]
    fn a_damaged_file_is_told_from_a_copy() {
        let (temporary, directory) = directory();
        let (path, inner) = (temporary.path().join("a"), temporary.path().join("b/c"));
        fs::create_dir(temporary.path().join("b")).unwrap();
        fs::write(&path, "abc").unwrap();
        fs::write(&inner, "abc").unwrap();
        let files = StoredFile::all(&directory).unwrap();
        let is_whole = |path: &Path| {
            let file = files.iter().find(|file| temporary.path().join(file.path()) == path).unwrap();
            file.check(&directory).is_ok()
        };
        assert!(files.len() == 2 && is_whole(&path) && is_whole(&inner));
        assert_ne!(files[0].hash, files[1].hash, "of the same bytes");
        let touch = || {
            let time = std::time::SystemTime::now() + std::time::Duration::from_secs(9);
            File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        touch();
        assert!(is_whole(&path));
        for damaged in ["abd", "ab", ""] {
            fs::write(&path, damaged).unwrap();
            touch();
            assert!(!is_whole(&path), "{damaged}");
        }
        fs::remove_file(&inner).unwrap();
        assert!(!is_whole(&inner));
    }

    #[test]
    fn no_records_need_no_map() {
        let (_temporary, directory) = directory();
        Column::<u32>::write(&directory, "none", &[]).unwrap();
        assert!(Column::<u32>::open(&directory, "none", 0).unwrap().is_empty());
    }

    #[test]
    fn a_file_is_replaced_whatever_has_its_place() {
        let (temporary, directory) = directory();
        fs::write(temporary.path().join("a"), "old").unwrap();
        fs::create_dir(temporary.path().join("a.new")).unwrap();
        replace_file(&directory, "a", &[b"ne", b"w"]).unwrap();
        assert_eq!(fs::read_to_string(temporary.path().join("a")).unwrap(), "new");
        assert_eq!(directory.names().unwrap(), ["a"]);
    }
}
