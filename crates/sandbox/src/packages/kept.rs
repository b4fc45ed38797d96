//! Sets of packages as they are kept.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::PackageError;
use crate::Error;
use crate::places::PATIENCE;

/// The folder of a set that programs see, and what tells of it.
pub(super) const PACKAGES: &str = "packages";
pub(super) const MANIFEST: &str = "manifest.json";

/// What is kept beside a set.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) requirements: Vec<String>,
    /// Name, version.
    pub(super) packages: Vec<(String, String)>,
}

/// What is known of a set that is kept.
pub(super) fn read_manifest(folder: &Path) -> Result<Option<Manifest>, Error> {
    let path = folder.join(MANIFEST);
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| Error::File {
            path,
            action: "make sense of it (remove its folder)",
            source: error.into(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", &path)(error)),
    }
}

/// Waits for the lock of a set. The system gives it back when its holder ends, however that ends.
pub(super) fn lock(path: &Path, stop: &AtomicBool) -> Result<File, PackageError> {
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(Error::file("write", path))?;
    while !stop.load(Ordering::SeqCst) {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PATIENCE),
            Err(TryLockError::Error(error)) => return Err(Error::file("lock", path)(error).into()),
        }
    }
    Err(PackageError::Stopped)
}

pub(super) fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", folder)(error)),
        _ => Ok(()),
    }
}

/// Puts a finished folder in its place, which it has whole or not at all, also after the machine has stopped.
pub(super) fn publish(ready: &Path, folder: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(ready)?)?;
    fs::rename(ready, folder)?;
    match folder.parent() {
        Some(around) => File::open(around)?.sync_all(),
        None => Ok(()),
    }
}
