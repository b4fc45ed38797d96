//! Parsing of lines from a client, with their problems: JSON-RPC 2.0 as in the Model Context Protocol.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, ClientJsonRpcMessage, ErrorCode, InitializeRequestParams, JsonRpcMessage,
    PaginatedRequestParams, RequestId,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Error for a response without a request.
pub(crate) const UNASKED: &str = "a response without a request";

#[derive(Debug)]
pub(crate) enum Line {
    /// White space.
    Blank,
    One(Message),
    /// Several messages in an array, at least one.
    Batch(Vec<Message>),
}

/// A message, or what becomes of something that is not a message.
#[derive(Debug)]
pub(crate) enum Message {
    Good(Box<ClientJsonRpcMessage>),
    /// It is answered with an error.
    Bad(Refusal),
    /// It answers a request of the server, if it has made one.
    Response(Box<ClientJsonRpcMessage>),
    /// It has no answer, for this reason.
    Ignored(String),
}

/// The error that answers a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    /// The request that is answered; none if it is not known which one that is.
    pub(crate) id: Option<RequestId>,
    pub(crate) error: ErrorData,
}

impl Refusal {
    pub(crate) fn invalid(id: Option<RequestId>, problem: impl Into<String>) -> Self {
        Self { id, error: ErrorData::invalid_request(problem.into(), None) }
    }

    /// As JSON-RPC has it: the id is null if there is none. (The SDK would leave it out.)
    pub(crate) fn to_json(&self) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.id, "error": self.error })
    }
}

/// Reads a line without its end.
pub(crate) fn read(line: &[u8]) -> Line {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Line::Blank;
    }
    let unreadable = |problem: String| {
        let error = ErrorData::new(ErrorCode::PARSE_ERROR, problem, None);
        Line::One(Message::Bad(Refusal { id: None, error }))
    };
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(error) => return unreadable(format!("not UTF-8 after byte {} of the line", error.valid_up_to())),
    };
    // Its limit of nesting keeps the stack from running over.
    match serde_json::from_str(text) {
        Err(error) => unreadable(format!("not JSON on one line: {error}")),
        Ok(Value::Array(batch)) if batch.is_empty() => {
            Line::One(Message::Bad(Refusal::invalid(None, "a batch without a message")))
        }
        Ok(Value::Array(batch)) => Line::Batch(batch.into_iter().map(message).collect()),
        Ok(value) => Line::One(message(value)),
    }
}

fn message(value: Value) -> Message {
    let bad = |id, problem: &str| Message::Bad(Refusal::invalid(id, problem));
    let Value::Object(object) = &value else { return bad(None, "expected an object") };
    let id = object.get("id").map(|id| serde_json::from_value::<RequestId>(id.clone()));
    let (id, has_bad_id) = match id {
        None => (None, false),
        Some(Ok(id)) => (Some(id), false),
        Some(Err(_)) => (None, true),
    };
    let is_response = object.contains_key("result") || object.contains_key("error");
    match object.get("method") {
        // Never answered, lest two programs answer each other for ever.
        None if is_response => match serde_json::from_value::<ClientJsonRpcMessage>(value) {
            Ok(message @ (JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))) => {
                Message::Response(Box::new(message))
            }
            _ => Message::Ignored(UNASKED.to_owned()),
        },
        _ if object.get("jsonrpc") != Some(&json!("2.0")) => bad(id, "expected \"jsonrpc\": \"2.0\""),
        _ if has_bad_id => bad(None, "`id`: expected a string or a whole number"),
        None => bad(id, "expected a `method`"),
        Some(Value::String(_)) if is_response => bad(id, "either `method`, or `result` or `error`"),
        Some(Value::String(method)) => match id {
            Some(id) => request(id, &method.clone(), value),
            None => notification(&method.clone(), value),
        },
        Some(_) => bad(id, "`method`: expected a string"),
    }
}

fn request(id: RequestId, method: &str, value: Value) -> Message {
    let problem = problem_of_parameters(method, value.get("params"));
    match serde_json::from_value::<ClientJsonRpcMessage>(value) {
        // The SDK overlooks some parameters that do not fit, and takes a request with others for an unknown method.
        Ok(message @ JsonRpcMessage::Request(_)) if problem.is_none() => Message::Good(Box::new(message)),
        _ => {
            let problem = problem.unwrap_or_else(|| "`params`: expected an object".to_owned());
            Message::Bad(Refusal { id: Some(id), error: ErrorData::invalid_params(problem, None) })
        }
    }
}

/// Problem of the parameters of the methods that are served.
fn problem_of_parameters(method: &str, parameters: Option<&Value>) -> Option<String> {
    fn problem_of<T: DeserializeOwned>(parameters: Option<&Value>) -> Option<String> {
        let parameters = parameters.cloned().unwrap_or_else(|| Value::Object(Map::new()));
        serde_json::from_value::<T>(parameters).err().map(|error| format!("`params`: {error}"))
    }
    match (method, parameters) {
        ("initialize", parameters) => problem_of::<InitializeRequestParams>(parameters),
        ("tools/call", parameters) => problem_of::<CallToolRequestParams>(parameters),
        ("tools/list", parameters) => problem_of::<PaginatedRequestParams>(parameters),
        (_, Some(parameters)) if !parameters.is_object() => Some("`params`: expected an object".to_owned()),
        _ => None,
    }
}

fn notification(method: &str, value: Value) -> Message {
    if !method.starts_with("notifications/") {
        return Message::Ignored(format!("{method:?} without an `id` is not a request"));
    }
    match serde_json::from_value::<ClientJsonRpcMessage>(value) {
        Ok(message @ JsonRpcMessage::Notification(_)) => Message::Good(Box::new(message)),
        Ok(_) | Err(_) => Message::Ignored(format!("{method:?}: invalid parameters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code, the id and the message of the error that answers a line.
    fn refusal(line: &[u8]) -> (i32, Value, String) {
        let Line::One(Message::Bad(refusal)) = read(line) else { panic!("{:?}", read(line)) };
        let json = refusal.to_json();
        assert_eq!(json["jsonrpc"], "2.0");
        (refusal.error.code.0, json["id"].clone(), refusal.error.message.into_owned())
    }

    #[track_caller]
    fn check(line: &str, code: i32, id: Value, words: &str) {
        let (found_code, found_id, message) = refusal(line.as_bytes());
        assert_eq!((found_code, found_id), (code, id), "{message}");
        assert!(message.contains(words), "{message}");
    }

    #[test]
    fn invalid_json_is_a_parse_error() {
        for line in ["garbage", "{", "{\"jsonrpc\":\"2.0\"}}", "\"\\ud800\"", "\u{0}\u{1}"] {
            check(line, -32700, Value::Null, "not JSON");
        }
        let (code, id, message) = refusal(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}");
        assert_eq!((code, id), (-32700, Value::Null));
        assert!(message.contains("not UTF-8 after byte 34"), "{message}");
        check(&"[".repeat(1_000_000), -32700, Value::Null, "recursion limit");
        let nested = format!("{}1{}", "{\"a\":".repeat(5_000), "}".repeat(5_000));
        check(&nested, -32700, Value::Null, "recursion limit");
    }

    #[test]
    fn other_json_is_an_invalid_request() {
        for line in ["1", "null", "\"x\"", "[]"] {
            check(line, -32600, Value::Null, "");
        }
        check("{}", -32600, Value::Null, "jsonrpc");
        check(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, json!(1), "\"2.0\"");
        check(r#"{"jsonrpc":"2.0","id":"a"}"#, -32600, json!("a"), "`method`");
        check(r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600, json!(1), "a string");
        for id in ["null", "1.5", "[1]", "{}", "true", "99999999999999999999"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            check(&line, -32600, Value::Null, "`id`");
        }
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, -32600, json!(1), "either");
    }

    #[test]
    fn parameters_that_do_not_fit_are_named() {
        let line = |method: &str, parameters: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{parameters}}}"#)
        };
        check(&line("tools/call", "{}"), -32602, json!(1), "missing field `name`");
        check(&line("tools/call", r#"{"name":5}"#), -32602, json!(1), "invalid type");
        check(
            &line("tools/call", r#"{"name":"search","arguments":[1]}"#),
            -32602,
            json!(1),
            "expected a map",
        );
        check(&line("tools/list", r#"{"cursor":5}"#), -32602, json!(1), "expected a string");
        check(&line("initialize", r#"{"protocolVersion":"2025-06-18"}"#), -32602, json!(1), "missing field");
        for parameters in ["[1]", "5", "\"x\""] {
            check(&line("ping", parameters), -32602, json!(1), "an object");
            check(&line("made/up", parameters), -32602, json!(1), "an object");
        }
    }

    #[test]
    fn good_messages_are_read_and_others_ignored_without_an_answer() {
        let kind = |line: &str| match read(line.as_bytes()) {
            Line::Blank => "blank",
            Line::One(Message::Good(_)) => "good",
            Line::One(Message::Response(_)) => "response",
            Line::One(Message::Ignored(_)) => "ignored",
            Line::One(Message::Bad(_)) => "bad",
            Line::Batch(_) => "batch",
        };
        for line in ["", "  ", "\r", "\u{feff}"] {
            assert_eq!(kind(line), "blank", "{line:?}");
        }
        for line in [
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r",
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":-1,"method":"tools/list","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"search","arguments":{"query":"x"}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"made/up","params":{"a":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/made_up","params":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        ] {
            assert_eq!(kind(line), "good", "{line}");
        }
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
        ] {
            assert_eq!(kind(line), "response", "{line}");
        }
        assert_eq!(kind(r#"{"jsonrpc":"2.0","method":"tools/list"}"#), "ignored");
        assert_eq!(kind(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},1]"#), "batch");
    }
}
