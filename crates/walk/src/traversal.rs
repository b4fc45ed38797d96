//! Finds the files and directories below a root on all threads, without following links.

use std::fs::{self, DirEntry, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use rayon::Scope;

/// Files of a directory whose metadata a thread reads at a time.
const CHUNK: usize = 64;

/// What is below a root; paths are relative to the base.
pub(crate) enum Entry {
    Directory(PathBuf),
    /// Anything else, with its own metadata, not that of a link's target.
    File(PathBuf, io::Result<Metadata>),
    /// A directory, or an entry of the directory.
    Unreadable(PathBuf, io::Error),
}

struct Traversal<'a> {
    base: &'a Path,
    lets_in: &'a (dyn Fn(&Path, FileType, &DirEntry) -> bool + Sync),
    found: &'a (dyn Fn(Vec<Entry>) + Sync),
}

/// Passes what is below `root` to `found`, in no order, except what `lets_in` (path relative to `base`, kind, entry)
/// rejects, with all below it. The root is the base, or a file in it, which is always let in.
pub(crate) fn traverse(
    root: &Path,
    base: &Path,
    lets_in: &(dyn Fn(&Path, FileType, &DirEntry) -> bool + Sync),
    found: &(dyn Fn(Vec<Entry>) + Sync),
) {
    if root == base {
        let traversal = Traversal { base, lets_in, found };
        rayon::scope(|scope| traversal.directory(PathBuf::new(), scope));
    } else if let Some(name) = root.file_name() {
        found(vec![Entry::File(name.into(), fs::symlink_metadata(root))]);
    }
}

impl Traversal<'_> {
    fn directory<'s>(&'s self, path: PathBuf, scope: &Scope<'s>) {
        let entries = match fs::read_dir(self.base.join(&path)) {
            Ok(entries) => entries,
            Err(error) => return (self.found)(vec![Entry::Unreadable(path, error)]),
        };
        let (mut found, mut files) = (Vec::new(), Vec::new());
        for entry in entries {
            let entry = entry.and_then(|entry| Ok((entry.file_type()?, entry)));
            let (kind, entry) = match entry {
                Ok(known) => known,
                Err(error) => {
                    found.push(Entry::Unreadable(path.clone(), error));
                    continue;
                }
            };
            let inner = path.join(entry.file_name());
            if !(self.lets_in)(&inner, kind, &entry) {
                continue;
            }
            if kind.is_dir() {
                found.push(Entry::Directory(inner.clone()));
                scope.spawn(move |scope| self.directory(inner, scope));
            } else {
                files.push((inner, entry));
            }
        }
        while files.len() > CHUNK {
            let files = files.split_off(files.len() - CHUNK);
            scope.spawn(move |_| (self.found)(with_metadata(files).collect()));
        }
        found.extend(with_metadata(files));
        (self.found)(found);
    }
}

fn with_metadata(files: Vec<(PathBuf, DirEntry)>) -> impl Iterator<Item = Entry> {
    files.into_iter().map(|(path, entry)| {
        let metadata = entry.metadata();
        Entry::File(path, metadata)
    })
}
