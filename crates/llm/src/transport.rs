//! Sending one attempt of a call: over HTTP, unless another transport is used.

use std::fmt;
use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use ureq::{Agent, Error, Timeout};

use crate::error::{Failure, LlmError, beginning};
use crate::key::ApiKey;
use crate::settings::{Address, KEY_IN_ADDRESS, MAX_DURATION, Provider};
use crate::surrogate;
use crate::wire::{self, server_message};

/// Maximum size of an answer, in bytes: 512 vectors of 4096 values are about 40 MB.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Maximum number of bytes read of an error's body: enough for any message.
const MAX_ERROR_BYTES: u64 = 1 << 20;

/// Time limit for connecting. A running server accepts at once.
const CONNECT: Duration = Duration::from_secs(15);

/// One attempt of a call. It contains neither key nor server: the transport has both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// Name of the call: the same for all its attempts, and for equal calls (see [`crate::Client::chat_name`]).
    pub name: String,
    pub provider: Provider,
    /// The path relative to the base URL, beginning with a slash.
    pub path: String,
    pub body: String,
    pub timeout: Duration,
}

/// Makes attempts of calls, from any number of threads.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Makes an attempt, and returns the body of the answer.
    ///
    /// # Errors
    /// Returns the kind of failure. No text in it contains a key.
    fn post(&self, attempt: &Attempt) -> Result<String, Failure>;
}

/// Sends attempts to one server over HTTP, with its key. Only this module accesses the network.
#[derive(Debug)]
pub struct HttpTransport {
    agent: Agent,
    key: Option<ApiKey>,
    address: Address,
}

impl HttpTransport {
    /// A transport for the API at base URL `address`, as in [`crate::Settings::base_url`], with at most `connections`
    /// kept open. It follows no redirects, which would send the request and its key to an unknown server.
    ///
    /// # Errors
    /// [`LlmError::Settings`] if the address is invalid, or contains the key.
    pub fn new(address: &str, key: Option<ApiKey>, connections: u32) -> Result<Self, LlmError> {
        Self::with_address(Address::parse(address)?, key, connections)
    }

    pub(crate) fn with_address(
        address: Address,
        key: Option<ApiKey>,
        connections: u32,
    ) -> Result<Self, LlmError> {
        if key.as_ref().is_some_and(|key| key.is_in(&address.base)) {
            return Err(LlmError::Settings { problem: KEY_IN_ADDRESS.to_owned() });
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT))
            .max_idle_connections_per_host(connections as usize)
            .user_agent(concat!("quarry/", env!("CARGO_PKG_VERSION")));
        if address.local {
            config = config.proxy(None);
        }
        Ok(Self { agent: config.build().into(), key, address })
    }

    /// The normalized base URL: without a trailing slash.
    pub fn address(&self) -> &str {
        &self.address.base
    }

    fn refusal(&self, status: u16, retry_after: Option<Duration>, body: &str) -> Failure {
        // A 403 may be about the content rather than the key: its message is worth keeping.
        if status == 401 {
            let variable = self.key.as_ref().map(|key| key.variable().to_owned());
            return Failure::Unauthorized { status, variable };
        }
        let (message, quota_used_up) = server_message(body);
        // An embedding has no output tokens, and neither does an answer that failed before the first one.
        let usage = wire::usage(body, false);
        Failure::Status { status, message: beginning(&message), retry_after, quota_used_up, usage }
    }

    fn failure(&self, error: Error, timeout: Duration) -> Failure {
        let problem = self.hide(error.to_string());
        match error {
            Error::Timeout(Timeout::Resolve | Timeout::Connect)
            | Error::HostNotFound
            | Error::ConnectionFailed
            | Error::Tls(_)
            | Error::TlsRequired
            | Error::Rustls(_)
            | Error::BadUri(_)
            | Error::Http(_)
            | Error::InvalidProxyUrl
            | Error::ConnectProxyFailed(_) => Failure::Unreachable { problem },
            Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Failure::Unreachable { problem }
            }
            Error::Timeout(_) => Failure::TimedOut { seconds: timeout.as_secs_f64() },
            Error::BodyExceedsLimit(limit) => Failure::Answer {
                problem: format!(
                    "it has more than {} MiB, the maximum that is read; ask for less per request (`embedding_batch`)",
                    limit >> 20
                ),
            },
            _ => Failure::Broken { problem },
        }
    }

    /// The text with the key redacted; unchanged if it does not contain the key.
    fn hide(&self, text: String) -> String {
        match &self.key {
            Some(key) if key.is_in(&text) => key.redact(&text),
            _ => text,
        }
    }
}

impl Transport for HttpTransport {
    /// The key is redacted from all text that is returned.
    fn post(&self, attempt: &Attempt) -> Result<String, Failure> {
        let Attempt { provider, path, body, timeout, .. } = attempt;
        if let Some(key) = self.key.as_ref().filter(|key| key.is_in(body)) {
            return Err(Failure::KeyInRequest { variable: key.variable().to_owned() });
        }
        // Without the slash, the path could change the host.
        if !path.starts_with('/') {
            return Err(Failure::Unreachable { problem: format!("{path:?} does not begin with a slash") });
        }
        let url = format!("{}{path}", self.address.base);
        // An attempt may come from another machine, and larger durations overflow the clock.
        let timeout = (*timeout).min(MAX_DURATION);
        let mut headers = vec![("accept", "application/json".to_owned())];
        if *provider == Provider::Anthropic {
            headers.push(("anthropic-version", "2023-06-01".to_owned()));
        }
        if let Some(key) = &self.key {
            headers.push(match provider {
                Provider::Anthropic => ("x-api-key", key.expose().to_owned()),
                _ => ("authorization", format!("Bearer {}", key.expose())),
            });
        }
        let request = self.agent.post(url).content_type("application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let answer = request.config().timeout_global(Some(timeout)).build().send(body);
        let failure = |error| self.failure(error, timeout);
        let mut response = answer.map_err(failure)?;
        let status = response.status().as_u16();
        let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after = header.and_then(|value| parse_retry_after(value, SystemTime::now()));
        if !(200..300).contains(&status) {
            // If the status alone determines the failure, the body is not needed, and some servers truncate it.
            let mut bytes = Vec::new();
            let _ = response.body_mut().as_reader().take(MAX_ERROR_BYTES).read_to_end(&mut bytes);
            let text = self.hide(without_mark(String::from_utf8_lossy(&bytes).into_owned()));
            return Err(self.refusal(status, retry_after, &text));
        }
        // A body may be large: avoid a second copy, unless it contains the key.
        let bytes =
            response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec().map_err(failure)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::Answer { problem: "the body is not UTF-8".to_owned() })?;
        Ok(self.hide(surrogate::escaped(without_mark(text))))
    }
}

/// Some servers put a byte order mark before JSON.
fn without_mark(mut text: String) -> String {
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    text
}

/// `Retry-After` is a number of seconds or a date (RFC 9110, section 10.2.3); a date in the past means now.
fn parse_retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let check = |value, seconds: Option<f64>| {
            assert_eq!(parse_retry_after(value, now), seconds.map(Duration::from_secs_f64), "{value}");
        };
        check("7", Some(7.0));
        check(" 0.5 ", Some(0.5));
        check("1e19", Some(1e19));
        check("Sun, 06 Nov 1994 08:50:37 GMT", Some(60.0));
        check("Sun, 06 Nov 1994 08:40:37 GMT", Some(0.0));
        for bad in ["", "soon", "-1", "NaN", "inf", "1e400"] {
            check(bad, None);
        }
    }
}
