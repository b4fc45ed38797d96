//! `quarry mcp` as a client runs it: lines of JSON-RPC to stdin, lines from stdout.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::fixture::{Fixture, Running};

const MAIL: &str = "def send_letter(address):\n    return post(address)\n";

struct Server {
    process: Running,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    fixture: Fixture,
    n_requests: u64,
}

impl Server {
    fn spawn() -> Self {
        Self::spawn_with(&["--index", "../index"])
    }

    fn spawn_with(arguments: &[&str]) -> Self {
        let fixture = Fixture::new();
        fs::remove_dir_all(fixture.path("tree/http")).unwrap();
        fixture.write("secret.py", "def secret():\n    return 42\n");
        let mut command = fixture.command(&[&["mcp"], arguments].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        Self { process: Running(process), stdin, stdout, fixture, n_requests: 0 }
    }

    fn start() -> Self {
        Self::start_with("2025-06-18")
    }

    /// Starts a server with a version of the protocol.
    fn start_with(version: &str) -> Self {
        let mut server = Self::spawn();
        server.initialize(version, json!({}));
        server
    }

    fn initialize(&mut self, version: &str, capabilities: Value) {
        let client = json!({"name": "test", "version": "1"});
        let parameters =
            json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client});
        let answer = self.request("initialize", parameters);
        assert_eq!(answer["result"]["serverInfo"]["name"], "quarry", "{answer}");
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        self.notify("initialized", Value::Null);
    }

    fn notify(&mut self, what: &str, params: Value) {
        let mut message = json!({"jsonrpc": "2.0", "method": format!("notifications/{what}")});
        if !params.is_null() {
            message["params"] = params;
        }
        self.send(&message.to_string());
    }

    /// Sends a line that is answered with an error: its code, the id that is answered, and its message.
    fn error_of(&mut self, line: &str) -> (i64, Value, String) {
        self.send(line);
        let answer = self.read();
        let error = &answer["error"];
        assert!(answer.as_object().unwrap().contains_key("id"), "{answer}");
        (error["code"].as_i64().unwrap(), answer["id"].clone(), error["message"].as_str().unwrap().to_owned())
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

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// Locks the index as its writer does: until that is dropped, calls that need to write it wait.
    fn lock(&self) -> File {
        let index = self.fixture.path("index");
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
        let (mut text, mut is_error) = self.call(tool, arguments.clone());
        // An answer does not wait long for changed files.
        while text.contains("changed since the index was built") {
            (text, is_error) = self.call(tool, arguments.clone());
        }
        assert!(!is_error && text.contains(words), "{text}");
    }

    #[track_caller]
    fn check_refusal(&mut self, tool: &str, arguments: Value, words: &str) {
        let (text, is_error) = self.call(tool, arguments);
        assert!(is_error && text.contains(words), "{text}");
    }

    /// Closes stdin: the exit code.
    fn end(self) -> Option<i32> {
        self.end_with_log().0
    }

    /// Closes stdin: the exit code, and what is on stderr.
    fn end_with_log(mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let mut log = String::new();
        self.process.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.process.0.wait().unwrap().code(), log)
    }
}

#[test]
fn tools_are_listed_and_answer() {
    let mut server = Server::start();
    let listed = server.request("tools/list", json!({}));
    // Every client has them in its prompts.
    let n_bytes = listed["result"]["tools"].to_string().len();
    assert!(n_bytes <= 4_000, "{n_bytes} bytes");
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["search", "context", "outline", "read_unit", "callers", "related", "index_status"]);
    server.check_answer("search", json!({"query": "open a socket"}), "1. net.py:1-3 function connect\n");
    server.check_answer("read_unit", json!({"path": "net.py", "line": 3}), "3|     return dial(host)\n");
    let similar = json!({"path": "net.py", "line": 1, "kinds": ["similar"]});
    server.check_answer("related", similar, "net.py:1-3 function connect");
    server.check_answer("context", json!({"query": "open a socket"}), "net.py:1-3 function connect\n1| def");
    server.check_answer("outline", json!({}), "net.py\n1| def connect(host)\n");
    server.check_answer("search", json!({"query": "knitting patterns for mittens"}), "Nothing ");
    server.check_answer("index_status", json!({}), "1 unit in 1 file, up to date");
    server.check_answer("index_status", json!({}), "vectors for re-ranking: none\n");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_changed_tree_is_indexed_again() {
    let mut server = Server::start();
    server.check_answer("index_status", json!({}), "there is no index yet");
    server.check_answer("search", json!({"query": "socket"}), "net.py:1-3");
    server.fixture.write("tree/mail.py", MAIL);
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
fn invalid_messages_are_answered_and_logged() {
    let mut server = Server::start();
    for line in ["garbage", "{", "\u{0}\u{1}", &"[".repeat(100_000), "{\"jsonrpc\":\"2.0\"}}"] {
        let (code, id, _) = server.error_of(line);
        assert_eq!((code, id), (-32700, Value::Null));
    }
    let invalid = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n";
    server.stdin.as_mut().unwrap().write_all(invalid).unwrap();
    let answer = server.read();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32700), &Value::Null));
    let (code, id, message) = server.error_of(r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#);
    assert_eq!((code, id, message.contains("`id`")), (-32600, Value::Null, true));
    let (code, id, _) = server.error_of(r#"{"jsonrpc":"1.0","id":7,"method":"tools/list"}"#);
    assert_eq!((code, id), (-32600, json!(7)));
    let (code, id, _) = server.error_of(r#"{"jsonrpc":"2.0","id":8,"method":"tools/made_up"}"#);
    assert_eq!((code, id), (-32601, json!(8)));
    let (code, id, message) =
        server.error_of(r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{}}"#);
    assert_eq!((code, id, message.contains("`name`")), (-32602, json!(9), true));
    let cursor = r#"{"jsonrpc":"2.0","id":10,"method":"tools/list","params":{"cursor":"x"}}"#;
    assert_eq!(server.error_of(cursor).0, -32602);
    // Notifications get no answer, nor do messages that are not requests.
    for line in [
        "",
        r#"{"jsonrpc":"2.0","method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/made_up"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4711}}"#,
        r#"{"jsonrpc":"2.0","id":5,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
    ] {
        server.send(line);
    }
    server.check_answer("index_status", json!({}), "there is no index yet");
    let (code, log) = server.end_with_log();
    assert_eq!(code, Some(0));
    assert_eq!(log.matches("refused a message from the client: not JSON").count(), 5, "{log}");
    assert!(log.contains("not UTF-8") && log.contains("ignored a message from the client"), "{log}");
}

#[test]
fn long_input_is_refused() {
    let mut server = Server::start();
    let line =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":"{}"}}}}"#, "x".repeat(17 << 20));
    let (code, id, message) = server.error_of(&line);
    assert_eq!((code, id), (-32600, Value::Null));
    assert!(message.contains(&format!("{} bytes", line.len())), "{message}");
    // A long line that can be read has an id, and a tool to answer it.
    server.check_refusal("search", json!({"query": "word ".repeat(200_000)}), "at most 70000");
    server.check_refusal("search", json!({"query": "x", "top_k": 3}), "did you mean k?");
    server.check_answer("index_status", json!({}), "there is no index yet");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn the_last_line_needs_no_end() {
    let mut server = Server::start();
    let call =
        json!({"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": {"name": "index_status"}});
    server.stdin.as_mut().unwrap().write_all(call.to_string().as_bytes()).unwrap();
    drop(server.stdin.take());
    assert_eq!(server.read()["id"], "last");
    assert_eq!(server.end(), Some(0));
    let mut server = Server::start();
    server.stdin.as_mut().unwrap().write_all(b"{\"jsonrpc\":").unwrap();
    drop(server.stdin.take());
    assert_eq!(server.read()["error"]["code"], -32700);
    assert_eq!(server.end(), Some(0));
}

#[test]
fn before_the_handshake_only_requests_are_answered() {
    let mut server = Server::spawn();
    assert_eq!(server.error_of("garbage").0, -32700);
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    server.send(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let answer = server.request("ping", json!({}));
    assert_eq!(answer["result"], json!({}));
    let (code, id, _) = server.error_of(r#"{"jsonrpc":"2.0","id":99,"method":"tools/list"}"#);
    assert_eq!((code, id), (-32602, json!(99)));
    let (code, _, message) =
        server.error_of(r#"{"jsonrpc":"2.0","id":99,"method":"initialize","params":{}}"#);
    assert_eq!((code, message.contains("protocolVersion")), (-32602, true), "{message}");
    server.initialize("2025-11-25", json!({}));
    server.check_answer("index_status", json!({}), "there is no index yet");
    let (code, log) = server.end_with_log();
    assert_eq!(code, Some(0));
    assert!(log.contains("before `initialize`"), "{log}");
}

#[test]
fn batches_are_answered_where_the_protocol_has_them() {
    let batch = json!([
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/made_up"},
        {"jsonrpc": "2.0", "id": "b", "method": "made/up"},
        {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {"name": "index_status", "arguments": {}}},
        {"jsonrpc": "2.0", "id": "d", "method": "initialize", "params":
            {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}},
        5,
    ]);
    let mut server = Server::start_with("2025-03-26");
    server.send(&batch.to_string());
    let mut line = String::new();
    server.stdout.read_line(&mut line).unwrap();
    let answers: Vec<Value> = serde_json::from_str(&line).unwrap();
    let answer =
        |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("{line}"));
    assert_eq!(answers.len(), 5, "{line}");
    assert_eq!(answer(json!("a"))["result"], json!({}));
    assert_eq!(answer(json!("b"))["error"]["code"], -32601);
    assert!(answer(json!("c"))["result"]["content"].is_array());
    assert_eq!(answer(json!("d"))["error"]["code"], -32600);
    assert_eq!(answer(Value::Null)["error"]["code"], -32600);
    // Nothing asks for an answer.
    server.send(r#"[{"jsonrpc":"2.0","method":"notifications/made_up"}]"#);
    assert_eq!(server.error_of("[]").0, -32600);
    server.check_answer("index_status", json!({}), "there is no index yet");
    assert_eq!(server.end(), Some(0));

    let mut server = Server::start_with("2025-06-18");
    let (code, id, message) = server.error_of(&batch.to_string());
    assert_eq!((code, id), (-32600, Value::Null));
    assert!(message.contains("one message per line"), "{message}");
    server.check_answer("index_status", json!({}), "there is no index yet");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn an_id_in_use_is_not_taken_again_and_a_canceled_one_of_a_batch_not_waited_for() {
    let mut server = Server::start_with("2025-03-26");
    let lock = server.lock();
    let id = server.ask_and_wait();
    let again = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let (code, answered, message) = server.error_of(&again.to_string());
    assert_eq!((code, answered), (-32600, Value::Null));
    assert!(message.contains("no answer yet"), "{message}");
    let search = json!({"name": "search", "arguments": {"query": "open a socket"}});
    let batch = json!([
        {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": search},
        {"jsonrpc": "2.0", "id": "quick", "method": "ping"},
    ]);
    server.send(&batch.to_string());
    server.notify("cancelled", json!({"requestId": "slow"}));
    let mut line = String::new();
    server.stdout.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), r#"[{"jsonrpc":"2.0","id":"quick","result":{}}]"#);
    server.notify("cancelled", json!({"requestId": id}));
    drop(lock);
    server.check_answer("search", json!({"query": "open a socket"}), "1. net.py:1-3 function connect\n");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn progress_is_reported_on_request() {
    let mut server = Server::start();
    let lock = server.lock();
    let id = server.ask_and_wait();
    drop(lock);
    let mut shares = vec![0.0];
    let answer = loop {
        let message = server.read();
        if message["id"] == json!(id) {
            break message;
        }
        assert_eq!(message["params"]["total"], 1.0, "{message}");
        shares.push(message["params"]["progress"].as_f64().unwrap());
    };
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("net.py:1-3"), "{answer}");
    assert!(shares.len() > 1, "{shares:?}");
    assert!(shares.is_sorted_by(|a, b| a < b), "{shares:?}");
    assert!(shares[shares.len() - 1] <= 1.0, "{shares:?}");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_canceled_call_has_no_answer_and_holds_nothing_up() {
    let mut server = Server::start();
    let lock = server.lock();
    let id = server.ask_and_wait();
    server.notify("cancelled", json!({"requestId": id, "reason": "changed my mind"}));
    server.check_answer("index_status", json!({}), "there is no index yet");
    drop(lock);
    server.check_answer("search", json!({"query": "open a socket"}), "1. net.py:1-3 function connect\n");
    server.check_answer("index_status", json!({}), "1 unit in 1 file, up to date");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn roots_of_the_client_are_searched_too() {
    let mut server = Server::spawn_with(&["."]);
    server.initialize("2025-06-18", json!({"roots": {"listChanged": true}}));
    let other = server.fixture.path("other tree");
    let roots =
        json!([{"uri": format!("file://{}", other.display()).replace(' ', "%20")}, {"uri": "https://a/b"}]);
    let send_roots = |server: &mut Server, roots: &Value| {
        let asked = server.read();
        assert_eq!(asked["method"], "roots/list", "{asked}");
        let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": roots}});
        server.send(&answer.to_string());
        // A second answer to the same question is ignored.
        server.send(&answer.to_string());
    };
    send_roots(&mut server, &roots);
    // It appears after it was named.
    server.fixture.write("other tree/mail.py", MAIL);
    while server.call("index_status", json!({})).0.matches("Tree ").count() < 2 {}
    let (found, _) = server.call("search", json!({"query": "send a letter"}));
    assert!(found.contains("1. \"other tree/mail.py\":1-2 function send_letter"), "{found}");
    server.check_answer("read_unit", json!({"path": "other tree/mail.py", "line": 1}), "mail.py\":1-2");
    server.notify("roots/list_changed", Value::Null);
    send_roots(&mut server, &json!([]));
    while server.call("index_status", json!({})).0.contains("Tree ") {}
    assert_eq!(server.end(), Some(0));
}

#[test]
fn the_first_call_waits_for_the_roots_of_the_client() {
    let mut server = Server::spawn_with(&[]);
    let other = server.fixture.path("other");
    server.fixture.write("other/mail.py", MAIL);
    server.initialize("2025-06-18", json!({"roots": {}}));
    let search = json!({"name": "search", "arguments": {"query": "open a socket"}});
    let id = server.ask("tools/call", search);
    let asked = server.read();
    assert_eq!(asked["method"], "roots/list", "{asked}");
    let roots = json!([{"uri": format!("file://{}", other.display())}]);
    server.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": roots}}).to_string());
    let answer = server.read();
    assert_eq!(answer["id"], json!(id), "{answer}");
    assert!(!answer.to_string().contains("net.py"), "the directory that it was started in: {answer}");
    server.check_answer("search", json!({"query": "send a letter"}), "1. mail.py:1-2 function send_letter\n");
    assert_eq!(server.end(), Some(0));
}

/// A pseudo-random request: a tool or none, with arguments of any type under names that tools have.
fn random_request(random: &mut fastrand::Rng) -> Value {
    const TOOLS: [&str; 10] = [
        "search",
        "context",
        "outline",
        "read_unit",
        "callers",
        "callees",
        "similar",
        "related",
        "index_status",
        "grep",
    ];
    const NAMES: [&str; 11] =
        ["query", "path", "line", "name", "k", "max_tokens", "globs", "kinds", "languages", "detail", "?"];
    let tool = TOOLS[random.usize(..TOOLS.len())];
    let mut arguments = serde_json::Map::new();
    for _ in 0..random.usize(..5) {
        let value = match random.usize(..12) {
            0 => json!(null),
            1 => json!(-1),
            2 => json!(1e300),
            3 => json!(random.usize(..300)),
            4 => json!(["python", "!**", "{"]),
            5 => json!({"a": [1]}),
            6 => json!("net.py"),
            7 => json!("../../etc/passwd"),
            8 => json!("\u{0}\u{202e}\n|"),
            9 => json!("open a socket to a host"),
            10 => json!("full"),
            _ => json!(1),
        };
        arguments.insert(NAMES[random.usize(..NAMES.len())].to_owned(), value);
    }
    json!({"name": tool, "arguments": arguments})
}

#[test]
fn no_request_ends_the_server() {
    let mut server = Server::start();
    let mut random = fastrand::Rng::with_seed(38);
    let (mut n_answered, mut n_refused) = (0, 0);
    for _ in 0..10_000 {
        let request = random_request(&mut random);
        let answer = server.request("tools/call", request.clone());
        let is_answer = answer["result"]["content"][0]["text"].is_string();
        assert!(is_answer || answer["error"]["code"] == -32602, "{request}: {answer}");
        assert!(!answer.to_string().contains("panicked"), "{request}: {answer}");
        match is_answer && answer["result"]["isError"] != json!(true) {
            true => n_answered += 1,
            false => n_refused += 1,
        }
    }
    assert!(n_answered > 500 && n_refused > 500, "{n_answered} answered, {n_refused} refused");
    let (code, log) = server.end_with_log();
    assert_eq!((code, log.contains("panicked")), (Some(0), false), "{log}");
}

#[test]
fn the_end_of_input_is_the_end() {
    assert_eq!(Server::spawn().end(), Some(0));
    let mut busy = Server::start();
    let _lock = busy.lock();
    busy.ask_and_wait();
    assert_eq!(busy.end(), Some(0), "a call that cannot be answered does not keep the server");
}
