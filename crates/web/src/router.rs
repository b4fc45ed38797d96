//! Which request is answered by what.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::TimeoutLayer;

use crate::access::{self, ASSETS, Access};
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::trees::Trees;
use crate::{api, openapi, pages};

/// The longest body of a request, in bytes.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The longest that a request may take, with reading it.
const MAX_TIME: Duration = Duration::from_secs(30);

/// Nothing is loaded from elsewhere, no page may show another one, and no script runs but the server's own.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src \
                              'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What all handlers know.
#[derive(Clone)]
pub(crate) struct App {
    pub trees: Arc<Trees>,
    pub access: Arc<Access>,
    pub gate: Gate,
    pub metrics: Arc<Metrics>,
}

impl App {
    pub fn new(trees: Arc<Trees>, access: Access) -> Self {
        let at_once = std::thread::available_parallelism().map_or(2, usize::from);
        Self { trees, access: Arc::new(access), gate: Gate::new(at_once), metrics: Arc::default() }
    }
}

pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/", get(pages::search))
        .route("/similar", get(pages::similar))
        .route("/calls", get(pages::calls))
        .route("/file/{tree}/{*path}", get(pages::file))
        .route("/raw/{tree}/{*path}", get(pages::raw))
        .route("/login", get(pages::login_page).post(pages::log_in))
        .route("/opensearch.xml", get(pages::opensearch))
        .route(&format!("{ASSETS}{{name}}"), get(pages::asset))
        .route("/api/v1/search", get(api::search))
        .route("/api/v1/similar", get(api::similar))
        .route("/api/v1/callers", get(api::callers))
        .route("/api/v1/callees", get(api::callees))
        .route("/api/v1/units/{tree}/{*path}", get(api::units))
        .route("/api/v1/trees", get(api::trees))
        .route("/api/v1/status", get(api::status))
        .route("/api/v1/openapi.json", get(|| async { Json(openapi::description()) }))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(api::readyz))
        .route("/metrics", get(api::metrics))
        .fallback(|| async {
            Problem::not_found("there is nothing here; / searches, /api/v1/openapi.json describes the rest")
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this can only be read: use GET")
        })
        .with_state(app.clone())
        .layer(from_fn_with_state(app.clone(), access::check))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, MAX_TIME))
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| {
            Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server failed at this request; its log says more",
            )
            .into_response()
        }))
        .layer(from_fn(harden))
        .layer(from_fn_with_state(app, count))
}

/// Tells browsers what they must not do with an answer.
async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let set = |headers: &mut axum::http::HeaderMap, name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(headers, header::CONTENT_SECURITY_POLICY, CONTENT_POLICY);
    set(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(headers, header::X_FRAME_OPTIONS, "DENY");
    set(headers, header::REFERRER_POLICY, "no-referrer");
    set(headers, header::CACHE_CONTROL, "no-store");
    set(headers, HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(headers, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    response
}

/// Counts requests by their routes. The path itself, which may hold a secret, goes nowhere.
async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    let time = start.elapsed();
    app.metrics.count(&route, response.status().as_u16(), time);
    tracing::debug!(route, status = response.status().as_u16(), ms = time.as_millis(), "answered");
    response
}
