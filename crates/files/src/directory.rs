//! A directory below which no link is followed.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, FileType};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Maximum depth that [`Directory::remove_all`] removes; this program creates nothing deeper.
const MAX_DEPTH: usize = 32;

#[cfg(not(unix))]
type System = crate::portable::Handle;
#[cfg(unix)]
type System = crate::unix::Handle;

/// An open directory. All operations stay below it: relative paths have no `..`, and neither their last
/// component nor any before it is followed if it is a link, even if it becomes one meanwhile.
///
/// On systems without directory handles, every component is checked before it is used, which existing links
/// cannot escape, but a concurrent change can.
pub type Directory = DirectoryAt<System>;

/// A [`Directory`] with one of two implementations.
pub struct DirectoryAt<H> {
    handle: Arc<H>,
    path: PathBuf,
}

/// Operations on the names in an open directory. Links are not followed.
pub(crate) trait Handle: Sized {
    /// Opens a directory, following links.
    fn open(path: &Path) -> io::Result<Self>;
    /// Opens the directory of a name.
    fn directory(&self, name: &OsStr) -> io::Result<Self>;
    /// Opens the directory at a path of names at once, if the system can do that without following links; `None` if it
    /// cannot or fails. Opening each directory on the way would take quadratic time to walk down a deep tree.
    fn below(&self, _relative: &Path) -> Option<Self> {
        None
    }
    /// Opens what is at a path of names for reading, at once, if the system can do that without following links; `None` if
    /// it cannot or fails.
    fn below_for_reading(&self, _relative: &Path) -> Option<File> {
        None
    }
    /// Opens the regular file of a name.
    fn file(&self, name: &OsStr, access: Access) -> io::Result<File>;
    fn entry(&self, name: &OsStr) -> io::Result<Entry>;
    /// All names except `.` and `..`.
    fn names(&self) -> io::Result<Vec<OsString>>;
    fn make_directory(&self, name: &OsStr, readers: Readers) -> io::Result<()>;
    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()>;
    fn remove_file(&self, name: &OsStr) -> io::Result<()>;
    fn remove_directory(&self, name: &OsStr) -> io::Result<()>;
    /// Revokes the permissions of other users, if allowed.
    fn make_private(&self);
}

/// Mode in which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// For writing, as a new file.
    New(Readers),
    /// For appending; creates the file if it is missing.
    Append,
}

/// Users who may read a created file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Only this user.
    User,
    /// As the umask allows.
    Umask,
}

/// The entry of a name in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its kind; a link is not followed.
    pub kind: EntryKind,
    /// Its length in bytes.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    Directory,
    /// A symbolic link, or its equivalent on other systems.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket, a device or something else.
    Other(&'static str),
}

impl EntryKind {
    /// Converts the standard library's type.
    pub(crate) fn from_file_type(found: FileType) -> Self {
        if found.is_symlink() {
            Self::Link
        } else if found.is_dir() {
            Self::Directory
        } else if found.is_file() {
            Self::File
        } else {
            Self::special(found)
        }
    }

    #[cfg(unix)]
    fn special(found: FileType) -> Self {
        use std::os::unix::fs::FileTypeExt;

        if found.is_fifo() {
            Self::Pipe
        } else if found.is_socket() {
            Self::Other("a socket")
        } else {
            Self::Other("a device")
        }
    }

    #[cfg(not(unix))]
    fn special(_: FileType) -> Self {
        Self::Other("something else")
    }

    /// # Errors
    /// When it is not a regular file; the message names what it is.
    pub(crate) fn check_file(self) -> io::Result<()> {
        let found = match self {
            Self::File => return Ok(()),
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Pipe => "a pipe",
            Self::Other(what) => what,
        };
        Err(refused(format!("{found}, not a regular file")))
    }

    /// # Errors
    /// When it is not a directory; the message names what it is.
    pub(crate) fn check_directory(self) -> io::Result<()> {
        match self {
            Self::Directory => Ok(()),
            Self::Link => Err(refused("a symbolic link, not a directory".to_owned())),
            _ => Err(refused("not a directory".to_owned())),
        }
    }
}

fn refused(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

#[expect(private_bounds, reason = "only the system's implementation is used outside this crate")]
impl<H: Handle> DirectoryAt<H> {
    /// Opens a directory that the user named: links on the way to it are followed.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { handle: Arc::new(H::open(path)?), path: path.to_owned() })
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a directory below this one.
    ///
    /// # Errors
    /// When it is missing, of another kind, or reached through a link.
    pub fn directory(&self, relative: &Path) -> io::Result<Self> {
        let names = names(relative)?;
        if names.is_empty() {
            return Ok(self.clone());
        }
        let path = self.path.join(relative);
        if names.len() > 1
            && let Some(handle) = self.handle.below(relative)
        {
            return Ok(Self { handle: Arc::new(handle), path });
        }
        let mut handle = Arc::clone(&self.handle);
        for name in names {
            handle = Arc::new(handle.directory(name)?);
        }
        Ok(Self { handle, path })
    }

    /// Opens a regular file below this directory for reading.
    ///
    /// # Errors
    /// When it is missing, of another kind, or reached through a link.
    pub fn file(&self, relative: &Path) -> io::Result<File> {
        self.access(relative, Access::Read)
    }

    /// Reads up to `limit` bytes of a regular file that a listing has found below this directory.
    ///
    /// # Errors
    /// Like [`file`](Self::file), and when it cannot be read.
    pub fn read_listed(&self, relative: &Path, limit: u64) -> io::Result<Vec<u8>> {
        if !names(relative)?.is_empty()
            && let Some(file) = self.handle.below_for_reading(relative)
            && let Ok(found) = file.metadata()
            && found.is_file()
        {
            return crate::read_start_of(file, found.len(), limit);
        }
        crate::read_start(self.file(relative)?, limit)
    }

    /// Creates a file below this directory, readable only by this user.
    ///
    /// # Errors
    /// When the name exists.
    pub fn create_file(&self, relative: &Path) -> io::Result<File> {
        self.access(relative, Access::New(Readers::User))
    }

    /// Creates a file below this directory for `readers`.
    ///
    /// # Errors
    /// When the name exists.
    pub fn create_file_for(&self, relative: &Path, readers: Readers) -> io::Result<File> {
        self.access(relative, Access::New(readers))
    }

    /// Opens a file below this directory for appending; creates it, readable only by this user, if it is missing.
    ///
    /// # Errors
    /// When it is not a regular file.
    pub fn append_file(&self, relative: &Path) -> io::Result<File> {
        self.access(relative, Access::Append)
    }

    fn access(&self, relative: &Path, access: Access) -> io::Result<File> {
        let (around, name) = self.parent(relative)?;
        around.handle.file(&name, access)
    }

    /// Reads all of a regular file below this directory.
    ///
    /// # Errors
    /// Like [`file`](Self::file), and when it is longer than `limit` bytes.
    pub fn read(&self, relative: &Path, limit: u64) -> io::Result<Vec<u8>> {
        crate::read_whole(self.file(relative)?, limit)
    }

    /// The entry at a path below this directory.
    ///
    /// # Errors
    /// When it is missing or reached through a link.
    pub fn entry(&self, relative: &Path) -> io::Result<Entry> {
        let (around, name) = self.parent(relative)?;
        around.handle.entry(&name)
    }

    /// The names in this directory, in no order.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        self.handle.names()
    }

    /// Creates a directory, readable only by this user.
    ///
    /// # Errors
    /// When the name exists.
    pub fn create_directory(&self, relative: &Path) -> io::Result<Self> {
        self.create_directory_for(relative, Readers::User)
    }

    fn create_directory_for(&self, relative: &Path, readers: Readers) -> io::Result<Self> {
        let (around, name) = self.parent(relative)?;
        around.handle.make_directory(&name, readers)?;
        around.directory(Path::new(&name))
    }

    /// Opens a directory below this one; creates it, readable only by this user, if it is missing.
    ///
    /// # Errors
    /// When it is of another kind, or reached through a link.
    pub fn directory_or_new(&self, relative: &Path) -> io::Result<Self> {
        self.directory_or_new_for(relative, Readers::User)
    }

    /// Opens a directory below this one; creates it for `readers` if it is missing.
    ///
    /// # Errors
    /// When it is of another kind, or reached through a link.
    pub fn directory_or_new_for(&self, relative: &Path, readers: Readers) -> io::Result<Self> {
        let mut found = self.clone();
        for name in names(relative)?.into_iter().map(Path::new) {
            found = match found.create_directory_for(name, readers) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => found.directory(name)?,
                made => made?,
            };
        }
        Ok(found)
    }

    /// Revokes the permissions of other users on the directory. Missing permissions are ignored.
    pub fn make_private(&self) {
        self.handle.make_private();
    }

    /// Renames a file in this directory, replacing a file of the new name.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.handle.rename(single_component(from)?, single_component(to)?)
    }

    /// Replaces a file in this directory by renaming, so that a reader sees the old content or the new, never a mixture.
    /// `write` gets a new file with the name `aside`, which is removed if something fails.
    ///
    /// # Errors
    /// When `aside` exists, and when the file cannot be written.
    pub fn replace(
        &self,
        name: &str,
        aside: &str,
        readers: Readers,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut file = self.create_file_for(Path::new(aside), readers)?;
        let written = write(&mut file).and_then(|()| file.sync_all());
        drop(file);
        let replaced = written.and_then(|()| self.rename(aside, name));
        if replaced.is_err() {
            let _ = self.remove_file(Path::new(aside));
        }
        replaced
    }

    /// Removes a file, or a link without its target.
    ///
    /// # Errors
    /// When it is missing.
    pub fn remove_file(&self, relative: &Path) -> io::Result<()> {
        let (around, name) = self.parent(relative)?;
        around.handle.remove_file(&name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// When it is missing or not empty.
    pub fn remove_directory(&self, relative: &Path) -> io::Result<()> {
        let (around, name) = self.parent(relative)?;
        around.handle.remove_directory(&name)
    }

    /// Removes a name with all its contents. Links are removed, not their targets.
    ///
    /// # Errors
    /// When something cannot be removed; the rest may be removed already.
    pub fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        self.remove_below(name, 0)
    }

    fn remove_below(&self, name: &OsStr, depth: usize) -> io::Result<()> {
        if self.handle.entry(name)?.kind != EntryKind::Directory {
            return self.handle.remove_file(name);
        }
        if depth > MAX_DEPTH {
            return Err(refused(format!("{}: too deep", self.path.display())));
        }
        let inner = self.directory(Path::new(name))?;
        inner.names()?.iter().try_for_each(|name| inner.remove_below(name, depth + 1))?;
        self.handle.remove_directory(name)
    }

    /// The parent directory of a path, and its name there.
    fn parent(&self, relative: &Path) -> io::Result<(Self, OsString)> {
        let mut names = names(relative)?;
        let name = names.pop().ok_or_else(|| outside(relative))?;
        Ok((self.directory(&names.iter().collect::<PathBuf>())?, name.to_owned()))
    }
}

impl<H> Clone for DirectoryAt<H> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), path: self.path.clone() }
    }
}

impl<H> fmt::Debug for DirectoryAt<H> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("Directory").field(&self.path).finish()
    }
}

/// The components of a relative path.
fn names(relative: &Path) -> io::Result<Vec<&OsStr>> {
    let name = |part| match part {
        Component::Normal(name) => Ok(name),
        _ => Err(outside(relative)),
    };
    relative.components().map(name).collect()
}

/// The only component of a path.
fn single_component(name: &str) -> io::Result<&OsStr> {
    match names(Path::new(name))?.as_slice() {
        [name] => Ok(name),
        _ => Err(outside(Path::new(name))),
    }
}

fn outside(relative: &Path) -> io::Error {
    refused(format!("{}: not a relative path without `..`", relative.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    /// Runs a test for both implementations.
    macro_rules! both {
        ($name:ident, $check:ident) => {
            #[test]
            fn $name() {
                $check::<System>();
                $check::<crate::portable::Handle>();
            }
        };
    }

    fn tree() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("tree/a/b")).unwrap();
        fs::write(directory.path().join("tree/a/b/file"), "inside").unwrap();
        fs::write(directory.path().join("mine"), "mine").unwrap();
        directory
    }

    fn open<H: Handle>(directory: &tempfile::TempDir) -> DirectoryAt<H> {
        DirectoryAt::open(&directory.path().join("tree")).unwrap()
    }

    fn read<H: Handle>(tree: &DirectoryAt<H>, path: &str) -> Result<String, String> {
        let read = tree.read(Path::new(path), 100).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(read).unwrap())
    }

    both!(what_is_inside_is_read, check_reading);
    fn check_reading<H: Handle>() {
        let directory = tree();
        let tree = open::<H>(&directory);
        assert_eq!(read(&tree, "a/b/file").unwrap(), "inside");
        assert_eq!(read(&tree.directory(Path::new("a/b")).unwrap(), "file").unwrap(), "inside");
        assert_eq!(tree.entry(Path::new("a/b/file")).unwrap(), Entry { kind: EntryKind::File, bytes: 6 });
        assert_eq!(tree.names().unwrap(), ["a"]);
        assert_eq!(tree.file(Path::new("a/none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(read(&tree, "a/b").unwrap_err().contains("a directory, not a regular file"));
        for outside in ["../mine", "a/../../mine", "/etc/passwd", "", ".."] {
            assert!(read(&tree, outside).unwrap_err().contains("not a relative path"), "{outside}");
        }
    }

    both!(files_are_made_renamed_and_removed, check_writing);
    fn check_writing<H: Handle>() {
        let directory = tree();
        let tree = open::<H>(&directory);
        let inner = tree.create_directory(Path::new("new")).unwrap();
        inner.create_file(Path::new("x")).unwrap().write_all(b"1").unwrap();
        assert_eq!(inner.create_file(Path::new("x")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        inner.append_file(Path::new("x")).unwrap().write_all(b"2").unwrap();
        inner.append_file(Path::new("y")).unwrap().write_all(b"3").unwrap();
        inner.rename("x", "y").unwrap();
        assert_eq!(read(&tree, "new/y").unwrap(), "12");
        assert!(inner.rename("y", "../y").is_err() && inner.rename("a/b", "c").is_err());
        tree.directory_or_new(Path::new("new/one/two")).unwrap();
        tree.directory_or_new(Path::new("new/one")).unwrap().create_file(Path::new("two/x")).unwrap();
        assert!(tree.directory_or_new(Path::new("new/y")).is_err());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &str| {
                fs::metadata(directory.path().join("tree").join(path)).unwrap().permissions().mode() & 0o777
            };
            assert_eq!((mode("new"), mode("new/y")), (0o700, 0o600));
        }
        tree.remove_all(OsStr::new("new")).unwrap();
        tree.remove_all(OsStr::new("a")).unwrap();
        assert!(tree.names().unwrap().is_empty());
    }

    #[cfg(unix)]
    both!(no_link_leads_out, check_links);
    #[cfg(unix)]
    fn check_links<H: Handle>() {
        use std::os::unix::fs::symlink;

        let directory = tree();
        let at = |path: &str| directory.path().join(path);
        symlink("../mine", at("tree/link")).unwrap();
        symlink("..", at("tree/up")).unwrap();
        symlink("nowhere", at("tree/dangling")).unwrap();
        fs::create_dir(at("other")).unwrap();
        symlink("../../other", at("tree/a/other")).unwrap();
        let tree = open::<H>(&directory);
        for path in ["link", "up/mine", "dangling", "a/other/x"] {
            let error = read(&tree, path).unwrap_err();
            assert!(error.contains("a symbolic link"), "{path}: {error}");
            assert!(tree.create_file(Path::new(path)).is_err(), "{path}");
            let error = tree.append_file(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains("a symbolic link"), "{path}: {error}");
        }
        assert!(tree.directory(Path::new("a/other")).is_err());
        assert!(tree.create_directory(Path::new("a/other/new")).is_err());
        assert_eq!(tree.entry(Path::new("link")).unwrap().kind, EntryKind::Link);
        // Replacing or removing a link does not touch its target.
        tree.create_file(Path::new("fresh")).unwrap().write_all(b"new").unwrap();
        tree.rename("fresh", "link").unwrap();
        tree.remove_all(OsStr::new("a")).unwrap();
        tree.remove_all(OsStr::new("up")).unwrap();
        assert_eq!(fs::read_to_string(at("mine")).unwrap(), "mine");
        assert!(at("other").is_dir() && !at("nowhere").exists() && !at("tree/nowhere").exists());
        assert_eq!(read(&tree, "link").unwrap(), "new");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_path_without_links_is_opened_at_once() {
        let directory = tree();
        let at = |path: &str| directory.path().join(path);
        std::os::unix::fs::symlink("a", at("tree/link")).unwrap();
        let tree = open::<System>(&directory);
        if tree.handle.below(Path::new("a")).is_none() {
            // Before Linux 5.6.
            return;
        }
        assert!(tree.handle.below(Path::new("a/b")).is_some());
        for path in ["link/b", "../tree/a", "a/b/file", "a/none"] {
            assert!(tree.handle.below(Path::new(path)).is_none(), "{path}");
        }
        let deep: PathBuf = (0..500).map(|_| "d").collect();
        fs::create_dir_all(at("tree").join(&deep)).unwrap();
        assert_eq!(tree.directory(&deep).unwrap().path(), at("tree").join(&deep));
    }

    #[cfg(unix)]
    both!(what_would_block_is_not_opened, check_blocking);
    #[cfg(unix)]
    fn check_blocking<H: Handle>() {
        let directory = tree();
        let pipe = directory.path().join("tree/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(directory.path().join("tree/socket")).unwrap();
        let tree = open::<H>(&directory);
        assert!(read(&tree, "pipe").unwrap_err().contains("a pipe"));
        assert!(read(&tree, "socket").unwrap_err().contains("a socket"));
        assert!(tree.append_file(Path::new("pipe")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_becomes_a_link_is_not_left() {
        let directory = tree();
        let at = |path: &str| directory.path().join(path);
        let inner = open::<System>(&directory).directory(Path::new("a")).unwrap();
        fs::rename(at("tree/a"), at("tree/gone")).unwrap();
        fs::create_dir(at("elsewhere")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", at("tree/a")).unwrap();
        inner.create_file(Path::new("x")).unwrap();
        assert!(at("tree/gone/x").exists() && !at("elsewhere/x").exists());
    }
}
