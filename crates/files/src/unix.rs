//! Directories by their descriptors.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, renameat, statat, unlinkat,
};

use crate::directory::{self, Access, Entry, EntryKind, Readers};

pub struct Handle(OwnedFd);

// Non-blocking: a pipe may have replaced the file.
#[cfg(target_os = "linux")]
const READING: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl directory::Handle for Handle {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, DIRECTORY, Mode::empty())?))
    }

    fn directory(&self, name: &OsStr) -> io::Result<Self> {
        // This check only improves the message: a link is never opened.
        self.entry(name)?.kind.check_directory()?;
        Ok(Self(openat(&self.0, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?))
    }

    #[cfg(target_os = "linux")]
    fn below(&self, relative: &Path) -> Option<Self> {
        use rustix::fs::{ResolveFlags, openat2};

        // Since Linux 5.6, unless a sandbox refuses it.
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(&self.0, relative, DIRECTORY, Mode::empty(), inside).ok().map(Self)
    }

    #[cfg(target_os = "linux")]
    fn below_for_reading(&self, relative: &Path) -> Option<File> {
        use rustix::fs::{ResolveFlags, openat2};

        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(&self.0, relative, READING, Mode::empty(), inside).ok().map(File::from)
    }

    fn file(&self, name: &OsStr, access: Access) -> io::Result<File> {
        match self.entry(name) {
            // Opening a device may have side effects.
            Ok(_) if matches!(access, Access::New(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            Ok(found) => found.kind.check_file()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && access != Access::Read => {}
            Err(error) => return Err(error),
        }
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::New(_) => OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
            Access::Append => OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND,
        };
        // Non-blocking: a pipe may have replaced the file.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mode = match access {
            Access::New(Readers::Umask) => Mode::from_raw_mode(0o666),
            _ => Mode::RUSR | Mode::WUSR,
        };
        let file = File::from(openat(&self.0, name, flags, mode)?);
        crate::check_regular(&file.metadata()?)?;
        Ok(file)
    }

    fn entry(&self, name: &OsStr) -> io::Result<Entry> {
        let found = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Link,
            FileType::Fifo => EntryKind::Pipe,
            FileType::Socket => EntryKind::Other("a socket"),
            _ => EntryKind::Other("a device"),
        };
        Ok(Entry { kind, bytes: u64::try_from(found.st_size).unwrap_or_default() })
    }

    fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn make_directory(&self, name: &OsStr, readers: Readers) -> io::Result<()> {
        let mode = match readers {
            Readers::User => Mode::RWXU,
            Readers::Umask => Mode::from_raw_mode(0o777),
        };
        Ok(mkdirat(&self.0, name, mode)?)
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    fn make_private(&self) {
        let is_open_to_others = |mode: Mode| mode.intersects(Mode::RWXG | Mode::RWXO);
        if fstat(&self.0).is_ok_and(|found| is_open_to_others(Mode::from_raw_mode(found.st_mode))) {
            let _ = fchmod(&self.0, Mode::RWXU);
        }
    }
}
