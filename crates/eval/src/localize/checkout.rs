//! The tree of a repository, taken from commit to commit: only files that differ are written.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use quarry_corpus::git::Snapshot;
use quarry_files::Directory;

/// Maximum size of a file that is written, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Maximum size of the record of what was written, in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 30;

const RECORD: &str = "tree.json";

/// A directory with the files of a commit.
pub(super) struct Checkout {
    place: PathBuf,
    tree: Directory,
    /// The id of the content of each file by its path.
    written: BTreeMap<String, String>,
}

impl Checkout {
    /// The tree in a directory, which is created if it is missing; one that was left incomplete is emptied.
    pub(super) fn open(place: &Path) -> io::Result<Self> {
        let tree = place.join("tree");
        let record = quarry_files::read_regular(&place.join(RECORD), MAX_RECORD_BYTES);
        let written = record.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
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

    /// The directory with the files.
    pub(super) fn tree(&self) -> &Path {
        self.tree.path()
    }

    /// Writes the files of a commit, and removes all others. Returns the number of files that were left out because
    /// they are too large or missing in the clone.
    pub(super) fn switch(&mut self, snapshot: &Snapshot) -> io::Result<usize> {
        let record = self.place.join(RECORD);
        match fs::remove_file(&record) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let wanted: BTreeMap<&str, String> = snapshot.files().collect();
        let is_stale = |(path, id): &(&String, &String)| wanted.get(path.as_str()) != Some(id);
        // First, so that a directory may take the place of a file, or a file that of a directory.
        let stale: Vec<String> = self.written.iter().filter(is_stale).map(|(path, _)| path.clone()).collect();
        stale.iter().try_for_each(|path| self.remove(path))?;
        let mut left_out = 0;
        for (number, (path, id)) in snapshot.files().enumerate() {
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
