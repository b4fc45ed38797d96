//! What can go wrong, for the client or for whoever runs the server.

use std::io;

use lsp_server::{ErrorCode, ResponseError};
use quarry_index::Error;

/// Why the folders of a client cannot be searched.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// They have nothing to index.
    #[error("{0}")]
    Nothing(String),
    /// They cannot be read or indexed, or the model is missing.
    #[error("{0}")]
    Failed(String),
}

/// Why a server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A thread cannot be started.
    #[error("cannot start the server")]
    Start(#[source] io::Error),
    /// The input cannot be read.
    #[error("cannot read from the client")]
    Read(#[source] io::Error),
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// What was asked is malformed.
    #[error("{0}")]
    Parameters(String),
    /// What was asked cannot be answered.
    #[error("{0}")]
    Failed(String),
    /// The index was overwritten while it was read: it must be opened again.
    #[error("the index was overwritten while it was read; try again")]
    Replaced,
    /// See [`OpenError`].
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl RequestError {
    /// As the client is told.
    pub(crate) fn response(&self) -> ResponseError {
        let code = match self {
            Self::Parameters(_) => ErrorCode::InvalidParams,
            Self::Failed(_) | Self::Open(_) => ErrorCode::RequestFailed,
            Self::Replaced => ErrorCode::ContentModified,
        };
        ResponseError { code: code as i32, message: self.to_string(), data: None }
    }
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        match error {
            Error::Replaced { .. } => Self::Replaced,
            error => Self::Failed(with_causes(&error)),
        }
    }
}

/// An error with its causes.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
