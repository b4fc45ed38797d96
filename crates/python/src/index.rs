//! Indexes of source trees.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use quarry_answer::{
    Answer, CallsQuestion, Excerpt, ResultView, SearchQuestion, SharedTree, Shown, StatusView, Tree,
    UnitView, UnitsRequest,
};
use quarry_embed::Embedder;
use quarry_index::{Filter, Hit, OpenOptions, RankingWeights, Update};
use serde::Serialize;

use crate::error::{QuarryError, raised};
use crate::interruptible::interruptible;
use crate::model;

/// Results show their whole code.
const SHOWN: Shown = Shown { units: true, excerpt: Excerpt::All, context: (0, 0) };

/// What an index is opened with.
struct Sources {
    paths: Vec<PathBuf>,
    options: OpenOptions,
    model: Arc<dyn Embedder>,
}

/// An open index.
struct Open {
    tree: SharedTree,
    /// Whether it was built or updated.
    is_changed: bool,
    /// What the user should know.
    warnings: Vec<String>,
}

impl Sources {
    fn open(&self) -> PyResult<Open> {
        let asked: Vec<(&Path, &OpenOptions)> =
            self.paths.iter().map(|path| (path.as_path(), &self.options)).collect();
        let opened = quarry_index::Index::open_or_build_all(&asked, Some(Arc::clone(&self.model)), &|_| ())
            .map_err(raised)?;
        let is_changed = opened.iter().any(|opened| opened.built.is_some());
        let mut warnings = Vec::new();
        for opened in &opened {
            if let Some(outdated) = &opened.outdated {
                warnings.push(format!("the index is out of date ({}): {}", outdated.reason, outdated.error));
            }
            if let Some(error) = &opened.unsaved {
                warnings.push(format!("the index is in memory only: {error}"));
            }
        }
        let index = quarry_index::Index::together(opened.into_iter().map(|opened| opened.index).collect())
            .map_err(raised)?;
        let tree = Tree::new(&self.paths, index).map_err(raised)?.shared();
        Ok(Open { tree, is_changed, warnings })
    }
}

/// A result: the fields of `quarry.Result` in their order, with the signals as JSON, which few read.
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
    String,
    String,
);

impl Row {
    /// `None` of a result that is a file.
    fn of(result: ResultView) -> Option<PyResult<Self>> {
        let ResultView { rank, score, root, path, language, unit, .. } = result;
        let UnitView { start_line, end_line, name, kind, signature, snippet, parts, .. } = unit?;
        let row = |parts| {
            let score = as_in_json(score);
            Self(
                rank, score, root, path, start_line, end_line, name, kind, language, signature, snippet,
                parts,
            )
        };
        Some(json(&parts).map(row))
    }
}

/// The fields of `quarry.Answer`. Converting them takes less than reading the JSON that the program prints.
#[derive(IntoPyObject)]
pub(crate) struct Found(Vec<Row>, Option<bool>, f64, f64);

impl Found {
    fn of<Q>(answer: Answer<Q>) -> PyResult<Self> {
        let Answer { results, confident, confidence, took_ms, .. } = answer;
        let rows = results.into_iter().filter_map(Row::of).collect::<PyResult<_>>()?;
        Ok(Self(rows, confident, as_in_json(confidence), took_ms))
    }
}

/// The number that a program reads in JSON: the shortest decimal fraction of this number.
fn as_in_json(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// The index of one or more source trees.
#[pyclass(frozen, module = "quarry._quarry")]
pub(crate) struct Index {
    sources: Arc<Sources>,
    tree: RwLock<SharedTree>,
    /// What the user should know about how it was opened.
    #[pyo3(get)]
    warnings: Vec<String>,
}

/// What a search may find, and how much of it.
#[derive(FromPyObject)]
pub(crate) struct Request {
    k: usize,
    languages: Vec<String>,
    kinds: Vec<String>,
    globs: Vec<String>,
    threshold: Option<f32>,
}

impl Request {
    fn filter(&self) -> PyResult<Filter> {
        let kinds = self.kinds.iter().map(|name| {
            let known = quarry_answer::KINDS.iter().find(|(known, _)| known == name);
            let names = quarry_answer::KINDS.map(|(name, _)| name).join(", ");
            known
                .map(|(_, kind)| *kind)
                .ok_or_else(|| QuarryError::new_err(format!("the kind {name:?}: expected one of {names}")))
        });
        let kinds: Vec<_> = kinds.collect::<PyResult<_>>()?;
        Filter::new(&self.languages, &kinds, &self.globs).map_err(raised)
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
        quality: String,
        directories: Vec<PathBuf>,
        directory: Option<PathBuf>,
        hidden: Option<bool>,
        ignored: Option<bool>,
        max_bytes: Option<u64>,
        update: bool,
    ) -> PyResult<Self> {
        let mut options = OpenOptions {
            directory,
            update: if update { Update::IfPossible } else { Update::Never },
            ..OpenOptions::default()
        };
        (options.walk.hidden, options.walk.ignored, options.walk.max_bytes) = (hidden, ignored, max_bytes);
        let (sources, open) = interruptible(py, move || {
            let model = model::with_quality(model.as_deref(), &quality, &directories)?;
            let sources = Sources { paths, options, model };
            let open = sources.open()?;
            Ok::<_, PyErr>((sources, open))
        })??;
        Ok(Self { sources: Arc::new(sources), tree: RwLock::new(open.tree), warnings: open.warnings })
    }

    /// Looks for changed files; whether there were some, and what the user should know.
    fn refresh(&self, py: Python<'_>) -> PyResult<(bool, Vec<String>)> {
        let sources = Arc::clone(&self.sources);
        let open = interruptible(py, move || sources.open())??;
        *self.tree.write().unwrap_or_else(PoisonError::into_inner) = open.tree;
        Ok((open.is_changed, open.warnings))
    }

    /// The answer of `quarry search`.
    fn search(&self, py: Python<'_>, query: String, request: Request) -> PyResult<Found> {
        let filter = request.filter()?;
        let shared = self.shared();
        interruptible(py, move || {
            let ranking = RankingWeights::default();
            let request = units(&filter, &request, &ranking);
            let tree = shared.tree();
            let question = SearchQuestion::of(&query);
            let found = quarry_answer::search(&tree.index, question, None, &request).map_err(raised)?;
            Found::of(found.answer(&tree, &SHOWN, Duration::ZERO).map_err(raised)?)
        })?
    }

    /// The answer of `quarry similar` for a line of a file of a searched path, given by its number.
    fn similar(
        &self,
        py: Python<'_>,
        root: usize,
        path: String,
        line: u32,
        request: Request,
    ) -> PyResult<Found> {
        let filter = request.filter()?;
        let shared = self.shared();
        interruptible(py, move || {
            let ranking = RankingWeights::default();
            let tree = shared.tree();
            let given = tree.index.unit_at_in(root, &path, line).ok_or_else(|| nothing_at(&path, line))?;
            let request = units(&filter, &request, &ranking);
            let found = quarry_answer::similar(&tree.index, &given, &request).map_err(raised)?;
            Found::of(found.answer(&tree, &SHOWN, Duration::ZERO).map_err(raised)?)
        })?
    }

    /// The answer of `quarry callers --json`, or of `quarry callees --json`.
    fn calls(&self, py: Python<'_>, name: String, limit: usize, is_callers: bool) -> PyResult<String> {
        let shared = self.shared();
        interruptible(py, move || {
            let start = Instant::now();
            let tree = shared.tree();
            let definitions: Vec<Hit> = tree.index.definitions_of(&name, &Filter::default());
            let question = |took| CallsQuestion {
                query: &name,
                definitions: &definitions,
                limit,
                took,
                open_time: Duration::ZERO,
            };
            if is_callers {
                let calls = tree.index.callers(&name, &definitions, &Filter::default()).map_err(raised)?;
                return json(&quarry_answer::callers(&tree, &question(start.elapsed()), &calls));
            }
            let found = definitions.iter().map(|hit| tree.index.callees(hit).map_err(raised));
            let found: Vec<_> = found.collect::<PyResult<_>>()?;
            json(&quarry_answer::callees(&tree, &question(start.elapsed()), &found))
        })?
    }

    /// The answer of `quarry status --json` for each path.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        let sources = Arc::clone(&self.sources);
        interruptible(py, move || {
            let status = sources.paths.iter().map(|path| {
                quarry_index::Index::status(path, &sources.options).map(StatusView::of).map_err(raised)
            });
            json(&status.collect::<PyResult<Vec<_>>>()?)
        })?
    }

    /// Id of the model.
    #[getter]
    fn model(&self) -> &str {
        self.sources.model.id()
    }
}

impl Index {
    fn shared(&self) -> SharedTree {
        self.tree.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn units<'a>(filter: &'a Filter, request: &Request, ranking: &'a RankingWeights) -> UnitsRequest<'a> {
    UnitsRequest {
        filter: Some(filter),
        limit: request.k,
        threshold: request.threshold,
        ..UnitsRequest::new(ranking)
    }
}

fn nothing_at(path: &str, line: u32) -> PyErr {
    QuarryError::new_err(format!(
        "{path}:{line}: no indexed code is at this line; check the path and the line"
    ))
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(raised)
}
