//! Inspecting directories that a sandboxed program has written to.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

/// Maximum number of files and directories visited.
const MAX_ENTRIES: usize = 200_000;

/// Visits everything in a directory tree, without following links; stops at the first error.
fn for_each(directory: &Path, mut each: impl FnMut(&Path, &Metadata) -> io::Result<()>) -> io::Result<()> {
    // No recursion: the program determines the depth.
    let mut directories: Vec<PathBuf> = vec![directory.to_owned()];
    let mut count = 0;
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            count += 1;
            if count > MAX_ENTRIES {
                return Err(io::Error::other(format!("there are more than {MAX_ENTRIES} files")));
            }
            each(&path, &metadata)?;
            if metadata.is_dir() {
                directories.push(path);
            }
        }
    }
    Ok(())
}

/// Disk usage of a directory's files in bytes, as far as it can be determined while a program changes them; too many
/// files count as more than any limit.
pub(crate) fn size(directory: &Path) -> u64 {
    let (mut bytes, mut count) = (0, 0);
    let _ = for_each(directory, |_, metadata| {
        count += 1;
        bytes += space(metadata);
        Ok(())
    });
    if count >= MAX_ENTRIES { u64::MAX } else { bytes }
}

fn space(metadata: &Metadata) -> u64 {
    metadata.len().max(metadata.blocks() * 512)
}

/// Takes over the files that a program wrote, makes them readable and not writable by others, and returns their total
/// size in bytes.
pub(crate) fn adopt(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let is_root = rustix::process::geteuid().is_root();
    for_each(directory, |path, metadata| {
        let kind = metadata.file_type();
        if !kind.is_file() && !kind.is_dir() {
            return Err(io::Error::other(format!("{} is neither a file nor a directory", path.display())));
        }
        if is_root {
            lchown(path, Some(0), Some(0))?;
        }
        let can_be_entered = kind.is_dir() || metadata.mode() & 0o100 != 0;
        fs::set_permissions(path, Permissions::from_mode(if can_be_entered { 0o755 } else { 0o644 }))?;
        bytes += space(metadata);
        Ok(())
    })?;
    Ok(bytes)
}
