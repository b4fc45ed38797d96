//! Settings of an endpoint, as written in settings files and plans.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::budget::{Money, Price};
use crate::error::LlmError;
use crate::key::{invalid_variable, is_variable};

/// Maximum time limit of an attempt or a call.
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(1_000_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// OpenAI's own chat completions and embeddings.
    Openai,
    /// The same API as implemented by others: Ollama, vLLM, llama.cpp, model hosts. The limit of an answer is named
    /// `max_tokens` here.
    OpenaiCompatible,
    /// Anthropic's messages, without embeddings.
    Anthropic,
}

/// An endpoint and how to use it. Durations are in seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub provider: Provider,
    /// Base URL of the API, such as `http://localhost:11434/v1` or `https://api.anthropic.com/v1`.
    pub base_url: String,
    /// The server's name for the model.
    pub model: String,
    /// The environment variable with the key; `None` for servers that need none.
    pub key_variable: Option<String>,
    /// Dollars per million input tokens.
    pub input_price: Option<f64>,
    /// Dollars per million output tokens.
    pub output_price: Option<f64>,
    /// True if the server can enforce a JSON schema. If not, the schema is described in the prompt.
    #[serde(default = "yes")]
    pub json_schema: bool,
    /// Maximum duration of one attempt.
    #[serde(default = "two_minutes")]
    pub timeout_seconds: f64,
    /// Maximum duration of a call with all its attempts and waits.
    #[serde(default = "fifteen_minutes")]
    pub deadline_seconds: f64,
    #[serde(default = "six")]
    pub attempts: u32,
    /// Maximum number of concurrent calls; lowered if the server refuses them.
    #[serde(default = "eight")]
    pub concurrency: u32,
    /// Maximum number of tokens per minute; determined by the server's refusals if `None`.
    pub tokens_per_minute: Option<u64>,
    /// Maximum number of texts in one request for embeddings.
    #[serde(default = "sixty_four")]
    pub embedding_batch: usize,
    /// The requested length of vectors, for models that support shortening.
    pub dimensions: Option<u32>,
}

fn yes() -> bool {
    true
}
fn two_minutes() -> f64 {
    120.0
}
fn fifteen_minutes() -> f64 {
    900.0
}
fn six() -> u32 {
    6
}
fn eight() -> u32 {
    8
}
fn sixty_four() -> usize {
    64
}

impl Settings {
    /// Settings with every default.
    pub fn new(provider: Provider, base_url: &str, model: &str) -> Self {
        Self {
            provider,
            base_url: base_url.to_owned(),
            model: model.to_owned(),
            key_variable: None,
            input_price: None,
            output_price: None,
            json_schema: yes(),
            timeout_seconds: two_minutes(),
            deadline_seconds: fifteen_minutes(),
            attempts: six(),
            concurrency: eight(),
            tokens_per_minute: None,
            embedding_batch: sixty_four(),
            dimensions: None,
        }
    }

    /// The normalized base URL: without a trailing slash.
    ///
    /// # Errors
    /// [`LlmError::Settings`] if it is invalid.
    pub fn address(&self) -> Result<String, LlmError> {
        Ok(Address::parse(&self.base_url)?.base)
    }

    /// Validates every setting, and parses the address.
    ///
    /// # Errors
    /// [`LlmError::Settings`] with the name of the setting.
    pub(crate) fn check(self) -> Result<Endpoint, LlmError> {
        let fail = |problem: String| Err(LlmError::Settings { problem });
        let address = Address::parse(&self.base_url)?;
        if self.model.is_empty() {
            return fail("`model` is empty".to_owned());
        }
        for (name, seconds) in
            [("timeout_seconds", self.timeout_seconds), ("deadline_seconds", self.deadline_seconds)]
        {
            if !(seconds > 0.0 && seconds <= MAX_DURATION.as_secs_f64()) {
                return fail(format!("`{name}` is {seconds}; expected more than 0 and at most 1000000"));
            }
        }
        if self.key_variable.as_deref().is_some_and(|name| !is_variable(name)) {
            return Err(invalid_variable());
        }
        let counts = [
            ("attempts", u64::from(self.attempts)),
            ("concurrency", u64::from(self.concurrency)),
            ("tokens_per_minute", self.tokens_per_minute.unwrap_or(1)),
            ("embedding_batch", self.embedding_batch as u64),
            ("dimensions", u64::from(self.dimensions.unwrap_or(1))),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return fail(format!("`{name}` is 0; expected at least 1"));
        }
        let price = |name: &str, dollars: Option<f64>| {
            let dollars = dollars.unwrap_or(0.0);
            Money::from_dollars(dollars / 1e6).ok_or_else(|| LlmError::Settings {
                problem: format!("`{name}` is {dollars}; expected dollars for a million tokens, 0 or more"),
            })
        };
        let price = Price {
            input: price("input_price", self.input_price)?,
            output: price("output_price", self.output_price)?,
        };
        Ok(Endpoint { address, price, settings: self })
    }
}

/// Error message for a key in the address, because addresses are kept in ledgers, recordings and messages.
pub(crate) const KEY_IN_ADDRESS: &str = "`base_url` contains a key; put the key into an environment variable and name \
                                         that in `key_variable`";

/// A parsed base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Without a trailing slash; contains no credential.
    pub(crate) base: String,
    /// True if the server is on this machine, so that no proxy is used.
    pub(crate) local: bool,
}

impl Address {
    pub(crate) fn parse(address: &str) -> Result<Self, LlmError> {
        let fail = |problem: &str| Err(LlmError::Settings { problem: problem.to_owned() });
        // An address may contain a password: no message repeats it.
        let Ok(url) = Url::parse(address) else {
            return fail("`base_url` is not an address; write one such as http://localhost:11434/v1");
        };
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return fail("`base_url` must begin with http:// or https:// and name a host");
        }
        if !url.username().is_empty()
            || url.password().is_some()
            || url.query().is_some()
            || url.fragment().is_some()
        {
            return fail(
                "`base_url` must not contain a user, a password, a query or a fragment; put the key into an environment \
                 variable and name that in `key_variable`",
            );
        }
        let is_key = |part: &str| part.starts_with("sk-") || part.contains("key=") || part.contains("token=");
        if url.path_segments().is_some_and(|mut parts| parts.any(|part| is_key(&part.to_ascii_lowercase()))) {
            return fail(KEY_IN_ADDRESS);
        }
        let local = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        Ok(Self { base: url.as_str().trim_end_matches('/').to_owned(), local })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) settings: Settings,
    pub(crate) address: Address,
    pub(crate) price: Price,
}

impl Endpoint {
    pub(crate) fn name(&self) -> String {
        format!("{} ({})", self.address.base, self.settings.model)
    }

    /// Maximum time for one attempt.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.settings.timeout_seconds)
    }

    /// Maximum time for a call.
    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_secs_f64(self.settings.deadline_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(change: impl FnOnce(&mut Settings)) -> String {
        let mut settings = Settings::new(Provider::Openai, "https://example.org/v1/", "m");
        change(&mut settings);
        settings.check().unwrap_err().to_string()
    }

    #[test]
    fn the_name_of_an_endpoint_is_its_address_and_model() {
        let endpoint = Settings::new(Provider::Openai, "https://example.org/v1/", "m").check().unwrap();
        assert_eq!((endpoint.name().as_str(), endpoint.address.local), ("https://example.org/v1 (m)", false));
        for local in ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1/v1"] {
            assert!(Settings::new(Provider::Openai, local, "m").check().unwrap().address.local, "{local}");
        }
    }

    #[test]
    fn invalid_settings_are_reported_without_credentials() {
        for address in [
            "https://me:hunter2@example.org",
            "https://example.org?key=hunter2",
            "hunter2",
            "ftp://hunter2",
            "https://example.org/sk-hunter2/v1",
            "https://example.org/v1/api_key=hunter2/",
        ] {
            let problem = problem(|settings| settings.base_url = address.to_owned());
            assert!(problem.contains("`base_url`") && !problem.contains("hunter2"), "{problem}");
        }
        assert!(problem(|settings| settings.attempts = 0).contains("`attempts`"));
        assert!(problem(|settings| settings.timeout_seconds = f64::NAN).contains("`timeout_seconds`"));
        assert!(problem(|settings| settings.input_price = Some(-1.0)).contains("`input_price`"));
        assert!(problem(|settings| settings.model.clear()).contains("`model`"));
    }

    #[test]
    fn a_setting_that_does_not_exist_is_an_error() {
        let written = r#"{"provider": "openai-compatible", "base_url": "http://localhost", "model": "m"}"#;
        let settings: Settings = serde_json::from_str(written).unwrap();
        assert_eq!(settings, Settings::new(Provider::OpenaiCompatible, "http://localhost", "m"));
        let typo = written.replace("\"model\"", "\"retries\": 3, \"model\"");
        assert!(serde_json::from_str::<Settings>(&typo).unwrap_err().to_string().contains("retries"));
    }
}
