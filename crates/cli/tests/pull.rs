//! `quarry data pull`, from a server on loopback.

use std::fs;
use std::time::Duration;

use crate::fixture::file_server::{kill_after, serve};
use crate::fixture::{Fixture, check_error, stderr};

const LENGTH: usize = 4_000_000;

fn content() -> Vec<u8> {
    (0..LENGTH as u32).map(|i| (i % 251) as u8).collect()
}

#[test]
fn a_killed_download_continues_and_says_that_it_is_unverified() {
    let fixture = Fixture::new();
    let (address, seen) = serve(|_| Some(content()), Duration::from_millis(20));
    let arguments = ["data", "pull", "advtest", "--from", &address, "--out", "got"];
    kill_after(&mut fixture.command(&arguments), &fixture.path("tree/got/dataset.zip.part"), 100_000);
    assert!(!fixture.path("tree/got/dataset.zip").exists());

    let again = fixture.succeed(&arguments);
    assert!(
        stderr(&again).contains("of them downloaded before; not verified: no checksum is known; sha256 ")
    );
    assert!(stderr(&again).contains("license: C-UDA"));
    assert!(stderr(&again).contains("dataset.zip: archives are not unpacked, because"), "{}", stderr(&again));
    assert_eq!(fs::read(fixture.path("tree/got/dataset.zip")).unwrap(), content());
    assert_eq!(fs::read_dir(fixture.path("tree/got")).unwrap().count(), 1);
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen[0].as_str()), (2, "/dataset.zip whole"));
    let from: usize = seen[1]["/dataset.zip bytes=".len()..].trim_end_matches('-').parse().unwrap();
    assert!(from >= 100_000, "{from}");
}

#[test]
fn another_file_than_that_of_the_table_is_refused() {
    let fixture = Fixture::new();
    let (address, _) = serve(|_| Some(content()), Duration::ZERO);
    let got = fixture.run(&["data", "pull", "csn99", "--from", &format!("{address}/mirror/")]);
    check_error(&got, "/mirror/queries.csv: expected 2493 bytes, found 4000000; check the address");
    assert!(!fixture.path("tree/csn99").exists(), "an empty directory stays behind");
    let out = ["data", "pull", "csn99", "--from", &address, "--out", "new/er/csn99"];
    assert_eq!(fixture.run(&out).status.code(), Some(2));
    assert!(!fixture.path("tree/new").exists());
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_reported_and_received_bytes_are_kept() {
    let fixture = Fixture::new();
    let (address, _) = serve(|_| Some(content()), Duration::ZERO);
    let got = fixture.run_without_space(&["data", "pull", "advtest", "--from", &address]);
    check_error(
        &got,
        "dataset.zip.part: cannot be written; check the directory, its permissions and the free space",
    );
    assert!(fs::metadata(fixture.path("tree/advtest/dataset.zip.part")).unwrap().len() > 0);
}

#[test]
fn sets_are_listed_and_wrong_names_answered() {
    let fixture = Fixture::new();
    let list = fixture.stdout("data pull");
    assert!(list.contains("csn99") && list.contains("verified by hash; license: MIT"), "{list}");
    fixture.check_error("data pull csn9", "did you mean `csn99`?");
    fixture.check_error("data pull cosqa-plus", "get them from https://github.com/");
    let error = fixture.run("data pull csn99 --from ftp://host");
    check_error(&error, "expected an address that begins with https:// or http://");
}
