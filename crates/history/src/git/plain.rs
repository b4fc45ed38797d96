//! Checks that a repository contains only regular files and directories.
//!
//! libgit2 opens its files by name without checking their type: it would block on a pipe without a writer, and read a
//! device forever. A repository that was unpacked rather than cloned can contain either.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use quarry_files::{read_regular, read_regular_text};

/// Maximum number of files and directories to check.
const MAX_ENTRIES: usize = 5_000_000;

/// Maximum size in bytes of a file that libgit2 may read into memory.
const MAX_BYTES: u64 = 1 << 30;

/// Maximum size in bytes of a file that is read here.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Maximum nesting of included configuration files.
const MAX_DEPTH: usize = 10;

/// Directories of a repository that libgit2 does not access when reading a history. Names such as `HEAD@{1}` are looked
/// up in `logs`.
const NOT_READ: [&str; 2] = ["lfs", "modules"];

/// A path in a repository that cannot be read as a file, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct IrregularEntry {
    pub(super) path: PathBuf,
    pub(super) problem: String,
}

fn irregular(path: &Path, problem: impl Into<String>) -> IrregularEntry {
    IrregularEntry { path: path.to_owned(), problem: problem.into() }
}

/// Checks all directories from which a history is read: the repository's own, the one that it shares with other work
/// trees, and those from which it borrows objects.
///
/// # Errors
/// The first entry that is neither a file nor a directory, or is too large.
pub(super) fn check(repository: &Path) -> Result<(), IrregularEntry> {
    let mut seen = HashSet::new();
    let mut directories = vec![repository.to_owned()];
    let mut n_entries = 0;
    while let Some(directory) = directories.pop() {
        let unreadable = |error: io::Error| irregular(&directory, error.to_string());
        // Reporting missing directories is left to libgit2.
        let Ok(canonical) = directory.canonicalize() else { continue };
        if !seen.insert(canonical) {
            continue;
        }
        for entry in fs::read_dir(&directory).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            n_entries += 1;
            if n_entries > MAX_ENTRIES {
                return Err(irregular(repository, format!("there are more than {MAX_ENTRIES} files")));
            }
            let path = entry.path();
            if is_directory(&entry, &path)? {
                if !NOT_READ.iter().any(|name| entry.file_name() == *name) {
                    directories.push(path);
                }
            } else if entry.file_name() == "commondir" {
                directories.extend(named_in(&path, &directory)?);
            } else if entry.file_name() == "alternates" {
                // Relative to the objects directory, which contains `info/alternates`.
                directories.extend(named_in(&path, directory.parent().unwrap_or(&directory))?);
            } else if ["config", "config.worktree"].iter().any(|name| entry.file_name() == *name) {
                check_configuration(&path, 0)?;
            }
        }
    }
    Ok(())
}

/// Returns whether an entry is a directory or a link to one, rather than a file.
fn is_directory(entry: &DirEntry, path: &Path) -> Result<bool, IrregularEntry> {
    let kind = entry.file_type().map_err(|error| irregular(path, error.to_string()))?;
    if kind.is_dir() {
        return Ok(true);
    }
    // A dangling link counts as missing.
    let Ok(found) = fs::metadata(path) else { return Ok(false) };
    if found.is_dir() {
        return Ok(true);
    }
    if !found.is_file() {
        return Err(irregular(path, "neither a file nor a directory"));
    }
    let is_mapped = path.components().any(|part| part.as_os_str() == "pack");
    if found.len() > MAX_BYTES && !is_mapped && entry.file_name() != "index" {
        return Err(irregular(path, format!("longer than {MAX_BYTES} bytes")));
    }
    Ok(false)
}

/// The directories listed in a file, one per line, relative to `base`.
fn named_in(path: &Path, base: &Path) -> Result<Vec<PathBuf>, IrregularEntry> {
    let bytes = read_regular(path, MAX_TEXT_BYTES).map_err(|error| irregular(path, error.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    let names = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(names.map(|name| base.join(name)).collect())
}

/// Checks the files that a configuration file includes. Syntax beyond the plain form is rejected, because libgit2
/// might interpret it differently.
fn check_configuration(path: &Path, depth: usize) -> Result<(), IrregularEntry> {
    // A missing included file is ignored, as in git.
    if depth > 0 && path.symlink_metadata().is_err() {
        return Ok(());
    }
    let text = read_regular_text(path, MAX_TEXT_BYTES).map_err(|error| irregular(path, error.to_string()))?;
    for included in included_paths(&text).map_err(|problem| irregular(path, problem))? {
        if depth == MAX_DEPTH {
            return Err(irregular(path, "includes files nested too deeply"));
        }
        match included.strip_prefix("~/") {
            // The user's own file.
            Some(rest) if !rest.contains("..") => {}
            _ => check_configuration(&path.parent().unwrap_or(path).join(&included), depth + 1)?,
        }
    }
    Ok(())
}

/// The paths that a configuration includes, in `[include]` or `[includeIf …]`, and all other values named `path` in
/// these sections.
fn included_paths(text: &str) -> Result<Vec<String>, String> {
    let is_include = |part: &str| {
        let name = part.trim_start().as_bytes();
        name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"include"))
    };
    if !text.split('[').skip(1).any(is_include) {
        return Ok(Vec::new());
    }
    let mut included = Vec::new();
    for line in text.lines() {
        // A key may follow the name of its section on the same line.
        let line = match line.trim_start().strip_prefix('[').map(|rest| rest.split_once(']')) {
            None => line,
            Some(Some((name, rest))) if !name.contains('=') && !rest.trim_start().starts_with('[') => rest,
            Some(_) => {
                return Err("includes other files, with sections that are not written plainly".to_owned());
            }
        };
        let Some((key, value)) = line.split_once('=') else { continue };
        if !key.trim().eq_ignore_ascii_case("path") {
            continue;
        }
        let value = value.trim();
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        if value.is_empty() || value.contains(['"', '\\', ';', '#', '%', ']']) {
            return Err("includes other files by a path that is not written plainly".to_owned());
        }
        included.push(value.to_owned());
    }
    Ok(included)
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn pipe(path: &Path) {
        let _ = fs::remove_file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    /// A repository with a commit, and a sibling directory.
    fn repository() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let repository = git2::Repository::init(directory.path().join("tree")).unwrap();
        let signature = git2::Signature::now("a", "b").unwrap();
        let tree = repository.find_tree(repository.index().unwrap().write_tree().unwrap()).unwrap();
        repository.commit(Some("HEAD"), &signature, &signature, "first", &tree, &[]).unwrap();
        let git = directory.path().join("tree/.git");
        (directory, git)
    }

    fn append(path: &Path, text: &str) {
        let before = fs::read_to_string(path).unwrap_or_default();
        fs::write(path, before + text).unwrap();
    }

    #[test]
    fn a_plain_repository_is_read() {
        let (directory, git) = repository();
        assert_eq!(check(&git), Ok(()));
        append(
            &git.join("config"),
            "[include]\n\tpath = ../shared\n[includeIf \"gitdir:x\"] path = ~/mine\n",
        );
        append(&directory.path().join("tree/shared"), "[user]\nname = x\n[include]\npath = missing\n");
        fs::create_dir_all(git.join("objects/info")).unwrap();
        append(&git.join("objects/info/alternates"), "../../../other\n# comment\n/missing\n");
        symlink("nowhere", git.join("dangling")).unwrap();
        symlink(".", git.join("loop")).unwrap();
        pipe(&git.join("lfs/pipe"));
        assert_eq!(check(&git), Ok(()));
    }

    /// Each of these would make libgit2 block, or read forever.
    #[test]
    fn special_files_that_block_libgit2_are_found() {
        for name in [
            "HEAD",
            "config",
            "packed-refs",
            "shallow",
            "commondir",
            "objects/info/alternates",
            "refs/heads/x",
            "logs/HEAD",
            "logs/refs/heads/x",
        ] {
            let (_directory, git) = repository();
            pipe(&git.join(name));
            assert_eq!(check(&git).unwrap_err().path, git.join(name), "{name}");
        }
        let (directory, git) = repository();
        let other = directory.path().join("other");
        pipe(&other.join("objects/pipe"));
        for (name, text) in [
            ("config", "[include]\npath = ../../other/objects/pipe\n"),
            ("config.worktree", "[core]\n[ INCLUDE ] PATH = \"../../other/objects/pipe\"\n"),
            ("commondir", "../../other\n"),
            ("objects/info/alternates", "../../../other/objects\n"),
        ] {
            let (before, path) = (fs::read(git.join(name)), git.join(name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            append(&path, text);
            let found = check(&git).unwrap_err();
            assert_eq!(found.path.file_name().unwrap(), "pipe", "{name}");
            before.map_or_else(|_| fs::remove_file(&path), |before| fs::write(&path, before)).unwrap();
        }
        symlink("/dev/zero", git.join("zero")).unwrap();
        assert_eq!(check(&git), Err(irregular(&git.join("zero"), "neither a file nor a directory")));
        fs::remove_file(git.join("zero")).unwrap();
        File::create(git.join("long")).unwrap().set_len(1 << 40).unwrap();
        assert!(check(&git).unwrap_err().problem.starts_with("longer than"));
        fs::remove_file(git.join("long")).unwrap();
        append(&git.join("config"), "[include]\npath = a\\\nb\n");
        assert!(check(&git).unwrap_err().problem.contains("not written plainly"));
        fs::write(git.join("config"), "[include]\npath = config\n").unwrap();
        assert!(check(&git).unwrap_err().problem.contains("nested too deeply"));
    }
}
