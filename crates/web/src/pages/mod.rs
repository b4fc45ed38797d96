//! Pages for people: HTML that needs no script, and is quicker with a little of it.

mod code;
mod code_link;
mod file;
mod filters;
pub(crate) mod layout;
mod refusal;
mod results;

use axum::Form;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use code_link::CodeLink;
pub(crate) use file::{file, raw};
pub(crate) use layout::{ASSETS, path_text};
pub(crate) use refusal::{ProblemPage, login};
pub(crate) use results::{calls, search, similar};

use crate::app::App;
use crate::params::Params;
use crate::problem::Problem;

/// Of files whose names change with their content.
const CACHED: &str = "public, max-age=31536000, immutable";

/// The fields of a form; a page says so if they are not those that it has.
pub(crate) struct FormOf<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for FormOf<T> {
    type Rejection = ProblemPage;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemPage> {
        let Form(form) = Form::from_request(request, state).await.map_err(|rejection| {
            Problem::new(
                rejection.status(),
                "this request does not match the form of this page; reload the page",
            )
        })?;
        Ok(Self(form))
    }
}

/// What a form for the token sends.
#[derive(Deserialize)]
pub(crate) struct Login {
    token: String,
    #[serde(default)]
    next: String,
}

pub(crate) async fn login_page() -> Response {
    login("/", false)
}

pub(crate) async fn log_in(
    State(app): State<App>,
    headers: HeaderMap,
    FormOf(form): FormOf<Login>,
) -> Response {
    // Only a page of this server: `//host` and `/\host` are others.
    let is_own = form.next.starts_with('/') && !form.next[1..].starts_with(['/', '\\']);
    let next = if is_own { form.next.as_str() } else { "/" };
    let Some(cookie) = app.access.log_in(&form.token, &headers) else { return login(next, true) };
    let Ok(location) = HeaderValue::from_str(next) else { return login("/", false) };
    let Ok(cookie) = HeaderValue::from_str(&cookie) else { return login(next, true) };
    (StatusCode::SEE_OTHER, [(header::LOCATION, location), (header::SET_COOKIE, cookie)]).into_response()
}

/// A file of the pages, whose name changes with its content.
pub(crate) async fn asset(Path(name): Path<String>) -> Result<Response, Problem> {
    let address = format!("{}{name}", ASSETS);
    let (content, kind) = if address == layout::style_address() {
        (layout::STYLE, "text/css; charset=utf-8")
    } else if address == layout::script_address() {
        (layout::SCRIPT, "text/javascript; charset=utf-8")
    } else if address == layout::ICON {
        (layout::ICON_SVG, "image/svg+xml")
    } else {
        return Err(Problem::not_found("no such file; reload the page"));
    };
    Ok(([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, CACHED)], content).into_response())
}

pub(crate) async fn icon() -> Response {
    (
        [(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "public, max-age=86400")],
        layout::ICON_SVG,
    )
        .into_response()
}

/// Has browsers search from the address bar.
pub(crate) async fn opensearch(State(app): State<App>, headers: HeaderMap) -> Response {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let is_secure = app.access.is_secure(&headers);
    let base = format!("{}://{host}", if is_secure { "https" } else { "http" });
    let trees = app.trees.names_text();
    let template = format!("{base}/?q={{searchTerms}}");
    let description: Markup = html! {
        OpenSearchDescription xmlns="http://a9.com/-/spec/opensearch/1.1/" {
            ShortName { "Quarry" }
            Description { "Code of " (trees) }
            InputEncoding { "UTF-8" }
            Url type="text/html" method="get" template=(template) {}
        }
    };
    let text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", description.into_string());
    ([(header::CONTENT_TYPE, "application/opensearchdescription+xml")], text).into_response()
}

/// Whether only the part of a page is wanted that changes, by the script.
fn is_fragment(params: &Params) -> bool {
    params.get("fragment").is_some()
}
