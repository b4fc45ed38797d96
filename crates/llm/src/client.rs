//! A client for one model at one endpoint, which handles everything from a question to its answer.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::budget::{Booked, Budget, BudgetError, Cost, Reservation, Usage};
use crate::error::{Failure, LlmError, beginning};
use crate::key::ApiKey;
use crate::pace::{self, CallOutcome, Limiter, PaceError};
use crate::request::{ChatAnswer, ChatRequest, Embeddings, Origin};
use crate::retry;
use crate::settings::{Endpoint, Settings};
use crate::store::{Cache, Recorder, Recording, Request};
use crate::transport::{Attempt, HttpTransport, Transport};
use crate::wire::{self, Call};

/// Estimated cost of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Number of calls whose answers are stored, which cost nothing.
    pub stored: usize,
    pub calls: usize,
    /// Maximum cost of these, if the first attempts succeed: far above the typical cost, because it assumes that
    /// every byte is a token and every answer has the maximum length.
    pub worst: Cost,
}

/// Calls one model at one endpoint. Can be shared between threads.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    source: Source,
    budget: Budget,
    cache: Option<Cache>,
    recorder: Option<Recorder>,
    /// True if a complete answer without text is valid, rather than a failure that another attempt may fix.
    keeps_empty_answers: bool,
    /// The first failure to store an answer.
    store_failure: OnceLock<(PathBuf, String)>,
}

pub struct CallControl<'a> {
    /// Called right before an attempt is sent; nothing is sent if it returns false.
    pub sending: &'a mut dyn FnMut() -> bool,
    /// Returns true if the answer is no longer needed. A wait then ends at once, with [`Failure::Withdrawn`]; an
    /// attempt that has been sent is still awaited.
    pub is_over: &'a dyn Fn() -> bool,
}

#[derive(Debug)]
enum Source {
    Network(Box<Network>),
    Recording(Recording),
}

#[derive(Debug)]
struct Network {
    transport: Box<dyn Transport>,
    limiter: Limiter,
}

impl Client {
    /// A client that sends requests, with the key from the environment variable that the settings name.
    ///
    /// # Errors
    /// When a setting is invalid, or the key is missing. Nothing is sent yet.
    pub fn new(settings: Settings) -> Result<Self, LlmError> {
        let key = settings.key_variable.as_deref().map(ApiKey::from_environment).transpose()?;
        Self::with_key(settings, key)
    }

    /// Like [`Client::new`], with a given key.
    ///
    /// # Errors
    /// When a setting is invalid.
    pub fn with_key(settings: Settings, key: Option<ApiKey>) -> Result<Self, LlmError> {
        let endpoint = settings.check()?;
        let transport =
            HttpTransport::with_address(endpoint.address.clone(), key, endpoint.settings.concurrency)?;
        Ok(Self::from_transport(endpoint, Box::new(transport)))
    }

    /// A client that sends its attempts through `transport`, which has the key if there is one.
    ///
    /// # Errors
    /// When a setting is invalid.
    pub fn with_transport(settings: Settings, transport: Box<dyn Transport>) -> Result<Self, LlmError> {
        Ok(Self::from_transport(settings.check()?, transport))
    }

    fn from_transport(endpoint: Endpoint, transport: Box<dyn Transport>) -> Self {
        let limiter = Limiter::new(endpoint.settings.concurrency, endpoint.settings.tokens_per_minute);
        Self::from_source(endpoint, Source::Network(Box::new(Network { transport, limiter })))
    }

    /// A client that answers only from `recording`, without network or key. Requests that it does not contain are
    /// errors.
    ///
    /// # Errors
    /// When a setting is invalid.
    pub fn replay(settings: Settings, recording: Recording) -> Result<Self, LlmError> {
        Ok(Self::from_source(settings.check()?, Source::Recording(recording)))
    }

    fn from_source(endpoint: Endpoint, source: Source) -> Self {
        Self {
            endpoint,
            source,
            budget: Budget::default(),
            cache: None,
            recorder: None,
            keeps_empty_answers: false,
            store_failure: OnceLock::new(),
        }
    }

    /// Pays from `budget`. Without a budget, spending is counted but not limited.
    ///
    /// # Errors
    /// [`LlmError::Settings`] if money is limited and the settings specify no price.
    pub fn with_budget(mut self, budget: Budget) -> Result<Self, LlmError> {
        let settings = &self.endpoint.settings;
        if budget.limits().money.is_some()
            && (settings.input_price.is_none() || settings.output_price.is_none())
        {
            return Err(LlmError::Settings {
                problem: format!(
                    "a limit in dollars needs the price of {}: set `input_price` and `output_price`, in dollars for a \
                     million tokens (0 if free)",
                    settings.model
                ),
            });
        }
        self.budget = budget;
        Ok(self)
    }

    /// Looks answers up in `cache` before sending requests, and stores new answers.
    pub fn with_cache(mut self, cache: Cache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Accepts a complete answer without text, which is stored like others, instead of asking again.
    pub fn with_empty_answers(self) -> Self {
        Self { keeps_empty_answers: true, ..self }
    }

    /// Writes every answer, including cached ones, to the recording at `path`.
    ///
    /// # Errors
    /// [`LlmError::Store`] if it cannot be written.
    pub fn with_recording(mut self, path: &Path) -> Result<Self, LlmError> {
        self.recorder = Some(Recorder::append(path)?);
        Ok(self)
    }

    /// The budget, with the spending so far.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The address and model, as used in messages.
    pub fn name(&self) -> String {
        self.endpoint.name()
    }

    /// Sends a chat request.
    ///
    /// # Errors
    /// When there is no usable answer; see [`LlmError`].
    pub fn chat(&self, request: &ChatRequest) -> Result<ChatAnswer, LlmError> {
        self.chat_with_cost(request, CallControl { sending: &mut || true, is_over: &|| false }).0
    }

    /// Sends a chat request, and also returns what all its attempts booked on the budget, even without an answer.
    pub fn chat_with_cost(
        &self,
        request: &ChatRequest,
        watch: CallControl<'_>,
    ) -> (Result<ChatAnswer, LlmError>, Booked) {
        let mut booked = Booked::default();
        let answer = self.chat_booking(request, &mut booked, watch);
        (answer, booked)
    }

    fn chat_booking(
        &self,
        request: &ChatRequest,
        booked: &mut Booked,
        watch: CallControl<'_>,
    ) -> Result<ChatAnswer, LlmError> {
        let call = wire::chat_call(&self.endpoint, request);
        let provider = self.endpoint.settings.provider;
        let answer = |body: &str| wire::chat_answer(provider, body, self.keeps_empty_answers);
        let key = self.request(&call);
        if let Some((stored, origin)) = self.stored(&key)? {
            let stored = answer(&stored.to_string()).map_err(|problem| self.unusable(0, problem))?;
            return Ok(ChatAnswer { origin, ..stored });
        }
        let (body, answer) = self.send(&call, answer, booked, watch)?;
        if self.cache.is_some() || self.recorder.is_some() {
            self.store(&key, &parsed(&body));
        }
        Ok(answer)
    }

    /// The embeddings of `texts`. Each text is cached separately, so texts that were embedded before cost nothing
    /// even in another combination; missing ones are sent in batches, several concurrently. If a batch fails, the
    /// answers to the others are still stored.
    ///
    /// # Errors
    /// When a batch has no usable answer; see [`LlmError`].
    pub fn embed(&self, texts: &[&str]) -> Result<Embeddings, LlmError> {
        let mut vectors: HashMap<&str, Vec<f32>> = HashMap::new();
        let missing = self.missing_embeddings(texts, &mut vectors)?;
        let batches: Vec<&[&str]> = missing.chunks(self.endpoint.settings.embedding_batch).collect();
        let workers = batches.len().min(self.endpoint.settings.concurrency as usize);
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = self.embed_batch(batch);
                        if result.is_err() {
                            next.store(batches.len(), Ordering::Relaxed);
                        }
                        results.lock().unwrap_or_else(PoisonError::into_inner).push((*batch, result));
                    }
                });
            }
        });
        for (batch, result) in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
            vectors.extend(batch.iter().copied().zip(result?));
        }
        let rows: Vec<Vec<f32>> = texts.iter().filter_map(|text| vectors.get(text).cloned()).collect();
        if let Some(other) = rows.iter().find(|row| row.len() != rows[0].len()) {
            let problem = format!(
                "vectors have {} and {} values; the model behind this name has changed: empty the cache",
                rows[0].len(),
                other.len()
            );
            return Err(self.unusable(0, problem));
        }
        Ok(Embeddings { vectors: rows, sent: missing.len() })
    }

    /// Fills in the stored vectors, and returns the other texts without duplicates.
    fn missing_embeddings<'a>(
        &self,
        texts: &[&'a str],
        vectors: &mut HashMap<&'a str, Vec<f32>>,
    ) -> Result<Vec<&'a str>, LlmError> {
        let mut missing = Vec::new();
        for &text in texts {
            if vectors.contains_key(text) {
                continue;
            }
            let key = self.embedding_request(text)?;
            let stored = match self.stored(&key)? {
                Some((stored, _)) => {
                    let rows = wire::embedding_answer(&stored.to_string(), 1);
                    rows.map_err(|problem| self.unusable(0, problem))?.swap_remove(0)
                }
                None => {
                    missing.push(text);
                    Vec::new()
                }
            };
            vectors.insert(text, stored);
        }
        Ok(missing)
    }

    fn embed_batch(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, LlmError> {
        let call = self.embedding_call(texts)?;
        let (_, vectors) = self.send(
            &call,
            |body| wire::embedding_answer(body, texts.len()),
            &mut Booked::default(),
            CallControl { sending: &mut || true, is_over: &|| false },
        )?;
        for (text, vector) in texts.iter().zip(&vectors) {
            self.store(&self.embedding_request(text)?, &wire::embedding_body(vector));
        }
        Ok(vectors)
    }

    fn embedding_call(&self, texts: &[&str]) -> Result<Call, LlmError> {
        wire::embedding_call(&self.endpoint, texts).ok_or_else(|| LlmError::Settings {
            problem: "this provider has no embeddings; name an endpoint that speaks OpenAI's API".to_owned(),
        })
    }

    fn embedding_request(&self, text: &str) -> Result<Request, LlmError> {
        Ok(self.request(&self.embedding_call(&[text])?))
    }

    /// Identifies a question to this model: the hash of the request, its destination, and the sample number. The key
    /// is not part of it.
    pub fn chat_name(&self, request: &ChatRequest) -> String {
        self.request(&wire::chat_call(&self.endpoint, request)).key()
    }

    /// Reports that answers can no longer be stored in the cache or the recording. Answers that were paid for are
    /// still returned, but no more requests are sent, because the user wants answers to be stored.
    ///
    /// # Errors
    /// [`LlmError::Store`] if storing failed before.
    pub fn check_kept(&self) -> Result<(), LlmError> {
        match self.store_failure.get() {
            None => Ok(()),
            Some((path, problem)) => {
                Err(LlmError::Store { path: path.clone(), problem: problem.clone(), source: None })
            }
        }
    }

    /// Estimated cost of `requests`; nothing is sent.
    pub fn estimate_chat(&self, requests: &[ChatRequest]) -> Result<Estimate, LlmError> {
        let mut estimate = Estimate::default();
        for request in requests {
            let call = wire::chat_call(&self.endpoint, request);
            if self.stored_or_none(&self.request(&call))?.is_some() {
                estimate.stored += 1;
            } else {
                estimate.calls += 1;
                estimate.worst += self.endpoint.price.cost(call.worst);
            }
        }
        Ok(estimate)
    }

    fn request(&self, call: &Call) -> Request {
        let url = format!("{}{}", self.endpoint.address.base, call.path);
        Request { url, sample: call.sample, request: call.body.clone() }
    }

    /// The stored answer to `request`. When replaying a recording, an unknown request is an error.
    fn stored(&self, request: &Request) -> Result<Option<(Value, Origin)>, LlmError> {
        match (self.stored_or_none(request)?, &self.source) {
            (None, Source::Recording(recording)) => Err(LlmError::NotRecorded {
                path: recording.path().to_owned(),
                endpoint: self.name(),
                sample: request.sample,
                request: beginning(&request.request.to_string()),
            }),
            (found, _) => {
                if let (Some((response, _)), Some(recorder)) = (&found, &self.recorder) {
                    recorder.put(request, response)?;
                }
                Ok(found)
            }
        }
    }

    fn stored_or_none(&self, request: &Request) -> Result<Option<(Value, Origin)>, LlmError> {
        if let Source::Recording(recording) = &self.source {
            return Ok(recording.get(request).map(|response| (response.clone(), Origin::Recording)));
        }
        let Some(cache) = &self.cache else { return Ok(None) };
        Ok(cache.get(request)?.map(|response| (response, Origin::Cache)))
    }

    fn store(&self, request: &Request, response: &Value) {
        let cached = self.cache.as_ref().map(|cache| cache.put(request, response));
        let recorded = self.recorder.as_ref().map(|recorder| recorder.put(request, response));
        for stored in [cached, recorded].into_iter().flatten() {
            if let Err(LlmError::Store { path, problem, .. }) = stored
                && self.store_failure.set((path.clone(), problem.clone())).is_ok()
            {
                tracing::warn!("{}: {problem}; nothing more is sent", path.display());
            }
        }
    }

    /// Sends a call until it is answered or another attempt is pointless. Returns the body and the result of
    /// `parse`, and adds the cost of all attempts to `booked`.
    fn send<T>(
        &self,
        call: &Call,
        parse: impl Fn(&str) -> Result<T, String>,
        booked: &mut Booked,
        CallControl { sending, is_over }: CallControl<'_>,
    ) -> Result<(String, T), LlmError> {
        let Source::Network(network) = &self.source else {
            return Err(self.unusable(0, "a recording sends nothing".to_owned()));
        };
        let Network { transport, limiter } = network.as_ref();
        let mut sent = Attempt {
            name: self.request(call).key(),
            provider: self.endpoint.settings.provider,
            path: call.path.to_owned(),
            body: call.body.to_string(),
            timeout: self.endpoint.timeout(),
        };
        let begin = Instant::now();
        let deadline = begin + self.endpoint.deadline();
        let worst = self.endpoint.price.cost(call.worst);
        let late = |last: Option<Failure>| Failure::Deadline {
            seconds: begin.elapsed().as_secs_f64(),
            last: last.map(Box::new),
        };
        let asked_to_wait = |wait: Duration, last: Option<Failure>| Failure::AskedToWait {
            seconds: wait.as_secs_f64(),
            last: last.map(Box::new),
        };
        // Without a reported usage, an attempt that may be billed keeps its reservation.
        let mut book = |usage: Option<Usage>, may_be_billed: bool, reservation: Reservation| match usage {
            Some(usage) => {
                let cost = self.endpoint.price.cost(usage);
                *booked += Booked::counted(cost);
                reservation.settle(cost);
            }
            None if may_be_billed => {
                *booked += Booked::worst(worst);
                drop(reservation);
            }
            None => reservation.release(),
        };
        let mut last: Option<Failure> = None;
        for attempt in 1.. {
            let permit = limiter.turn(call.typical_tokens(), deadline, is_over).map_err(|none| {
                let failure = match none {
                    PaceError::Late => late(last.take()),
                    PaceError::Paused(wait) => asked_to_wait(wait, last.take()),
                    PaceError::Canceled => Failure::Withdrawn,
                };
                self.failed(attempt - 1, failure)
            })?;
            let reservation = self.budget.reserve(worst, deadline).map_err(|problem| self.unpaid(problem))?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                reservation.release();
                return Err(self.failed(attempt - 1, late(last)));
            }
            // Other calls may have ended in the meantime.
            let may_be_sent = || {
                self.check_kept()?;
                self.budget.check_overrun().map_err(|problem| self.unpaid(problem))
            };
            let wanted = match may_be_sent() {
                Ok(()) if is_over() || !sending() => Err(self.failed(attempt - 1, Failure::Withdrawn)),
                checked => checked,
            };
            if let Err(error) = wanted {
                reservation.release();
                return Err(error);
            }
            sent.timeout = self.endpoint.timeout().min(left);
            let answer = transport.post(&sent);
            let failure = match answer {
                Ok(answer) => {
                    // The server bills what it counted, even if the rest is unusable.
                    let usage = wire::usage(&answer, call.worst.output_tokens > 0);
                    book(usage, true, reservation);
                    match parse(&answer) {
                        Ok(parsed) => {
                            permit.end(CallOutcome::Answered);
                            return Ok((answer, parsed));
                        }
                        Err(problem) => Failure::Answer { problem },
                    }
                }
                Err(failure) => {
                    book(failure.usage(), failure.may_be_billed(), reservation);
                    failure
                }
            };
            let ending = if failure.is_overload() {
                CallOutcome::Refused(failure.retry_after())
            } else {
                CallOutcome::Failed
            };
            permit.end(ending);
            if !failure.is_transient() || attempt >= self.endpoint.settings.attempts {
                return Err(self.failed(attempt, failure));
            }
            let wait = retry::wait(attempt, failure.retry_after(), fastrand::f64());
            tracing::debug!(endpoint = %self.name(), attempt, %failure, ?wait, "will try again");
            if wait >= deadline.saturating_duration_since(Instant::now()) {
                let failure = match failure.retry_after() {
                    Some(asked) => asked_to_wait(asked, Some(failure)),
                    None => late(Some(failure)),
                };
                return Err(self.failed(attempt, failure));
            }
            if !pace::sleep(wait, is_over) {
                return Err(self.failed(attempt, Failure::Withdrawn));
            }
            last = Some(failure);
        }
        Err(self.failed(u32::MAX, late(last)))
    }

    fn unpaid(&self, problem: BudgetError) -> LlmError {
        LlmError::Budget { endpoint: self.name(), problem }
    }

    fn failed(&self, attempts: u32, failure: Failure) -> LlmError {
        LlmError::Failed { endpoint: self.name(), attempts, failure }
    }

    fn unusable(&self, attempts: u32, problem: String) -> LlmError {
        self.failed(attempts, Failure::Answer { problem })
    }
}

fn parsed(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()))
}
