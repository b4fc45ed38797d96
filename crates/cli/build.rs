//! Says which build this is, for `quarry --version`: the commit, if known, and the target.
//!
//! The commit is what `QUARRY_COMMIT` says, or an archive that git made (which fills in `commit.txt`), or cargo's own
//! record in a published package, or the repository. It is read from files: no program is started, and sources without
//! any of these build as well.

#![allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Digits of a commit that are shown.
const N_DIGITS: usize = 12;

fn main() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo:rerun-if-env-changed=QUARRY_COMMIT");
    let commit = env::var("QUARRY_COMMIT").ok().and_then(|text| commit_in(&text));
    let commit = commit.or_else(|| commit_in(&read(&package.join("commit.txt"))?));
    let commit =
        commit.or_else(|| commit_in(read(&package.join(".cargo_vcs_info.json"))?.split("\"sha1\"").nth(1)?));
    let commit = commit.or_else(|| commit_of_repository(&package.join("../..")));
    let target = env::var("TARGET").unwrap_or_default();
    let build = match commit {
        Some(commit) => format!("{}, {target}", &commit[..N_DIGITS]),
        None => target,
    };
    println!("cargo:rustc-env=QUARRY_BUILD={build}");
}

/// The text of a file, which is watched from now on. Watching one that is missing would build anew every time.
fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo:rerun-if-changed={}", path.display());
    Some(text)
}

/// The first commit that a text names.
fn commit_in(text: &str) -> Option<String> {
    let is_commit = |word: &&str| word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split(|c: char| !c.is_ascii_alphanumeric()).find(is_commit).map(str::to_owned)
}

fn commit_of_repository(root: &Path) -> Option<String> {
    let git = root.join(".git");
    // In a further work tree a file says where the repository is.
    let own = match fs::read_to_string(&git) {
        Ok(text) => root.join(text.strip_prefix("gitdir:")?.trim()),
        Err(_) => git,
    };
    let head = read(&own.join("HEAD"))?;
    // Every commit is a line more in it, wherever the branch is kept.
    read(&own.join("logs/HEAD"));
    let Some(branch) = head.strip_prefix("ref:").map(str::trim) else { return commit_in(&head) };
    let shared =
        fs::read_to_string(own.join("commondir")).map_or_else(|_| own.clone(), |path| own.join(path.trim()));
    if let Ok(text) = fs::read_to_string(shared.join(branch)) {
        return commit_in(&text);
    }
    let packed = fs::read_to_string(shared.join("packed-refs")).ok()?;
    let line =
        packed.lines().find(|line| line.strip_suffix(branch).is_some_and(|rest| rest.ends_with(' ')))?;
    commit_in(line)
}
