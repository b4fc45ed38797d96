//! Files that cannot be found because they could not be read.

use std::ops::Range;
use std::path::Path;

use quarry_walk::{self as walk, Listing, SkipReason, Skipped, WalkOptions};

use crate::index::roots::Tree;
use crate::index::scope::Scope;
use crate::lifecycle::build::empty_tree_error;
use crate::lifecycle::location::IndexLocation;
use crate::storage::table::FileRecord;
use crate::{Error, Index};

/// The skipped files whose content could not be read or is binary, and directories that could not be listed.
pub(crate) fn unread(skipped: &[Skipped]) -> Vec<Skipped> {
    let is_unread = |file: &&Skipped| matches!(file.reason, SkipReason::Unreadable(_) | SkipReason::Binary);
    skipped.iter().filter(is_unread).cloned().collect()
}

impl Index {
    /// Files of the tree, or of the searched part of it, whose content could not be read or is binary, and
    /// directories that could not be listed; each with the index of the searched path that contains it, and its path
    /// as in results.
    pub fn unread(&self) -> Vec<(usize, Skipped)> {
        let of_tree = |tree: &Tree| {
            let relative = |file: &Skipped| {
                let mut roots = tree.roots.iter();
                roots.find_map(|root| Some((root.number, part_of(file, &root.scope)?)))
            };
            tree.unread.iter().filter_map(relative).collect::<Vec<_>>()
        };
        self.trees.iter().flat_map(of_tree).collect()
    }

    /// Adds files and directories that could not be listed.
    pub(crate) fn add_unread(&mut self, listing: &Listing) {
        for file in unread(&listing.skipped) {
            if !self.trees[0].unread.contains(&file) {
                self.trees[0].unread.push(file);
            }
        }
    }

    /// Checks that the part of the tree at `path` has units, unless it is the whole tree; if it is a file, that it
    /// has units that can be found.
    ///
    /// # Errors
    /// When it has none, because files could not be read, or because the file is not one that can be indexed.
    pub(crate) fn check_readable(
        &self,
        path: &Path,
        location: &IndexLocation,
        found: &WalkOptions,
    ) -> Result<(), Error> {
        let scope = &location.scope;
        if path.is_file() && !scope.is_all() {
            return self.check_file(path, scope, found);
        }
        let unread: Vec<Skipped> =
            self.trees[0].unread.iter().filter_map(|file| part_of(file, scope)).collect();
        if unread.is_empty() || scope.is_all() {
            return Ok(());
        }
        let has_units = |(file, units): (&FileRecord, &Range<usize>)| {
            !units.is_empty() && scope.relative(self.table.text(file.path)).is_some()
        };
        if self.table.files.iter().zip(&self.units_of_files).any(has_units) {
            return Ok(());
        }
        Err(empty_tree_error(path, found, &[], &unread))
    }

    fn check_file(&self, path: &Path, scope: &Scope, found: &WalkOptions) -> Result<(), Error> {
        let is_found = |(file, units): (&FileRecord, &Range<usize>)| {
            let is_listed = || found.lists(file.text_bytes.into(), file.flags());
            !units.is_empty() && scope.relative(self.table.text(file.path)).is_some() && is_listed()
        };
        if self.table.files.iter().zip(&self.units_of_files).any(is_found) {
            return Ok(());
        }
        match skip_reason(path, found)? {
            Some(problem) => Err(empty_tree_error(path, found, &[], &[problem])),
            None => Ok(()),
        }
    }
}

/// Why a given file is skipped; `None` if it is not.
fn skip_reason(path: &Path, options: &WalkOptions) -> Result<Option<Skipped>, Error> {
    let listing = walk::list(path, options)?;
    let Some(file) = listing.files.first() else { return Ok(listing.skipped.into_iter().next()) };
    let read = walk::read(&walk::open(walk::base_directory(path)?)?, file, options);
    Ok(read.err().map(|reason| Skipped { path: file.path.clone(), reason }))
}

/// A skipped file, with its path in a part of the tree; `None` if it is outside.
fn part_of(file: &Skipped, scope: &Scope) -> Option<Skipped> {
    Some(Skipped { path: scope.relative(&file.path)?.to_owned(), reason: file.reason.clone() })
}
