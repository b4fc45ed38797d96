//! Generating and grading texts from prompts, for building data sets rather than for verdicts on pairs. Answers are
//! cached beside the generated data, and calls are logged, so that nothing is paid for twice and no budget is
//! exceeded, even if the work is interrupted.

mod log;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quarry_files::digest;
use quarry_llm::budget::Price;
use quarry_llm::{
    Budget, Cache, CallControl, ChatAnswer, ChatRequest, Client, Cost, Limits, LlmError, Money, Recording,
    Settings, Stop,
};
use quarry_queue::Connection;
use serde::Deserialize;

use crate::error::JudgeError;
use crate::judge::ask_until_parsed;
use crate::language::Language;
use crate::plan::file::BudgetPlan;
use crate::plan::open;
use crate::prompt::{Prompt, Prompts};
use crate::remote::Remote;
use crate::run::affects_all_pairs;
use crate::run::waiting::RequestsInFlight;
use log::CallLog;

/// The entries of a plan that configure the models. Paths are relative to the plan's directory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorPlan {
    /// The model that generates.
    pub model: Settings,
    /// The model that validates what was generated; the same model if `None`.
    pub validator: Option<Settings>,
    /// Directory with prompts that replace the built-in ones.
    prompts: Option<PathBuf>,
    /// Maximum number of tries until the answer can be parsed.
    #[serde(default = "two")]
    attempts: u32,
    /// Sampling temperature; that of each prompt if `None`.
    temperature: Option<f64>,
    /// A recording whose answers are replayed instead of asking the models.
    replay: Option<PathBuf>,
    /// A file to which all answers are recorded.
    record: Option<PathBuf>,
    /// A directory with cached answers; that of the build if `None`.
    cache: Option<PathBuf>,
    #[serde(default)]
    budget: BudgetPlan,
}

fn two() -> u32 {
    2
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorAnswer<T> {
    /// The parsed answer.
    Read(T),
    /// The model refused, or no answer could be parsed: asking again would not help.
    Unreadable(String),
    /// The server rejects the question: asking again would not help, unless it rejects all of them for a wrong setting.
    Rejected(String),
    /// The question failed; it can be asked again.
    Failed(String),
}

impl<T> AuthorAnswer<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> AuthorAnswer<U> {
        match self {
            Self::Read(answer) => AuthorAnswer::Read(change(answer)),
            Self::Unreadable(problem) => AuthorAnswer::Unreadable(problem),
            Self::Rejected(problem) => AuthorAnswer::Rejected(problem),
            Self::Failed(problem) => AuthorAnswer::Failed(problem),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graded {
    /// The grade that the prompt assigns to the model's verdict.
    pub grade: u8,
    pub reason: String,
}

/// Usage of the questions asked, cached answers included; independent of interruptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthorUsage {
    pub questions: u64,
    /// Tokens and money, as reported by the servers.
    pub cost: Cost,
}

impl AuthorUsage {
    fn add(&mut self, answer: &ChatAnswer, price: Price) {
        self.questions += 1;
        self.cost += answer.usage.map_or_else(Cost::default, |usage| price.cost(usage));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorRole {
    /// The model that generates.
    Writer,
    /// The model that validates.
    Validator,
}

struct Model {
    client: Client,
    price: Price,
}

/// Asks models to generate and to grade. Can be shared between threads.
pub struct Author {
    prompts: Prompts,
    attempts: u32,
    temperature: Option<f64>,
    writer: Model,
    validator: Option<Model>,
    at_once: usize,
    log: CallLog,
    remote: Option<Arc<Remote>>,
    in_flight: RequestsInFlight,
    usage: Mutex<AuthorUsage>,
}

impl AuthorPlan {
    /// Validates the entries, without reading the files that they name.
    ///
    /// # Errors
    /// The invalid entry, and what was expected.
    pub fn validate(&self) -> Result<(), String> {
        if self.attempts == 0 || self.attempts > 1000 {
            return Err(format!("`attempts` is {}; expected 1 to 1000", self.attempts));
        }
        if self.replay.is_some() && (self.record.is_some() || self.cache.is_some()) {
            return Err("`replay` replaces the model; remove `record` and `cache`".to_owned());
        }
        if let Some(temperature) = self.temperature.filter(|given| !(0.0..=2.0).contains(given)) {
            return Err(format!("`temperature` is {temperature}; expected 0 to 2"));
        }
        if self.budget.dollars.is_some_and(|dollars| Money::from_dollars(dollars).is_none()) {
            return Err("`budget.dollars` is not an amount; expected dollars, 0 or more".to_owned());
        }
        for model in [Some(&self.model), self.validator.as_ref()].into_iter().flatten() {
            open::price(model)?;
        }
        Ok(())
    }

    /// Hash of everything that answers to the named prompts depend on.
    pub fn version(
        &self,
        directory: &Path,
        role: AuthorRole,
        prompts: &[&str],
    ) -> Result<String, JudgeError> {
        let known = self.prompts(directory)?;
        let settings = match role {
            AuthorRole::Writer => &self.model,
            AuthorRole::Validator => self.validator.as_ref().unwrap_or(&self.model),
        };
        let temperature = self.temperature.map_or_else(String::new, |temperature| temperature.to_string());
        let attempts = self.attempts.to_string();
        let mut parts = vec![settings.base_url.as_str(), &settings.model, &temperature, &attempts];
        for name in prompts {
            parts.push(&known.named(name)?.version);
        }
        Ok(digest(&parts)[..16].to_owned())
    }

    fn prompts(&self, directory: &Path) -> Result<Prompts, JudgeError> {
        let path = self.prompts.as_deref().map(|path| resolved(directory, path)).transpose()?;
        Prompts::open(path.as_deref())
    }
}

/// Names a store to workers: made once, so that answers which arrived after a kill are found again.
pub fn queue_of(store: &Path) -> Result<String, JudgeError> {
    let path = store.join("queue");
    let failed = |source| JudgeError::Write { path: path.clone(), source };
    let is_name = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match quarry_files::read_regular_text(&path, 64) {
        Ok(known) if is_name(&known) => return Ok(known),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(JudgeError::Read { path, source: error });
        }
        // A name that is not valid was cut off.
        _ => {}
    }
    quarry_files::create_private_directory(store).map_err(failed)?;
    let name = format!("{:032x}", fastrand::u128(..));
    quarry_files::replace(&path, ".tmp", quarry_files::Readers::User, name.as_bytes()).map_err(failed)?;
    Ok(name)
}

fn resolved(directory: &Path, path: &Path) -> Result<PathBuf, JudgeError> {
    quarry_files::member(directory, path)
        .map_err(|problem| JudgeError::Plan { path: directory.join(path), problem })
}

impl Author {
    /// Connects to the models of a plan; paths are relative to `directory`. The cache of answers and the log of calls
    /// are kept in `store`.
    ///
    /// # Errors
    /// When a setting is invalid, a key is missing, or a file cannot be read or written.
    pub fn open(plan: &AuthorPlan, directory: &Path, store: &Path) -> Result<Self, JudgeError> {
        Self::open_with(plan, directory, store, None)
    }

    /// Like [`Author::open`], but models are asked where the workers are that are connected to the same server, with the
    /// keys of these.
    ///
    /// # Errors
    /// As for [`Author::open`]; [`JudgeError::Stopped`] when the user stopped before the server could be notified.
    pub fn open_for_workers(
        plan: &AuthorPlan,
        directory: &Path,
        store: &Path,
        connection: &Connection,
    ) -> Result<Self, JudgeError> {
        let remote = Remote::new(connection, &queue_of(store)?, None)?;
        Self::open_with(plan, directory, store, Some(Arc::new(remote)))
    }

    fn open_with(
        plan: &AuthorPlan,
        directory: &Path,
        store: &Path,
        remote: Option<Arc<Remote>>,
    ) -> Result<Self, JudgeError> {
        let wrong = |problem: String| JudgeError::Plan {
            path: directory.to_owned(),
            problem: format!("[author]: {problem}"),
        };
        plan.validate().map_err(wrong)?;
        let log = CallLog::open(&store.join("calls.jsonl"))?;
        let money = plan.budget.dollars.and_then(Money::from_dollars);
        let budget = Budget::new(Limits { tokens: plan.budget.tokens, money }, log.spent());
        let written = |path: &Path| quarry_files::output(directory, path).map_err(wrong);
        let model = |settings: &Settings| -> Result<Model, JudgeError> {
            let here = |error| match error {
                LlmError::Settings { problem } => wrong(problem),
                error => JudgeError::Model(error),
            };
            let client = match (&plan.replay, &remote) {
                (Some(recording), _) => {
                    let recording = Recording::open(&resolved(directory, recording)?)?;
                    Client::replay(settings.clone(), recording)
                }
                (None, Some(remote)) => {
                    let transport = remote.questions(settings).map_err(here)?;
                    Client::with_transport(settings.clone(), Box::new(transport))
                }
                (None, None) => Client::new(settings.clone()),
            };
            // An empty answer is unreadable like others: it is kept, so that it is not paid for again.
            let mut client = client.map_err(here)?.with_empty_answers();
            if plan.replay.is_none() {
                let cache = plan.cache.as_deref().map(written).transpose()?;
                client = client.with_cache(Cache::open(&cache.unwrap_or_else(|| store.join("answers")))?);
            }
            if let Some(path) = &plan.record {
                client = client.with_recording(&written(path)?)?;
            }
            let client = client.with_budget(budget.clone()).map_err(here)?;
            Ok(Model { client, price: open::price(settings).map_err(wrong)? })
        };
        Ok(Self {
            prompts: plan.prompts(directory)?,
            attempts: plan.attempts,
            temperature: plan.temperature,
            writer: model(&plan.model)?,
            validator: plan.validator.as_ref().map(model).transpose()?,
            at_once: plan.model.concurrency.max(1) as usize,
            log,
            remote,
            in_flight: RequestsInFlight::default(),
            usage: Mutex::default(),
        })
    }

    /// Usage of all questions since it was opened.
    pub fn usage(&self) -> AuthorUsage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Maximum number of concurrent questions.
    pub fn at_once(&self) -> usize {
        self.at_once
    }

    fn model(&self, role: AuthorRole) -> &Model {
        match role {
            AuthorRole::Validator => self.validator.as_ref().unwrap_or(&self.writer),
            AuthorRole::Writer => &self.writer,
        }
    }

    /// The text that the generating model answers to a prompt.
    ///
    /// # Errors
    /// When an error affects all questions, or the user stopped.
    pub fn write(
        &self,
        prompt: &str,
        values: &BTreeMap<&str, String>,
        stop: &AtomicBool,
    ) -> Result<AuthorAnswer<String>, JudgeError> {
        let prompt = self.prompts.named(prompt)?;
        self.ask(AuthorRole::Writer, prompt, values, stop, |text| prompt.grammar().read_text(text))
    }

    /// The grade that a prompt's answer gives.
    pub fn grade(
        &self,
        role: AuthorRole,
        prompt: &str,
        values: &BTreeMap<&str, String>,
        stop: &AtomicBool,
    ) -> Result<AuthorAnswer<Graded>, JudgeError> {
        let prompt = self.prompts.named(prompt)?;
        self.ask(role, prompt, values, stop, |text| {
            let answer = prompt.grammar().read(text)?;
            let grade = answer.meaning.grade.ok_or("expected a verdict with a grade")?;
            Ok(Graded { grade, reason: answer.reason })
        })
    }

    fn ask<T>(
        &self,
        role: AuthorRole,
        prompt: &Prompt,
        values: &BTreeMap<&str, String>,
        stop: &AtomicBool,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<AuthorAnswer<T>, JudgeError> {
        let mut request = prompt.request(values);
        request.temperature = self.temperature.or(request.temperature);
        let model = self.model(role);
        let answer = |request: &ChatRequest| -> Result<String, Refused> {
            if stop.load(Ordering::SeqCst) {
                return Err(Refused::All(JudgeError::Stopped));
            }
            let answer = self.call(model, request, stop).map_err(|error| match error {
                Error::Model(LlmError::Failed { failure, .. }) if failure.is_rejection() => {
                    Refused::Rejected(failure.to_string())
                }
                Error::Model(error) if !affects_all_pairs(&error) => match JudgeError::from(error) {
                    JudgeError::Stopped => Refused::All(JudgeError::Stopped),
                    error => Refused::Failed(error.to_string()),
                },
                Error::Model(error) => Refused::All(error.into()),
                Error::Other(error) => Refused::All(error),
            })?;
            self.usage.lock().unwrap_or_else(PoisonError::into_inner).add(&answer, model.price);
            match answer.stop {
                Stop::Refusal => Err(Refused::Unreadable(format!("the model refused: {}", answer.text))),
                Stop::Length => {
                    let problem = "the answer reached `max_output_tokens` of its prompt and was cut off";
                    Err(Refused::Unreadable(problem.to_owned()))
                }
                Stop::Complete | Stop::Other(_) => Ok(answer.text),
            }
        };
        Ok(match ask_until_parsed(self.attempts, &prompt.name, &mut request, answer, read) {
            Ok(Ok(found)) => AuthorAnswer::Read(found),
            Ok(Err(problem)) | Err(Refused::Unreadable(problem)) => AuthorAnswer::Unreadable(problem),
            Err(Refused::Rejected(problem)) => AuthorAnswer::Rejected(problem),
            Err(Refused::Failed(problem)) => AuthorAnswer::Failed(problem),
            Err(Refused::All(error)) => return Err(error),
        })
    }

    /// One call, logged before it is sent.
    fn call(&self, model: &Model, request: &ChatRequest, stop: &AtomicBool) -> Result<ChatAnswer, Error> {
        let name = model.client.chat_name(request);
        // If the same request is already in flight, its answer serves both.
        let _asked = self.in_flight.enter(&name);
        let worst = model.client.estimate_chat(std::slice::from_ref(request)).map_err(Error::Model)?.worst;
        let mut failure = None;
        let mut n_begun = 0;
        let mut sending = || match self.log.begin(&name, worst) {
            Ok(()) => {
                n_begun += 1;
                true
            }
            Err(error) => {
                failure = Some(error);
                false
            }
        };
        let watch = CallControl { sending: &mut sending, is_over: &|| stop.load(Ordering::SeqCst) };
        let (answer, booked) = model.client.chat_with_cost(request, watch);
        if n_begun > 0 {
            self.log.end(&name, n_begun, booked.cost).map_err(Error::Other)?;
        }
        if let Some(error) = failure {
            return Err(Error::Other(error));
        }
        let answer = answer.map_err(Error::Model)?;
        model.client.check_kept().map_err(Error::Model)?;
        if let Some(remote) = &self.remote {
            remote.noted(&name);
        }
        Ok(answer)
    }

    /// Removes the data on the workers' server, once all questions are answered.
    ///
    /// # Errors
    /// When the user stopped before the server could be notified.
    pub fn clear(&self) -> Result<(), JudgeError> {
        self.remote.as_ref().map_or(Ok(()), |remote| remote.clear())
    }
}

/// The name of a language as used in prompts.
pub fn language_title(name: &str) -> &str {
    Language::named(name).map_or(name, |language| &language.title)
}

enum Refused {
    Unreadable(String),
    Rejected(String),
    Failed(String),
    All(JudgeError),
}

enum Error {
    Model(LlmError),
    Other(JudgeError),
}
