//! The searched paths, and several indexes as one.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_source::SourceText;
use quarry_walk::{Skipped, WalkOptions};

use crate::index::Dense;
use crate::index::intact::OverwriteDetector;
use crate::index::scope::Scope;
use crate::index::unindexed::UnindexedFiles;
use crate::lexical::LexicalIndex;
use crate::storage::index_directory::IndexDirectory;
use crate::storage::table::Table;
use crate::vectors::UnitVectors;
use crate::vectors::passages::PassageVectors;
use crate::{Error, Filter, Index};

/// Location of a stored index.
#[derive(Debug, Clone)]
pub(crate) struct StoredIndex {
    pub directory: IndexDirectory,
    /// Canonical path of the tree.
    pub canonical: String,
}

/// A searched path.
#[derive(Clone)]
pub(crate) struct Root {
    /// Its index among the paths that are searched together.
    pub number: usize,
    /// The directory that the paths of its results are relative to.
    pub base: PathBuf,
    /// The part of its tree that it corresponds to.
    pub scope: Scope,
    /// Options of the files that are found.
    pub found: WalkOptions,
    /// A filter for this path, in addition to that of a search.
    pub filter: Filter,
}

/// An indexed tree.
#[derive(Clone)]
pub(crate) struct Tree {
    /// Canonical path of the directory that the paths of its files are relative to.
    pub base: PathBuf,
    /// Location of its index; `None` if that is in memory.
    pub stored: Option<StoredIndex>,
    /// Its rows in the table of files.
    pub files: Range<usize>,
    /// Its files whose content could not be read or is binary, and directories that could not be listed.
    pub unread: Vec<Skipped>,
    /// Its files that are not indexed but may be text.
    pub others: UnindexedFiles,
    /// The searched paths in it, in order.
    pub roots: Vec<Root>,
    /// The texts that an editor has of its files, by path, where they differ from what is on disk.
    pub unsaved: HashMap<String, Arc<SourceText>>,
}

impl Index {
    /// Combines several indexes with the same model: term weights, mean text lengths and best scores are then
    /// computed over all of them. A file that several of them contain is found once. A search of the parts of a tree
    /// ranks like a search of the tree, unless the names of these parts match the query.
    ///
    /// # Errors
    /// When there are too many, or they are too large for one table.
    pub fn merge(mut indexes: Vec<Self>) -> Result<Self, Error> {
        if indexes.len() == 1 {
            return Ok(indexes.remove(0));
        }
        // Equal scores are in the order of paths, as in one index.
        indexes.sort_by(|a, b| a.trees[0].base.cmp(&b.trees[0].base));
        let kept: Vec<Vec<bool>> = (0..indexes.len()).map(|at| kept_files(&indexes, at)).collect();
        let (mut trees, mut tables, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut embedder, mut matrices) = (None, Vec::new());
        let has_passages =
            indexes.iter().flat_map(|index| &index.dense).any(|dense| !dense.passages.is_empty());
        let mut passages = Vec::new();
        let mut intact = Vec::new();
        let mut start = 0;
        for (index, kept) in indexes.into_iter().zip(kept) {
            let end = start + kept.iter().filter(|kept| **kept).count();
            trees.extend(index.trees.into_iter().map(|tree| Tree { files: start..end, ..tree }));
            start = end;
            tables.push((index.table, kept));
            intact.extend(index.intact);
            parts.extend(index.lexical.into_parts());
            if let Some(dense) = index.dense {
                matrices.extend(dense.matrix.parts);
                passages.extend(dense.passages);
                // An index in memory has none, nor has one whose units no re-ranker has read.
                passages.resize_with(matrices.len(), || PassageVectors::missing(0).into());
                embedder = Some(dense.embedder);
            }
        }
        let table = Table::merge(tables)?;
        let numbering = Arc::new(table.numbering());
        let lexical = LexicalIndex::from_parts(parts, &numbering, &table.field_sizes());
        if !has_passages {
            passages.clear();
        }
        let matrix = UnitVectors { parts: matrices, numbering };
        let dense = embedder.map(|embedder| Dense { embedder, matrix, passages });
        Ok(Self {
            intact: OverwriteDetector::combine(intact),
            ..Self::from_parts(trees, table, lexical, dense, None)
        })
    }

    /// Sets the filter of the searched path with an index.
    pub fn narrow(&mut self, root: usize, filter: Filter) {
        let roots = self.trees.iter_mut().flat_map(|tree| &mut tree.roots);
        roots.filter(|found| found.number == root).for_each(|found| found.filter = filter.clone());
    }

    /// Gives the searched paths other numbers: `numbers` has the new one of each.
    ///
    /// # Panics
    /// When there are fewer numbers than searched paths.
    pub fn renumber(&mut self, numbers: &[usize]) {
        for root in self.trees.iter_mut().flat_map(|tree| &mut tree.roots) {
            root.number = numbers[root.number];
        }
    }

    /// Number of units and of files that searches of its paths find, which may be a part of the index.
    pub fn sizes_of_roots(&self) -> (usize, usize) {
        let found = self.units_of_files.iter().enumerate().filter(|(row, _)| self.root_of(*row).is_some());
        found.fold((0, 0), |(units, files), (_, of_file)| (units + of_file.len(), files + 1))
    }

    /// The searched path with an index.
    pub(crate) fn root(&self, number: usize) -> Option<&Root> {
        self.roots().find(|root| root.number == number)
    }

    /// The searched paths.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Root> {
        self.trees.iter().flat_map(|tree| &tree.roots)
    }

    /// The first of the searched paths in which a file (given by its row) is found, as far as its path determines
    /// that, and its path relative to it.
    pub(crate) fn root_of(&self, row: usize) -> Option<(&Root, &str)> {
        let file = &self.table.files[row];
        self.roots_around(row).find(|(root, path)| {
            root.found.lists(file.text_bytes.into(), file.flags()) && root.filter.path(path, file.flags())
        })
    }

    /// The outermost of the searched paths that contain a file (given by its row), and its path relative to it.
    pub(crate) fn outermost_root_of(&self, row: usize) -> Option<(&Root, &str)> {
        self.roots_around(row).max_by_key(|(_, path)| path.len())
    }

    /// The searched paths that contain a file (given by its row), found or not, and its paths relative to them.
    pub(crate) fn roots_around(&self, row: usize) -> impl Iterator<Item = (&Root, &str)> {
        let tree = &self.trees[self.trees.partition_point(|tree| tree.files.end <= row)];
        let path = self.table.text(self.table.files[row].path);
        tree.roots.iter().filter_map(move |root| Some((root, root.scope.relative(path)?)))
    }
}

/// For each file of an index, whether it is kept because it does not belong to a nested tree with its own index.
fn kept_files(indexes: &[Index], at: usize) -> Vec<bool> {
    let index = &indexes[at];
    let mut kept = vec![true; index.table.files.len()];
    for (other_at, other) in indexes.iter().enumerate().filter(|(other_at, _)| *other_at != at) {
        let Some(inside) = prefix(&index.trees[0].base, &other.trees[0].base) else { continue };
        if inside.is_empty() && other_at > at {
            continue;
        }
        for (row, file) in index.table.files.iter().enumerate() {
            let Some(path) = index.table.text(file.path).strip_prefix(inside.as_str()) else { continue };
            let found = other.table.files.binary_search_by(|file| other.table.text(file.path).cmp(path));
            if found.is_ok_and(|row| other.root_of(row).is_some()) {
                kept[row] = false;
            }
        }
    }
    kept
}

/// The prefix of paths relative to `outer` that are in `inner`; `None` if `inner` is not in `outer`.
pub(crate) fn prefix(outer: &Path, inner: &Path) -> Option<String> {
    let mut prefix = String::new();
    for part in inner.strip_prefix(outer).ok()? {
        prefix.push_str(part.to_str()?);
        prefix.push('/');
    }
    Some(prefix)
}
