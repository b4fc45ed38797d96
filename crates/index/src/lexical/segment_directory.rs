//! The directory of a tantivy segment, whose files are opened without following links, and verified where they are read.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_files::Directory;
use tantivy::HasLen;
use tantivy::directory::error::{DeleteError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, FileHandle, OwnedBytes, TerminatingWrite, WatchCallback, WatchHandle, WritePtr,
};

use crate::Error;
use crate::storage::stored_file::{MappedFile, StoredFile, replace_file};

/// Maximum size in bytes of a file that is read while it is being written: segment metadata.
const MAX_READ_BYTES: u64 = 16 << 20;

/// An implementation of tantivy's `Directory`. tantivy's own follows links.
#[derive(Clone, Debug)]
pub(super) struct SegmentDirectory {
    directory: Directory,
    /// Its files, by name, once they are written.
    files: Option<Arc<HashMap<PathBuf, StoredFile>>>,
}

impl SegmentDirectory {
    /// An empty directory, to be written.
    pub fn new(directory: Directory) -> Self {
        Self { directory, files: None }
    }

    /// A directory with these files, in the directory of a part.
    pub fn stored<'a>(directory: Directory, files: impl Iterator<Item = &'a StoredFile>) -> Self {
        let files = files.filter_map(|file| {
            let (_, name) = file.path().rsplit_once('/')?;
            Some((PathBuf::from(name), file.in_directory()))
        });
        Self { directory, files: Some(Arc::new(files.collect())) }
    }

    fn file(&self, path: &Path) -> Result<Option<&StoredFile>, OpenReadError> {
        let missing = || OpenReadError::FileDoesNotExist(path.to_owned());
        self.files.as_ref().map(|files| files.get(path).ok_or_else(missing)).transpose()
    }
}

/// A file whose blocks are verified before they are first read.
struct Verified {
    file: MappedFile,
    bytes: OwnedBytes,
}

impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.path().fmt(f)
    }
}

impl HasLen for Verified {
    fn len(&self) -> usize {
        self.file.len()
    }
}

impl FileHandle for Verified {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        self.file.verify(range.clone()).map_err(io::Error::other)?;
        Ok(self.bytes.slice(range))
    }
}

impl tantivy::Directory for SegmentDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let Some(stored) = self.file(path)? else {
            let bytes = self.directory.read(path, u64::MAX).map_err(|error| unreadable(error, path))?;
            return Ok(Arc::new(OwnedBytes::new(bytes)));
        };
        let file = stored.map(&self.directory).map_err(|error| unreadable(into_io_error(error), path))?;
        let bytes = file.map().map_or_else(OwnedBytes::empty, |map| OwnedBytes::new(map.clone()));
        Ok(Arc::new(Verified { file, bytes }))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.directory.remove_file(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DeleteError::FileDoesNotExist(path.to_owned()),
            _ => DeleteError::IoError { io_error: Arc::new(error), filepath: path.to_owned() },
        })
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        match self.directory.entry(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            found => {
                found.map(|_| true).map_err(|error| OpenReadError::wrap_io_error(error, path.to_owned()))
            }
        }
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let file = self.directory.create_file(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => OpenWriteError::FileAlreadyExists(path.to_owned()),
            _ => OpenWriteError::wrap_io_error(error, path.to_owned()),
        })?;
        Ok(BufWriter::new(Box::new(SyncedFile(file))))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        let bytes = match self.file(path)? {
            Some(stored) => stored.read(&self.directory).map_err(into_io_error),
            None => self.directory.read(path, MAX_READ_BYTES),
        };
        bytes.map_err(|error| unreadable(error, path))
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        let name = path.to_str().ok_or(io::ErrorKind::InvalidInput)?;
        replace_file(&self.directory, name, &[data]).map_err(into_io_error)
    }

    /// The manifest names the directory only after its files are on disk, and a missing part is detected.
    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}

/// A file that is synced to disk when it is finished.
struct SyncedFile(File);

impl Write for SyncedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl TerminatingWrite for SyncedFile {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        self.0.sync_data()
    }
}

fn into_io_error(error: Error) -> io::Error {
    match error {
        Error::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}

fn unreadable(error: io::Error, path: &Path) -> OpenReadError {
    let path = PathBuf::from(path);
    match error.kind() {
        io::ErrorKind::NotFound => OpenReadError::FileDoesNotExist(path),
        _ => OpenReadError::wrap_io_error(error, path),
    }
}
