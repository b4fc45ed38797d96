//! The HTTP API: the objects of `--json`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use quarry_index::{Filter, Hit};
use quarry_session::{
    Callees, Callers, CallsQuestion, FileView, Need, Query, SearchQuestion, SimilarQuestion, StatusView, Tree,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::events::{Closed, Events};
use crate::fitted::Fitted;
use crate::metrics::Stage;
use crate::params::Params;
use crate::problem::Problem;
use crate::question::{COMMON, MAX_TEXT_BYTES, Position, Question, query, text};
use crate::trees::Progress;
use crate::unsent::Unsent;

/// Calls that are listed where a request does not say how many.
const DEFAULT_CALLS: usize = 100;
/// The most calls of one answer.
pub(crate) const MAX_CALLS: usize = 2000;
/// Texts that are embedded at once.
const MAX_TEXTS: usize = 64;
/// The longest of them, in characters.
const MAX_TEXT_CHARS: usize = 2000;
/// The longest body with the maximum number of texts: a character can take two escapes of six bytes.
pub(crate) const MAX_EMBED_BYTES: usize = MAX_TEXTS * MAX_TEXT_CHARS * 12 + 4096;
/// The longest body with a query, of which every byte can take an escape, and with filters.
pub(crate) const MAX_SEARCH_BYTES: usize = MAX_TEXT_BYTES * 6 + (64 << 10);
/// The least time between two reports of progress, and until a search is tried again that had to wait for others.
const PAUSE: Duration = Duration::from_millis(200);

type JsonResult<T> = Result<Json<T>, Problem>;

/// A tree that is served.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TreeView {
    /// Its name in paths and parameters.
    name: String,
    /// Its directory; null until it is indexed.
    root: Option<String>,
}

/// All trees that are served.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TreesView {
    trees: Vec<TreeView>,
}

struct SearchAsked {
    query: Query,
    question: Question,
}

impl SearchAsked {
    fn read(
        params: &Params,
        app: &App,
        query: fn(&Params) -> Result<&str, Problem>,
    ) -> Result<Arc<Self>, Problem> {
        params.only(&[&["q"], &COMMON[..]].concat())?;
        let (query, question) = (Query::parse(query(params)?)?, Question::read(params, &app.trees)?);
        Ok(Arc::new(Self { query, question }))
    }

    async fn answer(self: &Arc<Self>, app: &App) -> Result<Fitted<SearchQuestion>, Problem> {
        let (asked, metrics, trees) = (Arc::clone(self), Arc::clone(&app.metrics), Arc::clone(&app.trees));
        let answer = app.ask(move |current| {
            let start = Instant::now();
            let SearchAsked { query, question } = &*asked;
            let filter = query.narrow(question.filter.clone(), trees.names())?;
            let need = Need::Query(&query.words, &filter, question.limit);
            let tree = current.tree.tree_for(&need)?;
            let open_time = if tree.is_elsewhere() { start.elapsed() } else { Duration::ZERO };
            let found = quarry_session::search(&tree.index, query.clone(), &question.request(trees.names()))?;
            metrics.time(Stage::Search, start.elapsed());
            let all = 0..found.hits.len();
            Ok(Fitted::new(&tree, found, all, &question.shown, open_time)?)
        });
        answer.await
    }
}

pub(crate) async fn search(State(app): State<App>, params: Params) -> JsonResult<Fitted<SearchQuestion>> {
    let asked = SearchAsked::read(&params, &app, query)?;
    Ok(Json(asked.answer(&app).await?))
}

/// Like [`search`], for texts that are too long for an address.
pub(crate) async fn search_text(
    State(app): State<App>,
    headers: HeaderMap,
    params: Params,
    body: Result<Bytes, BytesRejection>,
) -> JsonResult<Fitted<SearchQuestion>> {
    params.only(&[])?;
    let object = read_json(&headers, body, MAX_SEARCH_BYTES, "{\"q\": \"…\", \"k\": 10}")?;
    let params = Params::from_object(&object, MAX_TEXT_BYTES)?;
    let asked = SearchAsked::read(&params, &app, text)?;
    Ok(Json(asked.answer(&app).await?))
}

/// A body of JSON; `expected` shows what it looks like.
fn read_json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
    max_bytes: usize,
    expected: &str,
) -> Result<T, Problem> {
    let body = body.map_err(|rejection| {
        let detail = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                format!("at most {max_bytes} bytes are accepted; send less at a time")
            }
            _ => "the body ended too early; send all of it".to_owned(),
        };
        Problem::new(rejection.status(), detail)
    })?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        let detail = "expected a body of JSON; send the header Content-Type: application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    serde_json::from_slice(&body)
        .map_err(|error| Problem::bad_request(format!("expected {expected}: {error}")))
}

/// Progress of the first index.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ProgressView {
    /// The share of the work that is done, about: 0 to 1.
    share: f64,
    /// The current step.
    message: String,
    /// Why it failed last; it is tried again.
    failure: Option<String>,
}

/// The results of a search as events. Ranking is done at once, so that they come together; what takes time is the first
/// index, whose progress comes before them.
pub(crate) async fn search_stream(State(app): State<App>, params: Params) -> Result<Response, Problem> {
    let asked = SearchAsked::read(&params, &app, query)?;
    let (streams, unsent) = (app.streams.clone(), app.unsent.clone());
    if app.trees.current().is_some() {
        // Before anything is sent, so that a problem has a status of its own.
        let answer = asked.answer(&app).await?;
        return streams.open(|events| send_answer(events, answer, unsent));
    }
    streams.open(|events| async move {
        wait_for_index(&app, &events).await?;
        loop {
            match asked.answer(&app).await {
                Ok(answer) => return send_answer(events, answer, unsent).await,
                // All who waited for the index ask at the same time.
                Err(problem) if problem.retry_after.is_some() => tokio::time::sleep(PAUSE).await,
                Err(problem) => return events.fail(&problem).await,
            }
        }
    })
}

/// Waits for the first index, and reports its progress.
async fn wait_for_index(app: &App, events: &Events) -> Result<(), Closed> {
    let mut changes = app.trees.changes();
    loop {
        changes.borrow_and_update();
        if app.trees.current().is_some() {
            return Ok(());
        }
        let Progress { share, message, failure } = app.trees.progress().clone();
        events.send("progress", &ProgressView { share, message, failure }).await?;
        tokio::time::sleep(PAUSE).await;
        changes.changed().await.map_err(|_| Closed)?;
    }
}

async fn send_answer(events: Events, answer: Fitted<SearchQuestion>, unsent: Unsent) -> Result<(), Closed> {
    let _room = match unsent.room(answer.n_bytes()) {
        Ok(room) => room,
        Err(problem) => return events.fail(&problem).await,
    };
    let (results, end) = answer.into_results();
    for result in &results {
        events.send("result", result).await?;
    }
    events.send("end", &end).await
}

/// Texts to embed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "expected an object")]
pub(crate) struct EmbedRequest {
    /// The texts.
    #[schemars(length(min = 1, max = MAX_TEXTS), inner(length(max = MAX_TEXT_CHARS)))]
    texts: Vec<String>,
    /// Their kind.
    #[serde(default)]
    kind: TextKind,
}

/// The role of a text, by which some models embed it differently.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TextKind {
    /// A question in plain words.
    #[default]
    Query,
    /// Code.
    Document,
}

/// Texts as vectors.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Embedded {
    /// Identifies the model and its weights.
    model: String,
    /// Number of values of each vector.
    dimension: usize,
    /// One for each text, in their order, of length 1, or of zeros if the model knows nothing of the text. The product of
    /// two is the similarity of their texts.
    vectors: Vec<Vec<f32>>,
}

impl EmbedRequest {
    /// Refuses more texts than there may be, and longer ones.
    fn check(&self) -> Result<(), Problem> {
        if !(1..=MAX_TEXTS).contains(&self.texts.len()) {
            let n = self.texts.len();
            return Err(Problem::bad_request(format!("texts: expected 1 to {MAX_TEXTS}, found {n}")));
        }
        let lengths = self.texts.iter().map(|text| text.chars().count());
        if let Some((at, n)) = lengths.enumerate().find(|(_, n)| *n > MAX_TEXT_CHARS) {
            return Err(Problem::bad_request(format!(
                "texts[{at}]: {n} characters, at most {MAX_TEXT_CHARS} are accepted"
            )));
        }
        Ok(())
    }
}

pub(crate) async fn embed(
    State(app): State<App>,
    headers: HeaderMap,
    params: Params,
    body: Result<Bytes, BytesRejection>,
) -> JsonResult<Embedded> {
    params.only(&[])?;
    let expected = "{\"texts\": [\"…\"], \"kind\": \"query\"}";
    let asked: EmbedRequest = read_json(&headers, body, MAX_EMBED_BYTES, expected)?;
    asked.check()?;
    let EmbedRequest { texts, kind } = asked;
    let model = Arc::clone(&app.trees.model);
    let answer = app.gate.run(move || {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = match kind {
            TextKind::Query => model.embed_queries(&texts),
            TextKind::Document => model.embed_documents(&texts),
        };
        let vectors = vectors.map_err(|error| Problem::internal(&error))?;
        let rows = vectors.values.chunks(vectors.dimension.max(1)).map(<[f32]>::to_vec).collect();
        Ok(Embedded { model: model.id().to_owned(), dimension: vectors.dimension, vectors: rows })
    });
    Ok(Json(answer.await?))
}

pub(crate) async fn similar(State(app): State<App>, params: Params) -> JsonResult<Fitted<SimilarQuestion>> {
    params.only(&[&["path", "line"], &COMMON[..]].concat())?;
    let position = Position::read(&params, &app.trees)?;
    // The tree says where the unit is; what is like it may be in any.
    let question = Question::read(&params.without("tree"), &app.trees)?;
    let answer = app.ask(move |current| {
        let tree = current.tree.tree_for(&need_for_similar(&position, &question))?;
        let given = unit_at(&tree, &position)?;
        let found = quarry_session::similar(&tree.index, &given, &question.request(&[]))?;
        let all = 0..found.hits.len();
        Ok(Fitted::new(&tree, found, all, &question.shown, Duration::ZERO)?)
    });
    Ok(Json(answer.await?))
}

/// A request for code like that at a position.
pub(crate) fn need_for_similar<'a>(position: &'a Position, question: &'a Question) -> Need<'a> {
    Need::Like((position.root, &position.path, position.line), &question.filter, question.limit)
}

pub(crate) fn unit_at(tree: &Tree, position: &Position) -> Result<Hit, Problem> {
    tree.index.unit_at_in(position.root, &position.path, position.line).ok_or_else(|| {
        let mut problem = no_unit(&position.path, position.line);
        problem.detail.push_str(tree_hint(tree));
        problem
    })
}

/// Advice on a position that is not found because it is in another tree than the first.
pub(crate) fn tree_hint(tree: &Tree) -> &'static str {
    if tree.n_paths() > 1 {
        "; without tree=NAME, the first tree counts (/api/v1/trees lists all)"
    } else {
        ""
    }
}

fn no_unit(path: &str, line: u32) -> Problem {
    Problem::not_found(format!(
        "{path:?}, line {line}: no indexed unit is there; name a line of code in an indexed file, relative to its tree"
    ))
}

/// Parameters of requests for calls.
const CALLS: [&str; 5] = ["name", "path", "line", "tree", "k"];

/// Whose calls are asked for.
pub(crate) struct CallsAsked {
    /// As it was asked for.
    pub query: String,
    position: Option<Position>,
    /// The scope in which a name is looked up.
    filter: Filter,
    limit: usize,
}

impl CallsAsked {
    pub(crate) fn read(params: &Params, app: &App) -> Result<Self, Problem> {
        params.only(&CALLS)?;
        let limit = params.number("k")?.unwrap_or(DEFAULT_CALLS);
        if limit > MAX_CALLS {
            return Err(Problem::bad_request(format!("k: expected 0 to {MAX_CALLS}, found {limit}")));
        }
        let tree = params.get("tree").map(|name| app.trees.number(name)).transpose()?;
        let filter = Filter::default().in_roots(tree.into_iter().collect());
        let line: Option<u32> = params.number("line")?;
        let (query, position) = match params.get("name") {
            Some(_) if params.get("path").is_some() || line.is_some() => {
                let detail = "expected either a name, or path and line, found both; leave one of them out";
                return Err(Problem::bad_request(detail));
            }
            Some(name) => (name.to_owned(), None),
            None => {
                let position = Position::read(params, &app.trees)?;
                (format!("{}:{}", position.path, position.line), Some(position))
            }
        };
        Ok(Self { query, position, filter, limit })
    }

    pub(crate) fn definitions(&self, tree: &Tree) -> Result<Vec<Hit>, Problem> {
        let Some(Position { root, path, line }) = &self.position else {
            return Ok(tree.index.definitions_of(&self.query, &self.filter));
        };
        let found = tree.index.definition_at_in(*root, path, *line);
        found.map(|hit| vec![hit]).ok_or_else(|| {
            let position = format!("{path:?}, line {line}");
            Problem::not_found(format!(
                "{position}: no function, method or type is indexed there; name a line in one{}",
                tree_hint(tree)
            ))
        })
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    fn question<'a>(&'a self, definitions: &'a [Hit], took: Duration) -> CallsQuestion<'a> {
        CallsQuestion { query: &self.query, definitions, limit: self.limit, took, open_time: Duration::ZERO }
    }
}

pub(crate) async fn callers(State(app): State<App>, params: Params) -> JsonResult<Callers> {
    let asked = CallsAsked::read(&params, &app)?;
    let answer = app.ask(move |current| {
        let (start, tree) = (Instant::now(), current.tree.tree_for(&Need::Calls)?);
        let definitions = asked.definitions(&tree)?;
        let sites = tree.index.callers(&asked.query, &definitions, &Filter::default())?;
        Ok(quarry_session::callers(&tree, &asked.question(&definitions, start.elapsed()), &sites))
    });
    Ok(Json(answer.await?))
}

pub(crate) async fn callees(State(app): State<App>, params: Params) -> JsonResult<Callees> {
    let asked = CallsAsked::read(&params, &app)?;
    let answer = app.ask(move |current| {
        let (start, tree) = (Instant::now(), current.tree.tree_for(&Need::Calls)?);
        let definitions = asked.definitions(&tree)?;
        let found: Result<Vec<_>, _> = definitions.iter().map(|hit| tree.index.callees(hit)).collect();
        Ok(quarry_session::callees(&tree, &asked.question(&definitions, start.elapsed()), &found?))
    });
    Ok(Json(answer.await?))
}

pub(crate) async fn units(
    State(app): State<App>,
    Path((tree, path)): Path<(String, String)>,
    params: Params,
) -> JsonResult<FileView> {
    params.only(&["line"])?;
    let root = app.trees.number(&tree)?;
    let line: Option<u32> = params.number("line")?;
    let answer = app.ask(move |current| {
        let tree = current.tree.tree_for(&Need::File(root, &path))?;
        quarry_session::file(&tree, root, &path, line).ok_or_else(|| match line {
            Some(line) => no_unit(&path, line),
            None => not_indexed(&path),
        })
    });
    Ok(Json(answer.await?))
}

pub(crate) fn not_indexed(path: &str) -> Problem {
    Problem::not_found(format!("{path:?}: no such file is indexed; name one relative to its tree"))
}

pub(crate) async fn trees(State(app): State<App>, params: Params) -> JsonResult<TreesView> {
    params.only(&[])?;
    let current = app.trees.current();
    let root = |number: usize| current.as_ref().map(|current| current.tree.tree().root(number));
    let names = app.trees.names().iter().enumerate();
    let trees = names.map(|(number, name)| TreeView { name: name.clone(), root: root(number) });
    Ok(Json(TreesView { trees: trees.collect() }))
}

pub(crate) async fn status(State(app): State<App>, params: Params) -> JsonResult<StatusView> {
    params.only(&["tree"])?;
    let root = params.get("tree").map_or(Ok(0), |name| app.trees.number(name))?;
    let trees = app.trees.clone();
    Ok(Json(app.gate.run(move || Ok(StatusView::new(trees.status(root)?))).await?))
}

pub(crate) async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    app.trees.ready().map(|_| "ready\n")
}

pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let text = app.metrics.text(&app.trees, app.streams.n_open());
    (StatusCode::OK, [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
        .into_response()
}
