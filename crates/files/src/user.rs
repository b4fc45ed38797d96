//! The user's own directories, and files there that nobody else reads.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Directory for data that can be computed again; none if the user has none.
pub fn cache_directory() -> Option<PathBuf> {
    Some(dirs::cache_dir()?.join("quarry"))
}

/// Directory for the state of this machine; none if the user has none.
pub fn state_directory() -> Option<PathBuf> {
    Some(dirs::state_dir().or_else(dirs::data_local_dir)?.join("quarry"))
}

/// Number of tries to create a directory that another process removes at the same moment.
const CREATE_TRIES: usize = 10;

/// Creates a directory and its missing parents, readable only by this user. An existing one is left unchanged.
///
/// # Errors
/// When it cannot be created.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    // If it is removed between the attempt to create it and the check that it is a directory, it looks like a file.
    for _ in 1..CREATE_TRIES {
        match builder.create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !path.exists() => {}
            result => return result,
        }
    }
    builder.create(path)
}

/// Opens a file as `options` say, and makes it readable only by this user, even if it exists.
///
/// # Errors
/// When it cannot be opened.
pub fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    let file = options.open(path)?;
    make_private(&file);
    Ok(file)
}

/// Creates an empty file, readable only by this user; an existing one is left unchanged.
///
/// # Errors
/// When it cannot be created.
pub fn create_private(path: &Path) -> io::Result<()> {
    match open_private(OpenOptions::new().write(true).create_new(true), path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}

/// Reads a file that only this user can have written and can read, such as a key.
///
/// # Errors
/// As [`read_regular`](crate::read_regular), and when the file belongs to another user, or others may read or write
/// it.
pub fn read_private(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = crate::open_regular(path)?;
    check_private(&file)?;
    crate::read_whole(file, limit)
}

#[cfg(unix)]
fn check_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;

    let found = file.metadata()?;
    let wrong = |problem: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    if found.uid() != rustix::process::geteuid().as_raw() {
        return wrong(format!("expected a file of this user, found one of the user {}", found.uid()));
    }
    match found.mode() & 0o777 {
        mode if mode & 0o077 != 0 => {
            wrong(format!("expected a file that only this user can read, found the mode {mode:04o}"))
        }
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn check_private(_: &File) -> io::Result<()> {
    Ok(())
}

/// Revokes the permissions of other users on a file. Missing permissions are ignored.
#[cfg(unix)]
fn make_private(file: &File) {
    use std::os::unix::fs::PermissionsExt;

    let Ok(found) = file.metadata() else { return };
    if found.is_file() && found.permissions().mode() & 0o077 != 0 {
        let _ = file.set_permissions(std::fs::Permissions::from_mode(0o600));
    }
}

#[cfg(not(unix))]
fn make_private(_: &File) {}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn created_files_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("a/b");
        create_private_directory(&inner).unwrap();
        create_private_directory(&inner).unwrap();
        assert_eq!((mode(&inner), mode(&directory.path().join("a"))), (0o700, 0o700));
        let file = inner.join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        open_private(OpenOptions::new().append(true), &file).unwrap();
        assert_eq!(mode(&file), 0o600, "made when others could read it");
        let new = inner.join("new");
        open_private(OpenOptions::new().append(true).create(true), &new).unwrap();
        assert_eq!(mode(&new), 0o600);
        fs::set_permissions(&new, fs::Permissions::from_mode(0o640)).unwrap();
        create_private(&new).unwrap();
        create_private(&inner.join("other")).unwrap();
        assert_eq!(
            (mode(&new), mode(&inner.join("other"))),
            (0o640, 0o600),
            "the mode of an existing directory is the user's choice"
        );
    }

    #[test]
    fn a_key_that_others_can_have_written_or_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("key");
        create_private(&key).unwrap();
        fs::write(&key, "abc").unwrap();
        assert_eq!(read_private(&key, 3).unwrap(), b"abc");
        assert!(read_private(&key, 2).is_err());
        for wrong in [0o640, 0o604, 0o620, 0o602, 0o666] {
            fs::set_permissions(&key, fs::Permissions::from_mode(wrong)).unwrap();
            let error = read_private(&key, 3).unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong:04o}")), "{error}");
        }
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        // Only the superuser can give files away.
        let other = rustix::fs::Uid::from_raw(12_345);
        if rustix::fs::chown(&key, Some(other), None).is_ok() {
            let error = read_private(&key, 3).unwrap_err().to_string();
            assert!(error.contains("one of the user 12345"), "{error}");
        }
    }
}
