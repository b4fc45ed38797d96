//! Finds the files and directories below a root on several threads, without following links.
//!
//! The threads belong to one traversal, because reading a directory of a file system that is gone may never end.

use std::fs::{self, DirEntry, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Files of a directory whose metadata a thread reads at a time.
const CHUNK: usize = 64;

/// Maximum number of threads: more hardly help, since they wait for the same file system.
const MAX_THREADS: usize = 12;

/// Entry below a root; paths are relative to the base.
pub(crate) enum Entry {
    Directory(PathBuf),
    /// Anything else, with its own metadata, not that of a link's target.
    File(PathBuf, io::Result<Metadata>),
    /// A directory, or an entry of the directory.
    Unreadable(PathBuf, io::Error),
}

type EntryFilter<'a> = &'a (dyn Fn(&Path, FileType, &DirEntry) -> bool + Sync);
type OnEntries<'a> = &'a (dyn Fn(Vec<Entry>) + Sync);

/// Passes what is below `root` to `found`, in no order, except what `lets_in` (path relative to `base`, kind, entry)
/// rejects, with all below it. The root is the base, or a file in it, which is always let in.
pub(crate) fn traverse(root: &Path, base: &Path, lets_in: EntryFilter<'_>, found: OnEntries<'_>) {
    if root != base {
        let name = root.file_name().unwrap_or_default();
        return found(vec![Entry::File(name.into(), fs::symlink_metadata(root))]);
    }
    let traversal = Traversal { base, lets_in, found, queue: Mutex::default(), changed: Condvar::new() };
    let tasks = traversal.directory(PathBuf::new());
    // A single directory may hold the whole tree.
    let n_threads = match tasks.is_empty() {
        true => 1,
        false => thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS),
    };
    traversal.queue().tasks = tasks;
    thread::scope(|scope| {
        for _ in 1..n_threads {
            scope.spawn(|| traversal.work());
        }
        traversal.work();
    });
}

enum Task {
    Directory(PathBuf),
    Files(Vec<(PathBuf, DirEntry)>),
}

#[derive(Default)]
struct Queue {
    tasks: Vec<Task>,
    /// Tasks in progress, which may add more.
    n_current: usize,
}

struct Traversal<'a> {
    base: &'a Path,
    lets_in: EntryFilter<'a>,
    found: OnEntries<'a>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// A task that a thread is at: even one that panics ends, so that nobody waits for it.
struct Current<'a>(&'a Traversal<'a>);

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.n_current -= 1;
        if queue.n_current == 0 || !queue.tasks.is_empty() {
            self.0.changed.notify_all();
        }
    }
}

impl Traversal<'_> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does tasks until there are none and none can come.
    fn work(&self) {
        while let Some(task) = self.next() {
            let _current = Current(self);
            let more = match task {
                Task::Directory(path) => self.directory(path),
                Task::Files(files) => {
                    (self.found)(with_metadata(files).collect());
                    continue;
                }
            };
            self.queue().tasks.extend(more);
        }
    }

    fn next(&self) -> Option<Task> {
        let mut queue = self.queue();
        loop {
            if let Some(task) = queue.tasks.pop() {
                queue.n_current += 1;
                return Some(task);
            }
            if queue.n_current == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reads a directory; what remains to be done below it.
    fn directory(&self, path: PathBuf) -> Vec<Task> {
        let entries = match fs::read_dir(self.base.join(&path)) {
            Ok(entries) => entries,
            Err(error) => {
                (self.found)(vec![Entry::Unreadable(path, error)]);
                return Vec::new();
            }
        };
        let (mut found, mut files, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
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
                tasks.push(Task::Directory(inner));
            } else {
                files.push((inner, entry));
            }
        }
        while files.len() > CHUNK {
            tasks.push(Task::Files(files.split_off(files.len() - CHUNK)));
        }
        found.extend(with_metadata(files));
        (self.found)(found);
        tasks
    }
}

fn with_metadata(files: Vec<(PathBuf, DirEntry)>) -> impl Iterator<Item = Entry> {
    files.into_iter().map(|(path, entry)| {
        let metadata = entry.metadata();
        Entry::File(path, metadata)
    })
}
