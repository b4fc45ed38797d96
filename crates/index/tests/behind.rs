//! Files that have changed since an index was opened.

use std::fs;
use std::path::Path;

use quarry_index::{Behind, Index, OpenOptions, UserDirectories};
use quarry_test_support::files;

fn write(path: &Path, name: &str) {
    files::write(path, format!("def {name}(host):\n    return dial(host)\n"));
}

#[test]
fn an_open_index_names_the_files_that_have_changed_since() {
    let temporary = tempfile::tempdir().unwrap();
    let at = |path: &str| temporary.path().join(path);
    for path in ["tree/a.py", "tree/net/b.py", "tree/net/c.py", "other/e.py"] {
        write(&at(path), "connect");
    }
    let user = UserDirectories::below(&at("user"));
    let options = OpenOptions { user, ..OpenOptions::default() };
    let open = |paths: &[&str]| {
        let paths: Vec<_> = paths.iter().map(|path| at(path)).collect();
        let paths: Vec<_> = paths.iter().map(|path| (path.as_path(), &options)).collect();
        let opened = Index::open_or_build_all(&paths, None, &|_| {}).unwrap();
        Index::merge(opened.into_iter().map(|opened| opened.index).collect()).unwrap()
    };
    let behind = |index: &Index| {
        let mut found = index.behind().unwrap();
        found.files.sort();
        found
    };
    let (tree, both, part) = (open(&["tree"]), open(&["other", "tree"]), open(&["tree/net"]));
    assert_eq!(tree.behind(), Some(Behind::default()));
    write(&at("tree/net/b.py"), "connect_changed");
    write(&at("tree/net/d.py"), "connect_new");
    fs::remove_file(at("tree/net/c.py")).unwrap();
    let expected = |root: usize, files: &[&str]| Behind {
        total: files.len(),
        files: files.iter().map(|file| (root, (*file).to_owned())).collect(),
    };
    assert_eq!(behind(&tree), expected(0, &["net/b.py", "net/c.py", "net/d.py"]));
    assert_eq!(behind(&part), expected(0, &["b.py", "c.py", "d.py"]), "relative to the searched path");
    assert_eq!(behind(&both), expected(1, &["net/b.py", "net/c.py", "net/d.py"]));
    // Another process has refreshed the stored index; this one is as it was.
    open(&["tree"]);
    assert_eq!(behind(&tree).total, 3);
    for n in 0..30 {
        write(&at(&format!("other/{n}.py")), "connect");
    }
    let many = both.behind().unwrap();
    assert_eq!((many.total, many.files.len()), (33, 20));
}
