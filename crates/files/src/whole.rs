//! Files that are replaced whole.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::Readers;

/// A file that replaces the one at its path when it is finished. Dropped before that, it changes nothing.
#[derive(Debug)]
pub struct Replacement {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl Replacement {
    /// Starts to write, in the directory of `path`, a file whose name begins with `prefix`.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path, prefix: &str, readers: Readers) -> io::Result<Self> {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix);
        #[cfg(unix)]
        if readers == Readers::Umask {
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        }
        #[cfg(not(unix))]
        let _ = readers;
        let file = builder.tempfile_in(directory.unwrap_or(Path::new(".")))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    /// Gives the file its name, once its content is on disk.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> io::Result<()> {
        let file = self.file.into_inner().map_err(io::Error::from)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a file atomically, replacing an existing one: its content is on disk, under a name that begins with `prefix`,
/// before it gets its own name.
///
/// # Errors
/// When it cannot be written.
pub fn replace(path: &Path, prefix: &str, readers: Readers, content: &[u8]) -> io::Result<()> {
    let mut file = Replacement::create(path, prefix, readers)?;
    file.write_all(content)?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for (readers, content) in [(Readers::User, "old"), (Readers::Umask, "new")] {
            replace(&path, ".partial-", readers, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                let other = directory.path().join("other");
                fs::write(&other, "").unwrap();
                let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
                assert_eq!(mode(&path), if readers == Readers::User { 0o600 } else { mode(&other) });
                fs::remove_file(&other).unwrap();
            }
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(replace(&directory.path().join("none/file"), "", Readers::User, b"").is_err());
    }
}
