use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use quarry_test_support::files::paths_below;

use crate::ranking::rules::last_part;
use crate::{Filter, Index, OpenOptions, UserDirectories};

/// The directories of files in all languages.
pub(super) fn fixtures() -> [PathBuf; 2] {
    let tests = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../source/tests"));
    ["fixtures", "references"].map(|directory| tests.join(directory))
}

fn index_of(directory: &Path) -> Index {
    let options =
        OpenOptions { user: UserDirectories::below(&directory.join("user")), ..OpenOptions::default() };
    Index::open_or_build(&directory.join("tree"), &options, None, &|_| {}).unwrap().index
}

/// The same index, as if all files had changed since it was built.
fn as_if_changed(mut index: Index) -> Index {
    let mut files = index.table.files.to_vec();
    files.iter_mut().for_each(|file| file.hash = 0);
    index.table.files = files.into();
    index
}

#[test]
fn stored_calls_equal_parsed_calls() {
    let directory = tempfile::tempdir().unwrap();
    for fixtures in fixtures() {
        let below = directory.path().join("tree").join(fixtures.file_name().unwrap());
        fs::create_dir_all(&below).unwrap();
        for file in paths_below(&fixtures) {
            fs::copy(&file, below.join(file.file_name().unwrap())).unwrap();
        }
    }
    let stored = index_of(directory.path());
    let parsed = as_if_changed(index_of(directory.path()));
    let mut names: BTreeSet<String> = BTreeSet::new();
    for hit in stored.units(&Filter::default()).filter(|hit| crate::ranking::rules::is_definition(hit.kind)) {
        names.insert(last_part(&hit.name).to_owned());
        let callees = stored.callees(&hit).unwrap();
        assert_eq!(callees, parsed.callees(&hit).unwrap(), "{}:{}", hit.path, hit.start_line);
        names.extend(callees.found.into_iter().map(|callee| last_part(&callee.name).to_owned()));
    }
    let mut n_found = 0;
    for name in names {
        let definitions = stored.definitions_of(&name, &Filter::default());
        let callers = |index: &Index| index.callers(&name, &definitions, &Filter::default()).unwrap();
        let found = callers(&stored);
        n_found += found.found.len();
        assert_eq!(format!("{found:?}"), format!("{:?}", callers(&parsed)), "{name}");
    }
    assert!(n_found > 200, "{n_found}");
}

#[test]
fn a_file_that_changed_since_then_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tree/a.py");
    fs::create_dir(directory.path().join("tree")).unwrap();
    fs::write(&path, "def f():\n    pass\n\n\ndef g():\n    f()\n").unwrap();
    let index = index_of(directory.path());
    let lines = || {
        let sites = index.callers("f", &index.definitions_of("f", &Filter::default()), &Filter::default());
        sites.unwrap().found.into_iter().map(|site| site.line).collect::<Vec<_>>()
    };
    assert_eq!(lines(), [6]);
    fs::write(&path, "def f():\n    pass\n\n\ndef g():\n    pass\n    f()\n    f()\n").unwrap();
    assert_eq!(lines(), [7, 8]);
}

#[test]
fn calls_in_tests_come_last() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("tests")).unwrap();
    fs::write(tree.join("lib.rs"), "pub fn f() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn t() {\n        super::f();\n    }\n}\n")
        .unwrap();
    fs::write(tree.join("tests/b.rs"), "use tree::f;\n\nfn g() {\n    f();\n}\n").unwrap();
    fs::write(tree.join("zebra.rs"), "use std::fmt;\nuse crate::f;\n\nfn h() {\n    f();\n}\n").unwrap();
    let index = index_of(directory.path());
    let found = index.callers("f", &[], &Filter::default()).unwrap().found;
    let paths: Vec<&str> = found.iter().map(|site| site.path.as_str()).collect();
    assert_eq!(paths, ["zebra.rs", "lib.rs", "tests/b.rs"]);
    let (caller, test) = (found[0].caller.as_ref().unwrap(), found[1].caller.as_ref().unwrap());
    assert!(!index.is_test(caller) && index.is_test(test));
    let header = index.units(&Filter::default()).find(|hit| hit.path == "zebra.rs").unwrap();
    assert_eq!((header.name.as_str(), index.import_lines(&header)), ("", vec![1, 2]));
    assert!(index.import_lines(caller).is_empty());
}
