//! The side that does tasks: takes them, renews their leases meanwhile, and stores the replies.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_nats::jetstream::AckKind;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::task::JoinHandle;

use crate::connection::{ActionError, Connection};
use crate::error::QueueError;
use crate::message::{self, Refused, kind, publish, signal, stored_reply};
use crate::{lock, subject};

/// Maximum time that the server waits for a task before a worker asks again.
const TASK_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which a worker renews its lease; leases are a multiple of it.
const HEARTBEAT: Duration = Duration::from_secs(1);

pub const SHORTEST_LEASE: Duration = Duration::from_secs(3);

/// Maximum time that the dispatcher of a task may be unreachable before a worker does the task anyway.
const DISPATCHER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for which a stopping worker tries to store its last replies.
const GRACE: Duration = Duration::from_secs(30);

/// Maximum number of tasks of a kind in progress on all workers together.
const MAX_IN_PROGRESS: i64 = 100_000;

/// Kinds of tasks that share a pool of threads.
#[derive(Clone, Debug)]
pub struct Group {
    pub kinds: Vec<String>,
    /// Maximum number of concurrent tasks.
    pub threads: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reply, to be stored until the dispatcher has saved it.
    Done(Vec<u8>),
    /// It failed; the result is sent to the dispatcher, and not stored.
    Failed(Vec<u8>),
    /// No worker can do it, for this reason.
    Refused(String),
    /// This worker can do neither it nor other tasks, for this reason: it gives the task back and ends.
    Unable(String),
}

/// Does a task: takes its kind and payload, returns the outcome.
pub type Work<'a> = &'a (dyn Fn(&str, &[u8]) -> Outcome + Sync);

/// Does tasks until the user stops; tasks in progress are finished. If this process dies, other workers get its tasks
/// after `lease`. A task that a worker died with is not done again; the dispatcher is notified. A task with another
/// protocol version is given back, and a message that is not a task is dropped.
///
/// # Errors
/// When the worker cannot continue; its tasks are given back.
pub fn serve(
    connection: &Connection,
    protocol: &str,
    lease: Duration,
    groups: &[Group],
    work: Work<'_>,
) -> Result<(), QueueError> {
    for kind in groups.iter().flat_map(|group| &group.kinds) {
        subject::check(kind)?;
    }
    let worker =
        Worker { connection, protocol, lease: lease.max(SHORTEST_LEASE), work, ended: Mutex::default() };
    thread::scope(|scope| {
        let worker = &worker;
        for group in groups {
            let (sender, receiver) = mpsc::sync_channel(0);
            let (receiver, free) = (Arc::new(Mutex::new(receiver)), Arc::new(IdleThreads::default()));
            for _ in 0..group.threads {
                let (receiver, free) = (Arc::clone(&receiver), Arc::clone(&free));
                scope.spawn(move || worker.work(&receiver, &free));
            }
            for kind in &group.kinds {
                let (sender, free) = (sender.clone(), Arc::clone(&free));
                scope.spawn(move || worker.take(kind, &sender, &free));
            }
        }
    });
    connection.runtime().block_on(async {
        let _ = tokio::time::timeout(GRACE, connection.client().flush()).await;
    });
    let ended = worker.ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.map_or(Ok(()), Err)
}

struct Worker<'a> {
    connection: &'a Connection,
    protocol: &'a str,
    lease: Duration,
    work: Work<'a>,
    ended: Mutex<Option<QueueError>>,
}

/// A task with a lease, which is renewed until this is dropped.
struct Leased {
    message: Message,
    heartbeat: JoinHandle<()>,
}

impl Drop for Leased {
    fn drop(&mut self) {
        self.heartbeat.abort();
    }
}

impl Worker<'_> {
    fn is_over(&self) -> bool {
        self.connection.is_stopped() || lock(&self.ended).is_some()
    }

    fn end(&self, error: QueueError) {
        lock(&self.ended).get_or_insert(error);
    }

    /// Takes as many tasks of a kind as there are idle threads.
    fn take(&self, kind: &str, sender: &SyncSender<Leased>, free: &IdleThreads) {
        let runtime = self.connection.runtime();
        let mut consumer = None;
        while !self.is_over() {
            if !free.is_there() {
                continue;
            }
            let next = runtime.block_on(async {
                let consumer = match &mut consumer {
                    Some(consumer) => consumer,
                    none => none.insert(self.consumer(kind).await?),
                };
                Ok(self.next(consumer).await)
            });
            match next {
                Ok(Ok(Some(leased))) => {
                    if sender.send(leased).is_err() {
                        return;
                    }
                }
                Ok(Ok(None)) => {}
                // The server restarts, or its streams were removed.
                Ok(Err(problem)) => {
                    tracing::debug!(kind, problem, "no task");
                    consumer = None;
                    runtime.block_on(self.connection.pause(Duration::from_millis(200)));
                }
                Err(QueueError::Stopped) => return,
                Err(error) => return self.end(error),
            }
        }
    }

    async fn consumer(&self, kind: &str) -> Result<PullConsumer, QueueError> {
        let config = pull::Config {
            durable_name: Some(kind.to_owned()),
            filter_subject: subject::tasks_of_kind(kind),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.lease,
            max_ack_pending: MAX_IN_PROGRESS,
            ..pull::Config::default()
        };
        let retry = self.connection.retry(Duration::ZERO);
        retry
            .until_done("take work", async || {
                match self.connection.tasks().create_consumer(config.clone()).await {
                    Ok(consumer) => Ok(consumer),
                    Err(error) => Err(self.connection.restored(&error.to_string()).await),
                }
            })
            .await
    }

    /// The next task, if there is one soon.
    async fn next(&self, consumer: &PullConsumer) -> Result<Option<Leased>, String> {
        let batch = consumer.batch().max_messages(1).expires(TASK_POLL_INTERVAL).messages().await;
        let mut batch = batch.map_err(|error| error.to_string())?;
        let Some(message) = batch.next().await else { return Ok(None) };
        let message = message.map_err(|error| error.to_string())?;
        let alive = message.clone();
        let heartbeat = tokio::spawn(async move {
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                if let Err(error) = alive.ack_with(AckKind::Progress).await {
                    tracing::debug!(%error, "a heartbeat was lost");
                }
            }
        });
        Ok(Some(Leased { message, heartbeat }))
    }

    fn work(&self, receiver: &Mutex<Receiver<Leased>>, free: &IdleThreads) {
        loop {
            free.add(1);
            let next = lock(receiver).recv();
            free.add(-1);
            let Ok(leased) = next else { return };
            if let Err(error) = self.handle(&leased.message) {
                self.end(error);
            }
        }
    }

    fn handle(&self, delivery: &Message) -> Result<(), QueueError> {
        let runtime = self.connection.runtime();
        let Some((kind, queue, name)) = subject::parse_task(&delivery.subject) else {
            return Ok(());
        };
        let task = Task { delivery, queue, name };
        let protocol = delivery.headers.as_ref().and_then(|headers| headers.get(message::PROTOCOL));
        let Some(protocol) = protocol else {
            self.connection
                .warn_once(&format!("{}: set aside a message that is not a task", delivery.subject));
            runtime.block_on(self.acknowledge(&task));
            return Ok(());
        };
        if protocol.as_str() != self.protocol {
            let problem = format!(
                "work is waiting in protocol {protocol}, but this worker uses {}; use the same version of quarry on \
                 all machines",
                self.protocol
            );
            self.connection.warn_once(&problem);
            runtime.block_on(self.reply(&task, kind::GIVEN_BACK, problem.into()))?;
            // Other workers may support it.
            runtime.block_on(self.connection.pause(Duration::from_secs(1)));
            return Ok(());
        }
        let delivered = delivery.info().map_or(1, |info| info.delivered);
        if delivered > 1 {
            return runtime.block_on(self.report_loss(&task));
        }
        match runtime.block_on(self.begin(&task))? {
            StartDecision::Unwanted => {
                runtime.block_on(self.acknowledge(&task));
                return Ok(());
            }
            // Another worker holds the lease, or the server will notice that it does not.
            StartDecision::Busy => return Ok(()),
            StartDecision::Now => {}
        }
        if self.is_over() {
            return runtime.block_on(self.reply(&task, kind::GIVEN_BACK, "the worker was stopped".into()));
        }
        let (kind, reply) = match (self.work)(kind, &delivery.payload) {
            Outcome::Done(reply) => (kind::DONE, reply),
            Outcome::Failed(reply) => (kind::FAILED, reply),
            Outcome::Refused(reason) => (kind::LOST, reason.into_bytes()),
            Outcome::Unable(problem) => {
                self.end(QueueError::Unable { problem: problem.clone() });
                (kind::GIVEN_BACK, problem.into_bytes())
            }
        };
        runtime.block_on(self.reply(&task, kind, reply.into()))
    }

    /// Reports a task that another worker was given, but did not finish within its lease.
    async fn report_loss(&self, task: &Task<'_>) -> Result<(), QueueError> {
        let subject = subject::reply(task.queue, task.name);
        if stored_reply(self.connection, &subject, GRACE).await?.is_some() {
            self.acknowledge(task).await;
            self.signal(task, signal::REPLIED).await;
            return Ok(());
        }
        self.reply(task, kind::LOST, "a worker was lost or stopped responding while doing this".into()).await
    }

    /// Reports that the task was started. The dispatcher may answer that it is no longer needed, or is in progress
    /// elsewhere. If there is no dispatcher, it may return, as all clients do after the server restarted; if it does
    /// not, the reply is kept for it.
    async fn begin(&self, task: &Task<'_>) -> Result<StartDecision, QueueError> {
        let subject = subject::signal(task.queue, task.name);
        let end = Instant::now() + DISPATCHER_TIMEOUT;
        while Instant::now() < end && !self.is_over() {
            let request =
                self.connection.client().request(subject.clone(), Bytes::from_static(signal::BEGUN));
            match request.await {
                Ok(answer) if answer.payload == signal::UNWANTED => return Ok(StartDecision::Unwanted),
                Ok(answer) if answer.payload == signal::BUSY => return Ok(StartDecision::Busy),
                Ok(_) => return Ok(StartDecision::Now),
                Err(error) => tracing::debug!(%error, "no dispatcher is waiting for the task"),
            }
            self.connection.pause(Duration::from_millis(200)).await;
        }
        let reply = subject::reply(task.queue, task.name);
        Ok(match stored_reply(self.connection, &reply, GRACE).await? {
            Some(_) => StartDecision::Unwanted,
            None => StartDecision::Now,
        })
    }

    async fn signal(&self, task: &Task<'_>, signal: &'static [u8]) {
        let subject = subject::signal(task.queue, task.name);
        let _ = self.connection.client().publish(subject, Bytes::from_static(signal)).await;
    }

    async fn acknowledge(&self, task: &Task<'_>) {
        // If this is lost, the next worker finds the reply.
        let _ = task.delivery.ack().await;
    }

    /// Stores a reply, and only then acknowledges the task. A reply worth keeping replaces one that is not.
    async fn reply(
        &self,
        task: &Task<'_>,
        mut kind: &'static str,
        mut payload: Bytes,
    ) -> Result<(), QueueError> {
        let subject = subject::reply(task.queue, task.name);
        let retry = self.connection.retry(GRACE);
        retry
            .until_done("store a reply", async || {
                let only_first = [(message::KIND_OF_REPLY, kind), (message::EXPECTED_SEQUENCE, "0")];
                let headers = if kind == kind::DONE { &only_first[..1] } else { &only_first[..] };
                match publish(self.connection, &subject, headers, &payload).await {
                    Ok(()) | Err(Refused::AlreadyThere) => Ok(()),
                    Err(Refused::TooLarge { limit, bytes }) => {
                        let problem = format!(
                            "the reply has {bytes} bytes, but the NATS server accepts at most {limit} in a message; \
                             raise its `max_payload`"
                        );
                        (kind, payload) = (kind::LOST, problem.into());
                        Err(ActionError::Transient("too large".to_owned()))
                    }
                    Err(Refused::NoStream) => Err(self.connection.restored("its streams are missing").await),
                    Err(Refused::Other(problem)) => Err(ActionError::Transient(problem)),
                }
            })
            .await?;
        self.acknowledge(task).await;
        self.signal(task, signal::REPLIED).await;
        Ok(())
    }
}

/// Decision about a task that was taken.
enum StartDecision {
    Now,
    Unwanted,
    Busy,
}

/// The subjects of a task's messages.
struct Task<'a> {
    delivery: &'a Message,
    queue: &'a str,
    name: &'a str,
}

#[derive(Default)]
struct IdleThreads {
    count: Mutex<isize>,
    changed: Condvar,
}

impl IdleThreads {
    fn add(&self, change: isize) {
        *lock(&self.count) += change;
        self.changed.notify_all();
    }

    /// Returns whether a thread is idle or becomes idle soon.
    fn is_there(&self) -> bool {
        let count = lock(&self.count);
        let waited = self.changed.wait_timeout_while(count, TASK_POLL_INTERVAL, |count| *count <= 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 > 0
    }
}
