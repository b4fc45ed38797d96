//! Which model a command uses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_embed::{EmbedError, Embedder, StaticModel};

/// Name of the file that holds a static model in the folder that `quarry train static` writes.
const STATIC_MODEL_FILE: &str = "model.bin";

/// The model in the program, or the one at `path`: a static model's file or folder, or a transformer's folder.
///
/// # Errors
/// When there is no model at `path`, or a broken one.
pub fn load(path: Option<&Path>) -> Result<Arc<dyn Embedder>, EmbedError> {
    let Some(path) = path else { return Ok(Arc::new(StaticModel::builtin())) };
    Ok(match static_file(path) {
        Some(file) => Arc::new(StaticModel::load(&file)?),
        None => load_transformer(path)?,
    })
}

#[cfg(feature = "transformers")]
fn load_transformer(path: &Path) -> Result<Arc<dyn Embedder>, EmbedError> {
    Ok(Arc::new(quarry_transformer::TransformerModel::load(path)?))
}

#[cfg(not(feature = "transformers"))]
fn load_transformer(path: &Path) -> Result<Arc<dyn Embedder>, EmbedError> {
    Err(EmbedError::model(
        path,
        "expected a static model, for this build runs no others; name a folder with a model.bin, or install with the \
         default features",
    ))
}

/// Whether [`load`] takes a static model.
#[cfg(feature = "eval")]
pub fn is_static(path: Option<&Path>) -> bool {
    path.is_none_or(|path| static_file(path).is_some())
}

/// The file of the static model at `path`, unless that is a transformer's folder.
fn static_file(path: &Path) -> Option<PathBuf> {
    let inside = path.join(STATIC_MODEL_FILE);
    if path.is_file() { Some(path.to_owned()) } else { inside.is_file().then_some(inside) }
}
