//! Models that `quarry tune` made for trees.
//!
//! They are in the user's state directory, one directory a tree, with a record that says which model a search of the
//! tree uses in place of which other. Trees are strangers: nothing in one is read here.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

/// Name of the record in the directory of a tree.
pub const RECORD: &str = "tuned.json";

/// Maximum size of a record, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// A model that was tuned for a tree.
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
pub fn directory_of(tree: &Path) -> Option<PathBuf> {
    let hash = xxh3_128(tree.as_os_str().as_encoded_bytes());
    Some(directory()?.join(format!("{hash:032x}")))
}

impl Tuned {
    /// The model of the nearest of `path` and the directories around it.
    pub fn nearest(path: &Path) -> Option<Self> {
        // Nearly always the case, and then nothing else is looked at.
        if !directory()?.is_dir() {
            return None;
        }
        path.canonicalize().ok()?.ancestors().find_map(Self::for_tree)
    }

    /// The model of a tree, by its canonical path.
    pub fn for_tree(tree: &Path) -> Option<Self> {
        let tuned = Self::read(&directory_of(tree)?)?;
        // A copied record belongs to another tree.
        (tuned.tree == tree && Path::new(&tuned.file).file_name()? == tuned.file.as_str()).then_some(tuned)
    }

    /// The record in the directory of a tree.
    pub fn read(directory: &Path) -> Option<Self> {
        let bytes = quarry_files::read_regular(&directory.join(RECORD), MAX_BYTES).ok()?;
        serde_json::from_slice(&bytes).ok()
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
