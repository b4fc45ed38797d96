//! Pages for people: HTML that needs no script, and is quicker with a little of it.

mod calls;
mod code;
mod code_link;
mod directory;
mod file;
mod filters;
pub(crate) mod layout;
mod refusal;
mod related;
mod results;
mod start;

use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Form, Json};
use maud::{Markup, html};
use quarry_session::{KEYS, KINDS};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(crate) use calls::{calls, card};
pub use code_link::CodeLink;
pub(crate) use directory::{directory, top_directory};
pub(crate) use file::{file, raw};
pub(crate) use layout::{ASSETS, path_text};
pub(crate) use refusal::{ProblemPage, login};
pub(crate) use related::{commits, history, related};
pub(crate) use results::{search, similar};

use crate::app::App;
use crate::params::Params;
use crate::problem::Problem;
use crate::trees::Current;

/// Cache control of files whose names change with their content.
const CACHED: &str = "public, max-age=31536000, immutable";

/// The fields of a form; a page says so if they are not those that it has.
pub(crate) struct FormFields<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for FormFields<T> {
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

/// Fields of the form for the token.
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
    FormFields(form): FormFields<Login>,
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

/// A key of the query syntax, and values that it may have.
#[derive(Clone, Serialize)]
pub(crate) struct Completion {
    key: &'static str,
    about: &'static str,
    values: Vec<String>,
}

/// Keys and values of the query syntax, for completion.
pub(crate) async fn complete(State(app): State<App>) -> Result<Json<Vec<Completion>>, Problem> {
    let gate = app.gate.clone();
    let all = gate.run(move || {
        let current = app.trees.current();
        let summaries = current.iter().flat_map(Current::summaries);
        let mut languages: Vec<String> =
            summaries.flat_map(|tree| &tree.languages).map(|(language, _)| language.clone()).collect();
        languages.sort();
        languages.dedup();
        let tops = current.iter().filter(|current| !current.tree.tree().is_elsewhere()).flat_map(|current| {
            let index = &current.tree.index;
            let of_tree =
                |number| index.entries(number, "").map(|entries| entries.directories).unwrap_or_default();
            (0..app.trees.names().len()).flat_map(of_tree).map(|name| format!("{name}/")).collect::<Vec<_>>()
        });
        let mut tops: Vec<String> = tops.collect();
        tops.sort();
        tops.dedup();
        let of_key = |(key, about): (&'static str, &'static str)| {
            let values = match key {
                "lang" => languages.clone(),
                "path" => tops.clone(),
                "kind" => KINDS.map(|(kind, _)| kind.to_owned()).to_vec(),
                "tree" => app.trees.names().to_vec(),
                "case" => vec!["yes".to_owned()],
                _ => Vec::new(),
            };
            Completion { key, about, values }
        };
        Ok(KEYS.map(of_key).to_vec())
    });
    all.await.map(Json)
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

/// Returns whether only the part of a page is wanted that changes, by the script.
fn is_fragment(params: &Params) -> bool {
    params.get("fragment").is_some()
}
