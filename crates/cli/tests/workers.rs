//! `quarry worker` as a user runs it: processes that are killed, a server that restarts, and what cannot work.

use std::collections::HashMap;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::cosqa::{self, labels, write_plan};
use crate::fixture::{Fixture, Running, check_error, stderr};
use quarry_test_support::model_server::Server;
use quarry_test_support::nats::Nats;
use serde_json::json;

const KEY: &str = "sk-of-a-worker-0123456789";

/// Questions of one worker at the same time.
const QUESTIONS: usize = 3;

fn start(fixture: &Fixture, arguments: &str) -> Running {
    Running::silent(fixture.command(arguments).env("WORKER_KEY", KEY))
}

fn worker(fixture: &Fixture, nats: &Nats, server: &Server) -> Running {
    let (nats, model) = (nats.url(), server.url());
    let what = format!("--nats {nats} --model {model}=WORKER_KEY --questions {QUESTIONS}");
    start(fixture, &format!("worker {what} --programs 0 --lease 3"))
}

/// Three workers of which each is killed, a server that is killed, and a run that is killed: the labels are those of an
/// undisturbed run in one process, and only what was under way at a worker that died is asked again.
#[test]
fn kills_of_workers_server_and_run_lose_nothing() {
    const PAIRS: usize = 80;
    let Some(mut nats) = Nats::start() else { return };
    let server = Server::script(|_, seen| cosqa::model(seen, Duration::from_millis(30)));
    let undisturbed = Fixture::new();
    write_plan(&undisturbed, PAIRS, &server.url(), "");
    undisturbed.succeed("judge run plan.toml");
    let before = server.count();
    assert_eq!(before, 2 * PAIRS);

    let killed = Fixture::new();
    write_plan(&killed, PAIRS, &server.url(), "");
    let mut workers: Vec<Running> = (0..3).map(|_| worker(&killed, &nats, &server)).collect();
    let url = nats.url();
    let judge = || start(&killed, &format!("judge run plan.toml --nats {url}"));
    let mut judging = judge();
    let wait_for = |count: usize, judging: &mut Running| {
        let end = Instant::now() + Duration::from_secs(60);
        while server.count() < before + count && judging.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "{} of {count} questions were asked", server.count() - before);
            thread::sleep(Duration::from_millis(2));
        }
    };
    for (number, running) in workers.iter_mut().enumerate() {
        wait_for(20 + 25 * number, &mut judging);
        running.end();
        *running = worker(&killed, &nats, &server);
        match number {
            0 => nats.restart(Duration::from_millis(200)),
            1 => {
                judging.end();
                judging = judge();
            }
            _ => {}
        }
    }
    let status = judging.0.wait().unwrap();
    assert!(status.success(), "{status}");
    // A worker that is stopped has nothing to finish now, and ends well.
    for worker in &mut workers {
        let killed = Command::new("kill").arg(worker.0.id().to_string()).status().unwrap();
        assert!(killed.success() && worker.0.wait().unwrap().success());
    }
    assert_eq!(labels(&killed), labels(&undisturbed));
    let mut asked: HashMap<String, usize> = HashMap::new();
    for seen in &server.seen()[before..] {
        assert!(seen.headers.contains(KEY));
        *asked.entry(seen.body.to_string()).or_default() += 1;
    }
    let repeated: usize = asked.values().map(|times| times - 1).sum();
    assert!(asked.len() == 2 * PAIRS, "{} questions, {repeated} repeated", asked.len());
    assert!(repeated <= 3 * QUESTIONS, "{} questions, {repeated} repeated", asked.len());
    let status = killed.json("judge status plan.toml --json");
    assert_eq!((&status["waiting"], &status["answers"]), (&json!(0), &json!(2 * PAIRS)));
}

#[test]
fn a_worker_that_cannot_work_says_why() {
    let fixture = Fixture::new();
    let worker =
        |model: &str| fixture.run(&format!("worker --nats nats://localhost:1 --programs 0 --model {model}"));
    let unknown = "QUARRY_TEST_NO_SUCH_KEY";
    check_error(&worker(&format!("http://localhost:1/v1={unknown}")), unknown);
    check_error(&worker("http://localhost:1/v1="), "environment variable");
    for key in ["sk-live-0123456789abcdef", "hf_0123456789abcdefABCDEF"] {
        let refused = worker(&format!("http://localhost:1/v1={key}"));
        check_error(&refused, "environment variable");
        assert!(!stderr(&refused).contains(key), "{}", stderr(&refused));
    }
    check_error(&worker("localhost:1"), "http://");
    fixture.check_error("worker --nats http://localhost --programs 0", "nats://localhost:4222");
    let Some(nats) = Nats::start() else { return };
    fixture.check_error(&["worker", "--nats", &nats.url(), "--programs", "0"], "--model");
}

/// A rehearsal asks nobody, so that it needs no server.
#[test]
fn a_dry_run_does_not_wait_for_workers() {
    let fixture = Fixture::new();
    write_plan(&fixture, 4, "http://127.0.0.1:1/v1", "");
    let run = fixture.succeed("judge run plan.toml --nats nats://127.0.0.1:1 --dry-run");
    assert!(stderr(&run).contains("4 pairs to judge\n  next    4 calls for at most"), "{}", stderr(&run));
}
