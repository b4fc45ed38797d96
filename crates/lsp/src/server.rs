//! The server: reads messages, has requests answered by threads, and can cancel them.
//!
//! One thread reads, so that documents change in the order of the client's messages and a request can be canceled while
//! it is answered. A slow answer is one whose index has to be built or refreshed; a cancellation is confirmed at once,
//! and the work in progress is finished for the next request.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, ResponseError};
use lsp_types::{
    CallHierarchyServerCapability, CodeLensOptions, ExecuteCommandOptions, InitializeResult, OneOf,
    SaveOptions, ServerCapabilities, ServerInfo, TextDocumentContentChangeEvent, TextDocumentSyncCapability,
    TextDocumentSyncKind, TextDocumentSyncOptions, TextDocumentSyncSaveOptions,
    WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::commands::COMMANDS;
use crate::error::RequestError;
use crate::folders::{Folders, MAX_FOLDERS, Opener, Searchable};
use crate::frames::{self, Frame, MAX_MESSAGE_BYTES};
use crate::locations::spelled_path_of;
use crate::navigation::Document;
use crate::outbox::Outbox;
use crate::progress::Reporter;
use crate::{OpenError, ServeError};

/// Requests that are answered at the same time.
const N_WORKERS: usize = 3;

/// Requests that may wait for their answers, and bytes of them.
const MAX_OPEN: usize = 1000;
const MAX_OPEN_BYTES: usize = 64 << 20;

/// Ways in which a client ends the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As the protocol says.
    Orderly,
    /// Without `shutdown`, or by closing its output without `exit`.
    Abrupt,
}

/// Serves a client until it ends. Whatever an [`Opener`] has begun then ends with the process.
///
/// # Errors
/// When a thread cannot be started or the input cannot be read.
pub fn serve(
    mut input: impl BufRead,
    output: impl Write + Send + 'static,
    opener: impl Opener,
) -> Result<Ending, ServeError> {
    let (outbox, writer) = Outbox::new(output)?;
    let (jobs, waiting) = mpsc::channel();
    let shared = Arc::new(Shared {
        folders: Folders::new(opener, outbox.clone()),
        outbox: outbox.clone(),
        open: Mutex::default(),
        shows_progress: Mutex::new(false),
        refreshing: Mutex::default(),
    });
    let waiting = Arc::new(Mutex::new(waiting));
    for _ in 0..N_WORKERS {
        let (shared, waiting) = (Arc::clone(&shared), Arc::clone(&waiting));
        let worker = thread::Builder::new().name("worker".to_owned());
        worker.spawn(move || shared.work(&waiting)).map_err(ServeError::Start)?;
    }
    let mut server = Server { shared, jobs, stage: Stage::New, watch: None };
    let ended = loop {
        match frames::read(&mut input) {
            Err(error) => break Err(ServeError::Read(error)),
            Ok(None) => break Ok(Ending::Abrupt),
            Ok(Some(frame)) => {
                if let Some(ending) = server.receive(frame) {
                    break Ok(ending);
                }
            }
        }
    };
    outbox.end();
    writer.wait();
    ended
}

struct Server<O> {
    shared: Arc<Shared<O>>,
    jobs: Sender<Job>,
    stage: Stage,
    watch: Option<Box<dyn Send>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Running,
    ShutDown,
}

struct Shared<O> {
    folders: Folders<O>,
    outbox: Outbox,
    open: Mutex<OpenRequests>,
    shows_progress: Mutex<bool>,
    /// Held while a worker refreshes the index unasked.
    refreshing: Mutex<()>,
}

enum Job {
    /// By its ticket.
    Request(u64),
    /// Has the index follow the files, so that the next request need not.
    Refresh,
}

/// Requests without an answer. A client may use an id again once it has canceled the request with it, so that each request
/// has a ticket of its own.
#[derive(Default)]
struct OpenRequests {
    tickets: HashMap<RequestId, u64>,
    /// Those that nobody works at yet, with their bytes.
    waiting: HashMap<u64, (Request, usize)>,
    n_bytes: usize,
    next_ticket: u64,
}

impl OpenRequests {
    /// Adds a request of `n_bytes`, and returns its ticket; none if its id is that of an open request.
    fn add(&mut self, request: Request, n_bytes: usize) -> Option<u64> {
        if self.tickets.contains_key(&request.id) {
            return None;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.tickets.insert(request.id.clone(), ticket);
        self.waiting.insert(ticket, (request, n_bytes));
        self.n_bytes += n_bytes;
        Some(ticket)
    }

    /// The request with a ticket, to work at it; none if it is canceled.
    fn take(&mut self, ticket: u64) -> Option<Request> {
        let (request, n_bytes) = self.waiting.remove(&ticket)?;
        self.n_bytes -= n_bytes;
        Some(request)
    }

    /// Ends a request; false if it has ended already.
    fn end(&mut self, id: &RequestId, ticket: u64) -> bool {
        self.tickets.get(id) == Some(&ticket) && self.tickets.remove(id).is_some()
    }

    /// Cancels the open request with an id; false if there is none.
    fn cancel(&mut self, id: &RequestId) -> bool {
        let Some(ticket) = self.tickets.remove(id) else { return false };
        drop(self.take(ticket));
        true
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Initialize {
    workspace_folders: Option<Vec<Document>>,
    root_uri: Option<String>,
    root_path: Option<PathBuf>,
    capabilities: Value,
    initialization_options: Option<InitializationOptions>,
}

#[derive(Deserialize)]
struct InitializationOptions {
    quality: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidOpen {
    text_document: OpenedDocument,
}

#[derive(Deserialize)]
struct OpenedDocument {
    uri: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidChange {
    text_document: Document,
    content_changes: Vec<TextDocumentContentChangeEvent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidClose {
    text_document: Document,
}

#[derive(Deserialize)]
struct FoldersChanged {
    event: FoldersEvent,
}

#[derive(Deserialize)]
struct FoldersEvent {
    added: Vec<Document>,
    removed: Vec<Document>,
}

#[derive(Deserialize)]
struct Cancel {
    id: RequestId,
}

impl<O: Opener> Server<O> {
    fn receive(&mut self, frame: Frame) -> Option<Ending> {
        let refuse = |code: ErrorCode, message: String| self.shared.outbox.refuse(&error(code, message));
        let bytes = match frame {
            Frame::Message(bytes) => bytes,
            Frame::TooLong(n) => {
                let problem = format!("a message of {n} bytes; expected at most {MAX_MESSAGE_BYTES}");
                refuse(ErrorCode::InvalidRequest, problem);
                return None;
            }
            Frame::NoLength => {
                refuse(ErrorCode::ParseError, "a header without Content-Length".to_owned());
                return None;
            }
        };
        let value: Value = match serde_json::from_slice(&bytes) {
            Ok(value) => value,
            Err(error) => {
                refuse(ErrorCode::ParseError, format!("a message that is not JSON: {error}"));
                return None;
            }
        };
        let (id, is_call) = (value.get("id").cloned(), value.get("method").is_some());
        match serde_json::from_value(value) {
            Ok(Message::Request(request)) => self.request(request, bytes.len()),
            Ok(Message::Notification(notification)) if id.is_none() => return self.notice(notification),
            // Nothing that is asked of the client matters.
            Ok(Message::Response(_)) => {}
            _ if id.is_some() && !is_call => {}
            _ => {
                let expected = "expected an object with `method`, `params`, and, in a request, an `id`: a string or an \
                                integer of 32 bits";
                refuse(ErrorCode::InvalidRequest, expected.to_owned());
            }
        }
        None
    }

    fn request(&mut self, request: Request, n_bytes: usize) {
        let outbox = &self.shared.outbox;
        let refuse = |id, code, message: &str| outbox.answer(id, Err(error(code, message.to_owned())));
        let Request { id, method, .. } = &request;
        match (self.stage, method.as_str()) {
            (Stage::New, "initialize") => match self.initialize(&request.params) {
                Ok(result) => {
                    outbox.answer(request.id, Ok(result));
                    self.stage = Stage::Running;
                }
                Err(problem) => outbox.answer(request.id, Err(problem.response())),
            },
            (Stage::New, _) => {
                refuse(request.id, ErrorCode::ServerNotInitialized, "expected `initialize` first");
            }
            (_, "initialize") => {
                refuse(request.id, ErrorCode::InvalidRequest, "the server is initialized already");
            }
            (Stage::ShutDown, _) => {
                refuse(request.id, ErrorCode::InvalidRequest, "the server is shut down; expected `exit`");
            }
            (Stage::Running, "shutdown") => {
                self.stage = Stage::ShutDown;
                self.watch = None;
                outbox.answer(request.id, Ok(Value::Null));
            }
            (Stage::Running, method) if !METHODS.contains(&method) => {
                let problem = format!("{method:?} is not supported");
                refuse(request.id, ErrorCode::MethodNotFound, &problem);
            }
            (Stage::Running, _) => {
                let mut open = self.shared.open();
                if open.tickets.len() >= MAX_OPEN || open.n_bytes + n_bytes > MAX_OPEN_BYTES {
                    let problem =
                        format!("{} requests are waiting for answers; try again later", open.tickets.len());
                    drop(open);
                    refuse(request.id, ErrorCode::RequestFailed, &problem);
                    return;
                }
                let id = id.clone();
                let ticket = open.add(request, n_bytes);
                drop(open);
                match ticket {
                    // The workers live as long as this.
                    Some(ticket) => drop(self.jobs.send(Job::Request(ticket))),
                    // An answer with this id would be taken for that of the other request.
                    None => {
                        let problem = format!("the id {id} of a request that has no answer yet");
                        outbox.refuse(&error(ErrorCode::InvalidRequest, problem));
                    }
                }
            }
        }
    }

    fn initialize(&self, params: &Value) -> Result<Value, RequestError> {
        let asked: Initialize = parameters(params)?;
        let folders = &self.shared.folders;
        let quality = asked.initialization_options.and_then(|options| options.quality);
        folders.check_quality(quality.as_deref())?;
        folders.set_quality(quality);
        let progress = asked.capabilities.pointer("/window/workDoneProgress");
        *self.shared.shows_progress.lock().unwrap_or_else(PoisonError::into_inner) =
            progress.and_then(Value::as_bool) == Some(true);
        let root = || asked.root_uri.as_deref().and_then(spelled_path_of).or(asked.root_path);
        let opened = match asked.workspace_folders {
            Some(folders) => folders.iter().filter_map(|folder| spelled_path_of(&folder.uri)).collect(),
            None => root().filter(|path| path.is_absolute()).into_iter().collect(),
        };
        let n_left_out = folders.change_paths(&[], opened);
        self.report_left_out(n_left_out);
        let save = TextDocumentSyncSaveOptions::SaveOptions(SaveOptions { include_text: Some(false) });
        let sync = TextDocumentSyncOptions {
            open_close: Some(true),
            change: Some(TextDocumentSyncKind::INCREMENTAL),
            save: Some(save),
            ..TextDocumentSyncOptions::default()
        };
        let changes = WorkspaceFoldersServerCapabilities {
            supported: Some(true),
            change_notifications: Some(OneOf::Left(true)),
        };
        let capabilities = ServerCapabilities {
            text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
            workspace_symbol_provider: Some(OneOf::Left(true)),
            references_provider: Some(OneOf::Left(true)),
            code_lens_provider: Some(CodeLensOptions { resolve_provider: Some(true) }),
            call_hierarchy_provider: Some(CallHierarchyServerCapability::Simple(true)),
            execute_command_provider: Some(ExecuteCommandOptions {
                commands: COMMANDS.map(str::to_owned).to_vec(),
                ..ExecuteCommandOptions::default()
            }),
            workspace: Some(WorkspaceServerCapabilities {
                workspace_folders: Some(changes),
                ..WorkspaceServerCapabilities::default()
            }),
            ..ServerCapabilities::default()
        };
        let server_info =
            ServerInfo { name: "quarry".to_owned(), version: Some(env!("CARGO_PKG_VERSION").to_owned()) };
        to_json(InitializeResult { capabilities, server_info: Some(server_info) })
    }

    fn notice(&mut self, notification: Notification) -> Option<Ending> {
        let Notification { method, params } = notification;
        if method == "exit" {
            let is_orderly = self.stage == Stage::ShutDown;
            return Some(if is_orderly { Ending::Orderly } else { Ending::Abrupt });
        }
        if self.stage != Stage::Running {
            return None;
        }
        if let Err(problem) = self.handle_notification(&method, &params) {
            tracing::warn!("ignored {method:?} from the client: {problem}");
        }
        None
    }

    fn handle_notification(&mut self, method: &str, params: &Value) -> Result<(), RequestError> {
        let folders = &self.shared.folders;
        match method {
            "initialized" => self.follow(),
            "$/cancelRequest" => {
                let Cancel { id } = parameters(params)?;
                if self.shared.open().cancel(&id) {
                    let canceled = error(ErrorCode::RequestCanceled, "canceled".to_owned());
                    self.shared.outbox.answer(id, Err(canceled));
                }
            }
            "textDocument/didOpen" => {
                let DidOpen { text_document: OpenedDocument { uri, text } } = parameters(params)?;
                folders.documents().open(uri, text);
            }
            "textDocument/didChange" => {
                let DidChange { text_document, content_changes } = parameters(params)?;
                folders.documents().change(&text_document.uri, content_changes);
            }
            "textDocument/didClose" => {
                let DidClose { text_document } = parameters(params)?;
                folders.documents().close(&text_document.uri);
            }
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => {
                folders.mark_changed();
                let _ = self.jobs.send(Job::Refresh);
            }
            "workspace/didChangeWorkspaceFolders" => {
                let FoldersChanged { event: FoldersEvent { added, removed } } = parameters(params)?;
                let paths = |documents: Vec<Document>| {
                    let paths = documents.iter().filter_map(|document| spelled_path_of(&document.uri));
                    paths.collect::<Vec<_>>()
                };
                let n_left_out = folders.change_paths(&paths(removed), paths(added));
                self.report_left_out(n_left_out);
                self.follow();
            }
            _ => {}
        }
        Ok(())
    }

    /// Tells the user of folders that are not searched.
    fn report_left_out(&self, n_left_out: usize) {
        if n_left_out > 0 {
            let message = format!(
                "Quarry searches the first {MAX_FOLDERS} folders; {n_left_out} more are left out. Close some, or open \
                 a folder around them"
            );
            self.shared.outbox.notify("window/showMessage", json!({"type": 2, "message": message}));
        }
    }

    /// Follows the files of the folders from now on, and indexes them.
    fn follow(&mut self) {
        let (shared, jobs) = (Arc::clone(&self.shared), self.jobs.clone());
        let changed = move || {
            shared.folders.mark_changed();
            // It is the end if nobody works any longer.
            let _ = jobs.send(Job::Refresh);
        };
        let folders = &self.shared.folders;
        self.watch = Some(folders.opener().watch(&folders.paths(), Arc::new(changed)));
        let _ = self.jobs.send(Job::Refresh);
    }
}

const METHODS: [&str; 8] = [
    "workspace/symbol",
    "workspace/executeCommand",
    "textDocument/references",
    "textDocument/codeLens",
    "codeLens/resolve",
    "textDocument/prepareCallHierarchy",
    "callHierarchy/incomingCalls",
    "callHierarchy/outgoingCalls",
];

impl<O: Opener> Shared<O> {
    fn open(&self) -> MutexGuard<'_, OpenRequests> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, waiting: &Mutex<Receiver<Job>>) {
        loop {
            let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
            match job {
                Err(_) => return,
                Ok(Job::Refresh) => {
                    // One worker waits for it; the others answer.
                    let Ok(_refreshing) = self.refreshing.try_lock() else { continue };
                    while catch_unwind(AssertUnwindSafe(|| self.refresh())).unwrap_or(false) {}
                }
                Ok(Job::Request(ticket)) => {
                    // It may be canceled by now.
                    let taken = self.open().take(ticket);
                    let Some(Request { id, method, params }) = taken else { continue };
                    let answer = catch_unwind(AssertUnwindSafe(|| self.answer(&method, &params)));
                    let answer = match answer {
                        Ok(answer) => answer.map_err(|problem| problem.response()),
                        Err(_) => {
                            let problem = format!("{method} failed unexpectedly; please report it");
                            Err(error(ErrorCode::InternalError, problem))
                        }
                    };
                    if self.open().end(&id, ticket) {
                        self.outbox.answer(id, answer);
                    }
                }
            }
        }
    }

    /// Has the index follow the files; whether these have changed meanwhile.
    fn refresh(&self) -> bool {
        let (reporter, changed) = (self.reporter(), self.folders.changed());
        if let Err(problem) = self.folders.refresh(&|event| reporter.report(event)) {
            tracing::info!("cannot refresh the index: {problem}");
            return false;
        }
        self.folders.changed() > changed
    }

    fn answer(&self, method: &str, params: &Value) -> Result<Value, RequestError> {
        let answered = match method {
            "workspace/executeCommand" => {
                let reporter = self.reporter();
                return self.folders.execute(parameters(params)?, &|event| reporter.report(event));
            }
            "workspace/symbol" => self.with(params, Searchable::symbols),
            "textDocument/references" => self.with(params, Searchable::references),
            "textDocument/codeLens" => self.with(params, Searchable::lenses),
            "codeLens/resolve" => self.with(params, Searchable::lens),
            "textDocument/prepareCallHierarchy" => self.with(params, Searchable::hierarchy),
            "callHierarchy/incomingCalls" => self.with(params, Searchable::incoming),
            _ => self.with(params, Searchable::outgoing),
        };
        match answered {
            // An editor sends these unasked, and a folder without code is not an error.
            Err(RequestError::Open(OpenError::Nothing(_))) => Ok(Value::Null),
            answered => answered,
        }
    }

    fn with<A: DeserializeOwned, T: Serialize>(
        &self,
        params: &Value,
        answer: impl Fn(&Searchable, &A) -> Result<T, RequestError>,
    ) -> Result<Value, RequestError> {
        let (asked, reporter) = (parameters(params)?, self.reporter());
        let answer = |found: &Searchable| to_json(answer(found, &asked)?);
        self.folders.answer(None, &|event| reporter.report(event), answer)
    }

    fn reporter(&self) -> Reporter<'_> {
        let shows_progress = *self.shows_progress.lock().unwrap_or_else(PoisonError::into_inner);
        Reporter::new(shows_progress.then_some(&self.outbox))
    }
}

fn parameters<T: DeserializeOwned>(params: &Value) -> Result<T, RequestError> {
    T::deserialize(params).map_err(|error| RequestError::Parameters(error.to_string()))
}

fn to_json(value: impl Serialize) -> Result<Value, RequestError> {
    serde_json::to_value(value).map_err(|error| RequestError::Failed(error.to_string()))
}

fn error(code: ErrorCode, message: String) -> ResponseError {
    ResponseError { code: code as i32, message, data: None }
}
