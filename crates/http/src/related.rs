//! Related places and commits, over HTTP.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use quarry_related::{Commits, CommitsError, Kind, Question, Related, RelatedError, RelatedTree, Subject};
use quarry_session::{Need, Tree};

use crate::api::tree_hint;
use crate::app::App;
use crate::params::Params;
use crate::problem::Problem;
use crate::question::{MAX_RESULTS, Position, query};

/// Default number of places listed.
const DEFAULT_LIMIT: usize = 20;

pub(crate) struct RelatedAsked {
    subject: Subject,
    kinds: Vec<Kind>,
    limit: usize,
}

impl RelatedAsked {
    pub(crate) fn read(params: &Params, app: &App) -> Result<Self, Problem> {
        let kind = |name: &String| {
            name.parse::<Kind>().map_err(|problem| Problem::bad_request(format!("kind: {problem}")))
        };
        let kinds = params.all("kind").iter().map(kind).collect::<Result<_, _>>()?;
        Ok(Self { subject: subject(params, app)?, kinds, limit: limit(params)? })
    }

    pub(crate) fn answer(&self, related: &RelatedTree, tree: &Tree) -> Result<Related, Problem> {
        self.answer_with(related, tree, &self.kinds)
    }

    /// The commits that changed what is asked about.
    pub(crate) fn commits(&self, related: &RelatedTree, tree: &Tree) -> Result<Related, Problem> {
        self.answer_with(related, tree, &[Kind::Commit])
    }

    fn answer_with(&self, related: &RelatedTree, tree: &Tree, kinds: &[Kind]) -> Result<Related, Problem> {
        let Self { subject, limit, .. } = self;
        let question = Question { subject, kinds, limit: *limit, open_time: Duration::ZERO };
        related.answer(tree, &question).map_err(|error| match error {
            RelatedError::Index(error) => error.into(),
            error => Problem::not_found(format!("{error}{}", tree_hint(tree))),
        })
    }
}

fn limit(params: &Params) -> Result<usize, Problem> {
    let limit = params.number("k")?.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_RESULTS).contains(&limit) {
        return Err(Problem::bad_request(format!("k: expected 1 to {MAX_RESULTS}, found {limit}")));
    }
    Ok(limit)
}

fn subject(params: &Params, app: &App) -> Result<Subject, Problem> {
    if let Some(name) = params.get("name") {
        params.only(&["name", "k", "kind"])?;
        return Ok(Subject::Name(name.to_owned()));
    }
    params.only(&["path", "line", "tree", "k", "kind"])?;
    match (params.get("path"), params.get("line")) {
        (Some(path), None) => {
            let root = params.get("tree").map_or(Ok(0), |name| app.trees.number(name))?;
            Ok(Subject::File(root, path.to_owned()))
        }
        _ => {
            let Position { root, path, line } = Position::read(params, &app.trees)?;
            Ok(Subject::Line(root, path, line))
        }
    }
}

pub(crate) async fn related(State(app): State<App>, params: Params) -> Result<Json<Related>, Problem> {
    let asked = RelatedAsked::read(&params, &app)?;
    let background = app.related.clone();
    let answer = app.ask(move |current| {
        let tree = current.tree.tree_for(&Need::Calls)?;
        asked.answer(&background.get(&tree), &tree)
    });
    Ok(Json(answer.await?))
}

/// Commits by the words of a query, as pages and the API answer them.
pub(crate) async fn find_commits(app: &App, params: &Params) -> Result<Commits, Problem> {
    params.only(&["q", "k", "tree"])?;
    let (text, limit) = (query(params)?.to_owned(), limit(params)?);
    let names = params.all("tree");
    let roots: Vec<usize> = names.iter().map(|name| app.trees.number(name)).collect::<Result<_, _>>()?;
    let (background, trees) = (app.related.clone(), app.trees.clone());
    let found = app.ask(move |current| {
        let tree = current.tree.tree_for(&Need::Calls)?;
        let found = background.get(&tree).commits(&tree, &text, Some(trees.model.as_ref()), &roots, limit);
        found.map_err(|error| match error {
            CommitsError::Index(error) => error.into(),
            CommitsError::Embed(error) => Problem::internal(&error),
        })
    });
    found.await
}

pub(crate) async fn commits(State(app): State<App>, params: Params) -> Result<Json<Commits>, Problem> {
    Ok(Json(find_commits(&app, &params).await?))
}
