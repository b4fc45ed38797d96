//! Starts a first index with that of another checkout of the same repository.
//!
//! A second working tree, or a second clone, has nearly identical files. The parts of its index are copied, and then
//! refreshed as after any change: files are compared by content, and unchanged ones are neither split into units nor
//! embedded again. Which trees are checkouts of one repository is read from git's small files, which are untrusted. So
//! only indexes that this machine made are used, as everywhere, and copies are written only to directories that are
//! private to the user, never into a tree.

use std::collections::BTreeMap;

use quarry_files::Directory;
use quarry_walk::Checkout;

use crate::lifecycle::changes::{Comparison, compare};
use crate::lifecycle::source_tree::Tree;
use crate::storage::index_directory::{IndexDirectory, Manifest, WriterLock};
use crate::storage::records::Records;
use crate::storage::stored_file::StoredFile;
use crate::storage::table::{PartSize, Table, open_directory};
use crate::version::PROGRAM;
use crate::{Error, UserDirectories};

/// Maximum number of indexes that are compared with the tree, the best first.
const MAX_CANDIDATES: usize = 3;

/// An index of another checkout.
struct Candidate {
    directory: IndexDirectory,
    manifest: Manifest,
}

/// Copies the parts of the index of another checkout as a generation of `tree`, and returns how the tree differs from
/// it; `None` if there is no such index, or it has little in common with the tree.
pub(crate) fn copy(
    lock: &WriterLock,
    tree: &Tree,
    user: &UserDirectories,
    model: Option<&str>,
) -> Option<(Manifest, Table, Comparison)> {
    let copied = |candidate: &Candidate| candidate.copy(lock, tree).ok().flatten();
    candidates(tree, user, model).iter().take(MAX_CANDIDATES).find_map(copied)
}

/// The indexes of the same directory in other checkouts of the tree's repository: those with vectors of the model first,
/// then the newest.
fn candidates(tree: &Tree, user: &UserDirectories, model: Option<&str>) -> Vec<Candidate> {
    let place = |root: &str| {
        let checkout = Checkout::find(root.as_ref())?;
        let inside = std::path::Path::new(root).strip_prefix(&checkout.top).ok()?.to_owned();
        Some((checkout, inside))
    };
    let Some((own, own_inside)) = place(tree.canonical) else { return Vec::new() };
    let records = Records::new(user.state.as_deref());
    let in_trees = records.indexes().into_iter().filter_map(|index| {
        let directory = IndexDirectory::in_tree(index.parent()?, index.file_name()?.into(), records.clone());
        directory.is_trusted().then_some(directory)
    });
    let cached = user.cache.as_deref().map(IndexDirectory::all_in_cache).unwrap_or_default();
    let is_of_repository = |manifest: &Manifest| {
        manifest.root != tree.canonical
            && manifest.program == PROGRAM
            && place(&manifest.root)
                .is_some_and(|(checkout, inside)| inside == own_inside && checkout.is_related_to(&own))
    };
    let candidate = |directory: IndexDirectory| {
        let manifest = directory.manifest().ok().filter(is_of_repository)?;
        Some(Candidate { directory, manifest })
    };
    let mut found: Vec<Candidate> = cached.into_iter().chain(in_trees).filter_map(candidate).collect();
    let has_model =
        |manifest: &Manifest| model.is_some_and(|model| manifest.models.iter().any(|id| id == model));
    found.sort_by_key(|Candidate { manifest, .. }| {
        std::cmp::Reverse((has_model(manifest), manifest.looked_ns))
    });
    found
}

impl Candidate {
    fn copy(&self, lock: &WriterLock, tree: &Tree) -> Result<Option<(Manifest, Table, Comparison)>, Error> {
        let from = self.directory.open_checked(&self.manifest)?;
        let parts = &self.manifest.parts;
        let table = self.manifest.table(&from)?;
        // The metadata of the other checkout's files prove nothing about these files.
        let mut manifest =
            Manifest { root: tree.canonical.to_owned(), looked_ns: 0, ..self.manifest.clone() };
        let comparison = compare(&table, &manifest, tree.base, tree.listing, tree.walk);
        let n_same = comparison.same.iter().flatten().count();
        if 2 * n_same < tree.listing.files.len() {
            return Ok(None);
        }
        let names = lock.start_parts(parts.len())?;
        let copied =
            parts.iter().zip(names).map(|(part, name)| copy_part(part, name, &from, &lock.directory));
        manifest.parts = copied.collect::<Result<_, Error>>()?;
        Ok(Some((manifest, table, comparison)))
    }
}

/// Copies a part under another name, with those of its vectors that are complete.
fn copy_part(part: &PartSize, name: String, from: &Directory, to: &Directory) -> Result<PartSize, Error> {
    let (from, to) = (part.directory(from)?, open_directory(to, &name)?);
    let files = part.files.iter().map(|file| file.copy(&from, &to)).collect::<Result<_, Error>>()?;
    let intact = |files: &BTreeMap<String, StoredFile>| {
        let copy = |(model, file): (&String, &StoredFile)| Some((model.clone(), file.copy(&from, &to).ok()?));
        files.iter().filter_map(copy).collect()
    };
    let (vectors, passages) = (intact(&part.vectors), intact(&part.passages));
    Ok(PartSize { name, files, vectors, passages, ..part.clone() })
}
