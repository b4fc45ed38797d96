//! Errors, for the client or for the user who runs the server.

use std::io;

use lsp_server::{ErrorCode, ResponseError};
use quarry_index::Error;
use quarry_session::SessionError;
use quarry_text::with_causes;

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

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A thread cannot be started.
    #[error("cannot start the server")]
    Start(#[source] io::Error),
    /// The input cannot be read.
    #[error("cannot read from the client")]
    Read(#[source] io::Error),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The request is malformed.
    #[error("{0}")]
    Parameters(String),
    /// The request cannot be answered.
    #[error("{0}")]
    Failed(String),
    /// The index cannot be searched.
    #[error("{}", with_causes(.0))]
    Index(#[from] Error),
    /// See [`OpenError`].
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl AsRef<dyn std::error::Error + 'static> for RequestError {
    fn as_ref(&self) -> &(dyn std::error::Error + 'static) {
        match self {
            Self::Index(error) => error,
            error => error,
        }
    }
}

impl RequestError {
    pub(crate) fn response(&self) -> ResponseError {
        let code = match self {
            Self::Parameters(_) => ErrorCode::InvalidParams,
            Self::Index(Error::Replaced { .. }) => ErrorCode::ContentModified,
            Self::Failed(_) | Self::Index(_) | Self::Open(_) => ErrorCode::RequestFailed,
        };
        ResponseError { code: code as i32, message: self.to_string(), data: None }
    }
}

impl From<SessionError> for RequestError {
    fn from(error: SessionError) -> Self {
        let text = with_causes(&error);
        match error {
            SessionError::Index(Error::NothingToIndex { .. }) | SessionError::NoPath => {
                Self::Open(OpenError::Nothing(text))
            }
            SessionError::Index(error) => Self::Index(error),
            _ => Self::Open(OpenError::Failed(text)),
        }
    }
}
