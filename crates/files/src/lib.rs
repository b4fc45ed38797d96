//! Opens files in untrusted directories, and creates files that nobody else may read.
//!
//! A source tree may be untrusted: a name in it may be a link to a file of the user's, a pipe that nobody writes to,
//! or an endless device. [`Directory`] opens, creates, renames and removes entries below a directory without following
//! any link there. [`open_regular`] opens a path that the user named, links included. Both open regular files only, and
//! [`read_whole`] and [`read_start`] read them within a limit.
//!
//! Files are created with mode 0600 and directories with mode 0700, for this user only, unless [`Readers`] says
//! otherwise.

pub mod cache;
mod decoding;
mod directory;
mod hash;
mod member;
mod outputs;
mod portable;
#[cfg(unix)]
mod unix;
mod user;
mod whole;

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read};
use std::path::Path;
use std::string::FromUtf8Error;

use same_file::Handle;

pub use decoding::without_panic;
pub use directory::{Directory, Entry, EntryKind, Readers};
pub use hash::{digest, hash_of, hexadecimal, sha256, sha256_of};
pub use member::member;
pub use outputs::{OUTPUTS, Outputs, output};
pub use user::{
    cache_directory, create_private, create_private_directory, open_private, read_private, state_directory,
};
pub use whole::{Replacement, replace};

/// Opens a regular file for reading. Links are followed: the path is one that the user named.
///
/// # Errors
/// When it cannot be opened, or is not a regular file; the message names what it is.
pub fn open_regular(path: &Path) -> io::Result<File> {
    check_regular(&fs::metadata(path)?)?;
    let mut options = File::options();
    options.read(true);
    // Non-blocking: the file may have become a pipe, which would block.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    let file = options.open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Takes the lock of a file unless another process has it; returns whether it was taken. The system releases it when the
/// process ends, however it ends.
///
/// # Errors
/// When the file cannot be locked.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns whether two open files are the same: the file of a name may have been replaced.
///
/// # Errors
/// When the metadata of one cannot be read.
pub fn is_same_file(one: &File, other: &File) -> io::Result<bool> {
    Ok(Handle::from_file(one.try_clone()?)? == Handle::from_file(other.try_clone()?)?)
}

/// Identity of the file at a path among all that exist at the same time, and its number of names. The file is not
/// opened: closing it would release the locks that this process holds on it. On systems without inodes, all files seem
/// the same.
///
/// # Errors
/// When there is none, or its metadata cannot be read.
pub fn identity(path: &Path) -> io::Result<(FileIdentity, u64)> {
    let found = fs::metadata(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        Ok((FileIdentity(found.dev(), found.ino()), found.nlink()))
    }
    #[cfg(not(unix))]
    {
        drop(found);
        Ok((FileIdentity(0, 0), 1))
    }
}

/// See [`identity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity(u64, u64);

/// Reads a regular file at a path that the user named.
///
/// # Errors
/// As [`open_regular`] and [`read_whole`].
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_whole(open_regular(path)?, limit)
}

/// The text of a regular file at a path that the user named.
///
/// # Errors
/// As [`read_regular`], and when it is not UTF-8.
pub fn read_regular_text(path: &Path, limit: u64) -> io::Result<String> {
    text(read_regular(path, limit)?)
}

/// Bytes as text.
///
/// # Errors
/// When they are not UTF-8, with the line of the first invalid byte.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("line {} is not valid UTF-8", invalid_line(&error)),
        )
    })
}

/// The 1-based line of the first byte that is not UTF-8.
pub fn invalid_line(error: &FromUtf8Error) -> usize {
    line_of(error.as_bytes(), error.utf8_error().valid_up_to())
}

/// The 1-based line of a byte; the last line for a position beyond the end.
pub fn line_of(text: &[u8], position: usize) -> usize {
    let before = &text[..position.min(text.len())];
    before.iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Reads all of a file.
///
/// # Errors
/// When it cannot be read, or is longer than `limit` bytes.
pub fn read_whole(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {limit} bytes"));
    if file.metadata()?.len() > limit {
        return Err(too_long());
    }
    let bytes = read_start(file, limit.saturating_add(1))?;
    if bytes.len() as u64 > limit { Err(too_long()) } else { Ok(bytes) }
}

/// Reads up to `limit` bytes of a file.
///
/// # Errors
/// When it cannot be read.
pub fn read_start(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    read_start_of(file, length, limit)
}

fn read_start_of(file: File, length: u64, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(length.min(limit)).unwrap_or_default());
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn check_regular(found: &Metadata) -> io::Result<()> {
    EntryKind::from_file_type(found.file_type()).check_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_within_its_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "abc").unwrap();
        assert_eq!(read_regular(&path, 3).unwrap(), b"abc");
        assert_eq!(read_regular(&path, 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_start(open_regular(&path).unwrap(), 2).unwrap(), b"ab");
        // A sparse file of a tebibyte is not read to see how long it is.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(read_regular(&path, 1 << 20).unwrap_err().to_string().contains("longer than"));
        assert_eq!(
            open_regular(directory.path()).unwrap_err().to_string(),
            "a directory, not a regular file"
        );
    }

    #[test]
    fn a_line_ends_with_its_line_feed() {
        assert_eq!([0, 1, 2, 3, 9].map(|position| line_of(b"a\nb\n", position)), [1, 1, 2, 2, 3]);
    }

    #[test]
    fn the_line_that_is_not_text_is_named() {
        assert_eq!(text(b"a\nb\n\xff".to_vec()).unwrap_err().to_string(), "line 3 is not valid UTF-8");
        assert_eq!(text("ä\n".into()).unwrap(), "ä\n");
    }

    #[test]
    #[cfg(unix)]
    fn named_links_are_followed_but_not_to_endless_files() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "abc").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        assert_eq!(read_regular(&at("link"), 9).unwrap(), b"abc");
        assert_eq!(read_regular(&at("zero"), 9).unwrap_err().to_string(), "a device, not a regular file");
        assert_eq!(read_regular(&at("pipe"), 9).unwrap_err().to_string(), "a pipe, not a regular file");
    }
}
