//! Judging with workers that are connected to a NATS server, here in threads of this process.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::fixture;
use quarry_judge::{
    IsolatedPrograms, JudgeError, JudgeReport, Judging, OpenPrograms, Plan, Programs, Run, TestProgram,
    Worker,
};
use quarry_llm::{ApiKey, HttpTransport};
use quarry_queue::{Connection, SHORTEST_LEASE};
use quarry_sandbox::{Limits, Program, Sandbox};
use quarry_test_support::model_server::{Reply, Seen, Server, completion};
use quarry_test_support::nats::Nats;
use serde_json::{Value, json};

const SECRET: &str = "sk-a-key-that-nobody-may-see";

/// A sandbox in which every program passes.
struct FakeSandbox(Arc<AtomicUsize>);

impl Sandbox for FakeSandbox {
    fn run(&self, _: &Program, _: &Limits) -> Result<quarry_sandbox::Outcome, quarry_sandbox::Error> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(fixture::outcome(0, "fine", "fine", ""))
    }
}

fn fake_programs() -> (OpenPrograms, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    (counted(&runs), runs)
}

fn counted(runs: &Arc<AtomicUsize>) -> OpenPrograms {
    let runs = Arc::clone(runs);
    Box::new(move |packages| {
        // The rules for packages are the plan's; the directory for them is the worker's.
        let packages = packages.unwrap();
        assert_eq!((&packages.pip.deny[..], packages.cache.is_absolute()), (&["evil".to_owned()][..], true));
        let sandbox = Box::new(FakeSandbox(Arc::clone(&runs)));
        Ok(Arc::new(IsolatedPrograms::new(sandbox, "pretended", 4)))
    })
}

/// Pairs 0, 3, … are correct, 1, 4, … are wrong, and the others are correct by their tests.
fn answer(seen: &Seen) -> Value {
    let number = fixture::answer(seen).0;
    let task = seen.body["messages"][0]["content"].as_str().unwrap();
    let text = if task.contains("preliminary_screening") {
        format!("preliminary_screening: {}, explanation: e{number}", ["1", "0", "0.5"][number % 3])
    } else if task.contains("You write tests") {
        format!("```python\nassert subject{number}\n```")
    } else {
        format!("final_verdict: 1, final_explanation: e{number}")
    };
    completion(&text, 100, 10)
}

fn honest() -> Server {
    Server::script(|_, seen| Reply::ok(answer(seen)))
}

struct Fixture {
    directory: tempfile::TempDir,
    plan: String,
}

impl Fixture {
    fn new(n_pairs: usize, server: &Server, more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pair = |number: usize| {
            json!({
                "pair-idx": number, "query-idx": number, "query": format!("question {number}"), "code-idx": number,
                "code": format!("def subject{number}(): pass"), "label": 1,
            })
        };
        let lines: Vec<String> = (0..n_pairs).map(|number| pair(number).to_string()).collect();
        fs::write(directory.path().join("pairs.jsonl"), lines.join("\n")).unwrap();
        let plan = format!(
            "pairs = ['pairs.jsonl']\n[model]\nprovider = 'openai-compatible'\nbase_url = '{}'\nmodel = 'm'\n\
             key_variable = 'QUARRY_TEST_KEY_THAT_ONLY_WORKERS_HAVE'\n{more}\n[packages.pip]\ndeny = ['evil']\n",
            server.url()
        );
        Self { directory, plan }
    }

    fn plan(&self) -> Plan {
        let path = self.directory.path().join("plan.toml");
        fs::write(&path, &self.plan).unwrap();
        Plan::open(&path, None).unwrap()
    }

    fn run(&self, nats: &Nats) -> Result<JudgeReport, JudgeError> {
        let stop = Arc::new(AtomicBool::new(false));
        let connection = Connection::open(&nats.url(), Arc::clone(&stop), Arc::new(|_| ())).unwrap();
        let judging = Judging::prepare_for_workers(self.plan(), Some(&connection))?;
        let result = judging.run(&stop, &|_| ());
        let (ledger, judge) = judging.ledger();
        let report = JudgeReport::new(ledger.counts(judge, &judging.plan().judge).unwrap());
        result.map(|()| report)
    }

    fn labels(&self) -> BTreeMap<String, &'static str> {
        let (ledger, judge) = fixture::ledger(&self.plan());
        let decided = fixture::decided(&ledger, judge).into_iter();
        decided.map(|pair| (pair.pair.id, pair.verdict.outcome.name())).collect()
    }
}

/// Workers in threads, stopped on drop.
struct Working {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<Result<(), String>>>,
}

impl Working {
    fn start(nats: &Nats, server: &Server, programs: impl Fn() -> OpenPrograms, count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..count).map(|_| {
            let key = ApiKey::new("WORKER_KEY", SECRET).unwrap();
            let worker = Worker {
                models: vec![HttpTransport::new(&server.url(), Some(key), 4).unwrap()],
                questions: 4,
                programs: Some(programs()),
                languages: vec!["python"],
                programs_at_once: 2,
                lease: SHORTEST_LEASE,
            };
            let connection = Connection::open(&nats.url(), Arc::clone(&stop), Arc::new(|_| ())).unwrap();
            thread::spawn(move || worker.work(&connection).map(|_| ()).map_err(|error| error.to_string()))
        });
        Self { threads: threads.collect(), stop }
    }

    fn end(mut self) -> Vec<Result<(), String>> {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.drain(..).map(|thread| thread.join().unwrap()).collect()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn expected(n_pairs: usize) -> BTreeMap<String, &'static str> {
    (0..n_pairs).map(|number| (number.to_string(), if number % 3 == 1 { "no" } else { "yes" })).collect()
}

#[test]
fn workers_judge_as_this_process_does() {
    let Some(nats) = Nats::start() else { return };
    let server = honest();
    let fixture = Fixture::new(30, &server, "input_price = 1.0\noutput_price = 2.0");
    let runs = Arc::new(AtomicUsize::new(0));
    let programs = || counted(&runs);
    let working = Working::start(&nats, &server, programs, 3);
    let report = fixture.run(&nats).unwrap();
    assert_eq!(fixture.labels(), expected(30));
    // 30 screenings, 10 programs and 10 verdicts: each once, and with exact token counts.
    assert_eq!((server.count(), runs.load(Ordering::SeqCst)), (50, 10));
    assert_eq!((report.spent.tokens, report.cost.tokens, report.unconfirmed.tokens), (5500, 5500, 0));
    assert_eq!(report.spent.money.units(), 50 * (100 * 1_000_000 + 10 * 2_000_000));
    fixture.run(&nats).unwrap();
    assert_eq!((server.count(), runs.load(Ordering::SeqCst)), (50, 10));
    assert!(working.end().iter().all(Result::is_ok));
}

#[test]
fn messages_contain_no_key() {
    let Some(nats) = Nats::start() else { return };
    // The server repeats the key once in an answer, as some servers do.
    let server = Server::script(|index, seen| match index {
        0 => Reply::status(500, &format!("{{\"error\": {{\"message\": \"bad key {SECRET}\"}}}}")),
        _ => Reply::ok(answer(seen)),
    });
    let heard = nats.connect().listen_to_all();
    let fixture = Fixture::new(6, &server, "");
    let _working = Working::start(&nats, &server, || fake_programs().0, 1);
    fixture.run(&nats).unwrap();
    assert!(server.seen().iter().all(|seen| seen.headers.contains(SECRET)), "it was sent to the model");
    let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
    assert!(heard.contains("subject5") && heard.contains("bad key [WORKER_KEY]"), "{heard}");
    assert!(!heard.contains(SECRET) && !heard.contains("QUARRY_TEST_KEY_THAT_ONLY_WORKERS_HAVE"), "{heard}");
}

#[test]
fn the_budget_holds_when_a_worker_dies_with_a_question() {
    let Some(nats) = Nats::start() else { return };
    let server = honest();
    let fixture = Fixture::new(3, &server, "concurrency = 1\n[budget]\ntokens = 60000");
    // It takes the first question and then disappears.
    let mut lost = nats.connect();
    let report = thread::scope(|scope| {
        let judging = scope.spawn(|| fixture.run(&nats).unwrap());
        lost.send_raw("SUB quarry.task.> 1\r\n");
        let published = lost.wait_for("HMSG quarry.task.ask-");
        lost.take_and_die(published.split('.').nth(2).unwrap(), SHORTEST_LEASE);
        let _working = Working::start(&nats, &server, || fake_programs().0, 1);
        judging.join().unwrap()
    });
    assert_eq!(fixture.labels(), expected(3));
    assert_eq!(server.count(), 5);
    // The possible cost of the lost worker is booked at the worst case.
    assert!(report.spent.tokens > report.cost.tokens && report.spent.tokens <= 60_000, "{report:?}");
    assert_eq!((report.cost.tokens, report.unconfirmed.tokens), (550, report.spent.tokens - 550));
}

#[test]
fn a_program_that_cannot_be_run_fails_its_pair_and_a_broken_sandbox_its_worker() {
    struct Refusing(bool);
    impl Programs for Refusing {
        fn run(&self, _: TestProgram, _: &str, _: &Limits) -> Result<Run, JudgeError> {
            Err(match self.0 {
                true => JudgeError::Unrunnable { problem: "it holds a NUL character".to_owned() },
                false => quarry_sandbox::Error::Setup { detail: "no namespaces".to_owned() }.into(),
            })
        }
    }
    let Some(nats) = Nats::start() else { return };
    let server = honest();
    let fixture = Fixture::new(3, &server, "");
    let working = Working::start(&nats, &server, || Box::new(|_| Ok(Arc::new(Refusing(true)))), 1);
    let report = fixture.run(&nats).unwrap();
    assert_eq!((report.waiting, report.reasons.len()), (1, 1));
    assert!(report.reasons[0].0.contains("NUL"), "{report:?}");
    working.end();
    // The first worker is broken; the one after it does the work.
    let broken = Working::start(&nats, &server, || Box::new(|_| Ok(Arc::new(Refusing(false)))), 1);
    let report = thread::scope(|scope| {
        let judging = scope.spawn(|| fixture.run(&nats).unwrap());
        while !broken.threads[0].is_finished() {
            thread::sleep(Duration::from_millis(20));
        }
        let ended = broken.end().remove(0).unwrap_err();
        assert!(ended.contains("no namespaces") && ended.contains("returned to the queue"), "{ended}");
        let _working = Working::start(&nats, &server, || fake_programs().0, 1);
        judging.join().unwrap()
    });
    assert_eq!((report.waiting, fixture.labels()), (0, expected(3)));
}

#[test]
fn a_worker_that_can_do_nothing_says_so() {
    let Some(nats) = Nats::start() else { return };
    let connection = Connection::open(&nats.url(), Arc::default(), Arc::new(|_| ())).unwrap();
    let worker = Worker {
        models: Vec::new(),
        questions: 1,
        programs: None,
        languages: Vec::new(),
        programs_at_once: 0,
        lease: SHORTEST_LEASE,
    };
    assert!(worker.work(&connection).unwrap_err().to_string().contains("--model"));
}

#[test]
fn questions_can_stay_where_the_plan_runs() {
    let Some(nats) = Nats::start() else { return };
    let server = honest();
    let mut fixture = Fixture::new(3, &server, "[nats]\nurl = 'nats://localhost:1'\nquestions = false");
    fixture.plan = fixture.plan.replace("key_variable = 'QUARRY_TEST_KEY_THAT_ONLY_WORKERS_HAVE'", "");
    let (programs, runs) = fake_programs();
    let stop = Arc::new(AtomicBool::new(false));
    let connection = Connection::open(&nats.url(), Arc::clone(&stop), Arc::new(|_| ())).unwrap();
    let worker = Worker {
        models: Vec::new(),
        questions: 1,
        programs: Some(programs),
        languages: vec!["python"],
        programs_at_once: 1,
        lease: SHORTEST_LEASE,
    };
    thread::scope(|scope| {
        let working = scope.spawn(|| worker.work(&connection).unwrap());
        fixture.run(&nats).unwrap();
        stop.store(true, Ordering::SeqCst);
        let done = working.join().unwrap();
        assert_eq!((done.questions, done.programs), (0, 1));
    });
    assert_eq!((server.count(), runs.load(Ordering::SeqCst), fixture.labels()), (5, 1, expected(3)));
}
