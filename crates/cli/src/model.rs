//! Which model a command uses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ValueEnum;
use quarry_embed::shipped::{self, Tier};
use quarry_embed::{EmbedError, Embedder, WithReranker};
use serde::{Deserialize, Serialize};

/// The model in the program, or the one at `path`: a static model's file or directory, or the directory of a
/// transformer or of token vectors as model2vec has them.
///
/// # Errors
/// When the model at `path` is missing or damaged.
pub fn load(path: Option<&Path>) -> Result<Arc<dyn Embedder>, EmbedError> {
    shipped::load(path, load_transformer)
}

/// The static model in the program, or at `path`; none if that is a transformer's directory.
///
/// # Errors
/// When it is broken.
#[cfg(feature = "train")]
pub fn load_static(path: Option<&Path>) -> Result<Option<quarry_embed::StaticModel>, EmbedError> {
    use quarry_embed::StaticModel;

    let Some(path) = path else { return Ok(Some(StaticModel::builtin())) };
    shipped::static_file(path).map(|file| StaticModel::load(&file)).transpose()
}

#[cfg(feature = "transformers")]
fn load_transformer(path: &Path) -> Result<Arc<dyn Embedder>, EmbedError> {
    quarry_transformer::load(path)
}

#[cfg(not(feature = "transformers"))]
fn load_transformer(path: &Path) -> Result<Arc<dyn Embedder>, EmbedError> {
    Err(EmbedError::model(
        path,
        "expected a static model, since this build runs no others; name a directory with a model.bin, or install with \
         the default features",
    ))
}

/// A model with the cross-encoder in a directory.
///
/// # Errors
/// When there is none, or a broken one.
#[cfg(feature = "transformers")]
pub fn with_cross_encoder(embedder: Arc<dyn Embedder>, path: &Path) -> Result<Arc<dyn Embedder>, EmbedError> {
    let cross_encoder = Arc::new(quarry_transformer::CrossEncoder::load(path)?);
    Ok(Arc::new(quarry_embed::WithCrossEncoder { embedder, cross_encoder }))
}

#[cfg(not(feature = "transformers"))]
pub fn with_cross_encoder(_: Arc<dyn Embedder>, path: &Path) -> Result<Arc<dyn Embedder>, EmbedError> {
    load_transformer(path)
}

/// What stands for the model in the program where a model is named; a directory of that name is `./builtin`.
pub const BUILTIN: &str = "builtin";

/// How much time a search may take for better results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// The static model alone: milliseconds
    #[default]
    Fast,
    /// A small transformer re-ranks the first results for questions about behavior: up to 1 s, or about 0.1 s once
    /// `quarry index --quality balanced` has computed its vectors
    Balanced,
    /// In addition, a larger transformer re-ranks the first of these: up to 3 s, or about 0.3 s once `quarry index
    /// --quality best` has run
    Best,
}

impl Quality {
    /// A model with what this quality adds to it.
    ///
    /// # Errors
    /// When a model that reranks is not here, or is broken.
    pub fn of(self, first: Arc<dyn Embedder>) -> Result<Arc<dyn Embedder>, EmbedError> {
        Ok(match self.reranker(load_transformer)? {
            None => first,
            Some(reranker) => Arc::new(WithReranker { first, reranker }),
        })
    }

    /// What orders results again in this quality, if anything does; `load` is called with the directory of each model.
    ///
    /// # Errors
    /// When a model is not here, or cannot be loaded.
    pub fn reranker(
        self,
        load: impl Fn(&Path) -> Result<Arc<dyn Embedder>, EmbedError> + Sync,
    ) -> Result<Option<Arc<dyn Embedder>>, EmbedError> {
        let tier = match self {
            Self::Fast => return Ok(None),
            Self::Balanced => Tier::Balanced,
            Self::Best => Tier::Best,
        };
        if cfg!(not(feature = "transformers")) {
            // Its model could be installed, but not run.
            return load(Path::new(tier.name())).map(Some);
        }
        tier.reranker(&beside_the_program(), load).map(Some)
    }

    /// The quality of this name, if models order results again in it.
    #[cfg(feature = "eval")]
    pub fn with_reranker(name: &Path) -> Option<Self> {
        Some(match Tier::named(name)? {
            Tier::Balanced => Self::Balanced,
            Tier::Best => Self::Best,
        })
    }
}

/// The directories of models that come with the program: beside it in an archive, `share/quarry/models` of an
/// installation, that of the repository that it was built in.
pub fn beside_the_program() -> Vec<PathBuf> {
    let program = std::env::current_exe().and_then(|program| program.canonicalize()).ok();
    let Some(directory) = program.as_deref().and_then(Path::parent) else { return Vec::new() };
    let installed = directory.parent().map(|prefix| prefix.join("share/quarry/models"));
    let built = directory.ancestors().take(3).find(|directory| directory.ends_with("target"));
    let repository = built.and_then(Path::parent).map(|root| root.join("crates/embed/models"));
    [Some(directory.join("models")), installed, repository].into_iter().flatten().collect()
}

/// The directory of a transformer that comes with the program, if `name` is that of its quality.
///
/// # Errors
/// When it is not here.
#[cfg(feature = "data")]
pub fn directory_of_quality(name: &Path) -> Result<Option<PathBuf>, EmbedError> {
    Tier::named(name).map(|tier| tier.directory(&beside_the_program())).transpose()
}

/// The path for [`load`] of a model that was named.
pub fn named(path: &Path) -> Option<&Path> {
    (path != Path::new(BUILTIN)).then_some(path)
}

/// What a model that was named is called wherever it is named from.
///
/// # Errors
/// When there is nothing at `path`, or its name is not UTF-8.
pub fn name(path: &Path) -> anyhow::Result<String> {
    let Some(path) = named(path) else { return Ok(BUILTIN.to_owned()) };
    let (base, options) = split_options(path);
    let found =
        base.canonicalize().with_context(|| format!("the model {}: cannot be read", base.display()))?;
    let Ok(mut name) = found.into_os_string().into_string() else {
        bail!("{}: the path of a model that an index remembers must be UTF-8", path.display());
    };
    if let Some(options) = options {
        name += ":";
        name += &options;
    }
    Ok(name)
}

/// The path of a model, and the options of a transformer after it.
#[cfg(feature = "transformers")]
fn split_options(path: &Path) -> (PathBuf, Option<String>) {
    quarry_transformer::split_options(path)
}

#[cfg(not(feature = "transformers"))]
fn split_options(path: &Path) -> (PathBuf, Option<String>) {
    (path.to_owned(), None)
}

/// Whether [`load`] takes a static model.
#[cfg(feature = "eval")]
pub fn is_static(path: Option<&Path>) -> bool {
    path.is_none_or(|path| shipped::static_file(path).is_some())
}
