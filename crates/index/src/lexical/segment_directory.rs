//! The directory of a tantivy segment, whose files are opened without following links.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_files::Directory;
use tantivy::directory::error::{DeleteError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, FileHandle, OwnedBytes, TerminatingWrite, WatchCallback, WatchHandle, WritePtr,
};

use crate::Error;
use crate::storage::map::Map;
use crate::storage::stored_file::replace_file;

/// Maximum size in bytes of a file that is read rather than mapped: segment metadata.
const MAX_READ_BYTES: u64 = 16 << 20;

/// An implementation of tantivy's `Directory`. tantivy's own follows links.
#[derive(Clone, Debug)]
pub(super) struct SegmentDirectory(pub Directory);

impl tantivy::Directory for SegmentDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let map = self.0.file(path).and_then(|file| {
            let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
            Map::new(&file, &self.0.path().join(path), 0, length)
        });
        Ok(Arc::new(OwnedBytes::new(map.map_err(|error| unreadable(error, path))?)))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.0.remove_file(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DeleteError::FileDoesNotExist(path.to_owned()),
            _ => DeleteError::IoError { io_error: Arc::new(error), filepath: path.to_owned() },
        })
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        match self.0.entry(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            found => {
                found.map(|_| true).map_err(|error| OpenReadError::wrap_io_error(error, path.to_owned()))
            }
        }
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let file = self.0.create_file(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => OpenWriteError::FileAlreadyExists(path.to_owned()),
            _ => OpenWriteError::wrap_io_error(error, path.to_owned()),
        })?;
        Ok(BufWriter::new(Box::new(SyncedFile(file))))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.0.read(path, MAX_READ_BYTES).map_err(|error| unreadable(error, path))
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        let name = path.to_str().ok_or(io::ErrorKind::InvalidInput)?;
        replace_file(&self.0, name, &[data]).map_err(|error| match error {
            Error::Io { source, .. } => source,
            other => io::Error::other(other),
        })
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

fn unreadable(error: io::Error, path: &Path) -> OpenReadError {
    let path = PathBuf::from(path);
    match error.kind() {
        io::ErrorKind::NotFound => OpenReadError::FileDoesNotExist(path),
        _ => OpenReadError::wrap_io_error(error, path),
    }
}
