//! Locks between processes: one of them runs the nightly jobs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A file that exists while somebody works.
pub struct FileLock {
    path: PathBuf,
}

impl FileLock {
    /// Waits until nobody else holds the lock, for at most `patience`.
    pub fn wait_for_lock(path: &Path, patience: Duration) -> io::Result<Self> {
        let start = Instant::now();
        loop {
            match Self::try_lock(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && start.elapsed() < patience => {
                    thread::sleep(Duration::from_millis(50));
                }
                outcome => return outcome,
            }
        }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        write!(file, "{}", std::process::id())?;
        Ok(Self { path: path.to_owned() })
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.path);
    }
}
