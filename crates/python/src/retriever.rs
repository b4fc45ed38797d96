//! Methods of `quarry eval` over a corpus of texts.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use quarry_corpus::formats::{Document, Query};
use quarry_embed::EmbedError;
use quarry_eval::EvalError;
use quarry_eval::method::{Corpus, Method, ModelName, Prepared};

use crate::error::{QuarryError, raised};
use crate::interruptible::interruptible;
use crate::model;

/// A method that ranks a corpus.
#[pyclass(frozen, module = "quarry._quarry")]
pub(crate) struct Retriever {
    prepared: Arc<Prepared>,
}

/// Checks that a method is well-formed, and that there is something at the paths that it names.
#[pyfunction]
pub(crate) fn check_method(method: &str) -> PyResult<()> {
    let parsed: Method = method.parse().map_err(raised)?;
    match parsed.paths().into_iter().find(|path| !path.exists()) {
        Some(path) => Err(QuarryError::new_err(format!(
            "{}: expected a method, such as bm25 or hybrid, or the path of a model; there is none",
            path.display()
        ))),
        None => Ok(()),
    }
}

#[pymethods]
impl Retriever {
    /// Indexes documents, which are (id, title, text).
    #[new]
    fn new(
        py: Python<'_>,
        method: &str,
        documents: Vec<(String, String, String)>,
        directories: Vec<PathBuf>,
    ) -> PyResult<Self> {
        let method: Method = method.parse().map_err(raised)?;
        let prepared = interruptible(py, move || {
            let documents: Vec<Document> = documents
                .into_iter()
                .map(|(id, title, text)| Document { title, ..Document::new(id, text) })
                .collect();
            let load =
                |name: ModelName<'_>| -> Result<_, EmbedError> { model::load_method(name, &directories) };
            method.prepare(Corpus::from(&*documents), &load, &mut |_| ())
        })?;
        Ok(Self { prepared: Arc::new(prepared.map_err(raised)?) })
    }

    /// Identities of the models with their weights.
    #[getter]
    fn model(&self) -> Option<&str> {
        self.prepared.model.as_deref()
    }

    /// For each query the positions and scores of the first `k` documents, best first, ties in the order of the corpus.
    fn search(
        &self,
        py: Python<'_>,
        queries: Vec<(String, String)>,
        k: usize,
    ) -> PyResult<Vec<Vec<(usize, f32)>>> {
        let prepared = Arc::clone(&self.prepared);
        interruptible(py, move || {
            let queries: Vec<Query> = queries.into_iter().map(|(id, text)| Query { id, text }).collect();
            let found = prepared.scorer.best(&queries.iter().collect::<Vec<_>>(), k)?;
            let pairs = |neighbors: Vec<quarry_transformer::nearest::Neighbor>| {
                neighbors.into_iter().map(|found| (found.position, found.similarity)).collect()
            };
            Ok(found.into_iter().map(pairs).collect())
        })?
        .map_err(|error: EvalError| raised(error))
    }
}
