use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use quarry_test_support::files::directory_with;

use super::*;
use crate::record::CodeKind;

fn read(kind: SourceKind, path: PathBuf) -> Result<(Vec<CodeRecord>, Counts), BuildError> {
    read_by(&plan_of(kind, path))
}

fn plan_of(kind: SourceKind, path: PathBuf) -> SourcePlan {
    SourcePlan { name: "s".into(), kind, license: Some("MIT".into()), ..SourcePlan::for_directory(&path) }
}

fn read_by(plan: &SourcePlan) -> Result<(Vec<CodeRecord>, Counts), BuildError> {
    let opened = OpenedSource::open(plan, false, Path::new("plan.toml"), true)?;
    let mut records = Vec::new();
    let counts = opened.content.read(&mut |record| {
        records.push(record);
        Ok(())
    })?;
    Ok((records, counts))
}

/// The same files in each test: one is code, one a test, one a notebook, one unknown.
const FILES: [(&str, &str); 5] = [
    ("src/a.py", "def one(x):\n    \"\"\"Add one.\"\"\"\n    return x + 1\n"),
    ("src/b.go", "package b\n\n// Two is 2.\nfunc Two() int { return 2 }\n"),
    ("tests/test_a.py", "def test_one():\n    assert one(1) == 2\n"),
    ("notes/n.ipynb", NOTEBOOK),
    ("logo.bin", "\0\0"),
];

const NOTEBOOK: &str = r##"{
 "cells": [
  {"cell_type": "markdown", "metadata": {}, "source": ["# Sums\n", "def prose(): about it"]},
  {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 1, "source": [
   "%time 1\n",
   "def double(x):\n",
   "    \"\"\"Double it.\"\"\"\n",
   "    return twice(x)"
  ]}
 ],
 "metadata": {}, "nbformat": 4, "nbformat_minor": 5
}"##;

/// Checks the result for all ways to pack [`FILES`].
fn check_files(records: &[CodeRecord], counts: &Counts) {
    let found: Vec<(&str, &str, u32)> = records
        .iter()
        .map(|record| (record.path.as_str(), record.name.as_str(), record.start_line))
        .collect();
    assert_eq!(found, [("notes/n.ipynb", "double", 6), ("src/a.py", "one", 1), ("src/b.go", "Two", 3)]);
    assert_eq!(counts["functions"], 3);
    assert_eq!(
        (counts["files"], counts["files of tests, examples, generated or vendored code"]),
        (3, 1),
        "{counts:?}"
    );
    assert_eq!(counts["files in an unknown language"], 1, "{counts:?}");
    let double = &records[0];
    assert_eq!((double.language.as_str(), double.documentation.as_str()), ("python", "Double it."));
    assert_eq!((double.returns_value, &double.calls[..]), (Some(true), &["twice".to_owned()][..]));
    assert!(!double.code.contains("Double it."), "{}", double.code);
}

fn tar_of(files: &[(&str, &str)], change: &dyn Fn(&mut tar::Header)) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        change(&mut header);
        // Also writes paths that the crate would refuse.
        let name = &mut header.as_old_mut().name;
        name.fill(0);
        name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A zip archive built byte by byte, so that its headers can be false: for each file its path, content and mode,
/// deflated.
fn zip_of(files: &[(&str, &str, u32)], claimed: Option<u32>, comment: &str) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (path, content, mode) in files {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content.as_bytes()).unwrap();
        let packed = encoder.finish().unwrap();
        let mut sum = flate2::Crc::new();
        sum.update(content.as_bytes());
        let length = claimed.unwrap_or(content.len() as u32);
        let mut common = Vec::new();
        for number in [20_u16, 0, 8, 0, 0] {
            common.extend(number.to_le_bytes());
        }
        for number in [sum.sum(), packed.len() as u32, length] {
            common.extend(number.to_le_bytes());
        }
        common.extend((path.len() as u16).to_le_bytes());
        common.extend(0_u16.to_le_bytes());
        let offset = archive.len() as u32;
        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(path.as_bytes());
        archive.extend(&packed);
        directory.extend(b"PK\x01\x02");
        // Created on Unix, which gives the mode a meaning.
        directory.extend((3_u16 << 8 | 20).to_le_bytes());
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((mode << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(path.as_bytes());
    }
    let (n_files, at) = (files.len() as u16, archive.len() as u32);
    archive.extend(&directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend(n_files.to_le_bytes());
    archive.extend(n_files.to_le_bytes());
    archive.extend((directory.len() as u32).to_le_bytes());
    archive.extend(at.to_le_bytes());
    archive.extend((comment.len() as u16).to_le_bytes());
    archive.extend(comment.as_bytes());
    archive
}

fn archive(bytes: &[u8]) -> Result<(Vec<CodeRecord>, Counts), BuildError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    fs::write(&path, bytes).unwrap();
    read(SourceKind::Archive, path)
}

#[track_caller]
fn check_refused(bytes: &[u8], expected: &str) {
    let error = archive(bytes).unwrap_err().to_string();
    assert!(error.starts_with("source s: ") && error.contains(expected), "{error}");
}

#[test]
fn directories_and_archives_give_the_same_records() {
    let directory = directory_with(&FILES);
    let (expected, counts) = read(SourceKind::Directory, directory.path().to_owned()).unwrap();
    check_files(&expected, &counts);
    let below = |top: &str| FILES.map(|(path, content)| (format!("{top}{path}"), content));
    for top in ["", "shop-1.0/", "tests/"] {
        let mut files = below(top);
        files.sort();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
        let tar = tar_of(&files, &|_| {});
        let zip: Vec<(&str, &str, u32)> =
            files.iter().map(|(path, content)| (*path, *content, 0o100_644)).collect();
        let zip = zip_of(&zip, None, "0123456789ABCDEF0123456789abcdef01234567");
        for bytes in [gzip(&tar), tar, zip.clone()] {
            let (mut records, counts) = archive(&bytes).unwrap();
            let commit = (bytes == zip).then(|| "0123456789abcdef0123456789abcdef01234567".to_owned());
            assert!(records.iter().all(|record| record.commit == commit));
            records.iter_mut().for_each(|record| record.commit = None);
            check_files(&records, &counts);
            assert_eq!(records, expected);
        }
    }
}

#[test]
fn long_paths_and_commits_in_headers_of_tar_are_read() {
    let mut builder = tar::Builder::new(Vec::new());
    let comment = "0123456789abcdef0123456789abcdef01234567";
    let line = format!("52 comment={comment}\n");
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::XGlobalHeader);
    header.set_size(line.len() as u64);
    header.set_cksum();
    builder.append(&header, line.as_bytes()).unwrap();
    let path = format!("{}/a.py", "long".repeat(60));
    let mut header = tar::Header::new_gnu();
    header.set_size(FILES[0].1.len() as u64);
    builder.append_data(&mut header, &path, FILES[0].1.as_bytes()).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_size(FILES[1].1.len() as u64);
    builder.append_data(&mut header, "b.go", FILES[1].1.as_bytes()).unwrap();
    let (records, _) = archive(&builder.into_inner().unwrap()).unwrap();
    let found: Vec<(&str, Option<&str>)> =
        records.iter().map(|record| (record.path.as_str(), record.commit.as_deref())).collect();
    assert_eq!(found, [(path.as_str(), Some(comment)), ("b.go", Some(comment))]);
}

#[test]
fn hostile_archives_are_refused() {
    let good = ("a.py", FILES[0].1);
    for path in ["../a.py", "/etc/a.py", "x/../../a.py", "..\\a.py", "C:/a.py"] {
        check_refused(&tar_of(&[good, (path, "x")], &|_| {}), "which points outside it");
        let files = [("a.py", FILES[0].1, 0o100_644), (path, "x", 0o100_644)];
        check_refused(&zip_of(&files, None, ""), "which points outside it");
    }
    // 100 MB of zeros in a few hundred kB, whatever size the archive claims.
    let zeros = "\0".repeat(100 << 20);
    check_refused(&gzip(&tar_of(&[good, ("zeros", &zeros)], &|_| {})), "unpacks to more than");
    let zeros = "\0".repeat(900_000);
    let paths: Vec<String> = (0..100).map(|number| format!("{number}.py")).collect();
    let files: Vec<(&str, &str, u32)> =
        paths.iter().map(|path| (path.as_str(), zeros.as_str(), 0o100_644)).collect();
    check_refused(&zip_of(&files, Some(1), ""), "unpacks to more than");
    // A truncated archive, a file that is not an archive, and a directory.
    let tar = tar_of(&FILES, &|_| {});
    let packed = gzip(&tar);
    check_refused(&packed[..packed.len() - 20], "cannot be read to its end");
    check_refused(&tar[..700], "cannot be read to its end");
    let zip = zip_of(&[("a.py", FILES[0].1, 0o100_644)], None, "");
    check_refused(&zip[..zip.len() - 30], "expected a zip archive");
    let mut changed = zip.clone();
    changed[40] ^= 1;
    let error = archive(&changed).unwrap_err().to_string();
    assert!(error.contains("a.py: cannot be unpacked"), "{error}");
    // Each bit of the path in the list at the end.
    for at in zip.len() - 22 - 4..zip.len() - 22 {
        for bit in 0..8 {
            let mut changed = zip.clone();
            changed[at] ^= 1 << bit;
            assert!(archive(&changed).is_err(), "byte {at}, bit {bit}");
        }
    }
    let mut renamed = zip.clone();
    renamed[zip.len() - 26] ^= 2;
    check_refused(&renamed, "\"c.py\" is listed at the end of the archive");
    check_refused(b"not an archive at all, but a text of some length\n".repeat(20).as_slice(), "expected");
    // Junk in place of a header is not quoted.
    let junk: Vec<u8> = (0..2048_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let error = archive(&junk).unwrap_err().to_string();
    assert!(error.contains("expected a tar or zip archive") && error.len() < 300, "{error}");
    check_refused(&tar_of(&[("a.bin", "x")], &|_| {}), "expected files in a known language");
    let error = read(SourceKind::Archive, tempfile::tempdir().unwrap().path().to_owned()).unwrap_err();
    assert!(matches!(error, BuildError::Read { .. }), "{error}");
}

#[test]
fn the_checksum_of_a_compressed_archive_is_verified() {
    let right = "def add(a, b):\n    return a + b\n";
    let tar = tar_of(&[("a.py", right)], &|_| {});
    // Stored, so that a changed byte is a changed byte of the code.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(&tar).unwrap();
    let packed = encoder.finish().unwrap();
    assert_eq!(archive(&packed).unwrap().0[0].code, right.trim_end());
    let mut changed = packed.clone();
    let at = changed.windows(5).position(|bytes| bytes == b"a + b").unwrap();
    changed[at + 2] = b'-';
    check_refused(&changed, "cannot be read to its end: corrupt gzip stream");
    check_refused(&packed[..packed.len() - 8], "cannot be read to its end");
    // The members of a file are one stream; trailing data that is not a member is refused.
    let (one, two) = tar.split_at(700);
    assert_eq!(archive(&[gzip(one), gzip(two)].concat()).unwrap().0.len(), 1);
    check_refused(&[&packed[..], b"more"].concat(), "cannot be read to its end");
    let other = tar_of(&[("b.py", right)], &|_| {});
    for bytes in [[&tar[..], &other].concat(), gzip(&[&tar[..], &other].concat())] {
        check_refused(&bytes, "expected nothing after the end of the archive");
    }
    check_refused(&[gzip(&tar), gzip(&other)].concat(), "expected nothing after the end of the archive");
    // Zeros fill the last block.
    assert_eq!(archive(&gzip(&[&tar[..], &[0; 9216]].concat())).unwrap().0.len(), 1);
}

#[test]
fn an_archive_has_each_path_once() {
    let files = [("a.py", FILES[0].1), ("./a.py", "def two(): return 2\n")];
    for path in ["a.py", "./a.py", ".//a.py"] {
        let files = [files[0], (path, files[1].1)];
        check_refused(&tar_of(&files, &|_| {}), "found \"a.py\" again");
        check_refused(&zip_of(&files.map(|(path, text)| (path, text, 0o100_644)), None, ""), "again");
    }
    // A link in place of a file.
    let mut bytes = tar_of(&files[..1], &|_| {});
    bytes.truncate(bytes.len() - 1024);
    bytes.extend(tar_of(&[("a.py", "")], &|header| header.set_entry_type(tar::EntryType::Symlink)));
    check_refused(&bytes, "found \"a.py\" again");
}

#[test]
fn links_and_devices_in_archives_are_not_followed() {
    let good = ("a.py", FILES[0].1);
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Char, tar::EntryType::Fifo] {
        let mut bytes = tar_of(&[("b.py", "")], &|header| {
            header.set_entry_type(kind);
            header.set_link_name("/etc/passwd").unwrap();
        });
        // The end of the first archive is 1,024 zeros.
        bytes.truncate(bytes.len() - 1024);
        bytes.extend(tar_of(&[good], &|_| {}));
        let (records, counts) = archive(&bytes).unwrap();
        assert_eq!((records.len(), counts["links"]), (1, 1), "{kind:?}");
    }
    let files = [("a.py", FILES[0].1, 0o100_644), ("b.py", "/etc/passwd", 0o120_777)];
    let (records, counts) = archive(&zip_of(&files, None, "")).unwrap();
    assert_eq!((records.len(), counts["links"]), (1, 1));
}

#[test]
fn functions_of_data_sets_come_with_what_the_set_says_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let row = |language: &str, name: &str, code: &str, documentation: &str| {
        serde_json::json!({
            "repo": "a/b", "path": "c/d", "func_name": name, "language": language, "code": code,
            "code_tokens": [], "docstring": documentation, "docstring_tokens": [], "partition": "train",
            "url": "https://example.com/a/b/blob/0123456789abcdef0123456789abcdef01234567/c/d#L12-L14",
        })
        .to_string()
    };
    let rows = [
        row("python", "A.f", "def f(self, x):\n    \"\"\"Do it.\"\"\"\n    return g(x)", "Do it."),
        row("java", "A.get", "public int get(int i) {\n  return of(i);\n}", "Gets it."),
        row("php", "A.put", "public function put($x)\n{\n  return h($x);\n}", "Puts it."),
        row("klingon", "k", "Qapla'", "x"),
    ];
    let text = rows.join("\n") + "\n";
    let path = directory.path().join("python_train_0.jsonl.gz");
    fs::write(&path, gzip(text.as_bytes())).unwrap();
    let (records, counts) = read(SourceKind::DataSet, path.clone()).unwrap();
    assert_eq!((counts["functions"], counts["codes in an unknown language"]), (3, 1));
    let found: Vec<_> = records
        .iter()
        .map(|record| {
            let CodeRecord { name, documentation, parameters, returns_value, calls, start_line, .. } = record;
            (
                name.as_str(),
                documentation.as_str(),
                parameters.clone(),
                *returns_value,
                calls.clone(),
                *start_line,
            )
        })
        .collect();
    let one = |text: &str| Some(vec![text.to_owned()]);
    assert_eq!(
        found,
        [
            ("A.f", "Do it.", one("x"), Some(true), vec!["g".to_owned()], 12),
            ("A.get", "Gets it.", one("i"), Some(true), vec!["of".to_owned()], 12),
            ("A.put", "Puts it.", one("$x"), Some(true), vec!["h".to_owned()], 12),
        ]
    );
    assert!(records.iter().all(|record| record.repository == "a/b" && record.commit.is_some()));
    assert!(!records[0].code.contains("Do it.") && !records[2].whole.contains("<?php"));
    fs::write(&path, "{\"repo\": \"a/b\"\n").unwrap();
    let error = read(SourceKind::DataSet, path).unwrap_err().to_string();
    assert!(error.contains("python_train_0.jsonl.gz: expected a file of a known format"), "{error}");
}

#[test]
fn data_sets_that_name_no_language_are_pools() {
    const CODE: &str =
        "def invert(d):\n    \"\"\"Swap keys and values.\"\"\"\n    return {v: k for k, v in d.items()}";
    const TOKENS: &str = "def invert ( d ) : return { v : k for k , v in d . items ( ) }";
    const TWO_LINES: &str = "func Max ( a , b int ) int { if a > b { return a } ; err := b ; return err }";
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, text: String| fs::write(path(name), text).unwrap();
    // CoSQA's code base, an object of codes with their numbers.
    write("code_idx_map.txt", serde_json::json!({CODE: 0, "x = 1\nprint(x)": 1}).to_string());
    write("codes.json", serde_json::json!([{"code-idx": 0, "code": CODE}]).to_string());
    fs::create_dir_all(path("beir/qrels")).unwrap();
    let document = serde_json::json!({"_id": "c1", "title": "", "text": CODE});
    write("beir/corpus.jsonl", format!("{document}\n"));
    write("beir/queries.jsonl", "{\"_id\": \"q1\", \"text\": \"swap keys\"}\n".to_owned());
    write("beir/qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\tc1\t1\n".to_owned());
    let gecs = |code: &str| {
        let input = format!("Swap keys . [CODESPLIT] {code}");
        serde_json::json!({"input": input, "target": 1, "target_options": ["no_match", "match"]}).to_string()
    };
    write("gecs.jsonl", format!("{}\n{}\n", gecs(TOKENS), gecs(TWO_LINES)));
    let row = serde_json::json!({"query": "swap keys", "code": CODE, "url": "u1"});
    write("query4code.jsonl", format!("{row}\n"));
    for (name, expected) in [
        ("code_idx_map.txt", &["python", "python"][..]),
        ("codes.json", &["python"]),
        ("beir", &["python"]),
        ("gecs.jsonl", &["python", "go"]),
        ("query4code.jsonl", &["python"]),
    ] {
        let (records, counts) = read(SourceKind::DataSet, path(name)).unwrap();
        let found: Vec<&str> = records.iter().map(|record| record.language.as_str()).collect();
        assert_eq!(found, expected, "{name}: {counts:?}");
        let first = &records[0];
        assert_eq!((first.kind, first.returns_value), (CodeKind::Function, Some(true)), "{name}");
        assert_eq!(first.documentation.is_empty(), name == "gecs.jsonl", "{name}");
    }
    // Code in an unrecognized language is counted, or takes the language of the plan.
    write("codes.json", serde_json::json!([{"code-idx": 0, "code": "x"}]).to_string());
    let error = read(SourceKind::DataSet, path("codes.json")).unwrap_err().to_string();
    assert!(error.contains("found none in 1 codes; give the source `language`"), "{error}");
    let plan = SourcePlan { language: Some("py".into()), ..plan_of(SourceKind::DataSet, path("codes.json")) };
    let (records, counts) = read_by(&plan).unwrap();
    assert_eq!((records[0].language.as_str(), counts["functions"]), ("python", 1));
}

#[test]
fn projects_have_licenses_of_their_own_and_comments_are_units() {
    let script = "# Load the data\nd <- read.csv('a')\n# Fit a t-test\nt.test(d)\n";
    let directory = directory_with(&[("ab12c/code/run.R", script), ("de34f/run.R", script)]);
    let licenses = [("ab12c".to_owned(), "CC0-1.0".to_owned())].into();
    let plan = SourcePlan {
        license: None,
        units: Units::Comments,
        as_released: true,
        project_licenses: Some(licenses),
        ..plan_of(SourceKind::Directory, directory.path().to_owned())
    };
    let (records, _) = read_by(&plan).unwrap();
    let found: Vec<_> = (records.iter())
        .map(|record| (record.repository.as_str(), record.license.as_deref(), record.documentation.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("ab12c", Some("CC0-1.0"), "Load the data"),
            ("ab12c", Some("CC0-1.0"), "Fit a ttest"),
            ("de34f", None, "Load the data"),
            ("de34f", None, "Fit a ttest"),
        ]
    );
    assert!(records.iter().all(|record| record.kind == CodeKind::Block && record.code == record.whole));
    assert_eq!(
        (records[0].code.as_str(), records[0].start_line, records[0].end_line),
        ("d <- read.csv('a')", 1, 2)
    );
    // The same text at another location is another record.
    assert_ne!(records[0].id, records[2].id);
}
