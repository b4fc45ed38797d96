//! Files whose content is known, in archives and directories that are not what they should be.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use quarry_download::known::{KnownFile, copy, max_archive_size, unpack, verify};
use tar::{Builder, EntryType, Header};

const FILES: [KnownFile<'_>; 2] = [
    KnownFile {
        path: "config.json",
        size: 3,
        sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    },
    KnownFile {
        path: "1_Pooling/config.json",
        size: 0,
        sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    },
];

const RIGHT: [(&str, &[u8]); 2] = [("best/config.json", b"abc"), ("best/1_Pooling/config.json", b"")];

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// An archive of files; `change` may do anything to their headers.
fn archive(files: &[(&str, &[u8])], change: impl Fn(&mut Header)) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = Header::new_ustar();
        // Not through the crate, which refuses `..`.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_entry_type(if path.ends_with('/') { EntryType::Directory } else { EntryType::Regular });
        change(&mut header);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    packed(&builder.into_inner().unwrap())
}

/// The message of unpacking, and the paths below the parent of the target.
fn unpacked(archive: &[u8]) -> (Result<(), String>, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    fs::create_dir(&target).unwrap();
    let result = unpack(archive, "best", &FILES, &target).map_err(|error| error.to_string());
    let names = |path: &Path| -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(directory.path()), ["target"], "written elsewhere");
    if result.is_ok() {
        verify(&target, &FILES).unwrap();
    }
    (result, names(&target))
}

#[track_caller]
fn check_refused(archive: &[u8], message: &str) -> Vec<String> {
    let (result, names) = unpacked(archive);
    let error = result.unwrap_err();
    assert!(error.contains(message), "{error}");
    names
}

#[test]
fn files_are_unpacked_in_any_order_and_from_any_directory() {
    assert_eq!(unpacked(&archive(&RIGHT, |_| {})).0, Ok(()));
    let other = [("best/", &b""[..]), RIGHT[1], ("best/1_Pooling/", b""), ("../elsewhere/", b""), RIGHT[0]];
    let (result, mut names) = unpacked(&archive(&other, |_| {}));
    names.sort();
    assert_eq!((result, names), (Ok(()), vec!["1_Pooling".to_owned(), "config.json".to_owned()]));
}

#[test]
fn entries_that_are_not_known_write_nothing() {
    for path in [
        "best/../../escaped.json",
        "../best/config.json",
        "/best/config.json",
        "best//config.json",
        "config.json",
        "best/other.json",
        "good/config.json",
        "best/\u{1b}[2J",
    ] {
        let names = check_refused(&archive(&[(path, b"abc")], |_| {}), "expected only the files of `best`");
        assert!(names.is_empty(), "{path}: {names:?}");
    }
    let error = unpacked(&archive(&[("best/\u{1b}[2J", b"")], |_| {})).0.unwrap_err();
    assert!(!error.contains('\u{1b}'), "{error}");
    check_refused(&archive(&[RIGHT[0], RIGHT[0]], |_| {}), "each once");
}

#[test]
fn links_devices_and_long_names_are_refused() {
    let kinds = [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Fifo,
        EntryType::Char,
        EntryType::Block,
        EntryType::GNUSparse,
        EntryType::GNULongName,
        EntryType::XHeader,
        EntryType::new(b'?'),
    ];
    for kind in kinds {
        let archive = archive(&RIGHT, |header| {
            header.set_entry_type(kind);
            header.set_link_name("/etc/passwd").unwrap();
        });
        let names = check_refused(&archive, "expected only the files of `best`");
        assert!(names.is_empty(), "{kind:?}: {names:?}");
    }
}

#[test]
fn other_content_is_refused() {
    let with = |content: &'static [u8]| archive(&[(RIGHT[0].0, content), RIGHT[1]], |_| {});
    check_refused(&with(b"abd"), "config.json: expected SHA-256 ba7816bf");
    let names = check_refused(&with(b"abcd"), "config.json: expected 3 bytes, found 4");
    assert!(names.is_empty(), "{names:?}");
    check_refused(&archive(&RIGHT[..1], |_| {}), "expected 1_Pooling/config.json in the archive");
    check_refused(&archive(&[], |_| {}), "expected config.json in the archive");
}

#[test]
fn truncated_archives_are_refused() {
    check_refused(b"<html>not found</html>", "expected a gzipped tar archive");
    check_refused(&packed(&[b'x'; 2000]), "expected a gzipped tar archive");
    let whole = archive(&RIGHT, |_| {});
    // The last bytes are those of the checksum, and of zeros that end an archive.
    for length in 0..whole.len() / 2 {
        assert!(unpacked(&whole[..length]).0.is_err(), "{length} of {} bytes", whole.len());
    }
}

#[test]
fn an_archive_that_unpacks_to_more_than_its_files_is_not_read_to_its_end() {
    let length = max_archive_size(&FILES) + 1;
    let content = vec![0; usize::try_from(length).unwrap()];
    // In a directory, whose content is skipped.
    let bomb = archive(&[("best/", &content), RIGHT[0], RIGHT[1]], |_| {});
    assert!(unpacked(&bomb).0.is_err());
    // A size that is only announced.
    let announced = archive(&[("best/", b""), RIGHT[0]], |header| header.set_size(u64::MAX >> 1));
    assert!(unpacked(&announced).0.is_err());
}

#[test]
fn a_directory_is_verified_and_copied() {
    let directory = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| directory.path().join(name));
    fs::create_dir_all(from.join("1_Pooling")).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("config.json"), "abc").unwrap();
    let missing = verify(&from, &FILES).unwrap_err().to_string();
    assert!(missing.contains("config.json: cannot be read"), "{missing}");
    fs::write(from.join("1_Pooling/config.json"), "").unwrap();
    fs::write(from.join("other"), "").unwrap();
    verify(&from, &FILES).unwrap();
    copy(&from, &FILES, &to).unwrap();
    verify(&to, &FILES).unwrap();
    assert!(!to.join("other").exists());
    fs::write(to.join("config.json"), "abd").unwrap();
    assert!(verify(&to, &FILES).unwrap_err().to_string().contains("expected SHA-256"));
    let again = copy(&from, &FILES, &to).unwrap_err().to_string();
    assert!(again.contains("cannot be written"), "{again}");
}
