//! Models by location: those that come with the program, and those at a path.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{EmbedError, Embedder, StaticModel, WithReranker};

/// Name of the file that holds a static model in the directory that `quarry train static` writes.
pub const STATIC_MODEL_FILE: &str = "model.bin";

/// Directory of the vectors of [`CachedEmbedder`](crate::CachedEmbedder), in the user's cache directory.
pub const VECTORS: &str = "embeddings";

/// The quality tiers in which models re-rank results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// A small transformer reads the first results.
    Balanced,
    /// In addition, a larger one reads the first of these.
    Best,
}

impl Tier {
    /// Name of the tier, and of the directory of its transformer.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Best => "best",
        }
    }

    /// The tier of this name.
    #[must_use]
    pub fn named(name: &Path) -> Option<Self> {
        [Self::Balanced, Self::Best].into_iter().find(|tier| name == Path::new(tier.name()))
    }

    /// The re-ranker of a tier; `load` is called with the directory of each model.
    ///
    /// # Errors
    /// When a model is missing, or cannot be loaded.
    pub fn reranker(
        self,
        directories: &[PathBuf],
        load: impl Fn(&Path) -> Result<Arc<dyn Embedder>, EmbedError> + Sync,
    ) -> Result<Arc<dyn Embedder>, EmbedError> {
        let of = |tier: Self| load(&tier.directory(directories)?);
        match self {
            Self::Balanced => of(Self::Balanced),
            Self::Best => {
                let (first, reranker) = rayon::join(|| of(Self::Balanced), || of(Self::Best));
                Ok(Arc::new(WithReranker { first: first?, reranker: reranker? }))
            }
        }
    }

    /// The directory of the transformer: in one of `directories`, or in the user's cache, where models are copied to.
    ///
    /// # Errors
    /// When it is missing; states where to copy it.
    pub fn directory(self, directories: &[PathBuf]) -> Result<PathBuf, EmbedError> {
        let name = self.name();
        let pulled = quarry_files::cache_directory().map(|cache| cache.join("models"));
        let mut found = directories.iter().chain(&pulled).map(|directory| directory.join(name));
        found.find(|directory| directory.join("config.json").is_file()).ok_or_else(|| {
            let target = pulled.clone().unwrap_or_else(|| "models".into());
            EmbedError::model(
                Path::new(name),
                format!(
                    "the model of this quality is not installed; copy the directory models/{name} of a release, or \
                     crates/embed/models/{name} of the repository, to {}",
                    target.display()
                ),
            )
        })
    }
}

/// The file of the static model at `path`, unless that is a transformer's directory.
#[must_use]
pub fn static_file(path: &Path) -> Option<PathBuf> {
    let inside = path.join(STATIC_MODEL_FILE);
    if path.is_file() { Some(path.to_owned()) } else { inside.is_file().then_some(inside) }
}

/// The model in the program, or the one at `path`: a static model's file or directory, or another directory, which
/// `load_other` reads.
///
/// # Errors
/// When the model at `path` is missing or damaged.
pub fn load(
    path: Option<&Path>,
    load_other: impl FnOnce(&Path) -> Result<Arc<dyn Embedder>, EmbedError>,
) -> Result<Arc<dyn Embedder>, EmbedError> {
    let Some(path) = path else { return Ok(Arc::new(StaticModel::builtin())) };
    match static_file(path) {
        Some(file) => Ok(Arc::new(StaticModel::load(&file)?)),
        None => load_other(path),
    }
}
