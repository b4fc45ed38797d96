//! Files of settings: read whole, replaced whole.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// The most that is read; settings that agents keep their history in are a few.
const MAX_MIB: u64 = 64;

/// Where a file really is: behind its links. `None` where there is no file. `inside` is the directory that it must be
/// in.
fn resolve(path: &Path, inside: Option<&Path>) -> Result<(PathBuf, bool), Error> {
    let read = |source| Error::Read { path: path.to_owned(), source };
    let (target, exists) = match fs::canonicalize(path) {
        Ok(target) => (target, true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if fs::symlink_metadata(path).is_ok() {
                return Err(Error::NotText {
                    path: path.to_owned(),
                    found: "a link to a file that is not there".to_owned(),
                    max_mib: MAX_MIB,
                });
            }
            // What is there of its directories may be links.
            let around =
                path.ancestors().skip(1).find_map(|around| Some((around, fs::canonicalize(around).ok()?)));
            let (around, real) = around.ok_or_else(|| read(error))?;
            (real.join(path.strip_prefix(around).unwrap_or(path)), false)
        }
        Err(error) => return Err(read(error)),
    };
    if let Some(inside) = inside {
        let inside = fs::canonicalize(inside).map_err(read)?;
        if !target.starts_with(&inside) {
            return Err(Error::Outside { path: path.to_owned(), target });
        }
    }
    Ok((target, exists))
}

/// The text of a file; `None` where there is none.
pub(crate) fn read(path: &Path, inside: Option<&Path>) -> Result<Option<String>, Error> {
    let (target, exists) = resolve(path, inside)?;
    if !exists {
        return Ok(None);
    }
    let read = |source| Error::Read { path: path.to_owned(), source };
    let not_text = |found: String| Error::NotText { path: path.to_owned(), found, max_mib: MAX_MIB };
    let metadata = fs::metadata(&target).map_err(read)?;
    if !metadata.is_file() {
        return Err(not_text(
            if metadata.is_dir() { "a directory" } else { "something that is not a regular file" }.to_owned(),
        ));
    }
    if metadata.len() > MAX_MIB << 20 {
        return Err(not_text(format!("{} bytes", metadata.len())));
    }
    let bytes = fs::read(&target).map_err(read)?;
    String::from_utf8(bytes).map(Some).map_err(|error| not_text(format!("other bytes than text: {error}")))
}

/// The directories around a file that are not there, the inner ones first.
pub(crate) fn missing_directories(path: &Path) -> Vec<PathBuf> {
    let missing =
        path.ancestors().skip(1).take_while(|around| !around.as_os_str().is_empty() && !around.exists());
    missing.map(Path::to_owned).collect()
}

/// Replaces a file that has the text `before` by one with the text `after`; `None` stands for no file. Links stay, and
/// so do permissions. Nobody sees half of it.
pub(crate) fn replace(
    path: &Path,
    inside: Option<&Path>,
    before: Option<&str>,
    after: Option<&str>,
) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let (target, exists) = resolve(path, inside)?;
    if read(path, inside)?.as_deref() != before {
        return Err(Error::Changed { path: path.to_owned() });
    }
    let Some(after) = after else {
        // A link to it goes with it: both were made together, or the link is somebody's who wants the file.
        return fs::remove_file(&target).map_err(failed);
    };
    let directory = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(failed)?;
    let mut builder = tempfile::Builder::new();
    // As of any new file: the user's mask takes what it takes.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(directory).map_err(failed)?;
    file.write_all(after.as_bytes()).map_err(failed)?;
    if exists {
        let permissions = fs::metadata(&target).map_err(failed)?.permissions();
        file.as_file().set_permissions(permissions).map_err(failed)?;
    }
    file.as_file().sync_all().map_err(failed)?;
    file.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Removes directories that are empty, the inner ones first.
pub(crate) fn remove_empty(directories: &[PathBuf]) {
    for directory in directories {
        // The system removes no directory that something is in.
        let _ = fs::remove_dir(directory);
    }
}
