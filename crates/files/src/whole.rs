//! Files that are replaced whole.

use std::io::{self, Write};
use std::path::Path;

use crate::Readers;

/// Writes a file atomically, replacing an existing one: its content is on disk, under a name that begins with `prefix`,
/// before it gets its own name.
///
/// # Errors
/// When it cannot be written.
pub fn replace(path: &Path, prefix: &str, readers: Readers, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    if readers == Readers::Umask {
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    }
    #[cfg(not(unix))]
    let _ = readers;
    let mut file = builder.tempfile_in(directory.unwrap_or(Path::new(".")))?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
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
