//! A searched tree: its index, and how its files are called from here.

use std::env;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use quarry_index::Index;
use quarry_walk as walk;

/// The index that answers for a path of the command line.
pub struct Tree {
    pub index: Index,
    /// Absolute path of the directory that the paths of results are relative to, links resolved.
    pub root: PathBuf,
    /// The same directory as it is called from the current one.
    base: PathBuf,
}

impl Tree {
    /// The index of `path`, which may be a file.
    ///
    /// # Errors
    /// When there is nothing at `path` any more.
    pub fn new(path: &Path, index: Index) -> anyhow::Result<Self> {
        let path = walk::resolved(path);
        let base = walk::base_folder(&path)?;
        let root = base.canonicalize().with_context(|| format!("cannot find {}", base.display()))?;
        Ok(Self { index, root, base: from_here(base, env::current_dir().ok().as_deref()) })
    }

    /// How a file of a result is called from the current directory.
    pub fn shown(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    /// [`Self::root`] for programs; what is not UTF-8 in it is replaced.
    pub fn root_text(&self) -> String {
        self.root.to_string_lossy().into_owned()
    }
}

/// A path without what leads back to the current directory: relative where it is below that.
fn from_here(path: &Path, current: Option<&Path>) -> PathBuf {
    let path = current.and_then(|current| path.strip_prefix(current).ok()).unwrap_or(path);
    path.components().filter(|part| *part != Component::CurDir).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_current_directory_where_they_are_below_it() {
        let check = |path: &str, expected: &str| {
            let found = from_here(Path::new(path), Some(Path::new("/users/me/project"))).join("a.rs");
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
