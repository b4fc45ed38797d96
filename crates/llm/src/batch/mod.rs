//! Batches of questions, answered within a day for half the price: OpenAI's batches and Anthropic's message batches.
//!
//! Nothing here waits. The caller that sends a batch keeps its id, polls its state, and reads the answers when it has
//! ended, in any order and perhaps days later. A batch whose id was lost, because the connection broke or the process
//! ended while it was sent, can be found again, so that it is not sent twice.

mod anthropic;
mod openai;

use std::ops::Deref;
use std::time::Duration;

use serde_json::Value;

use crate::budget::{Cost, Price};
use crate::error::{Failure, LlmError};
use crate::key::ApiKey;
use crate::pace::sleep;
use crate::request::{ChatAnswer, ChatRequest};
use crate::retry;
use crate::settings::{Endpoint, Provider, Settings};
use crate::transport::HttpTransport;
use crate::wire;

/// Maximum number of questions in a batch, and of their total bytes: a fifth of OpenAI's limit, a tenth of
/// Anthropic's.
pub const MAX_QUESTIONS: usize = 10_000;
/// See [`MAX_QUESTIONS`].
pub const MAX_BYTES: usize = 32 << 20;

/// Tolerance for clock differences when comparing a batch's creation time with the time it was sent.
const CLOCK_SECONDS: f64 = 600.0;

/// Sends batches to one model at one endpoint, and tracks them.
#[derive(Debug)]
pub struct Batches {
    endpoint: Endpoint,
    transport: HttpTransport,
}

/// Batches whose requests can be canceled: a wait between attempts then ends at once, with [`Failure::Withdrawn`].
#[derive(Clone, Copy)]
pub struct Cancellable<'a> {
    batches: &'a Batches,
    is_canceled: &'a (dyn Fn() -> bool + Sync),
}

impl Deref for Cancellable<'_> {
    type Target = Batches;

    fn deref(&self) -> &Batches {
        self.batches
    }
}

/// The outcome of sending a batch.
#[derive(Debug)]
pub enum SendOutcome {
    /// The provider accepted it, with this id.
    Accepted(String),
    /// The provider does not have it.
    NotSent(Failure),
    /// The provider may have it: look for it with [`Cancellable::find`].
    Unknown(Failure),
}

/// The state of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchState {
    /// Some questions do not have an answer yet.
    InProgress,
    /// No more answers will come.
    Ended,
    /// The provider rejected it, for this reason. It costs nothing.
    Refused(String),
}

/// The outcome of looking for a batch whose id is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FindOutcome {
    /// The provider has it, with this id.
    Found(String),
    /// A batch that may be it has not ended: try again later.
    Pending,
    /// The provider does not have it.
    NotFound,
}

/// A description of a sent batch whose id is not known.
#[derive(Clone, Copy)]
pub struct SentBatch<'a> {
    /// The name under which it was sent.
    pub name: &'a str,
    /// Number of its questions.
    pub n_questions: usize,
    /// When it was sent, in seconds since 1970.
    pub sent: f64,
    /// Whether the batch with this id is known to be another one.
    pub is_other: &'a dyn Fn(&str) -> bool,
    /// Whether it contains a question with this name.
    pub holds: &'a dyn Fn(&str) -> bool,
}

/// The answer to one question of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchAnswer {
    /// The name of the question.
    pub name: String,
    /// The body of its answer, to be parsed with [`Batches::read`]; or why there is none, which costs nothing.
    pub body: Result<String, String>,
}

/// A batch in the provider's list.
struct ListedBatch {
    id: String,
    name: Option<String>,
    /// Creation time in seconds since 1970.
    created: f64,
    n_questions: Option<u64>,
    has_ended: bool,
}

impl Batches {
    /// Connects to a model, with the key from the environment variable that the settings name.
    ///
    /// # Errors
    /// When a setting is invalid, or the key is missing. Nothing is sent yet.
    pub fn new(settings: Settings) -> Result<Self, LlmError> {
        let key = settings.key_variable.as_deref().map(ApiKey::from_environment).transpose()?;
        Self::with_key(settings, key)
    }

    /// The same with a given key.
    ///
    /// # Errors
    /// When a setting is invalid.
    pub fn with_key(settings: Settings, key: Option<ApiKey>) -> Result<Self, LlmError> {
        let endpoint = settings.check()?;
        let transport = HttpTransport::to(endpoint.address.clone(), key, 1)?;
        Ok(Self { endpoint, transport })
    }

    /// The price of tokens in batches.
    pub fn price(&self) -> Price {
        self.endpoint.price.in_batch()
    }

    /// The maximum cost of a question.
    pub fn worst(&self, request: &ChatRequest) -> Cost {
        self.price().of(wire::chat_call(&self.endpoint, request).worst)
    }

    /// Size of a question in a batch, in bytes.
    pub fn bytes(&self, request: &ChatRequest) -> usize {
        wire::chat_call(&self.endpoint, request).body.to_string().len()
    }

    /// How long after sending a batch it may be missing from the provider's list, in seconds.
    pub fn seconds_until_settled(&self) -> f64 {
        self.endpoint.settings.timeout_seconds
    }

    /// Parses the answer in a body, and its cost if the body reports a usable one.
    pub fn read(&self, body: &str) -> (Result<ChatAnswer, String>, Option<Cost>) {
        let cost = wire::usage(body, true).map(|usage| self.price().of(usage));
        (wire::chat_answer(self.endpoint.settings.provider, body, false), cost)
    }

    /// The same batches, with waits that end once `is_canceled` returns true.
    pub fn until<'a>(&'a self, is_canceled: &'a (dyn Fn() -> bool + Sync)) -> Cancellable<'a> {
        Cancellable { batches: self, is_canceled }
    }
}

impl Cancellable<'_> {
    /// Sends questions, each with a name (at most 64 letters, digits, `-` and `_`), as one batch with name `name`.
    pub fn send(&self, name: &str, questions: &[(String, ChatRequest)]) -> SendOutcome {
        let bodies = questions
            .iter()
            .map(|(name, request)| (name.as_str(), wire::chat_call(&self.endpoint, request).body));
        match self.endpoint.settings.provider {
            Provider::Anthropic => anthropic::create(self, bodies),
            Provider::Openai | Provider::OpenaiCompatible => openai::create(self, name, bodies),
        }
    }

    /// Searches for a batch that was sent, and whose id is not known.
    ///
    /// # Errors
    /// When the provider's list of batches cannot be read.
    pub fn find(&self, batch: &SentBatch<'_>) -> Result<FindOutcome, LlmError> {
        let mut answer = FindOutcome::NotFound;
        let mut after: Option<String> = None;
        loop {
            let (page, has_more) = match self.endpoint.settings.provider {
                Provider::Anthropic => anthropic::list(self, after.as_deref()),
                Provider::Openai | Provider::OpenaiCompatible => openai::list(self, after.as_deref()),
            }
            .map_err(|failure| self.failed(failure))?;
            for listed in &page {
                if listed.created < batch.sent - CLOCK_SECONDS {
                    return Ok(answer);
                }
                if listed.name.as_deref().is_some_and(|name| name == batch.name) {
                    return Ok(FindOutcome::Found(listed.id.clone()));
                }
                let is_like = listed.name.is_none()
                    && !(batch.is_other)(&listed.id)
                    && listed.n_questions.is_some_and(|count| count == batch.n_questions as u64);
                match (is_like, listed.has_ended) {
                    (true, false) => answer = FindOutcome::Pending,
                    // Batches without names are recognized by the names of their questions.
                    (true, true) => {
                        let mut is_own = false;
                        self.for_each_answer(&listed.id, &mut |answer| {
                            is_own |= (batch.holds)(&answer.name)
                        })?;
                        if is_own {
                            return Ok(FindOutcome::Found(listed.id.clone()));
                        }
                    }
                    (false, _) => {}
                }
            }
            after = page.last().map(|listed| listed.id.clone());
            if !has_more || after.is_none() {
                return Ok(answer);
            }
        }
    }

    /// The state of a batch.
    ///
    /// # Errors
    /// When it cannot be read from the provider.
    pub fn state(&self, id: &str) -> Result<BatchState, LlmError> {
        let state = match self.endpoint.settings.provider {
            Provider::Anthropic => anthropic::state(self, id),
            Provider::Openai | Provider::OpenaiCompatible => openai::state(self, id),
        };
        state.map_err(|failure| self.failed(failure))
    }

    /// Calls `each` with the answers of an ended batch, in any order. A question may occur twice or not at all.
    /// Returns the number of unparsable lines, and the problem with the first one.
    ///
    /// # Errors
    /// When the answers cannot be read from the provider.
    pub fn for_each_answer(
        &self,
        id: &str,
        each: &mut dyn FnMut(BatchAnswer),
    ) -> Result<Option<(usize, String)>, LlmError> {
        let read = match self.endpoint.settings.provider {
            Provider::Anthropic => anthropic::answer,
            Provider::Openai | Provider::OpenaiCompatible => openai::answer,
        };
        let files = match self.endpoint.settings.provider {
            Provider::Anthropic => anthropic::files(self, id),
            Provider::Openai | Provider::OpenaiCompatible => openai::files(self, id),
        };
        let mut unread: Option<(usize, String)> = None;
        for path in files.map_err(|failure| self.failed(failure))? {
            let file = self.get(&path).and_then(file_of_lines).map_err(|failure| self.failed(failure))?;
            for (index, line) in file.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                match parsed(line).and_then(|line| read(&line)) {
                    Ok(answer) => each(answer),
                    Err(failure) => {
                        // A hint about the address would be misleading here.
                        let problem = match failure {
                            Failure::Answer { problem } => problem,
                            other => other.to_string(),
                        };
                        let first = || (0, format!("line {} of {path}: {problem}", index + 1));
                        unread.get_or_insert_with(first).0 += 1;
                    }
                }
            }
        }
        if let Some((count, first)) = &unread {
            tracing::warn!("batch {id}: unreadable answers, which are left out: {count}; {first}");
        }
        Ok(unread)
    }

    fn failed(&self, failure: Failure) -> LlmError {
        LlmError::Failed {
            endpoint: self.endpoint.name(),
            attempts: self.endpoint.settings.attempts,
            failure,
        }
    }

    /// Sends an idempotent request until it succeeds or attempts are exhausted.
    fn get(&self, path: &str) -> Result<String, Failure> {
        self.again(|failure| failure.is_transient(), || self.exchange(path, None))
    }

    /// Uploads a file; repeating that does no harm.
    fn put(&self, path: &str, content: (&str, &str)) -> Result<String, Failure> {
        self.again(|failure| failure.is_transient(), || self.exchange(path, Some(content)))
    }

    /// Creates a batch, which must not be done twice: tries again only if the first attempt certainly failed.
    fn make(&self, path: &str, body: &str) -> SendOutcome {
        let may_be_sent_again = |failure: &Failure| failure.is_transient() && !failure.may_cost();
        let made = self.again(may_be_sent_again, || self.exchange(path, Some(("application/json", body))));
        match made.and_then(|body| id_of(&parsed(&body)?, "id")) {
            Ok(id) => SendOutcome::Accepted(id),
            Err(failure) if failure.may_cost() => SendOutcome::Unknown(failure),
            Err(failure) => SendOutcome::NotSent(failure),
        }
    }

    fn exchange(&self, path: &str, content: Option<(&str, &str)>) -> Result<String, Failure> {
        self.transport.exchange(self.endpoint.settings.provider, path, content, self.endpoint.timeout())
    }

    fn again(
        &self,
        is_transient: impl Fn(&Failure) -> bool,
        exchange: impl Fn() -> Result<String, Failure>,
    ) -> Result<String, Failure> {
        for attempt in 1..self.endpoint.settings.attempts {
            match exchange() {
                Err(failure) if is_transient(&failure) => {
                    let wait = retry::wait(attempt, failure.retry_after(), fastrand::f64());
                    if !sleep(wait.min(Duration::from_secs(60)), self.is_canceled) {
                        return Err(Failure::Withdrawn);
                    }
                }
                other => return other,
            }
        }
        exchange()
    }
}

/// Parses a body as JSON.
fn parsed(body: &str) -> Result<Value, Failure> {
    serde_json::from_str(body)
        .map_err(|error| Failure::Answer { problem: format!("expected JSON, and {error}") })
}

/// The member `name` of an object, which must be a string.
fn text<'a>(object: &'a Value, name: &str) -> Result<&'a str, Failure> {
    object[name].as_str().ok_or_else(|| Failure::Answer { problem: format!("expected a string as `{name}`") })
}

/// The id of a batch or a file, which becomes part of paths.
fn id_of(object: &Value, name: &str) -> Result<String, Failure> {
    let id = text(object, name)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.is_empty() || !id.chars().all(is_plain) || id.starts_with('.') {
        return Err(Failure::Answer {
            problem: format!("`{name}` is {id:?}, which cannot be part of a path"),
        });
    }
    Ok(id.to_owned())
}

/// A file of answers, checked to be one: an error page served instead must not count as missing answers.
fn file_of_lines(file: String) -> Result<String, Failure> {
    let mut lines = file.lines().filter(|line| !line.trim().is_empty()).peekable();
    if lines.peek().is_none() || lines.any(|line| line.trim_start().starts_with('{')) {
        return Ok(file);
    }
    let problem =
        format!("expected lines of JSON objects; the file begins: {}", crate::error::beginning(&file));
    Err(Failure::Answer { problem })
}

/// The provider's error message.
fn message(error: &Value) -> String {
    let words = error["message"].as_str().or(error["error"]["message"].as_str()).or(error["code"].as_str());
    crate::error::beginning(words.unwrap_or(&error.to_string()))
}
