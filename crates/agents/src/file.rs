//! Files of settings: read whole, replaced whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use quarry_files::{Directory, Readers, try_lock};

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
    /// Location of a file, which may not exist. With `project`, it must be in that directory, and not in its `.git`.
    fn resolve(path: &Path, project: Option<&Path>) -> Result<Self, Error> {
        let failed = |source| Error::Read { path: path.to_owned(), source };
        let (target, exists) = match fs::canonicalize(path) {
            Ok(target) => (target, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(path).is_ok() {
                    return Err(Error::Dangling { path: path.to_owned() });
                }
                // Its existing parent directories may be links.
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
        let (parent, name) = self.parent_and_name()?;
        // The mode of an existing file is set before the new one has its text, and is never wider until then.
        let readers = if self.exists { Readers::User } else { readers };
        let directory = self.base.directory_or_new_for(parent, readers)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
        let new = format!("{}{}-{now}", aside_prefix(name), process::id());
        directory.replace(name, &new, readers, |file| {
            // Tells others that the file is in use. Not every file system has locks.
            let _ = try_lock(file);
            if self.exists {
                keep_owner_and_mode(&self.open()?, file)?;
            }
            file.write_all(text.as_bytes())
        })
    }

    /// Removes what interrupted runs left beside the file: it can hold secrets.
    fn remove_leftovers(&self) -> io::Result<()> {
        let (parent, name) = self.parent_and_name()?;
        let Ok(directory) = self.base.directory(parent) else { return Ok(()) };
        let prefix = aside_prefix(name);
        for left in directory.names()? {
            let is_left = left.to_str().is_some_and(|left| left.starts_with(&prefix));
            if is_left && directory.file(left.as_ref()).is_ok_and(|file| try_lock(&file).unwrap_or(false)) {
                directory.remove_file(left.as_ref())?;
            }
        }
        Ok(())
    }

    fn parent_and_name(&self) -> io::Result<(&Path, &str)> {
        let name = self.relative.file_name().and_then(|name| name.to_str());
        Ok((self.relative.parent().unwrap_or(Path::new("")), name.ok_or(io::ErrorKind::InvalidInput)?))
    }
}

/// Start of the names of new files that are to replace a file.
fn aside_prefix(name: &str) -> String {
    format!(".{name}.quarry-")
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
    let text = Location::resolve(path, project)?.text();
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
    let location = Location::resolve(path, project)?;
    let replaced = location.remove_leftovers().and_then(|()| match after {
        Some(after) => location.write(after, readers),
        // A link that was put instead of the file goes too: it would lead nowhere.
        None => {
            location.base.remove_file(&location.relative).and_then(|()| match fs::symlink_metadata(path) {
                Ok(metadata) if metadata.is_symlink() && project.is_none() => fs::remove_file(path),
                _ => Ok(()),
            })
        }
    });
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

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_private_file_stays_private_while_it_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("settings");
        // So long that it takes a while to write.
        let texts = ["a", "b"].map(|letter| letter.repeat(48 << 20));
        fs::write(&path, &texts[0]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let is_done = AtomicBool::new(false);
        let modes = thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let (start, mut modes) = (Instant::now(), Vec::new());
                while !is_done.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(60) {
                    let entries = fs::read_dir(directory.path()).unwrap().flatten();
                    modes.extend(
                        entries.filter_map(|entry| Some(entry.metadata().ok()?.permissions().mode())),
                    );
                    modes.sort_unstable();
                    modes.dedup();
                }
                modes
            });
            for [before, after] in [[0, 1], [1, 0], [0, 1]] {
                replace(&path, None, Some(&texts[before]), Some(&texts[after]), Readers::Umask).unwrap();
            }
            is_done.store(true, Ordering::Relaxed);
            watch.join().unwrap()
        });
        assert_eq!(modes, [0o100_600]);
    }
}
