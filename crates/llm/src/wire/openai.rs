//! OpenAI's chat completions and embeddings, as implemented by many servers.
//! Source: the API reference of OpenAI, and the documentation of Ollama, vLLM and llama.cpp.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, decode, usage};
use crate::request::{ChatAnswer, ChatRequest, Origin, Stop};
use crate::settings::{Provider, Settings};

pub(super) fn chat_call(settings: &Settings, request: &ChatRequest) -> Call {
    let limit = match settings.provider {
        Provider::Openai => "max_completion_tokens",
        _ => "max_tokens",
    };
    let mut body =
        json!({"model": settings.model, "messages": request.messages, limit: request.max_output_tokens});
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(schema) = &request.schema {
        let schema = json!({"name": schema.name, "strict": true, "schema": schema.schema});
        body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
    }
    Call::new("/chat/completions", body, request.sample, request.max_output_tokens.into())
}

pub(super) fn embedding_call(settings: &Settings, texts: &[&str]) -> Call {
    let mut body = json!({"model": settings.model, "input": texts, "encoding_format": "float"});
    if let Some(dimensions) = settings.dimensions {
        body["dimensions"] = json!(dimensions);
    }
    Call::new("/embeddings", body, 0, 0)
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Answer,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    content: Option<String>,
    refusal: Option<String>,
}

pub(super) fn chat_answer(body: &str) -> Result<ChatAnswer, String> {
    let completion: Completion = decode(body, "a chat completion with `choices`")?;
    let Some(choice) = completion.choices.into_iter().next() else {
        return Err("`choices` is empty".to_owned());
    };
    let refusal = choice.message.refusal.filter(|refusal| !refusal.is_empty());
    let stop = match choice.finish_reason.as_deref().unwrap_or("stop") {
        _ if refusal.is_some() => Stop::Refusal,
        "stop" => Stop::Complete,
        "length" => Stop::Length,
        "content_filter" => Stop::Refusal,
        other => Stop::Other(other.to_owned()),
    };
    let text = refusal.or(choice.message.content).unwrap_or_default();
    Ok(ChatAnswer { text, stop, usage: usage(body, true), origin: Origin::Endpoint })
}

#[derive(Deserialize)]
struct EmbeddingList {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

/// The vectors in `body`, which must be `count` vectors of equal length, in the order of the texts.
pub(crate) fn embedding_answer(body: &str, count: usize) -> Result<Vec<Vec<f32>>, String> {
    let list: EmbeddingList = decode(body, "a list of embeddings in `data`")?;
    if list.data.len() != count {
        return Err(format!("sent {count} texts, received {} vectors", list.data.len()));
    }
    let mut vectors = vec![Vec::new(); count];
    for Embedding { index, embedding } in list.data {
        let Some(slot) = vectors.get_mut(index) else {
            return Err(format!("a vector has index {index}, of {count} texts"));
        };
        if !slot.is_empty() {
            return Err(format!("two vectors have index {index}"));
        }
        if embedding.is_empty() || embedding.iter().any(|value| !value.is_finite()) {
            return Err(format!("vector {index} is empty or contains a value that is not finite"));
        }
        *slot = embedding;
    }
    let lengths = (vectors.iter().map(Vec::len).min(), vectors.iter().map(Vec::len).max());
    if lengths.0 != lengths.1 {
        return Err("the vectors differ in length".to_owned());
    }
    Ok(vectors)
}

/// The body of an answer with one vector, as stored for one text.
pub(crate) fn embedding_body(vector: &[f32]) -> Value {
    json!({"data": [{"index": 0, "embedding": vector}]})
}
