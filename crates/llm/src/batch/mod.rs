//! Questions that are answered within a day, for half the price: OpenAI's batches and Anthropic's message batches.
//!
//! Nothing here waits. Whoever sends a batch keeps the number that it gets, asks now and then how far it is, and reads
//! the answers when it has ended, in any order and perhaps days later. A batch whose number was lost, because the
//! connection broke or the process ended while it was sent, can be found again, so that it is not sent twice.

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

/// The most questions in a batch, and the most bytes of them: a fifth of what OpenAI allows, a tenth of Anthropic.
pub const MAX_QUESTIONS: usize = 10_000;
/// See [`MAX_QUESTIONS`].
pub const MAX_BYTES: usize = 32 << 20;

/// A batch may have been made a little before the clock here says that it was sent.
const CLOCK_SECONDS: f64 = 600.0;

/// Sends batches to one model at one endpoint, and looks after them.
#[derive(Debug)]
pub struct Batches {
    endpoint: Endpoint,
    transport: HttpTransport,
}

/// Batches, asked for as long as somebody wants the answer: a wait between attempts then ends at once, with
/// [`Failure::Withdrawn`].
#[derive(Clone, Copy)]
pub struct Until<'a> {
    batches: &'a Batches,
    is_over: &'a (dyn Fn() -> bool + Sync),
}

impl Deref for Until<'_> {
    type Target = Batches;

    fn deref(&self) -> &Batches {
        self.batches
    }
}

/// What became of sending.
#[derive(Debug)]
pub enum Sent {
    /// The provider has it, under this number.
    As(String),
    /// The provider does not have it.
    Not(Failure),
    /// The provider may have it: look for it with [`Until::find`].
    Perhaps(Failure),
}

/// How far a batch is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Not all is answered.
    UnderWay,
    /// What will be answered is answered.
    Ended,
    /// The provider did not take it, for this reason. It costs nothing.
    Refused(String),
}

/// Whether a batch without a number is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Under this number.
    As(String),
    /// One that may be it has not ended: look again later.
    Perhaps,
    /// No.
    No,
}

/// How a batch without a number is known.
#[derive(Clone, Copy)]
pub struct Trace<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its number of questions.
    pub n_questions: usize,
    /// When it was sent, in seconds since 1970.
    pub sent: f64,
    /// Whether a batch of this number is another one.
    pub is_other: &'a dyn Fn(&str) -> bool,
    /// Whether a question of this name is in it.
    pub holds: &'a dyn Fn(&str) -> bool,
}

/// What a batch brought for one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    /// The question's name.
    pub name: String,
    /// The body of its answer, to be read with [`Batches::read`]; or why there is none, which costs nothing.
    pub body: Result<String, String>,
}

/// A batch in a list of the provider's.
struct Listed {
    id: String,
    name: Option<String>,
    /// Seconds since 1970.
    created: f64,
    n_questions: Option<u64>,
    has_ended: bool,
}

impl Batches {
    /// For a model, with the key from the environment variable that the settings name.
    ///
    /// # Errors
    /// Where a setting cannot work, or the key is missing. Nothing is sent yet.
    pub fn new(settings: Settings) -> Result<Self, LlmError> {
        let key = settings.key_variable.as_deref().map(ApiKey::from_environment).transpose()?;
        Self::with_key(settings, key)
    }

    /// The same with a key from elsewhere.
    ///
    /// # Errors
    /// Where a setting cannot work.
    pub fn with_key(settings: Settings, key: Option<ApiKey>) -> Result<Self, LlmError> {
        let endpoint = settings.check()?;
        let transport = HttpTransport::to(endpoint.address.clone(), key, 1)?;
        Ok(Self { endpoint, transport })
    }

    /// The price of a token.
    pub fn price(&self) -> Price {
        self.endpoint.price.in_batch()
    }

    /// The most that a question can cost.
    pub fn worst(&self, request: &ChatRequest) -> Cost {
        self.price().of(wire::chat_call(&self.endpoint, request).worst)
    }

    /// Bytes of a question in a batch.
    pub fn bytes(&self, request: &ChatRequest) -> usize {
        wire::chat_call(&self.endpoint, request).body.to_string().len()
    }

    /// How long after sending a batch it may be missing from the provider's list, in seconds.
    pub fn settling_seconds(&self) -> f64 {
        self.endpoint.settings.timeout_seconds
    }

    /// What the body of an answer says, and what it costs, where it says that and it can be.
    pub fn read(&self, body: &str) -> (Result<ChatAnswer, String>, Option<Cost>) {
        let cost = wire::usage(body, true).map(|usage| self.price().of(usage));
        (wire::chat_answer(self.endpoint.settings.provider, body), cost)
    }

    /// To be asked until `is_over`.
    pub fn until<'a>(&'a self, is_over: &'a (dyn Fn() -> bool + Sync)) -> Until<'a> {
        Until { batches: self, is_over }
    }
}

impl Until<'_> {
    /// Sends questions, each under its name (at most 64 letters, digits, `-` and `_`), as one batch of this name.
    pub fn send(&self, name: &str, questions: &[(String, ChatRequest)]) -> Sent {
        let bodies = questions
            .iter()
            .map(|(name, request)| (name.as_str(), wire::chat_call(&self.endpoint, request).body));
        match self.endpoint.settings.provider {
            Provider::Anthropic => anthropic::create(self, bodies),
            Provider::Openai | Provider::OpenaiCompatible => openai::create(self, name, bodies),
        }
    }

    /// Looks for a batch that was sent, and whose number is not known.
    ///
    /// # Errors
    /// Where the provider does not say which batches it has.
    pub fn find(&self, trace: &Trace<'_>) -> Result<Found, LlmError> {
        let mut answer = Found::No;
        let mut after: Option<String> = None;
        loop {
            let (page, has_more) = match self.endpoint.settings.provider {
                Provider::Anthropic => anthropic::list(self, after.as_deref()),
                Provider::Openai | Provider::OpenaiCompatible => openai::list(self, after.as_deref()),
            }
            .map_err(|failure| self.failed(failure))?;
            for listed in &page {
                if listed.created < trace.sent - CLOCK_SECONDS {
                    return Ok(answer);
                }
                if listed.name.as_deref().is_some_and(|name| name == trace.name) {
                    return Ok(Found::As(listed.id.clone()));
                }
                let is_like = listed.name.is_none()
                    && !(trace.is_other)(&listed.id)
                    && listed.n_questions.is_some_and(|count| count == trace.n_questions as u64);
                match (is_like, listed.has_ended) {
                    (true, false) => answer = Found::Perhaps,
                    // Where batches have no names, their questions have.
                    (true, true) => {
                        let mut is_own = false;
                        self.for_each_answer(&listed.id, &mut |brought| {
                            is_own |= (trace.holds)(&brought.name)
                        })?;
                        if is_own {
                            return Ok(Found::As(listed.id.clone()));
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

    /// How far a batch is.
    ///
    /// # Errors
    /// Where the provider does not say.
    pub fn state(&self, id: &str) -> Result<State, LlmError> {
        let state = match self.endpoint.settings.provider {
            Provider::Anthropic => anthropic::state(self, id),
            Provider::Openai | Provider::OpenaiCompatible => openai::state(self, id),
        };
        state.map_err(|failure| self.failed(failure))
    }

    /// Gives what a batch that has ended brought, in any order. A question may come twice, or not at all. What cannot
    /// be read is left out: how many lines, and what is wrong with the first.
    ///
    /// # Errors
    /// Where the provider does not give it.
    pub fn for_each_answer(
        &self,
        id: &str,
        each: &mut dyn FnMut(Brought),
    ) -> Result<Option<(usize, String)>, LlmError> {
        let read = match self.endpoint.settings.provider {
            Provider::Anthropic => anthropic::brought,
            Provider::Openai | Provider::OpenaiCompatible => openai::brought,
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
                    Ok(brought) => each(brought),
                    Err(failure) => {
                        // Advice about addresses would lead astray here.
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

    /// Asks for something, until it comes or that is hopeless: asking twice does no harm.
    fn get(&self, path: &str) -> Result<String, Failure> {
        self.again(|failure| failure.may_pass(), || self.exchange(path, None))
    }

    /// Sends something that may be sent twice without harm.
    fn put(&self, path: &str, content: (&str, &str)) -> Result<String, Failure> {
        self.again(|failure| failure.may_pass(), || self.exchange(path, Some(content)))
    }

    /// Makes a batch, which must not be done twice: tries again only where it surely was not done.
    fn make(&self, path: &str, body: &str) -> Sent {
        let may_be_sent_again = |failure: &Failure| failure.may_pass() && !failure.may_cost();
        let made = self.again(may_be_sent_again, || self.exchange(path, Some(("application/json", body))));
        match made.and_then(|body| number(&parsed(&body)?, "id")) {
            Ok(id) => Sent::As(id),
            Err(failure) if failure.may_cost() => Sent::Perhaps(failure),
            Err(failure) => Sent::Not(failure),
        }
    }

    fn exchange(&self, path: &str, content: Option<(&str, &str)>) -> Result<String, Failure> {
        self.transport.exchange(self.endpoint.settings.provider, path, content, self.endpoint.timeout())
    }

    fn again(
        &self,
        may_pass: impl Fn(&Failure) -> bool,
        exchange: impl Fn() -> Result<String, Failure>,
    ) -> Result<String, Failure> {
        for attempt in 1..self.endpoint.settings.attempts {
            match exchange() {
                Err(failure) if may_pass(&failure) => {
                    let wait = retry::wait(attempt, failure.retry_after(), fastrand::f64());
                    if !sleep(wait.min(Duration::from_secs(60)), self.is_over) {
                        return Err(Failure::Withdrawn);
                    }
                }
                other => return other,
            }
        }
        exchange()
    }
}

/// A body of the provider's as JSON.
fn parsed(body: &str) -> Result<Value, Failure> {
    serde_json::from_str(body)
        .map_err(|error| Failure::Answer { problem: format!("expected JSON, and {error}") })
}

/// The member `name` of an object, which must be text.
fn text<'a>(object: &'a Value, name: &str) -> Result<&'a str, Failure> {
    object[name].as_str().ok_or_else(|| Failure::Answer { problem: format!("expected `{name}`, a text") })
}

/// The number of a batch or a file, which becomes a part of paths.
fn number(object: &Value, name: &str) -> Result<String, Failure> {
    let number = text(object, name)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if number.is_empty() || !number.chars().all(is_plain) || number.starts_with('.') {
        return Err(Failure::Answer { problem: format!("`{name}` is {number:?}, which no path can hold") });
    }
    Ok(number.to_owned())
}

/// A file of answers, if it is one: a page that stands in its place for a while must not be taken for answers that are
/// lost.
fn file_of_lines(file: String) -> Result<String, Failure> {
    let mut lines = file.lines().filter(|line| !line.trim().is_empty()).peekable();
    if lines.peek().is_none() || lines.any(|line| line.trim_start().starts_with('{')) {
        return Ok(file);
    }
    let problem =
        format!("expected lines of JSON objects; the file begins: {}", crate::error::beginning(&file));
    Err(Failure::Answer { problem })
}

/// What a provider says is wrong.
fn message(error: &Value) -> String {
    let words = error["message"].as_str().or(error["error"]["message"].as_str()).or(error["code"].as_str());
    crate::error::beginning(words.unwrap_or(&error.to_string()))
}
