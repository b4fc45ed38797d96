//! The repository's files, in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use ignore::WalkBuilder;

/// Files by path, which is relative to the repository and joined by `/`.
#[derive(Debug, Default)]
pub(crate) struct Tree(BTreeMap<String, Vec<u8>>);

impl Tree {
    /// Reads the files that git tracks, or if there is no git (a release archive) all that are not ignored.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let paths = tracked(root).map_or_else(|| walked(root), Ok)?;
        let mut files = BTreeMap::new();
        for path in paths {
            let file = root.join(&path);
            // Git goes on listing a file that was deleted and not yet committed.
            if file.is_file() {
                let bytes = std::fs::read(&file).with_context(|| format!("{path}: cannot be read"))?;
                files.insert(path, bytes);
            }
        }
        Ok(Self(files))
    }

    /// All files, in ascending order of paths.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// The files that are UTF-8 text, in ascending order of paths.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter_map(|(path, bytes)| Some((path, as_text(bytes)?)))
    }

    /// The content of a text file, if there is one.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        as_text(self.0.get(path)?)
    }

    /// Returns whether there is a file or a directory with this path; a directory may end in `/`.
    pub(crate) fn has(&self, path: &str) -> bool {
        let directory = format!("{}/", path.trim_end_matches('/'));
        self.0.contains_key(path) || self.0.keys().any(|file| file.starts_with(&directory))
    }

    /// Names of the directories directly in `directory` (which ends in `/`, or is empty), ascending.
    pub(crate) fn directories<'a>(&'a self, directory: &'a str) -> Vec<&'a str> {
        let inside = self.0.keys().filter_map(|path| path.strip_prefix(directory));
        let mut names: Vec<&str> = inside.filter_map(|path| Some(path.split_once('/')?.0)).collect();
        names.dedup();
        names
    }
}

fn as_text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

fn tracked(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().ok()?;
    let list = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = list.split_terminator('\0').map(str::to_owned).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> anyhow::Result<Vec<String>> {
    // Only the repository's own ignore files count, not those of the user.
    let walk = WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .git_exclude(false)
        .git_global(false)
        .parents(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    let mut paths = Vec::new();
    for entry in walk {
        let entry = entry?;
        // Git tracks links as it does files.
        if entry.path().is_file() {
            let parts: Vec<_> =
                entry.path().strip_prefix(root)?.iter().map(|part| part.to_string_lossy()).collect();
            paths.push(parts.join("/"));
        }
    }
    Ok(paths)
}

#[cfg(test)]
impl<'a> FromIterator<(&'a str, &'a str)> for Tree {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(files: I) -> Self {
        Self(files.into_iter().map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_what_git_tracks() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let walked = walked(&root).unwrap();
        for path in tracked(&root).unwrap_or_default() {
            assert!(walked.contains(&path) || !root.join(&path).exists(), "{path}");
        }
        assert!(walked.iter().any(|path| path == "crates/xtask/src/tree.rs"));
        assert!(!walked.iter().any(|path| path.starts_with(".git/") || path.starts_with("target/")));
    }

    #[test]
    fn finds_files_and_directories() {
        let tree: Tree = [("a/b/c.rs", ""), ("a/d.rs", ""), ("e.md", "")].into_iter().collect();
        assert!(["a", "a/", "a/b", "a/b/c.rs", "e.md"].iter().all(|path| tree.has(path)));
        assert!(!["b", "a/c", "a/b/c", "e"].iter().any(|path| tree.has(path)));
        assert_eq!((tree.directories(""), tree.directories("a/")), (vec!["a"], vec!["b"]));
    }
}
