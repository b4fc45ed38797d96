//! Arrays of fixed-size records in files that are mapped, not read.
//!
//! Records are in the machine's own byte order: an index is a cache of one machine.

use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit};
use quarry_files::Directory;

use crate::Error;
use crate::storage::map::Map;
use crate::storage::stored_file::{MappedFile, StoredFile, write_file};

/// An array of records, in memory or in a mapped file that was verified.
pub(crate) struct Column<T>(Backing<T>);

enum Backing<T> {
    Owned(Vec<T>),
    /// A range of the bytes of a map.
    Mapped(Map, Range<usize>, PhantomData<T>),
}

/// An array of records, in memory or in a mapped file that is verified where it is read.
pub(crate) struct LazyColumn<T>(LazyBacking<T>);

enum LazyBacking<T> {
    Owned(Vec<T>),
    Mapped { file: Arc<MappedFile>, bytes: Range<usize> },
}

/// The bytes of `n` records at byte `start` of a file.
///
/// # Errors
/// When the file does not contain them.
fn range_of<T: AnyBitPattern>(file: &MappedFile, start: usize, n: usize) -> Result<Range<usize>, Error> {
    let end = n.checked_mul(size_of::<T>()).and_then(|length| start.checked_add(length));
    let range = start..end.filter(|end| *end <= file.len()).ok_or_else(|| unlike::<T>(file, n))?;
    if n == 0 {
        return Ok(range);
    }
    let bytes = file.map().and_then(|map| map.get(range.clone())).unwrap_or_default();
    match bytemuck::try_cast_slice::<u8, T>(bytes) {
        Ok(_) => Ok(range),
        Err(error) => Err(Error::corrupt(file.path(), error.to_string())),
    }
}

impl<T: AnyBitPattern + NoUninit> Column<T> {
    /// Maps and verifies a file of records.
    ///
    /// # Errors
    /// When it is damaged or does not contain exactly `expected` records.
    pub fn open(directory: &Directory, file: &StoredFile, expected: usize) -> Result<Self, Error> {
        let file = file.map(directory)?;
        let column = Self::part_of(&file, 0, expected)?;
        if file.len() == expected * size_of::<T>() { Ok(column) } else { Err(unlike::<T>(&file, expected)) }
    }

    /// Verifies `expected` records starting at byte `start` of a file.
    ///
    /// # Errors
    /// When they are damaged, or the file does not contain them.
    pub fn part_of(file: &MappedFile, start: usize, expected: usize) -> Result<Self, Error> {
        let bytes = range_of::<T>(file, start, expected)?;
        file.verify(bytes.clone())?;
        let mapped = file.map().map(|map| Backing::Mapped(map.clone(), bytes, PhantomData));
        Ok(Self(mapped.unwrap_or_else(|| Backing::Owned(Vec::new()))))
    }

    /// Writes records to a new file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(directory: &Directory, name: &str, records: &[T]) -> Result<(), Error> {
        write_file(directory, name, &[bytemuck::cast_slice(records)])
    }
}

impl<T: AnyBitPattern> LazyColumn<T> {
    /// Maps a file of records.
    ///
    /// # Errors
    /// When it does not contain exactly `expected` records.
    pub fn open(directory: &Directory, file: &StoredFile, expected: usize) -> Result<Self, Error> {
        let file = Arc::new(file.map(directory)?);
        let column = Self::part_of(&file, 0, expected)?;
        if file.len() == expected * size_of::<T>() { Ok(column) } else { Err(unlike::<T>(&file, expected)) }
    }

    /// `expected` records starting at byte `start` of a file.
    ///
    /// # Errors
    /// When the file does not contain them.
    pub fn part_of(file: &Arc<MappedFile>, start: usize, expected: usize) -> Result<Self, Error> {
        let bytes = range_of::<T>(file, start, expected)?;
        Ok(Self(LazyBacking::Mapped { file: Arc::clone(file), bytes }))
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        match &self.0 {
            LazyBacking::Owned(records) => records.len(),
            LazyBacking::Mapped { bytes, .. } => bytes.len() / size_of::<T>(),
        }
    }

    /// A range of records; `None` if it is out of bounds, or damaged, which is reported.
    pub fn get(&self, range: Range<usize>) -> Option<&[T]> {
        match &self.0 {
            LazyBacking::Owned(records) => records.get(range),
            LazyBacking::Mapped { file, bytes } => {
                if range.start > range.end || range.end > self.len() {
                    return None;
                }
                if range.is_empty() {
                    return Some(&[]);
                }
                let at = |record: usize| bytes.start + record * size_of::<T>();
                let range = at(range.start)..at(range.end);
                file.verify(range.clone()).ok()?;
                bytemuck::try_cast_slice(file.map()?.get(range)?).ok()
            }
        }
    }
}

fn unlike<T>(file: &MappedFile, expected: usize) -> Error {
    let (size, found) = (size_of::<T>(), file.len());
    Error::corrupt(file.path(), format!("expected {expected} records of {size} bytes, found {found} bytes"))
}

impl<T> From<Vec<T>> for Column<T> {
    fn from(records: Vec<T>) -> Self {
        Self(Backing::Owned(records))
    }
}

impl<T> From<Vec<T>> for LazyColumn<T> {
    fn from(records: Vec<T>) -> Self {
        Self(LazyBacking::Owned(records))
    }
}

impl<T: AnyBitPattern> Deref for Column<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Backing::Owned(records) => records,
            // `part_of` has checked this cast; the map does not move.
            Backing::Mapped(map, bytes, _) => map
                .get(bytes.clone())
                .and_then(|bytes| bytemuck::try_cast_slice(bytes).ok())
                .unwrap_or_default(),
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
        let file = StoredFile::record(&directory, "numbers".to_owned()).unwrap();
        assert_eq!(&*Column::<u64>::open(&directory, &file, 3).unwrap(), [1, 2, 3]);
        for n in [2, 4] {
            assert!(matches!(Column::<u64>::open(&directory, &file, n), Err(Error::Corrupt { .. })));
            assert!(matches!(LazyColumn::<u64>::open(&directory, &file, n), Err(Error::Corrupt { .. })));
        }
        let mapped = LazyColumn::<u64>::open(&directory, &file, 3).unwrap();
        for column in [mapped, vec![1, 2, 3].into()] {
            assert_eq!((column.len(), column.get(1..3)), (3, Some(&[2, 3][..])));
            assert_eq!((column.get(3..3), column.get(2..4)), (Some(&[][..]), None));
        }
        directory.remove_file("numbers".as_ref()).unwrap();
        assert!(matches!(Column::<u64>::open(&directory, &file, 3), Err(Error::Io { .. })));
    }

    #[test]
    fn no_records_need_no_map() {
        let (_temporary, directory) = directory();
        Column::<u128>::write(&directory, "none", &[]).unwrap();
        let file = StoredFile::record(&directory, "none".to_owned()).unwrap();
        assert!(Column::<u128>::open(&directory, &file, 0).unwrap().is_empty());
        assert_eq!(LazyColumn::<u128>::open(&directory, &file, 0).unwrap().get(0..0), Some(&[][..]));
    }
}
