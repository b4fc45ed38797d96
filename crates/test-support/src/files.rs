//! Directories of files that tests write, copy and compare.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Writes a file, and makes the directories that it lies in.
#[track_caller]
pub fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Writes files below a directory.
#[track_caller]
pub fn write_below(directory: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        write(directory.join(path), content);
    }
}

/// A temporary directory with these files.
#[track_caller]
pub fn directory_with(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    write_below(directory.path(), files);
    directory
}

/// The files below a directory, in order.
#[track_caller]
pub fn paths_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { paths_below(&path) } else { vec![path] }).collect();
    paths.sort();
    paths
}

/// The contents of the files below a directory, by their paths in it.
#[track_caller]
pub fn contents_below(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = |path: &Path| path.strip_prefix(directory).unwrap().to_str().unwrap().replace('\\', "/");
    paths_below(directory).iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
}

/// Copies the files below a directory whose paths in it pass.
#[track_caller]
pub fn copy_if(from: &Path, to: &Path, passes: impl Fn(&Path) -> bool) {
    for path in paths_below(from) {
        let name = path.strip_prefix(from).unwrap();
        if passes(name) {
            let copy = to.join(name);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(&path, copy).unwrap();
        }
    }
}

/// Copies the files below a directory.
#[track_caller]
pub fn copy(from: &Path, to: &Path) {
    copy_if(from, to, |_| true);
}
