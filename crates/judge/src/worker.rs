//! A worker: executes tasks of a judging process elsewhere, with its own key and in its own sandbox.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quarry_llm::{Attempt, HttpTransport, Transport};
use quarry_queue::{Connection, Group, Outcome, QueueError, serve};
use quarry_sandbox::packages::{self, Index, Settings};

use crate::error::JudgeError;
use crate::programs::Programs;
use crate::remote::{ASK, PROTOCOL, ProgramTask, RUN, json, kind_of_programs, kind_of_questions};

/// Runs programs and calls models for judges on other machines.
pub struct Worker {
    /// The models that it may call, each with its key. A task cannot name others.
    pub models: Vec<HttpTransport>,
    pub questions: usize,
    /// Opens the environment for programs; `None` if the worker runs no programs.
    pub programs: Option<OpenPrograms>,
    /// The languages whose programs it can run; see [`Programs::languages`].
    pub languages: Vec<&'static str>,
    pub programs_at_once: usize,
    /// Time without a heartbeat after which its tasks are given to others.
    pub lease: Duration,
}

/// Opens the environment for programs, with packages by these settings or without.
pub type OpenPrograms = Box<dyn Fn(Option<&Settings>) -> Result<Arc<dyn Programs>, JudgeError> + Send + Sync>;

/// The environments that are already open, by their settings.
type OpenedPrograms = Mutex<Vec<(Option<Settings>, Arc<dyn Programs>)>>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerSummary {
    pub questions: u64,
    pub programs: u64,
}

impl Worker {
    /// Works until `connection` is stopped, then finishes current tasks.
    ///
    /// # Errors
    /// When there is nothing that it can do, or the sandbox stops working; its tasks are given back.
    pub fn work(&self, connection: &Connection) -> Result<WorkerSummary, JudgeError> {
        if self.models.is_empty() && self.languages.is_empty() {
            return Err(JudgeError::Idle);
        }
        let groups = [
            Group {
                kinds: self.models.iter().map(|model| kind_of_questions(model.address())).collect(),
                threads: self.questions,
            },
            Group {
                kinds: self.languages.iter().map(|language| kind_of_programs(language)).collect(),
                // Other programs run while packages are fetched.
                threads: self.programs_at_once + packages::SETS_AT_ONCE,
            },
        ];
        let (questions, programs, opened) = (AtomicU64::new(0), AtomicU64::new(0), OpenedPrograms::default());
        let do_task = |kind: &str, payload: &[u8]| {
            if kind.starts_with(ASK) {
                questions.fetch_add(1, Ordering::Relaxed);
                self.ask(kind, payload)
            } else {
                programs.fetch_add(1, Ordering::Relaxed);
                self.run(kind, payload, &opened)
            }
        };
        match serve(connection, PROTOCOL, self.lease, &groups, &do_task) {
            // Interrupted tasks are given back.
            Err(QueueError::Unable { .. }) if connection.is_stopped() => {}
            served => served?,
        }
        Ok(WorkerSummary { questions: questions.into_inner(), programs: programs.into_inner() })
    }

    fn ask(&self, kind: &str, payload: &[u8]) -> Outcome {
        let model = self.models.iter().find(|model| kind_of_questions(model.address()) == kind);
        let (Some(model), Ok(attempt)) = (model, serde_json::from_slice::<Attempt>(payload)) else {
            return Outcome::Refused(
                "the task is not a question to a model that the worker knows".to_owned(),
            );
        };
        match model.post(&attempt) {
            Ok(body) => Outcome::Done(body.into_bytes()),
            Err(failure) => Outcome::Failed(json(&failure)),
        }
    }

    fn run(&self, kind: &str, payload: &[u8], opened: &OpenedPrograms) -> Outcome {
        let (Some(open), Ok(task)) = (&self.programs, serde_json::from_slice::<ProgramTask>(payload)) else {
            return Outcome::Refused("the task is not a program that the worker can run".to_owned());
        };
        if kind.strip_prefix(RUN) != Some(task.program.language.as_str()) {
            return Outcome::Refused("the task's language does not match its kind".to_owned());
        }
        let programs = programs_for(task.packages, open, opened);
        match programs.and_then(|programs| programs.run(task.program, &task.code, &task.limits)) {
            Ok(run) => Outcome::Done(json(&run)),
            Err(JudgeError::Unrunnable { problem }) => Outcome::Failed(problem.into_bytes()),
            Err(error @ JudgeError::Packages(_)) => Outcome::Failed(error.to_string().into_bytes()),
            Err(error) => Outcome::Unable(error.to_string()),
        }
    }
}

/// The environment for programs whose packages are obtained as a task specifies: kept in this machine's own
/// directory, from an index that every machine can reach.
fn programs_for(
    packages: Option<Settings>,
    open: &OpenPrograms,
    opened: &OpenedPrograms,
) -> Result<Arc<dyn Programs>, JudgeError> {
    let cannot = |problem: &str| JudgeError::Unrunnable { problem: problem.to_owned() };
    let packages = match packages {
        None => None,
        Some(settings) => {
            if [&settings.pip, &settings.npm]
                .iter()
                .any(|rules| matches!(rules.index, Some(Index::Directory(_))))
            {
                return Err(cannot("its packages would come from a directory of the worker's machine"));
            }
            let cache = packages::default_cache()
                .ok_or_else(|| cannot("the worker has no directory for packages"))?;
            Some(Settings { cache, ..settings })
        }
    };
    let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, programs)) = opened.iter().find(|(known, _)| *known == packages) {
        return Ok(Arc::clone(programs));
    }
    let programs = open(packages.as_ref())?;
    opened.push((packages, Arc::clone(&programs)));
    Ok(programs)
}
