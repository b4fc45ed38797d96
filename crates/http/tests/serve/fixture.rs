//! A served tree, and a client that sends exactly the given bytes.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quarry_embed::StaticModel;
use quarry_http::{CodeLink, Server, StopHandle, Trees};
use quarry_index::{Index, RankingWeights, SegmentPool, Update, UserDirectories};
use quarry_mcp::Workspace;
use quarry_session::settings::{SearchDefaults, Settings};
use quarry_session::{OpenChoice, Session, SharedTree};
use quarry_test_support::files::write_below;
use quarry_test_support::git::GitRepository;
use tempfile::TempDir;

/// Patience with the server, which a broken one would exhaust.
const PATIENCE: Duration = Duration::from_secs(30);

/// Default files of a tree.
pub(crate) const FILES: [(&str, &str); 5] = [
    (
        "src/retry.py",
        "def retry_with_backoff(call, times):\n    \"\"\"Calls again, after longer and longer pauses.\"\"\"\n    \
         for n in range(times):\n        pause(2 ** n)\n        call()\n",
    ),
    (
        "src/wait.py",
        "def pause(seconds):\n    \"\"\"Waits.\"\"\"\n    clock.sleep(seconds)\n\n\ndef rest():\n    pause(60)\n",
    ),
    (
        "lib/http.rs",
        "/// Opens a connection to a host.\npub fn connect(host: &str) -> Stream {\n    dial(host)\n}\n",
    ),
    ("ignored.py", "def secret_backoff():\n    return 'not for anybody'\n"),
    (".gitignore", "ignored.py\n"),
];

/// A server with a tree, which ends with the test.
pub(crate) struct Served {
    pub address: SocketAddr,
    pub trees: Arc<Trees>,
    shared: SharedTree,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
    directories: Vec<TempDir>,
}

#[derive(Default)]
pub(crate) struct Start<'a> {
    pub token: Option<&'a str>,
    /// Without an index yet.
    pub is_building: bool,
    pub links: Vec<CodeLink>,
    /// Commits of the first tree, each with the files that it writes.
    pub commits: Vec<(&'a str, Vec<(&'a str, &'a str)>)>,
    /// The bytes of the indexes that may be open at a time.
    pub max_open: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    #[track_caller]
    pub(crate) fn check_problem(&self, status: u16, words: &str) {
        let found = (self.status, self.header("content-type"));
        assert_eq!(found, (status, Some("application/problem+json")), "{self:?}");
        assert!(self.json()["detail"].as_str().unwrap().contains(words), "{self:?}");
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

fn user(directories: &[TempDir]) -> UserDirectories {
    UserDirectories::below(&directories[0].path().join("user"))
}

/// Indexes trees of files and serves them under the names of `trees`.
pub(crate) fn serve_all(trees: &[(&str, &[(&str, &str)])], start: Start) -> Served {
    let directories: Vec<TempDir> = trees.iter().map(|_| tempfile::tempdir().unwrap()).collect();
    let paths: Vec<PathBuf> = directories.iter().map(|directory| directory.path().join("tree")).collect();
    for (path, (_, files)) in paths.iter().zip(trees) {
        fs::create_dir_all(path).unwrap();
        write_below(path, files);
    }
    if !start.commits.is_empty() {
        let mut repository = GitRepository::with_work_tree(&paths[0]);
        for (message, files) in &start.commits {
            let files: Vec<(&str, Option<&str>)> =
                files.iter().map(|(path, text)| (*path, Some(*text))).collect();
            repository.commit(message, &files);
        }
    }
    let pool = start.max_open.map(|max_open| Arc::new(SegmentPool::new(max_open, || ())));
    let choice = OpenChoice { pool: pool.clone(), user: user(&directories), ..OpenChoice::default() };
    let session = Session::new(paths.clone(), choice.clone());
    let session = Arc::new(session.waiting(Duration::from_millis(100), |_| {}));
    let tree = session.snapshot(None, &|_| {}).unwrap().tree();
    let names: Vec<String> = trees.iter().map(|(name, _)| (*name).to_owned()).collect();
    let ranking = RankingWeights::default();
    let defaults = SearchDefaults { limit: 10, threshold: Some(0.3), ranking, lines: 3, context: 0 };
    let workspaces = paths.iter().map(|path| Workspace::new(vec![path.clone()], choice.clone())).collect();
    let options = choice.options(&Settings::defaults());
    let status = move |number: usize| Index::status(&paths[number], &options);
    let model = Arc::new(StaticModel::builtin());
    let trees = Trees::new(&names, defaults, start.links, Box::new(status), model).with_session(session);
    let trees = Arc::new(match pool {
        Some(pool) => trees.with_pool(pool),
        None => trees,
    });
    let shared = tree.shared();
    if !start.is_building {
        trees.show(&tree);
    }
    let local = "127.0.0.1:0".parse().unwrap();
    let hosts = vec!["code.example".to_owned()];
    let server = Server::bind(local, Arc::clone(&trees), hosts, start.token, false, workspaces).unwrap();
    let (address, stop) = (server.address(), server.stop());
    let thread = Some(thread::spawn(move || server.run()));
    Served { address, trees, shared, stop, thread, directories }
}

pub(crate) fn serve_with(files: &[(&str, &str)], start: Start) -> Served {
    serve_all(&[("shop", files)], start)
}

pub(crate) fn serve() -> Served {
    serve_with(&FILES, Start::default())
}

impl Served {
    /// The directory of the first tree.
    pub(crate) fn directory(&self) -> PathBuf {
        self.directories[0].path().join("tree")
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and reads until the server closes the connection.
    pub(crate) fn send(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut reply = Vec::new();
        // A server that refuses what is still being sent may reset the connection.
        let _ = stream.read_to_end(&mut reply);
        let reply = String::from_utf8_lossy(&reply).into_owned();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// A request with further lines of its head.
    pub(crate) fn request(&self, method: &str, path: &str, head: &[&str], body: &str) -> Reply {
        let host = format!("Host: {}", self.address);
        let has_host = head.iter().any(|line| line.to_lowercase().starts_with("host:"));
        let lines: Vec<&str> =
            (!has_host).then_some(host.as_str()).into_iter().chain(head.iter().copied()).collect();
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let lines = lines.join("\r\n");
        self.send(
            format!("{method} {path} HTTP/1.1\r\n{lines}\r\n{length}Connection: close\r\n\r\n{body}")
                .as_bytes(),
        )
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.request("GET", path, &["Accept: text/html"], "")
    }

    /// Indexes all trees anew, as another process does; the server knows nothing of it.
    pub(crate) fn replace(&self) {
        let paths: Vec<PathBuf> =
            self.directories.iter().map(|directory| directory.path().join("tree")).collect();
        let choice = OpenChoice { user: user(&self.directories), ..OpenChoice::default() };
        Session::new(paths, choice).with_update(Update::Anew).snapshot(None, &|_| {}).unwrap();
    }

    /// The file that writers of the index of the first tree lock.
    pub(crate) fn lock_file(&self) -> fs::File {
        let indexes = self.directories[0].path().join("user/cache/index");
        let index = fs::read_dir(indexes).unwrap().next().unwrap().unwrap();
        fs::File::options().append(true).open(index.path().join("lock")).unwrap()
    }

    /// Ends the building of the index.
    pub(crate) fn show(&self) {
        self.trees.show(&self.shared.tree());
    }

    /// Stops it, and waits until it has ended.
    pub(crate) fn end(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
