//! Judging in batches, with a provider on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fixture::{Fixture, answer};
use quarry_annotate::{AnnotateError, JudgeReport};
use quarry_test_support::batches::{Fate, provider};
use quarry_test_support::model_server::{Reply, Seen, Server};
use serde_json::{Value, json};

/// The number of the pair that a question is about, and the correct answer.
fn honest(body: &Value) -> (usize, Value) {
    answer(&Seen { method: String::new(), path: String::new(), headers: String::new(), body: body.clone() })
}

fn no_trouble(_: &Seen, _: usize) -> Option<Reply> {
    None
}

fn fixture(n_pairs: usize, server: &Server) -> Fixture {
    let mut fixture = Fixture::new(n_pairs, &server.url());
    fixture.entries = ["batch = true".into(), "attempts = 3\ntimeout_seconds = 1.0".into(), String::new()];
    fixture
}

fn count(server: &Server, method: &str, path: &str) -> usize {
    server.seen().iter().filter(|seen| seen.method == method && seen.path.ends_with(path)).count()
}

#[test]
fn rounds_of_batches_bring_every_label_for_half_the_price() {
    let (server, books) = provider(|body, _| Fate::Answered(honest(body).1), no_trouble);
    let fixture = fixture(36, &server);
    let judging = fixture.prepare().unwrap();
    let estimate = judging.estimate().unwrap();
    drop(judging);
    let report = JudgeReport::new(fixture.run().unwrap());
    fixture.check_labels(36);
    // The same number of questions as without batches, one batch per agent: 36, 12, 4 and 12.
    let sizes: Vec<usize> = books.lock().unwrap().batches.iter().map(|batch| batch.questions.len()).collect();
    assert_eq!((sizes.iter().sum::<usize>(), sizes[0], sizes[1]), (64, 36, 12));
    assert_eq!((sizes.len() <= 5, count(&server, "POST", "/chat/completions")), (true, 0));
    assert_eq!((report.spent.tokens, report.cost.tokens, report.unconfirmed.tokens), (64 * 110, 64 * 110, 0));
    let half = 64 * (100 * 500_000 + 10 * 1_000_000);
    assert_eq!((report.spent.money.units(), report.cost.money.units()), (half, half));
    assert!(estimate.first.worst.money.units() < 2 * estimate.first.worst.tokens * 1_000_000);
    let asked = server.count();
    fixture.run().unwrap();
    assert_eq!(server.count(), asked, "nothing is asked again");
}

#[test]
fn what_fails_is_in_the_next_batch_and_what_always_fails_is_listed() {
    let (server, books) = provider(
        |body, count| {
            let (number, answer) = honest(body);
            match number % 9 {
                0 if count == 1 => Fate::Failed,
                1 if count == 1 => Fate::Expired,
                2 if count == 1 => Fate::Missing,
                3 => Fate::Twice(answer),
                4 if count == 1 => Fate::Answered(json!({"choices": [], "usage": answer["usage"]})),
                5 if number == 5 => Fate::Failed,
                _ => Fate::Answered(answer),
            }
        },
        no_trouble,
    );
    let fixture = fixture(18, &server);
    let report = JudgeReport::new(fixture.run().unwrap());
    assert_eq!(report.waiting, 1);
    let (ledger, judge) = fixture.ledger();
    let listed = ledger.unresolved(judge, 10).unwrap();
    assert_eq!((listed.len(), listed[0].0.as_str()), (1, "5"));
    assert!(listed[0].1.contains("bad luck") && listed[0].1.contains("batch 3"), "{listed:?}");
    // A duplicate answer counts once, missing ones are booked at the worst case, and failed ones cost nothing.
    let books = books.lock().unwrap();
    let expected: u64 = books
        .asked
        .iter()
        .map(|(body, &count)| {
            let body: Value = serde_json::from_str(body).unwrap();
            let worst = body.to_string().len() as u64 + 512 + body["max_tokens"].as_u64().unwrap();
            match honest(&body).0 {
                5 => 0,
                number if number % 9 == 2 => {
                    assert_eq!(count, 2);
                    worst + 110
                }
                number if number % 9 == 4 => 220,
                _ => 110,
            }
        })
        .sum();
    assert_eq!(report.spent.tokens, expected);
}

#[test]
fn an_answer_that_was_cut_keeps_no_other_back_and_is_asked_for_again() {
    let fate = |body: &Value, count| match honest(body) {
        (3, _) if count == 1 => Fate::Cut,
        (_, answer) => Fate::Answered(answer),
    };
    let (server, books) = provider(fate, no_trouble);
    let fixture = fixture(9, &server);
    let report = JudgeReport::new(fixture.run().unwrap());
    fixture.check_labels(9);
    let asked: Vec<usize> = books.lock().unwrap().asked.values().copied().collect();
    assert_eq!((asked.iter().sum::<usize>(), asked.len()), (17, 16));
    assert!(report.unconfirmed.tokens > 0 && report.spent.tokens == 16 * 110 + report.unconfirmed.tokens);
}

#[test]
fn a_run_that_ended_while_a_batch_was_under_way_goes_on_with_it() {
    // The process ends when it first polls, or while the batch is sent: in that case its id is lost.
    for loses_number in [false, true] {
        let (stop, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (server, books) = provider(|body, _| Fate::Answered(honest(body).1), {
            let (stop, over) = (Arc::clone(&stop), Arc::clone(&over));
            move |seen, _| {
                if over.load(Ordering::SeqCst) {
                    return None;
                }
                let creates = seen.method == "POST" && seen.path.ends_with("/batches");
                if creates && loses_number {
                    stop.store(true, Ordering::SeqCst);
                    return Some(Reply::Hang);
                }
                if seen.method == "GET" {
                    stop.store(true, Ordering::SeqCst);
                    return Some(Reply::ok(json!({"status": "in_progress", "data": [], "has_more": false})));
                }
                None
            }
        });
        let mut fixture = fixture(9, &server);
        // The worst case fits once.
        let judging = fixture.prepare().unwrap();
        let worst = judging.estimate().unwrap().first.worst.tokens;
        drop(judging);
        fixture.entries[2] = format!("[budget]\ntokens = {}", worst + worst / 2);
        let judging = fixture.prepare().unwrap();
        assert!(matches!(judging.run(&stop, &|_| ()), Err(AnnotateError::Stopped)));
        drop(judging);
        over.store(true, Ordering::SeqCst);
        let (ledger, _) = fixture.ledger();
        assert_eq!(ledger.spent().unwrap()[1].tokens, worst, "under way");
        drop(ledger);
        fixture.entries[2].push('0');
        let report = JudgeReport::new(fixture.run().unwrap());
        fixture.check_labels(9);
        assert_eq!((report.spent.tokens, report.unconfirmed.tokens), (110 * report.answers, 0));
        assert!(books.lock().unwrap().asked.values().all(|&count| count == 1), "{loses_number}");
    }
}

#[test]
fn a_batch_that_the_provider_never_got_is_sent_again() {
    let (server, books) = provider(|body, _| Fate::Answered(honest(body).1), no_trouble);
    books.lock().unwrap().losses = 1;
    let fixture = fixture(3, &server);
    let report = JudgeReport::new(fixture.run().unwrap());
    fixture.check_labels(3);
    assert_eq!(report.spent.tokens, 110 * report.answers);
}

#[test]
fn the_budget_of_a_whole_batch_is_set_aside_before_it_is_sent() {
    let (server, books) = provider(|body, _| Fate::Answered(honest(body).1), no_trouble);
    let mut fixture = fixture(36, &server);
    fixture.entries[2] = "[budget]\ntokens = 30000".into();
    let report = JudgeReport::new(match fixture.run() {
        Ok(counts) => counts,
        Err(error) => panic!("{error}"),
    });
    // The worst case of a question is above 2,000 tokens: the first batches are smaller than the round.
    assert!(books.lock().unwrap().batches[0].questions.len() <= 12);
    assert_eq!((report.waiting, report.spent.tokens), (0, 64 * 110));
    let (server, _) = provider(|body, _| Fate::Answered(honest(body).1), no_trouble);
    let mut fixture = self::fixture(36, &server);
    fixture.entries[2] = "[budget]\ntokens = 6000".into();
    let error = fixture.run().unwrap_err().to_string();
    assert!(error.contains("6000 tokens"), "{error}");
    let (ledger, _) = fixture.ledger();
    assert!(ledger.spent().unwrap()[0].tokens <= 6000);
}

#[test]
fn a_batch_that_costs_more_than_was_set_aside_is_the_last() {
    for usage in [
        json!({"prompt_tokens": 14_000, "completion_tokens": 400}),
        json!({"prompt_tokens": 0, "completion_tokens": 0}),
    ] {
        let is_over = usage["prompt_tokens"] != 0;
        let (server, books) = provider(
            move |body, _| {
                let mut answer = honest(body).1;
                answer["usage"] = usage.clone();
                Fate::Answered(answer)
            },
            no_trouble,
        );
        let mut fixture = fixture(36, &server);
        fixture.entries[2] = "[budget]\ntokens = 30000".into();
        let error = fixture.run().unwrap_err().to_string();
        let expected = if is_over { "the server counts" } else { "the budget is too small" };
        assert!(error.contains(expected), "{error}");
        let (ledger, _) = fixture.ledger();
        let [spent, unconfirmed] = ledger.spent().unwrap();
        let books = books.lock().unwrap();
        let questions: usize = books.batches.iter().map(|batch| batch.questions.len()).sum();
        match is_over {
            true => assert_eq!((books.batches.len(), spent.tokens), (1, 14_400 * questions as u64)),
            false => assert!(spent == unconfirmed && spent.tokens <= 30_000, "{spent}"),
        }
    }
}

#[test]
fn a_refused_key_stops_everything_and_a_refused_batch_is_listed() {
    let (server, _) =
        provider(|body, _| Fate::Answered(honest(body).1), |_, _| Some(Reply::status(401, "{}")));
    let error = fixture(9, &server).run().unwrap_err().to_string();
    assert!(error.contains("status 401") && server.count() == 1, "{error}");
    let (server, books) = provider(|body, _| Fate::Answered(honest(body).1), no_trouble);
    books.lock().unwrap().refusal = Some("too many tokens are waiting".to_owned());
    let fixture = fixture(9, &server);
    let report = JudgeReport::new(fixture.run().unwrap());
    assert_eq!((report.waiting, report.spent.tokens, books.lock().unwrap().batches.len()), (9, 0, 3));
    assert!(report.reasons[0].0.contains("too many tokens are waiting"), "{:?}", report.reasons);
}

#[test]
fn a_provider_that_is_down_is_told_of() {
    let server = Server::replies([Reply::status(500, "oops")]);
    let fixture = fixture(3, &server);
    let judging = fixture.prepare().unwrap();
    judging.run(&AtomicBool::new(false), &|_| ()).unwrap();
    let (_, reason) = judging.unjudged().unwrap().unwrap();
    assert!(reason.contains("status 500"), "{reason}");
    drop(judging);
    let (ledger, judge) = fixture.ledger();
    assert_eq!(ledger.unresolved(judge, 10).unwrap().len(), 3);
}
