//! Sets of packages in the cache.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::PackageError;
use crate::Error;
use crate::semaphore::POLL_INTERVAL;

/// The directory of a set that programs see, and its description.
pub(super) const PACKAGES: &str = "packages";
pub(super) const MANIFEST: &str = "manifest.json";

/// The description that is kept beside a set.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) requirements: Vec<String>,
    /// Name, version.
    pub(super) packages: Vec<(String, String)>,
}

/// Reads the description of a set; `None` if the set is not in the cache.
pub(super) fn read_manifest(directory: &Path) -> Result<Option<Manifest>, Error> {
    let path = directory.join(MANIFEST);
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| Error::File {
            path,
            action: "parse it (remove its directory)",
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
            Err(TryLockError::WouldBlock) => std::thread::sleep(POLL_INTERVAL),
            Err(TryLockError::Error(error)) => return Err(Error::file("lock", path)(error).into()),
        }
    }
    Err(PackageError::Stopped)
}

pub(super) fn remove(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", directory)(error)),
        _ => Ok(()),
    }
}

/// Moves a finished directory to its final path, where it appears whole or not at all, even after a power failure.
pub(super) fn publish(ready: &Path, directory: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(ready)?)?;
    fs::rename(ready, directory)?;
    match directory.parent() {
        Some(around) => File::open(around)?.sync_all(),
        None => Ok(()),
    }
}
