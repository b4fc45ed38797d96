//! The client against a server on loopback that answers, refuses, disconnects and lies.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use quarry_llm::{
    Budget, BudgetError, Cache, CallControl, ChatRequest, Client, Cost, Failure, Limits, LlmError, Message,
    Money, Origin, Provider, Recording, Role, Schema, Settings, Stop, Usage,
};
use serde_json::{Value, json};

use quarry_test_support::model_server::{Reply, Server, completion, embeddings};
use support::{SECRET, client, contents, question, settings};

fn failure(result: Result<quarry_llm::ChatAnswer, LlmError>) -> (u32, Failure, String) {
    let error = result.unwrap_err();
    let shown = error.to_string();
    match error {
        LlmError::Failed { attempts, failure, .. } => (attempts, failure, shown),
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_have_the_form_of_the_api() {
    let server = Server::replies([Reply::ok(completion("yes", 12, 3))]);
    let mut request = question();
    request.messages.insert(0, Message::new(Role::System, "Be short."));
    request.temperature = Some(0.0);
    let client = client(settings(&server));
    let answer = client.chat(&request).unwrap();
    assert_eq!((answer.text.as_str(), answer.stop, answer.origin), ("yes", Stop::Complete, Origin::Endpoint));
    assert_eq!(answer.usage, Some(Usage { input_tokens: 12, output_tokens: 3 }));
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/chat/completions");
    assert!(seen.headers.contains(&format!("authorization: bearer {SECRET}")));
    let messages =
        json!([{"role": "system", "content": "Be short."}, {"role": "user", "content": "Is it so?"}]);
    let body = json!({"model": "m", "messages": messages, "max_tokens": 100, "temperature": 0.0});
    assert_eq!(seen.body, body);
    let spent = client.budget().spending();
    assert_eq!(
        (spent.spent.tokens, spent.spent.money, spent.calls),
        (15, Money::from_dollars(42e-6).unwrap(), 1)
    );
    assert_eq!((spent.unconfirmed, spent.reserved), (Cost::default(), Cost::default()));
}

#[test]
fn anthropics_messages_are_spoken_too() {
    let used = json!({"input_tokens": 5, "output_tokens": 6, "cache_read_input_tokens": 2});
    let text = json!({"content": [{"type": "text", "text": "y"}, {"type": "text", "text": "es"}],
        "stop_reason": "end_turn", "usage": used});
    let tool = json!({"content": [{"type": "thinking", "thinking": "…"},
        {"type": "tool_use", "id": "t", "name": "verdict", "input": {"why": "so", "verdict": 1}}],
        "stop_reason": "tool_use", "usage": used});
    let server = Server::replies([Reply::ok(text), Reply::ok(tool)]);
    let client = client(Settings { provider: Provider::Anthropic, ..settings(&server) });
    let mut request = question();
    request.messages.insert(0, Message::new(Role::System, "Be short."));
    let answer = client.chat(&request).unwrap();
    assert_eq!((answer.text.as_str(), answer.usage.unwrap().input_tokens), ("yes", 7));
    request.schema = Some(Schema { name: "verdict".to_owned(), schema: json!({"type": "object"}) });
    assert_eq!(
        client.chat(&request).unwrap().text,
        r#"{"why":"so","verdict":1}"#,
        "in the order it was written"
    );
    let seen = server.seen();
    assert_eq!(seen[0].path, "/v1/messages");
    assert!(
        seen[0].headers.contains(&format!("x-api-key: {SECRET}"))
            && !seen[0].headers.contains("authorization")
    );
    assert!(seen[0].headers.contains("anthropic-version: 2023-06-01"));
    assert_eq!((&seen[0].body["system"], &seen[0].body["max_tokens"]), (&json!("Be short."), &json!(100)));
    assert_eq!(seen[0].body["messages"].as_array().unwrap().len(), 1);
    assert_eq!(seen[1].body["tool_choice"], json!({"type": "tool", "name": "verdict"}));
    assert!(matches!(client.embed(&["a"]).unwrap_err(), LlmError::Settings { .. }));
}

#[test]
fn transient_failures_are_retried() {
    let answer = completion("yes", 1, 1);
    let faults = [
        Reply::status(500, "oops"),
        Reply::status(429, r#"{"error": {"message": "slow down"}}"#),
        Reply::status(503, ""),
        Reply::Half(answer.to_string()),
        Reply::Garbage,
        Reply::Hang,
        Reply::status(200, "<html>busy</html>"),
        Reply::ok(json!({"choices": []})),
        Reply::ok(json!({"answer": 42})),
        Reply::ok(completion("  ", 1, 0)),
        Reply::Bytes(b"{\"choices\": \"\xff\xfe\"}".to_vec()),
    ];
    for fault in faults {
        let server = Server::replies([fault, Reply::ok(answer.clone())]);
        let mut sent = 0;
        let mut sending = || {
            sent += 1;
            true
        };
        let watch = CallControl { sending: &mut sending, is_over: &|| false };
        let (said, _) = client(settings(&server)).chat_with_cost(&question(), watch);
        assert_eq!((said.unwrap().text.as_str(), server.count(), sent), ("yes", 2, 2));
    }
}

#[test]
fn forbidden_calls_are_not_sent() {
    let server = Server::replies([Reply::Hang]);
    let mut turns = 0;
    let mut sending = || {
        turns += 1;
        turns < 2
    };
    let watch = CallControl { sending: &mut sending, is_over: &|| false };
    let (said, booked) = client(settings(&server)).chat_with_cost(&question(), watch);
    let failure =
        matches!(said.unwrap_err(), LlmError::Failed { failure: Failure::Withdrawn, attempts: 1, .. });
    assert!(failure && server.count() == 1 && booked.cost.tokens > 0, "{booked:?}");
}

#[test]
fn permanent_failures_are_not_retried_and_say_what_to_do() {
    let quota = r#"{"error": {"message": "no money", "code": "insufficient_quota"}}"#;
    let faults = [
        (401, "", "TEST_KEY"),
        (403, r#"{"error": "this was flagged"}"#, "this was flagged; the server refuses"),
        (404, r#"{"error": "model 'm' not found"}"#, "model 'm' not found; check that `base_url`"),
        (400, r#"{"error": {"message": "unknown field"}}"#, "unknown field; the server rejects this request"),
        (301, "", "set `base_url`"),
        (302, "", "set `base_url`"),
        (307, "away for a moment", "set `base_url`"),
        (308, "", "set `base_url`"),
        (429, quota, "billing"),
    ];
    for (status, body, expected) in faults {
        let more = format!("location: {}\r\n", "http://127.0.0.1:9/v1");
        let server = Server::replies([Reply::Status(status, more, body.to_owned())]);
        let client = client(settings(&server));
        let (attempts, _, shown) = failure(client.chat(&question()));
        assert!(
            shown.contains(expected) && shown.contains(&server.url()) && shown.contains("(m)"),
            "{shown}"
        );
        assert_eq!((attempts, server.count()), (1, 1), "{shown}");
        assert_eq!(client.budget().spending().spent, Cost::default(), "a refusal is free");
    }
}

#[test]
fn a_server_that_is_not_there_is_unreachable_and_free() {
    let server = Server::replies([Reply::Hang]);
    let settings = Settings { attempts: 2, ..settings(&server) };
    drop(server);
    let client = client(settings);
    let (attempts, failure, _) = failure(client.chat(&question()));
    assert!(matches!((attempts, &failure), (2, Failure::Unreachable { .. })), "{failure:?}");
    assert_eq!(client.budget().spending().spent, Cost::default());
}

#[test]
fn every_call_honors_retry_after() {
    let wait = Reply::Status(429, "retry-after: 1\r\n".to_owned(), String::new());
    let server = Server::script({
        let first = Instant::now();
        move |index, _| match index {
            0 => wait.clone(),
            _ if first.elapsed() < Duration::from_secs(1) => Reply::status(400, "too early"),
            _ => Reply::ok(completion("yes", 1, 1)),
        }
    });
    let client = client(settings(&server));
    thread::scope(|scope| {
        let first = scope.spawn(|| client.chat(&question()));
        while server.count() == 0 {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(200));
        assert_eq!(client.chat(&ChatRequest::new("another", 10)).unwrap().text, "yes");
        assert_eq!(first.join().unwrap().unwrap().text, "yes");
    });
    assert_eq!(server.count(), 3);
}

#[test]
fn a_wait_beyond_the_deadline_is_not_begun() {
    let server =
        Server::replies([Reply::Status(429, "retry-after: 3600\r\n".to_owned(), "later".to_owned())]);
    let client = client(settings(&server));
    let begin = Instant::now();
    let (_, failure, shown) = failure(client.chat(&question()));
    assert!(matches!(failure, Failure::AskedToWait { last: Some(_), .. }), "{failure:?}");
    assert!(shown.contains("asks to wait 3600 s") && shown.contains("later"), "{shown}");
    // The next caller gets the same error without a request.
    let (attempts, failure, shown) = self::failure(client.chat(&ChatRequest::new("another", 10)));
    assert!(matches!(failure, Failure::AskedToWait { last: None, .. }), "{failure:?}");
    assert!(shown.contains("the server asks to wait 3") && !shown.contains("0 s after"), "{shown}");
    assert_eq!((attempts, server.count()), (0, 1));
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn late_and_slow_answers_time_out_and_count_as_paid() {
    let answer = completion("yes", 1, 1).to_string();
    let slow = [
        Reply::Late(Duration::from_secs(4), answer.clone()),
        Reply::Drip(Duration::from_millis(50), answer.clone()),
        Reply::Half(answer),
    ];
    for reply in slow {
        let server = Server::replies([reply]);
        let settings = Settings { timeout_seconds: 0.5, attempts: 2, ..settings(&server) };
        let client = client(settings);
        let worst = client.estimate_chat(&[question()]).unwrap().worst;
        let begin = Instant::now();
        let (attempts, failure, _) = failure(client.chat(&question()));
        assert!(matches!(failure, Failure::TimedOut { .. } | Failure::Broken { .. }), "{failure:?}");
        assert!(begin.elapsed() < Duration::from_secs(15));
        let spending = client.budget().spending();
        let twice = Cost { tokens: 2 * worst.tokens, money: worst.money + worst.money };
        assert_eq!((attempts, spending.spent, spending.unconfirmed), (2, twice, twice));
    }
}

#[test]
fn a_failure_is_billed_as_the_server_reports_it() {
    let used = |status| {
        Reply::status(status, r#"{"error": "oops", "usage": {"prompt_tokens": 9, "completion_tokens": 2}}"#)
    };
    let counted = |tokens| (Some(tokens), 0);
    for (reply, expected) in [
        (Reply::status(500, "oops"), counted(0)),
        (Reply::status(501, r#"{"usage": null}"#), counted(0)),
        (Reply::status(503, ""), counted(0)),
        (used(500), counted(11)),
        (used(503), counted(11)),
        (used(400), counted(11)),
        // Nobody knows what the server behind a gateway did, nor what became of a request whose connection broke.
        (Reply::status(504, "upstream timed out"), (None, 1)),
        (used(504), counted(11)),
        (Reply::Hang, (None, 1)),
    ] {
        let server = Server::replies([reply]);
        let client = client(Settings { attempts: 1, ..settings(&server) });
        let worst = client.estimate_chat(&[question()]).unwrap().worst;
        client.chat(&question()).unwrap_err();
        let spending = client.budget().spending();
        let (tokens, unconfirmed) = expected;
        assert_eq!(spending.spent.tokens, tokens.unwrap_or(worst.tokens), "{:?}", server.seen());
        assert_eq!(
            (spending.unconfirmed.tokens, spending.reserved),
            (unconfirmed * worst.tokens, Cost::default())
        );
    }
}

#[test]
fn a_budget_is_never_exceeded_and_refuses_before_it_sends() {
    let server = Server::script(|index, _| match index % 4 {
        0 => Reply::status(500, ""),
        1 => Reply::Hang,
        _ => Reply::ok(completion("yes", 30, 20)),
    });
    let limit = 6000;
    let budget =
        Budget::new(Limits { tokens: Some(limit), money: Money::from_dollars(0.05) }, Cost::default());
    let client = client(Settings { attempts: 2, ..settings(&server) }).with_budget(budget).unwrap();
    let refused = Mutex::new(0);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (client, refused) = (&client, &refused);
            scope.spawn(move || {
                for index in 0..10 {
                    match client.chat(&ChatRequest::new(format!("{worker} {index}"), 100)) {
                        Err(LlmError::Budget {
                            problem: BudgetError::Exhausted { spent, worst, .. },
                            ..
                        }) => {
                            assert!(spent.tokens + worst.tokens > limit);
                            *refused.lock().unwrap() += 1;
                        }
                        _ => assert!(client.budget().spending().spent.tokens <= limit),
                    }
                }
            });
        }
    });
    let spending = client.budget().spending();
    assert!(spending.spent.tokens <= limit && spending.reserved == Cost::default(), "{spending:?}");
    assert!(*refused.lock().unwrap() > 0);
    let before = server.count();
    assert!(matches!(client.chat(&question()), Err(LlmError::Budget { .. })));
    assert_eq!(server.count(), before, "what is refused is not sent");
}

#[test]
fn a_limit_in_dollars_needs_a_price() {
    let server = Server::replies([Reply::Hang]);
    let budget = Budget::new(Limits { tokens: None, money: Money::from_dollars(1.0) }, Cost::default());
    let error = client(Settings { output_price: None, ..settings(&server) }).with_budget(budget).unwrap_err();
    assert!(error.to_string().contains("`output_price`"), "{error}");
}

#[test]
fn no_more_calls_run_at_once_than_the_settings_say() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let server = Server::script({
        let most = Arc::clone(&most);
        move |_, _| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(30));
            running.fetch_sub(1, Ordering::SeqCst);
            Reply::ok(completion("yes", 1, 1))
        }
    });
    let client = client(Settings { concurrency: 3, ..settings(&server) });
    thread::scope(|scope| {
        for worker in 0..8 {
            let client = &client;
            scope.spawn(move || client.chat(&ChatRequest::new(format!("{worker}"), 10)).unwrap());
        }
    });
    assert_eq!(server.count(), 8);
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}

#[test]
fn an_answer_is_paid_once_and_each_sample_by_itself() {
    let server = Server::script(|index, _| Reply::ok(completion(&format!("answer {index}"), 1, 1)));
    let directory = tempfile::tempdir().unwrap();
    let open = || client(settings(&server)).with_cache(Cache::open(directory.path()).unwrap());
    let second = ChatRequest { sample: 1, ..question() };
    assert_eq!(open().chat(&question()).unwrap().text, "answer 0");
    assert_eq!(open().chat(&second).unwrap().text, "answer 1");
    let client = open();
    let again = client.chat(&question()).unwrap();
    assert_eq!((again.text.as_str(), again.origin), ("answer 0", Origin::Cache));
    assert_eq!(client.chat(&second).unwrap().text, "answer 1");
    let third = ChatRequest { sample: 2, ..question() };
    let estimate = client.estimate_chat(&[question(), second, third]).unwrap();
    assert_eq!((estimate.stored, estimate.calls), (2, 1));
    assert_eq!((server.count(), client.budget().spending().calls), (2, 0));
}

#[test]
fn a_recording_answers_without_a_network_and_names_what_it_lacks() {
    let server = Server::script(|_, seen| match seen.path.ends_with("embeddings") {
        true => Reply::ok(embeddings(&seen.body)),
        false => Reply::ok(completion("yes", 1, 1)),
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recording.jsonl");
    let settings = settings(&server);
    let live = client(settings.clone()).with_recording(&path).unwrap();
    live.chat(&question()).unwrap();
    let vectors = live.embed(&["one", "three"]).unwrap().vectors;
    drop(server);
    let replay = Client::replay(settings, Recording::open(&path).unwrap()).unwrap();
    let answer = replay.chat(&question()).unwrap();
    assert_eq!((answer.text.as_str(), answer.origin), ("yes", Origin::Recording));
    let replayed = replay.embed(&["three", "one", "three"]).unwrap();
    assert_eq!((replayed.sent, &replayed.vectors[0], &replayed.vectors[1]), (0, &vectors[1], &vectors[0]));
    let error = replay.chat(&ChatRequest::new("Something else?", 100)).unwrap_err().to_string();
    for part in ["recording.jsonl", "Something else?", "(m)", "Record it"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(matches!(replay.embed(&["two"]).unwrap_err(), LlmError::NotRecorded { .. }));
    assert_eq!(replay.budget().spending().spent, Cost::default());
}

#[test]
fn embeddings_come_in_order_in_batches_and_each_text_once() {
    let server = Server::script(|_, seen| Reply::ok(embeddings(&seen.body)));
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { embedding_batch: 3, concurrency: 2, dimensions: Some(2), ..settings(&server) };
    let client = client(settings).with_cache(Cache::open(directory.path()).unwrap());
    let texts = ["a", "bb", "ccc", "bb", "dddd", "", "eeeee", "fff", "ggg"];
    let result = client.embed(&texts).unwrap();
    let expected = |text: &str| vec![text.len() as f32, text.bytes().next().map_or(0.0, f32::from) / 7.0];
    assert_eq!(result.vectors, texts.map(expected));
    assert_eq!((result.sent, server.count()), (8, 3));
    assert!(server.seen().iter().all(|seen| seen.path == "/v1/embeddings" && seen.body["dimensions"] == 2));
    let again = client.embed(&["ggg", "new", "a"]).unwrap();
    assert_eq!((again.vectors, again.sent), (vec![expected("ggg"), expected("new"), expected("a")], 1));
    assert_eq!(server.seen()[3].body["input"], json!(["new"]));
    assert_eq!(client.embed(&[]).unwrap().vectors, Vec::<Vec<f32>>::new());
    assert_eq!(client.budget().spending().spent.tokens, 27);
}

#[test]
fn embeddings_that_do_not_fit_their_texts_are_refused() {
    let vector = |index: usize, vector: Value| json!({"index": index, "embedding": vector});
    let wrong = [
        json!([vector(0, json!([1.0]))]),
        json!([vector(0, json!([1.0])), vector(0, json!([1.0]))]),
        json!([vector(0, json!([1.0])), vector(2, json!([1.0]))]),
        json!([vector(0, json!([1.0])), vector(1, json!([1.0, 2.0]))]),
        json!([vector(0, json!([1.0])), vector(1, json!([]))]),
        json!([vector(0, json!([1.0])), vector(1, json!([1e39]))]),
    ];
    for data in wrong {
        let server = Server::replies([Reply::ok(json!({"data": data}))]);
        let error = client(Settings { attempts: 1, ..settings(&server) }).embed(&["a", "b"]).unwrap_err();
        assert!(matches!(error, LlmError::Failed { failure: Failure::Answer { .. }, .. }), "{error}");
    }
}

#[test]
fn a_schema_is_sent_or_put_in_words() {
    let properties =
        json!({"why": {"type": "string"}, "verdict": {"type": "integer"}, "a": {"type": "null"}});
    let schema =
        Schema { name: "verdict".to_owned(), schema: json!({"type": "object", "properties": properties}) };
    let request = ChatRequest { schema: Some(schema.clone()), ..question() };
    let server = Server::replies([
        Reply::ok(completion("{\"why\": \"so\"}", 1, 1)),
        Reply::ok(completion("{}", 1, 1)),
    ]);
    client(settings(&server)).chat(&request).unwrap();
    client(Settings { json_schema: false, ..settings(&server) }).chat(&request).unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].body["response_format"]["json_schema"]["schema"], schema.schema);
    assert_eq!(seen[1].body.get("response_format"), None);
    let words = seen[1].body["messages"][0]["content"].as_str().unwrap();
    let order: Vec<usize> =
        ["\"why\"", "\"verdict\"", "\"a\""].map(|name| words.find(name).unwrap()).to_vec();
    assert!(order.is_sorted(), "properties keep their order: {words}");
}

#[test]
fn a_refusal_is_distinguished_from_an_answer() {
    let refusal =
        json!({"choices": [{"message": {"content": null, "refusal": "I won't."}, "finish_reason": "stop"}]});
    let filtered = json!({"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]});
    let cut = json!({"choices": [{"message": {"content": null}, "finish_reason": "length"}]});
    let server = Server::replies([Reply::ok(refusal), Reply::ok(filtered), Reply::ok(cut)]);
    let client = client(settings(&server));
    let stops: Vec<Stop> = (0..3).map(|_| client.chat(&question()).unwrap().stop).collect();
    assert_eq!(stops, [Stop::Refusal, Stop::Refusal, Stop::Length]);
    assert_eq!(server.count(), 3);
}

#[test]
fn the_key_is_in_no_error_cache_recording_or_debug_text() {
    let echo = format!("your key {SECRET} or {}", SECRET.replace('/', "\\/"));
    let header = format!("x-echo: {SECRET}\r\nretry-after: 0\r\n");
    let server = Server::replies([
        Reply::Status(429, header.clone(), echo.clone()),
        Reply::Status(400, header.clone(), json!({"error": {"message": echo}}).to_string()),
        Reply::Status(401, header, echo.clone()),
        Reply::status(200, &echo),
        Reply::status(200, &echo),
        Reply::status(200, &echo),
        Reply::ok(completion(&echo, 1, 1)),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let client = client(settings(&server)).with_cache(Cache::open(directory.path()).unwrap());
    let client = client.with_recording(&directory.path().join("recording.jsonl")).unwrap();
    let mut shown = format!("{client:?}");
    for _ in 0..3 {
        let error = client.chat(&question()).unwrap_err();
        shown += &format!("{error} {error:?} {error:#?}");
    }
    let answer = client.chat(&question()).unwrap();
    shown += &format!("{answer:?} {:?}", client.budget().spending());
    shown += &contents(directory.path());
    assert_eq!(server.count(), 7);
    assert!(server.seen().iter().all(|seen| seen.headers.contains(SECRET)), "it was sent");
    assert!(shown.contains("[TEST_KEY]") && shown.contains("recording.jsonl"));
    for part in [SECRET, "do-not", "this\\/"] {
        assert!(!shown.contains(part), "{part}: {shown}");
    }
    let error = client.chat(&ChatRequest::new(format!("what is {SECRET}?"), 10)).unwrap_err();
    assert!(
        matches!(error, LlmError::Failed { failure: Failure::KeyInRequest { .. }, .. })
            && !error.to_string().contains(SECRET)
    );
    assert_eq!(server.count(), 7, "and was not sent");
}
