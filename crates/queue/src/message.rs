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

/// The header that says which version of their language two programs speak.
pub(crate) const PROTOCOL: &str = "Quarry-Protocol";

/// The header that says what a reply is.
pub(crate) const KIND_OF_REPLY: &str = "Quarry-Reply";

/// The server's own header: the message that must be the last of its subject, 0 for none.
pub(crate) const EXPECTED_SEQUENCE: &str = "Nats-Expected-Last-Subject-Sequence";

/// What a reply is.
pub(crate) mod kind {
    pub(crate) const DONE: &str = "done";
    pub(crate) const FAILED: &str = "failed";
    pub(crate) const LOST: &str = "lost";
    pub(crate) const GIVEN_BACK: &str = "given-back";
}

/// What a worker says when it begins with a task and when its reply is stored, and what it hears to the first.
pub(crate) mod signal {
    pub(crate) const BEGUN: &[u8] = b"begun";
    pub(crate) const REPLIED: &[u8] = b"replied";
    pub(crate) const WANTED: &[u8] = b"wanted";
    pub(crate) const UNWANTED: &[u8] = b"unwanted";
    pub(crate) const BUSY: &[u8] = b"busy";
}

/// Why a message was not stored.
pub(crate) enum Refused {
    /// One of its subject is there.
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
        // The server has one code for all that keeps it from storing.
        _ if description().is_some_and(|text| text.contains("per subject")) => Refused::AlreadyThere,
        _ => Refused::Other(error.to_string()),
    })
}

/// Removes a message from the stream of this name, where it is there still.
///
/// The server is told not to overwrite it, as it does by default: a server of version 2.9 that overwrote messages and
/// was killed then counts what its stream holds in a wrong way when it starts again, and says of messages that it
/// stores from then on that there are none.
pub(crate) async fn remove(context: &Context, stream: &str, sequence: u64) -> Result<(), ActionError> {
    let request = json!({"seq": sequence, "no_erase": true});
    let answer = context.request(format!("STREAM.MSG.DELETE.{stream}"), &request).await;
    match answer {
        Ok(Response::<DeleteStatus>::Ok(_)) => Ok(()),
        // It is gone.
        Ok(Response::Err { error }) if error.code() != 503 => Ok(()),
        Ok(Response::Err { error }) => Err(ActionError::Transient(error.to_string())),
        Err(error) => Err(ActionError::Transient(error.to_string())),
    }
}

/// The reply that is stored under `subject`.
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
