//! Pages that others make, such as reports, which are served with the same care as our own.

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use percent_encoding::percent_decode_str;

use crate::gate::Gate;
use crate::pages::ProblemPage;
use crate::params::Params;
use crate::problem::Problem;

/// A page that somebody made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The whole page, which needs no other file.
    pub html: String,
    /// Its content policy.
    pub policy: String,
}

/// Makes the page at a path with parameters, in their order; `None` if there is none, and an error that says what to do
/// if it cannot be made.
pub type MakeDocument = dyn Fn(&str, &[(String, String)]) -> Option<Result<Document, String>> + Send + Sync;

#[derive(Clone)]
struct Documents {
    make: Arc<MakeDocument>,
    gate: Gate,
}

/// The pages that `make` makes, each time that they are asked for.
pub(crate) fn router(make: Arc<MakeDocument>) -> Router {
    let at_once = std::thread::available_parallelism().map_or(2, usize::from);
    let documents = Documents { make, gate: Gate::new(at_once) };
    Router::new()
        .route("/", get(document))
        .route("/{*path}", get(document))
        .method_not_allowed_fallback(|| async {
            let detail = "pages can only be read: use GET";
            ProblemPage::from(Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail))
        })
        .with_state(documents)
}

async fn document(
    State(documents): State<Documents>,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> Result<Response, ProblemPage> {
    let params = Params::parse(&query.unwrap_or_default())?;
    let path = percent_decode_str(uri.path()).decode_utf8_lossy().into_owned();
    let made = documents.gate.run(move || {
        let pairs: Vec<(String, String)> =
            params.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let made = (documents.make)(&path, &pairs);
        let none = || Problem::not_found("no such page; / lists all");
        made.ok_or_else(none)?.map_err(|detail| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail))
    });
    let Document { html, policy } = made.await?;
    let policy = HeaderValue::from_str(&policy).map_err(|error| Problem::internal(&error))?;
    Ok(([(header::CONTENT_SECURITY_POLICY, policy)], Html(html)).into_response())
}
