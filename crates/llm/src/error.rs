//! Errors, with their remedies.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::budget::{BudgetError, Usage};

/// The reason why there is no answer. No text in it contains a key.
#[derive(Debug, thiserror::Error)]
pub enum LlmError {
    #[error("endpoint settings: {problem}")]
    Settings {
        /// The setting, what was expected, and what to do.
        problem: String,
    },
    #[error("the environment variable {variable} {problem}; set it to the key of the endpoint")]
    Key { variable: String, problem: String },
    #[error("{endpoint}: {failure} (attempt {attempts})")]
    Failed {
        endpoint: String,
        /// Number of attempts, including those that could not be sent.
        attempts: u32,
        failure: Failure,
    },
    #[error("{endpoint}: {problem}")]
    Budget { endpoint: String, problem: BudgetError },
    #[error(
        "{path}: no recorded answer of {endpoint} to this request (sample {sample}): {request}\n\
         Record it by running with the endpoint and a recording file, or restore the prompt and the settings that it \
         was recorded with."
    )]
    NotRecorded {
        path: PathBuf,
        endpoint: String,
        sample: u32,
        /// The request's body, shortened.
        request: String,
    },
    #[error("{path}: {problem}")]
    Store {
        path: PathBuf,
        problem: String,
        #[source]
        source: Option<std::io::Error>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum Failure {
    /// A request contains the key itself, which would reach the model, the cache and recordings. It was not sent.
    #[error("the request contains the value of the environment variable {variable}; remove it from the text")]
    KeyInRequest { variable: String },
    /// The attempt was withdrawn before it was sent, because the user stopped.
    #[error("it was withdrawn before it was sent")]
    Withdrawn,
    #[error("status {status}: the server does not accept the key; check {}", match .variable {
        Some(variable) => format!("the environment variable {variable}"),
        None => "whether the endpoint needs one, and name its environment variable in `key_variable`".to_owned(),
    })]
    #[serde(rename = "Unauthorised")]
    Unauthorized { status: u16, variable: Option<String> },
    #[error("status {status}: {message}; {}", advice(*.status, *.quota_used_up))]
    Status {
        status: u16,
        /// The beginning of the server's message.
        message: String,
        retry_after: Option<Duration>,
        /// True if the account's quota is used up, rather than a rate limit.
        quota_used_up: bool,
        usage: Option<Usage>,
    },
    #[error("no complete answer within {seconds:.1} s; raise `timeout_seconds`, or ask for fewer tokens")]
    TimedOut { seconds: f64 },
    #[error("the server asks to wait {seconds:.0} s, beyond the deadline of the call{}; try again after that, \
             or raise `deadline_seconds`", last_met(.last))]
    AskedToWait {
        seconds: f64,
        /// The failure with which the server asked to wait, if it was in this call.
        last: Option<Box<Failure>>,
    },
    #[error("the next attempt would come after the deadline of the call, {seconds:.1} s after its beginning{}; raise \
             `deadline_seconds`, or lower `concurrency`", last_met(.last))]
    Deadline { seconds: f64, last: Option<Box<Failure>> },
    /// No connection was made: nothing was sent.
    #[error("no connection: {problem}; check the address, and whether the server is running")]
    Unreachable { problem: String },
    /// The connection broke after something was sent.
    #[error("the connection broke: {problem}; check the server and the network")]
    Broken { problem: String },
    #[error("the answer cannot be used: {problem}; check that the address is that of a model server's API")]
    Answer { problem: String },
}

impl Failure {
    /// Returns true if another attempt may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Status { status, quota_used_up, .. } => {
                !quota_used_up && matches!(status, 408 | 409 | 425 | 429 | 500..=599)
            }
            Self::TimedOut { .. } | Self::Unreachable { .. } | Self::Broken { .. } | Self::Answer { .. } => {
                true
            }
            Self::Unauthorized { .. }
            | Self::AskedToWait { .. }
            | Self::Deadline { .. }
            | Self::KeyInRequest { .. }
            | Self::Withdrawn => false,
        }
    }

    /// The usage that the server reports despite the failure.
    pub(crate) fn usage(&self) -> Option<Usage> {
        match self {
            Self::Status { usage, .. } => *usage,
            _ => None,
        }
    }

    /// Returns true if the server may have done the work and bill it without reporting it: if an answer is late,
    /// truncated or unparsable, or a gateway lost its server, this is unknown. An error that the server itself
    /// reports without a usage costs nothing, like rejections and failed connections.
    pub(crate) fn may_be_billed(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 408 | 502 | 504 | 520..=524),
            Self::TimedOut { .. } | Self::Broken { .. } | Self::Answer { .. } => true,
            Self::Unauthorized { .. }
            | Self::AskedToWait { .. }
            | Self::Deadline { .. }
            | Self::Unreachable { .. }
            | Self::KeyInRequest { .. }
            | Self::Withdrawn => false,
        }
    }

    /// The wait that the server requests before the next attempt.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns true if the server rejects this request and would reject it again, though it may accept others.
    pub fn is_rejection(&self) -> bool {
        matches!(self, Self::Status { status: 400 | 413 | 422, quota_used_up: false, .. })
    }

    /// Returns true if the server reports overload or exceeded rate limits.
    pub(crate) fn is_overload(&self) -> bool {
        matches!(self, Self::Status { status: 429 | 503 | 529, quota_used_up: false, .. })
    }
}

fn last_met(last: &Option<Box<Failure>>) -> String {
    last.as_ref().map_or_else(String::new, |last| format!(" (the last attempt failed with: {last})"))
}

fn advice(status: u16, quota_used_up: bool) -> &'static str {
    match status {
        _ if quota_used_up => "the account's quota is used up: see its billing page",
        300..=399 => "the address redirects: set `base_url` to where the API is",
        400 | 422 => {
            "the server rejects this request: check `provider` and `model`, and set `json_schema = false` if it does \
             not support schemas"
        }
        403 => {
            "the server refuses this request with this key; read its message and check the permissions of the key"
        }
        404 => "check that `base_url` ends where the API begins (often `/v1`), and the name of the model",
        413 => "the request is too large: shorten it, or lower `embedding_batch`",
        429 => "too many requests: lower `concurrency` or set `tokens_per_minute`",
        500..=599 => "the server has a problem: try again later",
        _ => "see the server's documentation",
    }
}

pub(crate) fn beginning(text: &str) -> String {
    const SHOWN: usize = 300;
    let mut shown: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
