//! What can go wrong, and what to do about it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::budget::BudgetError;

/// Why there is no answer. No text in it holds a key.
#[derive(Debug, thiserror::Error)]
pub enum LlmError {
    /// The settings of an endpoint cannot work.
    #[error("endpoint settings: {problem}")]
    Settings {
        /// Which setting, what was expected, what to do.
        problem: String,
    },
    /// The key cannot be read.
    #[error("the environment variable {variable} {problem}; put the key of the endpoint into it")]
    Key {
        /// Name of the environment variable.
        variable: String,
        /// What is wrong with its value.
        problem: String,
    },
    /// The endpoint gave no answer that could be used.
    #[error("{endpoint}: {failure} (attempt {attempts})")]
    Failed {
        /// Address and model.
        endpoint: String,
        /// How often the request was sent, or tried to be.
        attempts: u32,
        /// How the last attempt failed.
        failure: Failure,
    },
    /// The call might cost more than is left.
    #[error("{endpoint}: {problem}")]
    Budget {
        /// Address and model.
        endpoint: String,
        /// What was asked for and what is left.
        problem: BudgetError,
    },
    /// A recording has no answer to a request.
    #[error(
        "{path}: no recorded answer of {endpoint} to this request (sample {sample}): {request}\n\
         Record it by running with the endpoint and a recording file, or restore the prompt and the settings that it \
         was recorded with."
    )]
    NotRecorded {
        /// The recording.
        path: PathBuf,
        /// Address and model.
        endpoint: String,
        /// Which of several answers to the same question.
        sample: u32,
        /// The request's body, shortened.
        request: String,
    },
    /// The cache or a recording cannot be read or written.
    #[error("{path}: {problem}")]
    Store {
        /// File or directory.
        path: PathBuf,
        /// What was expected and what to do.
        problem: String,
        /// What the system reported.
        #[source]
        source: Option<std::io::Error>,
    },
}

/// How one attempt failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum Failure {
    /// A request holds the key itself, which would reach the model, the cache and recordings. It was not sent.
    #[error("the request holds the value of the environment variable {variable}; remove it from the text")]
    KeyInRequest {
        /// Name of the environment variable.
        variable: String,
    },
    /// The attempt was taken back before it was sent, because the user asked to stop.
    #[error("it was taken back before it was sent")]
    Withdrawn,
    /// The server refused the key.
    #[error("status {status}: the server does not accept the key; check {}", match .variable {
        Some(variable) => format!("the environment variable {variable}"),
        None => "whether the endpoint needs one, and name its environment variable in `key_variable`".to_owned(),
    })]
    #[serde(rename = "Unauthorised")]
    Unauthorized {
        /// 401.
        status: u16,
        /// The environment variable that the key came from, if there was one.
        variable: Option<String>,
    },
    /// The server answered with another status than success.
    #[error("status {status}: {message}; {}", advice(*.status, *.quota_used_up))]
    Status {
        /// The HTTP status.
        status: u16,
        /// The beginning of what the server said.
        message: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// The server says that the account, rather than the minute, is used up.
        quota_used_up: bool,
    },
    /// The answer did not come in time.
    #[error("no complete answer within {seconds:.1} s; raise `timeout_seconds`, or ask for fewer tokens")]
    TimedOut {
        /// How long the attempt was given, in seconds.
        seconds: f64,
    },
    /// The server asks for a wait that would end after the deadline of the call.
    #[error("the server asks to wait {seconds:.0} s, and the deadline of the call is earlier{}; try again after that, \
             or raise `deadline_seconds`", last_met(.last))]
    AskedToWait {
        /// How long it asks to wait, from now on.
        seconds: f64,
        /// What the attempt met that it answered so, if this call made it.
        last: Option<Box<Failure>>,
    },
    /// The call's turn, or its next attempt, would come after its deadline.
    #[error("the next attempt would come after the deadline of the call, {seconds:.1} s after its beginning{}; raise \
             `deadline_seconds`, or lower `concurrency`", last_met(.last))]
    Deadline {
        /// How long the call took so far, in seconds.
        seconds: f64,
        /// What the last attempt met, if there was one.
        last: Option<Box<Failure>>,
    },
    /// No connection: nothing was sent.
    #[error("no connection: {problem}; check the address, and that the server runs")]
    Unreachable {
        /// What the transport reported.
        problem: String,
    },
    /// The connection broke after something was sent.
    #[error("the connection broke: {problem}; check the server, and what lies between")]
    Broken {
        /// What the transport reported.
        problem: String,
    },
    /// The server answered with success, and the body is not an answer.
    #[error("the answer cannot be used: {problem}; check that the address is that of a model server's API")]
    Answer {
        /// What was expected and what came.
        problem: String,
    },
}

impl Failure {
    /// Whether another attempt may fare better.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            // A temporary redirect is not followed, and gone when it has passed.
            Self::Status { status, quota_used_up, .. } => {
                !quota_used_up && matches!(status, 302 | 303 | 307 | 408 | 409 | 425 | 429 | 500..=599)
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

    /// Whether the server may have done the work, so that it may be on the bill: what it did when an answer is late,
    /// cut or unreadable is not known. A refusal and a failed connection cost nothing.
    pub(crate) fn may_cost(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::Broken { .. } | Self::Answer { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 500..=599) && !matches!(status, 503 | 529),
            Self::Unauthorized { .. }
            | Self::AskedToWait { .. }
            | Self::Deadline { .. }
            | Self::Unreachable { .. }
            | Self::KeyInRequest { .. }
            | Self::Withdrawn => false,
        }
    }

    /// How long the server asks to wait before the next attempt.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the server says that too much is asked of it at once.
    pub(crate) fn is_overload(&self) -> bool {
        matches!(self, Self::Status { status: 429 | 503 | 529, quota_used_up: false, .. })
    }
}

fn last_met(last: &Option<Box<Failure>>) -> String {
    last.as_ref().map_or_else(String::new, |last| format!(" (the last attempt met: {last})"))
}

fn advice(status: u16, quota_used_up: bool) -> &'static str {
    match status {
        _ if quota_used_up => "the account's quota is used up: see its billing page",
        300..=399 => "the address redirects: set `base_url` to where the API is",
        400 | 422 => {
            "the server does not take this request: check `provider` and `model`, and set `json_schema = false` where \
             it knows no schemas"
        }
        403 => "the server refuses this request to this key: its message says why; check what the key may do",
        404 => "check that `base_url` ends where the API begins (often `/v1`), and the name of the model",
        413 => "the request is too large: shorten it, or lower `embedding_batch`",
        429 => "too many requests: lower `concurrency` or set `tokens_per_minute`",
        500..=599 => "the server has a problem: try again later",
        _ => "see the server's documentation",
    }
}

/// The beginning of a text, for messages.
pub(crate) fn beginning(text: &str) -> String {
    const SHOWN: usize = 300;
    let mut shown: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
