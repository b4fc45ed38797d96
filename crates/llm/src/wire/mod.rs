//! Encoding requests as JSON bodies, and decoding answers. Nothing here sends anything.

mod anthropic;
mod openai;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::budget::Usage;
use crate::request::{ChatAnswer, ChatRequest, Message, Role, Stop};
use crate::settings::{Endpoint, Provider};

/// Tokens that a server may count for a message or a request in addition to the texts: chat templates, and its own
/// instructions about schemas and tools. Anthropic's for a tool are about 350.
const HIDDEN_TOKENS: u64 = 512;

/// A request that is ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Path relative to the base URL.
    pub(crate) path: &'static str,
    pub(crate) body: Value,
    /// Sample number, to distinguish several answers to the same body.
    pub(crate) sample: u32,
    /// Maximum usage that the server can count.
    pub(crate) worst: Usage,
}

impl Call {
    fn new(path: &'static str, body: Value, sample: u32, output_tokens: u64) -> Self {
        // A token stands for at least one byte of text, in every tokenizer with byte fallback, and the JSON around a
        // message is longer than what a chat template adds.
        let input_tokens = body.to_string().len() as u64 + HIDDEN_TOKENS;
        Self { path, body, sample, worst: Usage { input_tokens, output_tokens } }
    }

    /// Approximate tokens of the call, as rate limits of servers count in advance: four bytes each.
    pub(crate) fn typical_tokens(&self) -> u64 {
        self.worst.input_tokens / 4 + self.worst.output_tokens
    }
}

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

/// The call for the embeddings of `texts`; `None` if the API does not offer any.
pub(crate) fn embedding_call(endpoint: &Endpoint, texts: &[&str]) -> Option<Call> {
    match endpoint.settings.provider {
        Provider::Anthropic => None,
        Provider::Openai | Provider::OpenaiCompatible => {
            Some(openai::embedding_call(&endpoint.settings, texts))
        }
    }
}

/// Parses the chat answer in `body`; an error describes the problem. A complete answer without text is an error,
/// unless it `may_be_empty`.
pub(crate) fn chat_answer(provider: Provider, body: &str, may_be_empty: bool) -> Result<ChatAnswer, String> {
    let answer = match provider {
        Provider::Anthropic => anthropic::chat_answer(body),
        Provider::Openai | Provider::OpenaiCompatible => openai::chat_answer(body),
    }?;
    if answer.text.trim().is_empty() && answer.stop == Stop::Complete && !may_be_empty {
        return Err("the model wrote nothing".to_owned());
    }
    Ok(answer)
}

pub(crate) use openai::{embedding_answer, embedding_body};

/// Maximum plausible number of tokens in one direction in one call; larger counts are errors of the server, and would
/// make sums meaningless.
const MAX_TOKENS: u64 = 1_000_000_000;

/// The usage reported in `body`, whatever else is wrong with it. `None` if a part is missing, is not a number, or is
/// zero, since no request is empty and no model writes nothing; only if the model `writes` no text, the output tokens
/// may be missing.
pub(crate) fn usage(body: &str, writes: bool) -> Option<Usage> {
    // The rest of a body may be large, and is not kept.
    #[derive(Deserialize)]
    struct Used {
        usage: Value,
    }
    let Used { usage } = serde_json::from_str(body).ok()?;
    // The first of these members that is present. If it is not a number, the whole usage is invalid.
    let count = |names: &[&str]| -> Option<Option<u64>> {
        let found = names.iter().find_map(|name| usage.get(name).filter(|value| !value.is_null()));
        found.map_or(Some(None), |value| integer(value).map(Some))
    };
    // Anthropic counts tokens read from and written to its own cache separately from the input.
    let cached = [count(&["cache_creation_input_tokens"])?, count(&["cache_read_input_tokens"])?];
    let cached = cached.into_iter().flatten().fold(0, u64::saturating_add);
    let output_tokens = count(&["completion_tokens", "output_tokens"])?;
    let usage = Usage {
        input_tokens: count(&["prompt_tokens", "input_tokens"])??.saturating_add(cached),
        output_tokens: if writes { output_tokens? } else { output_tokens.unwrap_or(0) },
    };
    let is_reported = |tokens: u64| (1..=MAX_TOKENS).contains(&tokens);
    let wrote = is_reported(usage.output_tokens) || !writes && usage.output_tokens == 0;
    (is_reported(usage.input_tokens) && wrote).then_some(usage)
}

/// An integral number; some servers write it with a decimal point.
fn integer(number: &Value) -> Option<u64> {
    let as_whole =
        |float: f64| (float >= 0.0 && float.fract() == 0.0 && float < 1e18).then_some(float as u64);
    number.as_u64().or_else(|| number.as_f64().and_then(as_whole))
}

/// The server's message in the body of an error, and whether the account's quota is used up.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn usage_is_whole_or_unknown() {
        let read = |given: Value, writes| {
            let found = usage(&json!({"usage": given}).to_string(), writes);
            found.map(|usage| (usage.input_tokens, usage.output_tokens))
        };
        for (given, expected) in [
            (json!({"prompt_tokens": 100, "completion_tokens": 250}), Some((100, 250))),
            (json!({"prompt_tokens": 100.0, "completion_tokens": 250.0}), Some((100, 250))),
            (json!({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": null}), Some((1, 2))),
            (json!({"input_tokens": 0, "output_tokens": 2, "cache_read_input_tokens": 3}), Some((3, 2))),
            (json!({"prompt_tokens": 0, "completion_tokens": 0}), None),
            (json!({"prompt_tokens": 0, "completion_tokens": 2}), None),
            (json!({"prompt_tokens": 1, "completion_tokens": 0}), None),
            (json!({"prompt_tokens": 1_000_000_000, "completion_tokens": 2}), Some((1_000_000_000, 2))),
            (json!({"prompt_tokens": 1_000_000_001, "completion_tokens": 2}), None),
            (json!({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3}), Some((4, 2))),
            (json!({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": -3}), None),
            (json!({"prompt_tokens": 100}), None),
            (json!({"prompt_tokens": 100, "completion_tokens": null}), None),
            (json!({"completion_tokens": 10}), None),
            (json!({"prompt_tokens": -1, "completion_tokens": 10}), None),
            (json!({"prompt_tokens": 1, "completion_tokens": 2.5}), None),
            (json!({"prompt_tokens": 1, "completion_tokens": 1e300}), None),
            (json!({"prompt_tokens": 1, "completion_tokens": "ten"}), None),
            (json!(7), None),
        ] {
            assert_eq!(read(given.clone(), true), expected, "{given}");
        }
        assert_eq!(read(json!({"prompt_tokens": 5}), false), Some((5, 0)), "embeddings");
        assert_eq!(read(json!({"prompt_tokens": 5, "completion_tokens": -1}), false), None);
        assert_eq!(read(json!({"prompt_tokens": 0}), false), None);
    }
}
