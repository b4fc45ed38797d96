//! The part of a tree that corresponds to a searched path.

use std::borrow::Cow;
use std::path::Path;

use quarry_walk as walk;

use crate::storage::table::Table;

/// The part of a tree that corresponds to a path: by default all of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Scope {
    /// Relative to the root of the tree; empty for all of it.
    path: String,
    /// Offset in the path of a file at which its path relative to the part begins.
    start: usize,
}

impl Scope {
    /// The part of the tree at `root` that corresponds to `path`, both canonical; `None` if its name is not UTF-8.
    pub fn new(path: &Path, root: &Path) -> Option<Self> {
        let parts: Option<Vec<&str>> =
            path.strip_prefix(root).ok()?.iter().map(|part| part.to_str()).collect();
        let relative = parts?.join("/");
        let directory = walk::base_directory(path).ok()?;
        // Paths relative to a file are relative to its directory.
        let start =
            if directory == path { relative.len() + 1 } else { relative.rfind('/').map_or(0, |at| at + 1) };
        Some(Self { path: relative, start })
    }

    /// Returns whether this is the whole tree.
    pub fn is_all(&self) -> bool {
        self.path.is_empty()
    }

    /// The path of a file relative to the part; `None` if it is outside.
    pub fn relative<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = path.strip_prefix(&self.path)?;
        (self.is_all() || rest.is_empty() || rest.starts_with('/')).then(|| &path[self.start..])
    }

    /// The path relative to the tree for a path relative to the part.
    pub fn absolute<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match self.path.get(..self.start.saturating_sub(1)) {
            Some(directory) if !directory.is_empty() => Cow::Owned(format!("{directory}/{path}")),
            _ => Cow::Borrowed(path),
        }
    }

    /// Relative to the root of the tree; empty for all of it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Number of files of a table that are in the part.
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
                if path.is_empty() { Scope::default() } else { Scope::new(&root.join(path), &root).unwrap() };
            for (whole, relative) in inside {
                assert_eq!(scope.relative(whole), Some(*relative), "{path}");
                assert_eq!(scope.absolute(relative), *whole, "{path}");
            }
            outside.iter().for_each(|file| assert_eq!(scope.relative(file), None, "{path} {file}"));
        }
    }
}
