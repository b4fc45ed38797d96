//! Which index answers for a path, and what happens where it cannot be written.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::fs;
use std::path::{Path, PathBuf};

use quarry_index::{
    Changes, Error, Filter, Index, LOCAL_FOLDER, OpenOptions, Opened, Ranking, SearchRequest, Stale, Update,
};

const CONNECT: &str = "def connect(host):\n    return dial(host)\n";
const PARSE: &str = "def parse_header(line):\n    return line.split(':')\n";

/// A tree with an index in `.quarry`, so that no test touches the user's cache.
fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "net.py", CONNECT);
    write(tree.path(), "http/header.py", PARSE);
    write(tree.path(), "http/client/net.py", CONNECT);
    fs::create_dir(tree.path().join(LOCAL_FOLDER)).unwrap();
    let own = OpenOptions { enclosing: false, ..OpenOptions::default() };
    Index::open_or_build(tree.path(), &own, None, &|_| {}).unwrap();
    tree
}

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn open_as(path: &Path, update: Update) -> Result<Opened, Error> {
    Index::open_or_build(path, &OpenOptions { update, ..OpenOptions::default() }, None, &|_| {})
}

fn open(path: &Path) -> Opened {
    open_as(path, Update::IfPossible).unwrap()
}

fn paths_with(index: &Index, query: &str, filter: &Filter) -> Vec<String> {
    let request = SearchRequest { query, limit: 10, ranking: Ranking::default(), filter };
    let mut paths: Vec<String> =
        index.search(&request).unwrap().hits.into_iter().map(|hit| hit.path).collect();
    paths.sort();
    paths
}

fn paths(index: &Index, query: &str) -> Vec<String> {
    paths_with(index, query, &Filter::default())
}

/// The folder that the index of a path lies in.
fn place(path: &Path) -> PathBuf {
    Index::status(path, &OpenOptions::default()).unwrap().folder
}

#[test]
fn a_path_in_an_indexed_tree_uses_its_index_and_finds_what_is_below() {
    let tree = tree();
    open(tree.path());
    let sub = tree.path().join("http");
    let Opened { index, built, .. } = open(&sub);
    assert!(built.is_none());
    assert_eq!(paths(&index, "connect"), ["client/net.py"]);
    assert_eq!(paths(&index, "header"), ["header.py"]);
    let hit = index.unit_at("client/net.py", 1).unwrap();
    assert_eq!(
        (hit.path.as_str(), index.source(&hit).unwrap().as_str()),
        ("client/net.py", CONNECT.trim_end())
    );
    let similar = index.similar("client/net.py", 1, 10, &Filter::default()).unwrap().hits;
    assert_eq!(similar.iter().map(|hit| hit.path.as_str()).collect::<Vec<_>>(), ["header.py"]);
    // Globs are relative to the path as well.
    let filter = Filter::new(&[], &[], &["/client/**".to_owned()]).unwrap();
    assert_eq!(paths_with(&index, "connect", &filter), ["client/net.py"]);
    assert_eq!(paths(&open(&sub.join("client/net.py")).index, "connect host"), ["net.py"]);
    // What is new in the path is new in the tree.
    write(&sub, "proxy.py", CONNECT);
    let built = open(&sub).built.unwrap();
    assert_eq!(built.reason, Stale::Files(Changes { new: 1, ..Changes::default() }));
    assert_eq!(paths(&open(&sub).index, "connect"), ["client/net.py", "proxy.py"]);
    assert_eq!(paths(&open(tree.path()).index, "connect").len(), 3);
}

#[test]
fn the_nearest_index_counts() {
    let tree = tree();
    open(tree.path());
    let sub = tree.path().join("http");
    let whole = Index::status(&sub.join("client"), &OpenOptions::default()).unwrap();
    let root = tree.path().canonicalize().unwrap();
    assert_eq!((whole.root, whole.part.as_str()), (root.clone(), "http/client"));
    assert_eq!(whole.index.unwrap().files_in_part, 1);

    // A folder for an index that holds none yet is not nearer.
    fs::create_dir(sub.join(LOCAL_FOLDER)).unwrap();
    assert_eq!(place(&sub.join("client")), root.join(LOCAL_FOLDER));
    let own = OpenOptions { enclosing: false, ..OpenOptions::default() };
    assert_eq!(Index::open_or_build(&sub, &own, None, &|_| {}).unwrap().index.n_files(), 2);
    assert_eq!(place(&sub.join("client")), root.join("http").join(LOCAL_FOLDER));
    assert_eq!(place(tree.path()), root.join(LOCAL_FOLDER));

    // An index that is named is one of the very path.
    let named = tempfile::tempdir().unwrap();
    let options = OpenOptions { folder: Some(named.path().join("index")), ..OpenOptions::default() };
    let client = Index::open_or_build(&sub.join("client"), &options, None, &|_| {}).unwrap();
    assert_eq!((client.index.n_files(), client.built.unwrap().reason), (1, Stale::Missing));
}

#[test]
fn a_path_that_the_tree_ignores_does_not_use_its_index() {
    let tree = tree();
    write(tree.path(), ".gitignore", "http/\n");
    open(tree.path());
    let ignored = tree.path().join("http");
    assert_eq!(place(&ignored).parent().unwrap().file_name().unwrap(), "index");
    fs::create_dir(ignored.join(LOCAL_FOLDER)).unwrap();
    assert_eq!(paths(&open(&ignored).index, "connect"), ["client/net.py"]);
}

#[test]
fn an_index_in_the_tree_is_neither_committed_nor_indexed() {
    let tree = tree();
    assert_eq!(open(tree.path()).index.n_files(), 3);
    let local = tree.path().join(LOCAL_FOLDER);
    assert_eq!(fs::read_to_string(local.join(".gitignore")).unwrap(), "*\n");
    assert!(open(tree.path()).built.is_none());
}

#[test]
#[cfg(unix)]
fn a_link_is_no_folder_for_an_index() {
    let tree = tree();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::remove_dir_all(tree.path().join(LOCAL_FOLDER)).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), tree.path().join(LOCAL_FOLDER)).unwrap();
    assert_ne!(place(tree.path()).file_name().unwrap(), LOCAL_FOLDER);
}

#[test]
fn an_index_that_cannot_be_written_still_answers() {
    let tree = tree();
    open(tree.path());
    write(tree.path(), "new.py", CONNECT);
    // Not even the superuser can write to this lock.
    let lock = tree.path().join(LOCAL_FOLDER).join("lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    let Opened { index, built, outdated } = open(tree.path());
    assert_eq!(paths(&index, "connect"), ["http/client/net.py", "net.py"]);
    let outdated = outdated.unwrap();
    assert!(built.is_none());
    assert_eq!(outdated.reason, Stale::Files(Changes { new: 1, ..Changes::default() }));
    let message = outdated.error.to_string();
    assert!(message.contains("cannot write the index folder") && message.contains("--index"), "{message}");
    assert!(message.contains(".quarry"), "{message}");
    // Who asks for it to be brought up to date is told that it is not.
    assert!(matches!(open_as(tree.path(), Update::Required), Err(Error::IndexFolder { .. })));
    fs::remove_dir(&lock).unwrap();
    assert_eq!(paths(&open(tree.path()).index, "connect").len(), 3);
}
