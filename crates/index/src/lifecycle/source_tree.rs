//! The current state of a tree, which an index is brought up to.

use std::path::Path;

use quarry_files::Directory;
use quarry_walk::{Listing, Skipped, WalkChoice, WalkOptions};

use crate::lifecycle::options::OpenOptions;
use crate::storage::index_directory::Manifest;
use crate::storage::table::TableSize;
use crate::version::{FORMAT, PROGRAM};

/// The settings of `quarry index`, which an index keeps until they are changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RememberedSettings {
    /// Choice of the files that a search finds.
    pub walk: WalkChoice,
    /// Name of the model.
    pub model: Option<String>,
}

impl RememberedSettings {
    pub fn from_manifest(manifest: &Manifest) -> Self {
        Self { walk: manifest.remembered, model: manifest.remembered_model.clone() }
    }

    /// These settings, changed by `options`.
    pub fn overridden_by(self, options: &OpenOptions) -> Self {
        if !options.remember {
            return self;
        }
        Self { walk: options.walk.or(self.walk), model: options.model.clone().or(self.model) }
    }
}

/// The current state of a tree.
pub(crate) struct Tree<'a> {
    pub root: &'a Path,
    /// The directory that listed paths are relative to.
    pub base: &'a Directory,
    pub canonical: &'a str,
    /// Options of the listing.
    pub walk: &'a WalkOptions,
    /// The settings for the index to remember.
    pub remembered: &'a RememberedSettings,
    pub listing: &'a Listing,
    /// When it was listed, in nanoseconds since 1970.
    pub looked_ns: u64,
}

impl Tree<'_> {
    /// The manifest of an index of the tree, without anything that was indexed.
    pub fn manifest(&self) -> Manifest {
        Manifest {
            format: FORMAT,
            generation: String::new(),
            root: self.canonical.to_owned(),
            program: PROGRAM.to_owned(),
            walk: *self.walk,
            remembered: self.remembered.walk,
            remembered_model: self.remembered.model.clone(),
            models: Vec::new(),
            size: TableSize { files: 0, units: 0 },
            files: Vec::new(),
            parts: Vec::new(),
            looked_ns: self.looked_ns,
            skipped: Vec::new(),
        }
    }
}

/// The files of a tree that are not indexed, ascending by path: those that the listing skips, and the listed ones
/// that could not be indexed.
pub(crate) fn left_out(listing: &Listing, read: &[Skipped]) -> Vec<Skipped> {
    let is_listed =
        |file: &&Skipped| listing.files.binary_search_by(|listed| listed.path.cmp(&file.path)).is_ok();
    let mut all: Vec<Skipped> =
        listing.skipped.iter().chain(read.iter().filter(is_listed)).cloned().collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}
