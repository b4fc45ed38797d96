//! The connection to the server, which survives its restarts, and creation of the streams.

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

/// Maximum age of unfetched tasks and replies.
const MAX_MESSAGE_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Time limit for one request to the server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The user is notified after failures for this long.
const NOTICE_DELAY: Duration = Duration::from_secs(5);

/// Number of tries to look up a stream that cannot be created: if another process creates it at the same moment, the
/// server refuses it as if it belonged to somebody else.
const RACES: usize = 5;

/// Interval at which waits check whether the user stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Shows messages to the user during work.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// A connection to a NATS server with JetStream, restored after the server restarts. Clones share the connection.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    /// Runs all asynchronous code, in one thread.
    runtime: Runtime,
    client: Client,
    context: Context,
    tasks: Stream,
    replies: Stream,
    address: String,
    stop: Arc<AtomicBool>,
    notice: Notice,
    /// Messages that are shown only once and were already shown.
    notices: Mutex<HashSet<String>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Connection({})", self.0.address)
    }
}

impl Connection {
    /// Connects to the server at `url`, waiting for it to start if necessary, and creates the streams if they do not
    /// exist. The address may contain a user and password, or a token; no message repeats them. `stop` ends every
    /// wait, now and later.
    ///
    /// # Errors
    /// When the address is invalid, the server refuses, or it has no JetStream; [`QueueError::Stopped`] when `stop`
    /// was set before it answered.
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
        let retry = Retry { address: &address, stop: &stop, notice: &notice, grace: Duration::ZERO };
        let (client, context, tasks, replies) = runtime.block_on(async {
            let client = retry
                .until_done("connect", async || {
                    let report = Arc::clone(&notice);
                    let server_address = address.clone();
                    let options = ConnectOptions::new()
                        .name("quarry")
                        .ignore_discovered_servers()
                        .connection_timeout(REQUEST_TIMEOUT)
                        .request_timeout(Some(REQUEST_TIMEOUT))
                        .reconnect_delay_callback(|attempts| {
                            Duration::from_millis((attempts as u64 * 50).min(1000))
                        })
                        .event_callback(move |event| {
                            match event {
                                Event::Disconnected => report(&format!("{server_address}: lost the connection; trying again")),
                                Event::Connected => tracing::debug!(address = server_address, "connected"),
                                other => tracing::debug!(address = server_address, %other, "NATS"),
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
                        let refused = |problem: &str| ActionError::Final(retry.server(problem.to_owned()));
                        match error.kind() {
                            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => refused(
                                "the server refuses the user; write nats://USER:PASSWORD@HOST:PORT, or a token instead of \
                                 the user",
                            ),
                            ConnectErrorKind::Tls => {
                                refused("no secure connection could be made; check the server's certificate")
                            }
                            _ => ActionError::Transient(error.to_string()),
                        }
                    })
                })
                .await?;
            if !client.is_server_compatible(2, 9, 0) {
                let version = client.server_info().version;
                return Err(retry.server(format!("this is NATS {version}; install 2.9 or newer")));
            }
            let context = jetstream::new(client.clone());
            let tasks = retry.stream(&context, &tasks_config()).await?;
            let replies = retry.stream(&context, &replies_config()).await?;
            Ok((client, context, tasks, replies))
        })?;
        let notices = Mutex::default();
        Ok(Self(Arc::new(Inner { runtime, client, context, tasks, replies, address, stop, notice, notices })))
    }

    /// Host and port of the server.
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// Shows the user a message.
    pub fn report(&self, text: &str) {
        (self.0.notice)(text);
    }

    /// Shows the user a message, unless it was shown before.
    pub(crate) fn warn_once(&self, text: &str) {
        if lock(&self.0.notices).insert(text.to_owned()) {
            self.report(text);
        }
    }

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

    /// For actions that are retried until they succeed, for at most `grace` after the user stopped.
    pub(crate) fn retry(&self, grace: Duration) -> Retry<'_> {
        let Inner { address, stop, notice, .. } = self.0.as_ref();
        Retry { address, stop, notice, grace }
    }

    /// Creates the streams again after they were removed by another program. Returns `problem`, which that caused, as
    /// transient, unless they cannot be created.
    pub(crate) async fn restored(&self, problem: &str) -> ActionError {
        let retry = self.retry(Duration::ZERO);
        for config in [tasks_config(), replies_config()] {
            if let Err(error) = retry.stream(self.context(), &config).await {
                return ActionError::Final(error);
            }
        }
        ActionError::Transient(problem.to_owned())
    }

    /// Waits for `time`, or until the user stops.
    pub(crate) async fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.is_stopped() && Instant::now() < end {
            tokio::time::sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now()))).await;
        }
    }
}

fn tasks_config() -> Config {
    Config {
        name: TASKS.to_owned(),
        subjects: vec![ALL_TASKS.to_owned()],
        retention: RetentionPolicy::WorkQueue,
        // Makes the server reject a task that already exists.
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        storage: StorageType::File,
        max_age: MAX_MESSAGE_AGE,
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
        max_age: MAX_MESSAGE_AGE,
        allow_direct: true,
        ..Config::default()
    }
}

pub(crate) enum ActionError {
    /// It may succeed later.
    Transient(String),
    /// It cannot succeed.
    Final(QueueError),
}

pub(crate) struct Retry<'a> {
    address: &'a str,
    stop: &'a AtomicBool,
    notice: &'a Notice,
    grace: Duration,
}

impl Retry<'_> {
    pub(crate) fn server(&self, problem: String) -> QueueError {
        QueueError::Server { address: self.address.to_owned(), problem }
    }

    /// Retries `action` until it succeeds; notifies the user if that takes long.
    ///
    /// # Errors
    /// A permanent failure, or [`QueueError::Stopped`] when it did not succeed before the user stopped.
    pub(crate) async fn until_done<T>(
        &self,
        what: &str,
        mut action: impl AsyncFnMut() -> Result<T, ActionError>,
    ) -> Result<T, QueueError> {
        let begin = Instant::now();
        let (mut noticed, mut stopped, mut wait) = (false, None, Duration::from_millis(50));
        loop {
            let problem = match action().await {
                Ok(done) => return Ok(done),
                Err(ActionError::Final(error)) => return Err(error),
                Err(ActionError::Transient(problem)) => problem,
            };
            tracing::debug!(address = self.address, what, problem, "will try again");
            if begin.elapsed() > NOTICE_DELAY && !noticed {
                (self.notice)(&format!("{}: cannot {what}: {problem}; trying again", self.address));
                noticed = true;
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
                tokio::time::sleep(left.min(POLL_INTERVAL)).await;
            }
            wait = (wait * 2).min(Duration::from_secs(2));
        }
    }

    async fn stream(&self, context: &Context, config: &Config) -> Result<Stream, QueueError> {
        let mut refused = 0;
        self.until_done("make its streams", async || {
            context.get_or_create_stream(config.clone()).await.map_err(|error| {
                let without = "JetStream is not enabled; start nats-server with --jetstream";
                match error.kind() {
                    // JetStream is unavailable for a moment while a server starts.
                    CreateStreamErrorKind::JetStreamUnavailable => ActionError::Transient(without.to_owned()),
                    CreateStreamErrorKind::JetStream(error)
                        if refused < RACES
                            && [ErrorCode::STREAM_SUBJECT_OVERLAP, ErrorCode::STREAM_NAME_EXIST]
                                .contains(&error.error_code()) =>
                    {
                        refused += 1;
                        ActionError::Transient(error.to_string())
                    }
                    CreateStreamErrorKind::JetStream(error) => {
                        ActionError::Final(self.server(match error.error_code() {
                            ErrorCode::JETSTREAM_NOT_ENABLED
                            | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => without.to_owned(),
                            _ => format!("the stream {} cannot be created: {error}", config.name),
                        }))
                    }
                    _ => ActionError::Transient(error.to_string()),
                }
            })
        })
        .await
    }
}
