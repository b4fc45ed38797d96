//! Requests and answers, independent of the API.

use serde::Serialize;
use serde_json::Value;

use crate::budget::Usage;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The system message, which sets the task.
    System,
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    pub role: Role,
    pub content: String,
}

impl Message {
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// The required form of the JSON object in an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// Its name: letters, digits, `_` and `-`.
    pub name: String,
    /// JSON schema of an object. The order of its properties is kept: models write them in this order, so reasons
    /// should precede verdicts.
    pub schema: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Maximum number of tokens of the answer. Required, because otherwise a call would have no worst case.
    pub max_output_tokens: u32,
    /// Sampling temperature, 0 for deterministic answers; the server's default if `None`.
    pub temperature: Option<f64>,
    /// The required form of the answer, if any.
    pub schema: Option<Schema>,
    /// Sample number, to distinguish several answers to the same question. Each is cached and recorded separately.
    pub sample: u32,
}

impl ChatRequest {
    /// A question by the user, with an answer of at most `max_output_tokens`.
    pub fn new(question: impl Into<String>, max_output_tokens: u32) -> Self {
        Self {
            messages: vec![Message::new(Role::User, question)],
            max_output_tokens,
            temperature: None,
            schema: None,
            sample: 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    Complete,
    /// The answer reached its token limit and may be truncated.
    Length,
    /// The model or the server refused to answer.
    Refusal,
    /// Another reason, as given by the server.
    Other(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The endpoint; this answer was paid for.
    Endpoint,
    Cache,
    Recording,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChatAnswer {
    /// The model's text; for a refusal, the reason it gives.
    pub text: String,
    pub stop: Stop,
    /// Tokens as counted by the server when the question was sent.
    pub usage: Option<Usage>,
    pub origin: Origin,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// A vector for each text, in the order of the texts, as returned by the server: not normalized.
    pub vectors: Vec<Vec<f32>>,
    /// Number of distinct texts that were sent to the endpoint, rather than found in the cache or a recording.
    pub sent: usize,
}
