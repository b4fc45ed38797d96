//! Models by their names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::PyErr;
use quarry_embed::shipped::{self, Tier};
use quarry_embed::{CachedEmbedder, EmbedError, Embedder, WithReranker};
use quarry_eval::method::ModelName;

use crate::error::{QuarryError, raised};

/// The built-in model, or the one at a path: the file or directory of a static model, or the directory of a
/// transformer or of token vectors.
pub(crate) fn load(path: Option<&Path>) -> Result<Arc<dyn Embedder>, EmbedError> {
    shipped::load(path, quarry_transformer::load)
}

/// A model with what re-ranks in a quality; `directories` may hold the models that come with the program.
pub(crate) fn with_quality(
    path: Option<&Path>,
    quality: &str,
    directories: &[PathBuf],
) -> Result<Arc<dyn Embedder>, PyErr> {
    let tier = match quality {
        "fast" => return load(path).map_err(raised),
        "balanced" => Tier::Balanced,
        "best" => Tier::Best,
        _ => {
            let problem = format!("the quality {quality:?}: expected fast, balanced or best");
            return Err(QuarryError::new_err(problem));
        }
    };
    let first = load(path).map_err(raised)?;
    let reranker = tier.reranker(directories, |path| load(Some(path))).map_err(raised)?;
    Ok(Arc::new(WithReranker { first, reranker }))
}

/// The model of a method. Vectors of transformers are kept where the program keeps them.
pub(crate) fn of_method(
    name: ModelName<'_>,
    directories: &[PathBuf],
) -> Result<Arc<dyn Embedder>, EmbedError> {
    match name {
        ModelName::Builtin => load(None),
        ModelName::Path(path) if shipped::static_file(path).is_some() => load(Some(path)),
        ModelName::Path(path) => cached(load(Some(path))?),
        ModelName::Reranker(tier) => tier.reranker(directories, |path| cached(load(Some(path))?)),
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
