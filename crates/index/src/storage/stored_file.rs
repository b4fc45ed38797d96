//! Files that are written whole, and recorded to detect damage.

use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};

use quarry_files::{Directory, EntryKind, Readers};
use quarry_walk as walk;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Error;

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

/// Writes a new file from its parts and syncs it to disk.
///
/// # Errors
/// When the file cannot be written.
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
///
/// # Errors
/// When the directory cannot be written.
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
    fn a_file_is_replaced_whatever_has_its_place() {
        let (temporary, directory) = directory();
        fs::write(temporary.path().join("a"), "old").unwrap();
        fs::create_dir(temporary.path().join("a.new")).unwrap();
        replace_file(&directory, "a", &[b"ne", b"w"]).unwrap();
        assert_eq!(fs::read_to_string(temporary.path().join("a")).unwrap(), "new");
        assert_eq!(directory.names().unwrap(), ["a"]);
    }
}
