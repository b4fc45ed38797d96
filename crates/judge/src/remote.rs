//! Distributing work of a judge to workers on other machines: the messages, and the side of the judging process.
//!
//! Everything that must exist only once stays in the judging process: the ledger, the budget, the order of steps, and
//! the schedule of retries. A worker makes one attempt of a call, or runs one program. It knows nothing of pairs, and
//! needs only the task, the model's key from its own environment, and a sandbox.

use std::sync::Arc;

use quarry_files::digest;
use quarry_llm::{Attempt, Failure, LlmError, Transport};
use quarry_queue::{Connection, Dispatcher, QueueError, Reply, Task};
use quarry_sandbox::Limits;
use quarry_sandbox::packages::Settings;
use serde::{Deserialize, Serialize};

use crate::error::JudgeError;
use crate::evidence::{Run, TestProgram};
use crate::programs::Programs;

/// Version of the protocol between both sides. It changes whenever tasks or replies become incompatible.
pub(crate) const PROTOCOL: &str = "judge-3";

/// Maximum number of workers that may be lost with a program before the program is considered the cause.
const MAX_LOST_WITH_PROGRAM: u32 = 3;

/// Prefixes of the kinds of tasks; followed by the model, or the language.
pub(crate) const ASK: &str = "ask-";
pub(crate) const RUN: &str = "run-";

/// The kind of tasks that call the model at an address.
pub(crate) fn kind_of_questions(address: &str) -> String {
    format!("{ASK}{}", &digest(&[address])[..16])
}

/// The kind of tasks that run programs in a language.
pub(crate) fn kind_of_programs(language: &str) -> String {
    format!("{RUN}{language}")
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProgramTask {
    pub(crate) program: TestProgram,
    pub(crate) code: String,
    pub(crate) limits: Limits,
    pub(crate) packages: Option<Settings>,
}

/// Distributes the work of one ledger, or of the store of an author, to workers.
#[derive(Debug)]
pub(crate) struct Remote {
    dispatcher: Dispatcher,
    packages: Option<Settings>,
}

impl Remote {
    /// `queue` names the ledger or the store, whatever its path is.
    pub(crate) fn new(
        connection: &Connection,
        queue: &str,
        packages: Option<Settings>,
    ) -> Result<Self, JudgeError> {
        Ok(Self { dispatcher: Dispatcher::new(connection, queue, PROTOCOL)?, packages })
    }

    /// A transport to the model of `settings`.
    pub(crate) fn questions(
        self: &Arc<Self>,
        settings: &quarry_llm::Settings,
    ) -> Result<Questions, LlmError> {
        let address = settings.address()?;
        let about = format!("a question to {address}");
        Ok(Questions { remote: Arc::clone(self), kind: kind_of_questions(&address), about, settles: false })
    }

    /// Reports that the answer to the request with this name is stored.
    pub(crate) fn noted(&self, name: &str) {
        self.dispatcher.settle(name);
    }

    /// Withdraws tasks that no worker has started.
    pub(crate) fn withdraw(&self) {
        self.dispatcher.withdraw();
    }

    /// Removes the remaining data of this queue from the server when all work is done.
    pub(crate) fn clear(&self) -> Result<(), JudgeError> {
        Ok(self.dispatcher.clear()?)
    }
}

/// Sends attempts of calls to workers.
#[derive(Debug)]
pub(crate) struct Questions {
    remote: Arc<Remote>,
    kind: String,
    about: String,
    /// If true, a reply is acknowledged as soon as it is returned, rather than once the caller has stored it.
    settles: bool,
}

/// Lets workers call the models for callers that store answers themselves. A reply is acknowledged as soon as it is
/// returned, so a process that ends before storing it asks again.
#[derive(Debug)]
pub struct WorkerModels {
    remote: Arc<Remote>,
}

impl WorkerModels {
    /// Creates one for the questions of the queue with this name.
    ///
    /// # Errors
    /// When `queue` is not a valid name, or the user stopped before the server could be reached.
    pub fn new(connection: &Connection, queue: &str) -> Result<Self, JudgeError> {
        Ok(Self { remote: Arc::new(Remote::new(connection, queue, None)?) })
    }

    /// A transport to the model of `settings`.
    ///
    /// # Errors
    /// When a setting is invalid.
    pub fn transport(&self, settings: &quarry_llm::Settings) -> Result<Box<dyn Transport>, LlmError> {
        Ok(Box::new(Questions { settles: true, ..self.remote.questions(settings)? }))
    }
}

impl Transport for Questions {
    fn post(&self, attempt: &Attempt) -> Result<String, Failure> {
        let task = Task {
            kind: self.kind.clone(),
            name: attempt.name.clone(),
            payload: json(attempt),
            about: self.about.clone(),
        };
        // A lost worker may have incurred costs: the client books them, and decides whether to try again.
        match self.remote.dispatcher.submit(&task, 1) {
            Ok(Reply::Done(body)) => {
                if self.settles {
                    self.remote.noted(&task.name);
                }
                String::from_utf8(body)
                    .map_err(|_| Failure::Answer { problem: "the body is not UTF-8".to_owned() })
            }
            Ok(Reply::Failed(failure)) => Err(serde_json::from_slice(&failure)
                .unwrap_or_else(|error| Failure::Broken { problem: unreadable(&error) })),
            Ok(Reply::Lost(problem)) => Err(Failure::Broken { problem }),
            Err(QueueError::Stopped) => Err(Failure::Withdrawn),
            // The same failure as when a model's server rejects a request as too large.
            Err(error @ QueueError::TooLarge { .. }) => Err(Failure::Status {
                status: 413,
                message: error.to_string(),
                retry_after: None,
                quota_used_up: false,
                usage: None,
            }),
            Err(error) => Err(Failure::Unreachable { problem: error.to_string() }),
        }
    }
}

impl Remote {
    fn program_task(&self, program: &TestProgram, code: &str, limits: &Limits) -> Task {
        let payload = json(&ProgramTask {
            program: program.clone(),
            code: code.to_owned(),
            limits: limits.clone(),
            packages: self.packages.clone(),
        });
        Task {
            kind: kind_of_programs(&program.language),
            name: digest(&[PROTOCOL, &String::from_utf8_lossy(&payload)]),
            payload,
            about: format!("a program in {}", program.language),
        }
    }
}

impl Programs for Remote {
    fn run(&self, program: TestProgram, code: &str, limits: &Limits) -> Result<Run, JudgeError> {
        let cannot = |problem: String| JudgeError::Unrunnable { problem };
        match self.dispatcher.submit(&self.program_task(&program, code, limits), MAX_LOST_WITH_PROGRAM) {
            Ok(Reply::Done(run)) => serde_json::from_slice(&run).map_err(|error| cannot(unreadable(&error))),
            Ok(Reply::Failed(problem)) => Err(cannot(String::from_utf8_lossy(&problem).into_owned())),
            Ok(Reply::Lost(problem)) => Err(cannot(problem)),
            Err(QueueError::Stopped) => Err(JudgeError::Stopped),
            Err(error @ QueueError::TooLarge { .. }) => Err(cannot(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    fn noted(&self, program: &TestProgram, code: &str, limits: &Limits) {
        self.dispatcher.settle(&self.program_task(program, code, limits).name);
    }
}

/// Serializes data that consists of texts, numbers and lists, which cannot fail.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn unreadable(error: &serde_json::Error) -> String {
    format!("a worker's reply cannot be read: {error}; use the same version of quarry on all machines")
}
