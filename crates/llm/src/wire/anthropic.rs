//! Anthropic's messages. Source: the API reference of Anthropic, version 2023-06-01.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, decode, usage};
use crate::request::{ChatAnswer, ChatRequest, Message, Origin, Role, Stop};
use crate::settings::Settings;

/// System messages are separate from the conversation, and an answer that must follow a schema is the input of a tool
/// that the model is forced to use.
pub(super) fn chat_call(settings: &Settings, request: &ChatRequest) -> Call {
    let (system, messages): (Vec<&Message>, Vec<&Message>) =
        request.messages.iter().partition(|message| message.role == Role::System);
    let mut body =
        json!({"model": settings.model, "max_tokens": request.max_output_tokens, "messages": messages});
    if !system.is_empty() {
        let texts: Vec<&str> = system.iter().map(|message| message.content.as_str()).collect();
        body["system"] = json!(texts.join("\n\n"));
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(schema) = &request.schema {
        let description = "Gives the answer.";
        body["tools"] =
            json!([{"name": schema.name, "description": description, "input_schema": schema.schema}]);
        body["tool_choice"] = json!({"type": "tool", "name": schema.name});
    }
    Call::new("/messages", body, request.sample, request.max_output_tokens.into())
}

#[derive(Deserialize)]
struct Answer {
    content: Vec<Block>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    ToolUse {
        input: Value,
    },
    #[serde(other)]
    Other,
}

pub(super) fn chat_answer(body: &str) -> Result<ChatAnswer, String> {
    let answer: Answer = decode(body, "a message with `content`")?;
    let tool = answer.content.iter().find_map(|block| match block {
        Block::ToolUse { input } => Some(input.to_string()),
        _ => None,
    });
    let text = tool.unwrap_or_else(|| {
        let texts = answer.content.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    });
    let stop = match answer.stop_reason.as_deref() {
        None | Some("end_turn" | "stop_sequence" | "tool_use") => Stop::Complete,
        Some("max_tokens") => Stop::Length,
        Some("refusal") => Stop::Refusal,
        Some(other) => Stop::Other(other.to_owned()),
    };
    Ok(ChatAnswer { text, stop, usage: usage(body, true), origin: Origin::Endpoint })
}
