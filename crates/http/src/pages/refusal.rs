//! Pages in place of what was asked for.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, html};

use super::layout::{self, Site};
use crate::problem::Problem;

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
                    p .problem { (problem.detail) }
                    @if problem.retry_after.is_some() { p { "This page retries automatically." } }
                    p { a href="/" { "Home" } }
                }
            },
        );
        let mut response = (problem.status, Html(page.into_string())).into_response();
        if let Some(seconds) = problem.retry_after {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            headers.insert("refresh", HeaderValue::from(seconds));
        }
        response
    }
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
                        @if is_wrong { p role="alert" { "Wrong token." } }
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
