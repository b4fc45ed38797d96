//! Resolves a path of a caller to an indexed file or directory. Nothing here looks at the file system: what is not
//! listed is missing, so that neither `..` nor a symbolic link leads out of the tree.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use quarry_session::text::quoted;
use quarry_text::nearest;

use crate::ToolError;

/// Paths that an error suggests.
const N_SUGGESTIONS: usize = 3;

/// The part of the tree that a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TreePath {
    Root,
    /// A directory, relative to the root.
    Directory(String),
    /// A file, relative to the root.
    File(String),
}

impl TreePath {
    /// Resolves `path` among `files`, which are relative to the root with `/` between their parts. It may be relative,
    /// or begin with one of `roots`, the absolute paths of the root.
    pub(crate) fn resolve(path: &str, roots: &[PathBuf], files: &[&str]) -> Result<Self, ToolError> {
        let relative = relative(path, roots)?;
        if relative.is_empty() {
            return Ok(Self::Root);
        }
        if files.contains(&relative.as_str()) {
            return Ok(Self::File(relative));
        }
        // As answers show it.
        if let Some(shown) = files.iter().find(|file| quoted(file) == path) {
            return Ok(Self::File((*shown).to_owned()));
        }
        if files.iter().any(|file| is_below(file, &relative)) {
            return Ok(Self::Directory(relative));
        }
        let directories: BTreeSet<&str> =
            files.iter().flat_map(|file| file.match_indices('/').map(|(end, _)| &file[..end])).collect();
        let candidates = files.iter().copied().chain(directories);
        Err(ToolError::UnknownPath {
            path: path.to_owned(),
            nearest: nearest(&relative, candidates, N_SUGGESTIONS),
        })
    }

    /// The file that `path` means.
    pub(crate) fn file(path: &str, roots: &[PathBuf], files: &[&str]) -> Result<String, ToolError> {
        let directory = match Self::resolve(path, roots, files)? {
            Self::File(file) => return Ok(file),
            Self::Directory(directory) => directory,
            Self::Root => String::new(),
        };
        let some = files
            .iter()
            .filter(|file| directory.is_empty() || is_below(file, &directory))
            .take(N_SUGGESTIONS);
        Err(ToolError::IsDirectory {
            path: path.to_owned(),
            files: some.map(|file| (*file).to_owned()).collect(),
        })
    }

    /// Globs of a search in this part: `globs` are relative to it, as those of a `.gitignore` in it.
    pub(crate) fn globs(&self, globs: &[String]) -> Vec<String> {
        let directory = match self {
            Self::Root => return globs.to_vec(),
            // It is all that can be found.
            Self::File(file) => return vec![format!("/{}", escaped(file))],
            Self::Directory(directory) => escaped(directory),
        };
        let all = format!("/{directory}/**");
        let below = globs.iter().map(|glob| {
            let (sign, glob) = glob.strip_prefix('!').map_or(("", glob.as_str()), |glob| ("!", glob));
            // A glob without a slash but at its end holds at any depth.
            let is_anchored = glob.trim_end_matches('/').contains('/');
            let depth = if is_anchored { "" } else { "**/" };
            format!("{sign}/{directory}/{depth}{}", glob.trim_start_matches('/'))
        });
        if globs.iter().all(|glob| glob.starts_with('!')) {
            std::iter::once(all).chain(below).collect()
        } else {
            below.collect()
        }
    }
}

fn is_below(file: &str, directory: &str) -> bool {
    file.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// `path` without its root, `.` and `..`.
fn relative(path: &str, roots: &[PathBuf]) -> Result<String, ToolError> {
    let outside =
        || ToolError::OutsideRoot { path: path.to_owned(), root: roots.first().cloned().unwrap_or_default() };
    let given = Path::new(path.trim());
    let inner = if given.has_root() {
        roots.iter().find_map(|root| given.strip_prefix(root).ok()).ok_or_else(outside)?
    } else {
        given
    };
    let mut parts: Vec<&str> = Vec::new();
    for component in inner.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str().ok_or_else(outside)?),
            Component::ParentDir => {
                parts.pop().ok_or_else(outside)?;
            }
            Component::RootDir | Component::Prefix(_) => return Err(outside()),
        }
    }
    Ok(parts.join("/"))
}

/// A path as a glob that matches it alone.
fn escaped(path: &str) -> String {
    let special = |c: char| "\\*?[]{}!#".contains(c);
    path.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 5] =
        ["README.md", "src/http/header.rs", "src/http/server.rs", "src/lib.rs", "test[1]/a.rs"];

    fn tree_path(path: &str) -> Result<TreePath, String> {
        let roots = [PathBuf::from("/trees/shop"), PathBuf::from("/mnt/shop")];
        TreePath::resolve(path, &roots, &FILES).map_err(|error| error.report())
    }

    #[test]
    fn paths_are_relative_or_below_the_root() {
        for path in ["", ".", "./", "/trees/shop", "src/.."] {
            assert_eq!(tree_path(path), Ok(TreePath::Root), "{path}");
        }
        let file = Ok(TreePath::File("src/lib.rs".to_owned()));
        for path in ["src/lib.rs", "./src//lib.rs", "/trees/shop/src/lib.rs", "/mnt/shop/src/x/../lib.rs"] {
            assert_eq!(tree_path(path), file, "{path}");
        }
        assert_eq!(tree_path("src/http/"), Ok(TreePath::Directory("src/http".to_owned())));
    }

    #[test]
    fn a_path_may_be_given_as_it_is_shown() {
        let files = ["a b.py", "x\n2. y.py"];
        for file in files {
            let shown = quoted(file).into_owned();
            assert!(shown.starts_with('"') && !shown.contains('\n'));
            assert_eq!(TreePath::resolve(&shown, &[], &files).unwrap(), TreePath::File(file.to_owned()));
        }
    }

    #[test]
    fn paths_outside_are_refused() {
        for path in ["..", "../shop/src/lib.rs", "src/../../x", "/etc/passwd", "/trees/shopping/a", "/"] {
            assert!(tree_path(path).unwrap_err().contains("outside of the root /trees/shop"), "{path}");
        }
    }

    #[test]
    fn unknown_paths_are_answered_with_near_ones() {
        let error = tree_path("src/header.rs").unwrap_err();
        assert!(error.contains("nearest: src/http/header.rs"), "{error}");
        assert!(tree_path("source/http").unwrap_err().contains("src/http"));
        let roots = [PathBuf::from("/trees/shop")];
        let error = TreePath::file("src/http", &roots, &FILES).unwrap_err().report();
        assert!(error.contains("is a directory") && error.contains("src/http/server.rs"), "{error}");
    }

    #[test]
    fn globs_are_relative_to_the_place() {
        let globs = |path: TreePath, globs: &[&str]| {
            path.globs(&globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>())
        };
        let directory = || TreePath::Directory("src/http".to_owned());
        assert_eq!(globs(TreePath::Root, &["*.rs"]), ["*.rs"]);
        assert_eq!(globs(directory(), &[]), ["/src/http/**"]);
        assert_eq!(globs(directory(), &["*.rs"]), ["/src/http/**/*.rs"]);
        assert_eq!(globs(directory(), &["/a/*.rs"]), ["/src/http/a/*.rs"]);
        assert_eq!(globs(directory(), &["!tests/"]), ["/src/http/**", "!/src/http/**/tests/"]);
        assert_eq!(globs(TreePath::File("test[1]/a.rs".to_owned()), &["*.py"]), ["/test\\[1\\]/a.rs"]);
    }
}
