//! Directories by their paths, for systems without directory handles. Each name is checked before it
//! is used.

#![cfg_attr(unix, allow(dead_code, reason = "Unix has descriptors; tests compare both implementations"))]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::directory::{self, Access, Entry, EntryKind, Readers};
use crate::user::{create_private_directory, open_private};

pub(crate) struct Handle(PathBuf);

impl directory::Handle for Handle {
    fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        EntryKind::from_file_type(fs::metadata(&path)?.file_type()).check_directory()?;
        Ok(Self(path))
    }

    fn directory(&self, name: &OsStr) -> io::Result<Self> {
        self.entry(name)?.kind.check_directory()?;
        Ok(Self(self.0.join(name)))
    }

    fn file(&self, name: &OsStr, access: Access) -> io::Result<File> {
        let path = self.0.join(name);
        let mut options = File::options();
        match access {
            Access::Read => {
                self.entry(name)?.kind.check_file()?;
                options.read(true);
            }
            Access::New(_) => _ = options.write(true).create_new(true),
            Access::Append => {
                options.append(true);
                match self.entry(name) {
                    Ok(found) => found.kind.check_file()?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => _ = options.create_new(true),
                    Err(error) => return Err(error),
                }
            }
        }
        let opened = match access {
            Access::New(Readers::Umask) => options.open(&path),
            _ => open_private(&mut options, &path),
        };
        let file = match opened {
            // Another process created it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && access == Access::Append => {
                self.entry(name)?.kind.check_file()?;
                File::options().append(true).open(&path)?
            }
            opened => opened?,
        };
        crate::check_regular(&file.metadata()?)?;
        Ok(file)
    }

    fn entry(&self, name: &OsStr) -> io::Result<Entry> {
        let found = fs::symlink_metadata(self.0.join(name))?;
        Ok(Entry { kind: EntryKind::from_file_type(found.file_type()), bytes: found.len() })
    }

    fn names(&self) -> io::Result<Vec<OsString>> {
        fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn make_directory(&self, name: &OsStr, readers: Readers) -> io::Result<()> {
        let path = self.0.join(name);
        match fs::symlink_metadata(&path) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) if readers == Readers::Umask => fs::create_dir(&path),
            Err(_) => create_private_directory(&path),
        }
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(self.0.join(name))
    }

    /// Files have no modes here; the permissions of the user's own directories apply.
    fn make_private(&self) {}
}
