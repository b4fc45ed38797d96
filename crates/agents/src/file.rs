//! Files of settings: read whole, replaced whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use quarry_files::{Directory, Readers};

use crate::Error;

/// Maximum size of a file that is read; settings in which agents keep their history have a few MiB.
const MAX_BYTES: u64 = 64 << 20;

/// A file behind its links, by a directory below which no link is followed. A link that replaces a part of
/// it later is refused.
struct Location {
    base: Directory,
    relative: PathBuf,
    exists: bool,
}

impl Location {
    /// Where a file is, or would be. With `project`, it must be in that directory, and not in its `.git`.
    fn of(path: &Path, project: Option<&Path>) -> Result<Self, Error> {
        let failed = |source| Error::Read { path: path.to_owned(), source };
        let (target, exists) = match fs::canonicalize(path) {
            Ok(target) => (target, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(path).is_ok() {
                    return Err(Error::Dangling { path: path.to_owned() });
                }
                // What exists of its directories may be links.
                let mut around = path.ancestors().skip(1).take_while(|around| !around.as_os_str().is_empty());
                let Some(around) = around.find(|around| fs::symlink_metadata(around).is_ok()) else {
                    return Err(failed(error));
                };
                let real = match fs::canonicalize(around) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Err(Error::Dangling { path: around.to_owned() });
                    }
                    real => real.map_err(failed)?,
                };
                (real.join(path.strip_prefix(around).unwrap_or(path)), false)
            }
            Err(error) => return Err(failed(error)),
        };
        let outside = || Error::Outside { path: path.to_owned(), target: target.clone() };
        let base = match project {
            Some(project) => fs::canonicalize(project).map_err(failed)?,
            None => {
                let around = target.ancestors().skip(1).find(|around| around.is_dir());
                around.ok_or_else(outside)?.to_owned()
            }
        };
        let relative = target.strip_prefix(&base).map_err(|_| outside())?.to_owned();
        if project.is_some() && relative.components().any(|part| part == Component::Normal(".git".as_ref())) {
            return Err(outside());
        }
        Ok(Self { base: Directory::open(&base).map_err(failed)?, relative, exists })
    }

    fn open(&self) -> io::Result<File> {
        self.base.file(&self.relative)
    }

    fn text(&self) -> io::Result<Option<String>> {
        if !self.exists {
            return Ok(None);
        }
        quarry_files::text(quarry_files::read_whole(self.open()?, MAX_BYTES)?).map(Some)
    }

    /// Writes a new file beside it and renames that, so nobody sees half of it.
    fn write(&self, text: &str, readers: Readers) -> io::Result<()> {
        let name =
            self.relative.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.relative.parent().unwrap_or(Path::new(""));
        let directory = self.base.directory_or_new_for(parent, readers)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
        let new = format!(".{name}.quarry-{}-{now}", process::id());
        directory.replace(name, &new, readers, |file| {
            file.write_all(text.as_bytes())?;
            if self.exists { keep_owner_and_mode(&self.open()?, file) } else { Ok(()) }
        })
    }
}

fn keep_owner_and_mode(old: &File, new: &File) -> io::Result<()> {
    let old = old.metadata()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};

        let made = new.metadata()?;
        if (old.uid(), old.gid()) != (made.uid(), made.gid()) {
            fchown(new, Some(old.uid()), Some(old.gid()))?;
        }
    }
    new.set_permissions(old.permissions())
}

/// The text of a file; `None` if there is none. `project` is the directory that it must be in.
pub(crate) fn read(path: &Path, project: Option<&Path>) -> Result<Option<String>, Error> {
    let text = Location::of(path, project)?.text();
    text.map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// The directories around a file that do not exist, the inner ones first.
pub(crate) fn missing_directories(path: &Path) -> Vec<PathBuf> {
    let missing =
        path.ancestors().skip(1).take_while(|around| !around.as_os_str().is_empty() && !around.exists());
    missing.map(Path::to_owned).collect()
}

/// Checks that a file still has the text `before`.
pub(crate) fn check_unchanged(
    path: &Path,
    project: Option<&Path>,
    before: Option<&str>,
) -> Result<(), Error> {
    if read(path, project)?.as_deref() == before {
        Ok(())
    } else {
        Err(Error::Changed { path: path.to_owned() })
    }
}

/// Replaces a file that has the text `before` by one with the text `after`; `None` stands for no file. Links to it,
/// its mode and its owner are kept. A new file is made for `readers`.
pub(crate) fn replace(
    path: &Path,
    project: Option<&Path>,
    before: Option<&str>,
    after: Option<&str>,
    readers: Readers,
) -> Result<(), Error> {
    check_unchanged(path, project, before)?;
    let location = Location::of(path, project)?;
    let replaced = match after {
        Some(after) => location.write(after, readers),
        // A link that was put instead of the file goes too: it would lead nowhere.
        None => {
            location.base.remove_file(&location.relative).and_then(|()| match fs::symlink_metadata(path) {
                Ok(metadata) if metadata.is_symlink() && project.is_none() => fs::remove_file(path),
                _ => Ok(()),
            })
        }
    };
    replaced.map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Removes directories that are empty, the inner ones first.
pub(crate) fn remove_empty(directories: &[PathBuf], project: Option<&Path>) {
    for directory in directories {
        // The system does not remove a directory that something is in. One that stays does no harm.
        let _ = match project {
            None => fs::remove_dir(directory),
            Some(project) => directory
                .strip_prefix(project)
                .map_err(io::Error::other)
                .and_then(|relative| Directory::open(project)?.remove_directory(relative)),
        };
    }
}
