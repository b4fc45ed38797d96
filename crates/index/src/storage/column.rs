//! Arrays of fixed-size records in files that are mapped, not read.
//!
//! Records are in the machine's own byte order: an index is a cache of one machine.

use std::fs::File;
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::Path;

use bytemuck::{AnyBitPattern, NoUninit};
use quarry_files::Directory;

use crate::Error;
use crate::storage::map::Map;
use crate::storage::stored_file::write_file;

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

#[cfg(test)]
mod tests {
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
    fn no_records_need_no_map() {
        let (_temporary, directory) = directory();
        Column::<u32>::write(&directory, "none", &[]).unwrap();
        assert!(Column::<u32>::open(&directory, "none", 0).unwrap().is_empty());
    }
}
