//! Requests as bodies of JSON, and bodies of JSON as answers. Nothing here sends anything.

mod anthropic;
mod openai;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::budget::Usage;
use crate::request::{ChatAnswer, ChatRequest, Message, Role};
use crate::settings::{Endpoint, Provider};

/// Tokens beside those of the texts that a server may count for a message or a request: chat templates, and its own
/// words about schemas and tools. Anthropic's for a tool are about 350.
const HIDDEN_TOKENS: u64 = 512;

/// A request that is ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Path below the base address.
    pub(crate) path: &'static str,
    /// The body.
    pub(crate) body: Value,
    /// Which of several answers to the same body.
    pub(crate) sample: u32,
    /// The most tokens that the server can count.
    pub(crate) worst: Usage,
}

impl Call {
    fn new(path: &'static str, body: Value, sample: u32, output_tokens: u64) -> Self {
        // A token stands for at least one byte of text, in every tokenizer that falls back to bytes, and the JSON
        // around a message is longer than what a chat template puts there.
        let input_tokens = body.to_string().len() as u64 + HIDDEN_TOKENS;
        Self { path, body, sample, worst: Usage { input_tokens, output_tokens } }
    }

    /// About how many tokens the call moves, as rate limits of servers count before they know: four bytes each.
    pub(crate) fn typical_tokens(&self) -> u64 {
        self.worst.input_tokens / 4 + self.worst.output_tokens
    }
}

/// The call that asks `request` of a chat model.
pub(crate) fn chat_call(endpoint: &Endpoint, request: &ChatRequest) -> Call {
    let mut request = request.clone();
    if !endpoint.settings.json_schema
        && let Some(schema) = request.schema.take()
    {
        let words = format!(
            "Answer with one JSON object, and nothing before or after it, that follows this JSON schema:\n{}",
            schema.schema
        );
        match request.messages.iter_mut().find(|message| message.role == Role::System) {
            Some(system) => system.content = format!("{}\n\n{words}", system.content),
            None => request.messages.insert(0, Message::new(Role::System, words)),
        }
    }
    match endpoint.settings.provider {
        Provider::Anthropic => anthropic::chat_call(&endpoint.settings, &request),
        Provider::Openai | Provider::OpenaiCompatible => openai::chat_call(&endpoint.settings, &request),
    }
}

/// The call that asks for the embeddings of `texts`; `None` where the API has none.
pub(crate) fn embedding_call(endpoint: &Endpoint, texts: &[&str]) -> Option<Call> {
    match endpoint.settings.provider {
        Provider::Anthropic => None,
        Provider::Openai | Provider::OpenaiCompatible => {
            Some(openai::embedding_call(&endpoint.settings, texts))
        }
    }
}

/// The chat answer in `body`, or what is wrong with it.
pub(crate) fn chat_answer(provider: Provider, body: &str) -> Result<ChatAnswer, String> {
    match provider {
        Provider::Anthropic => anthropic::chat_answer(body),
        Provider::Openai | Provider::OpenaiCompatible => openai::chat_answer(body),
    }
}

pub(crate) use openai::{embedding_answer, embedding_body};

/// The tokens that `body` says were used, where it says so, whatever else is wrong with it.
pub(crate) fn usage(body: &str) -> Option<Usage> {
    let body: Value = serde_json::from_str(body).ok()?;
    let usage = body.get("usage")?;
    let count = |names: &[&str]| names.iter().find_map(|name| usage.get(name)?.as_u64());
    // Anthropic counts what it reads from and writes to its own cache beside the input.
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
    let cached: u64 = cached.iter().filter_map(|name| count(&[name])).fold(0, u64::saturating_add);
    Some(Usage {
        input_tokens: count(&["prompt_tokens", "input_tokens"])?.saturating_add(cached),
        output_tokens: count(&["completion_tokens", "output_tokens"]).unwrap_or(0),
    })
}

/// What a server says in a body with an error, and whether the account is used up.
pub(crate) fn server_message(body: &str) -> (String, bool) {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let error = parsed.as_ref().and_then(|body| body.get("error"));
    let message = error.and_then(|error| error.get("message").unwrap_or(error).as_str());
    let quota = error.is_some_and(|error| {
        ["code", "type"]
            .iter()
            .any(|name| error.get(name).and_then(Value::as_str) == Some("insufficient_quota"))
    });
    (message.unwrap_or(body).to_owned(), quota)
}

fn decode<T: DeserializeOwned>(body: &str, expected: &str) -> Result<T, String> {
    serde_json::from_str(body).map_err(|error| {
        format!("expected {expected}, and {error}; it begins: {}", crate::error::beginning(body))
    })
}
