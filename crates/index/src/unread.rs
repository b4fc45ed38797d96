//! What of a tree is not found because it could not be read.

use std::ops::Range;
use std::path::Path;

use quarry_walk::{Listing, SkipReason, Skipped};

use crate::build::nothing_to_index;
use crate::table::FileRecord;
use crate::{Error, Index};

/// Of what was left out the files whose content could not be read or is binary, and directories that could not be listed.
pub(crate) fn unread(skipped: &[Skipped]) -> Vec<Skipped> {
    let is_unread = |file: &&Skipped| matches!(file.reason, SkipReason::Unreadable(_) | SkipReason::Binary);
    skipped.iter().filter(is_unread).cloned().collect()
}

impl Index {
    /// Files of the tree, or of the part of it that is searched, whose content could not be read or is binary, and
    /// directories that could not be listed; with paths as results have them.
    #[must_use]
    pub fn unread(&self) -> Vec<Skipped> {
        let relative = |file: &Skipped| {
            let path = self.scope.relative(&file.path)?.to_owned();
            Some(Skipped { path, reason: file.reason.clone() })
        };
        self.unread.iter().filter_map(relative).collect()
    }

    /// Adds what could not be listed.
    pub(crate) fn add_unread(&mut self, listing: &Listing) {
        for file in unread(&listing.skipped) {
            if !self.unread.contains(&file) {
                self.unread.push(file);
            }
        }
    }

    /// Sees whether there is something to find in the part that `path` names.
    ///
    /// # Errors
    /// When there is nothing, because it could not be read.
    pub(crate) fn check_readable(&self, path: &Path) -> Result<(), Error> {
        let unread = self.unread();
        if unread.is_empty() {
            return Ok(());
        }
        let has_units = |(file, units): (&FileRecord, &Range<usize>)| {
            !units.is_empty() && self.scope.relative(self.table.text(file.path)).is_some()
        };
        if self.table.files.iter().zip(&self.units_of_files).any(has_units) {
            return Ok(());
        }
        Err(nothing_to_index(path, &self.found, &unread))
    }
}
