//! The side that has tasks: publishes them, and waits for their replies.
//!
//! The reply stored on the server is authoritative; signals of workers only tell when to look for it. So even if
//! messages are lost, no task is forgotten: the dispatcher that waits for it checks every few seconds whether the
//! reply is there, and whether the task still exists.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::connection::{ActionError, Connection};
use crate::error::QueueError;
use crate::message::{self, Refused, kind, signal};
use crate::{lock, subject};

/// Interval at which a waiting thread checks for the reply without a signal.
const REPLY_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The user is notified if no worker has started a task of a kind for this long.
const UNCLAIMED_NOTICE: Duration = Duration::from_secs(30);

/// Maximum time for removing finished tasks after the user stopped.
const REMOVAL_GRACE: Duration = Duration::from_secs(5);

/// Maximum number of times that workers may return a task before it counts as lost.
const MAX_RETURNS: u32 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The kind, which determines the workers that can do it.
    pub kind: String,
    /// Identifies it: two tasks with the same name are the same task, and are done once.
    pub name: String,
    /// The input for a worker.
    pub payload: Vec<u8>,
    /// A short description for messages.
    pub about: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It was done. The reply is stored until [`Dispatcher::settle`].
    Done(Vec<u8>),
    /// It was attempted and failed; the result is not stored.
    Failed(Vec<u8>),
    /// Its result is unknown, or workers cannot do it, for this reason.
    Lost(String),
}

/// Distributes the tasks of one queue. Can be shared between threads.
#[derive(Debug)]
pub struct Dispatcher {
    connection: Connection,
    queue: String,
    protocol: String,
    waiting: Arc<Mutex<Waiting>>,
    /// Sequence numbers of stored replies that were delivered and not settled yet, by task name.
    stored: Mutex<HashMap<String, u64>>,
    withdrawn: AtomicBool,
    listening: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    tasks: HashMap<String, Vec<Arc<Waiter>>>,
    /// When a worker last started a task of each kind.
    begun: HashMap<String, Instant>,
}

#[derive(Debug)]
struct Waiter {
    kind: String,
    begun: AtomicBool,
    wake: Notify,
}

impl Dispatcher {
    /// A dispatcher for the tasks of `queue`, for workers that support `protocol`.
    ///
    /// # Errors
    /// When `queue` is not a valid name, or the user stopped before the server was reached.
    pub fn new(connection: &Connection, queue: &str, protocol: &str) -> Result<Self, QueueError> {
        let signals = subject::signals_of_queue(subject::check(queue)?);
        let waiting: Arc<Mutex<Waiting>> = Arc::default();
        let retry = connection.retry(Duration::ZERO);
        let listening = connection.runtime().block_on(async {
            let client = connection.client().clone();
            let mut subscription = retry
                .until_done("listen to workers", async || {
                    let subscribed = client.subscribe(signals.clone()).await;
                    subscribed.map_err(|error| ActionError::Transient(error.to_string()))
                })
                .await?;
            let waiting = Arc::clone(&waiting);
            Ok(tokio::spawn(async move {
                while let Some(heard) = subscription.next().await {
                    let name = heard.subject.rsplit('.').next().unwrap_or_default();
                    let answer = lock(&waiting).heard(name, &heard.payload);
                    if let Some(reply) = heard.reply {
                        let _ = client.publish(reply, Bytes::from_static(answer)).await;
                    }
                }
            }))
        })?;
        Ok(Self {
            connection: connection.clone(),
            queue: queue.to_owned(),
            protocol: protocol.to_owned(),
            waiting,
            stored: Mutex::default(),
            withdrawn: AtomicBool::new(false),
            listening,
        })
    }

    /// Submits a task and waits for its reply, without a time limit. A task that is in progress, or done and not
    /// settled, is not done again. If a worker is lost with it, another one gets it, until `losses` workers were
    /// lost.
    ///
    /// # Errors
    /// When the task cannot be submitted; [`QueueError::Stopped`] when it was withdrawn before a worker started it.
    pub fn submit(&self, task: &Task, losses: u32) -> Result<Reply, QueueError> {
        subject::check(&task.kind)?;
        subject::check(&task.name)?;
        let waiter =
            Arc::new(Waiter { kind: task.kind.clone(), begun: AtomicBool::new(false), wake: Notify::new() });
        let _registered = self.register(task, &waiter);
        self.connection.runtime().block_on(self.wait(task, &waiter, losses))
    }

    /// Withdraws tasks that no worker has started; those in progress are awaited.
    pub fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::SeqCst);
        for waiter in lock(&self.waiting).tasks.values().flatten() {
            waiter.wake.notify_one();
        }
    }

    /// Removes the stored reply of a task, after the caller has saved it.
    pub fn settle(&self, name: &str) {
        let Some(sequence) = lock(&self.stored).remove(name) else { return };
        let context = self.connection.context().clone();
        // If this is lost, the reply remains until the queue is cleared.
        self.connection.runtime().spawn(async move {
            let _ = message::remove(&context, subject::REPLIES, sequence).await;
        });
    }

    /// Removes all tasks and replies of the queue when all work is done.
    ///
    /// # Errors
    /// [`QueueError::Stopped`] when the user stopped before it succeeded.
    pub fn clear(&self) -> Result<(), QueueError> {
        self.connection.runtime().block_on(async {
            self.remove_tasks(&subject::tasks_of_queue(&self.queue)).await?;
            self.remove_replies(&subject::replies_of_queue(&self.queue)).await
        })
    }

    fn is_over(&self) -> bool {
        self.withdrawn.load(Ordering::SeqCst) || self.connection.is_stopped()
    }

    fn register<'a>(&'a self, task: &'a Task, waiter: &'a Arc<Waiter>) -> Registered<'a> {
        let mut waiting = lock(&self.waiting);
        waiting.begun.entry(task.kind.clone()).or_insert_with(Instant::now);
        waiting.tasks.entry(task.name.clone()).or_default().push(Arc::clone(waiter));
        Registered { waiting: &self.waiting, name: &task.name, waiter }
    }

    async fn wait(&self, task: &Task, waiter: &Waiter, losses: u32) -> Result<Reply, QueueError> {
        // Submitting a task again means that its reply could not be used.
        let useless = lock(&self.stored).remove(&task.name);
        if useless.is_some() {
            self.forget(task).await?;
        }
        let (mut lost, mut returns, mut published) = (0, 0, 0);
        loop {
            match self.stored_reply(&task.name).await? {
                Some(reply) => {
                    let kind = reply.headers.get(message::KIND_OF_REPLY).map(|kind| kind.as_str().to_owned());
                    let text = || String::from_utf8_lossy(&reply.payload).into_owned();
                    if kind.as_deref() == Some(kind::DONE) {
                        if published > 1 {
                            self.remove_tasks(&self.subject(task)).await?;
                        }
                        lock(&self.stored).insert(task.name.clone(), reply.sequence);
                        return Ok(Reply::Done(reply.payload.to_vec()));
                    }
                    // If the task is submitted again, neither the old task, which may not be acknowledged yet, nor
                    // this reply may be found.
                    self.forget(task).await?;
                    waiter.begun.store(false, Ordering::SeqCst);
                    match kind.as_deref() {
                        Some(kind::FAILED) => return Ok(Reply::Failed(reply.payload.to_vec())),
                        Some(kind::GIVEN_BACK) => {
                            returns += 1;
                            self.connection.warn_once(&format!("{} was returned: {}", task.about, text()));
                            if returns >= MAX_RETURNS {
                                return Ok(Reply::Lost(format!(
                                    "{returns} workers returned it, the last with: {}",
                                    text()
                                )));
                            }
                        }
                        _ => {
                            lost += 1;
                            if lost >= losses {
                                let times = if lost > 1 { format!(" ({lost} times)") } else { String::new() };
                                return Ok(Reply::Lost(text() + &times));
                            }
                        }
                    }
                    continue;
                }
                None if self.is_over() => {
                    if !waiter.begun.load(Ordering::SeqCst) {
                        // If a worker is starting it at this moment, its reply is found when the plan is resumed.
                        let _ = self.remove_tasks(&self.subject(task)).await;
                        return Err(QueueError::Stopped);
                    }
                }
                None => published += u32::from(self.publish(task).await?),
            }
            self.sleep(task, waiter).await;
        }
    }

    /// Waits until there may be a reply.
    async fn sleep(&self, task: &Task, waiter: &Waiter) {
        let was_over = self.is_over();
        let stopped = async {
            while was_over || !self.is_over() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            () = waiter.wake.notified() => {}
            () = tokio::time::sleep(REPLY_POLL_INTERVAL) => {}
            () = stopped => {}
        }
        if !waiter.begun.load(Ordering::SeqCst) && lock(&self.waiting).is_unclaimed(&task.kind) {
            self.connection.warn_once(&format!(
                "no worker has started {} for {} s; all workers that can do it are busy, or there is none",
                task.about,
                UNCLAIMED_NOTICE.as_secs()
            ));
        }
    }

    fn subject(&self, task: &Task) -> String {
        subject::task(&task.kind, &self.queue, &task.name)
    }

    async fn stored_reply(&self, name: &str) -> Result<Option<StreamMessage>, QueueError> {
        let subject = subject::reply(&self.queue, name);
        message::stored_reply(&self.connection, &subject, Duration::ZERO).await
    }

    /// Publishes a task; returns false if it already exists.
    async fn publish(&self, task: &Task) -> Result<bool, QueueError> {
        let subject = self.subject(task);
        let (headers, payload) =
            ([(message::PROTOCOL, self.protocol.as_str())], Bytes::copy_from_slice(&task.payload));
        self.connection
            .retry(Duration::ZERO)
            .until_done("hand over work", async || {
                match message::publish(&self.connection, &subject, &headers, &payload).await {
                    Ok(()) => Ok(true),
                    Err(Refused::AlreadyThere) => Ok(false),
                    Err(Refused::TooLarge { bytes, limit }) => {
                        Err(ActionError::Final(QueueError::TooLarge {
                            about: task.about.clone(),
                            bytes,
                            address: self.connection.address().to_owned(),
                            limit,
                        }))
                    }
                    Err(Refused::NoStream) => Err(self.connection.restored("its streams are missing").await),
                    Err(Refused::Other(problem)) => Err(ActionError::Transient(problem)),
                }
            })
            .await
    }

    /// Removes the tasks whose subjects match `filter`, one by one: when a server of version 2.9 purges a stream by
    /// subject, it loses track of other messages in delivery to its consumers.
    async fn remove_tasks(&self, filter: &str) -> Result<(), QueueError> {
        let tasks = self.connection.tasks();
        let retry = self.connection.retry(REMOVAL_GRACE);
        retry
            .until_done("remove what is done", async || {
                loop {
                    let last = match tasks.get_last_raw_message_by_subject(filter).await {
                        Ok(last) => last.sequence,
                        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                            return Ok(());
                        }
                        Err(error) => return Err(ActionError::Transient(error.to_string())),
                    };
                    // A worker may be faster.
                    message::remove(self.connection.context(), subject::TASKS, last).await?;
                }
            })
            .await
    }

    async fn remove_replies(&self, filter: &str) -> Result<(), QueueError> {
        let retry = self.connection.retry(REMOVAL_GRACE);
        retry
            .until_done("remove what is done", async || {
                let purged = self.connection.replies().purge().filter(filter).await;
                purged.map(|_| ()).map_err(|error| ActionError::Transient(error.to_string()))
            })
            .await
    }

    /// Removes a task and its reply.
    async fn forget(&self, task: &Task) -> Result<(), QueueError> {
        self.remove_tasks(&self.subject(task)).await?;
        self.remove_replies(&subject::reply(&self.queue, &task.name)).await
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Waiting {
    /// The answer to a worker's signal about the task with this name.
    fn heard(&mut self, name: &str, said: &[u8]) -> &'static [u8] {
        let Some(waiters) = self.tasks.get(name) else { return signal::UNWANTED };
        // After a crash, a server may deliver messages again.
        let mut answer = signal::BUSY;
        for waiter in waiters {
            if said == signal::REPLIED {
                waiter.wake.notify_one();
            } else {
                self.begun.insert(waiter.kind.clone(), Instant::now());
                if !waiter.begun.swap(true, Ordering::SeqCst) {
                    answer = signal::WANTED;
                }
            }
        }
        answer
    }

    /// Returns whether to notify the user that no worker takes tasks of this kind.
    fn is_unclaimed(&mut self, kind: &str) -> bool {
        let last = self.begun.entry(kind.to_owned()).or_insert_with(Instant::now);
        last.elapsed() >= UNCLAIMED_NOTICE
    }
}

/// Unregisters a waiter when dropped.
struct Registered<'a> {
    waiting: &'a Mutex<Waiting>,
    name: &'a str,
    waiter: &'a Arc<Waiter>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(self.waiting);
        if let Some(waiters) = waiting.tasks.get_mut(self.name) {
            waiters.retain(|other| !Arc::ptr_eq(other, self.waiter));
            if waiters.is_empty() {
                waiting.tasks.remove(self.name);
            }
        }
    }
}
