//! Messages on the server: headers, publishing and removing them, and stored replies.

use std::time::Duration;

use async_nats::header::{HeaderMap, HeaderName};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{DeleteStatus, DirectGetErrorKind};
use async_nats::jetstream::{self, Context};
use bytes::Bytes;
use serde_json::json;

use crate::connection::{ActionError, Connection};
use crate::error::QueueError;

/// The header with the protocol version of the two programs.
pub(crate) const PROTOCOL: &str = "Quarry-Protocol";

pub(crate) const KIND_OF_REPLY: &str = "Quarry-Reply";

/// The server's own header: sequence number of the message that must be the last with its subject, 0 for none.
pub(crate) const EXPECTED_SEQUENCE: &str = "Nats-Expected-Last-Subject-Sequence";

/// Kinds of replies.
pub(crate) mod kind {
    pub(crate) const DONE: &str = "done";
    pub(crate) const FAILED: &str = "failed";
    pub(crate) const LOST: &str = "lost";
    pub(crate) const GIVEN_BACK: &str = "given-back";
}

/// A worker's signals, sent when it starts a task and when the reply is stored, and the answers to the first one.
pub(crate) mod signal {
    pub(crate) const BEGUN: &[u8] = b"begun";
    pub(crate) const REPLIED: &[u8] = b"replied";
    pub(crate) const WANTED: &[u8] = b"wanted";
    pub(crate) const UNWANTED: &[u8] = b"unwanted";
    pub(crate) const BUSY: &[u8] = b"busy";
}

pub(crate) enum Refused {
    /// A message with its subject exists.
    AlreadyThere,
    TooLarge {
        bytes: usize,
        limit: usize,
    },
    NoStream,
    Other(String),
}

/// Publishes a message, and waits until it is stored.
pub(crate) async fn publish(
    connection: &Connection,
    subject: &str,
    headers: &[(&'static str, &str)],
    payload: &Bytes,
) -> Result<(), Refused> {
    let bytes = payload.len();
    let headers: HeaderMap =
        headers.iter().map(|&(name, value)| (HeaderName::from_static(name), value.into())).collect();
    let message = PublishMessage::build().payload(payload.clone()).headers(headers);
    let stored = async { connection.context().send_publish(subject.to_owned(), message).await?.await };
    let Err(error) = stored.await else { return Ok(()) };
    let description = || {
        let source = std::error::Error::source(&error)?;
        Some(source.downcast_ref::<jetstream::Error>()?.to_string())
    };
    Err(match error.kind() {
        PublishErrorKind::WrongLastSequence => Refused::AlreadyThere,
        PublishErrorKind::MaxPayloadExceeded => {
            Refused::TooLarge { bytes, limit: connection.client().max_payload() }
        }
        PublishErrorKind::StreamNotFound => Refused::NoStream,
        // The server uses one error code for all reasons not to store a message.
        _ if description().is_some_and(|text| text.contains("per subject")) => Refused::AlreadyThere,
        _ => Refused::Other(error.to_string()),
    })
}

/// Removes a message from a stream, if it still exists.
///
/// The server is told not to overwrite it, which would be the default: if a server of version 2.9 overwrote messages
/// and was then killed, it miscounts the messages in its stream after a restart, and reports messages that it stores
/// from then on as missing.
pub(crate) async fn remove(context: &Context, stream: &str, sequence: u64) -> Result<(), ActionError> {
    let request = json!({"seq": sequence, "no_erase": true});
    let answer = context.request(format!("STREAM.MSG.DELETE.{stream}"), &request).await;
    match answer {
        Ok(Response::<DeleteStatus>::Ok(_)) => Ok(()),
        // Already removed.
        Ok(Response::Err { error }) if error.code() != 503 => Ok(()),
        Ok(Response::Err { error }) => Err(ActionError::Transient(error.to_string())),
        Err(error) => Err(ActionError::Transient(error.to_string())),
    }
}

pub(crate) async fn stored_reply(
    connection: &Connection,
    subject: &str,
    grace: Duration,
) -> Result<Option<StreamMessage>, QueueError> {
    let retry = connection.retry(grace);
    retry
        .until_done("look for a reply", async || {
            match connection.replies().direct_get_last_for_subject(subject).await {
                Ok(reply) => Ok(Some(reply)),
                Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
                Err(error) => Err(ActionError::Transient(error.to_string())),
            }
        })
        .await
}
