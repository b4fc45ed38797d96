//! Embeddings.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use quarry_embed::Embedder;

use crate::error::raised;
use crate::interruptible::interruptible;
use crate::model;

/// A model that embeds queries and documents.
#[pyclass(frozen, module = "quarry._quarry")]
pub(crate) struct Encoder {
    model: Arc<dyn Embedder>,
}

#[pymethods]
impl Encoder {
    #[new]
    fn new(py: Python<'_>, path: Option<PathBuf>) -> PyResult<Self> {
        let model = interruptible(py, move || model::load(path.as_deref()))?.map_err(raised)?;
        Ok(Self { model })
    }

    /// Identifies the model and its weights.
    #[getter]
    fn id(&self) -> &str {
        self.model.id()
    }

    /// Number of columns of every result.
    #[getter]
    fn dimension(&self) -> usize {
        self.model.dimension()
    }

    /// Row vectors of length 1, one for each text, or of zeros where nothing in a text is known: the bytes of float32 numbers
    /// in the order of this machine.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
        is_query: bool,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let model = Arc::clone(&self.model);
        let vectors = interruptible(py, move || {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            if is_query { model.embed_queries(&texts) } else { model.embed_documents(&texts) }
        })?
        .map_err(raised)?;
        Ok(PyByteArray::new(py, bytemuck::cast_slice(&vectors.values)))
    }
}
