//! Finding the index that a search of a path uses, and the part of it that corresponds to the path.
//!
//! An index given by name (`--index`) belongs to the path itself. Otherwise the nearest index is used: that of the
//! path, of its parent directory, and so on upwards. In each directory, the index in the tree (`.quarry/`), if this
//! machine wrote it, takes precedence over the one in the user's cache. An index of an enclosing directory is used
//! only if it contains a file of the path, which may be ignored there; if none does, the path gets its own index.

use std::path::{Path, PathBuf};

use quarry_walk as walk;

use crate::index::scope::Scope;
use crate::storage::index_directory::IndexDirectory;
use crate::storage::records::Records;
use crate::{Error, OpenOptions};

/// Name of the directory in a tree that contains the tree's index, if it is stored there. It is hidden, so it is not
/// indexed itself.
pub const LOCAL_DIRECTORY: &str = ".quarry";

/// Location of an index, the tree that it covers, and the part of the tree that a path names.
pub(crate) struct IndexLocation {
    /// The tree, as given by the user.
    pub root: PathBuf,
    /// Canonical path of the tree.
    pub canonical: PathBuf,
    pub directory: IndexDirectory,
    pub scope: Scope,
}

/// The indexes that a search of a path may use.
pub(crate) struct IndexLocations {
    /// Indexes of enclosing directories, the nearest first; empty if the path has an index of its own.
    pub enclosing: Vec<IndexLocation>,
    /// The index of the path itself, which may not exist yet.
    pub own: IndexLocation,
    /// Index directories in trees that are ignored because this user did not write them on this machine.
    pub ignored: Vec<PathBuf>,
}

impl IndexLocations {
    /// Finds the indexes for `root`.
    ///
    /// # Errors
    /// When `root` is missing, or the user gives a directory with an untrusted index.
    pub fn find(root: &Path, options: &OpenOptions) -> Result<Self, Error> {
        let canonical = root.canonicalize().map_err(|source| Error::io("read", root, source))?;
        let records = Records::new(options.user.state.as_deref());
        let cache = options.user.cache.as_deref();
        let in_cache = |tree: &Path| cache.map(|cache| IndexDirectory::in_cache(cache, tree));
        let mut ignored = Vec::new();
        // The index in a tree, if it may be read.
        let mut local = |tree: &Path, is_ignored: fn(&IndexDirectory) -> bool| {
            let directory = IndexDirectory::in_tree(tree, LOCAL_DIRECTORY.into(), records.clone());
            if !directory.is_trusted() {
                ignored.extend(is_ignored(&directory).then(|| directory.path()));
                return None;
            }
            Some(directory)
        };
        let directory = match &options.directory {
            Some(path) => IndexDirectory::named(path, untrusted_directory(&canonical), records.clone())?,
            None if options.local => {
                IndexDirectory::in_tree(&canonical, LOCAL_DIRECTORY.into(), records.clone())
            }
            None => match local(&canonical, IndexDirectory::exists) {
                Some(directory) => directory,
                None => in_cache(&canonical).unwrap_or_else(IndexDirectory::nowhere),
            },
        };
        let mut enclosing = Vec::new();
        if options.enclosing && options.directory.is_none() && !options.local && !directory.has_manifest() {
            for around in canonical.ancestors().skip(1) {
                let Some(scope) = Scope::new(&canonical, around) else { continue };
                let directory = local(around, IndexDirectory::has_manifest).or_else(|| in_cache(around));
                let covers = |directory: &IndexDirectory| {
                    directory.manifest_or_copy().is_none_or(|manifest| manifest.walk.covers(options.walk))
                };
                let directory = directory.filter(|directory| directory.has_manifest() && covers(directory));
                if let Some(directory) = directory {
                    let root = around.to_owned();
                    enclosing.push(IndexLocation { canonical: root.clone(), root, directory, scope });
                }
            }
        }
        let own = IndexLocation { root: root.to_owned(), canonical, directory, scope: Scope::default() };
        Ok(Self { enclosing, own, ignored })
    }
}

/// The untrusted directory that a canonical path belongs to: the repository that contains it, otherwise the directory
/// itself.
fn untrusted_directory(path: &Path) -> &Path {
    let is_repository = |directory: &&Path| directory.join(".git").symlink_metadata().is_ok();
    let repository = path.ancestors().find(is_repository);
    repository.or_else(|| walk::base_directory(path).ok()).unwrap_or(path)
}
