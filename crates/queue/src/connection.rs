//! The server: reaching it, reaching it again, and the streams that must be there.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::jetstream::context::CreateStreamErrorKind;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use percent_encoding::percent_decode_str;
use tokio::runtime::Runtime;

use crate::error::QueueError;
use crate::lock;
use crate::subject::{ALL_REPLIES, ALL_TASKS, REPLIES, TASKS};

/// How long tasks and replies that nobody fetches are kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The most time for one request to the server.
const REQUEST: Duration = Duration::from_secs(5);

/// When something fails for so long, the user is told.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// How often a wait looks whether the user wants no more.
const GLANCE: Duration = Duration::from_millis(100);

/// Takes what a user should know while work goes on.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// A connection to a NATS server with JetStream. It comes back when the server does. Clones are the same connection.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    /// The one thread of it does what is asynchronous.
    runtime: Runtime,
    client: Client,
    context: Context,
    tasks: Stream,
    replies: Stream,
    address: String,
    stop: Arc<AtomicBool>,
    notice: Notice,
    /// What was told already of what is told once.
    told: Mutex<HashSet<String>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Connection({})", self.0.address)
    }
}

impl Connection {
    /// Connects to the server at `url`, however long it takes it to be there, and makes the streams where there are
    /// none. A user and a password, or a token, may be part of the address; no message repeats them. `stop` ends every
    /// wait, now and later.
    ///
    /// # Errors
    /// When the address is none, the server refuses, or it has no JetStream; [`QueueError::Stopped`] when `stop` was
    /// set before it was there.
    pub fn open(url: &str, stop: Arc<AtomicBool>, notice: Notice) -> Result<Self, QueueError> {
        let server: ServerAddr = url.parse().map_err(|_| QueueError::Address {
            problem: "it is not of the form nats://HOST:PORT".to_owned(),
        })?;
        let address = format!("nats://{}:{}", server.host(), server.port());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("queue")
            .enable_all()
            .build()
            .map_err(|error| QueueError::Thread { problem: error.to_string() })?;
        let patient = Patient { address: &address, stop: &stop, notice: &notice, grace: Duration::ZERO };
        let (client, context, tasks, replies) = runtime.block_on(async {
            let client = patient
                .insist("connect", async || {
                    let tell = Arc::clone(&notice);
                    let place = address.clone();
                    let options = ConnectOptions::new()
                        .name("quarry")
                        .connection_timeout(REQUEST)
                        .request_timeout(Some(REQUEST))
                        .reconnect_delay_callback(|attempts| {
                            Duration::from_millis((attempts as u64 * 50).min(1000))
                        })
                        .event_callback(move |event| {
                            match event {
                                Event::Disconnected => tell(&format!("{place}: lost the connection; trying again")),
                                Event::Connected => tracing::debug!(address = place, "connected"),
                                other => tracing::debug!(address = place, %other, "NATS"),
                            }
                            std::future::ready(())
                        });
                    let part = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
                    let options = match (server.username(), server.password()) {
                        (Some(user), Some(password)) => options.user_and_password(part(user), part(password)),
                        (Some(token), None) => options.token(part(token)),
                        (None, _) => options,
                    };
                    options.connect(server.clone()).await.map_err(|error| {
                        let refused = |problem: &str| Trouble::Final(patient.server(problem.to_owned()));
                        match error.kind() {
                            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => refused(
                                "the server refuses the user; write nats://USER:PASSWORD@HOST:PORT, or a token in the \
                                 place of the user",
                            ),
                            ConnectErrorKind::Tls => {
                                refused("no secure connection comes about; check the server's certificate")
                            }
                            _ => Trouble::Passing(error.to_string()),
                        }
                    })
                })
                .await?;
            if !client.is_server_compatible(2, 9, 0) {
                let version = client.server_info().version;
                return Err(patient.server(format!("this is NATS {version}; install 2.9 or newer")));
            }
            let context = jetstream::new(client.clone());
            let tasks = patient.stream(&context, &tasks_config()).await?;
            let replies = patient.stream(&context, &replies_config()).await?;
            Ok((client, context, tasks, replies))
        })?;
        let told = Mutex::default();
        Ok(Self(Arc::new(Inner { runtime, client, context, tasks, replies, address, stop, notice, told })))
    }

    /// Host and port of the server.
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// Tells the user something.
    pub fn tell(&self, text: &str) {
        (self.0.notice)(text);
    }

    /// Tells the user something, unless that was told before.
    pub(crate) fn tell_once(&self, text: &str) {
        if lock(&self.0.told).insert(text.to_owned()) {
            self.tell(text);
        }
    }

    /// Whether the user wants no more.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.load(Ordering::SeqCst)
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    pub(crate) fn context(&self) -> &Context {
        &self.0.context
    }

    pub(crate) fn tasks(&self) -> &Stream {
        &self.0.tasks
    }

    pub(crate) fn replies(&self) -> &Stream {
        &self.0.replies
    }

    /// For actions that are tried until they work; `grace` is how long they are tried after the user wanted no more.
    pub(crate) fn patient(&self, grace: Duration) -> Patient<'_> {
        let Inner { address, stop, notice, .. } = self.0.as_ref();
        Patient { address, stop, notice, grace }
    }

    /// Makes the streams again, where somebody removed them.
    pub(crate) async fn restore(&self) -> Result<(), QueueError> {
        let patient = self.patient(Duration::ZERO);
        patient.stream(self.context(), &tasks_config()).await?;
        patient.stream(self.context(), &replies_config()).await?;
        Ok(())
    }

    /// Waits for a while, or until the user wants no more.
    pub(crate) async fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.is_stopped() && Instant::now() < end {
            tokio::time::sleep(GLANCE.min(end.saturating_duration_since(Instant::now()))).await;
        }
    }
}

fn tasks_config() -> Config {
    Config {
        name: TASKS.to_owned(),
        subjects: vec![ALL_TASKS.to_owned()],
        retention: RetentionPolicy::WorkQueue,
        // Whoever publishes a task that is there already is refused.
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        storage: StorageType::File,
        max_age: KEPT,
        ..Config::default()
    }
}

fn replies_config() -> Config {
    Config {
        name: REPLIES.to_owned(),
        subjects: vec![ALL_REPLIES.to_owned()],
        max_messages_per_subject: 1,
        discard: DiscardPolicy::Old,
        storage: StorageType::File,
        max_age: KEPT,
        allow_direct: true,
        ..Config::default()
    }
}

/// What an action met.
pub(crate) enum Trouble {
    /// It may work later.
    Passing(String),
    /// It will not.
    Final(QueueError),
}

/// Tries actions until they work.
pub(crate) struct Patient<'a> {
    address: &'a str,
    stop: &'a AtomicBool,
    notice: &'a Notice,
    grace: Duration,
}

impl Patient<'_> {
    pub(crate) fn server(&self, problem: String) -> QueueError {
        QueueError::Server { address: self.address.to_owned(), problem }
    }

    /// Does `action` until it works. Says so where that takes long.
    ///
    /// # Errors
    /// What will not pass, and [`QueueError::Stopped`] when it did not work before the user wanted no more.
    pub(crate) async fn insist<T>(
        &self,
        what: &str,
        mut action: impl AsyncFnMut() -> Result<T, Trouble>,
    ) -> Result<T, QueueError> {
        let begin = Instant::now();
        let (mut told, mut stopped, mut wait) = (false, None, Duration::from_millis(50));
        loop {
            let problem = match action().await {
                Ok(done) => return Ok(done),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Passing(problem)) => problem,
            };
            tracing::debug!(address = self.address, what, problem, "will try again");
            if begin.elapsed() > TOLD_AFTER && !told {
                (self.notice)(&format!("{}: cannot {what}: {problem}; trying again", self.address));
                told = true;
            }
            let next = Instant::now() + wait;
            loop {
                if self.stop.load(Ordering::SeqCst)
                    && stopped.get_or_insert_with(Instant::now).elapsed() >= self.grace
                {
                    return Err(QueueError::Stopped);
                }
                let left = next.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                tokio::time::sleep(left.min(GLANCE)).await;
            }
            wait = (wait * 2).min(Duration::from_secs(2));
        }
    }

    async fn stream(&self, context: &Context, config: &Config) -> Result<Stream, QueueError> {
        self.insist("make its streams", async || {
            context.get_or_create_stream(config.clone()).await.map_err(|error| {
                let without = "JetStream is not enabled; start nats-server with --jetstream";
                match error.kind() {
                    // A server that starts up has none for a moment.
                    CreateStreamErrorKind::JetStreamUnavailable => Trouble::Passing(without.to_owned()),
                    CreateStreamErrorKind::JetStream(error) => {
                        Trouble::Final(self.server(match error.error_code() {
                            ErrorCode::JETSTREAM_NOT_ENABLED
                            | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => without.to_owned(),
                            _ => format!("the stream {} cannot be made: {error}", config.name),
                        }))
                    }
                    _ => Trouble::Passing(error.to_string()),
                }
            })
        })
        .await
    }
}
