//! A form that several people fill in, as pages: one item on a screen.

mod pages;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use hmac::Mac;
use maud::Markup;
use quarry_files::hexadecimal;
use quarry_judge::JudgeError;
use quarry_judge::ledger::ItemAnswer;
use quarry_people::{Session, Stage, Submission};
use serde::Deserialize;

use crate::access::{Access, cookie, keyed};
use crate::events::Streams;
use crate::live::{self, Live, MakeTables};
use crate::pages::{FormFields, ProblemPage};
use crate::problem::Problem;

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
    /// Key of the cookies.
    key: Vec<u8>,
    /// Owner of each link that has not been used yet; the organizer's link has none.
    links: Mutex<HashMap<String, Option<String>>>,
    /// Progress of the judge of the same plan.
    status: Box<MakeTables>,
}

/// A link that lets a person in once: its path, and who it is for; none is the organizer.
pub type JoinLink = (String, Option<String>);

impl Labels {
    /// A form, who fills it in, and what cookies are made with: the same key as before lets people go on who joined
    /// before. `status` says how far the judge of the plan has come. Returns the links to give people too.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new(
        session: Session,
        people: Vec<String>,
        key: Vec<u8>,
        status: Box<MakeTables>,
    ) -> Result<(Self, Vec<JoinLink>), getrandom::Error> {
        let (mut links, mut join_links) = (HashMap::new(), Vec::new());
        for person in people.iter().cloned().map(Some).chain([None]) {
            let mut secret = [0; LINK_BYTES];
            getrandom::fill(&mut secret)?;
            let secret = hexadecimal(&secret);
            join_links.push((format!("/join/{secret}"), person.clone()));
            links.insert(secret, person);
        }
        Ok((Self { session, people, key, links: Mutex::new(links), status }, join_links))
    }

    /// Creates a key for cookies.
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

    /// Code of a form that shows this item at this stage to this person: only the shown form can be answered. The
    /// organizer has no name.
    fn form_code(&self, person: &str, item: i64, stage: Stage) -> String {
        self.code_text("write", &form_text(person, item, stage))
    }

    fn is_code(&self, purpose: &str, text: &str, given: &str) -> bool {
        crate::access::bytes(given).is_some_and(|given| self.code(purpose, text).verify_slice(&given).is_ok())
    }

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

    /// Refuses everybody but the organizer.
    fn organizer(&self, headers: &HeaderMap) -> Result<(), Problem> {
        match self.visitor(headers)? {
            Visitor::Organizer => Ok(()),
            Visitor::Annotator(_) => {
                Err(Problem::new(StatusCode::FORBIDDEN, "only the organizer can see what others answered"))
            }
        }
    }

    fn annotator(&self, headers: &HeaderMap) -> Result<String, Problem> {
        match self.visitor(headers)? {
            Visitor::Annotator(person) => Ok(person),
            Visitor::Organizer => {
                Err(Problem::new(StatusCode::FORBIDDEN, "the organizer does not label; see /progress"))
            }
        }
    }
}

fn form_text(person: &str, item: i64, stage: Stage) -> String {
    format!("{person}\0{item}\0{}", stage.name())
}

enum Visitor {
    Annotator(String),
    Organizer,
}

#[derive(Clone)]
pub(crate) struct LabelsApp {
    labels: Arc<Labels>,
    access: Arc<Access>,
    /// Progress of the people, and of the judge.
    progress: Live,
    status: Live,
}

type Page = Result<Html<String>, ProblemPage>;

pub(crate) fn router(labels: Arc<Labels>, access: Arc<Access>, streams: Streams) -> Router {
    let of_progress = Arc::clone(&labels);
    let live_progress = Live::new(
        streams.clone(),
        Arc::new(move || {
            let overview = of_progress.session.overview(&of_progress.people);
            let overview = overview.map_err(|error| Problem::internal(&error))?;
            Ok(pages::overview(&overview).into_string())
        }),
    );
    let of_status = Arc::clone(&labels);
    let live_status =
        Live::new(streams, Arc::new(move || Ok(live::state(&(of_status.status)()).into_string())));
    let app = LabelsApp { labels, access, progress: live_progress, status: live_status };
    Router::new()
        .route("/", get(current).post(answer))
        .route("/last", get(last))
        .route("/test", post(test))
        .route("/progress", get(progress))
        .route("/progress/stream", get(progress_stream))
        .route("/status", get(status))
        .route("/status/stream", get(status_stream))
        .route("/disagreements", get(disagreements).post(adjudicate))
        .route("/labels.jsonl", get(export))
        .route("/join/{secret}", get(invitation).post(join))
        .fallback(|| async {
            ProblemPage::from(Problem::not_found("no such page; / continues with the next pair"))
        })
        .method_not_allowed_fallback(|| async {
            ProblemPage::from(Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this page does not accept such a request; / continues",
            ))
        })
        .with_state(app)
}

async fn invitation(State(app): State<LabelsApp>, Path(secret): Path<String>) -> Page {
    let links = app.labels.links.lock().unwrap_or_else(PoisonError::into_inner);
    let person = links.get(&secret).ok_or_else(used)?;
    Ok(page(pages::invitation(person.as_deref())))
}

fn used() -> Problem {
    Problem::new(StatusCode::GONE, "this link was used before, or is not from this server; ask for a new one")
}

async fn join(
    State(app): State<LabelsApp>,
    Path(secret): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ProblemPage> {
    let person =
        app.labels.links.lock().unwrap_or_else(PoisonError::into_inner).remove(&secret).ok_or_else(used)?;
    let name = person.clone().unwrap_or_default();
    let value = format!("{}.{}", hexadecimal(name.as_bytes()), app.labels.code_text("session", &name));
    let cookie = app.access.cookie(COOKIE, &value, &headers);
    let cookie = HeaderValue::from_str(&cookie).map_err(|error| Problem::internal(&error))?;
    let next = HeaderValue::from_static(if person.is_some() { "/" } else { "/progress" });
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, next), (header::SET_COOKIE, cookie)]).into_response())
}

fn page(page: Markup) -> Html<String> {
    Html(page.into_string())
}

async fn current(State(app): State<LabelsApp>, headers: HeaderMap) -> Result<Response, ProblemPage> {
    let Visitor::Annotator(person) = app.labels.visitor(&headers)? else { return Ok(see_other("/progress")) };
    let session = &app.labels.session;
    let Some(item) = session.next(&person, Instant::now()) else {
        return Ok(page(pages::done(session.last(&person).is_some())).into_response());
    };
    let stage = session.stage(&person, item.number);
    Ok(shown(&pages::ItemPage { labels: &app.labels, person: &person, item, stage, before: None }))
}

/// An item, which is shown again until a program that runs has ended.
fn shown(shown: &pages::ItemPage<'_>) -> Response {
    let mut response = page(shown.page()).into_response();
    if shown.is_running() {
        response.headers_mut().insert("refresh", HeaderValue::from_static("1"));
    }
    response
}

/// Shows the last answer, to change it.
async fn last(State(app): State<LabelsApp>, headers: HeaderMap) -> Result<Response, ProblemPage> {
    let person = app.labels.annotator(&headers)?;
    let Some((item, stage, said)) = app.labels.session.last(&person) else {
        let detail = "no answer to change; answers given before a test are kept";
        return Err(Problem::not_found(detail).into());
    };
    Ok(shown(&pages::ItemPage { labels: &app.labels, person: &person, item, stage, before: Some(said) }))
}

#[derive(Deserialize)]
struct Sent {
    item: i64,
    /// The name of a stage; without one, the form has one answer.
    stage: Option<String>,
    #[serde(default)]
    label: String,
    #[serde(default)]
    comment: String,
    #[serde(default)]
    program: String,
    #[serde(default)]
    change: bool,
    #[serde(default)]
    skip: bool,
    code: String,
}

impl Sent {
    /// Refuses what no form of this session sends.
    fn check(mut self, labels: &Labels, person: &str) -> Result<Self, Problem> {
        let stage = self.stage()?;
        if !labels.is_code("write", &form_text(person, self.item, stage), &self.code) {
            let detail = "this form was not shown to you for this item; reload the page";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        if self.comment.chars().count() > MAX_COMMENT_CHARS {
            let detail = format!("comment: at most {MAX_COMMENT_CHARS} characters are kept");
            return Err(Problem::bad_request(detail));
        }
        // Browsers send the line ends of mail.
        self.program = self.program.replace("\r\n", "\n");
        Ok(self)
    }

    fn stage(&self) -> Result<Stage, Problem> {
        let Some(name) = &self.stage else { return Ok(Stage::Final) };
        Stage::named(name).ok_or_else(|| Problem::bad_request("stage: expected untested or final"))
    }

    fn answer(&self) -> ItemAnswer {
        ItemAnswer {
            label: self.label.clone(),
            comment: self.comment.clone(),
            program: Some(self.program.clone()),
        }
    }
}

/// Does what may wait for the disk, away from the threads that serve.
async fn run_blocking<T: Send + 'static>(
    labels: &Arc<Labels>,
    work: impl FnOnce(&Labels) -> Result<T, JudgeError> + Send + 'static,
) -> Result<T, Problem> {
    let labels = Arc::clone(labels);
    let done = tokio::task::spawn_blocking(move || work(&labels)).await;
    done.map_err(|error| Problem::internal(&error))?.map_err(|error| {
        let mut problem = Problem::internal(&error);
        problem.detail.push_str("; nothing was saved, please tell the organizer");
        problem
    })
}

fn see_other(address: &'static str) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response()
}

async fn answer(
    State(app): State<LabelsApp>,
    headers: HeaderMap,
    FormFields(sent): FormFields<Sent>,
) -> Result<Response, ProblemPage> {
    let person = app.labels.annotator(&headers)?;
    let sent = sent.check(&app.labels, &person)?;
    let (said, item, stage, change, skip) = (sent.answer(), sent.item, sent.stage()?, sent.change, sent.skip);
    let who = person.clone();
    let kept = run_blocking(&app.labels, move |labels| {
        if skip {
            labels.session.skip(&who, item);
            return Ok(Submission::Known);
        }
        labels.session.answer(&who, item, stage, &said, change, Instant::now())
    });
    let conflict = |detail: String| Problem::new(StatusCode::CONFLICT, detail);
    let problem = match kept.await? {
        Submission::New | Submission::Known => return Ok(see_other("/")),
        Submission::NotRun => return Ok(begin_test(&app.labels, &person, &sent)?),
        Submission::NoReason => Problem::bad_request(
            "go back and write a test program, or explain in the comment why there cannot be one",
        ),
        Submission::Other(said) => conflict(format!(
            "you already answered {:?}, perhaps in another tab; that answer is kept. / continues, /last changes it",
            said.label
        )),
        Submission::OutOfTurn => conflict(
            "the answer before testing comes first, and is not accepted after a test; / continues".to_owned(),
        ),
        Submission::Unknown => {
            Problem::bad_request("no such label or item; go back and choose one of the buttons")
        }
    };
    Err(problem.into())
}

/// Runs a test program, whose result the page shows that follows.
async fn test(
    State(app): State<LabelsApp>,
    headers: HeaderMap,
    FormFields(sent): FormFields<Sent>,
) -> Result<Response, ProblemPage> {
    let person = app.labels.annotator(&headers)?;
    let sent = sent.check(&app.labels, &person)?;
    Ok(begin_test(&app.labels, &person, &sent)?)
}

fn begin_test(labels: &Arc<Labels>, person: &str, sent: &Sent) -> Result<Response, Problem> {
    if !labels.session.begin_test(person, sent.item, &sent.program, &sent.comment) {
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "nothing was run: a program of yours is still running (it will end by itself), the answer before testing is \
             missing, or there is nothing but the given code; go back and add assertions",
        ));
    }
    let (labels, person) = (Arc::clone(labels), person.to_owned());
    // It takes as long as its limits allow; the page asks until it is done.
    drop(tokio::task::spawn_blocking(move || labels.session.run_test(&person)));
    Ok(see_other(if sent.change { "/last" } else { "/" }))
}

async fn progress(State(app): State<LabelsApp>, headers: HeaderMap) -> Page {
    app.labels.organizer(&headers)?;
    Ok(page(pages::organizers("Progress", "/progress/stream", &app.progress.now().await?)))
}

async fn progress_stream(State(app): State<LabelsApp>, headers: HeaderMap) -> Result<Response, Problem> {
    app.labels.organizer(&headers)?;
    app.progress.stream()
}

async fn status(State(app): State<LabelsApp>, headers: HeaderMap) -> Page {
    app.labels.organizer(&headers)?;
    Ok(page(pages::organizers("Judge", "/status/stream", &app.status.now().await?)))
}

async fn status_stream(State(app): State<LabelsApp>, headers: HeaderMap) -> Result<Response, Problem> {
    app.labels.organizer(&headers)?;
    app.status.stream()
}

async fn disagreements(State(app): State<LabelsApp>, headers: HeaderMap) -> Page {
    app.labels.organizer(&headers)?;
    let html =
        run_blocking(&app.labels, |labels| Ok(pages::disagreements(labels, &labels.session.disputes()?)));
    Ok(page(html.await?))
}

async fn adjudicate(
    State(app): State<LabelsApp>,
    headers: HeaderMap,
    FormFields(sent): FormFields<Sent>,
) -> Result<Response, ProblemPage> {
    app.labels.organizer(&headers)?;
    let sent = sent.check(&app.labels, "")?;
    let kept =
        run_blocking(&app.labels, move |labels| labels.session.adjudicate(sent.item, &sent.answer())).await?;
    match kept {
        Submission::Unknown => {
            Err(Problem::bad_request("no such label or item; go back and choose a button").into())
        }
        _ => Ok(see_other("/disagreements")),
    }
}

async fn export(State(app): State<LabelsApp>, headers: HeaderMap) -> Result<Response, ProblemPage> {
    app.labels.organizer(&headers)?;
    let text = run_blocking(&app.labels, |labels| labels.session.export()).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"labels.jsonl\""),
    ];
    Ok((headers, text).into_response())
}
