//! Ten thousand requests that an editor would not send.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::client::{Client, PATIENCE};

#[test]
fn random_requests_are_answered_without_a_panic() {
    const N: usize = 10_000;
    const AT_A_TIME: usize = 500;
    let mut client = Client::start();
    let uris =
        ["tree/net.py", "tree/main.py", "tree/none.py", "secret.py", "tree"].map(|path| client.uri(path));
    let mut random = fastrand::Rng::with_seed(65);
    let mut n_answered = 0;
    for _ in 0..N / AT_A_TIME {
        let mut open = HashSet::new();
        for _ in 0..AT_A_TIME {
            if random.u8(..) < 60 {
                notice(&mut client, &mut random, &uris);
            }
            let (method, params) = question(&mut random, &uris);
            open.insert(client.ask(method, params));
        }
        while !open.is_empty() {
            let message = client.messages.recv_timeout(PATIENCE).expect("an answer");
            if let Some(id) = message["id"].as_i64().filter(|id| open.remove(id)) {
                assert_ne!(message["error"]["code"], -32603, "{id}: {message}");
                n_answered += 1;
            }
        }
    }
    assert_eq!(n_answered, N);
    client.end();
}

fn notice(client: &mut Client, random: &mut fastrand::Rng, uris: &[String]) {
    let uri = &uris[random.usize(..uris.len())];
    let document = json!({"uri": uri, "languageId": "python", "version": 1, "text": text(random)});
    match random.u8(..4) {
        0 => client.notify("textDocument/didOpen", json!({"textDocument": document})),
        1 => client.notify("textDocument/didClose", json!({"textDocument": document})),
        2 => {
            let range = json!({"start": position(random), "end": position(random)});
            let changes = json!([{"range": range, "text": text(random)}, {"text": text(random)}, {"range": range, "text": ""}]);
            client.notify(
                "textDocument/didChange",
                json!({"textDocument": document, "contentChanges": changes}),
            );
        }
        _ => {
            let id = client.n_requests - random.i64(0..20);
            client.notify("$/cancelRequest", json!({"id": id}));
        }
    }
}

fn question(random: &mut fastrand::Rng, uris: &[String]) -> (&'static str, Value) {
    let uri = &uris[random.usize(..uris.len())];
    let at = json!({"textDocument": {"uri": uri}, "position": position(random)});
    match random.u8(..8) {
        0 => ("workspace/symbol", json!({"query": text(random)})),
        1 => ("textDocument/references", at),
        2 => ("textDocument/prepareCallHierarchy", at),
        3 | 4 => {
            let range = json!({"start": position(random), "end": position(random)});
            let item = json!({"name": text(random), "kind": 12, "uri": uri, "range": range, "selectionRange": range});
            let method =
                if random.bool() { "callHierarchy/incomingCalls" } else { "callHierarchy/outgoingCalls" };
            (method, json!({"item": item}))
        }
        _ => {
            let commands =
                ["search", "similar", "callers", "callees", "related", "status", "refresh", "none"];
            let command = format!("quarry.{}", commands[random.usize(..commands.len())]);
            let mut argument = json!({});
            for (key, value) in [
                ("query", json!(text(random))),
                ("uri", json!(uri)),
                ("line", position(random)["line"].clone()),
                ("name", json!(text(random))),
                ("limit", json!(random.u32(..3))),
                ("glob", json!(text(random))),
                ("kind", json!([])),
            ] {
                if random.u8(..3) == 0 {
                    argument[key] = value;
                }
            }
            ("workspace/executeCommand", json!({"command": command, "arguments": [argument]}))
        }
    }
}

fn position(random: &mut fastrand::Rng) -> Value {
    let number = |random: &mut fastrand::Rng| match random.u8(..8) {
        0 => u32::MAX,
        1 => random.u32(..),
        _ => random.u32(..12),
    };
    json!({"line": number(random), "character": number(random)})
}

fn text(random: &mut fastrand::Rng) -> String {
    const PARTS: [&str; 16] = [
        "connect", "def ", "(", ")", ":\n", "    ", "\"\"\"", "😀", "\r\n", "ä", ".", "socket ", "[", "{",
        "\u{0}", "dial(",
    ];
    (0..random.usize(..12)).map(|_| PARTS[random.usize(..PARTS.len())]).collect()
}
