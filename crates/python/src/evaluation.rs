//! Measures of runs, and comparisons between them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use quarry_corpus::formats::qrels::{self, Qrels};
use quarry_corpus::formats::run::{self, Run};
use quarry_eval::evaluation::{self, Conventions, Evaluation};
use quarry_metrics::Measure;
use quarry_metrics::significance::{Bootstrap, PairedComparison};
use serde::Serialize;

use crate::error::{QuarryError, raised};
use crate::interruptible::interruptible;

/// Maximum number of characters of a wrong value that an error shows.
const SHOWN_CHARACTERS: usize = 80;

/// Judgments or a run: in memory, or the path of a file.
#[derive(FromPyObject)]
pub(crate) enum Input<'py> {
    /// Values by query, then document.
    Values(Bound<'py, PyDict>),
    /// A file.
    Path(PathBuf),
}

/// Source that a thread reads it from.
enum Source<T> {
    Values(T),
    Path(PathBuf),
}

impl Input<'_> {
    fn qrels(self) -> PyResult<Source<Qrels>> {
        let values = match self {
            Self::Path(path) => return Ok(Source::Path(path)),
            Self::Values(values) => values,
        };
        let grade = |value: &Bound<'_, PyAny>| value.extract::<i32>().ok();
        Ok(Source::Values(by_query(&values, "the judgments", "a grade, a whole number of 32 bits", grade)?))
    }

    fn run(self) -> PyResult<Source<Run>> {
        let values = match self {
            Self::Path(path) => return Ok(Source::Path(path)),
            Self::Values(values) => values,
        };
        let score = |value: &Bound<'_, PyAny>| value.extract::<f64>().ok().filter(|score| !score.is_nan());
        Ok(Source::Values(by_query(&values, "the run", "a score, a number other than NaN", score)?))
    }
}

/// Content of a dictionary of dictionaries; `given` and `expected` are the words for it and for a value.
fn by_query<T, D: FromIterator<(String, T)>>(
    values: &Bound<'_, PyDict>,
    given: &str,
    expected: &str,
    value_of: impl Fn(&Bound<'_, PyAny>) -> Option<T>,
) -> PyResult<BTreeMap<String, D>> {
    let wrong = |place: &str, expected: &str, found: &Bound<'_, PyAny>| {
        let found = found.repr().map_or_else(|_| found.get_type().to_string(), |text| text.to_string());
        let found: String = found.chars().take(SHOWN_CHARACTERS).collect();
        QuarryError::new_err(format!("{given}{place}: expected {expected}, found {found}"))
    };
    let query_of = |(query, documents): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let Ok(id) = query.extract::<String>() else {
            return Err(wrong("", "the id of a query, a str", &query));
        };
        let place = || format!(", query {id:?}");
        let Ok(found) = documents.cast::<PyDict>() else {
            return Err(wrong(&place(), "a dictionary by document", &documents));
        };
        let document_of = |(document, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let Ok(id) = document.extract::<String>() else {
                return Err(wrong(&place(), "the id of a document, a str", &document));
            };
            match value_of(&value) {
                Some(value) => Ok((id, value)),
                None => Err(wrong(&format!("{}, document {:?}", place(), id), expected, &value)),
            }
        };
        let found = found.iter().map(document_of).collect::<PyResult<D>>()?;
        Ok((id, found))
    };
    values.iter().map(query_of).collect()
}

/// The evaluation and its summary, as JSON.
#[pyfunction]
pub(crate) fn evaluate(
    py: Python<'_>,
    qrels: Input<'_>,
    run: Input<'_>,
    measures: Vec<String>,
    conventions: &str,
    bootstrap: &str,
) -> PyResult<(String, String)> {
    let measures: Vec<Measure> =
        measures.iter().map(|name| name.parse().map_err(raised)).collect::<PyResult<_>>()?;
    let conventions: Conventions = serde_json::from_str(conventions).map_err(raised)?;
    let bootstrap: Bootstrap = serde_json::from_str(bootstrap).map_err(raised)?;
    let (qrels, run) = (qrels.qrels()?, run.run()?);
    interruptible(py, move || {
        let qrels = match qrels {
            Source::Values(values) => values,
            Source::Path(path) => qrels::read(&path).map_err(raised)?,
        };
        let run = match run {
            Source::Values(run) => run,
            Source::Path(path) => run::read(&path).map_err(raised)?,
        };
        let evaluation = evaluation::evaluate_run(&qrels, &run, &measures, &conventions).map_err(raised)?;
        let summary = evaluation.summary(&bootstrap).map_err(raised)?;
        let evaluation = serde_json::to_string(&evaluation).map_err(raised)?;
        Ok((evaluation, serde_json::to_string(&summary).map_err(raised)?))
    })?
}

/// Difference of one evaluation from the baseline.
#[derive(Serialize)]
struct Compared {
    queries: usize,
    measures: BTreeMap<String, PairedComparison>,
}

/// Differences of `others` from the baseline, as JSON; p-values are corrected over all of them together.
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
