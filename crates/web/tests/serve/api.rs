//! The API as programs use it.

use serde_json::Value;

use crate::fixture::{FILES, serve};

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
    assert_eq!(
        (first["name"].as_str(), first["kind"].as_str()),
        (Some("retry_with_backoff"), Some("function"))
    );
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
        ("/api/v1/similar?path=src/retry.py", 400, "a line in it"),
        ("/api/v1/similar?path=none.py&line=1", 404, "no indexed unit"),
        ("/api/v1/callees?path=none.py&line=1", 404, "name a line in one"),
        ("/api/v1/units/shop/none.py", 404, "no such file is indexed"),
        ("/api/v1/none", 404, "/api/v1/openapi.json"),
    ] {
        let reply = served.get(path);
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (status, Some("application/problem+json")),
            "{path}"
        );
        let problem = reply.json();
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().unwrap().contains(words), "{path}: {problem}");
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
        let message = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        served.request("POST", path, &head, &message.to_string())
    };
    let arguments = serde_json::json!({ "name": "search", "arguments": { "query": "retry with backoff" } });
    for path in ["/mcp", "/mcp/shop"] {
        let listed = call(path, "tools/list", serde_json::json!({}));
        assert!(listed.status == 200 && listed.body.contains("index_status"), "{listed:?}");
        let found = call(path, "tools/call", arguments.clone());
        assert!(found.status == 200 && found.body.contains("src/retry.py:1"), "{found:?}");
    }
    assert_eq!(call("/mcp/none", "tools/list", serde_json::json!({})).status, 404);
    let foreign = served.request("POST", "/mcp", &["Origin: https://evil.example", head[0], head[1]], "{}");
    assert_eq!(foreign.status, 403);
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
            // What no schema describes would drift.
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
fn answers_are_as_the_description_says() {
    let served = serve();
    let description = served.get("/api/v1/openapi.json").json();
    assert_eq!(description, quarry_web::description());
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
    check("/api/v1/units/{tree}/{path}", "", 200);
    check("/api/v1/units/{tree}/{path}", "line=2", 200);
    check("/api/v1/units/{tree}/{path}", "line=x", 400);
    check("/api/v1/trees", "", 200);
    check("/api/v1/status", "", 200);
    let paths = description["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 7, "every path is checked above");
    // Every parameter that is described is accepted.
    for (path, operation) in paths {
        let address = path.replace("{tree}", "shop").replace("{path}", "src/retry.py");
        for parameter in operation["get"]["parameters"].as_array().unwrap() {
            if parameter["in"] == "query" {
                let name = parameter["name"].as_str().unwrap();
                let reply = served.get(&format!("{address}?{name}=1"));
                assert!(!reply.body.contains("there is no parameter"), "{path} {name}: {reply:?}");
            }
        }
    }
}
