//! Pages for people: HTML that needs no script, and is quicker with a little of it.

mod code;
mod file;
pub(crate) mod layout;
mod results;

use axum::Form;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) use file::{file, raw};
pub(crate) use layout::path_text;
pub(crate) use results::{calls, search, similar};

use self::layout::Site;
use crate::params::Params;
use crate::problem::Problem;
use crate::router::App;

const STYLE: &str = include_str!("../../assets/style.css");
const SCRIPT: &str = include_str!("../../assets/search.js");

/// Of files whose names change with their content.
const CACHED: &str = "public, max-age=31536000, immutable";

/// A link from code to elsewhere: to an editor, or the page of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeLink {
    name: String,
    template: String,
}

impl CodeLink {
    /// Parts of a template that stand for something.
    const PARTS: [&str; 4] = ["{path}", "{line}", "{root}", "{tree}"];

    /// `NAME=ADDRESS`, where the address holds `{path}`, and may hold `{line}`, `{root}` and `{tree}`.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected NAME=ADDRESS with {path} in it, and with a scheme that opens a page or an editor, such as \
             'editor=vscode://file{root}/{path}:{line}'"
                .to_owned()
        };
        let (name, template) = text.split_once('=').ok_or_else(expected)?;
        let scheme = template.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        let runs = ["javascript", "data", "vbscript"].iter().any(|bad| scheme.eq_ignore_ascii_case(bad));
        if name.is_empty() || !is_scheme || runs || !template.contains(Self::PARTS[0]) {
            return Err(expected());
        }
        Ok(Self { name: name.to_owned(), template: template.to_owned() })
    }

    fn address(&self, tree: &str, root: &str, path: &str, line: u32) -> String {
        let line = line.to_string();
        let values = [path_text(path), line, path_text(root), path_text(tree)];
        // One pass, so that a path which looks like a part is not taken for one.
        let mut address = String::new();
        let mut rest = self.template.as_str();
        while let Some(at) = rest.find('{') {
            address.push_str(&rest[..at]);
            rest = &rest[at..];
            match Self::PARTS.iter().zip(&values).find(|(part, _)| rest.starts_with(**part)) {
                Some((part, value)) => {
                    address.push_str(value);
                    rest = &rest[part.len()..];
                }
                None => {
                    address.push('{');
                    rest = &rest[1..];
                }
            }
        }
        address + rest
    }
}

/// A problem as a page.
pub(crate) struct ProblemPage(Problem);

impl From<Problem> for ProblemPage {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for ProblemPage {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let page = layout::page_of(
            Site::Problem,
            problem.title(),
            html! {
                header { a .name href="/" { "Quarry" } }
                main #main .narrow tabindex="-1" {
                    h1 { (problem.title()) }
                    p { (problem.detail) }
                    @if problem.retry_after.is_some() { p { "This page asks again by itself." } }
                    p { a href="/" { "To the start" } }
                }
            },
        );
        let mut response = (problem.status, Html(page.into_string())).into_response();
        if let Some(seconds) = problem.retry_after {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            headers.insert("refresh", HeaderValue::from(seconds));
        }
        problem.mark(&mut response);
        response
    }
}

/// The fields of a form; a page says so if they are not those that it has.
pub(crate) struct FormOf<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for FormOf<T> {
    type Rejection = ProblemPage;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemPage> {
        let Form(form) = Form::from_request(request, state).await.map_err(|rejection| {
            Problem::new(rejection.status(), "this is not what the form of this page sends; reload the page")
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

/// A form that asks for the token.
pub(crate) fn login(next: &str, is_wrong: bool) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Log in – Quarry" }
                link rel="stylesheet" href=(layout::style_address());
            }
            body {
                main #main .login {
                    h1 { "Quarry" }
                    form method="post" action="/login" {
                        @if is_wrong { p role="alert" { "This is not the token of this server." } }
                        label for="token" { "Token" }
                        input #token type="password" name="token" required autofocus autocomplete="current-password";
                        input type="hidden" name="next" value=(next);
                        button type="submit" { "Log in" }
                    }
                }
            }
        }
    };
    (StatusCode::UNAUTHORIZED, Html(page.into_string())).into_response()
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
    let address = format!("{}{name}", crate::access::ASSETS);
    let (content, kind) = if address == layout::style_address() {
        (STYLE, "text/css; charset=utf-8")
    } else if address == layout::script_address() {
        (SCRIPT, "text/javascript; charset=utf-8")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_a_line() {
        let link = CodeLink::parse("forge=https://forge.example/r/{tree}/{path}#L{line}").unwrap();
        assert_eq!(
            link.address("shop", "/trees/shop", "src/a b{line}.rs", 7),
            "https://forge.example/r/shop/src/a%20b%7Bline%7D.rs#L7"
        );
        let editor = CodeLink::parse("editor=vscode://file{root}/{path}:{line}").unwrap();
        assert_eq!(editor.address("x", "/trees/shop", "a.rs", 1), "vscode://file/trees/shop/a.rs:1");
        for wrong in [
            "editor",
            "=x:{path}",
            "a=javascript:alert({path})",
            "a=/file/{path}",
            "a=https://x/",
            "a=DATA:{path}",
        ] {
            assert!(CodeLink::parse(wrong).is_err(), "{wrong}");
        }
    }
}
