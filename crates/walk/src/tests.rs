use quarry_test_support::files::directory_with as tree;

use super::*;

fn paths(listing: &Listing) -> Vec<&str> {
    listing.files.iter().map(|file| file.path.as_str()).collect()
}

fn skipped(listing: &Listing) -> Vec<(&str, &SkipReason)> {
    listing.skipped.iter().map(|skipped| (skipped.path.as_str(), &skipped.reason)).collect()
}

#[test]
fn lists_sources_in_order_and_honors_ignore_files() {
    let directory = tree(&[
        ("b.py", "x = 1"),
        ("a/z.py", "x = 1"),
        ("a/.hidden.py", "x = 1"),
        ("target/out.py", "x = 1"),
        ("secret/key.py", "x = 1"),
        (".gitignore", "target/\n"),
        (IGNORE_FILE, "secret\n"),
    ]);
    let listing = list(directory.path(), &WalkOptions::default()).unwrap();
    assert_eq!(paths(&listing), ["a/z.py", "b.py"]);
    assert_eq!(skipped(&listing), []);
    // All except the two listed: three sources and the ignore files themselves.
    assert_eq!(count_excluded(directory.path(), &WalkOptions::default()), 5);
}

#[test]
fn hidden_and_ignored_files_are_listed_where_asked_for() {
    let directory = tree(&[
        ("a.py", "x = 1"),
        (".b.py", "x = 1"),
        (".ci/check.py", "x = 1"),
        (".kept/c.py", "x = 1"),
        ("out/d.py", "x = 1"),
        ("out/.e.py", "x = 1"),
        (".cache/f.py", "x = 1"),
        ("g.py", "x = 1"),
        (".git/hooks/h.py", "x = 1"),
        ("sub/.git/i.py", "x = 1"),
        (".gitignore", "out/\n.cache\ng.py\n!.kept\n"),
    ]);
    let (none, hidden, ignored) = (FileFlags::empty(), FileFlags::HIDDEN, FileFlags::IGNORED);
    let all = [
        (".b.py", hidden),
        (".cache/f.py", hidden | ignored),
        (".ci/check.py", hidden),
        (".kept/c.py", none),
        ("a.py", none),
        ("g.py", ignored),
        ("out/.e.py", hidden | ignored),
        ("out/d.py", ignored),
    ];
    for (is_hidden, is_ignored) in [(false, false), (true, false), (false, true), (true, true)] {
        let options = WalkOptions { hidden: is_hidden, ignored: is_ignored, ..WalkOptions::default() };
        let listing = list(directory.path(), &options).unwrap();
        let found: Vec<_> = listing.files.iter().map(|file| (file.path.as_str(), file.flags)).collect();
        let expected: Vec<_> = all.into_iter().filter(|(_, flags)| options.lists(5, *flags)).collect();
        assert_eq!(found, expected, "{options:?}");
        assert_eq!(expected.len(), [2, 4, 4, 8][usize::from(is_hidden) + 2 * usize::from(is_ignored)]);
    }
}

#[test]
fn a_named_file_is_listed_regardless_of_the_rules() {
    let directory = tree(&[(".hidden.py", "x = 1"), ("out.py", "x = 1"), (".gitignore", "*.py\n")]);
    for name in [".hidden.py", "out.py"] {
        let listing = list(&directory.path().join(name), &WalkOptions::default()).unwrap();
        assert_eq!(paths(&listing), [name]);
        assert_eq!(listing.files[0].flags, FileFlags::empty());
    }
}

#[test]
fn options_are_those_that_are_given_over_the_others() {
    let given = WalkChoice { max_bytes: Some(5), hidden: Some(false), ignored: None };
    let remembered = WalkChoice { max_bytes: Some(7), hidden: Some(true), ignored: Some(true) };
    let options = given.or(remembered).over(&WalkOptions::default());
    assert_eq!(options, WalkOptions { max_bytes: 5, hidden: false, ignored: true, ..WalkOptions::default() });
    let both = options.union(&WalkOptions { hidden: true, ..WalkOptions::default() });
    assert_eq!(both, WalkOptions { hidden: true, ignored: true, ..WalkOptions::default() });
    assert!(options.lists(5, FileFlags::IGNORED | FileFlags::TEST));
    assert!(!options.lists(6, FileFlags::empty()) && !options.lists(5, FileFlags::HIDDEN));
}

#[test]
fn utf_16_with_a_mark_is_text() {
    let encoded = |text: &str, big: bool| -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    };
    let tree = tree(&[("a.py", "")]);
    let directory = open(tree.path()).unwrap();
    let check = |bytes: &[u8], expected: Result<&str, SkipReason>| {
        fs::write(tree.path().join("a.py"), bytes).unwrap();
        let listing = list(tree.path(), &WalkOptions::default()).unwrap();
        let found = read(&directory, &listing.files[0], &WalkOptions::default())
            .map(|content| content.text.into_bytes());
        assert_eq!(found, expected.map(|text| text.as_bytes().to_vec()), "{bytes:?}");
    };
    let text = "# größer, 名前, \u{1f600}\nx = 1\n";
    for big in [false, true] {
        check(&encoded(text, big), Ok(text));
        check(&[encoded("x", big), vec![7]].concat(), Ok("x"));
        check(&[&encoded("x", big)[..2], &[0xd8, 0xd8]].concat(), Ok("\u{fffd}"));
    }
    check(&encoded("x", false)[2..], Err(SkipReason::Binary));
    // The mark of UTF-32 begins like that of UTF-16.
    check(b"\xff\xfe\0\0x\0\0\0", Err(SkipReason::Binary));
    check(b"\xef\xbb\xbfx", Ok("\u{feff}x"));
}

#[test]
fn directories_are_those_that_are_looked_into() {
    let directory =
        tree(&[("a/b/z.py", ""), ("target/debug/out.py", ""), (".git/x", ""), (".gitignore", "target/\n")]);
    let mut found = directories(directory.path(), &WalkOptions::default()).unwrap();
    found.sort_unstable();
    assert_eq!(found, ["", "a", "a/b"].map(|path| directory.path().join(path)));
    assert_eq!(
        directories(&directory.path().join("a/b/z.py"), &WalkOptions::default()).unwrap(),
        [directory.path().join("a/b")]
    );
    assert!(directories(&directory.path().join("none"), &WalkOptions::default()).is_err());
}

#[test]
fn says_what_was_left_out_and_why() {
    let directory =
        tree(&[("big.py", "x = 11111"), ("data.bin2", "x"), ("nul.py", "x\0"), ("ok.py", "x = 1")]);
    let listing = list(directory.path(), &WalkOptions { max_bytes: 5, ..WalkOptions::default() }).unwrap();
    assert_eq!(paths(&listing), ["nul.py", "ok.py"]);
    let expected = [("big.py", &SkipReason::TooLarge), ("data.bin2", &SkipReason::UnknownLanguage)];
    assert_eq!(skipped(&listing), expected);
    let base = open(directory.path()).unwrap();
    assert_eq!(read(&base, &listing.files[0], &WalkOptions::default()).unwrap_err(), SkipReason::Binary);
    assert_eq!(read(&base, &listing.files[1], &WalkOptions::default()).unwrap().text.bytes(), b"x = 1");
}

#[test]
#[cfg(unix)]
fn does_not_follow_links_but_follows_the_root() {
    let directory = tree(&[("real/a.py", "x = 1")]);
    std::os::unix::fs::symlink(directory.path().join("real/a.py"), directory.path().join("real/b.py"))
        .unwrap();
    std::os::unix::fs::symlink(directory.path().join("real"), directory.path().join("link")).unwrap();
    let listing = list(&directory.path().join("link"), &WalkOptions::default()).unwrap();
    assert_eq!(paths(&listing), ["a.py"]);
    assert_eq!(skipped(&listing), [("b.py", &SkipReason::SymbolicLink)]);
}

#[test]
fn a_script_without_extension_is_known_by_its_first_line() {
    let directory = tree(&[("run", "#!/usr/bin/env python3\nx = 1\n"), ("words", "plain")]);
    let listing = list(directory.path(), &WalkOptions::default()).unwrap();
    assert_eq!(paths(&listing), ["run"]);
}

#[test]
fn a_file_is_a_tree_of_one_file() {
    let directory = tree(&[("a/b.py", "x = 1"), ("a/c.py", "x = 1")]);
    let root = directory.path().join("a/b.py");
    let listing = list(&root, &WalkOptions::default()).unwrap();
    assert_eq!(paths(&listing), ["b.py"]);
    assert_eq!(base_directory(&root).unwrap(), directory.path().join("a"));
    assert!(
        read(&open(base_directory(&root).unwrap()).unwrap(), &listing.files[0], &WalkOptions::default())
            .is_ok()
    );
}

#[test]
fn a_missing_root_is_named() {
    let error = list(Path::new("no/such/directory"), &WalkOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("no/such/directory: no such file"), "{error}");
}

#[test]
#[cfg(unix)]
fn a_script_with_an_odd_extension_is_known_if_it_can_be_started() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tree(&[("serve.cgi", "#!/usr/bin/python3\n"), ("text.cgi", "#!/usr/bin/python3\n")]);
    fs::set_permissions(directory.path().join("serve.cgi"), fs::Permissions::from_mode(0o755)).unwrap();
    let listing = list(directory.path(), &WalkOptions::default()).unwrap();
    assert_eq!(paths(&listing), ["serve.cgi"]);
    assert_eq!(listing.files[0].language.name(), "python");
}

#[test]
#[cfg(unix)]
fn special_files_are_not_opened() {
    let directory = tree(&[("a.py", "x = 1")]);
    let socket = std::os::unix::net::UnixListener::bind(directory.path().join("socket.py")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", directory.path().join("zero.py")).unwrap();
    let listing = list(directory.path(), &WalkOptions::default()).unwrap();
    assert_eq!(paths(&listing), ["a.py"]);
    let expected = [("socket.py", &SkipReason::NotAFile), ("zero.py", &SkipReason::SymbolicLink)];
    assert_eq!(skipped(&listing), expected);
    drop(socket);
    // A file that a device or a larger file has replaced since it was listed.
    fs::remove_file(directory.path().join("a.py")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", directory.path().join("a.py")).unwrap();
    let base = open(directory.path()).unwrap();
    assert!(matches!(
        read(&base, &listing.files[0], &WalkOptions::default()),
        Err(SkipReason::Unreadable(_))
    ));
    fs::remove_file(directory.path().join("a.py")).unwrap();
    fs::write(directory.path().join("a.py"), "x = 123456").unwrap();
    assert_eq!(read(&base, &listing.files[0], &WalkOptions::default()).unwrap().text.bytes(), b"x = 1");
}

#[test]
fn the_nearest_rule_of_the_strongest_file_counts() {
    let directory = tree(&[
        (".git/info/exclude", "excluded.py\nback.py\n"),
        (".gitignore", "*.log.py\n/top.py\n!back.py\nbuild/\n"),
        (".ignore", "!kept.log.py\n"),
        ("a/.gitignore", "!b.log.py\n"),
        ("a/.quarryignore", "c.log.py\n"),
        ("a/.ignore", "!c.log.py\n!.shown.py\n"),
        ("a.log.py", ""),
        ("kept.log.py", ""),
        ("a/a.log.py", ""),
        ("a/b.log.py", ""),
        ("a/c.log.py", ""),
        ("a/.shown.py", ""),
        ("a/.hidden.py", ""),
        ("a/top.py", ""),
        ("top.py", ""),
        ("excluded.py", ""),
        ("back.py", ""),
        ("a/build/x.py", ""),
    ]);
    let root = directory.path().canonicalize().unwrap();
    let listing = list(&root, &WalkOptions::default()).unwrap();
    assert_eq!(paths(&listing), ["a/.shown.py", "a/b.log.py", "a/top.py", "back.py", "kept.log.py"]);
    // The rules of the tree hold for a part of it, and nothing above its repository does.
    let part = list(&root.join("a"), &WalkOptions::default()).unwrap();
    assert_eq!(paths(&part), [".shown.py", "b.log.py", "top.py"]);
    fs::create_dir(root.join("a/.git")).unwrap();
    let part = list(&root.join("a"), &WalkOptions::default()).unwrap();
    assert_eq!(paths(&part), [".shown.py", "a.log.py", "b.log.py", "build/x.py", "top.py"]);
}

#[test]
#[cfg(unix)]
fn an_ignore_file_that_is_not_a_regular_file_is_not_opened() {
    use std::os::unix::fs::symlink;

    let directory =
        tree(&[("a.py", ""), ("b/b.py", ""), ("c/c.py", ""), ("d/d.py", ""), ("rules", "*.py\n")]);
    for (name, target) in
        [(".gitignore", "/dev/zero"), ("b/.ignore", "../rules"), ("c/.gitignore", "nowhere")]
    {
        symlink(target, directory.path().join(name)).unwrap();
    }
    let pipe = directory.path().join("d").join(IGNORE_FILE);
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, pipe, kind, mode, 0).unwrap();
    fs::File::create(directory.path().join(".ignore")).unwrap().set_len(1 << 40).unwrap();
    let listing = list(directory.path(), &WalkOptions::default()).unwrap();
    assert_eq!(paths(&listing), ["a.py", "b/b.py", "c/c.py", "d/d.py"]);
    let refused: Vec<&str> = listing.skipped.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(refused, [".gitignore", ".ignore", "b/.ignore", "c/.gitignore", "d/.quarryignore", "rules"]);
}

#[test]
#[cfg(unix)]
fn a_directory_that_becomes_a_link_is_not_followed() {
    let directory = tree(&[("tree/a/b.py", "inside"), ("elsewhere/b.py", "outside")]);
    let root = directory.path().join("tree");
    let listing = list(&root, &WalkOptions::default()).unwrap();
    fs::rename(root.join("a"), root.join("gone")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", root.join("a")).unwrap();
    let refused = read(&open(&root).unwrap(), &listing.files[0], &WalkOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("symbolic link"), "{refused}");
}

#[test]
fn many_files_in_a_directory_and_deep_directories_are_listed_once_each() {
    let directory = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    let mut inner = String::new();
    for depth in 0..40 {
        fs::create_dir_all(directory.path().join(&inner)).unwrap();
        for number in 0..if depth == 20 { 300 } else { 3 } {
            let path = format!("{inner}{number}.py");
            fs::write(directory.path().join(&path), "x = 1").unwrap();
            expected.push(path);
        }
        inner += "d/";
    }
    expected.sort();
    let listing = list(directory.path(), &WalkOptions::default()).unwrap();
    assert_eq!(paths(&listing), expected);
    assert_eq!(directories(directory.path(), &WalkOptions::default()).unwrap().len(), 40);
}
