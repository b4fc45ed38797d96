//! Routes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::TimeoutLayer;

use crate::access::{self, Access};
use crate::app::App;
use crate::metrics::Metrics;
use crate::params::{self, Params};
use crate::problem::Problem;
use crate::trees::{MAX_WAIT, Trees};
use crate::unsent::{self, Unsent};
use crate::{agents, api, openapi, pages, related};

/// The longest body of a request, in bytes.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The longest that a request may take, with reading it.
const MAX_TIME: Duration = Duration::from_secs(30);

/// The beginnings of paths that need an index.
const NEED_INDEX: [&str; 16] = [
    "/api/v1/search",
    "/api/v1/similar",
    "/api/v1/callers",
    "/api/v1/callees",
    "/api/v1/related",
    "/api/v1/commits",
    "/api/v1/units/",
    "/file/",
    "/raw/",
    "/dir/",
    "/card/",
    "/similar",
    "/calls",
    "/related",
    "/commits",
    "/history/",
];

/// Nothing is loaded from elsewhere, no page may show another one, and no script runs but the server's own.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src \
                              'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(crate) fn router(app: App) -> Router {
    let routes = agents::routes(&app)
        .route("/", get(pages::search))
        .route("/similar", get(pages::similar))
        .route("/calls", get(pages::calls))
        .route("/related", get(pages::related))
        .route("/commits", get(pages::commits))
        .route("/history/{tree}/{*path}", get(pages::history))
        .route("/dir/{tree}", get(pages::top_directory))
        .route("/dir/{tree}/{*path}", get(pages::directory))
        .route("/file/{tree}/{*path}", get(pages::file))
        .route("/card/{tree}/{*path}", get(pages::card))
        .route("/raw/{tree}/{*path}", get(pages::raw))
        .route("/login", get(pages::login_page).post(pages::log_in))
        .route("/complete", get(pages::complete))
        .route("/opensearch.xml", get(pages::opensearch))
        .route(
            "/api/v1/search",
            get(api::search).post(api::search_text).layer(DefaultBodyLimit::max(api::MAX_SEARCH_BYTES)),
        )
        .route("/api/v1/search/stream", get(api::search_stream))
        .route("/api/v1/similar", get(api::similar))
        .route("/api/v1/related", get(related::related))
        .route("/api/v1/commits", get(related::commits))
        .route("/api/v1/callers", get(api::callers))
        .route("/api/v1/callees", get(api::callees))
        .route("/api/v1/units/{tree}/{*path}", get(api::units))
        .route("/api/v1/trees", get(api::trees))
        .route("/api/v1/status", get(api::status))
        .route("/api/v1/embed", post(api::embed).layer(DefaultBodyLimit::max(api::MAX_EMBED_BYTES)))
        .route("/api/v1/openapi.json", get(|| async { Json(openapi::description()) }))
        .route("/readyz", get(api::readyz))
        .route("/metrics", get(api::metrics))
        .fallback(|uri: Uri, headers: HeaderMap| async move {
            let detail = "no such page; / has the search, /api/v1/openapi.json describes the API";
            let problem = Problem::not_found(detail);
            if uri.path().starts_with("/api/") {
                problem.into_response()
            } else {
                access::problem_for(&headers, problem)
            }
        })
        .method_not_allowed_fallback(|headers: HeaderMap| async move {
            let detail = "this method is not allowed here; see the header Allow";
            access::problem_for(&headers, Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail))
        })
        .layer(from_fn_with_state(Arc::clone(&app.trees), wait_for_first))
        .with_state(app.clone());
    guarded(routes, app.access, app.metrics, app.unsent)
}

/// Routes that are answered only to whom they may be, within limits, with what browsers must know of them.
pub(crate) fn guarded(routes: Router, access: Arc<Access>, metrics: Arc<Metrics>, unsent: Unsent) -> Router {
    routes
        .route(&format!("{}{{name}}", pages::ASSETS), get(pages::asset))
        // Browsers ask for it beside what is not a page, such as the text of a file.
        .route("/favicon.ico", get(pages::icon))
        .route("/healthz", get(|| async { "ok\n" }))
        .layer(from_fn_with_state(access, access::check))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, MAX_TIME))
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| {
            Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the server failed to answer this request; see its log",
            )
            .into_response()
        }))
        .layer(from_fn_with_state(unsent, unsent::hold))
        .layer(from_fn(harden))
        .layer(from_fn_with_state(metrics, count))
}

/// Waits for the first index, unless a request refuses to; what shows its progress is answered at once.
async fn wait_for_first(State(trees): State<Arc<Trees>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let needs = NEED_INDEX.iter().any(|start| path.starts_with(start)) && !path.ends_with("/stream");
    let query = request.uri().query().unwrap_or_default();
    let waits = match Params::parse(query).map(|params| params.get(params::WAIT).map(str::to_owned)) {
        Ok(Some(no)) if no == "0" => false,
        Ok(Some(other)) if other != "1" => {
            let detail = format!("wait: expected 0 or 1, found {other:?}");
            return access::problem_for(request.headers(), Problem::bad_request(detail));
        }
        _ => true,
    };
    if needs && waits && trees.progress().failure.is_none() {
        let _ = tokio::time::timeout(MAX_WAIT, trees.first()).await;
    }
    next.run(request).await
}

/// Sets the security headers of an answer.
async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let set = |headers: &mut HeaderMap, name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(headers, header::CONTENT_SECURITY_POLICY, CONTENT_POLICY);
    set(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(headers, header::X_FRAME_OPTIONS, "DENY");
    // Not `no-referrer`, with which browsers say of forms of this site that they come from nowhere (`Origin: null`).
    set(headers, header::REFERRER_POLICY, "same-origin");
    set(headers, header::CACHE_CONTROL, "no-store");
    set(headers, HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(headers, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    response
}

/// Counts requests by their routes. The path itself, which may hold a secret, goes nowhere.
async fn count(State(metrics): State<Arc<Metrics>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    let time = start.elapsed();
    metrics.count(&route, response.status().as_u16(), time);
    tracing::debug!(route, status = response.status().as_u16(), ms = time.as_millis(), "answered");
    response
}
