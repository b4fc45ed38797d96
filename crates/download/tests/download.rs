//! Downloads from a server on loopback that does what it should not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use quarry_download::{DownloadError, DownloadOptions, Downloaded, Expected, Failure, download};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use url::Url;

const TAG: &str = "ETag: \"one\"\r\n";
const SHA256: &str = "cd2df694e424bc7968cc37f47751019e5ca0cd1bdf2e479ea537c3a1c32ee1aa";

/// 100,000 bytes that repeat only after 251.
fn content() -> Vec<u8> {
    (0..100_000_u32).map(|i| (i % 251) as u8).collect()
}

/// A server; the headers of the requests that it saw, in lower case.
struct Server {
    url: Url,
    seen: Arc<Mutex<Vec<String>>>,
}

/// Answers request number n (from 0), given its headers, by what `script` writes before the connection ends.
fn serve(
    script: impl Fn(usize, &str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/data/file.bin", listener.local_addr().unwrap())).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (script, requests) = (Arc::new(script), Arc::clone(&seen));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (script, requests) = (Arc::clone(&script), Arc::clone(&requests));
            thread::spawn(move || {
                let mut head = String::new();
                for line in BufReader::new(&stream).lines() {
                    let Ok(line) = line else { return };
                    if line.is_empty() {
                        break;
                    }
                    head += &format!("{}\n", line.to_lowercase());
                }
                let number = {
                    let mut requests = requests.lock().unwrap();
                    requests.push(head.clone());
                    requests.len() - 1
                };
                // Hanging up in the middle is part of the tests.
                let _ = script(number, &head, &mut stream);
            });
        }
    });
    Server { url, seen }
}

fn head(stream: &mut TcpStream, status: &str, length: usize, more: &str) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{more}\r\n")
}

fn start(request: &str) -> Option<usize> {
    let range = request.lines().find_map(|line| line.strip_prefix("range: bytes="))?;
    Some(range.trim_end_matches('-').parse().unwrap())
}

/// Sends the file from where it is asked for, `most` bytes of it.
fn send(request: &str, stream: &mut TcpStream, most: usize) -> std::io::Result<()> {
    let content = content();
    let rest = match start(request) {
        None => {
            head(stream, "200 OK", content.len(), TAG)?;
            &content[..]
        }
        Some(start) => {
            let range =
                format!("{TAG}Content-Range: bytes {start}-{}/{}\r\n", content.len() - 1, content.len());
            head(stream, "206 Partial Content", content.len() - start, &range)?;
            &content[start..]
        }
    };
    stream.write_all(&rest[..most.min(rest.len())])
}

struct Destination {
    directory: tempfile::TempDir,
}

/// A destination, and a server that sends what it is asked for, at most so many bytes at a time.
fn serving(most: usize) -> (Destination, Server) {
    (Destination::new(), serve(move |_, request, stream| send(request, stream, most)))
}

impl Destination {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn target(&self) -> PathBuf {
        self.directory.path().join("file.bin")
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn get(&self, server: &Server, expected: &Expected) -> Result<Downloaded, DownloadError> {
        let options = DownloadOptions { stall: Duration::from_secs(2), pause: Duration::from_millis(1) };
        download(&server.url, &self.target(), expected, &options, &mut |_, _| {})
    }

    fn is_whole(&self) -> bool {
        fs::read(self.target()).unwrap() == content() && self.names() == ["file.bin"]
    }
}

fn verified() -> Expected {
    Expected { size: Some(100_000), sha256: Some(SHA256.into()), ..Expected::default() }
}

fn failure(result: Result<Downloaded, DownloadError>) -> Failure {
    match result {
        Err(DownloadError::Failed { failure, .. }) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_there_whole_and_is_not_asked_for_again() {
    let (destination, server) = serving(usize::MAX);
    let got = destination.get(&server, &verified()).unwrap();
    assert_eq!(got, Downloaded { size: 100_000, sha256: SHA256.into(), kept: 0, is_verified: true });
    assert!(destination.is_whole());
    let again = destination.get(&server, &Expected::default()).unwrap();
    assert_eq!((again.kept, again.is_verified, again.sha256.as_str()), (100_000, false, SHA256));
    assert_eq!(server.seen.lock().unwrap().len(), 1);
    fs::write(destination.target(), "mine").unwrap();
    let error = destination.get(&server, &verified()).unwrap_err().to_string();
    assert!(error.contains("another file has this name: expected 100000 bytes, found 4"), "{error}");
    assert_eq!(fs::read(destination.target()).unwrap(), b"mine");
}

#[test]
fn interrupted_downloads_resume() {
    let (destination, server) = serving(30_000);
    destination.get(&server, &Expected::default()).unwrap();
    assert!(destination.is_whole());
    let seen = server.seen.lock().unwrap();
    let starts: Vec<_> = seen.iter().map(|request| start(request)).collect();
    assert_eq!(starts, [None, Some(30_000), Some(60_000), Some(90_000)]);
    assert!(seen[1].contains("if-range: \"one\""), "{}", seen[1]);
}

#[test]
fn parts_of_another_run_are_kept_and_those_of_another_url_are_not() {
    for (origin, kept) in
        [("", 0), ("SAME\n\"one\"\n", 5), ("SAME\n", 5), ("http://elsewhere/\n\"one\"\n", 0)]
    {
        let (destination, server) = serving(usize::MAX);
        fs::write(destination.directory.path().join("file.bin.part"), &content()[..5]).unwrap();
        fs::write(
            destination.directory.path().join("file.bin.part.from"),
            origin.replace("SAME", server.url.as_str()),
        )
        .unwrap();
        assert_eq!(destination.get(&server, &verified()).unwrap().kept, kept, "{origin}");
        assert!(destination.is_whole());
        assert_eq!(start(&server.seen.lock().unwrap()[0]), (kept > 0).then_some(5), "{origin}");
    }
}

#[test]
fn without_a_version_and_a_hash_halves_are_not_joined() {
    let (destination, server) = (
        Destination::new(),
        serve(|number, request, stream| {
            if number == 0 {
                head(stream, "200 OK", 100_000, "")?;
                return stream.write_all(&[7; 500]);
            }
            send(request, stream, usize::MAX)
        }),
    );
    destination.get(&server, &Expected::default()).unwrap();
    assert!(destination.is_whole());
    assert_eq!(start(&server.seen.lock().unwrap()[1]), None);
}

#[test]
fn a_server_without_ranges_and_a_file_that_changes_start_over() {
    let (destination, server) = (
        Destination::new(),
        serve(|number, _, stream| {
            head(stream, "200 OK", 100_000, &TAG.replace("one", &number.to_string()))?;
            stream.write_all(&content()[..if number == 0 { 40_000 } else { 100_000 }])
        }),
    );
    destination.get(&server, &verified()).unwrap();
    assert!(destination.is_whole());
    assert_eq!(start(&server.seen.lock().unwrap()[1]), Some(40_000));
}

#[test]
fn wrong_content_is_refused_and_removed() {
    let (destination, server) = serving(usize::MAX);
    let wrong = Expected { sha256: Some("0".repeat(64)), ..Expected::default() };
    let error = failure(destination.get(&server, &wrong));
    assert!(matches!(&error, Failure::Hash { found, .. } if found == SHA256), "{error}");
    assert_eq!(destination.names(), Vec::<String>::new());
    let wrong = Expected { size: Some(99_999), ..Expected::default() };
    assert!(matches!(
        failure(destination.get(&server, &wrong)),
        Failure::Length { expected: 99_999, found: 100_000 }
    ));
    // A server that says no length and sends too much.
    let endless = serve(|_, _, stream| {
        write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
        loop {
            stream.write_all(&[0; 1000])?;
        }
    });
    let destination = Destination::new();
    assert!(matches!(failure(destination.get(&endless, &verified())), Failure::Length { .. }));
    assert!(!destination.target().exists());
}

#[test]
fn a_file_of_unknown_length_is_bounded() {
    for is_announced in [true, false] {
        let destination = Destination::new();
        let server = serve(move |_, _, stream| {
            if is_announced {
                head(stream, "200 OK", content().len(), TAG)?;
            } else {
                write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            }
            stream.write_all(&content())
        });
        let at_most = |max_size| Expected { max_size: Some(max_size), ..Expected::default() };
        let error = failure(destination.get(&server, &at_most(99_999)));
        assert!(matches!(error, Failure::TooLong { max_size: 99_999 }), "{error}");
        assert_eq!(destination.names(), Vec::<String>::new());
        assert_eq!(server.seen.lock().unwrap().len(), 1, "asked again");
        assert_eq!(destination.get(&server, &at_most(100_000)).unwrap().size, 100_000);
    }
}

#[test]
fn a_file_that_is_not_there_is_named_at_once_and_a_busy_server_asked_again() {
    let (destination, server) =
        (Destination::new(), serve(|_, _, stream| head(stream, "404 Not Found", 0, "")));
    let error = destination.get(&server, &verified()).unwrap_err().to_string();
    assert!(error.contains("/data/file.bin: expected the file, found the status 404"), "{error}");
    assert_eq!((server.seen.lock().unwrap().len(), destination.names().len()), (1, 0));
    let busy = serve(|number, request, stream| match number {
        0 | 1 => head(stream, "503 Service Unavailable", 0, ""),
        _ => send(request, stream, usize::MAX),
    });
    destination.get(&busy, &verified()).unwrap();
    let broken = serve(|_, _, stream| head(stream, "500 Internal Server Error", 0, ""));
    assert!(matches!(failure(Destination::new().get(&broken, &verified())), Failure::Status { status: 500 }));
    assert_eq!(broken.seen.lock().unwrap().len(), 3);
    let nobody = Server { url: Url::parse("http://127.0.0.1:1/x").unwrap(), seen: Arc::default() };
    assert!(failure(Destination::new().get(&nobody, &verified())).to_string().contains("onnect"));
}

#[test]
fn a_stalling_or_dripping_server_is_abandoned_and_received_bytes_are_kept() {
    let stalls = serve(|number, request, stream| {
        send(request, stream, if number == 0 { 50_000 } else { 0 })?;
        thread::sleep(Duration::from_secs(60));
        Ok(())
    });
    let drips = serve(|number, request, stream| {
        send(request, stream, if number == 0 { 50_000 } else { 0 })?;
        loop {
            thread::sleep(Duration::from_millis(300));
            stream.write_all(b"x")?;
        }
    });
    let both = [stalls, drips].map(|server| {
        thread::spawn(move || {
            let destination = Destination::new();
            let error = failure(destination.get(&server, &Expected { sha256: None, ..verified() }));
            assert!(error.to_string().ends_with("it resumes where it stopped"), "{error}");
            assert!(
                fs::metadata(destination.directory.path().join("file.bin.part")).unwrap().len() >= 50_000
            );
            assert!(!destination.target().exists());
        })
    });
    both.into_iter().for_each(|test| test.join().unwrap());
}

#[test]
fn redirects_are_followed_to_an_end() {
    let (destination, server) = (
        Destination::new(),
        serve(|_, request, stream| match request.contains("get /moved") {
            true => send(request, stream, usize::MAX),
            false => head(stream, "302 Found", 0, "Location: /moved\r\n"),
        }),
    );
    destination.get(&server, &verified()).unwrap();
    assert!(destination.is_whole());
    let circle = serve(|_, _, stream| head(stream, "302 Found", 0, "Location: /again\r\n"));
    failure(Destination::new().get(&circle, &verified()));
    assert_eq!(circle.seen.lock().unwrap().len(), 11);
}

#[test]
fn a_concurrent_download_neither_waits_nor_interferes() {
    let (destination, server) = (
        Destination::new(),
        serve(|_, request, stream| {
            send(request, stream, 50_000)?;
            thread::sleep(Duration::from_millis(500));
            Ok(())
        }),
    );
    let results: Vec<_> = thread::scope(|scope| {
        let both: Vec<_> = (0..2).map(|_| scope.spawn(|| destination.get(&server, &verified()))).collect();
        both.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let n_busy = results.iter().filter(|result| matches!(result, Err(DownloadError::Busy { .. }))).count();
    assert_eq!((n_busy, results.iter().filter(|result| result.is_ok()).count()), (1, 1), "{results:?}");
    assert!(destination.is_whole());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named() {
    let (destination, server) = serving(usize::MAX);
    std::os::unix::fs::symlink(Path::new("/dev/full"), destination.directory.path().join("file.bin.part"))
        .unwrap();
    let error = destination.get(&server, &verified()).unwrap_err();
    assert!(error.to_string().contains("file.bin.part: cannot be written; check the directory"), "{error}");
    assert!(!destination.target().exists());
}
