//! Which index answers for a path, and which part of it.
//!
//! An index that is named (`--index`) is one of the path itself. Otherwise the nearest index counts: that of the path, else
//! of the folder around it, and so on upwards. At each of them the index in the tree (`.quarry/`), if this machine made
//! it, comes before the one in the user's cache. An index of a folder around the path answers only if it holds a file of it, which it does
//! not where the path is ignored there; if none does, the path gets an index of its own.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use quarry_walk as walk;

use crate::folder::IndexFolder;
use crate::records::Records;
use crate::table::Table;
use crate::{Error, OpenOptions};

/// Name of the folder in a tree that holds the tree's index, where there is such a folder. Being hidden it is not
/// indexed itself.
pub const LOCAL_FOLDER: &str = ".quarry";

/// An index, of which a path names the whole tree or a part.
pub(crate) struct Place {
    /// The tree, as it was named.
    pub root: PathBuf,
    /// Canonical path of the tree.
    pub canonical: PathBuf,
    pub folder: IndexFolder,
    pub scope: Scope,
}

/// The indexes that may answer for a path.
pub(crate) struct Places {
    /// Of folders around it, the nearest first; none where it has one of its own.
    pub enclosing: Vec<Place>,
    /// Of the path itself, which may have none yet.
    pub own: Place,
    /// What is in the place of an index in a tree, and was not made by this user on this machine.
    pub ignored: Vec<PathBuf>,
}

/// The part of a tree that a path names: by default all of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Scope {
    /// Relative to the root of the tree; empty for all of it.
    path: String,
    /// Where in the path of a file its path relative to the part begins.
    start: usize,
}

impl Places {
    /// Those of `root`.
    ///
    /// # Errors
    /// When `root` is missing, or the user names a folder with an index of somebody else's.
    pub fn of(root: &Path, options: &OpenOptions) -> Result<Self, Error> {
        let canonical = root.canonicalize().map_err(|source| Error::io("read", root, source))?;
        let records = Records::new(options.user.state.as_deref());
        let cache = options.user.cache.as_deref();
        let in_cache = |tree: &Path| cache.map(|cache| IndexFolder::in_cache(cache, tree));
        let mut ignored = Vec::new();
        // The index in a tree, if it may be read.
        let mut local = |tree: &Path, is_ignored: fn(&IndexFolder) -> bool| {
            let folder = IndexFolder::in_tree(tree, LOCAL_FOLDER.into(), records.clone());
            if !folder.is_trusted() {
                ignored.extend(is_ignored(&folder).then(|| folder.path()));
                return None;
            }
            Some(folder)
        };
        let folder = match &options.folder {
            Some(path) => IndexFolder::named(path, strangers(&canonical), records.clone())?,
            None if options.local => IndexFolder::in_tree(&canonical, LOCAL_FOLDER.into(), records.clone()),
            None => match local(&canonical, IndexFolder::is_there) {
                Some(folder) => folder,
                None => in_cache(&canonical).unwrap_or_else(IndexFolder::nowhere),
            },
        };
        let mut enclosing = Vec::new();
        if options.enclosing && options.folder.is_none() && !options.local && !folder.has_manifest() {
            for around in canonical.ancestors().skip(1) {
                let Some(scope) = Scope::of(&canonical, around) else { continue };
                let folder = local(around, IndexFolder::has_manifest).or_else(|| in_cache(around));
                let covers = |folder: &IndexFolder| {
                    folder.manifest().map_or(true, |manifest| manifest.walk.covers(options.walk))
                };
                let folder = folder.filter(|folder| folder.has_manifest() && covers(folder));
                if let Some(folder) = folder {
                    let root = around.to_owned();
                    enclosing.push(Place { canonical: root.clone(), root, folder, scope });
                }
            }
        }
        let own = Place { root: root.to_owned(), canonical, folder, scope: Scope::default() };
        Ok(Self { enclosing, own, ignored })
    }
}

/// The folder that came from strangers with a path (canonical): the repository around it, or else the folder itself.
fn strangers(path: &Path) -> &Path {
    let is_repository = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    let repository = path.ancestors().find(is_repository);
    repository.or_else(|| walk::base_folder(path).ok()).unwrap_or(path)
}

impl Scope {
    /// The part of the tree at `root` that `path` names, both canonical; none if its name is not UTF-8.
    fn of(path: &Path, root: &Path) -> Option<Self> {
        let parts: Option<Vec<&str>> =
            path.strip_prefix(root).ok()?.iter().map(|part| part.to_str()).collect();
        let relative = parts?.join("/");
        let folder = walk::base_folder(path).ok()?;
        // What is relative to a file is relative to its folder.
        let start =
            if folder == path { relative.len() + 1 } else { relative.rfind('/').map_or(0, |at| at + 1) };
        Some(Self { path: relative, start })
    }

    /// Whether this is the whole tree.
    pub fn is_all(&self) -> bool {
        self.path.is_empty()
    }

    /// The path of a file relative to the part; none if it lies outside.
    pub fn relative<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = path.strip_prefix(&self.path)?;
        (self.is_all() || rest.is_empty() || rest.starts_with('/')).then(|| &path[self.start..])
    }

    /// The path relative to the tree of what is called `path` in the part.
    pub fn absolute<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match self.path.get(..self.start.saturating_sub(1)) {
            Some(folder) if !folder.is_empty() => Cow::Owned(format!("{folder}/{path}")),
            _ => Cow::Borrowed(path),
        }
    }

    /// Relative to the root of the tree; empty for all of it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Number of files of a table that lie in the part.
    pub fn n_files(&self, table: &Table) -> usize {
        table.files.iter().filter(|file| self.relative(table.text(file.path)).is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_scope_names_its_files_as_if_it_were_the_root() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/c.py"), "").unwrap();
        fs::write(root.join("d.py"), "").unwrap();
        for (path, inside, outside) in [
            (
                "a/b",
                &[("a/b/c.py", "c.py"), ("a/b/d/e.py", "d/e.py")][..],
                &["a/bc.py", "a/c.py", "b/c.py"][..],
            ),
            ("a/b/c.py", &[("a/b/c.py", "c.py")], &["a/b/c.pyi", "a/b/d.py"]),
            ("d.py", &[("d.py", "d.py")], &["a/d.py"]),
            ("", &[("a/b/c.py", "a/b/c.py")], &[]),
        ] {
            let scope =
                if path.is_empty() { Scope::default() } else { Scope::of(&root.join(path), &root).unwrap() };
            for (whole, relative) in inside {
                assert_eq!(scope.relative(whole), Some(*relative), "{path}");
                assert_eq!(scope.absolute(relative), *whole, "{path}");
            }
            outside.iter().for_each(|file| assert_eq!(scope.relative(file), None, "{path} {file}"));
        }
    }
}
