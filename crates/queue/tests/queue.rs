//! Tasks, with workers and a server that stop and restart.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use quarry_queue::{
    Connection, Dispatcher, Group, Notice, Outcome, QueueError, Reply, SHORTEST_LEASE, Task, Work, serve,
};
use quarry_test_support::nats::Nats;

const PROTOCOL: &str = "test-1";

fn silent() -> Notice {
    Arc::new(|_| ())
}

fn connect(nats: &Nats) -> (Connection, Arc<AtomicBool>) {
    let stop = Arc::new(AtomicBool::new(false));
    (Connection::open(&nats.url(), Arc::clone(&stop), silent()).unwrap(), stop)
}

/// A dispatcher of the queue `q`, with a connection of its own.
fn dispatcher(nats: &Nats) -> Dispatcher {
    Dispatcher::new(&connect(nats).0, "q", PROTOCOL).unwrap()
}

/// Waits until a condition holds.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn task(name: usize) -> Task {
    Task {
        kind: "count".to_owned(),
        name: format!("n{name}"),
        payload: name.to_string().into_bytes(),
        about: format!("number {name}"),
    }
}

fn groups(threads: usize) -> Vec<Group> {
    vec![Group { kinds: vec!["count".to_owned(), "other".to_owned()], threads }]
}

fn done(text: &str) -> Reply {
    Reply::Done(text.as_bytes().to_vec())
}

/// A worker in this process, which is stopped when this is dropped.
struct Serving {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Result<(), QueueError>>>,
}

impl Serving {
    fn start(
        nats: &Nats,
        protocol: &'static str,
        work: impl Fn(&[u8]) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        let (connection, stop) = connect(nats);
        let thread = thread::spawn(move || {
            let work: Work<'_> = &|_, payload| work(payload);
            serve(&connection, protocol, SHORTEST_LEASE, &groups(2), work)
        });
        Self { stop, thread: Some(thread) }
    }

    fn end(mut self) -> Result<(), QueueError> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A worker that echoes its input, and the number of tasks it did.
fn echo(nats: &Nats) -> (Serving, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let worker = Serving::start(nats, PROTOCOL, move |payload| {
        counted.fetch_add(1, Ordering::SeqCst);
        Outcome::Done(payload.to_vec())
    });
    (worker, count)
}

fn submit_all(dispatcher: &Dispatcher, numbers: std::ops::Range<usize>) {
    let next = Mutex::new(numbers);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let Some(number) = next.lock().unwrap().next() else { return };
                    let task = task(number);
                    assert_eq!(dispatcher.submit(&task, 3).unwrap(), done(&number.to_string()));
                    dispatcher.settle(&task.name);
                }
            });
        }
    });
}

/// Numbers of messages in the two streams.
fn stored(nats: &Nats) -> [u64; 2] {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let context = async_nats::jetstream::new(async_nats::connect(nats.url()).await.unwrap());
        let mut counts = [0; 2];
        for (count, name) in counts.iter_mut().zip(["QUARRY_TASKS", "QUARRY_REPLIES"]) {
            *count = context.get_stream(name).await.unwrap().cached_info().state.messages;
        }
        counts
    })
}

#[test]
fn tasks_are_done_once_by_any_worker() {
    let Some(nats) = Nats::start() else { return };
    let workers = [echo(&nats), echo(&nats), echo(&nats)];
    let dispatcher = dispatcher(&nats);
    submit_all(&dispatcher, 0..60);
    let counts: Vec<usize> = workers.iter().map(|(_, count)| count.load(Ordering::SeqCst)).collect();
    assert_eq!(counts.iter().sum::<usize>(), 60, "{counts:?}");
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    dispatcher.clear().unwrap();
    assert_eq!(stored(&nats), [0, 0]);
}

#[test]
fn a_reply_is_kept_until_it_is_settled_and_belongs_to_its_queue() {
    let Some(nats) = Nats::start() else { return };
    let (_worker, count) = echo(&nats);
    let ask = |queue: &str, settle: bool| {
        let (connection, _) = connect(&nats);
        let dispatcher = Dispatcher::new(&connection, queue, PROTOCOL).unwrap();
        assert_eq!(dispatcher.submit(&task(1), 1).unwrap(), done("1"));
        if settle {
            dispatcher.settle("n1");
        }
        thread::sleep(Duration::from_millis(200));
        count.load(Ordering::SeqCst)
    };
    assert_eq!(ask("q", false), 1);
    assert_eq!(ask("q", true), 1, "it was found");
    assert_eq!(ask("q", false), 2, "it was removed");
    assert_eq!(ask("other", false), 3, "it is another's");
}

#[test]
fn a_reply_that_was_of_no_use_is_asked_for_again() {
    let Some(nats) = Nats::start() else { return };
    let (_worker, count) = echo(&nats);
    let dispatcher = dispatcher(&nats);
    for times in 1..=3 {
        assert_eq!(dispatcher.submit(&task(1), 1).unwrap(), done("1"));
        assert_eq!(count.load(Ordering::SeqCst), times);
    }
}

#[test]
fn a_worker_that_dies_is_reported_or_replaced_when_its_lease_is_over() {
    let Some(nats) = Nats::start() else { return };
    let dispatcher = dispatcher(&nats);
    for (losses, number) in [(1, 1), (2, 2)] {
        let begin = Instant::now();
        let reply = thread::scope(|scope| {
            let asking = scope.spawn(|| dispatcher.submit(&task(number), losses).unwrap());
            nats.connect().take_and_die("count", SHORTEST_LEASE);
            let (worker, count) = echo(&nats);
            let reply = asking.join().unwrap();
            worker.end().unwrap();
            assert_eq!(count.load(Ordering::SeqCst), losses as usize - 1);
            reply
        });
        assert!(begin.elapsed() >= SHORTEST_LEASE);
        match losses {
            1 => assert!(matches!(&reply, Reply::Lost(why) if why.contains("worker was lost")), "{reply:?}"),
            _ => assert_eq!(reply, done("2")),
        }
    }
}

#[test]
fn a_lease_lasts_as_long_as_its_worker_is_alive() {
    let Some(nats) = Nats::start() else { return };
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let _slow = Serving::start(&nats, PROTOCOL, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        thread::sleep(SHORTEST_LEASE * 2);
        Outcome::Done(b"slow".to_vec())
    });
    let (_other, others) = echo(&nats);
    let dispatcher = dispatcher(&nats);
    let reply = dispatcher.submit(&task(1), 1).unwrap();
    let [slow, others] = [count, others].map(|count| count.load(Ordering::SeqCst));
    assert_eq!((slow + others, reply == done("slow")), (1, slow == 1));
}

#[test]
fn outcomes_reach_their_callers() {
    let Some(nats) = Nats::start() else { return };
    let _worker = Serving::start(&nats, PROTOCOL, |payload| match payload {
        b"1" => Outcome::Failed(b"no".to_vec()),
        b"2" => Outcome::Refused("never".to_owned()),
        _ => Outcome::Done(vec![0; 2 << 20]),
    });
    let dispatcher = dispatcher(&nats);
    for _ in 0..2 {
        assert_eq!(dispatcher.submit(&task(1), 1).unwrap(), Reply::Failed(b"no".to_vec()));
    }
    assert_eq!(dispatcher.submit(&task(2), 1).unwrap(), Reply::Lost("never".to_owned()));
    let large = dispatcher.submit(&task(3), 1).unwrap();
    assert!(matches!(&large, Reply::Lost(why) if why.contains("max_payload")), "{large:?}");
    let error = dispatcher.submit(&Task { payload: vec![0; 2 << 20], ..task(4) }, 1).unwrap_err();
    assert!(matches!(&error, QueueError::TooLarge { limit: 1_048_576, .. }), "{error}");
    let error = dispatcher.submit(&Task { name: "a.b".to_owned(), ..task(5) }, 1).unwrap_err();
    assert!(matches!(error, QueueError::Name { .. }));
}

#[test]
fn a_worker_of_another_version_returns_tasks_and_stays() {
    let Some(nats) = Nats::start() else { return };
    let heard = Arc::new(Mutex::new(String::new()));
    let written = Arc::clone(&heard);
    let notice = Arc::new(move |text: &str| *written.lock().unwrap() += text);
    let connection = Connection::open(&nats.url(), Arc::default(), notice).unwrap();
    let dispatcher = Dispatcher::new(&connection, "q", PROTOCOL).unwrap();
    let old = Serving::start(&nats, "test-0", |_| Outcome::Done(b"wrong".to_vec()));
    thread::scope(|scope| {
        let asking = scope.spawn(|| dispatcher.submit(&task(1), 1).unwrap());
        eventually("nobody says so", || heard.lock().unwrap().contains("use the same version of quarry"));
        let (_worker, _) = echo(&nats);
        assert_eq!(asking.join().unwrap(), done("1"));
    });
    old.end().unwrap();
}

#[test]
fn a_message_that_is_no_task_is_set_aside() {
    let Some(nats) = Nats::start() else { return };
    let dispatcher = dispatcher(&nats);
    let (worker, count) = echo(&nats);
    let mut bare = nats.connect();
    bare.send_raw("SUB stored 1\r\n");
    for number in 0..6 {
        bare.publish(&format!("quarry.task.count.q.evil{number}"), "stored", "anything");
        bare.wait_for("MSG stored");
    }
    assert_eq!(dispatcher.submit(&task(1), 1).unwrap(), done("1"));
    eventually("they are still there", || stored(&nats)[0] == 0);
    worker.end().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn an_unable_worker_returns_its_task_and_ends() {
    let Some(nats) = Nats::start() else { return };
    let dispatcher = dispatcher(&nats);
    let broken = Serving::start(&nats, PROTOCOL, |_| Outcome::Unable("no sandbox".to_owned()));
    thread::scope(|scope| {
        let asking = scope.spawn(|| dispatcher.submit(&task(1), 1).unwrap());
        while !broken.thread.as_ref().unwrap().is_finished() {
            thread::sleep(Duration::from_millis(20));
        }
        let error = broken.end().unwrap_err().to_string();
        assert!(error.contains("no sandbox"), "{error}");
        let (_worker, _) = echo(&nats);
        assert_eq!(asking.join().unwrap(), done("1"));
    });
}

#[test]
fn unstarted_tasks_are_withdrawn_and_running_tasks_are_finished() {
    let Some(nats) = Nats::start() else { return };
    let (connection, stop) = connect(&nats);
    let dispatcher = Dispatcher::new(&connection, "q", PROTOCOL).unwrap();
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let worker = Serving::start(&nats, PROTOCOL, move |payload| {
        counted.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_secs(1));
        Outcome::Done(payload.to_vec())
    });
    let replies: Vec<_> = thread::scope(|scope| {
        let asking: Vec<_> = (0..6)
            .map(|number| {
                scope.spawn({
                    let dispatcher = &dispatcher;
                    move || dispatcher.submit(&task(number), 1)
                })
            })
            .collect();
        while begun.load(Ordering::SeqCst) < 2 {
            thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::SeqCst);
        asking.into_iter().map(|asking| asking.join().unwrap()).collect()
    });
    let n_done = replies.iter().filter(|reply| reply.is_ok()).count();
    assert!(
        replies.iter().all(|reply| matches!(reply, Ok(Reply::Done(_)) | Err(QueueError::Stopped))),
        "{replies:?}"
    );
    worker.end().unwrap();
    assert_eq!((n_done, stored(&nats)[0]), (begun.load(Ordering::SeqCst), 0), "{replies:?}");
}

#[test]
fn abandoned_tasks_are_not_done() {
    let Some(nats) = Nats::start() else { return };
    let dispatcher = dispatcher(&nats);
    let headers = format!("NATS/1.0\r\nQuarry-Protocol: {PROTOCOL}\r\n\r\n");
    let mut bare = nats.connect();
    bare.send_raw(&format!(
        "SUB stored 1\r\nHPUB quarry.task.count.q.stray stored {} {}\r\n{headers}9\r\n",
        headers.len(),
        headers.len() + 1
    ));
    bare.wait_for("MSG stored");
    let (_worker, count) = echo(&nats);
    assert_eq!(dispatcher.submit(&task(1), 1).unwrap(), done("1"));
    assert_eq!(count.load(Ordering::SeqCst), 1, "the stray task was there before");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(stored(&nats)[0], 0);
}

#[test]
fn a_restarted_server_loses_nothing() {
    let Some(mut nats) = Nats::start() else { return };
    let workers = [echo(&nats), echo(&nats)];
    let dispatcher = dispatcher(&nats);
    thread::scope(|scope| {
        scope.spawn(|| submit_all(&dispatcher, 0..400));
        while workers.iter().map(|(_, count)| count.load(Ordering::SeqCst)).sum::<usize>() < 100 {
            thread::sleep(Duration::from_millis(1));
        }
        nats.restart(Duration::from_millis(300));
    });
    dispatcher.clear().unwrap();
    assert_eq!(stored(&nats), [0, 0]);
}

/// A server of version 2.9 that was killed after it had overwritten a message reported a newly stored message with
/// the same subject as missing.
#[test]
fn a_reply_is_found_whose_predecessor_was_removed_before_the_server_was_killed() {
    let Some(mut nats) = Nats::start() else { return };
    let (worker, _) = echo(&nats);
    let dispatcher = Arc::new(dispatcher(&nats));
    let ask = {
        let dispatcher = Arc::clone(&dispatcher);
        move |number: usize| {
            assert_eq!(dispatcher.submit(&task(number), 1).unwrap(), done(&number.to_string()));
        }
    };
    (1..=3).for_each(&ask);
    nats.restart(Duration::ZERO);
    ask(4);
    dispatcher.settle("n2");
    eventually("the reply is still there", || stored(&nats)[1] <= 3);
    nats.restart(Duration::ZERO);
    let (ended, ending) = mpsc::channel();
    thread::spawn(move || {
        [1, 2, 3, 4].into_iter().for_each(ask);
        ended.send(()).unwrap();
    });
    ending.recv_timeout(Duration::from_secs(60)).expect("a reply is not found");
    worker.end().unwrap();
}

#[test]
fn processes_that_connect_at_once_make_the_streams_together() {
    for _ in 0..30 {
        let Some(nats) = Nats::start() else { return };
        let start = Barrier::new(16);
        let open = || {
            start.wait();
            connect(&nats)
        };
        thread::scope(|scope| (0..16).for_each(|_| drop(scope.spawn(open))));
    }
}

#[test]
fn a_stream_of_another_program_with_the_same_subjects_is_named() {
    let Some(nats) = Nats::start() else { return };
    let foreign = r#"{"name": "FOREIGN", "subjects": ["quarry.>"]}"#;
    let mut bare = nats.connect();
    bare.send_raw("SUB made 1\r\n");
    bare.publish("$JS.API.STREAM.CREATE.FOREIGN", "made", foreign);
    bare.wait_for("MSG made");
    let stop = Arc::new(AtomicBool::new(false));
    let error = Connection::open(&nats.url(), stop, silent()).unwrap_err().to_string();
    assert!(error.contains("cannot be created") && error.contains("overlap"), "{error}");
}

#[test]
fn a_server_that_cannot_serve_is_named_with_the_remedy() {
    let stop = || Arc::new(AtomicBool::new(false));
    let error = Connection::open("not an address", stop(), silent()).unwrap_err().to_string();
    assert!(error.contains("nats://localhost:4222"), "{error}");
    let Some(nats) = Nats::start_with(&["--jetstream", "--user", "me", "--pass", "secret"]) else { return };
    let wrong = format!("nats://me:hunter2@127.0.0.1:{}", nats.port);
    let error = Connection::open(&wrong, stop(), silent()).unwrap_err().to_string();
    assert!(error.contains("refuses") && !error.contains("hunter2"), "{error}");
    Connection::open(&wrong.replace("hunter2", "secret"), stop(), silent()).unwrap();
    // The worker waits for a missing server, and notifies the user.
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (hearing, ended) = (Arc::clone(&heard), stop());
    let end = Arc::clone(&ended);
    let notice: Notice = Arc::new(move |text| {
        hearing.lock().unwrap().push(text.to_owned());
        end.store(true, Ordering::SeqCst);
    });
    let error = Connection::open("nats://me:hunter2@127.0.0.1:9", ended, notice).unwrap_err();
    assert_eq!(error, QueueError::Stopped);
    let heard = heard.lock().unwrap().join("\n");
    assert!(heard.contains("nats://127.0.0.1:9: cannot connect") && !heard.contains("hunter2"), "{heard}");
}
