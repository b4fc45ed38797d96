//! The Model Context Protocol over HTTP.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use quarry_mcp::{CallLimiter, MAX_MESSAGE_BYTES, http_service, refusal_of};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::app::App;
use crate::pages;
use crate::problem::Problem;

/// Calls of agents that are answered, or wait for their turn.
const MAX_CALLS: usize = 16;
/// JSON-RPC's code of an invalid request.
const INVALID_REQUEST: i32 = -32600;

/// Agents ask the first tree at /mcp, and each at /mcp/ and its name.
pub(crate) fn routes(app: &App) -> Router<App> {
    let (free, limiter) = (Arc::new(Semaphore::new(MAX_CALLS)), CallLimiter::default());
    let mut router = Router::new();
    for (at, (workspace, name)) in app.workspaces.iter().zip(app.trees.names()).enumerate() {
        let service = http_service(Arc::clone(workspace), limiter.clone());
        if at == 0 {
            router = router.route_service("/mcp", service.clone());
        }
        router = router.route_service(&format!("/mcp/{}", pages::path_text(name)), service);
    }
    if app.workspaces.is_empty() {
        return router;
    }
    router.route_layer(from_fn(move |request: Request, next: Next| answer(Arc::clone(&free), request, next)))
}

async fn answer(free: Arc<Semaphore>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    // Before anything is taken that others wait for: the client may be slow.
    let Ok(body) = to_bytes(body, MAX_MESSAGE_BYTES).await else {
        let message = format!("a message of more than {MAX_MESSAGE_BYTES} bytes, or only a part of it");
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, &message);
    };
    if head.method == Method::POST
        && let Some(refusal) = refusal_of(&body)
    {
        return (StatusCode::BAD_REQUEST, Json(refusal)).into_response();
    }
    let Ok(_permit) = free.try_acquire() else {
        let detail = "too many agents at once; try again after the time in Retry-After";
        return Problem::busy(detail).into_response();
    };
    let response = next.run(Request::from_parts(head, Body::from(body))).await;
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_failure = response.status().is_client_error() || response.status().is_server_error();
    if !is_failure || kind.is_some_and(|kind| kind.starts_with(b"application/json")) {
        return response;
    }
    // The SDK says it in bare text, which programs do not read.
    let (head, body) = response.into_parts();
    let text = to_bytes(body, MAX_MESSAGE_BYTES).await.unwrap_or_default();
    let mut refused = refusal(head.status, String::from_utf8_lossy(&text).trim());
    if let Some(allow) = head.headers.get(header::ALLOW) {
        refused.headers_mut().insert(header::ALLOW, allow.clone());
    }
    refused
}

/// An error of JSON-RPC that answers no request in particular.
fn refusal(status: StatusCode, message: &str) -> Response {
    let error = json!({ "code": INVALID_REQUEST, "message": message });
    (status, Json(json!({ "jsonrpc": "2.0", "id": Value::Null, "error": error }))).into_response()
}
