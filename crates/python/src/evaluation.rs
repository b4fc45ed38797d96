//! Measures of runs, and comparisons between them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use quarry_corpus::formats::qrels::{self, Qrels};
use quarry_corpus::formats::run::{self, RankedDocuments, Run};
use quarry_eval::evaluation::{self, Conventions, Evaluation};
use quarry_metrics::Measure;
use quarry_metrics::significance::{Bootstrap, PairedComparison};
use serde::Serialize;

use crate::error::{QuarryError, raised};
use crate::interruptible::interruptible;

/// Judgments in memory, or the path of a file of them.
#[derive(FromPyObject)]
pub(crate) enum QrelsInput {
    /// Grades by query, then document.
    Values(BTreeMap<String, BTreeMap<String, i32>>),
    /// A file of TREC's or BEIR's format.
    Path(PathBuf),
}

/// A run in memory, or the path of a file of one.
#[derive(FromPyObject)]
pub(crate) enum RunInput<'py> {
    /// Scores by query, then document.
    Values(Bound<'py, PyDict>),
    /// A file of TREC's format.
    Path(PathBuf),
}

impl RunInput<'_> {
    /// What a thread reads it from.
    fn source(self) -> PyResult<RunSource> {
        let values = match self {
            Self::Path(path) => return Ok(RunSource::Path(path)),
            Self::Values(values) => values,
        };
        let mut run = Run::new();
        for (query, found) in values {
            let documents = found.cast::<PyDict>()?.iter();
            let documents: Vec<(String, f64)> = documents
                .map(|(document, score)| Ok((document.extract()?, score.extract()?)))
                .collect::<PyResult<_>>()?;
            let query: String = query.extract()?;
            if let Some((document, _)) = documents.iter().find(|(_, score)| score.is_nan()) {
                let problem = format!(
                    "the run: query {query:?}, document {document:?}: expected a number as the score, found NaN; \
                     leave the document out"
                );
                return Err(QuarryError::new_err(problem));
            }
            run.insert(query, RankedDocuments::from_iter(documents));
        }
        Ok(RunSource::Values(run))
    }
}

enum RunSource {
    Values(Run),
    Path(PathBuf),
}

/// An evaluation with its means.
#[derive(Serialize)]
struct Evaluated {
    #[serde(flatten)]
    evaluation: Evaluation,
    summary: evaluation::Summary,
}

/// The object of [`Evaluated`] as JSON.
#[pyfunction]
pub(crate) fn evaluate(
    py: Python<'_>,
    qrels: QrelsInput,
    run: RunInput<'_>,
    measures: Vec<String>,
    conventions: &str,
    bootstrap: &str,
) -> PyResult<String> {
    let measures: Vec<Measure> =
        measures.iter().map(|name| name.parse().map_err(raised)).collect::<PyResult<_>>()?;
    let conventions: Conventions = serde_json::from_str(conventions).map_err(raised)?;
    let bootstrap: Bootstrap = serde_json::from_str(bootstrap).map_err(raised)?;
    let run = run.source()?;
    interruptible(py, move || {
        let qrels: Qrels = match qrels {
            QrelsInput::Values(values) => values,
            QrelsInput::Path(path) => qrels::read(&path).map_err(raised)?,
        };
        let run = match run {
            RunSource::Values(run) => run,
            RunSource::Path(path) => run::read(&path).map_err(raised)?,
        };
        let evaluation = evaluation::evaluate_run(&qrels, &run, &measures, &conventions).map_err(raised)?;
        let summary = evaluation.summary(&bootstrap).map_err(raised)?;
        serde_json::to_string(&Evaluated { evaluation, summary }).map_err(raised)
    })?
}

/// How one evaluation differs from the baseline.
#[derive(Serialize)]
struct Compared {
    queries: usize,
    measures: BTreeMap<String, PairedComparison>,
}

/// How each of `others` differs from the baseline, as JSON; p-values are corrected over all of them together.
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    baseline: &str,
    others: Vec<String>,
    bootstrap: &str,
) -> PyResult<String> {
    let parse = |text: &str| serde_json::from_str::<Evaluation>(text).map_err(raised);
    let baseline = parse(baseline)?;
    let others: Vec<Evaluation> = others.iter().map(|other| parse(other)).collect::<PyResult<_>>()?;
    let bootstrap: Bootstrap = serde_json::from_str(bootstrap).map_err(raised)?;
    interruptible(py, move || {
        let found = evaluation::compare(&baseline, &others, None, &bootstrap).map_err(raised)?;
        let compared = found.into_iter().map(|found| Compared {
            queries: found.queries,
            measures: found.measures.into_iter().map(|(name, of)| (name.to_string(), of)).collect(),
        });
        serde_json::to_string(&compared.collect::<Vec<_>>()).map_err(raised)
    })?
}
