//! The HTTP API: the objects of `--json`.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use quarry_answer::{
    Answer, Callees, Callers, CallsQuestion, FileView, SearchQuestion, SimilarQuestion, StatusView, Tree,
};
use quarry_index::{Filter, Hit};
use schemars::JsonSchema;
use serde::Serialize;

use crate::metrics::Stage;
use crate::params::Params;
use crate::problem::Problem;
use crate::question::{COMMON, Position, Question, query};
use crate::router::App;

/// Calls that are listed where a request does not say how many.
const DEFAULT_CALLS: usize = 100;

type Answered<T> = Result<Json<T>, Problem>;

/// A tree that is served.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TreeView {
    /// What paths and parameters call it.
    name: String,
    /// Its directory; null until it is indexed.
    root: Option<String>,
}

/// All trees that are served.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TreesView {
    trees: Vec<TreeView>,
}

pub(crate) async fn search(State(app): State<App>, params: Params) -> Answered<Answer<SearchQuestion>> {
    params.only(&[&["q"], &COMMON[..]].concat())?;
    let text = query(&params)?.to_owned();
    let question = Question::read(&params, &app.trees)?;
    let current = app.trees.ready()?;
    let metrics = app.metrics.clone();
    let answer = app.gate.run(move || {
        let start = Instant::now();
        let found = quarry_answer::search(&current.tree.tree(), &text, &question.request())?;
        metrics.time(Stage::Search, start.elapsed());
        Ok(found.answer)
    });
    Ok(Json(answer.await?))
}

pub(crate) async fn similar(State(app): State<App>, params: Params) -> Answered<Answer<SimilarQuestion>> {
    params.only(&[&["path", "line"], &COMMON[..]].concat())?;
    let position = Position::read(&params, &app.trees)?;
    // The tree says where the unit is; what is like it may be in any.
    let question = Question::read(&params.without("tree"), &app.trees)?;
    let current = app.trees.ready()?;
    let answer = app.gate.run(move || {
        let tree = current.tree.tree();
        let given = unit_at(&tree, &position)?;
        let select = |hits: Vec<Hit>| hits;
        Ok(quarry_answer::similar(&tree, &given, &question.request(), Duration::ZERO, select)?)
    });
    Ok(Json(answer.await?))
}

/// The unit at a position.
pub(crate) fn unit_at(tree: &Tree, position: &Position) -> Result<Hit, Problem> {
    tree.index
        .unit_at_in(position.root, &position.path, position.line)
        .ok_or_else(|| no_unit(&position.path, position.line))
}

fn no_unit(path: &str, line: u32) -> Problem {
    Problem::not_found(format!(
        "{path:?}, line {line}: no indexed unit is there; name a line of code in an indexed file, relative to its tree"
    ))
}

/// Parameters of requests for calls.
const CALLS: [&str; 5] = ["name", "path", "line", "tree", "limit"];

/// Whose calls are asked for.
pub(crate) struct CallsAsked {
    /// As it was asked for.
    pub query: String,
    position: Option<Position>,
    limit: usize,
}

impl CallsAsked {
    pub fn read(params: &Params, app: &App) -> Result<Self, Problem> {
        params.only(&CALLS)?;
        let limit = params.number("limit")?.unwrap_or(DEFAULT_CALLS);
        let (query, position) = match params.get("name") {
            Some(name) => (name.to_owned(), None),
            None => {
                let position = Position::read(params, &app.trees)?;
                (format!("{}:{}", position.path, position.line), Some(position))
            }
        };
        Ok(Self { query, position, limit })
    }

    pub fn definitions(&self, tree: &Tree) -> Result<Vec<Hit>, Problem> {
        let Some(Position { root, path, line }) = &self.position else {
            return Ok(tree.index.definitions_of(&self.query, &Filter::default()));
        };
        let found = tree.index.definition_at_in(*root, path, *line);
        found.map(|hit| vec![hit]).ok_or_else(|| {
            let position = format!("{path:?}, line {line}");
            Problem::not_found(format!(
                "{position}: no function, method or type is indexed there; name a line in one"
            ))
        })
    }

    /// Maximum number of calls.
    pub fn limit(&self) -> usize {
        self.limit
    }

    fn question<'a>(&'a self, definitions: &'a [Hit], took: Duration) -> CallsQuestion<'a> {
        CallsQuestion { query: &self.query, definitions, limit: self.limit, took, open_time: Duration::ZERO }
    }
}

pub(crate) async fn callers(State(app): State<App>, params: Params) -> Answered<Callers> {
    let asked = CallsAsked::read(&params, &app)?;
    let current = app.trees.ready()?;
    let answer = app.gate.run(move || {
        let (start, tree) = (Instant::now(), current.tree.tree());
        let definitions = asked.definitions(&tree)?;
        let sites = tree.index.callers(&asked.query, &definitions, &Filter::default())?;
        Ok(quarry_answer::callers(&tree, &asked.question(&definitions, start.elapsed()), &sites))
    });
    Ok(Json(answer.await?))
}

pub(crate) async fn callees(State(app): State<App>, params: Params) -> Answered<Callees> {
    let asked = CallsAsked::read(&params, &app)?;
    let current = app.trees.ready()?;
    let answer = app.gate.run(move || {
        let (start, tree) = (Instant::now(), current.tree.tree());
        let definitions = asked.definitions(&tree)?;
        let found: Result<Vec<_>, _> = definitions.iter().map(|hit| tree.index.callees(hit)).collect();
        Ok(quarry_answer::callees(&tree, &asked.question(&definitions, start.elapsed()), &found?))
    });
    Ok(Json(answer.await?))
}

pub(crate) async fn units(
    State(app): State<App>,
    Path((tree, path)): Path<(String, String)>,
    params: Params,
) -> Answered<FileView> {
    params.only(&["line"])?;
    let root = app.trees.number(&tree)?;
    let line: Option<u32> = params.number("line")?;
    let current = app.trees.ready()?;
    let answer = app.gate.run(move || {
        quarry_answer::file(&current.tree.tree(), root, &path, line).ok_or_else(|| match line {
            Some(line) => no_unit(&path, line),
            None => not_indexed(&path),
        })
    });
    Ok(Json(answer.await?))
}

pub(crate) fn not_indexed(path: &str) -> Problem {
    Problem::not_found(format!("{path:?}: no such file is indexed; name one relative to its tree"))
}

pub(crate) async fn trees(State(app): State<App>, params: Params) -> Answered<TreesView> {
    params.only(&[])?;
    let current = app.trees.current();
    let root = |number: usize| current.as_ref().map(|current| current.tree.tree().root(number));
    let names = app.trees.names().iter().enumerate();
    let trees = names.map(|(number, name)| TreeView { name: name.clone(), root: root(number) });
    Ok(Json(TreesView { trees: trees.collect() }))
}

pub(crate) async fn status(State(app): State<App>, params: Params) -> Answered<StatusView> {
    params.only(&["tree"])?;
    let root = params.get("tree").map_or(Ok(0), |name| app.trees.number(name))?;
    let trees = app.trees.clone();
    Ok(Json(app.gate.run(move || Ok(StatusView::of(trees.status(root)?))).await?))
}

pub(crate) async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    app.trees.ready().map(|_| "ready\n")
}

pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let text = app.metrics.text(&app.trees);
    (StatusCode::OK, [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
        .into_response()
}
