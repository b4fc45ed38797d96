//! Indexes of source trees.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use quarry_index::{Filter, Hit, Outdated, Update};
use quarry_related::{Background, Kind, Question, RelatedError, Subject};
use quarry_session::context::{ContextRequest, context};
use quarry_session::models::Rerank;
use quarry_session::outline::outline;
use quarry_session::settings::{SearchDefaults, Settings};
use quarry_session::{
    Answer, CallsQuestion, DisplayOptions, Excerpt, Models, Notice, OpenChoice, Query, ResultView, Session,
    SessionError, Snapshot, StatusView, Tree, UnitView, UnitsRequest,
};
use quarry_text::with_causes;
use quarry_walk::WalkChoice;
use serde::Serialize;

use crate::error::{QuarryError, raised};
use crate::interruptible::interruptible;
use crate::model;

/// Results show their whole code.
const SHOWN: DisplayOptions = DisplayOptions { units: true, excerpt: Excerpt::All, context: (0, 0) };

/// Opens the index of a session, refreshed to the current files or as it is. Returns whether it was built or
/// updated, and warnings for the user.
fn open(session: &Session) -> Result<(bool, Vec<String>), SessionError> {
    let outcome = Mutex::new((false, Vec::new()));
    session.snapshot(Some(Instant::now()), &|notice| {
        let (is_changed, warnings) = &mut *outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::Opened(opened) => {
                *is_changed = opened.iter().any(|opened| opened.built.is_some());
                for opened in opened {
                    if let Some(Outdated { reason, error }) = &opened.outdated {
                        warnings.push(format!("the index is out of date ({reason}): {error}"));
                    }
                    if let Some(error) = &opened.unsaved {
                        warnings.push(format!("the index is in memory only: {error}"));
                    }
                }
            }
            Notice::Unsearched(error) => warnings.push(with_causes(error)),
            Notice::Ignored(_) | Notice::Event(_) | Notice::Ready(_) => {}
        }
    })?;
    Ok(outcome.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// A result: the fields of `quarry.Result` in order, without the code if the file has changed since it was indexed.
/// The signals are JSON, because they are rarely read.
#[derive(IntoPyObject)]
pub(crate) struct Row(
    usize,
    f64,
    String,
    String,
    u32,
    u32,
    String,
    &'static str,
    String,
    String,
    Option<String>,
    String,
);

impl Row {
    /// Returns `None` for a result that is a file.
    fn from_result(result: ResultView) -> Option<PyResult<Self>> {
        let ResultView { rank, score, root, path, language, unit, .. } = result;
        let UnitView { start_line, end_line, name, kind, signature, snippet, parts, is_outdated, .. } = unit?;
        let code = (!is_outdated).then_some(snippet);
        let row = |parts| {
            let score = as_in_json(score);
            Self(rank, score, root, path, start_line, end_line, name, kind, language, signature, code, parts)
        };
        Some(json(&parts).map(row))
    }
}

/// The fields of `quarry.Answer`. Converting them is faster than parsing the JSON that the program prints.
#[derive(IntoPyObject)]
pub(crate) struct AnswerFields(Vec<Row>, Option<bool>, f64, f64, Vec<String>);

impl AnswerFields {
    fn from_answer<Q>(answer: Answer<Q>) -> PyResult<Self> {
        let Answer { results, confident, confidence, took_ms, notes, .. } = answer;
        let rows = results.into_iter().filter_map(Row::from_result).collect::<PyResult<_>>()?;
        Ok(Self(rows, confident, as_in_json(confidence), took_ms, notes))
    }
}

/// The number that a program reads from JSON: the shortest decimal fraction for this number.
fn as_in_json(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// The index of one or more source trees.
#[pyclass(frozen, module = "quarry._quarry")]
pub(crate) struct Index {
    session: Arc<Session>,
    choice: OpenChoice,
    related: Arc<Background>,
    /// Warnings from opening it.
    #[pyo3(get)]
    warnings: Vec<String>,
}

/// Restrictions of a search and limits of its results.
#[derive(FromPyObject)]
pub(crate) struct Request {
    k: Option<usize>,
    languages: Vec<String>,
    kinds: Vec<String>,
    globs: Vec<String>,
    threshold: Option<f32>,
}

impl Request {
    /// The options of the request, with `defaults` for those that it does not set.
    fn over(&self, defaults: &SearchDefaults) -> SearchDefaults {
        SearchDefaults {
            limit: self.k.unwrap_or(defaults.limit),
            threshold: self.threshold.or(defaults.threshold),
            ..defaults.clone()
        }
    }

    fn filter(&self) -> PyResult<Filter> {
        let kinds = self.kinds.iter().map(|name| {
            let known = quarry_session::KINDS.iter().find(|(known, _)| known == name);
            let names = quarry_session::KINDS.map(|(name, _)| name).join(", ");
            known
                .map(|(_, kind)| *kind)
                .ok_or_else(|| PyValueError::new_err(format!("the kind {name:?}: expected one of {names}")))
        });
        let kinds: Vec<_> = kinds.collect::<PyResult<_>>()?;
        Filter::new(&self.languages, &kinds, &self.globs)
            .map_err(|error| PyValueError::new_err(with_causes(&error)))
    }
}

#[pymethods]
impl Index {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the keywords of `quarry.Index.open`")]
    fn new(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        model: Option<PathBuf>,
        quality: Option<String>,
        directories: Vec<PathBuf>,
        directory: Option<PathBuf>,
        hidden: Option<bool>,
        ignored: Option<bool>,
        max_bytes: Option<u64>,
        update: bool,
    ) -> PyResult<Self> {
        let quality = quality.map(|name| model::quality(&name)).transpose()?;
        let choice = OpenChoice {
            directory,
            model,
            walk: WalkChoice { max_bytes, hidden, ignored },
            rerank: Some(Rerank { quality, ..Rerank::default() }),
            models: Models::in_directories(directories),
            ..OpenChoice::default()
        };
        let update = if update { Update::IfPossible } else { Update::Never };
        let session = Session::new(paths, choice.clone()).with_update(update).comparing_files();
        let session = Arc::new(session);
        let opened = Arc::clone(&session);
        let (_, warnings) = interruptible(py, move || open(&opened))?.map_err(raised)?;
        Ok(Self { session, choice, related: Arc::default(), warnings })
    }

    /// Looks for changed files; whether there were some, and what the user should know.
    fn refresh(&self, py: Python<'_>) -> PyResult<(bool, Vec<String>)> {
        let session = Arc::clone(&self.session);
        interruptible(py, move || open(&session))?.map_err(raised)
    }

    /// The answer of `quarry search`.
    fn search(&self, py: Python<'_>, query: String, request: Request) -> PyResult<AnswerFields> {
        let filter = request.filter()?;
        let asked = Query::parse(&query).map_err(|error| PyValueError::new_err(error.with_place()))?;
        let answer = self.ask(py, move |tree, snapshot| {
            let defaults = request.over(&snapshot.defaults);
            let trees = tree.names();
            let units = UnitsRequest { trees: &trees, ..defaults.request(&filter, defaults.limit) };
            let found = quarry_session::search(&tree.index, asked.clone(), &units)?;
            Ok(found.answer(tree, &SHOWN, Duration::ZERO)?)
        })?;
        AnswerFields::from_answer(answer)
    }

    /// The answer of `quarry similar` for a line of a file of a searched path, given by its number.
    fn similar(
        &self,
        py: Python<'_>,
        root: usize,
        path: String,
        line: u32,
        request: Request,
    ) -> PyResult<AnswerFields> {
        let filter = request.filter()?;
        let asked = path.clone();
        let answer = self.ask(py, move |tree, snapshot| {
            let Some(given) = tree.index.unit_at_in(root, &path, line) else { return Ok(None) };
            let defaults = request.over(&snapshot.defaults);
            let units = defaults.request(&filter, defaults.limit);
            let found = quarry_session::similar(&tree.index, &given, &units)?;
            Ok(Some(found.answer(tree, &SHOWN, Duration::ZERO)?))
        })?;
        AnswerFields::from_answer(answer.ok_or_else(|| no_unit_at(&asked, line))?)
    }

    /// The answer of `quarry callers --json`, or of `quarry callees --json`.
    fn calls(&self, py: Python<'_>, name: String, limit: usize, is_callers: bool) -> PyResult<String> {
        self.ask(py, move |tree, _| {
            let start = Instant::now();
            let definitions: Vec<Hit> = tree.index.definitions_of(&name, &Filter::default());
            let question = |took| CallsQuestion {
                query: &name,
                definitions: &definitions,
                limit,
                took,
                open_time: Duration::ZERO,
            };
            if is_callers {
                let calls = tree.index.callers(&name, &definitions, &Filter::default())?;
                return Ok(json(&quarry_session::callers(tree, &question(start.elapsed()), &calls)));
            }
            let found =
                definitions.iter().map(|hit| tree.index.callees(hit)).collect::<Result<Vec<_>, _>>()?;
            Ok(json(&quarry_session::callees(tree, &question(start.elapsed()), &found)))
        })?
    }

    /// The answer of `quarry related --json` for a name, or for a line or all of a file of a searched path, given by its
    /// number.
    fn related(
        &self,
        py: Python<'_>,
        name: Option<String>,
        place: Option<(usize, String, Option<u32>)>,
        kinds: Vec<String>,
        limit: usize,
    ) -> PyResult<String> {
        let kinds = kinds.iter().map(|kind| kind.parse::<Kind>().map_err(PyValueError::new_err));
        let kinds = kinds.collect::<PyResult<Vec<Kind>>>()?;
        let subject = match (name, place) {
            (Some(name), _) => Subject::Name(name),
            (None, Some((root, path, Some(line)))) => Subject::Line(root, path, line),
            (None, Some((root, path, None))) => Subject::File(root, path),
            (None, None) => return Err(PyValueError::new_err("expected a name or a path")),
        };
        let background = Arc::clone(&self.related);
        let found = self.ask(py, move |tree, _| {
            let question = Question { subject: &subject, kinds: &kinds, limit, open_time: Duration::ZERO };
            match background.get(tree).answer(tree, &question) {
                Err(RelatedError::Index(error)) => Err(error.into()),
                found => Ok(found.map_err(raised)),
            }
        })?;
        json(&found?)
    }

    /// The text of `quarry context`, and whether something in it clearly answers.
    fn context(
        &self,
        py: Python<'_>,
        query: String,
        tokens: usize,
        request: Request,
    ) -> PyResult<(String, Option<bool>)> {
        let filter = request.filter()?;
        self.ask(py, move |tree, snapshot| {
            let request = ContextRequest {
                query: &query,
                filter: &filter,
                ranking: &snapshot.defaults.ranking,
                max_tokens: tokens,
                prefixes: &tree.prefixes(),
            };
            let found = context(&tree.index, &request)?;
            Ok((found.text, found.confident))
        })
    }

    /// The text of `quarry outline`.
    fn outline(&self, py: Python<'_>, tokens: usize, request: Request) -> PyResult<String> {
        let filter = request.filter()?;
        self.ask(py, move |tree, _| Ok(outline(&tree.index, &filter, tokens, &tree.prefixes())?))
    }

    /// The answer of `quarry status --json` for each path.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        let (paths, choice) = (self.session.paths().to_vec(), self.choice.clone());
        let status = interruptible(py, move || {
            let status = |path: &PathBuf| {
                let options = choice.options(&Settings::load(path)?);
                Ok(StatusView::new(quarry_index::Index::status(path, &options)?))
            };
            paths.iter().map(status).collect::<Result<Vec<_>, SessionError>>()
        })?;
        json(&status.map_err(raised)?)
    }

    /// Id of the model.
    #[getter]
    fn model(&self) -> Option<String> {
        Some(self.session.opened()?.tree().index.model()?.0.to_owned())
    }
}

impl Index {
    /// Queries the index as it was last opened.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        question: impl Fn(&Tree, &Snapshot) -> Result<T, SessionError> + Send + 'static,
    ) -> PyResult<T> {
        let session = Arc::clone(&self.session);
        interruptible(py, move || session.ask(None, &|_| {}, question))?.map_err(raised)
    }
}

fn no_unit_at(path: &str, line: u32) -> PyErr {
    QuarryError::new_err(format!(
        "{path}:{line}: no indexed code is at this line; check the path and the line"
    ))
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(raised)
}
