//! Messages to the client: sent by any thread, written by one.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lsp_server::{Message, Notification, Request, RequestId, Response, ResponseError};
use serde_json::{Value, json};

use crate::ServeError;
use crate::frames;

/// Maximum time to wait at the end until everything is written.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Maximum number of unread bytes waiting for the client. Senders block above it, including the thread that reads
/// requests, so that a client that sends requests without reading answers cannot exhaust the memory.
const MAX_WAITING_BYTES: usize = 16 << 20;

#[derive(Clone)]
pub(crate) struct Outbox(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    messages: VecDeque<String>,
    /// Total size of the queued messages and the one being written.
    n_bytes: usize,
    /// Set when no more messages will be sent.
    is_ended: bool,
    /// Set when the client no longer reads.
    is_closed: bool,
}

pub(crate) struct Writer(Receiver<()>);

impl Outbox {
    /// Starts a thread that writes to `output`.
    pub(crate) fn new(mut output: impl Write + Send + 'static) -> Result<(Self, Writer), ServeError> {
        let queue = Arc::new(Queue::default());
        let messages = Arc::clone(&queue);
        let (ended, end) = mpsc::channel();
        let write = move || {
            while let Some(message) = messages.next() {
                let written = frames::write(&mut output, &message);
                messages.note_written(message.len(), written.is_err());
                if let Err(error) = written {
                    // The client no longer reads; the end of its input ends the session.
                    tracing::info!("cannot write to the client: {error}");
                    break;
                }
            }
            let _ = ended.send(());
        };
        thread::Builder::new().name("writer".to_owned()).spawn(write).map_err(ServeError::Start)?;
        Ok((Self(queue), Writer(end)))
    }

    pub(crate) fn send(&self, message: impl Into<Message>) {
        let Ok(mut message) = serde_json::to_value(message.into()) else { return };
        message["jsonrpc"] = Value::from("2.0");
        self.send_value(message);
    }

    pub(crate) fn answer(&self, id: RequestId, result: Result<Value, ResponseError>) {
        self.send(Response { id, response_result: result });
    }

    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.send(Notification { method: method.to_owned(), params });
    }

    /// Sends a request whose answer is ignored.
    pub(crate) fn ask(&self, id: String, method: &str, params: Value) {
        self.send(Request { id: RequestId::from(id), method: method.to_owned(), params });
    }

    /// Reports a message that cannot be answered because its id is unknown.
    pub(crate) fn refuse(&self, error: &ResponseError) {
        self.send_value(json!({"jsonrpc": "2.0", "id": null, "error": error}));
    }

    /// Ends the thread after all previous messages.
    pub(crate) fn end(&self) {
        self.0.state().is_ended = true;
        self.0.changed.notify_all();
    }

    fn send_value(&self, message: Value) {
        self.0.push(message.to_string());
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a message, waiting until there is room for it.
    fn push(&self, message: String) {
        let mut state = self.state();
        while state.n_bytes > 0 && state.n_bytes + message.len() > MAX_WAITING_BYTES && !state.is_closed {
            state = self.wait(state);
        }
        // If the client no longer reads, the message is dropped.
        if !state.is_closed {
            state.n_bytes += message.len();
            state.messages.push_back(message);
            self.changed.notify_all();
        }
    }

    /// The next message; `None` at the end.
    fn next(&self) -> Option<String> {
        let mut state = self.state();
        loop {
            match state.messages.pop_front() {
                None if !state.is_ended => state = self.wait(state),
                message => return message,
            }
        }
    }

    fn note_written(&self, n_bytes: usize, is_closed: bool) {
        let mut state = self.state();
        state.n_bytes -= n_bytes;
        if is_closed {
            *state = State { is_closed, is_ended: true, ..State::default() };
        }
        self.changed.notify_all();
    }
}

impl Writer {
    /// Waits until everything is written, up to a time limit.
    pub(crate) fn wait(self) {
        let _ = self.0.recv_timeout(LAST_WRITES);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::SyncSender;

    use super::*;

    /// An output whose reader only reads now and then.
    struct Pipe(SyncSender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn unread_messages_are_bounded_and_sent_in_order() {
        let (sender, pieces) = mpsc::sync_channel(0);
        let (outbox, writer) = Outbox::new(Pipe(sender)).unwrap();
        let (queued, sent) = mpsc::channel();
        let sending = {
            let outbox = outbox.clone();
            thread::spawn(move || {
                for number in 0..100 {
                    outbox.notify("text", json!([number, "x".repeat(MAX_WAITING_BYTES / 10)]));
                    queued.send(number).unwrap();
                }
                outbox.end();
            })
        };
        let n_sent = std::iter::from_fn(|| sent.recv_timeout(Duration::from_millis(300)).ok()).count();
        assert!((8..12).contains(&n_sent), "{n_sent}");
        assert!(outbox.0.state().n_bytes <= MAX_WAITING_BYTES);
        let mut numbers = Vec::new();
        for piece in pieces {
            let text = String::from_utf8(piece).unwrap();
            if let Some((_, rest)) = text.split_once("\"params\":[") {
                numbers.push(rest.split(',').next().unwrap().parse::<u32>().unwrap());
            }
        }
        writer.wait();
        sending.join().unwrap();
        assert_eq!(numbers, (0..100).collect::<Vec<u32>>());
    }

    #[test]
    fn waiting_senders_continue_when_the_client_is_gone() {
        let (sender, pieces) = mpsc::sync_channel(0);
        let (outbox, writer) = Outbox::new(Pipe(sender)).unwrap();
        let sending = thread::spawn(move || {
            (0..100).for_each(|_| outbox.notify("text", json!("x".repeat(MAX_WAITING_BYTES / 10))));
        });
        drop(pieces);
        sending.join().unwrap();
        writer.wait();
    }
}
