//! `quarry mcp` as a client runs it: lines of JSON-RPC to stdin, lines from stdout.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A server of a small tree.
struct Server {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
    n_requests: u64,
}

impl Server {
    /// Starts a server without a word to it.
    fn spawn() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir_all(&tree).unwrap();
        fs::write(
            tree.join("net.py"),
            "def connect(host):\n    \"\"\"Open a socket to a host.\"\"\"\n    return dial(host)\n",
        )
        .unwrap();
        fs::write(folder.path().join("secret.py"), "def secret():\n    return 42\n").unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_quarry"))
            .args(["mcp", "--index", "../index"])
            .current_dir(&tree)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        Self { process, stdin, stdout, folder, n_requests: 0 }
    }

    fn start() -> Self {
        let mut server = Self::spawn();
        let client = json!({"name": "test", "version": "1"});
        let answer = server.request(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
        );
        assert_eq!(answer["result"]["serverInfo"]["name"], "quarry", "{answer}");
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        server
    }

    fn send(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The answer to a request; every line must be of the protocol.
    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.read();
        assert_eq!(answer["id"], json!(id), "{answer}");
        answer
    }

    /// Sends a request without waiting for its answer: its id.
    fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.n_requests += 1;
        let id = self.n_requests;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The next line.
    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// Locks the index as its writer does: until that is dropped, calls that need to write it wait.
    fn lock(&self) -> File {
        let index = self.folder.path().join("index");
        fs::create_dir_all(&index).unwrap();
        let lock = File::create(index.join("lock")).unwrap();
        lock.lock().unwrap();
        lock
    }

    /// Asks for a search that cannot be answered while the index is locked, and waits until it runs: its id.
    fn ask_and_wait(&mut self) -> u64 {
        let id = self.ask(
            "tools/call",
            json!({"name": "search", "arguments": {"query": "open a socket"}, "_meta": {"progressToken": "token"}}),
        );
        let notice = self.read();
        assert_eq!(notice["method"], "notifications/progress", "{notice}");
        assert_eq!(notice["params"]["progressToken"], "token");
        assert!(notice["params"]["message"].as_str().unwrap().contains("another process"), "{notice}");
        id
    }

    /// The text of a tool's answer, and whether it is an error.
    fn call(&mut self, tool: &str, arguments: Value) -> (String, bool) {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        (text.to_owned(), result["isError"].as_bool().unwrap_or_default())
    }

    #[track_caller]
    fn check_answer(&mut self, tool: &str, arguments: Value, words: &str) {
        let (text, is_error) = self.call(tool, arguments);
        assert!(!is_error && text.contains(words), "{text}");
    }

    #[track_caller]
    fn check_refusal(&mut self, tool: &str, arguments: Value, words: &str) {
        let (text, is_error) = self.call(tool, arguments);
        assert!(is_error && text.contains(words), "{text}");
    }

    /// Closes stdin: the exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.process.wait().unwrap().code()
    }
}

#[test]
fn tools_are_listed_and_answer() {
    let mut server = Server::start();
    let listed = server.request("tools/list", json!({}));
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["search", "similar", "read_unit", "index_status"]);
    server.check_answer("search", json!({"query": "open a socket"}), "1. net.py:1-3 function connect\n");
    server.check_answer("read_unit", json!({"path": "net.py", "line": 3}), "     3|     return dial(host)\n");
    server.check_answer("similar", json!({"path": "net.py", "line": 1}), "net.py:1-3 function connect");
    server.check_answer("index_status", json!({}), "1 units in 1 files, up to date");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_changed_tree_is_indexed_again() {
    let mut server = Server::start();
    server.check_answer("index_status", json!({}), "there is no index yet");
    server.check_answer("search", json!({"query": "socket"}), "net.py:1-3");
    let added = server.folder.path().join("tree/mail.py");
    fs::write(added, "def send_letter(address):\n    return post(address)\n").unwrap();
    server.check_answer("index_status", json!({}), "not up to date (1 file new)");
    server.check_answer("search", json!({"query": "send a letter"}), "mail.py:1-2 function send_letter");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn bad_arguments_are_refused_by_the_tool() {
    let mut server = Server::start();
    server.check_refusal("search", json!({}), "query");
    server.check_refusal("search", json!({"query": " "}), "no word");
    server.check_refusal("search", json!({"query": "x", "path": "nett.py"}), "net.py");
    server.check_refusal("search", json!({"query": "x", "languages": ["pyhton"]}), "python");
    server.check_refusal("read_unit", json!({"path": "../secret.py", "line": 1}), "outside");
    server.check_refusal("read_unit", json!({"path": "net.py", "line": 9}), "ends with line 3");
    server.check_refusal("similar", json!({"path": "net.py", "line": 9}), "net.py");
    let answer = server.request("tools/call", json!({"name": "grep", "arguments": {}}));
    assert!(answer["error"]["message"].as_str().unwrap().contains("index_status"), "{answer}");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn garbage_is_survived() {
    let mut server = Server::start();
    for line in ["garbage", "{", "", "\u{0}\u{1}"] {
        server.send(line);
    }
    server.check_answer("index_status", json!({}), "there is no index yet");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn progress_is_told_to_who_asks_for_it() {
    let mut server = Server::start();
    let lock = server.lock();
    let id = server.ask_and_wait();
    drop(lock);
    let mut told = vec![0.0];
    let answer = loop {
        let message = server.read();
        if message["id"] == json!(id) {
            break message;
        }
        assert_eq!(message["params"]["total"], 1.0, "{message}");
        told.push(message["params"]["progress"].as_f64().unwrap());
    };
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("net.py:1-3"), "{answer}");
    assert!(told.len() > 1 && told.is_sorted_by(|a, b| a < b) && told[told.len() - 1] <= 1.0, "{told:?}");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_cancelled_call_has_no_answer_and_holds_nothing_up() {
    let mut server = Server::start();
    let lock = server.lock();
    let id = server.ask_and_wait();
    let cancel = json!({"requestId": id, "reason": "changed my mind"});
    server
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}).to_string());
    server.check_answer("index_status", json!({}), "there is no index yet");
    drop(lock);
    server.check_answer("search", json!({"query": "open a socket"}), "1. net.py:1-3 function connect\n");
    server.check_answer("index_status", json!({}), "1 units in 1 files, up to date");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn the_end_of_input_is_the_end() {
    assert_eq!(Server::spawn().end(), Some(0));
    let mut busy = Server::start();
    let _lock = busy.lock();
    busy.ask_and_wait();
    assert_eq!(busy.end(), Some(0), "a call that cannot be answered does not keep the server");
}
