//! The API as programs use it.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use quarry_embed::{Embedder, StaticModel};
use quarry_http::Progress;
use serde_json::{Value, json};

use crate::fixture::{FILES, Reply, Served, Start, serve, serve_all, serve_with};

#[test]
fn answers_are_those_of_the_command_line() {
    let served = serve();
    let reply = served.get("/api/v1/search?q=retry+with+backoff&limit=2&lines=2&explain=1");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let answer = reply.json();
    assert_eq!(answer["query"], "retry with backoff");
    assert_eq!(answer["results"].as_array().unwrap().len(), 2);
    let first = &answer["results"][0];
    assert_eq!((first["rank"].as_u64(), first["path"].as_str()), (Some(1), Some("src/retry.py")));
    assert_eq!(first["name"].as_str(), Some("retry_with_backoff"));
    assert_eq!(first["kind"].as_str(), Some("function"));
    assert!((1..=2).contains(&first["snippet"].as_str().unwrap().lines().count()));
    assert!(first["parts"]["dense"].is_number() && first["explanation"]["parts"].is_array());
    assert_eq!(
        answer["root"].as_str().unwrap(),
        served.directory().canonicalize().unwrap().to_str().unwrap()
    );

    let similar = served.get("/api/v1/similar?path=src/retry.py&line=2&limit=1").json();
    assert_eq!(similar["similar_to"]["name"], "retry_with_backoff");
    assert_eq!(similar["results"].as_array().unwrap().len(), 1);

    let callers = served.get("/api/v1/callers?name=pause").json();
    assert_eq!((callers["total"].as_u64(), callers["callers"][0]["line"].as_u64()), (Some(1), Some(7)));
    let callees = served.get("/api/v1/callees?path=src/wait.py&line=7").json();
    assert_eq!(callees["definitions"][0]["callees"][0]["name"], "pause");

    let related = served.get("/api/v1/related?path=src/wait.py&line=7&kind=caller&kind=callee").json();
    assert_eq!(related["results"][0]["reasons"][0]["evidence"], "called by it", "{related}");
    assert_eq!(related["history"][0]["problem"], "no git repository");

    let file = served.get("/api/v1/units/shop/src/retry.py").json();
    assert_eq!((file["language"].as_str(), file["units"].as_array().unwrap().len()), (Some("python"), 1));
    let unit = served.get("/api/v1/units/shop/src/retry.py?line=3").json();
    assert_eq!(unit["units"][0]["source"].as_str().map(str::trim_end), Some(FILES[0].1.trim_end()));

    let status = served.get("/api/v1/status").json();
    assert_eq!((status["fresh"].as_bool(), status["holds"]["units"].as_u64()), (Some(true), Some(4)));
    let trees = served.get("/api/v1/trees").json();
    assert_eq!(trees["trees"][0]["name"], "shop");
}

#[test]
fn problems_say_what_to_do() {
    let served = serve();
    for (path, status, words) in [
        ("/api/v1/search", 400, "q: expected what the code does"),
        ("/api/v1/search?q=x&kind=class", 400, "kind: expected one of function"),
        ("/api/v1/search?q=x&tree=shpo", 404, "there are shop"),
        ("/api/v1/search?q=x&threshold=2", 400, "threshold: expected 0 to 1"),
        ("/api/v1/search?q=x&threshold=1.0000000000000002", 400, "threshold: expected 0 to 1"),
        ("/api/v1/similar?path=src/retry.py", 400, "a line in it"),
        ("/api/v1/similar?path=none.py&line=1", 404, "no indexed unit"),
        ("/api/v1/callees?path=none.py&line=1", 404, "name a line in one"),
        ("/api/v1/units/shop/none.py", 404, "no such file is indexed"),
        ("/api/v1/units/shop/src/retry.py?line=", 400, "line: expected a whole number"),
        ("/api/v1/callers?name=pause&line=1", 400, "either a name, or path and line"),
        ("/api/v1/callees?name=pause&path=src/wait.py", 400, "either a name, or path and line"),
        ("/api/v1/callers?name=pause&line=1.5", 400, "line: expected a whole number"),
        ("/api/v1/callers?name=pause&line=", 400, "line: expected a whole number"),
        ("/api/v1/callers?name=pause&tree=none", 404, "there are shop"),
        ("/api/v1/related?kind=test", 400, "a line in it"),
        ("/api/v1/related?name=pause&line=1", 400, "line"),
        ("/api/v1/related?name=pause&kind=tests", 400, "kind: expected one of test"),
        ("/api/v1/related?path=none.py", 404, "nothing in it is indexed"),
        ("/api/v1/related?path=src/wait.py&line=1&k=0", 400, "k: expected 1 to 200"),
        ("/api/v1/status?tree=shop&tree=shop", 400, "tree: given more than once"),
        ("/api/v1/search?q=x&k=", 400, "k: expected a whole number"),
        ("/api/v1/search?q=x&k=3&limit=3", 400, "k: given more than once"),
        ("/api/v1/callers?name=pause&k=2001", 400, "k: expected 0 to 2000"),
        ("/api/v1/search?q=x&ranking=best", 400, "ranking: expected one of"),
        ("/api/v1/none", 404, "/api/v1/openapi.json"),
    ] {
        let reply = served.get(path);
        reply.check_problem(status, words);
        assert_eq!(reply.json()["status"], status);
    }
}

#[test]
fn metrics_count_routes_and_not_what_was_asked() {
    let served = serve();
    served.get("/api/v1/search?q=hidden+words");
    served.get("/raw/shop/none/hidden");
    let metrics = served.get("/metrics").body;
    assert!(
        metrics.contains("quarry_requests_total{route=\"/api/v1/search\",status=\"200\"} 1"),
        "{metrics}"
    );
    assert!(
        metrics.contains("quarry_requests_total{route=\"/raw/{tree}/{*path}\",status=\"404\"} 1"),
        "{metrics}"
    );
    assert!(metrics.contains("quarry_stage_seconds_count{stage=\"search\"} 1"));
    assert!(metrics.contains("quarry_index_units 4") && !metrics.contains("hidden"));
}

#[test]
fn agents_call_the_same_tools() {
    let served = serve();
    let head = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
    let call = |path: &str, method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        served.request("POST", path, &head, &message.to_string())
    };
    let arguments = json!({ "name": "search", "arguments": { "query": "retry with backoff" } });
    for path in ["/mcp", "/mcp/shop"] {
        let listed = call(path, "tools/list", json!({}));
        assert!(listed.status == 200 && listed.body.contains("index_status"), "{listed:?}");
        let found = call(path, "tools/call", arguments.clone());
        assert!(found.status == 200 && found.body.contains("src/retry.py:1"), "{found:?}");
    }
    assert_eq!(call("/mcp/none", "tools/list", json!({})).status, 404);
    let foreign = served.request("POST", "/mcp", &["Origin: https://evil.example", head[0], head[1]], "{}");
    assert_eq!(foreign.status, 403);
    // Malformed messages get the error codes of JSON-RPC.
    let long = "x".repeat(500_000);
    for (method, head, body, status, code, words) in [
        ("POST", &head[..], "garbage", 400, -32700, "not JSON"),
        ("POST", &head, r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, 400, -32600, "\"2.0\""),
        ("POST", &head, r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#, 400, -32602, "name"),
        ("POST", &head, "[]", 400, -32600, "batch"),
        ("POST", &head, " ", 400, -32600, "expected a message"),
        ("POST", &head[..1], r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, 406, -32600, "Not Acceptable"),
        ("POST", &head, &long, 413, -32600, "more than 409600 bytes"),
        ("GET", &head, "", 405, -32600, ""),
    ] {
        let reply = served.request(method, "/mcp", head, body);
        assert_eq!(reply.status, status, "{reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/json"), "{reply:?}");
        let error = &reply.json()["error"];
        assert!(error["code"] == code && error["message"].as_str().unwrap().contains(words), "{reply:?}");
    }
}

#[test]
fn slow_agents_do_not_block_others() {
    let served = serve();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, \
                text/event-stream\r\nContent-Length: 60\r\n\r\n{";
    let mut slow: Vec<_> = (0..40).map(|_| served.connect()).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(head.as_bytes()).unwrap());
    let head = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for _ in 0..3 {
        assert_eq!(served.request("POST", "/mcp", &head, list).status, 200);
    }
}

fn search_text(served: &Served, body: &str) -> Reply {
    served.request("POST", "/api/v1/search", &["Content-Type: application/json"], body)
}

#[test]
fn the_number_of_results_is_k_or_limit() {
    let served = serve();
    for parameter in ["k=2", "limit=2"] {
        let answer = served.get(&format!("/api/v1/search?q=retry+pause+connect&{parameter}")).json();
        assert_eq!(answer["results"].as_array().unwrap().len(), 2, "{parameter}");
    }
}

#[test]
fn a_long_text_is_searched_for_by_its_body() {
    let served = serve();
    let without_times = |mut answer: Value| {
        let object = answer.as_object_mut().unwrap();
        assert!(object.remove("took_ms").is_some());
        answer
    };
    let by_address =
        served.get("/api/v1/search?q=retry+with+backoff&k=2&lines=2&explain=1&lang=python").json();
    let body = r#"{"q": "retry with backoff", "k": 2, "lines": 2, "explain": true, "lang": ["python"]}"#;
    assert_eq!(without_times(search_text(&served, body).json()), without_times(by_address));
    let long = "It fails: retry with backoff. ".repeat(2000);
    let found = search_text(&served, &json!({ "q": long, "k": 1 }).to_string());
    assert_eq!(found.status, 200, "{found:?}");
    assert_eq!(found.json()["results"][0]["name"], "retry_with_backoff");
    for (body, status, words) in [
        (json!({ "q": "x".repeat(70_000) }).to_string(), 400, "at most 65536 are accepted"),
        (json!({ "q": "x".repeat(600_000) }).to_string(), 413, "bytes are accepted"),
        (r#"{"k": 3}"#.to_owned(), 400, "q: expected what the code does"),
        (r#"{"q": "x", "k": "3"}"#.to_owned(), 400, "k: expected a number"),
        (r#"{"q": "x", "k": 0}"#.to_owned(), 400, "k: expected 1 to 200"),
        (r#"{"q": "x", "kk": 3}"#.to_owned(), 400, "unknown parameter"),
        ("[]".to_owned(), 400, "expected {\"q\""),
    ] {
        search_text(&served, &body).check_problem(status, words);
    }
    assert_eq!(served.request("POST", "/api/v1/search", &["Content-Type: text/plain"], "{}").status, 415);
}

#[test]
fn the_lines_of_an_answer_fit() {
    let line = "    total = total + price * count  # a line as they come\n".repeat(40);
    let function = |n: usize| format!("def price_{n}(price, count):\n{line}    return total\n\n\n");
    let file: String = (0..200).map(function).collect();
    let served = serve_with(&[("shop.py", &file)], Start::default());
    let reply = served.get("/api/v1/search?q=price+of+a+count&k=200&context=2000&lines=0&explain=1");
    let answer = reply.json();
    let results = answer["results"].as_array().unwrap();
    let left_out = answer["without_lines"].as_u64().unwrap() as usize;
    assert!(results.len() > 100 && reply.body.len() < 4 << 20, "{} in {}", results.len(), reply.body.len());
    assert!(left_out > 0 && left_out < results.len(), "{left_out}");
    let (with, without) = results.split_at(results.len() - left_out);
    assert!(with.iter().all(|result| !result["snippet"].as_str().unwrap().is_empty()));
    assert!(without.iter().all(|result| result["snippet"] == "" && result["explanation"].is_object()));
    assert!(with.iter().chain(without).all(|result| result["name"].as_str().unwrap().starts_with("price_")));
    let few = served.get("/api/v1/search?q=price+of+a+count&k=10&lines=0").json();
    assert!(few.get("without_lines").is_none());
    let page = served.get("/?q=price+of+a+count&k=100&context=2000&lines=0");
    assert!(page.status == 200 && page.body.len() < 200_000);
    assert!(page.body.contains("left out; ask for fewer lines"), "{}", page.body.len());
}

/// The events of a stream: their names and data.
fn events(body: &str) -> Vec<(String, Value)> {
    let fields = |event: &str| {
        let (name, data) = event.strip_prefix("event: ")?.split_once("\ndata: ")?;
        Some((name.to_owned(), serde_json::from_str(data).ok()?))
    };
    // Chunks of the transfer have their lengths on lines of their own.
    let lines =
        body.lines().filter(|line| !line.bytes().all(|byte| byte.is_ascii_hexdigit()) || line.is_empty());
    lines.collect::<Vec<_>>().join("\n").split("\n\n").filter_map(|event| fields(event.trim())).collect()
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_stream_has_the_results_of_a_search_one_by_one() {
    let served = serve();
    let reply = served.get("/api/v1/search/stream?q=retry+with+backoff&limit=2&lines=2");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
    let found = events(&reply.body);
    assert_eq!(names(&found), ["result", "result", "end"], "{reply:?}");
    let whole = served.get("/api/v1/search?q=retry+with+backoff&limit=2&lines=2").json();
    for ((_, result), expected) in found.iter().zip(whole["results"].as_array().unwrap()) {
        assert_eq!(result, expected);
    }
    let end = &found[2].1;
    assert_eq!((end["total"].as_u64(), &end["confidence"]), (Some(2), &whole["confidence"]));
    assert!(end["query"] == "retry with backoff" && end.get("results").is_none(), "{end}");
    // Invalid requests get an error status of their own.
    for path in ["?q=x&limit=0", "", "?q=%E2%80%A6", "?q=x&other=1"] {
        served.get(&format!("/api/v1/search/stream{path}")).check_problem(400, "");
    }
}

#[test]
fn a_stream_waits_for_the_first_index() {
    let served = serve_with(&FILES, Start { is_building: true, ..Start::default() });
    let progress = |share: f64| Progress { share, message: "reading files".to_owned(), failure: None };
    served.trees.report(progress(0.25));
    assert_eq!(served.get("/api/v1/search?q=retry&wait=0").status, 503);
    let asked = |query: &str| {
        let request = format!(
            "GET /api/v1/search/stream?q={query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        );
        let mut stream = served.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut start = String::new();
        while !start.contains("0.25") {
            let mut bytes = [0; 4096];
            let n = stream.read(&mut bytes).unwrap();
            assert!(n > 0, "{start}");
            start.push_str(std::str::from_utf8(&bytes[..n]).unwrap());
        }
        (start, stream)
    };
    let waiting = ["retry", "%E2%80%A6"].map(asked);
    served.show();
    let [found, failed] = waiting.map(|(mut start, mut stream)| {
        stream.read_to_string(&mut start).unwrap();
        events(start.split_once("\r\n\r\n").unwrap().1)
    });
    assert_eq!((found[0].0.as_str(), &found[0].1["message"]), ("progress", &Value::from("reading files")));
    assert!(names(&found).ends_with(&["result", "end"]), "{found:?}");
    let (last, problem) = failed.last().unwrap();
    assert_eq!((last.as_str(), &problem["status"]), ("problem", &Value::from(400)));
    assert!(served.get("/metrics").body.contains("quarry_streams_open 0\n"));
}

fn embed(served: &Served, body: &str) -> Reply {
    served.request("POST", "/api/v1/embed", &["Content-Type: application/json"], body)
}

#[test]
fn texts_are_embedded_with_the_model_of_search() {
    let served = serve();
    let texts = ["retry with backoff", "\u{2026}", "wait"];
    let body = |kind: &str| json!({ "texts": texts, "kind": kind }).to_string();
    let model = StaticModel::builtin();
    for (kind, expected) in
        [("query", model.embed_queries(&texts)), ("document", model.embed_documents(&texts))]
    {
        let (reply, expected) = (embed(&served, &body(kind)).json(), expected.unwrap());
        assert_eq!(reply["model"].as_str(), Some(model.id()));
        assert_eq!(reply["dimension"].as_u64(), Some(expected.dimension as u64));
        let vectors: Vec<Vec<f32>> = serde_json::from_value(reply["vectors"].clone()).unwrap();
        assert_eq!((vectors.len(), vectors.concat()), (3, expected.values));
    }
    let long = "x".repeat(2001);
    let many = vec!["x"; 65];
    for (body, words) in [
        (r#"{"texts": []}"#.to_owned(), "texts: expected 1 to 64, found 0"),
        (json!({ "texts": many }).to_string(), "found 65"),
        (json!({ "texts": ["", long] }).to_string(), "texts[1]: 2001 characters, at most 2000"),
        (r#"{"texts": ["x"], "kind": "code"}"#.to_owned(), "expected `query` or `document`"),
        (r#"{"texts": ["x"], "limit": 1}"#.to_owned(), "unknown field `limit`"),
        (r#"{"texts": "x"}"#.to_owned(), "expected a sequence"),
        ("{".to_owned(), "EOF"),
    ] {
        embed(&served, &body).check_problem(400, words);
    }
    // As many and as long as there may be, each character as two escapes.
    let most =
        format!("{{\"texts\": [{}]}}", vec![format!("\"{}\"", "\\ud83d\\ude00".repeat(2000)); 64].join(","));
    assert_eq!(embed(&served, &most).status, 200);
    assert_eq!(embed(&served, &"x".repeat(2_000_000)).status, 413);
    let form = ["Content-Type: text/plain"];
    assert_eq!(served.request("POST", "/api/v1/embed", &form, "{}").status, 415);
    let foreign = ["Content-Type: application/json", "Origin: https://evil.example"];
    assert_eq!(served.request("POST", "/api/v1/embed", &foreign, "{}").status, 403);
    let read = served.get("/api/v1/embed");
    assert!(read.status == 405, "{read:?}");
    assert!(read.header("allow").is_some_and(|allow| allow.contains("POST")), "{read:?}");
}

/// Says where a value does not follow its schema; only what the description uses.
fn violation(value: &Value, schema: &Value, whole: &Value, at: &str) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = whole.pointer(reference.trim_start_matches('#'));
        return violation(value, target.unwrap_or_else(|| panic!("{reference} leads nowhere")), whole, at);
    }
    let kinds = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_of_kind = kinds.contains(&kind) || (kind == "integer" && kinds.contains(&"number"));
    if !kinds.is_empty() && !is_of_kind {
        return Some(format!("{at} is {kind}, not {kinds:?}"));
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let all: Vec<String> = any.iter().filter_map(|one| violation(value, one, whole, at)).collect();
        if all.len() == any.len() {
            return Some(all.join(" and "));
        }
    }
    for one in schema["allOf"].as_array().into_iter().flatten() {
        if let Some(found) = violation(value, one, whole, at) {
            return Some(found);
        }
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let (Value::Object(object), Some(missing)) =
        (value, required.clone().find(|name| value.get(name).is_none()))
    {
        return Some(format!("{at} lacks {missing} among {:?}", object.keys()));
    }
    if let Value::Object(object) = value {
        for (name, part) in object {
            let of_name = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
            // Fields without a schema would drift.
            let is_open = schema["anyOf"].is_array() || schema["allOf"].is_array();
            match of_name.filter(|schema| schema.is_object()) {
                Some(of_name) => {
                    if let Some(found) = violation(part, of_name, whole, &format!("{at}.{name}")) {
                        return Some(found);
                    }
                }
                None if is_open => {}
                None => return Some(format!("{at}.{name} is not described")),
            }
        }
    }
    let items = value.as_array().into_iter().flatten().enumerate();
    items.into_iter().find_map(|(n, item)| violation(item, &schema["items"], whole, &format!("{at}[{n}]")))
}

#[test]
fn answers_match_the_openapi_description() {
    let served = serve();
    let description = served.get("/api/v1/openapi.json").json();
    assert_eq!(description, quarry_http::description());
    let check = |path: &str, query: &str, status: u16| {
        let address = path.replace("{tree}", "shop").replace("{path}", "src/retry.py");
        let reply = served.get(&format!("{address}?{query}"));
        assert_eq!(reply.status, status, "{reply:?}");
        let responses = &description["paths"][path]["get"]["responses"];
        let schema = match status {
            200 => &responses["200"]["content"]["application/json"]["schema"],
            _ => &responses["default"]["content"]["application/problem+json"]["schema"],
        };
        assert!(schema.is_object(), "{path}");
        let found = violation(&reply.json(), schema, &description, path);
        assert_eq!(found, None, "{reply:?}");
    };
    check("/api/v1/search", "q=retry&explain=1", 200);
    check("/api/v1/search", "q=nothing+of+this+kind+anywhere&lang=rust", 200);
    check("/api/v1/search", "", 400);
    check("/api/v1/similar", "path=src/retry.py&line=1&explain=1", 200);
    check("/api/v1/callers", "name=pause", 200);
    check("/api/v1/callees", "path=src/retry.py&line=1", 200);
    check("/api/v1/related", "name=pause", 200);
    check("/api/v1/commits", "q=pause", 200);
    check("/api/v1/units/{tree}/{path}", "", 200);
    check("/api/v1/units/{tree}/{path}", "line=2", 200);
    check("/api/v1/units/{tree}/{path}", "line=x", 400);
    check("/api/v1/trees", "", 200);
    check("/api/v1/status", "", 200);
    let stream = &description["paths"]["/api/v1/search/stream"]["get"]["responses"]["200"]["content"];
    let kinds = stream["text/event-stream"]["schema"]["oneOf"].as_array().unwrap();
    for (name, data) in events(&served.get("/api/v1/search/stream?q=retry&explain=1").body) {
        let kind = kinds.iter().find(|kind| kind["properties"]["event"]["const"] == name).unwrap();
        let schema = &kind["properties"]["data"]["contentSchema"];
        assert!(schema.is_object());
        assert_eq!(violation(&data, schema, &description, &name), None, "{data}");
    }
    let embedded = embed(&served, r#"{"texts": ["retry"]}"#).json();
    let operation = &description["paths"]["/api/v1/embed"]["post"];
    let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(violation(&embedded, schema, &description, "embed"), None);
    let operation = &description["paths"]["/api/v1/search"]["post"];
    let body = json!({ "q": "retry", "k": 1, "explain": true, "threshold": 0.5, "glob": ["*.py"] });
    let asked = &operation["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(violation(&body, asked, &description, "asked"), None);
    let found = search_text(&served, &body.to_string()).json();
    let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(violation(&found, schema, &description, "search by text"), None);
    let paths = description["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 11, "every path is checked above");
    // Every parameter that is described is accepted.
    for (path, operation) in paths {
        let address = path.replace("{tree}", "shop").replace("{path}", "src/retry.py");
        for parameter in operation["get"]["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] == "query" {
                let name = parameter["name"].as_str().unwrap();
                let reply = served.get(&format!("{address}?{name}=1"));
                assert!(!reply.body.contains("unknown parameter"), "{path} {name}: {reply:?}");
            }
        }
    }
}

#[test]
fn commits_of_several_trees_name_theirs() {
    let wire = [("wire.py", "def send(data):\n    return data\n")];
    let files = [("src/pay.py", "def pay(price):\n    return price + 1\n")];
    let paid = [("src/pay.py", "def pay(price):\n    return price\n")];
    let commits = vec![("Start", paid.to_vec()), ("Charge one more", files.to_vec())];
    let served = serve_all(&[("shop", &files), ("bank", &wire)], Start { commits, ..Start::default() });
    let shop = served.directory().canonicalize().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let found = loop {
        let found = served.get("/api/v1/commits?q=charge&tree=shop").json();
        if found["results"][0].is_object() || Instant::now() > deadline {
            break found;
        }
        thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(found["results"][0]["tree"].as_str(), shop.to_str(), "{found}");
    let found = served.get("/api/v1/commits?q=charge&tree=bank").json();
    assert_eq!(found["results"].as_array().unwrap().len(), 0, "{found}");
    assert_eq!(served.get("/api/v1/commits?q=charge&tree=none").status, 404);
    for address in ["similar", "callers", "related"] {
        let reply = served.get(&format!("/api/v1/{address}?path=wire.py&line=1"));
        assert_eq!(reply.status, 404);
        assert!(reply.body.contains("without tree=NAME, the first tree counts"), "{}", reply.body);
    }
}
