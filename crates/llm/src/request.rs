//! What is asked and what is answered, whichever API carries it.

use serde::Serialize;
use serde_json::Value;

use crate::budget::Usage;

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The system message, which sets the task.
    System,
    /// The user.
    User,
    /// An answer of the model.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message of `role`.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// What the JSON object of an answer must look like.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// A name for it: letters, digits, `_` and `-`.
    pub name: String,
    /// JSON schema of an object. The order of its properties is kept: models write them in this order, so reasons
    /// stand before verdicts.
    pub schema: Value,
}

/// A question to a chat model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Maximum number of tokens that the answer may have. Every call has such a limit, or it would have no worst case.
    pub max_output_tokens: u32,
    /// How much chance there is in an answer, 0 for none; the server's own if unset.
    pub temperature: Option<f64>,
    /// The form of the answer.
    pub schema: Option<Schema>,
    /// Which of several answers to the same question this is. Each is cached and recorded by itself.
    pub sample: u32,
}

impl ChatRequest {
    /// A question by a user, with an answer of at most `max_output_tokens`.
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

/// Why an answer ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The model was done.
    Complete,
    /// The answer reached its limit of tokens, so it may be cut.
    Length,
    /// The model or the server refused to answer.
    Refusal,
    /// Another reason, in the server's words.
    Other(String),
}

/// Where an answer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From the endpoint, and paid for.
    Endpoint,
    /// From the cache.
    Cache,
    /// From a recording.
    Recording,
}

/// A chat model's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatAnswer {
    /// What the model wrote; for a refusal, the reason it gives.
    pub text: String,
    /// Why it ends.
    pub stop: Stop,
    /// Tokens as the server counted them, when the question was sent.
    pub usage: Option<Usage>,
    /// Where it comes from.
    pub origin: Origin,
}

/// Embeddings of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// A vector for each text, in the order of the texts, as the server gives them: not normalized.
    pub vectors: Vec<Vec<f32>>,
    /// How many of the distinct texts came from the endpoint, rather than the cache or a recording.
    pub sent: usize,
}
