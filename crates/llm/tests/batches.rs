//! Batches of questions against a provider on loopback.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quarry_llm::batch::{BatchAnswer, BatchState, Cancellable, FindOutcome, SendOutcome, SentBatch};
use quarry_llm::{ApiKey, Batches, ChatRequest, Client, Failure, LlmError, Provider, Settings};
use quarry_test_support::batches::{Fate, provider};
use quarry_test_support::model_server::{Reply, Seen, Server, completion};
use serde_json::{Value, json};
use support::SECRET;

const BOTH: [Provider; 2] = [Provider::OpenaiCompatible, Provider::Anthropic];

fn settings(provider: Provider, server: &Server) -> Settings {
    Settings { provider, timeout_seconds: 2.0, ..support::settings(server) }
}

fn batches(provider: Provider, server: &Server) -> Cancellable<'static> {
    let key = ApiKey::new("TEST_KEY", SECRET).unwrap();
    let batches = Batches::with_key(settings(provider, server), Some(key)).unwrap();
    Box::leak(Box::new(batches)).until(&|| false)
}

fn questions(batches: &Client, texts: &[&str]) -> Vec<(String, ChatRequest)> {
    let question = |text: &&str| {
        let request = ChatRequest::new(*text, 100);
        (batches.chat_name(&request), request)
    };
    texts.iter().map(question).collect()
}

/// The question in a body.
fn asks(body: &Value) -> &str {
    body["messages"][0]["content"].as_str().unwrap()
}

/// An answer in the formats of both APIs at once.
fn answer(text: &str) -> Value {
    let mut body = completion(text, 12, 4);
    body["content"] = json!([{"type": "text", "text": text}]);
    body["stop_reason"] = "end_turn".into();
    body
}

fn honest(body: &Value, _: usize) -> Fate {
    Fate::Answered(answer(&format!("{}!", asks(body))))
}

fn no_trouble(_: &Seen, _: usize) -> Option<Reply> {
    None
}

fn brought(batches: &Cancellable<'_>, id: &str) -> Vec<BatchAnswer> {
    let mut all = Vec::new();
    batches.for_each_answer(id, &mut |brought| all.push(brought)).unwrap();
    all
}

#[test]
fn answers_come_for_half_the_price() {
    for api in BOTH {
        let (server, _) = provider(honest, no_trouble);
        let batches = batches(api, &server);
        let questions =
            questions(&Client::with_key(settings(api, &server), None).unwrap(), &["a", "b\n\"c\""]);
        let SendOutcome::Accepted(id) = batches.send("quarry-1", &questions) else { panic!("{api:?}") };
        assert_eq!(batches.state(&id).unwrap(), BatchState::InProgress);
        assert_eq!(batches.state(&id).unwrap(), BatchState::Ended);
        let brought = brought(&batches, &id);
        assert_eq!((brought[0].name.as_str(), brought.len()), (questions[1].0.as_str(), 2));
        let (answer, cost) = batches.read(brought[0].body.as_ref().unwrap());
        let cost = cost.unwrap();
        assert_eq!((answer.unwrap().text.as_str(), cost.tokens), ("b\n\"c\"!", 16));
        // 12 tokens for half a millionth of a dollar, and 4 for five of them.
        assert_eq!(cost.money.units(), 26_000_000);
        let chat = Client::with_key(settings(api, &server), None).unwrap();
        let worst = chat.estimate_chat(&[questions[0].1.clone()]).unwrap().worst;
        let half = batches.worst(&questions[0].1);
        assert_eq!((half.tokens, 2 * half.money.units()), (worst.tokens, worst.money.units()));
        for seen in server.seen() {
            let name = if api == Provider::Anthropic { "x-api-key: " } else { "authorization: bearer " };
            assert!(seen.headers.contains(&format!("{name}{SECRET}")), "{}", seen.path);
            assert!(!seen.body.to_string().contains(SECRET));
        }
    }
}

#[test]
fn what_fails_expires_or_comes_twice_is_told() {
    for api in BOTH {
        let fate = |body: &Value, _| match asks(body) {
            "failed" => Fate::Failed,
            "expired" => Fate::Expired,
            "missing" => Fate::Missing,
            "cut" => Fate::Cut,
            "twice" => Fate::Twice(answer("x")),
            _ => Fate::Answered(json!({"choices": [], "content": []})),
        };
        let (server, _) = provider(fate, no_trouble);
        let batches = batches(api, &server);
        let texts = ["failed", "expired", "missing", "cut", "twice", "empty"];
        let questions = questions(&Client::with_key(settings(api, &server), None).unwrap(), &texts);
        let SendOutcome::Accepted(id) = batches.send("quarry-1", &questions) else { panic!("{api:?}") };
        while batches.state(&id).unwrap() == BatchState::InProgress {}
        let brought = brought(&batches, &id);
        let of = |text: &str| {
            let (name, _) = &questions[texts.iter().position(|other| *other == text).unwrap()];
            brought.iter().filter(|one| one.name == *name).map(|one| one.body.clone()).collect::<Vec<_>>()
        };
        assert!(of("failed")[0].as_ref().unwrap_err().contains("bad luck"), "{:?}", of("failed"));
        assert!(of("expired")[0].as_ref().unwrap_err().contains("expired"));
        assert_eq!((of("missing").len(), of("cut").len(), of("twice").len()), (0, 0, 2));
        let (unreadable, cost) = batches.read(of("empty")[0].as_ref().unwrap());
        assert!(unreadable.is_err() && cost.is_none());
    }
}

#[test]
fn a_batch_whose_number_was_lost_is_found_again() {
    for api in BOTH {
        let posts = AtomicUsize::new(0);
        let cut = move |seen: &Seen, _: usize| {
            let creates = seen.method == "POST" && seen.path.ends_with("batches");
            let is_second = creates && posts.fetch_add(1, Ordering::SeqCst) == 1;
            is_second.then_some(Reply::Hang)
        };
        let (server, books) = provider(honest, cut);
        let batches = batches(api, &server);
        let chat = Client::with_key(settings(api, &server), None).unwrap();
        let (first, second) = (questions(&chat, &["a", "b"]), questions(&chat, &["c", "d"]));
        let SendOutcome::Accepted(other) = batches.send("quarry-1", &first) else { panic!("{api:?}") };
        let SendOutcome::Unknown(_) = batches.send("quarry-2", &second) else { panic!("{api:?}") };
        for name in ["quarry-3", "quarry-4"] {
            let SendOutcome::Accepted(_) = batches.send(name, &questions(&chat, &[name])) else {
                panic!("{api:?}")
            };
        }
        let holds = |name: &str| second.iter().any(|(own, _)| own == name);
        let find = |name: &str, sent: f64, is_other: &dyn Fn(&str) -> bool| {
            batches.find(&SentBatch { name, n_questions: 2, sent, is_other, holds: &holds }).unwrap()
        };
        let known = |id: &str| id == other;
        if api == Provider::Anthropic {
            assert_eq!(
                find("quarry-2", 0.0, &known),
                FindOutcome::Pending,
                "it may be the one that has not ended"
            );
            books.lock().unwrap().patience = 0;
            for id in ["batch_0", "batch_1"] {
                batches.state(id).unwrap();
            }
            assert_eq!(
                find("quarry-2", 0.0, &|_| false),
                FindOutcome::Found("batch_1".to_owned()),
                "by its questions"
            );
        }
        assert_eq!(find("quarry-2", 0.0, &known), FindOutcome::Found("batch_1".to_owned()));
        assert_eq!(find("quarry-9", 0.0, &|_| true), FindOutcome::NotFound);
        assert_eq!(find("quarry-2", 1e11, &known), FindOutcome::NotFound, "none is so young");
        assert_eq!(books.lock().unwrap().batches.len(), 4);
    }
}

#[test]
fn a_batch_that_was_not_taken_is_sent_again_and_others_are_not() {
    for api in BOTH {
        let first = AtomicUsize::new(0);
        let server = Server::script(move |_, seen| {
            match (seen.path.ends_with("batches"), first.fetch_add(1, Ordering::SeqCst)) {
                (true, 0..=1) => Reply::status(429, "{}"),
                _ => Reply::ok(json!({"id": "batch_7"})),
            }
        });
        let chat = Client::with_key(settings(api, &server), None).unwrap();
        let sent = batches(api, &server).send("quarry-1", &questions(&chat, &["a"]));
        assert!(matches!(sent, SendOutcome::Accepted(id) if id == "batch_7"));
        for (reply, perhaps) in [
            (Reply::status(401, "{}"), false),
            (Reply::status(400, "{}"), false),
            (Reply::status(500, ""), true),
            (Reply::ok(json!({"id": "../files"})), true),
        ] {
            let server = Server::script(move |_, seen| match seen.path.ends_with("batches") {
                true => reply.clone(),
                false => Reply::ok(json!({"id": "file-1"})),
            });
            let sent = batches(api, &server).send("quarry-1", &questions(&chat, &["a"]));
            assert_eq!(matches!(sent, SendOutcome::Unknown(_)), perhaps, "{sent:?}");
            assert_eq!(server.seen().iter().filter(|seen| seen.path.ends_with("batches")).count(), 1);
        }
    }
}

#[test]
fn a_refused_batch_says_why_and_a_key_stays_here() {
    let (server, books) = provider(honest, no_trouble);
    let batches = batches(Provider::Openai, &server);
    let chat = Client::with_key(settings(Provider::Openai, &server), None).unwrap();
    let SendOutcome::Accepted(id) = batches.send("quarry-1", &questions(&chat, &["a"])) else { panic!() };
    books.lock().unwrap().refusal = Some("too many tokens are waiting".to_owned());
    assert_eq!(batches.state(&id).unwrap(), BatchState::Refused("too many tokens are waiting".to_owned()));
    let before = server.count();
    let SendOutcome::NotSent(failure) = batches.send("quarry-2", &questions(&chat, &[SECRET])) else {
        panic!()
    };
    assert!(failure.to_string().contains("TEST_KEY") && server.count() == before, "{failure}");
}

/// A server with an ended batch, whose file of answers is `file`.
fn ended(file: &'static str) -> Server {
    Server::script(move |_, seen| match seen.path.rsplit('/').next().unwrap() {
        "content" | "results" => Reply::Status(200, String::new(), file.to_owned()),
        _ => Reply::ok(json!({"id": "batch_1", "status": "completed", "output_file_id": "f"})),
    })
}

#[test]
fn lines_that_cannot_be_read_are_left_out_and_told_of() {
    let file = concat!(
        "\u{feff}{\"custom_id\": \"a\", \"response\": {\"status_code\": 200, \"body\": 1}}\n\n",
        "{\"custom_id\": \"x\", \"resp\n",
        "{\"response\": null, \"error\": {\"message\": \"x\"}}\n",
        "null\n",
        "{\"custom_id\": \"b\", \"response\": null}",
    );
    for api in BOTH {
        let server = ended(file);
        let mut names = Vec::new();
        let unread =
            batches(api, &server).for_each_answer("batch_1", &mut |brought| names.push(brought.name));
        let (count, first) = unread.unwrap().unwrap();
        assert_eq!((names.as_slice(), count), (&["a".to_owned(), "b".to_owned()][..], 3), "{first}");
        assert!(first.starts_with("line 3 of ") && first.contains("expected JSON, and EOF"), "{first}");
        assert!(!first.contains("address"), "{first}");
    }
}

#[test]
fn a_page_in_the_place_of_answers_is_no_answer() {
    for api in BOTH {
        let server = ended("<html>\nback soon\n</html>");
        let error =
            batches(api, &server).for_each_answer("batch_1", &mut |_| panic!()).unwrap_err().to_string();
        assert!(error.contains("back soon") && error.contains("lines of JSON objects"), "{error}");
        let server = ended("\n");
        assert_eq!(batches(api, &server).for_each_answer("batch_1", &mut |_| panic!()).unwrap(), None);
    }
}

#[test]
fn a_count_that_cannot_be_is_none() {
    let server = ended("");
    let batches = batches(Provider::Openai, &server);
    let read = |input: u64| batches.read(&completion("yes", input, 10).to_string());
    let worst = batches.worst(&ChatRequest::new("a", 100)).tokens;
    assert_eq!(read(worst).1.unwrap().tokens, worst + 10, "what exceeds the worst case may be billed");
    for absurd in [0, u64::MAX] {
        let (answer, cost) = read(absurd);
        assert_eq!((answer.unwrap().usage, cost), (None, None));
    }
}

#[test]
fn a_wait_ends_when_nobody_wants_the_answer() {
    let server = Server::replies([Reply::Status(429, "retry-after: 100\r\n".to_owned(), String::new())]);
    let batches = batches(Provider::Openai, &server);
    let begin = Instant::now();
    let error = batches.until(&|| server.count() > 0).state("batch_1").unwrap_err();
    assert!(matches!(error, LlmError::Failed { failure: Failure::Withdrawn, .. }), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(30));
}
