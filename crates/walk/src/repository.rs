//! Origin of a checkout, as far as git's small files show it.
//!
//! They come with the tree, from whoever made it, and may say anything: what is read here is good for a guess that is
//! verified by other means, and names no path to write to.

use std::path::{Path, PathBuf};

/// Bytes of the largest of git's files that is read.
const MAX_BYTES: u64 = 1 << 20;

/// A working tree of git's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// The directory of the working tree.
    pub top: PathBuf,
    /// Git's own directory, which all working trees of a repository share.
    common: PathBuf,
    /// Local repositories that it was cloned from, by their git directories.
    origins: Vec<PathBuf>,
    /// Addresses that it was cloned from, without differences by the protocol.
    addresses: Vec<String>,
}

impl Checkout {
    /// The one that a path (canonical) lies in.
    pub fn find(path: &Path) -> Option<Self> {
        let top = path.ancestors().find(|around| around.join(".git").symlink_metadata().is_ok())?;
        let common = common_directory(&top.join(".git"))?;
        let mut checkout = Self { top: top.to_owned(), common, origins: Vec::new(), addresses: Vec::new() };
        let config = small_file(&checkout.common.join("config")).unwrap_or_default();
        for url in remotes(&config) {
            let path = url.strip_prefix("file://").unwrap_or(&url);
            if path.starts_with('/') {
                checkout.origins.extend(repository_at(Path::new(path)));
            } else {
                checkout.addresses.push(address(&url));
            }
        }
        Some(checkout)
    }

    /// Returns whether both are working trees of one repository, or of two of which one is a clone of the other, or
    /// that are clones of the same.
    pub fn is_related_to(&self, other: &Self) -> bool {
        let repositories =
            |checkout: &Self| [&checkout.origins[..], std::slice::from_ref(&checkout.common)].concat();
        let shared = repositories(other);
        repositories(self).iter().any(|repository| shared.contains(repository))
            || self.addresses.iter().any(|address| other.addresses.contains(address))
    }
}

/// Git's own directory of the repository at a path that somebody cloned: with or without a working tree.
fn repository_at(path: &Path) -> Option<PathBuf> {
    common_directory(&path.join(".git")).or_else(|| common_directory(path))
}

/// The directory that working trees share, of one whose `.git` is at a path: a directory, or a file that names one.
fn common_directory(dot_git: &Path) -> Option<PathBuf> {
    let own = if dot_git.is_dir() {
        dot_git.to_owned()
    } else {
        let named = small_file(dot_git)?;
        dot_git.parent()?.join(named.strip_prefix("gitdir:")?.trim())
    };
    // Of a further working tree it is the directory of that one, and names the one of all.
    let common = match small_file(&own.join("commondir")) {
        Some(common) => own.join(common.trim()),
        None => own,
    };
    common.join("HEAD").is_file().then(|| common.canonicalize().ok()).flatten()
}

fn small_file(path: &Path) -> Option<String> {
    quarry_files::read_regular_text(path, MAX_BYTES).ok()
}

/// The addresses of all remotes of a configuration file of git's.
fn remotes(config: &str) -> Vec<String> {
    let mut is_remote = false;
    let mut found = Vec::new();
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            is_remote = line.starts_with("[remote ");
        } else if let Some((key, value)) = line.split_once('=')
            && is_remote
            && key.trim() == "url"
        {
            found.push(value.trim().trim_matches('"').to_owned());
        }
    }
    found
}

/// An address without its scheme, its user and the ending that git does without: `host/path`.
fn address(url: &str) -> String {
    let (rest, has_scheme) = match url.split_once("://") {
        Some((_, rest)) => (rest, true),
        None => (url, false),
    };
    let host_end = rest.find('/').unwrap_or(rest.len());
    let rest = rest[..host_end].rfind('@').map_or(rest, |at| &rest[at + 1..]);
    // As scp names places: host:path.
    let rest = if has_scheme { rest.to_owned() } else { rest.replacen(':', "/", 1) };
    let rest = rest.trim_end_matches('/');
    rest.strip_suffix(".git").unwrap_or(rest).to_owned()
}

#[cfg(test)]
mod tests {
    use quarry_test_support::files::write_below;

    use super::*;

    #[test]
    fn checkouts_of_a_repository_are_related() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path);
        let config =
            |url: &str| format!("[core]\n\turl = x\n[remote \"origin\"]\n\turl = {url}\n\tfetch = y\n");
        // What `git init`, `git worktree add` and `git clone` leave, as far as it is read here.
        write_below(
            &root,
            &[
                ("main/.git/HEAD", "ref: refs/heads/main\n"),
                ("main/.git/config", &config("https://me:secret@example.org/a/b.git")),
                ("main/src/a.py", ""),
                ("main/.git/worktrees/tree/commondir", "../..\n"),
                ("main/.git/worktrees/tree/HEAD", ""),
                ("tree/.git", &format!("gitdir: {}\n", at("main/.git/worktrees/tree").display())),
                ("tree/src/a.py", ""),
                ("clone/.git/HEAD", ""),
                ("clone/.git/config", &config(at("main").to_str().unwrap())),
                ("other/.git/HEAD", ""),
                ("other/.git/config", &config("git@example.org:a/b")),
                ("bare.git/HEAD", ""),
                ("from_bare/.git/HEAD", ""),
                ("from_bare/.git/config", &config(&format!("file://{}", at("bare.git").display()))),
                ("also_from_bare/.git/HEAD", ""),
                ("also_from_bare/.git/config", &config(at("bare.git").to_str().unwrap())),
                ("stranger/.git/HEAD", ""),
                ("broken/.git", "gitdir: nowhere\n"),
                ("empty/.git/config", ""),
                ("plain/a.py", ""),
            ],
        );
        let checkout = |path: &str| Checkout::find(&at(path));
        for (path, top) in [("main/src", "main"), ("tree/src/a.py", "tree"), ("clone", "clone")] {
            assert_eq!(checkout(path).unwrap().top, at(top));
        }
        for path in ["broken", "empty", "plain"] {
            assert_eq!(checkout(path), None, "{path}");
        }
        let families = [&["main", "tree", "clone"][..], &["from_bare", "also_from_bare"], &["stranger"]];
        for family in families {
            for one in family {
                for other in families.iter().copied().flatten() {
                    let (one, other) = (checkout(one).unwrap(), checkout(other).unwrap());
                    let expected = family.iter().any(|name| at(name) == other.top);
                    assert_eq!(one.is_related_to(&other), expected, "{one:?} {other:?}");
                }
            }
        }
        assert!(checkout("other").unwrap().is_related_to(&checkout("main").unwrap()));
        assert!(checkout("tree").unwrap().is_related_to(&checkout("other").unwrap()));
    }

    #[test]
    fn an_address_is_the_same_however_it_is_reached() {
        for url in [
            "https://example.org/a/b.git",
            "https://me:secret@example.org/a/b/",
            "ssh://git@example.org/a/b.git",
            "git@example.org:a/b.git",
            "example.org:a/b",
        ] {
            assert_eq!(address(url), "example.org/a/b", "{url}");
        }
        assert_eq!(address("https://example.org:8443/a@b"), "example.org:8443/a@b");
    }
}
