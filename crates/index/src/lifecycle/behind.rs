//! Differences between files and an open index, for answers that do not wait for its refresh.

use std::path::Path;

use quarry_walk as walk;

use crate::Index;
use crate::index::roots::{Root, prefix};
use crate::lifecycle::changes::compare_rows;

/// Maximum number of changed files listed.
const MAX_NAMED: usize = 20;

/// Searched files that have changed since an index was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Behind {
    /// Number of files.
    pub total: usize,
    /// The first 20: the number of the searched path of each, and its path relative to that.
    pub files: Vec<(usize, String)>,
}

impl Index {
    /// The searched files that were changed, added or removed since the index was opened; `None` if that is unknown, as for an
    /// index in memory.
    pub fn behind(&self) -> Option<Behind> {
        let mut behind = Behind::default();
        for tree in &self.trees {
            let stored = tree.stored.as_ref()?;
            let manifest = stored.directory.manifest().ok()?;
            let root: &Path = stored.canonical.as_ref();
            let base = &walk::open(walk::base_directory(root).ok()?).ok()?;
            let listing = walk::list(root, &manifest.walk).ok()?;
            let files = (&self.table, tree.files.clone());
            let found = compare_rows(files, &manifest, base, &listing, &manifest.walk);
            // Files of a nested tree are in the index of that.
            let nested: Vec<String> =
                self.trees.iter().filter_map(|other| prefix(&tree.base, &other.base)).collect();
            let is_nested = |path: &str| {
                nested.iter().any(|nested| !nested.is_empty() && path.starts_with(nested.as_str()))
            };
            for path in found.changed_paths.iter().filter(|path| !is_nested(path)) {
                let in_root = |root: &Root| Some((root.number, root.scope.relative(path)?.to_owned()));
                let Some(file) = tree.roots.iter().find_map(in_root) else { continue };
                behind.total += 1;
                if behind.files.len() < MAX_NAMED {
                    behind.files.push(file);
                }
            }
        }
        Some(behind)
    }
}
