//! A client for language models: chat and embeddings over the APIs of OpenAI, which many servers implement, and
//! Anthropic.
//!
//! A [`Client`] is for one model at one endpoint. It looks for an answer in its [`Cache`] first; requests that it
//! sends are paid from a [`Budget`], paced to the server's rate limits, and retried if that may help. With a
//! [`Recording`] instead of an endpoint it needs no network. It is independent of the content of requests.
//!
//! ```no_run
//! use quarry_llm::{ApiKey, ChatRequest, Client, Provider, Settings};
//!
//! let mut settings = Settings::new(Provider::Openai, "https://api.openai.com/v1", "some-model");
//! settings.key_variable = Some("OPENAI_API_KEY".to_owned());
//! let client = Client::new(settings)?;
//! let answer = client.chat(&ChatRequest::new("Does `a - b` add two numbers?", 200))?;
//! assert!(!answer.text.is_empty());
//! # Ok::<(), quarry_llm::LlmError>(())
//! ```

pub mod budget;
mod client;
mod error;
mod key;
mod pace;
mod request;
mod retry;
mod settings;
mod store;
mod surrogate;
mod transport;
mod wire;

pub use budget::{Booked, Budget, BudgetError, Cost, Limits, Money, Spending, Usage};
pub use client::{CallControl, Client, Estimate};
pub use error::{Failure, LlmError};
pub use key::ApiKey;
pub use request::{ChatAnswer, ChatRequest, Embeddings, Message, Origin, Role, Schema, Stop};
pub use settings::{Provider, Settings};
pub use store::cached::CachedAnswers;
pub use store::{Cache, Recorder, Recording};
pub use surrogate::lone_surrogate;
pub use transport::{Attempt, HttpTransport, Transport};
