//! Models that `quarry tune` made for trees.
//!
//! They are in the user's state directory, one directory a tree, with a record that says which model a search of the
//! tree uses in place of which other. Replacing or removing the record is the only step that changes searches, so that an
//! interrupted command leaves things as they were. Trees are strangers: nothing in one is read or written here.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

/// Name of the record in the directory of a tree.
pub const RECORD: &str = "tuned.json";

/// Maximum size of a record, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// What was tuned for a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuned {
    /// Canonical path of the tree.
    pub tree: PathBuf,
    /// Name of the model whose place it takes: a path, or `builtin`. Where searches would use another one, because the
    /// tree was indexed with it or the settings name it, that one is used.
    pub in_place_of: String,
    /// File of the model, in the directory of the record.
    pub file: String,
    /// Its identity.
    pub model: String,
}

/// The directory of all tuned models; none if this user has no state directory.
pub fn directory() -> Option<PathBuf> {
    Some(quarry_files::state_directory()?.join("tuned"))
}

/// The directory of a tree, by its canonical path.
fn directory_of(tree: &Path) -> Option<PathBuf> {
    let hash = xxh3_128(tree.as_os_str().as_encoded_bytes());
    Some(directory()?.join(format!("{hash:032x}")))
}

impl Tuned {
    /// What was tuned for the nearest of `path` and the directories around it.
    pub fn nearest(path: &Path) -> Option<Self> {
        // Nearly always the case, and then nothing else is looked at.
        if !directory()?.is_dir() {
            return None;
        }
        path.canonicalize().ok()?.ancestors().find_map(Self::of)
    }

    /// What was tuned for a tree, by its canonical path.
    pub fn of(tree: &Path) -> Option<Self> {
        let bytes = quarry_files::read_regular(&directory_of(tree)?.join(RECORD), MAX_BYTES).ok()?;
        let tuned: Self = serde_json::from_slice(&bytes).ok()?;
        // A copied record belongs to another tree.
        (tuned.tree == tree && Path::new(&tuned.file).file_name()? == tuned.file.as_str()).then_some(tuned)
    }

    /// The path of the record.
    pub fn record(&self) -> Option<PathBuf> {
        Some(directory_of(&self.tree)?.join(RECORD))
    }

    /// The path of the model.
    pub fn path(&self) -> Option<PathBuf> {
        Some(directory_of(&self.tree)?.join(&self.file))
    }
}

/// What was tuned for any tree, ascending by its path.
#[cfg(feature = "data")]
pub fn all() -> Vec<Tuned> {
    let entries = directory().and_then(|directory| std::fs::read_dir(directory).ok());
    let record = |entry: std::io::Result<std::fs::DirEntry>| {
        let bytes = quarry_files::read_regular(&entry.ok()?.path().join(RECORD), MAX_BYTES).ok()?;
        let tuned: Tuned = serde_json::from_slice(&bytes).ok()?;
        Tuned::of(&tuned.tree)
    };
    let mut all: Vec<Tuned> = entries.into_iter().flatten().filter_map(record).collect();
    all.sort_by(|a, b| a.tree.cmp(&b.tree));
    all
}

/// Has searches of a tree, by its canonical path, use the model that they used before anything was tuned. Returns whether
/// something was.
///
/// # Errors
/// When the record cannot be removed.
pub fn undo(tree: &Path) -> anyhow::Result<bool> {
    let Some(directory) = directory_of(tree) else { return Ok(false) };
    let record = directory.join(RECORD);
    match std::fs::remove_file(&record) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => {
            return Err(error).with_context(|| format!("{}: cannot be removed", record.display()));
        }
    }
    _ = std::fs::remove_dir_all(&directory);
    Ok(true)
}

#[cfg(feature = "train")]
pub use writing::keep;

#[cfg(feature = "train")]
mod writing {
    use std::fs;

    use anyhow::Context;
    use quarry_files::create_private_directory;

    use super::{RECORD, Tuned, directory_of};
    use crate::new_file;

    /// Has searches of a tree use a model from now on; one that was tuned before is removed.
    ///
    /// # Errors
    /// When this user's state directory cannot be written; nothing has changed then.
    pub fn keep(tuned: &Tuned, model: &[u8]) -> anyhow::Result<()> {
        let directory = directory_of(&tuned.tree)
            .context("this user has no state directory to keep a model in; set XDG_STATE_HOME or HOME")?;
        create_private_directory(&directory).with_context(|| new_file::cannot_write(&directory))?;
        let before = Tuned::of(&tuned.tree);
        new_file::write_bytes(&directory.join(&tuned.file), model)?;
        new_file::write_json(&directory.join(RECORD), tuned)?;
        // What remains of it wastes space, and nothing else.
        if let Some(before) = before.filter(|before| before.file != tuned.file) {
            _ = fs::remove_file(directory.join(before.file));
        }
        Ok(())
    }
}
