//! Errors as problem details (RFC 9457) that say what to do.

use std::sync::Arc;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use quarry_session::SessionError;
use quarry_text::with_causes;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Clone, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct Problem {
    pub status: StatusCode,
    pub detail: String,
    /// Seconds after which to ask again.
    pub retry_after: Option<u32>,
    /// The error of the index that it comes from.
    pub index: Option<Arc<quarry_index::Error>>,
}

impl AsRef<dyn std::error::Error + 'static> for Problem {
    fn as_ref(&self) -> &(dyn std::error::Error + 'static) {
        match &self.index {
            Some(error) => &**error,
            None => self,
        }
    }
}

/// A problem as programs read it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ProblemView<'a> {
    /// `about:blank`: the status says what kind of problem it is.
    r#type: &'static str,
    /// The name of the status.
    title: &'a str,
    /// The status code.
    status: u16,
    /// The error, and what to do.
    detail: &'a str,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), retry_after: None, index: None }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// Too much to do now; the same request may be answered later.
    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// Something failed that is not the caller's fault, whose chain of causes the log gets.
    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        tracing::warn!("{}", with_causes(error));
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "this failed; see the server's log")
    }

    pub(crate) fn title(&self) -> &'static str {
        self.status.canonical_reason().unwrap_or("Error")
    }

    /// As programs read it.
    pub(crate) fn view(&self) -> ProblemView<'_> {
        ProblemView {
            r#type: "about:blank",
            title: self.title(),
            status: self.status.as_u16(),
            detail: &self.detail,
        }
    }
}

impl From<quarry_session::PatternError> for Problem {
    fn from(error: quarry_session::PatternError) -> Self {
        Self::bad_request(error.with_place())
    }
}

impl From<quarry_index::Error> for Problem {
    fn from(error: quarry_index::Error) -> Self {
        use std::error::Error as _;

        use quarry_index::Error;
        let problem = match &error {
            Error::EmptyQuery
            | Error::UnknownLanguage { .. }
            | Error::UnknownTree { .. }
            | Error::Glob { .. } => Self::bad_request(error.to_string()),
            Error::NoUnit { .. } | Error::NotKept { .. } => Self::not_found(error.to_string()),
            Error::Elsewhere(cause) => {
                tracing::warn!("{cause}");
                let detail =
                    "the engine that stores the trees does not respond as expected; see the server's log";
                Self { retry_after: Some(5), ..Self::busy(detail) }
            }
            Error::Replaced { .. } => {
                tracing::info!("{error}: {}", error.source().map(ToString::to_string).unwrap_or_default());
                let detail = "an index has just been replaced; try again in a moment";
                Self::busy(detail)
            }
            _ => Self::internal(&error),
        };
        Self { index: Some(Arc::new(error)), ..problem }
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Index(error) => error.into(),
            error => Self::internal(&error),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.view()).unwrap_or_default();
        let content_type = HeaderValue::from_static("application/problem+json");
        let mut response = (self.status, [(header::CONTENT_TYPE, content_type)], body).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
