//! The tree of a repository, taken from commit to commit: only files that differ are written.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use quarry_files::Directory;
use quarry_history::Snapshot;

/// Maximum size of a file that is written, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Maximum total size of the files that are written, in bytes. A few objects can form a tree of any size.
const MAX_TOTAL_BYTES: u64 = 1 << 30;

/// Maximum size of the record of what was written, in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 30;

const RECORD: &str = "tree.json";

/// A directory with the files of a commit.
pub(crate) struct Checkout {
    place: PathBuf,
    tree: Directory,
    /// The id of the content of each file by its path.
    written: BTreeMap<String, String>,
}

impl Checkout {
    /// The tree in a directory, which is created if it is missing; one that was left incomplete is emptied.
    pub(crate) fn open(place: &Path) -> io::Result<Self> {
        let tree = place.join("tree");
        let record = quarry_files::read_regular(&place.join(RECORD), MAX_RECORD_BYTES);
        let record = record.ok().filter(|_| tree.exists());
        let written = record.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if written.is_none() && tree.exists() {
            fs::remove_dir_all(&tree)?;
        }
        fs::create_dir_all(&tree)?;
        Ok(Self {
            place: place.to_owned(),
            tree: Directory::open(&tree)?,
            written: written.unwrap_or_default(),
        })
    }

    pub(crate) fn tree(&self) -> &Path {
        self.tree.path()
    }

    /// Writes the files of a commit, and removes all others. Returns the number of files that were left out because
    /// they are too large, alone or together with those before, or missing in the clone.
    pub(crate) fn switch(&mut self, snapshot: &Snapshot) -> io::Result<usize> {
        self.switch_within(snapshot, MAX_TOTAL_BYTES)
    }

    fn switch_within(&mut self, snapshot: &Snapshot, mut free: u64) -> io::Result<usize> {
        let record = self.place.join(RECORD);
        match fs::remove_file(&record) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut fits = |number: usize| {
            let size = snapshot.size(number).filter(|size| *size <= MAX_BYTES.min(free));
            free -= size.unwrap_or_default();
            size.is_some()
        };
        let wanted: BTreeMap<&str, (usize, String)> = snapshot
            .files()
            .enumerate()
            .filter(|(number, _)| fits(*number))
            .map(|(number, (path, id))| (path, (number, id)))
            .collect();
        let is_stale = |(path, id): &(&String, &String)| {
            wanted.get(path.as_str()).is_none_or(|(_, wanted)| wanted != *id)
        };
        // First, so that a directory may take the place of a file, or a file that of a directory.
        let stale: Vec<String> = self.written.iter().filter(is_stale).map(|(path, _)| path.clone()).collect();
        stale.iter().try_for_each(|path| self.remove(path))?;
        let mut left_out = snapshot.files().count() - wanted.len();
        for (path, (number, id)) in wanted {
            if self.written.contains_key(path) {
                continue;
            }
            match snapshot.content(number, MAX_BYTES) {
                Some(content) => self.write(path, id, &content)?,
                None => left_out += 1,
            }
        }
        fs::write(record, serde_json::to_vec(&self.written)?)?;
        Ok(left_out)
    }

    fn write(&mut self, path: &str, id: String, content: &[u8]) -> io::Result<()> {
        let relative = Path::new(path);
        if let Some(parent) = relative.parent() {
            self.tree.directory_or_new(parent)?;
        }
        self.tree.create_file(relative)?.write_all(content)?;
        self.written.insert(path.to_owned(), id);
        Ok(())
    }

    /// Removes a file, and the directories that are empty without it.
    fn remove(&mut self, path: &str) -> io::Result<()> {
        let relative = Path::new(path);
        self.tree.remove_file(relative)?;
        self.written.remove(path);
        let around = relative.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        for parent in around {
            if self.tree.remove_directory(parent).is_err() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use quarry_test_support::git::GitRepository;

    use super::*;

    #[test]
    fn a_tree_is_written_within_a_total() {
        let outer = tempfile::tempdir().unwrap();
        let clone = outer.path().join("clone");
        let mut repository = GitRepository::bare(&clone);
        let first =
            repository.commit("one", &[("a.py", Some("aaaa")), ("b.py", Some("aaaa")), ("c.py", Some("c"))]);
        let second = repository.commit("two", &[("a.py", Some("aaaaa"))]);
        let place = outer.path().join("place");
        fs::create_dir(&place).unwrap();
        let mut checkout = Checkout::open(&place).unwrap();
        let mut files = |commit: &str, bytes: u64| {
            let snapshot = Snapshot::open(&clone, Some(commit)).unwrap();
            let left_out = checkout.switch_within(&snapshot, bytes).unwrap();
            let names = fs::read_dir(checkout.tree()).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            (names.concat(), left_out)
        };
        assert_eq!(files(&first, 9), ("a.pyb.pyc.py".to_owned(), 0));
        // Files written for another commit count like those written now.
        assert_eq!(files(&second, 9), ("a.pyb.py".to_owned(), 1));
        assert_eq!(files(&first, 7), ("a.pyc.py".to_owned(), 1));
    }
}
