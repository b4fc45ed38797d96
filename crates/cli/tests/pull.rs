//! `quarry data pull`, from a server on loopback.

#![cfg(feature = "full")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod fixture;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fixture::{Fixture, check_error, stderr, stdout};

const LENGTH: usize = 4_000_000;

fn content() -> Vec<u8> {
    (0..LENGTH as u32).map(|i| (i % 251) as u8).collect()
}

/// A server that sends the same file for every path, in pieces with a pause between; its address, and the paths and
/// ranges of the requests.
fn serve(pause: Duration) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let requests = Arc::clone(&requests);
            // A killed process hangs up.
            thread::spawn(move || drop(answer(stream, pause, &requests)));
        }
    });
    (address, seen)
}

fn answer(mut stream: TcpStream, pause: Duration, requests: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let lines: Vec<String> =
        BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let range = lines.iter().find_map(|line| line.to_lowercase().strip_prefix("range: ").map(str::to_owned));
    let path = lines[0].split(' ').nth(1).unwrap_or_default();
    requests.lock().unwrap().push(format!("{path} {}", range.as_deref().unwrap_or("whole")));
    let start = range.map_or(0, |range| range["bytes=".len()..].trim_end_matches('-').parse().unwrap());
    let status = if start > 0 { "206 Partial Content" } else { "200 OK" };
    write!(stream, "HTTP/1.1 {status}\r\nETag: \"a\"\r\nContent-Length: {}\r\n", LENGTH - start)?;
    write!(stream, "Content-Range: bytes {start}-{}/{LENGTH}\r\nConnection: close\r\n\r\n", LENGTH - 1)?;
    for piece in content()[start..].chunks(20_000) {
        stream.write_all(piece)?;
        thread::sleep(pause);
    }
    Ok(())
}

#[test]
fn a_download_that_was_killed_goes_on_and_says_that_nothing_verified_it() {
    let fixture = Fixture::new();
    let (address, seen) = serve(Duration::from_millis(20));
    let arguments = ["data", "pull", "advtest", "--from", &address, "--out", "got"];
    let mut child = fixture.command(&arguments).stderr(Stdio::null()).spawn().unwrap();
    let part = fixture.path("tree/got/dataset.zip.part");
    let start = Instant::now();
    while fs::metadata(&part).map_or(0, |file| file.len()) < 100_000 {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing comes");
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!fixture.path("tree/got/dataset.zip").exists());

    let again = fixture.run(&arguments);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
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
    let (address, _) = serve(Duration::ZERO);
    let got = fixture.run(&["data", "pull", "csn99", "--from", &format!("{address}/mirror/")]);
    check_error(&got, "/mirror/queries.csv: expected 2493 bytes, found 4000000; check the address");
    assert!(!fixture.path("tree/csn99").exists(), "an empty directory stays behind");
    let out = ["data", "pull", "csn99", "--from", &address, "--out", "new/er/csn99"];
    assert_eq!(fixture.run(&out).status.code(), Some(2));
    assert!(!fixture.path("tree/new").exists());
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_named_and_what_came_is_kept() {
    let fixture = Fixture::new();
    let (address, _) = serve(Duration::ZERO);
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
    let list = stdout(&fixture.run(&["data", "pull"]));
    assert!(list.contains("csn99") && list.contains("verified by hash; license: MIT"), "{list}");
    check_error(&fixture.run(&["data", "pull", "csn9"]), "did you mean `csn99`?");
    check_error(&fixture.run(&["data", "pull", "cosqa-plus"]), "get them from https://github.com/");
    let error = fixture.run(&["data", "pull", "csn99", "--from", "ftp://host"]);
    check_error(&error, "expected an address that begins with https:// or http://");
}
