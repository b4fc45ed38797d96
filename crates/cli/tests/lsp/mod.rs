//! `quarry lsp` as an editor runs it: framed messages of JSON-RPC to stdin, and from stdout.

pub(crate) mod client;
mod random;

use std::fs::{self, File};
use std::thread;
use std::time::{Duration, Instant};

use quarry_test_support::files::write;
use serde_json::{Value, json};

use self::client::{Client, NET, PATIENCE, found, has};

#[test]
fn a_search_is_answered_as_on_the_command_line() {
    let mut client = Client::spawn(&["--index", "index", "--quality", "fast"]);
    let capabilities = client.initialize(&["tree"], json!({}));
    for provider in ["workspaceSymbolProvider", "callHierarchyProvider", "referencesProvider"] {
        assert_eq!(capabilities[provider], true, "{capabilities}");
    }
    assert_eq!(capabilities["textDocumentSync"]["openClose"], true);
    assert_eq!(capabilities["workspace"]["workspaceFolders"]["supported"], true);
    let mut found = client.execute("quarry.search", json!([{"query": "open a socket", "limit": 3}]));
    assert_eq!(found["results"][0]["uri"], client.uri("tree/net.py"));
    let output = client.quarry("search 'open a socket' tree --index index --json -k 3").output().unwrap();
    let mut expected: Value = serde_json::from_slice(&output.stdout).unwrap();
    for answer in [&mut found, &mut expected] {
        answer.as_object_mut().unwrap().retain(|key, _| !key.ends_with("_ms"));
        for result in answer["results"].as_array_mut().unwrap() {
            result.as_object_mut().unwrap().remove("uri");
        }
    }
    assert_eq!(found, expected);

    // Filters, one or several.
    let names = |client: &mut Client, argument: Value| {
        client::found(&client.execute("quarry.search", json!([argument])))
    };
    assert!(names(&mut client, json!({"query": "connect", "language": "rust"})).is_empty());
    let of_main = names(&mut client, json!({"query": "connect", "glob": ["main.py"], "kind": "function"}));
    assert!(!of_main.is_empty() && of_main.iter().all(|(_, uri)| uri.ends_with("/main.py")), "{of_main:?}");
    let fast =
        json!({"query": "connect", "quality": "fast", "language": null, "kind": ["function", "method"]});
    assert!(has(&names(&mut client, fast), "connect"));
    let status = client.execute("quarry.status", json!([]));
    assert_eq!((&status[0]["holds"]["files"], &status[0]["fresh"]), (&json!(2), &json!(true)), "{status}");
    assert_eq!(client.execute("quarry.refresh", json!([])), Value::Null);

    for (arguments, words) in [
        (json!([]), "expected one argument"),
        (json!([{"limit": 3}]), "missing field `query`"),
        (json!([{"query": "x", "n": 3}]), "unknown field `n`"),
        (json!([{"query": "x", "limit": 0}]), "expected 1 to 1000"),
        (json!([{"query": "x", "quality": "bset"}]), "did you mean `best`"),
        (json!([{"query": "x", "kind": "functon"}]), "did you mean `function`"),
        (json!([{"query": "x", "language": "rusty"}]), "rust"),
        (json!([{"query": "x", "folder": "file:///elsewhere"}]), "not one of the open folders"),
        (json!([{"query": "x".repeat(70_000)}]), "64 KiB"),
    ] {
        client.check_refused("quarry.search", arguments, -32602, words);
    }
    client.check_refused("quarry.search", json!([{"query": " "}]), -32803, "word");
    client.check_refused("quarry.serch", json!([]), -32602, "did you mean `quarry.search`");
    client.end();
}

#[test]
fn symbols_are_found_by_names_and_descriptions() {
    let mut client = Client::start();
    let uri = client.uri("tree/net.py");
    let symbols = client.result("workspace/symbol", json!({"query": "conn"}));
    let first = &symbols[0];
    assert_eq!((&first["name"], &first["kind"]), (&json!("connect"), &json!(12)), "{symbols}");
    assert_eq!((&first["containerName"], &first["location"]["uri"]), (&json!("net.py"), &json!(uri)));
    let range = json!({"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 11}});
    assert_eq!(first["location"]["range"], range);
    assert!(first["data"]["score"].is_number(), "{first}");
    let symbols = client.result("workspace/symbol", json!({"query": "open a socket to a host"}));
    assert_eq!(symbols[0]["name"], "connect", "{symbols}");
    assert_eq!(client.result("workspace/symbol", json!({"query": ""})), json!([]));
    client.end();
}

#[test]
fn lenses_count_the_tests_of_what_is_saved() {
    let mut client = Client::spawn(&[]);
    let test = "from net import connect\n\n\ndef test_connect():\n    assert connect('a')\n";
    write(client.path("tree/test_net.py"), test);
    client.initialize(&["tree"], json!({}));
    let uri = client.uri("tree/net.py");
    let lenses = client.result("textDocument/codeLens", json!({"textDocument": {"uri": uri}}));
    assert_eq!(lenses[0]["range"]["start"], json!({"line": 0, "character": 0}), "{lenses}");
    let lens = client.result("codeLens/resolve", lenses[0].clone());
    assert_eq!(lens["command"]["title"], "1 test", "{lens}");
    let place = client.execute("quarry.related", lens["command"]["arguments"].clone())["results"][0].clone();
    assert_eq!(place["name"], json!("test_connect"));
    assert_eq!(place["uri"], json!(client.uri("tree/test_net.py")));
    client.check_refused(
        "quarry.related",
        json!([{"uri": uri, "kinds": ["tests"]}]),
        -32602,
        "expected one of `test`",
    );
    client.check_refused(
        "quarry.related",
        json!([{"name": "x", "uri": uri}]),
        -32602,
        "`uri` and `line`, or `name`",
    );
    client.end();
}

#[test]
fn calls_are_found_from_positions_and_names() {
    let mut client = Client::start();
    let (net, main) = (client.uri("tree/net.py"), client.uri("tree/main.py"));
    let callers = client.execute("quarry.callers", json!([{"uri": net, "line": 2}]));
    assert_eq!(callers["callers"][0]["uri"], json!(main), "{callers}");
    assert_eq!(callers["callers"][0]["caller"]["name"], "main");
    assert_eq!(callers["definitions"][0]["uri"], json!(net));
    let by_name = client.execute("quarry.callers", json!([{"name": "connect", "limit": 1}]));
    assert_eq!((by_name["callers"].as_array().unwrap().len(), &by_name["total"]), (1, &json!(2)));
    let callees = client.execute("quarry.callees", json!([{"name": "connect"}]));
    assert_eq!(callees["definitions"][0]["callees"][0]["definitions"][0]["name"], "dial", "{callees}");
    let similar = client.execute("quarry.similar", json!([{"uri": net, "line": 0, "limit": 1}]));
    assert_eq!(similar["similar_to"]["name"], "connect");
    assert_eq!(similar["results"].as_array().unwrap().len(), 1);
    client.check_refused("quarry.callers", json!([{"uri": main, "line": 1}]), -32803, "name a line in one");
    client.check_refused("quarry.callers", json!([{"uri": net}]), -32602, "`uri` and `line`, or `name`");
    client.check_refused(
        "quarry.similar",
        json!([{"uri": net, "line": u32::MAX}]),
        -32803,
        "no indexed unit",
    );
    client.check_refused("quarry.similar", json!([{"uri": net, "line": -1}]), -32602, "invalid value");
    let secret = client.uri("secret.py");
    client.check_refused(
        "quarry.similar",
        json!([{"uri": secret, "line": 0}]),
        -32803,
        "not in any open folder",
    );
    let hidden = client.uri("tree/../secret.py");
    client.check_refused(
        "quarry.similar",
        json!([{"uri": hidden, "line": 0}]),
        -32803,
        "not in any open folder",
    );
    client.check_refused("quarry.callees", json!([{"uri": "no uri", "line": 0}]), -32602, "not the URI");

    // From the second of two calls on a line.
    let at = |line: u32, character: u32, uri: &str| {
        json!({"textDocument": {"uri": uri}, "position": {"line": line, "character": character},
               "context": {"includeDeclaration": true}})
    };
    let references = client.result("textDocument/references", at(4, 28, &main));
    let places: Vec<(&str, u64, u64)> = references.as_array().unwrap().iter().map(place).collect();
    assert_eq!(places, [(net.as_str(), 0, 4), (&main, 4, 11), (&main, 4, 26)]);
    let references = client.result("textDocument/references", at(9999, 9999, &main));
    assert_eq!(references, json!([]));
    let items = client.result("textDocument/prepareCallHierarchy", at(0, 5, &net));
    assert_eq!((&items[0]["name"], &items[0]["uri"]), (&json!("connect"), &json!(net)), "{items}");
    let item = items[0].clone();
    let incoming = client.result("callHierarchy/incomingCalls", json!({"item": item}));
    assert_eq!(incoming.as_array().unwrap().len(), 1, "{incoming}");
    assert_eq!(incoming[0]["from"]["name"], "main");
    assert_eq!(incoming[0]["fromRanges"].as_array().unwrap().len(), 2, "{incoming}");
    let outgoing = client.result("callHierarchy/outgoingCalls", json!({"item": item}));
    assert_eq!(outgoing[0]["to"]["name"], "dial", "{outgoing}");
    assert_eq!(outgoing[0]["fromRanges"][0]["start"], json!({"line": 2, "character": 11}));
    client.end();
}

fn place(location: &Value) -> (&str, u64, u64) {
    let start = &location["range"]["start"];
    let number = |name: &str| start[name].as_u64().unwrap();
    (location["uri"].as_str().unwrap(), number("line"), number("character"))
}

#[test]
fn unsaved_documents_are_ranked_and_never_written() {
    let mut client = Client::start();
    let on_disk = |client: &Client| {
        let search = "search 'bake bread in an oven' tree --index index --json --no-index-update";
        let output = client.quarry(search).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let results = found["results"].as_array().unwrap();
        results.iter().any(|result| result["name"].as_str().unwrap().contains("bread"))
    };
    assert!(!has(&client.search("bake bread in an oven"), "bake_bread"));
    let bread =
        "def bake_bread(oven):\n    \"\"\"Bake bread in an oven.\"\"\"\n    return connect(oven)\n\n\n";
    client.open("tree/net.py", &format!("{bread}{NET}"));
    let found = client.execute("quarry.search", json!([{"query": "bake bread in an oven"}]));
    let first = &found["results"][0];
    assert_eq!((&first["name"], &first["start_line"]), (&json!("bake_bread"), &json!(1)), "{found}");
    assert!(first["snippet"].as_str().unwrap().contains("bake_bread(oven)"), "{found}");
    assert!(!on_disk(&client));
    // All lines have moved, and there is one more call.
    let callers = client.execute("quarry.callers", json!([{"name": "connect"}]));
    let lines: Vec<u64> =
        callers["callers"].as_array().unwrap().iter().map(|call| call["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [5, 5, 3], "{callers}");
    let symbols = client.result("workspace/symbol", json!({"query": "dial"}));
    assert_eq!(symbols[0]["location"]["range"]["start"], json!({"line": 10, "character": 4}), "{symbols}");

    // A change of one word, in the middle of a line.
    let range = json!({"start": {"line": 0, "character": 9}, "end": {"line": 0, "character": 14}});
    let changes = json!([{"range": range, "text": "rolls"}]);
    let document = json!({"uri": client.uri("tree/net.py"), "version": 2});
    client.notify("textDocument/didChange", json!({"textDocument": document, "contentChanges": changes}));
    let found = client.search("bake bread in an oven");
    assert!(has(&found, "bake_rolls") && !has(&found, "bake_bread"), "{found:?}");
    client.notify("textDocument/didClose", json!({"textDocument": document}));
    assert!(!has(&client.search("bake bread in an oven"), "bake_rolls"));

    // A file that is not there yet, one outside, and one that has no file.
    client.open("tree/kitchen.py", bread);
    client.open("kitchen.py", &bread.replace("bake", "burn"));
    let untitled = json!({"uri": "untitled:Untitled-1", "languageId": "python", "version": 1, "text": bread});
    client.notify("textDocument/didOpen", json!({"textDocument": untitled}));
    let found = client.search("bake bread in an oven");
    let expected = ("bake_bread".to_owned(), client.uri("tree/kitchen.py"));
    assert_eq!(found[0], expected);
    assert_eq!(found.iter().filter(|(name, _)| name.contains("bread")).count(), 1, "{found:?}");
    let status = client.execute("quarry.status", json!([]));
    assert_eq!((&status[0]["holds"]["files"], &status[0]["fresh"]), (&json!(2), &json!(true)), "{status}");
    assert!(!on_disk(&client) && !client.path("tree/kitchen.py").exists());
    // An empty document has nothing to find.
    client.open("tree/net.py", "");
    assert!(!has(&client.search("open a socket"), "connect"));
    client.end();
}

#[test]
fn several_folders_are_ranked_together_and_can_change() {
    let mut client = Client::spawn(&[]);
    let other = client.path("other/paper.py");
    write(&other, "def fold(paper):\n    \"\"\"Fold a paper in half.\"\"\"\n    return paper.half()\n");
    client.initialize(&["tree", "other"], json!({}));
    let found = client.execute("quarry.search", json!([{"query": "fold paper or open a socket"}]));
    assert_eq!(found["roots"].as_array().unwrap().len(), 2, "{found}");
    let names = client::found(&found);
    assert!(has(&names, "fold") && has(&names, "connect"), "{names:?}");
    assert!(names.contains(&("fold".to_owned(), client.uri("other/paper.py"))));
    for folder in [client.uri("other"), client.path("other").display().to_string()] {
        let arguments = json!([{"query": "fold paper or open a socket", "folder": folder}]);
        let found = client::found(&client.execute("quarry.search", arguments));
        assert!(has(&found, "fold") && !has(&found, "connect"), "{found:?}");
    }
    // Unsaved text in either folder.
    client.open("other/paper.py", "def crease(paper):\n    \"\"\"Crease a sheet.\"\"\"\n    return paper\n");
    assert!(has(&client.search("crease a sheet"), "crease"));
    let status = client.execute("quarry.status", json!([]));
    assert_eq!(status.as_array().unwrap().len(), 2);
    let folder = json!({"uri": client.uri("other"), "name": "other"});
    let event = json!({"added": [], "removed": [folder]});
    client.notify("workspace/didChangeWorkspaceFolders", json!({"event": event}));
    let found = client.search("crease a sheet");
    assert!(!has(&found, "crease") && has(&found, "connect"), "{found:?}");
    let event = json!({"added": [folder], "removed": []});
    client.notify("workspace/didChangeWorkspaceFolders", json!({"event": event}));
    assert!(has(&client.search("crease a sheet"), "crease"));
    client.end();

    // None at first, and one without code.
    let mut client = Client::spawn(&[]);
    client.initialize(&[], json!({}));
    client.check_refused("quarry.search", json!([{"query": "socket"}]), -32803, "no folder is open");
    assert_eq!(client.result("workspace/symbol", json!({"query": "connect"})), Value::Null);
    fs::create_dir(client.path("empty")).unwrap();
    let event = json!({"added": [{"uri": client.uri("empty"), "name": "empty"}], "removed": []});
    client.notify("workspace/didChangeWorkspaceFolders", json!({"event": event}));
    client.check_refused("quarry.search", json!([{"query": "socket"}]), -32803, "nothing to index");
    assert_eq!(client.result("workspace/symbol", json!({"query": "connect"})), Value::Null);
    client.end();
}

#[test]
fn changed_files_are_found() {
    let mut client = Client::start();
    assert!(!has(&client.search("measure the temperature"), "thermometer"));
    let path = client.path("tree/weather/now.py");
    write(&path, "def thermometer(air):\n    \"\"\"Measure the temperature.\"\"\"\n    return air.heat\n");
    // Reported by the client.
    let change = json!({"uri": client.uri("tree/weather/now.py"), "type": 1});
    client.notify("workspace/didChangeWatchedFiles", json!({"changes": [change]}));
    // A search does not wait long for that.
    client.execute("quarry.refresh", json!([]));
    assert!(has(&client.search("measure the temperature"), "thermometer"));
    // Reported by the operating system.
    write(&path, "def barometer(air):\n    \"\"\"Measure the pressure.\"\"\"\n    return air.weight\n");
    let start = Instant::now();
    while !has(&client.search("measure the pressure"), "barometer") {
        assert!(start.elapsed() < PATIENCE, "the change was not noticed");
        thread::sleep(Duration::from_millis(50));
    }
    client.end();
}

#[test]
fn progress_is_sent_to_clients_that_show_it() {
    let mut client = Client::spawn(&["--index", "index"]);
    client.initialize(&["tree"], json!({"window": {"workDoneProgress": true}}));
    client.search("open a socket");
    // The answer may come before the end of the progress.
    client.execute("quarry.refresh", json!([]));
    let kinds: Vec<&str> = client
        .notices
        .iter()
        .filter(|notice| notice["method"] == "$/progress")
        .map(|notice| notice["params"]["value"]["kind"].as_str().unwrap())
        .collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"begin"), Some(&"end")), "{:?}", client.notices);
    let create = client.notices.iter().find(|notice| notice["method"] == "window/workDoneProgress/create");
    assert!(create.unwrap()["params"]["token"].is_string());
    client.end();

    let mut client = Client::start();
    client.search("open a socket");
    assert!(client.notices.is_empty(), "{:?}", client.notices);
    client.end();
}

#[test]
fn an_answer_that_does_not_wait_for_the_update_of_the_index_names_the_changed_files() {
    let mut client = Client::start();
    client.search("open a socket");
    let lock = File::options().append(true).open(client.path("index/lock")).unwrap();
    lock.lock().unwrap();
    write(client.path("tree/mail.py"), "def post(letter):\n    return stamp(letter)\n");
    client.notify("workspace/didChangeWatchedFiles", json!({"changes": []}));
    let stale = client.execute("quarry.search", json!([{"query": "post a letter"}]));
    assert_eq!(stale["behind"]["total"], 1);
    assert_eq!(stale["behind"]["files"][0]["path"], json!("mail.py"));
    assert_eq!(stale["behind"]["files"][0]["uri"], client.uri("tree/mail.py"));
    client.notices.clear();
    client.result("workspace/symbol", json!({"query": "connect"}));
    let message = "1 file changed since the index was built; it is being updated: mail.py";
    let logged = json!({"type": 3, "message": message});
    assert!(client.notices.iter().any(|notice| notice["params"] == logged), "{:?}", client.notices);
    lock.unlock().unwrap();
    // This waits.
    client.execute("quarry.refresh", json!([]));
    let fresh = client.execute("quarry.search", json!([{"query": "post a letter"}]));
    assert!(fresh.get("behind").is_none() && found(&fresh)[0].0 == "post", "{fresh}");
    client.end();
}

#[test]
fn a_request_that_is_canceled_is_answered_at_once() {
    let mut client = Client::spawn(&["--index", "index"]);
    // As another writer does: a search cannot be answered until it is done.
    fs::create_dir_all(client.path("index")).unwrap();
    let lock = File::create(client.path("index/lock")).unwrap();
    lock.lock().unwrap();
    client.initialize(&["tree"], json!({"window": {"workDoneProgress": true}}));
    let params = json!({"command": "quarry.search", "arguments": [{"query": "open a socket"}]});
    let ids: Vec<i64> = (0..5).map(|_| client.ask("workspace/executeCommand", params.clone())).collect();
    // Those that run and those that wait.
    for id in &ids[..4] {
        client.notify("$/cancelRequest", json!({"id": id}));
        let answer = client.answer(&json!(id));
        assert_eq!(answer["error"]["code"], -32800, "{answer}");
    }
    client.notify("$/cancelRequest", json!({"id": "none"}));
    drop(lock);
    let answer = client.answer(&json!(ids[4]));
    assert_eq!(found(&answer["result"])[0].0, "connect");
    // None is answered again.
    client.search("open a socket");
    let answered = client.notices.iter().filter(|notice| notice.get("method").is_none()).count();
    assert_eq!(answered, 0, "{:?}", client.notices);
    client.end();
}

#[test]
fn an_id_that_is_used_again_after_canceling_gets_the_answer_of_its_own_request() {
    let mut client = Client::spawn(&["--index", "index"]);
    fs::create_dir_all(client.path("index")).unwrap();
    let lock = File::create(client.path("index/lock")).unwrap();
    lock.lock().unwrap();
    client.initialize(&["tree"], json!({}));
    let ask = |client: &mut Client, query: &str| {
        let params = json!({"command": "quarry.search", "arguments": [{"query": query}]});
        let request =
            json!({"jsonrpc": "2.0", "id": 77, "method": "workspace/executeCommand", "params": params});
        client.send_text(&request.to_string());
    };
    for query in ["first", "second", "third"] {
        ask(&mut client, query);
        // A worker takes it up meanwhile.
        thread::sleep(Duration::from_millis(100));
        client.notify("$/cancelRequest", json!({"id": 77}));
        assert_eq!(client.answer(&json!(77))["error"]["code"], -32800);
    }
    ask(&mut client, "open a socket");
    drop(lock);
    let answer = client.answer(&json!(77));
    assert_eq!(answer["result"]["query"], "open a socket", "{answer}");
    client.search("open a socket");
    let answered = client.notices.iter().filter(|notice| notice.get("method").is_none()).count();
    assert_eq!(answered, 0, "{:?}", client.notices);
    client.end();
}

#[test]
fn folders_beyond_the_limit_are_stated() {
    let mut client = Client::spawn(&["--index", "index"]);
    let names: Vec<String> = (0..66).map(|n| format!("none{n}")).collect();
    let names: Vec<&str> = std::iter::once("tree").chain(names.iter().map(String::as_str)).collect();
    client.initialize(&names, json!({}));
    assert!(has(&client.search("open a socket"), "connect"));
    let logged = |client: &Client| -> Vec<String> {
        let shown = client.notices.iter().filter(|notice| notice["method"] == "window/showMessage");
        shown.map(|notice| notice["params"]["message"].as_str().unwrap().to_owned()).collect()
    };
    let messages = logged(&client);
    assert!(
        matches!(&messages[..], [only] if only.contains("first 64 folders; 3 more are left out")),
        "{messages:?}"
    );
    // Those that are closed make room.
    let removed: Vec<Value> =
        names[1..9].iter().map(|name| json!({"uri": client.uri(name), "name": name})).collect();
    client.notify("workspace/didChangeWorkspaceFolders", json!({"event": {"added": [], "removed": removed}}));
    assert!(has(&client.search("open a socket"), "connect"));
    assert_eq!(logged(&client).len(), 1);
    client.end();
}

#[test]
fn the_exit_code_says_whether_the_shutdown_was_orderly() {
    let code = |client: &mut Client| {
        client.stdin = None;
        client.process.0.wait().unwrap().code()
    };
    let mut client = Client::spawn(&[]);
    let answer = client.request("workspace/symbol", json!({"query": "x"}));
    assert_eq!(answer["error"]["code"], -32002, "{answer}");
    assert_eq!(code(&mut client), Some(1));
    let mut client = Client::spawn(&[]);
    client.notify("exit", Value::Null);
    assert_eq!(client.process.0.wait().unwrap().code(), Some(1));
    let mut client = Client::start();
    let answer = client.request("initialize", json!({"capabilities": {}}));
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    client.result("shutdown", Value::Null);
    let answer = client.request("workspace/symbol", json!({"query": "x"}));
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    client.notify("exit", Value::Null);
    assert_eq!(client.process.0.wait().unwrap().code(), Some(0));
    let mut client = Client::spawn(&[]);
    let options = json!({"quality": "perfect"});
    let answer = client.request("initialize", json!({"capabilities": {}, "initializationOptions": options}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let output = client.quarry("lsp missing").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    // A path of the command line is searched whatever the client has open.
    let mut client = Client::spawn(&["tree"]);
    client.initialize(&[], json!({}));
    assert!(has(&client.search("open a socket"), "connect"));
    client.end();
}

#[test]
fn messages_that_are_none_are_refused_and_the_next_is_answered() {
    let mut client = Client::start();
    let refused = |client: &mut Client| {
        let answer = client.answer(&Value::Null);
        answer["error"]["code"].as_i64().unwrap()
    };
    for (text, code) in [
        ("{", -32700),
        ("\u{0}", -32700),
        ("[]", -32600),
        ("1", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "shutdown"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": {}, "method": "shutdown"}"#, -32600),
        (r#"[{"jsonrpc": "2.0", "id": 1, "method": "shutdown"}]"#, -32600),
    ] {
        client.send_text(text);
        assert_eq!(refused(&mut client), code, "{text}");
    }
    let deep = "[".repeat(100_000);
    client.send_text(&deep);
    assert_eq!(refused(&mut client), -32700);
    client.send_bytes(b"Content-Length: 2\r\n\r\n\xff\xff");
    assert_eq!(refused(&mut client), -32700);
    client.send_bytes(b"garbage\r\nContent-Type: x\r\n\r\n");
    assert_eq!(refused(&mut client), -32700);
    client.send_bytes(b"Content-Length: 33554433\r\n\r\n");
    let blank = vec![b' '; 1 << 20];
    (0..32).for_each(|_| client.send_bytes(&blank));
    client.send_bytes(b" ");
    assert_eq!(refused(&mut client), -32600);
    let answer = client.request("textDocument/hover", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    // Answers to questions that nobody asked, and notices that make no sense.
    client.send_text(r#"{"jsonrpc": "2.0", "id": 99, "result": null}"#);
    client.send_text(r#"{"jsonrpc": "2.0", "id": 99, "error": {}}"#);
    for params in [Value::Null, json!([]), json!({"textDocument": {}}), json!({"event": 1, "id": {}})] {
        for method in ["didOpen", "didChange", "didClose", "didSave"] {
            client.notify(&format!("textDocument/{method}"), params.clone());
        }
        client.notify("workspace/didChangeWorkspaceFolders", params.clone());
        client.notify("$/cancelRequest", params);
    }
    assert!(has(&client.search("open a socket"), "connect"));
    client.end();
}
