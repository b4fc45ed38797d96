//! Which model a command uses.

use std::path::Path;
use std::sync::Arc;

use quarry_embed::{EmbedError, Embedder, StaticModel, TransformerModel};
use quarry_eval::method::ModelName;

/// Name of the file that holds a static model in the folder that `quarry train static` writes.
const STATIC_MODEL_FILE: &str = "model.bin";

/// The model in the program, or the one at `path`: a static model's file or folder, or a transformer's folder.
///
/// # Errors
/// When there is no model at `path`, or a broken one.
pub fn load(path: Option<&Path>) -> Result<Arc<dyn Embedder>, EmbedError> {
    let Some(path) = path else { return Ok(Arc::new(StaticModel::builtin())) };
    let static_file = path.join(STATIC_MODEL_FILE);
    Ok(if path.is_file() {
        Arc::new(StaticModel::load(path)?)
    } else if static_file.is_file() {
        Arc::new(StaticModel::load(&static_file)?)
    } else {
        Arc::new(TransformerModel::load(path)?)
    })
}

/// The model of a method; `builtin` takes the place of the one built in.
///
/// # Errors
/// As [`load`].
pub fn load_named(name: ModelName<'_>, builtin: Option<&Path>) -> Result<Arc<dyn Embedder>, EmbedError> {
    match name {
        ModelName::Builtin => load(builtin),
        ModelName::Path(path) => load(Some(path)),
    }
}
