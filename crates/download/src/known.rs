//! Files whose content is known before: verified where they are, or while they are copied or unpacked.
//!
//! Of an archive only these files are written, to paths that are known as well, so that it cannot choose what is
//! written where, or how much.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use quarry_files::{hexadecimal, open_regular, sha256_of};
use sha2::{Digest, Sha256};
use tar::{Archive, EntryType};

use crate::Failure;

/// Maximum number of bytes of an unpacked archive besides its files: headers, and padding.
const MAX_OVERHEAD: u64 = 1 << 20;

/// Maximum number of characters of a path in an archive that are shown.
const SHOWN_CHARS: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownFile<'a> {
    /// Its path below the directory: names joined by `/`.
    pub path: &'a str,
    pub size: u64,
    /// The SHA-256 hash of its content, as 64 digits in lower case.
    pub sha256: &'a str,
}

#[derive(Debug, thiserror::Error)]
pub enum KnownFileError {
    #[error("{}: cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {failure}")]
    Other {
        path: String,
        #[source]
        failure: Failure,
    },
    #[error("expected a gzipped tar archive, found something else")]
    NotAnArchive,
    #[error("the archive is damaged; download it again")]
    Damaged(#[source] io::Error),
    #[error("expected only the files of `{top}`, each once, found {path:?}")]
    Unexpected {
        top: String,
        /// The path of the entry, shortened.
        path: String,
    },
    #[error("expected {path} in the archive, found its end")]
    Missing { path: String },
    #[error("{}: cannot be written; check the directory, its permissions and the free space", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Maximum number of bytes of an archive of `files`, packed or not.
pub fn max_archive_size(files: &[KnownFile]) -> u64 {
    files.iter().map(|file| file.size).sum::<u64>() + MAX_OVERHEAD
}

/// Verifies the files of a directory. There may be others beside them.
///
/// # Errors
/// When a file is missing, cannot be read or has another content.
pub fn verify(directory: &Path, files: &[KnownFile]) -> Result<(), KnownFileError> {
    files.iter().try_for_each(|file| {
        let path = directory.join(file.path);
        let (size, sha256) = open_regular(&path).and_then(sha256_of).map_err(read_error(&path))?;
        file.check(size, &sha256)
    })
}

/// Copies files from one directory to another, which exists and has none of them.
///
/// # Errors
/// When a file is missing, cannot be read or written, or has another content. Those before it stay.
pub fn copy(from: &Path, files: &[KnownFile], to: &Path) -> Result<(), KnownFileError> {
    files.iter().try_for_each(|file| {
        let path = from.join(file.path);
        let opened = open_regular(&path).map_err(read_error(&path))?;
        let size = opened.metadata().map_err(read_error(&path))?.len();
        write(opened, size, file, to)
    })
}

/// Unpacks a gzipped tar archive of files below a directory `top` into a directory that exists and has none of them.
/// Directories in the archive are ignored.
///
/// # Errors
/// When it is not an archive or a damaged one, it holds something else or something twice, a file is missing or has another
/// content, or one cannot be written. Files that were written stay.
pub fn unpack(packed: impl Read, top: &str, files: &[KnownFile], to: &Path) -> Result<(), KnownFileError> {
    let mut archive = Archive::new(GzDecoder::new(packed).take(max_archive_size(files)));
    let mut missing: Vec<&KnownFile> = files.iter().collect();
    // Raw: a header with a long path would be kept in memory, however long.
    for entry in archive.entries().map_err(KnownFileError::Damaged)?.raw(true) {
        let entry = entry.map_err(|error| match error.kind() {
            // The error quotes the header, whatever is in it.
            io::ErrorKind::Other | io::ErrorKind::InvalidInput => KnownFileError::NotAnArchive,
            _ => KnownFileError::Damaged(error),
        })?;
        let kind = entry.header().entry_type();
        if kind == EntryType::Directory {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let below = path.strip_prefix(top).and_then(|below| below.strip_prefix('/'));
        let known = missing.iter().position(|file| kind == EntryType::Regular && below == Some(file.path));
        let Some(known) = known else {
            let path = path.chars().take(SHOWN_CHARS).collect();
            return Err(KnownFileError::Unexpected { top: top.to_owned(), path });
        };
        let size = entry.size();
        write(entry, size, missing.swap_remove(known), to)?;
    }
    match missing.first() {
        Some(file) => Err(KnownFileError::Missing { path: file.path.to_owned() }),
        None => Ok(()),
    }
}

/// Writes the file of which `from` has `size` bytes.
fn write(from: impl Read, size: u64, file: &KnownFile, to: &Path) -> Result<(), KnownFileError> {
    file.check_size(size)?;
    let path = to.join(file.path);
    let error = |source| KnownFileError::Write { path: path.clone(), source };
    fs::create_dir_all(path.parent().unwrap_or(to)).map_err(error)?;
    let mut target = File::create_new(&path).map_err(error)?;
    let mut from = from.take(file.size);
    let (mut size, mut hash, mut block) = (0, Sha256::new(), vec![0; 1 << 16]);
    loop {
        let n_bytes = from.read(&mut block).map_err(KnownFileError::Damaged)?;
        if n_bytes == 0 {
            break;
        }
        target.write_all(&block[..n_bytes]).map_err(error)?;
        hash.update(&block[..n_bytes]);
        size += n_bytes as u64;
    }
    target.sync_all().map_err(error)?;
    file.check(size, &hexadecimal(&hash.finalize()))
}

fn read_error(path: &Path) -> impl Fn(io::Error) -> KnownFileError {
    move |source| KnownFileError::Read { path: path.to_owned(), source }
}

impl KnownFile<'_> {
    fn check_size(&self, found: u64) -> Result<(), KnownFileError> {
        let failure = Failure::Length { expected: self.size, found };
        if found == self.size { Ok(()) } else { Err(self.other(failure)) }
    }

    fn check(&self, size: u64, sha256: &str) -> Result<(), KnownFileError> {
        self.check_size(size)?;
        let failure = Failure::Hash { expected: self.sha256.to_owned(), found: sha256.to_owned() };
        if sha256 == self.sha256 { Ok(()) } else { Err(self.other(failure)) }
    }

    fn other(&self, failure: Failure) -> KnownFileError {
        KnownFileError::Other { path: self.path.to_owned(), failure }
    }
}
