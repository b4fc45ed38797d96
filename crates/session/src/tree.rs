//! The searched tree: an index, and the paths of its files from the current directory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::env;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use quarry_index::{Behind, Error, Filter, Hit, Index};
use quarry_source::SourceText;
use quarry_walk::{self as walk, WalkError};

/// An index that answers for some paths, with the files that were read for its results.
pub struct Tree {
    /// The index of all paths.
    pub index: Arc<Index>,
    /// The roots of the paths, in their order.
    roots: Arc<[Root]>,
    elsewhere: Option<Arc<dyn Elsewhere>>,
    behind: Option<Arc<Behind>>,
    /// The files read so far, by root and path.
    texts: RefCell<HashMap<(usize, String), Text>>,
}

/// A [`Tree`] that many threads answer from.
#[derive(Clone)]
pub struct SharedTree {
    /// The index of all paths.
    pub index: Arc<Index>,
    roots: Arc<[Root]>,
    elsewhere: Option<Arc<dyn Elsewhere>>,
    behind: Option<Arc<Behind>>,
}

/// The purpose for which a tree is needed.
#[derive(Debug, Clone, Copy)]
pub enum Need<'a> {
    /// Units that answer a query.
    Query(&'a str, &'a Filter, usize),
    /// Units similar to the one at a line of a file in one of the searched paths, by its number.
    Like((usize, &'a str, u32), &'a Filter, usize),
    /// A file in one of the searched paths, by its number.
    File(usize, &'a str),
    /// Callers and callees.
    Calls,
}

/// Trees that are stored elsewhere, of which each request needs a part.
pub trait Elsewhere: Send + Sync {
    /// An index with what is needed, and the data that belong to it.
    ///
    /// # Errors
    /// When it is not stored, or not available now.
    fn index(&self, need: &Need) -> Result<Index, Error>;

    /// Number of units and of files.
    fn sizes(&self) -> (usize, usize);
}

impl SharedTree {
    /// The same tree, of which these files have changed since it was indexed.
    #[must_use]
    pub fn behind(self, behind: Option<Arc<Behind>>) -> Self {
        Self { behind, ..self }
    }

    /// A tree that has read no file yet.
    pub fn tree(&self) -> Tree {
        self.with(Arc::clone(&self.index))
    }

    /// A tree for the given purpose.
    ///
    /// # Errors
    /// When it is stored elsewhere and not available.
    pub fn tree_for(&self, need: &Need) -> Result<Tree, Error> {
        match &self.elsewhere {
            Some(elsewhere) => Ok(self.with(Arc::new(elsewhere.index(need)?))),
            None => Ok(self.tree()),
        }
    }

    /// Returns true if it is stored elsewhere.
    pub fn is_elsewhere(&self) -> bool {
        self.elsewhere.is_some()
    }

    /// Number of units and of files.
    pub fn sizes(&self) -> (usize, usize) {
        self.tree().sizes()
    }

    fn with(&self, index: Arc<Index>) -> Tree {
        let (roots, elsewhere, behind) =
            (Arc::clone(&self.roots), self.elsewhere.clone(), self.behind.clone());
        Tree { index, roots, elsewhere, behind, texts: RefCell::default() }
    }
}

/// A file; none if it could not be read.
type Text = Rc<Option<SourceText>>;

/// Why there is no such tree.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// There is nothing at the path, or no source.
    #[error(transparent)]
    Walk(#[from] WalkError),
    /// The path has disappeared.
    #[error("{}: cannot be read", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

struct Root {
    /// Absolute path of the directory that the paths of results are relative to, with links resolved.
    absolute: PathBuf,
    /// The same directory, relative to the current one.
    base: PathBuf,
}

impl Tree {
    /// The index of `paths`, which may be files.
    ///
    /// # Errors
    /// When one of them no longer exists.
    pub fn new(paths: &[PathBuf], index: Index) -> Result<Self, TreeError> {
        let current = env::current_dir().ok();
        let root = |path: &PathBuf| {
            let path = walk::resolved(path);
            let base = walk::base_directory(&path)?;
            let absolute =
                base.canonicalize().map_err(|source| TreeError::Missing { path: base.to_owned(), source })?;
            Ok(Root { absolute, base: relative_to_current(base, current.as_deref()) })
        };
        let roots = paths.iter().map(root).collect::<Result<_, TreeError>>()?;
        let index = Arc::new(index);
        Ok(Self { index, roots, elsewhere: None, behind: None, texts: RefCell::default() })
    }

    /// Trees that are stored elsewhere; `roots` are the directories in which they were indexed, and `index` has none of
    /// their files.
    pub fn elsewhere(roots: &[PathBuf], index: Index, elsewhere: Arc<dyn Elsewhere>) -> Self {
        let root = |path: &PathBuf| Root { absolute: path.clone(), base: path.clone() };
        let roots = roots.iter().map(root).collect();
        let (index, elsewhere) = (Arc::new(index), Some(elsewhere));
        Self { index, roots, elsewhere, behind: None, texts: RefCell::default() }
    }

    /// Returns true if it is stored elsewhere.
    pub fn is_elsewhere(&self) -> bool {
        self.elsewhere.is_some()
    }

    /// The files that have changed since it was indexed, if it is being refreshed.
    pub fn changed_files(&self) -> Option<&Arc<Behind>> {
        self.behind.as_ref()
    }

    /// Number of units and of files.
    pub fn sizes(&self) -> (usize, usize) {
        let here = || self.index.sizes_of_roots();
        self.elsewhere.as_ref().map_or_else(here, |elsewhere| elsewhere.sizes())
    }

    /// The data shared between threads; [`SharedTree::tree`] makes a tree from it.
    pub fn shared(&self) -> SharedTree {
        let (index, roots) = (Arc::clone(&self.index), Arc::clone(&self.roots));
        SharedTree { index, roots, elsewhere: self.elsewhere.clone(), behind: self.behind.clone() }
    }

    /// The path of a result's file, relative to the current directory.
    pub fn shown(&self, hit: &Hit) -> PathBuf {
        self.shown_in(hit.root, &hit.path)
    }

    /// The path of a file in one of the searched paths (by its number), relative to the current directory.
    pub fn shown_in(&self, root: usize, path: &str) -> PathBuf {
        not_an_option(self.roots[root].base.join(path))
    }

    /// The directory that the path of a result is relative to, for programs; invalid UTF-8 in it is replaced.
    pub fn root_of(&self, hit: &Hit) -> String {
        self.root(hit.root)
    }

    /// The directory that paths in one of the searched paths (by its number) are relative to, for programs.
    pub fn root(&self, number: usize) -> String {
        self.roots[number].absolute.to_string_lossy().into_owned()
    }

    /// The distinct directories that paths of results may be relative to, in the order of the command line.
    pub fn roots(&self) -> Vec<String> {
        let mut roots: Vec<String> = Vec::new();
        for root in self.roots.iter() {
            let root = root.absolute.to_string_lossy().into_owned();
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        roots
    }

    /// Prefix of the paths of results in each of several searched paths; empty for one.
    pub fn prefixes(&self) -> Vec<String> {
        match self.n_paths() {
            1 => Vec::new(),
            n => (0..n).map(|number| self.shown_in(number, "").to_string_lossy().into_owned()).collect(),
        }
    }

    /// The names of the searched paths, by their numbers: those of their directories.
    pub fn names(&self) -> Vec<String> {
        let name = |root: &Root| root.absolute.file_name().map(|name| name.to_string_lossy().into_owned());
        self.roots.iter().map(|root| name(root).unwrap_or_default()).collect()
    }

    /// Number of the searched paths.
    pub fn n_paths(&self) -> usize {
        self.roots.len()
    }

    /// The nearest common directory of all searched paths.
    pub fn common_root(&self) -> &Path {
        let is_around = |path: &&Path| self.roots.iter().all(|root| root.absolute.starts_with(path));
        self.roots[0].absolute.ancestors().find(is_around).unwrap_or(Path::new(""))
    }

    /// The path of a result relative to [`common_root`](Self::common_root), `/` between its parts.
    pub fn path_in_common(&self, hit: &Hit) -> String {
        let root = &self.roots[hit.root].absolute;
        let inside = root.strip_prefix(self.common_root()).unwrap_or(root);
        let parts = inside.iter().map(|part| part.to_string_lossy().into_owned());
        parts.chain([hit.path.clone()]).collect::<Vec<_>>().join("/")
    }

    /// The file of a result, which is read once; none if it was removed since the index was opened.
    pub fn text(&self, hit: &Hit) -> Text {
        let mut texts = self.texts.borrow_mut();
        let text =
            texts.entry((hit.root, hit.path.clone())).or_insert_with(|| Rc::new(self.index.text(hit).ok()));
        Rc::clone(text)
    }
}

/// A path as seen from the current directory: relative if it is below that.
fn relative_to_current(path: &Path, current: Option<&Path>) -> PathBuf {
    let path = current.and_then(|current| path.strip_prefix(current).ok()).unwrap_or(path);
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// A path that programs do not take for an option: with `./` before a `-`.
fn not_an_option(path: PathBuf) -> PathBuf {
    if path.as_os_str().as_encoded_bytes().starts_with(b"-") { Path::new(".").join(path) } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_current_directory_where_they_are_below_it() {
        let check = |path: &str, expected: &str| {
            let found =
                relative_to_current(Path::new(path), Some(Path::new("/users/me/project"))).join("a.rs");
            assert_eq!(found, Path::new(expected), "{path}");
        };
        check(".", "a.rs");
        check("./src/.", "src/a.rs");
        check("src", "src/a.rs");
        check("../other", "../other/a.rs");
        check("/users/me/project", "a.rs");
        check("/users/me/project/src", "src/a.rs");
        check("/users/me/projects", "/users/me/projects/a.rs");
        check("/usr/src", "/usr/src/a.rs");
    }
}
