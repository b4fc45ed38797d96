//! Models by their names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::PyErr;
use pyo3::exceptions::PyValueError;
use quarry_embed::shipped;
use quarry_embed::{CachedEmbedder, EmbedError, Embedder};
use quarry_eval::method::ModelName;
use quarry_session::models::Quality;
pub(crate) use quarry_session::models::load;

/// The quality of a name.
pub(crate) fn quality(name: &str) -> Result<Quality, PyErr> {
    let unknown = || PyValueError::new_err(format!("the quality {name:?}: expected auto, fast or best"));
    Quality::named(name).ok_or_else(unknown)
}

/// The model of a method. Vectors of transformers are kept where the program keeps them.
pub(crate) fn load_method(
    name: ModelName<'_>,
    directories: &[PathBuf],
) -> Result<Arc<dyn Embedder>, EmbedError> {
    match name {
        ModelName::Builtin => load(None),
        ModelName::Path(path) if shipped::static_file(path).is_some() => load(Some(path)),
        ModelName::Path(path) => cached(load(Some(path))?),
        ModelName::Reranker => cached(load(Some(&shipped::reranker(directories)?))?),
        ModelName::Api(api) => Err(EmbedError::model(
            Path::new(&api.model),
            "models behind an API are not supported in Python; use `quarry eval`, or embed with their own client",
        )),
    }
}

fn cached(embedder: Arc<dyn Embedder>) -> Result<Arc<dyn Embedder>, EmbedError> {
    let Some(cache) = quarry_files::cache_directory() else { return Ok(embedder) };
    let kept = CachedEmbedder::new(Arc::clone(&embedder), &cache.join(shipped::VECTORS));
    Ok(kept.map_or(embedder, |cached| Arc::new(cached) as Arc<dyn Embedder>))
}
