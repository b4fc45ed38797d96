use std::fs;

use quarry_embed::Embedder;

use super::*;

#[test]
#[cfg(unix)]
fn a_path_into_the_tree_is_distinguished_from_one_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let tree = root.join("tree");
    fs::create_dir_all(tree.join("a")).unwrap();
    fs::create_dir(root.join("beside")).unwrap();
    std::os::unix::fs::symlink("tree", root.join("link")).unwrap();
    std::os::unix::fs::symlink("../beside", tree.join("out")).unwrap();
    for (path, expected) in [
        ("tree/index", Some("index")),
        ("tree/a/index", Some("a/index")),
        ("link/a/../index", Some("index")),
        ("beside/../tree/out/index", Some("out/index")),
        ("tree/none/index", Some("none/index")),
        ("tree", Some("")),
        ("beside", None),
        ("tree/../beside/index", None),
        ("tree/a/../../beside", None),
        ("treehouse", None),
    ] {
        assert_eq!(below(&tree, &root.join(path)), expected.map(PathBuf::from), "{path}");
    }
}

#[test]
fn a_manifest_is_whole_or_none() {
    let key = Records::new(Some(tempfile::tempdir().unwrap().path())).make(Path::new("/a")).unwrap();
    for key in [None, Some(&key)] {
        let written = b"{\n}".to_vec();
        let file = [&written[..], b"\n", checksum(&written, key).as_bytes(), b"\n"].concat();
        assert_eq!(verified(&file, key), Some(&written[..]));
        for offset in 0..file.len() {
            let mut damaged = file.clone();
            damaged[offset] ^= 1;
            assert_eq!(verified(&damaged, key), None, "byte {offset}");
            assert_eq!(verified(&file[..offset], key), None, "cut at {offset}");
        }
    }
    let plain = [b"{}\n", checksum(b"{}", None).as_bytes(), b"\n"].concat();
    assert!(verified(&plain, None).is_some() && verified(&plain, Some(&key)).is_none());
}

#[test]
fn another_vocabulary_needs_another_format() {
    // Parts contain tokens in the vocabulary of the built-in model: increment `FORMAT` when it changes.
    assert_eq!((FORMAT, quarry_embed::StaticModel::builtin().id()), (13, "static-1933f0e918071be5"));
}
