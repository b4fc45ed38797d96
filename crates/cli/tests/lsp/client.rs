//! An editor: starts a server, and speaks the protocol to it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::fixture::{Arguments, Fixture, Running};
use serde_json::{Value, json};

/// Maximum time of an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const NET: &str = "def connect(host):\n    \"\"\"Open a socket to a host.\"\"\"\n    return dial(host)\n\n\n\
                   def dial(host):\n    return host.number()\n";
const MAIN: &str = "from net import connect\n\n\ndef main(name):\n    return connect(name), connect(name)\n";

pub(crate) struct Client {
    pub(crate) process: Running,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) messages: Receiver<Value>,
    fixture: Fixture,
    /// Messages besides answers.
    pub(crate) notices: Vec<Value>,
    pub(crate) n_requests: i64,
}

impl Client {
    /// Starts a server without a word to it. `tree` is a folder with two files.
    pub(crate) fn spawn(arguments: &[&str]) -> Self {
        let fixture = Fixture::with(&[("net.py", NET), ("main.py", MAIN)]);
        fs::remove_dir_all(fixture.path("tree/http")).unwrap();
        fixture.write("secret.py", "def secret():\n    return 42\n");
        let mut command = fixture.command(&[&["lsp"], arguments].concat());
        command.current_dir(fixture.path("")).stdin(Stdio::piped());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = process.stdin.take();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || while read(&mut stdout).is_some_and(|message| sender.send(message).is_ok()) {});
        Self { process: Running(process), stdin, messages, fixture, notices: Vec::new(), n_requests: 0 }
    }

    /// Starts a server of the folder `tree`.
    pub(crate) fn start() -> Self {
        let mut client = Self::spawn(&["--index", "index"]);
        client.initialize(&["tree"], json!({}));
        client
    }

    pub(crate) fn initialize(&mut self, folders: &[&str], capabilities: Value) -> Value {
        let folders: Vec<Value> =
            folders.iter().map(|name| json!({"uri": self.uri(name), "name": name})).collect();
        let answer = self.request(
            "initialize",
            json!({"processId": null, "workspaceFolders": folders, "capabilities": capabilities}),
        );
        assert_eq!(answer["result"]["serverInfo"]["name"], "quarry", "{answer}");
        self.notify("initialized", json!({}));
        answer["result"]["capabilities"].clone()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.fixture.path("").canonicalize().unwrap().join(path)
    }

    /// Another command, where the server runs.
    pub(crate) fn quarry(&self, arguments: impl Arguments) -> Command {
        let mut command = self.fixture.command(arguments);
        command.current_dir(self.fixture.path(""));
        command
    }

    pub(crate) fn uri(&self, path: &str) -> String {
        format!("file://{}", self.path(path).display())
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        self.send_bytes(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send_text(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request without waiting for its answer: its id.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.n_requests += 1;
        let id = self.n_requests;
        self.send_text(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.messages.recv_timeout(PATIENCE).expect("an answer");
            assert_eq!(message["jsonrpc"], "2.0", "{message}");
            if message.get("method").is_none() && message["id"] == *id {
                return message;
            }
            if message["method"] == "window/workDoneProgress/create" {
                let id = message["id"].clone();
                self.send_text(&json!({"jsonrpc": "2.0", "id": id, "result": null}).to_string());
            }
            self.notices.push(message);
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(&json!(id))
    }

    #[track_caller]
    pub(crate) fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.request(method, params);
        assert!(answer.get("error").is_none() && answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    #[track_caller]
    pub(crate) fn execute(&mut self, command: &str, arguments: Value) -> Value {
        self.result("workspace/executeCommand", json!({"command": command, "arguments": arguments}))
    }

    /// Checks that a command fails with this code, and words.
    #[track_caller]
    pub(crate) fn check_refused(&mut self, command: &str, arguments: Value, code: i64, words: &str) {
        let params = json!({"command": command, "arguments": arguments});
        let answer = self.request("workspace/executeCommand", params);
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{answer}");
    }

    /// The names and the URIs of what a search finds.
    #[track_caller]
    pub(crate) fn search(&mut self, query: &str) -> Vec<(String, String)> {
        found(&self.execute("quarry.search", json!([{"query": query}])))
    }

    /// Opens a document with a text that is not saved.
    pub(crate) fn open(&mut self, path: &str, text: &str) {
        let document = json!({"uri": self.uri(path), "languageId": "python", "version": 1, "text": text});
        self.notify("textDocument/didOpen", json!({"textDocument": document}));
    }

    /// Ends the server as the protocol says.
    pub(crate) fn end(mut self) {
        assert_eq!(self.result("shutdown", Value::Null), Value::Null);
        self.notify("exit", Value::Null);
        let mut stderr = String::new();
        self.process.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(self.process.0.wait().unwrap().code(), Some(0), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

fn read(input: &mut impl BufRead) -> Option<Value> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", value)) => length = Some(value.parse::<usize>().unwrap()),
            Some(header) => panic!("{header:?}"),
            None => break,
        }
    }
    let mut bytes = vec![0; length.unwrap()];
    input.read_exact(&mut bytes).ok()?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

pub(crate) fn found(answer: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let results = answer["results"].as_array().unwrap();
    results.iter().map(|result| (text(&result["name"]), text(&result["uri"]))).collect()
}

#[track_caller]
pub(crate) fn has(found: &[(String, String)], name: &str) -> bool {
    found.iter().any(|(found, _)| found == name)
}
