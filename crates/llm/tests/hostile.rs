//! The client against servers with invalid answers, and directories that are not writable.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quarry_llm::{
    ApiKey, Booked, Budget, BudgetError, Cache, CallControl, ChatAnswer, ChatRequest, Client, Cost, Failure,
    Limits, LlmError, Provider, Recorder, Settings, Usage,
};
use quarry_test_support::model_server::{Reply, Server, completion, embeddings};
use serde_json::{Value, json};
use support::{SECRET, client, contents, question, settings};

/// The key as .NET escapes it in JSON.
fn escaped() -> String {
    SECRET.replace('+', "\\u002B").replace('/', "\\u002F")
}

#[test]
fn an_echoed_key_in_escapes_is_redacted() {
    let error = format!("{{\"error\":{{\"message\":\"Incorrect API key provided: {}\"}}}}", escaped());
    let answer = completion("your key is KEY", 1, 1).to_string().replace("KEY", &escaped());
    let server = Server::script(move |index, seen| match (index, seen.path.ends_with("embeddings")) {
        (0, _) => Reply::status(400, &error),
        (_, false) => Reply::status(200, &answer),
        (_, true) => {
            let mut body = embeddings(&seen.body);
            body["model"] = json!("KEY");
            Reply::status(200, &body.to_string().replace("KEY", &escaped()))
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let client = client(settings(&server)).with_cache(Cache::open(directory.path()).unwrap());
    let client = client.with_recording(&directory.path().join("recording.jsonl")).unwrap();
    let error = client.chat(&question()).unwrap_err();
    assert!(error.to_string().contains("provided: [TEST_KEY]"), "{error}");
    let answer = client.chat(&question()).unwrap();
    assert_eq!(answer.text, "your key is [TEST_KEY]");
    client.embed(&["one"]).unwrap();
    let shown = format!("{error:?} {answer:?} {}", contents(directory.path()));
    assert!(shown.matches("[TEST_KEY]").count() >= 4, "{shown}");
    for part in [SECRET, &escaped(), "do-not"] {
        assert!(!shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn an_echoed_key_in_base64_or_hexadecimal_is_not_stored() {
    // `SECRET`, and `user:` with it, by Python's `base64`.
    let encoded = ["c2stZG8tbm90K3Nob3cvdGhpcw==", "dXNlcjpzay1kby1ub3Qrc2hvdy90aGlz"];
    let hexadecimal = SECRET.bytes().map(|byte| format!("{byte:02X}")).collect::<String>();
    let said = format!("{} {} {hexadecimal}", encoded[0], encoded[1]);
    let server = Server::replies([Reply::ok(completion(&said, 1, 1))]);
    let directory = tempfile::tempdir().unwrap();
    let client = client(settings(&server)).with_cache(Cache::open(directory.path()).unwrap());
    let client = client.with_recording(&directory.path().join("recording.jsonl")).unwrap();
    let answer = client.chat(&question()).unwrap();
    assert_eq!(answer.text.matches("[TEST_KEY]").count(), 3, "{}", answer.text);
    let shown = format!("{answer:?} {}", contents(directory.path()));
    for form in [encoded[0], encoded[1], &hexadecimal, "ZG8tbm90", "c2hvdy90"] {
        assert!(!shown.contains(form), "{form}: {shown}");
    }
}

#[test]
fn an_answer_with_half_a_character_is_stored_escaped_and_paid_once() {
    let body = r#"{"choices": [{"message": {"content": "{\"reason\": \"a\ud83d\"}"}}], "usage": {"prompt_tokens": 5, "completion_tokens": 6}}"#;
    let server = Server::replies([Reply::status(200, body)]);
    let directory = tempfile::tempdir().unwrap();
    let open = || client(settings(&server)).with_cache(Cache::open(directory.path()).unwrap());
    for client in [open(), open()] {
        assert_eq!(client.chat(&question()).unwrap().text, r#"{"reason": "a\ud83d"}"#);
    }
    assert_eq!(server.count(), 1);
}

#[test]
fn an_address_that_holds_the_key_is_refused() {
    for address in [
        format!("http://localhost/v1/{SECRET}"),
        format!("http://localhost/{}/", SECRET.replace('+', "%2B").replace('/', "%2f")),
    ] {
        let settings = Settings::new(Provider::OpenaiCompatible, &address, "m");
        let error = Client::with_key(settings, Some(ApiKey::new("TEST_KEY", SECRET).unwrap())).unwrap_err();
        assert!(
            error.to_string().contains("`base_url` contains a key") && !error.to_string().contains("show"),
            "{error}"
        );
    }
}

#[test]
fn a_key_in_the_place_of_its_name_is_not_shown() {
    let server = Server::replies([Reply::Hang]);
    let settings =
        Settings { key_variable: Some("sk-live-0123456789abcdef".to_owned()), ..settings(&server) };
    let error = Client::new(settings).unwrap_err().to_string();
    assert!(error.contains("`key_variable` is not the name") && !error.contains("sk-live"), "{error}");
}

#[test]
fn requested_delays_of_any_length_are_reported() {
    for wish in ["10000000000000000000", "1e19", "18446744073709549568", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let server = Server::replies([Reply::Status(429, format!("retry-after: {wish}\r\n"), String::new())]);
        let client = client(settings(&server));
        for _ in 0..2 {
            let error = client.chat(&question()).unwrap_err();
            let asked = matches!(error, LlmError::Failed { failure: Failure::AskedToWait { .. }, .. });
            assert!(asked && error.to_string().contains("the server asks to wait"), "{wish}: {error}");
        }
        assert_eq!((server.count(), client.budget().spending().spent), (1, Cost::default()));
    }
}

fn ask_until(
    client: &Client,
    is_over: &dyn Fn() -> bool,
) -> (Result<ChatAnswer, LlmError>, Booked, Duration) {
    let begin = Instant::now();
    let (answer, booked) = client.chat_with_cost(&question(), CallControl { sending: &mut || true, is_over });
    (answer, booked, begin.elapsed())
}

#[test]
fn a_wait_ends_when_the_call_is_canceled() {
    let server = Server::replies([Reply::Status(429, "retry-after: 100\r\n".to_owned(), String::new())]);
    let settings = Settings { deadline_seconds: 300.0, ..settings(&server) };
    let client = Client::with_key(settings, None).unwrap();
    let looks = AtomicUsize::new(0);
    // The wait of the refused call, and of a call that arrives meanwhile.
    for _ in 0..2 {
        let (answer, booked, time) = ask_until(&client, &|| looks.fetch_add(1, Ordering::SeqCst) > 10);
        let error = answer.unwrap_err();
        assert!(matches!(error, LlmError::Failed { failure: Failure::Withdrawn, .. }), "{error}");
        assert_eq!((booked, server.count()), (Booked::default(), 1));
        assert!(time < Duration::from_secs(60), "{time:?}");
        looks.store(8, Ordering::SeqCst);
    }
}

#[test]
fn canceled_calls_are_not_sent() {
    let server = Server::replies([Reply::ok(completion("yes", 1, 1))]);
    let (answer, booked, _) = ask_until(&client(settings(&server)), &|| true);
    assert!(answer.is_err());
    assert_eq!((booked, server.count()), (Booked::default(), 0));
}

/// A server that reports this usage for every chat or embedding.
fn counting(is_embedding: bool, usage: Value) -> Server {
    Server::script(move |_, seen| match is_embedding {
        false => used(usage.clone()),
        true => {
            let mut body = embeddings(&seen.body);
            body["usage"] = usage.clone();
            Reply::ok(body)
        }
    })
}

fn ask(client: &Client, is_embedding: bool, number: usize) -> Option<LlmError> {
    match is_embedding {
        false => client.chat(&ChatRequest::new(format!("question {number}"), 100)).err(),
        true => client.embed(&[&format!("text {number}")]).err(),
    }
}

/// An answer that reports this usage.
fn used(usage: Value) -> Reply {
    let mut body = completion("yes", 0, 0);
    body["usage"] = usage;
    Reply::ok(body)
}

#[test]
fn usage_that_is_missing_zero_or_cannot_be_is_booked_at_its_worst() {
    let usage_of = |input: u64, output: u64| Some(Usage { input_tokens: input, output_tokens: output });
    for (usage, expected) in [
        (
            json!({"prompt_tokens": 100.0, "completion_tokens": 250.0, "total_tokens": 350.0}),
            usage_of(100, 250),
        ),
        (json!({"prompt_tokens": 100}), None),
        (json!({"prompt_tokens": 100, "completion_tokens": -5}), None),
        (json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}), None),
        (json!({"prompt_tokens": 0, "completion_tokens": 5}), None),
        (json!({"prompt_tokens": 5, "completion_tokens": 0}), None),
        (json!({"prompt_tokens": 10, "completion_tokens": 9_000_000_000_000u64}), None),
        (json!({"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX}), None),
    ] {
        let server = Server::replies([used(usage.clone())]);
        let client = client(settings(&server));
        let worst = client.estimate_chat(&[question()]).unwrap().worst;
        let (answer, booked, _) = ask_until(&client, &|| false);
        assert_eq!(answer.unwrap().usage, expected, "{usage}");
        let expected = match expected {
            Some(usage) => Booked::counted(Cost {
                tokens: 350,
                money: quarry_llm::Money::from_units(
                    usage.input_tokens * 1_000_000 + usage.output_tokens * 10_000_000,
                ),
            }),
            None => Booked::worst(worst),
        };
        assert_eq!((booked, client.budget().spending().spent), (expected, expected.cost), "{usage}");
    }
}

/// A server that counts nine times what a call can use, with any number of concurrent calls.
#[test]
fn only_calls_under_way_exceed_a_budget_whose_server_counts_more_than_it_was_sent() {
    let limit = 20_000;
    for is_embedding in [false, true] {
        let usage = match is_embedding {
            false => json!({"prompt_tokens": 9_000, "completion_tokens": 100}),
            true => json!({"prompt_tokens": 9_000}),
        };
        let server = counting(is_embedding, usage);
        let settings = Settings { concurrency: 8, embedding_batch: 1, ..settings(&server) };
        let budget = Budget::new(Limits { tokens: Some(limit), money: None }, Cost::default());
        let client = client(settings).with_budget(budget).unwrap();
        let refused: Vec<LlmError> = thread::scope(|scope| {
            let client = &client;
            let ask = |thread: usize| {
                move || (0..10).filter_map(|number| ask(client, is_embedding, 10 * thread + number)).collect()
            };
            let asking: Vec<_> = (0..8).map(|thread| scope.spawn(ask(thread))).collect();
            asking
                .into_iter()
                .flat_map(|asking: thread::ScopedJoinHandle<'_, Vec<_>>| asking.join().unwrap())
                .collect()
        });
        let overrun =
            |error: &LlmError| matches!(error, LlmError::Budget { problem: BudgetError::Overrun { .. }, .. });
        assert!(
            refused.iter().all(overrun) && refused[0].to_string().contains("the server counted 9"),
            "{refused:?}"
        );
        assert_eq!(refused.len() + server.count(), 80);
        assert!(server.count() <= 8, "only what was under way: {}", server.count());
        assert_eq!(
            client.budget().spending().spent.tokens % 9_000 / 100,
            if is_embedding { 0 } else { server.count() as u64 }
        );
        assert!(client.budget().spending().spent.tokens >= 9_000 * server.count() as u64, "it is booked");
    }
}

#[test]
fn a_server_that_counts_nothing_uses_the_budget_up() {
    for is_embedding in [false, true] {
        let server = counting(is_embedding, json!({"prompt_tokens": 0, "completion_tokens": 0}));
        let budget = Budget::new(Limits { tokens: Some(5_000), money: None }, Cost::default());
        let client = client(settings(&server)).with_budget(budget).unwrap();
        let error = (0..100).find_map(|number| ask(&client, is_embedding, number));
        assert!(
            matches!(error, Some(LlmError::Budget { problem: BudgetError::Exhausted { .. }, .. })),
            "{error:?}"
        );
        let spending = client.budget().spending();
        assert!(spending.spent == spending.unconfirmed && spending.spent.tokens > 4_000, "{spending:?}");
    }
}

#[test]
fn no_body_is_read_without_end() {
    let long = "x".repeat(65 << 20);
    for (status, attempts, expected) in [(400, 1, "status 400: xxx"), (200, 1, "it has more than 64 MiB")] {
        let server = Server::replies([Reply::status(status, &long)]);
        let client = client(Settings { attempts, ..settings(&server) });
        let error = client.chat(&question()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.len() < 1000, "{error}");
    }
}

#[test]
fn a_mark_before_json_is_no_part_of_it() {
    let body = [b"\xef\xbb\xbf", completion("yes", 3, 4).to_string().as_bytes()].concat();
    let server = Server::replies([Reply::Bytes(body)]);
    let client = client(settings(&server));
    assert_eq!(client.chat(&question()).unwrap().text, "yes");
    assert_eq!(client.budget().spending().spent.tokens, 7);
}

#[test]
#[cfg(target_os = "linux")]
fn an_unwritable_cache_or_recording_is_reported_before_anything_is_paid() {
    let error = Cache::open(Path::new("/proc/self")).unwrap_err().to_string();
    assert!(error.contains("/proc/self: the answer cache cannot be written; free some space"), "{error}");
    for place in ["/proc/self/recording.jsonl", "/dev/full", "/dev/null"] {
        let error = Recorder::append(Path::new(place)).unwrap_err().to_string();
        assert!(
            error.contains(place) && error.contains("cannot write a recording; free some space"),
            "{error}"
        );
    }
}

#[test]
#[cfg(unix)]
fn an_answer_that_cannot_be_kept_is_given_out_and_the_last() {
    let server = Server::replies([Reply::ok(completion("yes", 12, 3))]);
    let directory = tempfile::tempdir().unwrap();
    let (cache, recording) = (directory.path().join("cache"), directory.path().join("recording.jsonl"));
    let client = client(settings(&server))
        .with_cache(Cache::open(&cache).unwrap())
        .with_recording(&recording)
        .unwrap();
    // From now on, the cache can be neither read nor written.
    fs::remove_dir_all(&cache).unwrap();
    std::os::unix::fs::symlink(directory.path().join("nowhere"), &cache).unwrap();
    client.check_kept().unwrap();
    assert_eq!(client.chat(&question()).unwrap().text, "yes");
    let error = client.check_kept().unwrap_err().to_string();
    assert!(error.contains("cannot store an answer; free some space"), "{error}");
    assert!(fs::read_to_string(&recording).unwrap().contains("yes"), "the other is written");
    let refused = client.chat(&ChatRequest::new("Another", 10)).unwrap_err();
    assert!(matches!(refused, LlmError::Store { .. }), "{refused}");
    assert_eq!((server.count(), client.budget().spending().spent.tokens), (1, 15));
}
