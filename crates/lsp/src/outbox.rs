//! What is sent to the client: by any thread, written by one.

use std::io::Write;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use lsp_server::{Message, Notification, Request, RequestId, Response, ResponseError};
use serde_json::{Value, json};

use crate::ServeError;
use crate::frames;

/// How long the end waits until everything is written.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Sends messages.
#[derive(Clone)]
pub(crate) struct Outbox(Sender<Outgoing>);

enum Outgoing {
    Message(Value),
    End,
}

/// The thread that writes.
pub(crate) struct Writer(Receiver<()>);

impl Outbox {
    /// Starts a thread that writes to `output`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn to(mut output: impl Write + Send + 'static) -> Result<(Self, Writer), ServeError> {
        let (sender, messages) = mpsc::channel();
        let (ended, end) = mpsc::channel();
        let write = move || {
            while let Ok(Outgoing::Message(message)) = messages.recv() {
                if let Err(error) = frames::write(&mut output, &message) {
                    // The client no longer reads; the end of its input is the end.
                    tracing::info!("cannot write to the client: {error}");
                    break;
                }
            }
            let _ = ended.send(());
        };
        thread::Builder::new().name("writer".to_owned()).spawn(write).map_err(ServeError::Start)?;
        Ok((Self(sender), Writer(end)))
    }

    /// Sends a message.
    pub(crate) fn send(&self, message: impl Into<Message>) {
        let Ok(mut message) = serde_json::to_value(message.into()) else { return };
        message["jsonrpc"] = Value::from("2.0");
        self.send_value(message);
    }

    /// Answers a request.
    pub(crate) fn answer(&self, id: RequestId, result: Result<Value, ResponseError>) {
        self.send(Response { id, response_result: result });
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.send(Notification { method: method.to_owned(), params });
    }

    /// Sends a request, whose answer is of no use.
    pub(crate) fn ask(&self, id: String, method: &str, params: Value) {
        self.send(Request { id: RequestId::from(id), method: method.to_owned(), params });
    }

    /// Tells of a message that cannot be answered because its id is unknown.
    pub(crate) fn refuse(&self, error: &ResponseError) {
        self.send_value(json!({"jsonrpc": "2.0", "id": null, "error": error}));
    }

    /// Has the thread end after all messages before.
    pub(crate) fn end(&self) {
        // It may have ended.
        let _ = self.0.send(Outgoing::End);
    }

    fn send_value(&self, message: Value) {
        // Nobody misses it if the client no longer reads.
        let _ = self.0.send(Outgoing::Message(message));
    }
}

impl Writer {
    /// Waits until everything is written, within limits.
    pub(crate) fn wait(self) {
        let _ = self.0.recv_timeout(LAST_WRITES);
    }
}
