//! Handmade packages, an index that serves them, and programs that use them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quarry_sandbox::packages::{Index, PackageError, PackageSet, PackageSource, Packages, Rules, Settings};
use quarry_sandbox::{Bubblewrap, Limits, Outcome, Runner, Sandbox};
use serde_json::{Value, json};

/// The content of the file that packages must not reach.
const UNTOUCHED: &str = "as it was";

/// A cache, and a directory of packages.
pub(crate) struct Fixture {
    directory: tempfile::TempDir,
    pub settings: Settings,
}

impl Fixture {
    pub(crate) fn new(packages: &[Value]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Programs that root starts run as another user.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let index = directory.path().join("index");
        fs::create_dir(&index).unwrap();
        // Writable by anybody who finds it.
        let victim = directory.path().join("victim");
        fs::write(&victim, UNTOUCHED).unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o666)).unwrap();
        let settings = Settings {
            cache: directory.path().join("cache"),
            wall_time: Duration::from_secs(240),
            bytes: 16 << 20,
            pip: Rules { index: Some(Index::Directory(index)), ..Rules::default() },
            npm: Rules::default(),
        };
        let fixture = Self { directory, settings };
        fixture.add(packages);
        fixture
    }

    pub(crate) fn add(&self, packages: &[Value]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages/make.py");
        let mut make = Command::new("/usr/bin/python3");
        let mut child = make.arg(script).arg(self.index()).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(json!(packages).to_string().as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// A file that no package may reach, though it is writable for everybody.
    pub(crate) fn victim(&self) -> PathBuf {
        self.directory.path().join("victim")
    }

    /// Asserts that no package wrote to the victim, or left a file named `escaped` outside of its own directory.
    #[track_caller]
    pub(crate) fn assert_untouched(&self) {
        assert_eq!(fs::read_to_string(self.victim()).unwrap(), UNTOUCHED);
        let mut directories = vec![self.directory.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap().flatten() {
                assert!(!entry.file_name().to_string_lossy().starts_with("escaped"), "{:?}", entry.path());
                if entry.file_type().unwrap().is_dir() && entry.file_name() != "packages" {
                    directories.push(entry.path());
                }
            }
        }
    }

    /// Serves the packages on loopback instead, as an index of Python.
    pub(crate) fn serve(&mut self) -> Server {
        let server = Server::simple(self.index());
        self.settings.pip.index = Some(Index::Address(format!("{}/simple", server.address)));
        server
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.directory.path().join("index")
    }

    pub(crate) fn packages(&self) -> Packages {
        Packages::open(self.settings.clone()).unwrap()
    }

    /// The entries of the cache except locks.
    pub(crate) fn kept(&self) -> Vec<String> {
        // It does not exist until packages are needed.
        let entries = fs::read_dir(&self.settings.cache).into_iter().flatten().flatten();
        let entries = entries.map(|entry| entry.file_name());
        entries.filter_map(|name| name.into_string().ok()).filter(|name| !name.ends_with(".lock")).collect()
    }

    #[track_caller]
    pub(crate) fn provide(&self, language: &str, names: &[&str]) -> Result<PackageSet, PackageError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.packages().provide(language, &names)
    }

    /// The reason why packages are refused. Nothing of them may be cached.
    #[track_caller]
    pub(crate) fn refusal(&self, language: &str, names: &[&str]) -> String {
        let error = self.provide(language, names).unwrap_err();
        assert_eq!(self.kept(), [] as [String; 0]);
        assert!(matches!(error, PackageError::Refused { .. }), "{error}");
        error.to_string()
    }
}

pub(crate) fn wheel(name: &str, version: &str, files: Value, needs: &[&str]) -> Value {
    json!({"kind": "wheel", "name": name, "version": version, "files": files, "needs": needs})
}

pub(crate) fn run(language: &str, source: &str, provided: &PackageSet) -> Outcome {
    let mut program = Runner::named(language).unwrap().program(source);
    provided.add_to(&mut program);
    let limits = Limits { memory_bytes: 1 << 30, wall_time: Duration::from_secs(120), ..Limits::default() };
    Bubblewrap::open().unwrap().run(&program, &limits).unwrap()
}

/// Returns whether packages can be fetched here; prints a message if not.
pub(crate) fn can_fetch(language: &str) -> bool {
    let Err(error) = Bubblewrap::open().and_then(|_| Fixture::new(&[]).packages().check(language)) else {
        return true;
    };
    // Not with a macro, whose output the test runner hides.
    let _ = writeln!(std::io::stderr(), "\nFETCHING PACKAGES IS NOT TESTED for {language}: {error}\n");
    false
}

/// The answer to a request: status and body.
type Answer = Arc<dyn Fn(&str) -> (u16, Vec<u8>) + Send + Sync>;

/// A server on loopback that answers by the path of a request. `{HOST}` in an answer is replaced by its address.
pub(crate) struct Server {
    pub address: String,
    pub count: Arc<AtomicUsize>,
    pub paths: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn new(answer: impl Fn(&str) -> (u16, Vec<u8>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { address, count: Arc::default(), paths: Arc::default() };
        let (count, paths) = (Arc::clone(&server.count), Arc::clone(&server.paths));
        let answer: Answer = Arc::new(answer);
        let own = server.address.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                let (answer, paths) = (Arc::clone(&answer), Arc::clone(&paths));
                let own = own.clone();
                std::thread::spawn(move || serve(&stream, &own, &answer, &paths));
            }
        });
        server
    }

    /// A Python index with the files of a directory.
    pub(crate) fn simple(directory: PathBuf) -> Self {
        Self::new(move |path| {
            let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
            match parts[..] {
                ["simple", package] => {
                    let files = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name());
                    let links: String = files
                        .filter_map(|name| name.into_string().ok())
                        .filter(|name| {
                            name.to_lowercase().replace('_', "-").starts_with(&format!("{package}-"))
                        })
                        .map(|name| format!("<a href=\"/files/{name}\">{name}</a>\n"))
                        .collect();
                    let status = if links.is_empty() { 404 } else { 200 };
                    (status, format!("<!DOCTYPE html><html><body>{links}</body></html>").into_bytes())
                }
                ["files", name] => (200, fs::read(directory.join(name)).unwrap_or_default()),
                _ => (404, Vec::new()),
            }
        })
    }
}

fn serve(stream: &TcpStream, own: &str, answer: &Answer, paths: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream).lines();
    let Some(Ok(first)) = lines.next() else { return };
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (status, mut body) = answer(&path);
    if let Ok(text) = std::str::from_utf8(&body) {
        body = text.replace("{HOST}", own).into_bytes();
    }
    paths.lock().unwrap().push(path);
    let kind = if body.starts_with(b"<") { "text/html" } else { "application/json" };
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = stream;
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}
