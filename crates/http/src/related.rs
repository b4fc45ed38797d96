//! Prediction of related changes, over HTTP.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use quarry_related::{Kind, Question, Related, RelatedError, Subject};
use quarry_session::Need;

use crate::app::App;
use crate::params::Params;
use crate::problem::Problem;
use crate::question::{MAX_RESULTS, Position};

/// Default number of places listed.
const DEFAULT_LIMIT: usize = 20;

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
    let subject = subject(&params, &app)?;
    let limit = params.number("k")?.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_RESULTS).contains(&limit) {
        return Err(Problem::bad_request(format!("k: expected 1 to {MAX_RESULTS}, found {limit}")));
    }
    let kind = |name: &String| {
        name.parse::<Kind>().map_err(|problem| Problem::bad_request(format!("kind: {problem}")))
    };
    let kinds: Vec<Kind> = params.all("kind").iter().map(kind).collect::<Result<_, _>>()?;
    let background = app.related.clone();
    let answer = app.ask(move |current| {
        let tree = current.tree.tree_for(&Need::Calls)?;
        let question = Question { subject: &subject, kinds: &kinds, limit, open_time: Duration::ZERO };
        background.of(&tree).answer(&tree, &question).map_err(|error| match error {
            RelatedError::Index(error) => error.into(),
            error => Problem::not_found(error.to_string()),
        })
    });
    Ok(Json(answer.await?))
}
