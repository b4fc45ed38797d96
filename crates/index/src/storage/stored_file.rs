//! Files that are written whole, and recorded to detect damage.
//!
//! A record has a hash of each block, so that a mapped file can be verified where it is read: a search of a large index
//! reads little of it.

use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use quarry_files::{Directory, EntryKind, Readers};
use quarry_walk as walk;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Error;
use crate::storage::map::{self, Map};

/// Bytes that are verified at once: a compromise between the number of hashes and what a search reads in vain.
const BLOCK_BYTES: usize = 64 << 10;

/// From this number of blocks on, several threads verify a file.
const MIN_PARALLEL_BLOCKS: usize = 32;

/// Suffix of the name of a file that will replace another one.
pub(crate) const ASIDE: &str = ".new";

/// Metadata and hashes of a written file, to detect damage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredFile {
    /// Path relative to the directory for which it is recorded, `/` between its parts.
    path: String,
    bytes: u64,
    modified_ns: u64,
    hashes: BlockHashes,
}

/// A hash of each block of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct BlockHashes {
    /// Random, so that nobody can construct another file with the same hashes without reading the manifest.
    seed: u64,
    #[serde(with = "hexadecimal")]
    blocks: Vec<u64>,
}

/// A mapped file whose blocks are verified before they are first read.
pub(crate) struct MappedFile {
    path: PathBuf,
    /// `None` for an empty file, which cannot be mapped.
    map: Option<Map>,
    hashes: BlockHashes,
    /// By block.
    is_verified: Box<[AtomicBool]>,
}

impl BlockHashes {
    fn compute(bytes: &[u8], seed: u64) -> Self {
        let mut hashes = Self { seed, blocks: Vec::new() };
        hashes.blocks =
            bytes.chunks(BLOCK_BYTES).enumerate().map(|(at, block)| hashes.hash(at, block)).collect();
        hashes
    }

    fn hash(&self, at: usize, block: &[u8]) -> u64 {
        xxh3_64_with_seed(block, self.seed.wrapping_add(at as u64))
    }

    fn is_of(&self, bytes: &[u8]) -> bool {
        let is_block = |(at, block): (usize, &[u8])| self.blocks.get(at) == Some(&self.hash(at, block));
        bytes.chunks(BLOCK_BYTES).len() == self.blocks.len()
            && bytes.chunks(BLOCK_BYTES).enumerate().all(is_block)
    }
}

mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(numbers: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&numbers.iter().map(|number| format!("{number:016x}")).collect::<String>())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = |digits: &[u8]| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let numbers: Option<Vec<u64>> = text.as_bytes().chunks(16).map(number).collect();
        numbers.ok_or_else(|| de::Error::custom("expected hexadecimal digits"))
    }
}

impl MappedFile {
    /// Its size.
    pub fn len(&self) -> usize {
        self.map.as_ref().map_or(0, |map| map.len())
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All bytes, of which only those that were [verified](Self::verify) are to be read.
    pub fn map(&self) -> Option<&Map> {
        self.map.as_ref()
    }

    /// Verifies the blocks that contain some bytes. Damage is [reported](map::report).
    ///
    /// # Errors
    /// When one is damaged, or the file is shorter.
    pub fn verify(&self, range: Range<usize>) -> Result<(), Error> {
        if range.is_empty() {
            return Ok(());
        }
        let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        let bytes = self.map.as_deref().unwrap_or_default();
        let is_intact = |at: usize| {
            let Some(is_verified) = self.is_verified.get(at) else { return false };
            if is_verified.load(Ordering::Relaxed) {
                return true;
            }
            let start = at * BLOCK_BYTES;
            let block = bytes.get(start..bytes.len().min(start + BLOCK_BYTES)).unwrap_or_default();
            let is_intact = self.hashes.blocks.get(at) == Some(&self.hashes.hash(at, block));
            is_verified.store(is_intact, Ordering::Relaxed);
            is_intact
        };
        let are_intact = if blocks.len() < MIN_PARALLEL_BLOCKS {
            blocks.into_iter().all(is_intact)
        } else {
            blocks.into_par_iter().all(is_intact)
        };
        if range.end <= bytes.len() && are_intact {
            return Ok(());
        }
        map::report(&self.path);
        Err(damaged(&self.path))
    }
}

fn damaged(path: &Path) -> Error {
    Error::corrupt(path, "its content differs from what was written")
}

impl StoredFile {
    /// Records a written file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn record(directory: &Directory, path: String) -> Result<Self, Error> {
        let (metadata, bytes) = read(directory, &path)?;
        let seed = RandomState::new().hash_one(&path);
        Ok(Self {
            path,
            bytes: bytes.len() as u64,
            modified_ns: walk::modified_ns(&metadata),
            hashes: BlockHashes::compute(&bytes, seed),
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
                    _ => files.push(Self::record(directory, path)?),
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
        let bytes = self.read(from)?;
        match self.path.rsplit_once('/') {
            Some((inner, name)) => {
                let made = to.directory_or_new(inner.as_ref());
                let made = made.map_err(|source| Error::io("create", &to.path().join(inner), source))?;
                write_file(&made, name, &[&bytes])?;
            }
            None => write_file(to, &self.path, &[&bytes])?,
        }
        Self::record(to, self.path.clone())
    }

    /// The same file, relative to the directory that it is directly in.
    pub fn in_directory(&self) -> Self {
        let name = self.path.rsplit_once('/').map_or(&*self.path, |(_, name)| name);
        Self { path: name.to_owned(), ..self.clone() }
    }

    /// Path relative to the directory.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checks its length, and its content if that is certain to have been written since: its modification time differs,
    /// as that of a copy does. What is unchanged by that is verified where it is [mapped](Self::map).
    ///
    /// # Errors
    /// When it is damaged.
    pub fn check(&self, directory: &Directory) -> Result<(), Error> {
        let file = self.open(directory)?;
        let metadata =
            file.metadata().map_err(|source| Error::io("read", &self.path_in(directory), source))?;
        if walk::modified_ns(&metadata) == self.modified_ns {
            Ok(())
        } else {
            self.verify_content(file, directory)
        }
    }

    /// Checks all of its content.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn verify(&self, directory: &Directory) -> Result<(), Error> {
        self.verify_content(self.open(directory)?, directory)
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn read(&self, directory: &Directory) -> Result<Vec<u8>, Error> {
        self.content(self.open(directory)?, directory)
    }

    /// Maps it.
    ///
    /// # Errors
    /// When it cannot be read, or has another length.
    pub fn map(&self, directory: &Directory) -> Result<MappedFile, Error> {
        let (file, path) = (self.open(directory)?, self.path_in(directory));
        let failed = |source| Error::io("map", &path, source);
        let length = usize::try_from(self.bytes).map_err(|error| failed(io::Error::other(error)))?;
        let map = if length == 0 { None } else { Some(Map::new(&file, &path, length).map_err(failed)?) };
        let is_verified = self.hashes.blocks.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(MappedFile { path, map, hashes: self.hashes.clone(), is_verified })
    }

    fn path_in(&self, directory: &Directory) -> PathBuf {
        directory.path().join(&self.path)
    }

    /// Opens it, and checks its length.
    fn open(&self, directory: &Directory) -> Result<File, Error> {
        let failed = |source| Error::io("read", &self.path_in(directory), source);
        let file = directory.file(self.path.as_ref()).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        if bytes == self.bytes {
            return Ok(file);
        }
        Err(Error::corrupt(&self.path_in(directory), format!("expected {} bytes, found {bytes}", self.bytes)))
    }

    fn verify_content(&self, file: File, directory: &Directory) -> Result<(), Error> {
        self.content(file, directory).map(drop)
    }

    fn content(&self, file: File, directory: &Directory) -> Result<Vec<u8>, Error> {
        let path = self.path_in(directory);
        let bytes = quarry_files::read_whole(file, self.bytes);
        let bytes = bytes.map_err(|source| Error::io("read", &path, source))?;
        if self.hashes.is_of(&bytes) { Ok(bytes) } else { Err(damaged(&path)) }
    }
}

fn read(directory: &Directory, path: &str) -> Result<(Metadata, Vec<u8>), Error> {
    let read = || {
        let file = directory.file(path.as_ref())?;
        Ok((file.metadata()?, quarry_files::read_start(file, u64::MAX)?))
    };
    read().map_err(|source| Error::io("read", &directory.path().join(path), source))
}

/// Writes a new file from its parts and syncs it to disk.
pub(crate) fn write_file(directory: &Directory, name: &str, parts: &[&[u8]]) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let mut file = directory.create_file(name.as_ref())?;
        write_parts(&mut file, parts)?;
        file.sync_all()
    };
    write().map_err(|source| Error::io("write", &directory.path().join(name), source))
}

fn write_parts(file: &mut File, parts: &[&[u8]]) -> io::Result<()> {
    parts.iter().try_for_each(|part| file.write_all(part))
}

/// Replaces a file, as [`Directory::replace`] does, also where something has the name of the new one.
pub(crate) fn replace_file(directory: &Directory, name: &str, parts: &[&[u8]]) -> Result<(), Error> {
    let aside = format!("{name}{ASIDE}");
    match directory.remove_all(aside.as_ref()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove", &directory.path().join(aside), error));
        }
        _ => {}
    }
    let replaced = directory.replace(name, &aside, Readers::User, |file| write_parts(file, parts));
    replaced.map_err(|source| Error::io("replace", &directory.path().join(name), source))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn directory() -> (tempfile::TempDir, Directory) {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(temporary.path()).unwrap();
        (temporary, directory)
    }

    #[test]
    fn a_damaged_file_is_distinguished_from_a_copy() {
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
        assert_ne!(files[0].hashes, files[1].hashes, "of the same bytes");
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
    fn a_mapped_file_is_verified_where_it_is_read() {
        let (temporary, directory) = directory();
        let path = temporary.path().join("a");
        let bytes: Vec<u8> = (0..5 * BLOCK_BYTES / 2).map(|at| (at / 7) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let stored = StoredFile::record(&directory, "a".to_owned()).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let stored: StoredFile = serde_json::from_str(&serde_json::to_string(&stored).unwrap()).unwrap();
        let mut damaged = bytes.clone();
        damaged[3 * BLOCK_BYTES / 2] ^= 4;
        // Two blocks of the same content, swapped.
        let swapped =
            [&bytes[BLOCK_BYTES..2 * BLOCK_BYTES], &bytes[..BLOCK_BYTES], &bytes[2 * BLOCK_BYTES..]].concat();
        for (content, expected) in
            [(&bytes, [true; 3]), (&damaged, [true, false, true]), (&swapped, [false, false, true])]
        {
            fs::write(&path, content).unwrap();
            File::options().append(true).open(&path).unwrap().set_modified(modified).unwrap();
            // As rot would have it: length and time are the same.
            stored.check(&directory).unwrap();
            assert_eq!(stored.verify(&directory).is_ok(), expected == [true; 3]);
            let mapped = stored.map(&directory).unwrap();
            for (block, expected) in expected.into_iter().enumerate() {
                let start = block * BLOCK_BYTES;
                assert_eq!(mapped.verify(start..start + 9).is_ok(), expected, "block {block}");
                assert!(mapped.verify(start..start).is_ok());
            }
            assert_eq!(mapped.verify(0..bytes.len()).is_ok(), expected == [true; 3]);
            assert!(mapped.verify(0..bytes.len() + 1).is_err());
            assert!(map::is_suspect(temporary.path()));
        }
        map::clear(temporary.path());
        assert!(!map::is_suspect(temporary.path()));
    }

    #[test]
    fn a_file_is_replaced_regardless_of_what_is_there() {
        let (temporary, directory) = directory();
        fs::write(temporary.path().join("a"), "old").unwrap();
        fs::create_dir(temporary.path().join("a.new")).unwrap();
        replace_file(&directory, "a", &[b"ne", b"w"]).unwrap();
        assert_eq!(fs::read_to_string(temporary.path().join("a")).unwrap(), "new");
        assert_eq!(directory.names().unwrap(), ["a"]);
    }
}
