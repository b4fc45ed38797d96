//! Arrays of fixed-size records in files that are mapped, not read.
//!
//! Records are in the machine's own byte order: an index is a cache of one machine.

use std::fs::{self, File};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use bytemuck::{AnyBitPattern, NoUninit};
use memmap2::{Mmap, MmapOptions};
use quarry_corpus::walk;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;

/// An array of records, in memory or in a mapped file.
pub(crate) struct Column<T>(Backing<T>);

enum Backing<T> {
    Owned(Vec<T>),
    Mapped(Mmap, PhantomData<T>),
}

impl<T: AnyBitPattern + NoUninit> Column<T> {
    /// Maps a file of records.
    ///
    /// # Errors
    /// When the file cannot be read or does not hold `expected` records.
    pub fn open(path: &Path, expected: usize) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::io("open", path, source))?;
        let bytes = file.metadata().map_err(|source| Error::io("read", path, source))?.len();
        if bytes != (expected * size_of::<T>()) as u64 {
            let problem = format!("{bytes} bytes where {expected} records of {} belong", size_of::<T>());
            return Err(Error::corrupt(path, problem));
        }
        Self::part_of(&file, path, 0, expected)
    }

    /// Maps `expected` records from byte `start` of a file that is known to hold them.
    ///
    /// # Errors
    /// When the file cannot be mapped.
    pub fn part_of(file: &File, path: &Path, start: usize, expected: usize) -> Result<Self, Error> {
        if expected == 0 {
            return Ok(Self::from(Vec::new()));
        }
        let map =
            map(file, start, expected * size_of::<T>()).map_err(|source| Error::io("map", path, source))?;
        bytemuck::try_cast_slice::<u8, T>(&map).map_err(|error| Error::corrupt(path, error.to_string()))?;
        Ok(Self(Backing::Mapped(map, PhantomData)))
    }

    /// Writes records to a new file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(path: &Path, records: &[T]) -> Result<(), Error> {
        write_file(path, &[bytemuck::cast_slice(records)])
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
            // `open` has seen this cast succeed; the map does not move.
            Backing::Mapped(map, _) => bytemuck::try_cast_slice(map).unwrap_or_default(),
        }
    }
}

/// A file of an index as it was written, to tell one that was damaged since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredFile {
    /// Path relative to the folder that it is recorded for, `/` between its parts.
    path: String,
    bytes: u64,
    modified_ns: u64,
    hash: u64,
}

impl StoredFile {
    /// Takes down a file that was written.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(folder: &Path, path: String) -> Result<Self, Error> {
        let file = folder.join(&path);
        let read = || Ok((fs::read(&file)?, fs::metadata(&file)?));
        let (bytes, metadata) = read().map_err(|source| Error::io("read", &file, source))?;
        let modified_ns = walk::modified_ns(&metadata);
        Ok(Self { path, bytes: bytes.len() as u64, modified_ns, hash: xxh3_64(&bytes) })
    }

    /// Takes down all files below a folder.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn all(folder: &Path) -> Result<Vec<Self>, Error> {
        let mut files = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(inner) = folders.pop() {
            let failed = |source| Error::io("list", &folder.join(&inner), source);
            for entry in fs::read_dir(folder.join(&inner)).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let path = format!("{inner}{}", entry.file_name().to_string_lossy());
                match entry.file_type().map_err(failed)?.is_dir() {
                    true => folders.push(format!("{path}/")),
                    false => files.push(Self::of(folder, path)?),
                }
            }
        }
        Ok(files)
    }

    /// Where it is.
    pub fn path(&self, folder: &Path) -> PathBuf {
        folder.join(&self.path)
    }

    /// Looks whether it still is as it was written. It is read only if the time of its last modification is another
    /// one, as it is of a copy.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self, folder: &Path) -> Result<(), Error> {
        let path = self.path(folder);
        let failed = |source| Error::io("read", &path, source);
        let metadata = fs::metadata(&path).map_err(failed)?;
        if metadata.len() != self.bytes {
            return Err(Error::corrupt(
                &path,
                format!("{} bytes where {} were written", metadata.len(), self.bytes),
            ));
        }
        if walk::modified_ns(&metadata) != self.modified_ns
            && xxh3_64(&fs::read(&path).map_err(failed)?) != self.hash
        {
            return Err(Error::corrupt(&path, "other bytes than were written"));
        }
        Ok(())
    }
}

/// Writes the pieces of a file and waits until the disk has it.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write_file(path: &Path, pieces: &[&[u8]]) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let mut file = File::create(path)?;
        pieces.iter().try_for_each(|piece| file.write_all(piece))?;
        file.sync_all()
    };
    write().map_err(|source| Error::io("write", path, source))
}

/// Replaces a file by one rename, so that a reader sees the old content or the new, never a mixture.
///
/// # Errors
/// When the folder cannot be written.
pub(crate) fn replace_file(path: &Path, pieces: &[&[u8]]) -> Result<(), Error> {
    let aside = path.with_extension("new");
    write_file(&aside, pieces)?;
    fs::rename(&aside, path).map_err(|source| Error::io("replace", path, source))
}

#[allow(unsafe_code, reason = "a map is unsafe because others can change the file below it")]
fn map(file: &File, start: usize, length: usize) -> io::Result<Mmap> {
    // SAFETY: the files of an index are written before anybody is told of them and never again, only removed or
    // replaced as a whole, which leaves a map intact. Somebody who truncates one by hand gets a bus error, as with any map.
    unsafe { MmapOptions::new().offset(start as u64).len(length).map(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers");
        Column::write(&path, &[1_u64, 2, 3]).unwrap();
        assert_eq!(&*Column::<u64>::open(&path, 3).unwrap(), [1, 2, 3]);
        assert!(matches!(Column::<u64>::open(&path, 2), Err(Error::Corrupt { .. })));
        assert!(matches!(Column::<u64>::open(&folder.path().join("none"), 2), Err(Error::Io { .. })));
    }

    #[test]
    fn a_damaged_file_is_told_from_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let (path, inner) = (folder.path().join("a"), folder.path().join("b/c"));
        fs::create_dir(folder.path().join("b")).unwrap();
        fs::write(&path, "abc").unwrap();
        fs::write(&inner, "abc").unwrap();
        let files = StoredFile::all(folder.path()).unwrap();
        let is_whole = |path: &Path| {
            let file = files.iter().find(|file| file.path(folder.path()) == path).unwrap();
            file.check(folder.path()).is_ok()
        };
        assert!(files.len() == 2 && is_whole(&path) && is_whole(&inner));
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none");
        Column::<u32>::write(&path, &[]).unwrap();
        assert!(Column::<u32>::open(&path, 0).unwrap().is_empty());
    }
}
