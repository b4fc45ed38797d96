//! Messages as lines on stdin and stdout.
//!
//! The SDK's transport neither answers nor logs a line that cannot be read, and drops a last line without a line
//! ending. This one answers with the errors of JSON-RPC.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::{Future, ready};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, ProtocolVersion, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::message::{Line, Message, Refusal, UNASKED, read};

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Number of lines that are read ahead.
const LINES_AHEAD: usize = 64;

/// Maximum number of unanswered requests and unwritten answers; at this number reading pauses.
const MAX_OPEN: usize = 1024;

/// A line without its end, or the length of one that is too long.
type ReadLine = Result<Vec<u8>, usize>;

/// The two ends of a connection to one client.
pub(crate) struct Lines {
    input: mpsc::Receiver<ReadLine>,
    output: Option<mpsc::UnboundedSender<String>>,
    /// Lines that are not written yet.
    n_unwritten: Arc<watch::Sender<usize>>,
    /// Messages that were read and are not handed on yet, with the number of the batch that they came in.
    waiting: VecDeque<(Message, Option<u64>)>,
    /// Requests without an answer, with the number of their batch.
    open_requests: HashMap<RequestId, Option<u64>>,
    /// Requests of the server that the client has not answered.
    asked: HashSet<RequestId>,
    batches: HashMap<u64, Batch>,
    n_batches: u64,
    /// True if the negotiated protocol version has batches.
    takes_batches: bool,
    /// True once the client has completed the handshake.
    has_begun: Arc<AtomicBool>,
}

/// Messages that came together, and whose answers go together.
#[derive(Debug)]
struct Batch {
    /// Messages whose answer is not known yet.
    n_open: usize,
    answers: Vec<Value>,
}

impl Lines {
    /// Reads and writes in tasks of the runtime that this is called in. `has_begun` says whether notifications are
    /// handed on: what a client notifies of before it has begun would end the connection. The task that writes ends
    /// after everything else of the connection is dropped, when all is written.
    pub(crate) fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        has_begun: Arc<AtomicBool>,
    ) -> (Self, JoinHandle<()>) {
        let (input_sender, input_lines) = mpsc::channel(LINES_AHEAD);
        let (output_sender, output_lines) = mpsc::unbounded_channel();
        tokio::spawn(read_lines(input, input_sender));
        let n_unwritten = Arc::new(watch::Sender::new(0));
        let writer = tokio::spawn(write_lines(output, output_lines, Arc::clone(&n_unwritten)));
        let lines = Self {
            input: input_lines,
            output: Some(output_sender),
            n_unwritten,
            waiting: VecDeque::new(),
            open_requests: HashMap::new(),
            asked: HashSet::new(),
            batches: HashMap::new(),
            n_batches: 0,
            takes_batches: false,
            has_begun,
        };
        (lines, writer)
    }

    /// Queues the messages of a line, or answers it.
    fn take(&mut self, line: ReadLine) {
        let line = match line {
            Ok(line) => read(&line),
            Err(n_bytes) => {
                let problem = format!("a message of {n_bytes} bytes; at most {MAX_LINE_BYTES} are read");
                Line::One(Message::Bad(Refusal::invalid(None, problem)))
            }
        };
        match line {
            Line::Blank => {}
            Line::One(message) => self.waiting.push_back((message, None)),
            Line::Batch(_) if !self.takes_batches => {
                let problem =
                    "a batch, which this version of the protocol does not support; send one message per line";
                self.waiting.push_back((Message::Bad(Refusal::invalid(None, problem)), None));
            }
            Line::Batch(messages) => {
                self.n_batches += 1;
                let batch = Batch { n_open: messages.len(), answers: Vec::new() };
                self.batches.insert(self.n_batches, batch);
                self.waiting.extend(messages.into_iter().map(|message| (message, Some(self.n_batches))));
            }
        }
    }

    /// The message, unless it is answered here or has no answer.
    fn accept(&mut self, message: Message, batch: Option<u64>) -> Option<ClientJsonRpcMessage> {
        let message = match message {
            Message::Response(message) if self.is_asked(&message) => {
                self.settle(batch, None);
                return Some(*message);
            }
            Message::Response(_) => Message::Ignored(UNASKED.to_owned()),
            other => other,
        };
        let refusal = match message {
            Message::Response(_) => return None,
            Message::Ignored(why) => {
                tracing::warn!("ignored a message from the client: {why}");
                self.settle(batch, None);
                return None;
            }
            Message::Bad(refusal) => refusal,
            Message::Good(message) => match self.problem_of(&message, batch) {
                Some(refusal) => refusal,
                None => return self.forward(*message, batch),
            },
        };
        if refusal.id.is_none() {
            // Clients tend to overlook an answer that names no request.
            tracing::warn!("refused a message from the client: {}", refusal.error.message);
        }
        self.settle(batch, Some(refusal.to_json()));
        None
    }

    /// Returns true if a response is to a request of the server, which then is answered.
    fn is_asked(&mut self, message: &ClientJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Response(response) => self.asked.remove(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref().is_some_and(|id| self.asked.remove(id)),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => false,
        }
    }

    /// Why a message that is well-formed cannot be handed on.
    fn problem_of(&self, message: &ClientJsonRpcMessage, batch: Option<u64>) -> Option<Refusal> {
        let JsonRpcMessage::Request(request) = message else { return None };
        if batch.is_some() && matches!(request.request, ClientRequest::InitializeRequest(_)) {
            return Some(Refusal::invalid(Some(request.id.clone()), "`initialize` in a batch"));
        }
        // An answer with this id would be taken for that of the other request.
        let is_taken = self.open_requests.contains_key(&request.id);
        is_taken.then(|| {
            Refusal::invalid(
                None,
                format!("the id {:?} of a request that has no answer yet", request.id.to_string()),
            )
        })
    }

    fn forward(&mut self, message: ClientJsonRpcMessage, batch: Option<u64>) -> Option<ClientJsonRpcMessage> {
        match &message {
            JsonRpcMessage::Request(request) => {
                self.open_requests.insert(request.id.clone(), batch);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(canceled) = &notification.notification
                    && let Some(id) = &canceled.params.request_id
                    && let Some(of_canceled) = self.open_requests.remove(id)
                {
                    self.settle(of_canceled, None);
                }
                self.settle(batch, None);
                if !self.has_begun.load(Ordering::Relaxed) {
                    tracing::warn!("ignored a notification from the client before `initialize`");
                    return None;
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Some(message)
    }

    /// Notes the answer to a message, if it has one: it is written, or waits for the others of its batch.
    fn settle(&mut self, batch: Option<u64>, answer: Option<Value>) {
        let Some(number) = batch else {
            if let Some(answer) = answer {
                self.write(&answer);
            }
            return;
        };
        let Some(batch) = self.batches.get_mut(&number) else { return };
        batch.answers.extend(answer);
        batch.n_open -= 1;
        if batch.n_open == 0
            && let Some(Batch { answers, .. }) = self.batches.remove(&number)
            && !answers.is_empty()
        {
            self.write(&Value::Array(answers));
        }
    }

    fn write(&self, value: &Value) {
        // A client that no longer reads does not miss it.
        let _ = self.write_text(value.to_string());
    }

    fn write_text(&self, text: String) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let output = self.output.as_ref().ok_or_else(gone)?;
        self.n_unwritten.send_modify(|n| *n += 1);
        output.send(text).map_err(|_| {
            self.n_unwritten.send_modify(|n| *n = n.saturating_sub(1));
            gone()
        })
    }

    fn answer(&mut self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        let id = match message {
            JsonRpcMessage::Response(response) => {
                if let ServerResult::InitializeResult(result) = &response.result {
                    // Version 2025-06-18 removed them.
                    self.takes_batches = result.protocol_version < ProtocolVersion::V_2025_06_18;
                }
                Some(&response.id)
            }
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(request) => {
                self.asked.insert(request.id.clone());
                None
            }
            JsonRpcMessage::Notification(_) => None,
        };
        match id.and_then(|id| self.open_requests.remove(id)).flatten() {
            None => self.write_text(serde_json::to_string(message)?),
            batch => {
                self.settle(batch, Some(serde_json::to_value(message)?));
                Ok(())
            }
        }
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        ready(self.answer(&message))
    }

    /// May be dropped while it waits: what is read is in a queue.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let n_unanswered = self.open_requests.len();
            if n_unanswered >= MAX_OPEN {
                // It is polled again whenever something was answered.
                std::future::pending::<()>().await;
            }
            // It fails only without a sender, which `self` holds.
            let _ = self.n_unwritten.subscribe().wait_for(|n| n_unanswered + n < MAX_OPEN).await;
            while let Some((message, batch)) = self.waiting.pop_front() {
                if let Some(message) = self.accept(message, batch) {
                    return Some(message);
                }
            }
            let line = self.input.recv().await?;
            self.take(line);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output = None;
        Ok(())
    }
}

/// Reads lines until the input ends; the last one needs no line ending.
async fn read_lines(input: impl AsyncRead + Unpin, lines: mpsc::Sender<ReadLine>) {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let (mut line, mut n_bytes) = (Vec::new(), 0);
    loop {
        let available = match input.fill_buf().await {
            Ok(available) => available,
            Err(error) => {
                tracing::warn!("cannot read from the client: {error}");
                return;
            }
        };
        let is_end_of_input = available.is_empty();
        let end = available.iter().position(|byte| *byte == b'\n');
        let n_of_line = end.unwrap_or(available.len());
        n_bytes += n_of_line;
        if n_bytes <= MAX_LINE_BYTES {
            line.extend_from_slice(&available[..n_of_line]);
        } else {
            line = Vec::new();
        }
        let n_read = end.map_or(n_of_line, |end| end + 1);
        input.consume(n_read);
        if end.is_some() || is_end_of_input {
            let whole = std::mem::take(&mut line);
            let whole = if n_bytes <= MAX_LINE_BYTES { Ok(whole) } else { Err(n_bytes) };
            n_bytes = 0;
            if lines.send(whole).await.is_err() || is_end_of_input {
                return;
            }
        }
    }
}

async fn write_lines(
    mut output: impl AsyncWrite + Unpin,
    mut lines: mpsc::UnboundedReceiver<String>,
    n_unwritten: Arc<watch::Sender<usize>>,
) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        let written = async {
            output.write_all(line.as_bytes()).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::warn!("cannot write to the client: {error}");
            // Nobody takes what is left, so nothing may wait for it to be written.
            n_unwritten.send_replace(0);
            return;
        }
        n_unwritten.send_modify(|n| *n = n.saturating_sub(1));
    }
}
