//! A file that is not whole yet.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use quarry_files::{hash_of, hexadecimal, try_lock};
use same_file::Handle;
use sha2::{Digest, Sha256};
use url::Url;

use crate::DownloadError;

/// `NAME.part` and `NAME.part.from`, locked.
pub(crate) struct Part {
    path: PathBuf,
    /// Records the origin: the address, and on the second line the version.
    origin_path: PathBuf,
    origin: String,
    file: File,
    length: u64,
    hash: Sha256,
    version: Option<String>,
}

impl Part {
    /// Opens the partial download of a file if it comes from the same address; creates one if there is none. `None` where
    /// another process has just made the file whole.
    pub(crate) fn open(target: &Path, url: &Url) -> Result<Option<Self>, DownloadError> {
        let beside = |ending: &str| {
            let mut name = OsString::from(target.file_name().unwrap_or_default());
            name.push(ending);
            target.with_file_name(name)
        };
        let (path, origin_path) = (beside(".part"), beside(".part.from"));
        let error = |source| DownloadError::Write { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = loop {
            let file = options.open(&path).map_err(error)?;
            if !try_lock(&file).map_err(error)? {
                return Err(DownloadError::Busy { path: target.to_owned() });
            }
            // The previous holder of the lock may have renamed or removed the file.
            if target.symlink_metadata().is_ok() {
                // No other process needs a file that was created just now.
                let _ = fs::remove_file(&path);
                return Ok(None);
            }
            let own = file.try_clone().and_then(Handle::from_file).map_err(error)?;
            if Handle::from_path(&path).is_ok_and(|there| there == own) {
                break file;
            }
        };
        let known = fs::read_to_string(&origin_path).unwrap_or_default();
        let mut lines = known.lines();
        let is_same = lines.next() == Some(url.as_str());
        let version = lines.next().map(str::to_owned);
        let (length, hash) = if is_same { hash_of(&file).map_err(error)? } else { (0, Sha256::new()) };
        let origin = url.to_string();
        let mut part = Self { path, origin_path, origin, file, length, hash, version };
        if !is_same {
            part.restart(None)?;
        }
        Ok(Some(part))
    }

    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Hash of the bytes so far.
    pub(crate) fn sha256(&self) -> String {
        hexadecimal(&self.hash.clone().finalize())
    }

    /// Discards the bytes so far; those that follow are of this version.
    pub(crate) fn restart(&mut self, version: Option<String>) -> Result<(), DownloadError> {
        // Shortened first: bytes of another version must never stand under this one's name.
        self.file.set_len(0).or_else(ignore_devices).map_err(|source| self.error(source))?;
        self.file.rewind().map_err(|source| self.error(source))?;
        (self.length, self.hash, self.version) = (0, Sha256::new(), version);
        let text = format!("{}\n{}\n", self.origin, self.version.as_deref().unwrap_or_default());
        let text = text.trim_end_matches("\n\n").to_owned();
        fs::write(&self.origin_path, text)
            .map_err(|source| DownloadError::Write { path: self.origin_path.clone(), source })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), DownloadError> {
        self.file.write_all(bytes).map_err(|source| self.error(source))?;
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Gives the file its name.
    pub(crate) fn publish(self, target: &Path) -> Result<(), DownloadError> {
        self.file.sync_all().map_err(|source| self.error(source))?;
        fs::rename(&self.path, target).map_err(|source| self.error(source))?;
        fs::remove_file(&self.origin_path).map_err(|source| self.error(source))
    }

    pub(crate) fn discard(self) -> Result<(), DownloadError> {
        fs::remove_file(&self.path).map_err(|source| self.error(source))?;
        fs::remove_file(&self.origin_path).map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> DownloadError {
        DownloadError::Write { path: self.path.clone(), source }
    }
}

/// A device has no length to set.
fn ignore_devices(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::InvalidInput { Ok(()) } else { Err(error) }
}
