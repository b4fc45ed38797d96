//! Models that `quarry tune` made for trees.
//!
//! Replacing or removing the record of one is the only step that changes searches, so that an interrupted command leaves
//! things as they were.

use std::path::Path;

use anyhow::Context;
pub use quarry_session::tuned::{RECORD, Tuned, directory_of};

/// The models tuned for any tree, ascending by its path.
#[cfg(feature = "data")]
pub fn all() -> Vec<Tuned> {
    let entries = quarry_session::tuned::directory().and_then(|directory| std::fs::read_dir(directory).ok());
    let record =
        |entry: std::io::Result<std::fs::DirEntry>| Tuned::for_tree(&Tuned::read(&entry.ok()?.path())?.tree);
    let mut all: Vec<Tuned> = entries.into_iter().flatten().filter_map(record).collect();
    all.sort_by(|a, b| a.tree.cmp(&b.tree));
    all
}

/// Makes searches of a tree, given by its canonical path, use the model that they used before anything was tuned.
/// Returns true if something was tuned.
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

    /// Makes searches of a tree use a model from now on; one that was tuned before is removed.
    ///
    /// # Errors
    /// When this user's state directory cannot be written; nothing has changed then.
    pub fn keep(tuned: &Tuned, model: &[u8]) -> anyhow::Result<()> {
        let directory = directory_of(&tuned.tree)
            .context("this user has no state directory to keep a model in; set XDG_STATE_HOME or HOME")?;
        create_private_directory(&directory).with_context(|| new_file::cannot_write(&directory))?;
        let before = Tuned::for_tree(&tuned.tree);
        new_file::write_bytes(&directory.join(&tuned.file), model)?;
        new_file::write_json(&directory.join(RECORD), tuned)?;
        // Leftovers only waste space.
        if let Some(before) = before.filter(|before| before.file != tuned.file) {
            _ = fs::remove_file(directory.join(before.file));
        }
        Ok(())
    }
}
