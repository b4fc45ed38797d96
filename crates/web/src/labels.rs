//! A form that several people fill in, as pages: one item on a screen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Form, Router};
use hmac::Mac;
use maud::{Markup, html};
use quarry_annotate::people::{Item, Kept, Said, Session, Subject};
use serde::Deserialize;

use crate::access::{Access, cookie, hexadecimal, keyed};
use crate::highlight::ColoredLines;
use crate::pages::layout;
use crate::problem::Problem;

/// The cookie of an annotator.
const COOKIE: &str = "quarry_annotator";
/// The longest comment, in characters.
const MAX_COMMENT_CHARS: usize = 2000;
/// Bytes of a key for cookies.
const KEY_BYTES: usize = 32;
/// Bytes of the secret in a link.
const LINK_BYTES: usize = 18;

/// A form with the people who fill it in.
pub struct Labels {
    session: Session,
    people: Vec<String>,
    /// What cookies are made with.
    key: Vec<u8>,
    /// Whose each link is that was not used yet; that of the organizer is nobody's.
    links: Mutex<HashMap<String, Option<String>>>,
}

/// A link that lets a person in once: its path, and who it is for; none is the organizer.
pub type JoinLink = (String, Option<String>);

impl Labels {
    /// A form, who fills it in, and what cookies are made with: the same key as before lets people go on who joined
    /// before. Returns the links to give them too.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new(
        session: Session,
        people: Vec<String>,
        key: Vec<u8>,
    ) -> Result<(Self, Vec<JoinLink>), getrandom::Error> {
        let (mut links, mut told) = (HashMap::new(), Vec::new());
        for person in people.iter().cloned().map(Some).chain([None]) {
            let mut secret = [0; LINK_BYTES];
            getrandom::fill(&mut secret)?;
            let secret = hexadecimal(&secret);
            told.push((format!("/join/{secret}"), person.clone()));
            links.insert(secret, person);
        }
        Ok((Self { session, people, key, links: Mutex::new(links) }, told))
    }

    /// What cookies can be made with.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn random_key() -> Result<Vec<u8>, getrandom::Error> {
        let mut key = vec![0; KEY_BYTES];
        getrandom::fill(&mut key)?;
        Ok(key)
    }

    /// A code of a text that only this server can make, for this form.
    fn code(&self, purpose: &str, text: &str) -> hmac::Hmac<sha2::Sha256> {
        let form = self.session.form().name.as_bytes();
        keyed(&self.key)
            .chain_update(form)
            .chain_update([0])
            .chain_update(purpose)
            .chain_update([0])
            .chain_update(text)
    }

    fn code_text(&self, purpose: &str, text: &str) -> String {
        hexadecimal(&self.code(purpose, text).finalize().into_bytes())
    }

    fn is_code(&self, purpose: &str, text: &str, given: &str) -> bool {
        crate::access::bytes(given).is_some_and(|given| self.code(purpose, text).verify_slice(&given).is_ok())
    }

    /// Who sends a request.
    fn visitor(&self, headers: &HeaderMap) -> Result<Visitor, Problem> {
        let stranger = || {
            Problem::new(
                StatusCode::UNAUTHORIZED,
                "open the link that you were given; if it was used before in another browser, ask for a new one",
            )
        };
        let (name, code) =
            cookie(headers, COOKIE).and_then(|cookie| cookie.split_once('.')).ok_or_else(stranger)?;
        let name =
            crate::access::bytes(name).and_then(|name| String::from_utf8(name).ok()).ok_or_else(stranger)?;
        if !self.is_code("session", &name, code) {
            return Err(stranger());
        }
        match self.people.iter().find(|person| **person == name) {
            Some(person) => Ok(Visitor::Annotator(person.clone())),
            None if name.is_empty() => Ok(Visitor::Organizer),
            None => Err(stranger()),
        }
    }

    fn annotator(&self, headers: &HeaderMap) -> Result<String, Problem> {
        match self.visitor(headers)? {
            Visitor::Annotator(person) => Ok(person),
            Visitor::Organizer => {
                Err(Problem::new(StatusCode::FORBIDDEN, "the organizer does not answer; see /progress"))
            }
        }
    }
}

enum Visitor {
    Annotator(String),
    Organizer,
}

/// What the handlers know.
#[derive(Clone)]
pub(crate) struct LabelsApp {
    labels: Arc<Labels>,
    access: Arc<Access>,
}

pub(crate) fn router(labels: Arc<Labels>, access: Arc<Access>) -> Router {
    let app = LabelsApp { labels, access };
    Router::new()
        .route("/", get(current).post(answer))
        .route("/last", get(last))
        .route("/progress", get(progress))
        .route("/join/{secret}", get(invitation).post(join))
        .with_state(app)
}

async fn invitation(
    State(app): State<LabelsApp>,
    Path(secret): Path<String>,
) -> Result<Html<String>, Problem> {
    let links = app.labels.links.lock().unwrap_or_else(PoisonError::into_inner);
    let person = links.get(&secret).ok_or_else(used)?;
    let body = html! {
        main #main .login {
            h1 { "Labeling" }
            p {
                @match person {
                    Some(person) => { "You are " b { (person) } ". This link works once: go on in the browser that you will label with." },
                    None => "You are the organizer. This link works once.",
                }
            }
            form method="post" { button type="submit" autofocus { "Begin" } }
        }
    };
    Ok(Html(layout::page("Labeling", body).into_string()))
}

fn used() -> Problem {
    Problem::new(
        StatusCode::GONE,
        "this link was used before, or is not one of this server; ask for a new one",
    )
}

async fn join(
    State(app): State<LabelsApp>,
    Path(secret): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let person =
        app.labels.links.lock().unwrap_or_else(PoisonError::into_inner).remove(&secret).ok_or_else(used)?;
    let name = person.clone().unwrap_or_default();
    let value = format!("{}.{}", hexadecimal(name.as_bytes()), app.labels.code_text("session", &name));
    let cookie = app.access.cookie(COOKIE, &value, &headers);
    let cookie = HeaderValue::from_str(&cookie).map_err(|error| Problem::internal(&error))?;
    let next = HeaderValue::from_static(if person.is_some() { "/" } else { "/progress" });
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, next), (header::SET_COOKIE, cookie)]).into_response())
}

async fn current(State(app): State<LabelsApp>, headers: HeaderMap) -> Result<Html<String>, Problem> {
    let person = app.labels.annotator(&headers)?;
    let session = &app.labels.session;
    let body = match session.next(&person, Instant::now()) {
        Some(item) => shown(&app.labels, &person, item, None),
        None => html! {
            main #main .login {
                h1 { "Nothing is left for you" }
                p { "Thank you. Everything that you said is kept." }
                @if session.last(&person).is_some() { p { a href="/last" { "Change the last answer" } } }
            }
        },
    };
    Ok(Html(layout::page("Labeling", body).into_string()))
}

/// The item that was answered last, to answer it again.
async fn last(State(app): State<LabelsApp>, headers: HeaderMap) -> Result<Html<String>, Problem> {
    let person = app.labels.annotator(&headers)?;
    let Some((item, said)) = app.labels.session.last(&person) else {
        return Err(Problem::not_found("you have answered nothing yet"));
    };
    let body = shown(&app.labels, &person, item, Some(&said));
    Ok(Html(layout::page("Labeling", body).into_string()))
}

/// What a form sends.
#[derive(Deserialize)]
struct Sent {
    item: i64,
    #[serde(default)]
    label: String,
    #[serde(default)]
    comment: String,
    #[serde(default)]
    change: bool,
    #[serde(default)]
    skip: bool,
    code: String,
}

async fn answer(
    State(app): State<LabelsApp>,
    headers: HeaderMap,
    Form(sent): Form<Sent>,
) -> Result<Response, Problem> {
    let person = app.labels.annotator(&headers)?;
    if !app.labels.is_code("write", &person, &sent.code) {
        return Err(Problem::new(StatusCode::FORBIDDEN, "this form is not of this session; reload the page"));
    }
    if sent.comment.chars().count() > MAX_COMMENT_CHARS {
        return Err(Problem::bad_request(format!(
            "comment: at most {MAX_COMMENT_CHARS} characters are kept"
        )));
    }
    let labels = Arc::clone(&app.labels);
    let kept = tokio::task::spawn_blocking(move || {
        if sent.skip {
            labels.session.put_off(&person, sent.item);
            return Ok(Kept::Known);
        }
        let said = Said { label: sent.label, comment: sent.comment };
        labels.session.answer(&person, sent.item, &said, sent.change, Instant::now())
    });
    let kept = kept.await.map_err(|error| Problem::internal(&error))?;
    match kept.map_err(|error| Problem::internal(&error))? {
        Kept::New | Kept::Known => Ok((StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response()),
        Kept::Other(said) => Err(Problem::new(
            StatusCode::CONFLICT,
            format!(
                "you said {:?} of this before, perhaps in another tab; that is kept. / goes on, /last changes it",
                said.label
            ),
        )),
        Kept::Unknown => {
            Err(Problem::bad_request("no such label or item; go back and choose one of the buttons"))
        }
    }
}

async fn progress(State(app): State<LabelsApp>, headers: HeaderMap) -> Result<Html<String>, Problem> {
    let Visitor::Organizer = app.labels.visitor(&headers)? else {
        return Err(Problem::new(StatusCode::FORBIDDEN, "only the organizer sees how far people are"));
    };
    let (finished, all) = app.labels.session.finished();
    let body = html! {
        main #main .login {
            h1 { (finished) " of " (all) " items are finished" }
            table {
                thead { tr { th scope="col" { "Annotator" } th scope="col" { "Answered" } th scope="col" { "Put off" } } }
                tbody {
                    @for of in app.labels.session.progress(&app.labels.people) {
                        tr { th scope="row" { (of.person) } td { (of.answered) } td { (of.put_off) } }
                    }
                }
            }
            p .quiet { "Agreement, and the tables of the papers: " code { "quarry judge study" } "." }
        }
    };
    Ok(Html(layout::page("Progress", body).into_string()))
}

/// An item with the buttons that answer it.
fn shown(labels: &Labels, person: &str, item: &Item, before: Option<&Said>) -> Markup {
    let guideline = &labels.session.form().guideline;
    let (about, text) = guideline.question();
    let all = labels.session.form().items.len();
    let language = match &item.subject {
        Subject::Pair(pair) => pair.language.as_str(),
        Subject::Generated(generated) => generated.language.as_str(),
        Subject::Answers(_) => "",
    };
    html! {
        header {
            span .name { "Quarry" }
            span .quiet { "Item " (item.number) " of " (all) ", as " (person) }
        }
        div .columns {
            main #main tabindex="-1" {
                @for (column, text) in item.subject.shown() {
                    @match column {
                        "query" => h1 { (text) },
                        "language" => p .quiet { (text) },
                        _ => {
                            @if matches!(column, "a" | "b") { h2 { (column.to_uppercase()) } }
                            (code(language, &text))
                        }
                    }
                }
                form .answer method="post" action="/" {
                    input type="hidden" name="item" value=(item.number);
                    input type="hidden" name="code" value=(labels.code_text("write", person));
                    @if let Some(before) = before {
                        input type="hidden" name="change" value="true";
                        p role="status" { "You said " b { (before.label) } ". Choose again to change it, or " a href="/" { "go on" } "." }
                    }
                    label for="comment" { "Comment, if there is something to remember" }
                    input #comment name="comment" maxlength=(MAX_COMMENT_CHARS) autocomplete="off"
                        value=[before.map(|before| before.comment.as_str())];
                    div .buttons {
                        @for (position, value) in guideline.values().iter().enumerate() {
                            @let key = (position < 9).then_some(position + 1);
                            button type="submit" name="label" value=(value.name()) data-key=[key] title=(value.means) {
                                @if let Some(key) = key { kbd { (key) } " " }
                                (value.name()) " " span .quiet { (value.means) }
                            }
                        }
                        @if before.is_none() {
                            button type="submit" name="skip" value="true" data-key="s" {
                                kbd { "s" } " skip " span .quiet { "see it again at the end; nothing is kept" }
                            }
                        }
                    }
                    @if before.is_none() && labels.session.last(person).is_some() {
                        p { a href="/last" data-key="u" { kbd { "u" } " undo: change the last answer" } }
                    }
                }
            }
            aside .guideline aria-label="Guideline" {
                h2 { (about) }
                @for paragraph in text.split("\n\n") { p { (paragraph) } }
                dl { @for value in guideline.values() { dt { (value.name()) } dd { (value.means) } } }
            }
        }
    }
}

fn code(language: &str, text: &str) -> Markup {
    let colored = ColoredLines::of(language, text);
    html! {
        div .code tabindex="0" role="region" aria-label="Code" {
            @for (index, line) in text.lines().enumerate() {
                div .line { span .number data-line=(index + 1) {} span .text { (colored.line(index, line, &[])) } }
            }
        }
    }
}
