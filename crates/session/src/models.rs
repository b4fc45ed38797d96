//! The model that a search uses, and where its name comes from.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_embed::{EmbedError, Embedder, WithReranker, WithStoredReranker, shipped};
use quarry_index::{Error, Index, OpenOptions};
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::tuned::Tuned;

/// Name of the built-in model where a model is named; a directory of that name is written `./builtin`.
pub const BUILTIN: &str = "builtin";

/// Time that a search may take for better results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// [`Best`](Self::Best) where its vectors of the results are stored, else [`Fast`](Self::Fast).
    Auto,
    /// The static model alone.
    Fast,
    /// A small transformer re-ranks the first results of questions about behavior.
    #[serde(alias = "balanced")]
    Best,
}

impl Quality {
    /// The names of all qualities and their aliases.
    pub const NAMES: [&str; 4] = ["auto", "fast", "best", "balanced"];

    /// The quality of a name or alias.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "fast" => Some(Self::Fast),
            "best" | "balanced" => Some(Self::Best),
            _ => None,
        }
    }
}

/// A model that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A model is missing or damaged.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The model of an index is missing or damaged.
    #[error(
        "{} was indexed with {model}; name another one with --model, or with `quarry index --model DIR` for all searches",
        searched.display()
    )]
    Remembered {
        /// The searched path.
        searched: PathBuf,
        /// The model, in words.
        model: String,
        /// The cause.
        source: EmbedError,
    },
    /// A model made by `quarry tune` is missing or damaged.
    #[error(
        "{model} was made by `quarry tune`; `quarry tune {0}` makes it again, `quarry tune --undo {0}` stops using it",
        tree.display()
    )]
    Tuned {
        /// The tree that it was made for.
        tree: PathBuf,
        /// The model, in words.
        model: String,
        /// The cause.
        source: EmbedError,
    },
    /// The path of a model cannot be resolved.
    #[error("the model {}: cannot be read", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The path of a model cannot be recorded, because it is not UTF-8.
    #[error("{}: the path of a model that an index remembers must be UTF-8", .0.display())]
    NotUtf8(PathBuf),
}

/// The model in the program, or the one at `path`: a static model's file or directory, or the directory of a
/// transformer or of token vectors as model2vec has them.
///
/// # Errors
/// When the model at `path` is missing or damaged.
pub fn load(path: Option<&Path>) -> Result<Arc<dyn Embedder>, EmbedError> {
    shipped::load(path, load_transformer)
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

#[cfg(feature = "transformers")]
fn with_cross_encoder(embedder: Arc<dyn Embedder>, path: &Path) -> Result<Arc<dyn Embedder>, EmbedError> {
    let cross_encoder = Arc::new(quarry_transformer::CrossEncoder::load(path)?);
    Ok(Arc::new(quarry_embed::WithCrossEncoder { embedder, cross_encoder }))
}

#[cfg(not(feature = "transformers"))]
fn with_cross_encoder(_: Arc<dyn Embedder>, path: &Path) -> Result<Arc<dyn Embedder>, EmbedError> {
    load_transformer(path)
}

/// The directory of the model that re-ranks with [`Quality::Best`]; `directories` may hold the models that come with the
/// program.
///
/// # Errors
/// When it is not installed.
pub fn reranker(directories: &[PathBuf]) -> Result<PathBuf, EmbedError> {
    if cfg!(not(feature = "transformers")) {
        // It could be installed, but not run: loading it reports that.
        return Ok(shipped::RERANKER.into());
    }
    shipped::reranker(directories)
}

/// Returns whether [`Quality::Auto`] can re-rank.
pub fn can_rerank(directories: &[PathBuf]) -> bool {
    cfg!(feature = "transformers") && shipped::reranker(directories).is_ok()
}

/// The model of [`Quality::Auto`]. A damaged re-ranker is not used; [`Quality::Best`] reports the damage.
fn with_stored_reranker(
    first: Arc<dyn Embedder>,
    max_precomputed: usize,
    directories: &[PathBuf],
) -> Arc<dyn Embedder> {
    match shipped::reranker(directories) {
        Ok(directory) if can_rerank(directories) => {
            let load = move || load(Some(&directory)).ok();
            Arc::new(WithStoredReranker::new(first, max_precomputed, load))
        }
        _ => first,
    }
}

/// The path to pass to [`load`] for a model that was named; none for the built-in one.
pub fn named(path: &Path) -> Option<&Path> {
    (path != Path::new(BUILTIN)).then_some(path)
}

/// Canonical name of a model.
///
/// # Errors
/// When there is nothing at `path`, or its name is not UTF-8.
pub fn name(path: &Path) -> Result<String, ModelError> {
    let Some(path) = named(path) else { return Ok(BUILTIN.to_owned()) };
    let (base, options) = split_options(path);
    let found = base.canonicalize().map_err(|source| ModelError::Read { path: base.clone(), source })?;
    let Ok(mut name) = found.into_os_string().into_string() else {
        return Err(ModelError::NotUtf8(path.to_owned()));
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

/// Models that re-rank results.
#[derive(Debug, Clone, Default)]
pub struct Rerank {
    /// Quality; by default, the one in the settings.
    pub quality: Option<Quality>,
    /// The encoder that re-ranks, instead of the one that comes with the program.
    pub reranker: Option<PathBuf>,
    /// Directory of a cross-encoder that re-ranks after that.
    pub cross_encoder: Option<PathBuf>,
}

/// A model by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ModelChoice {
    /// Its path; none for the built-in one.
    pub path: Option<PathBuf>,
    /// Source of its name.
    pub source: ModelSource,
    /// Quality of the re-ranking of its first results; `None` for no re-ranking.
    pub quality: Option<Quality>,
    /// Maximum number of units of an index whose vectors are computed in the background for [`Quality::Auto`].
    pub max_precomputed: usize,
    /// The re-ranking encoder; none for the one that comes with the program.
    pub reranker: Option<PathBuf>,
    /// Directory of a cross-encoder that re-ranks them after that.
    pub cross_encoder: Option<PathBuf>,
}

/// Source of a model's name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum ModelSource {
    /// The command line, the settings, or nothing.
    #[default]
    Named,
    /// The index.
    Remembered,
    /// `quarry tune`, for this tree.
    Tuned(PathBuf),
}

impl ModelChoice {
    /// The model that finds results: `named`, else the one tuned for `path`, else that of its index, else that of the
    /// settings.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub fn resolve(
        named_model: Option<&Path>,
        path: &Path,
        options: &OpenOptions,
        settings: &Settings,
    ) -> Result<Self, Error> {
        if let Some(path) = named_model {
            return Ok(Self { path: named(path).map(Path::to_owned), ..Self::default() });
        }
        let untuned = Self::untuned(path, options, settings)?;
        match Tuned::nearest(path) {
            Some(tuned) if untuned.name().is_ok_and(|name| name == tuned.in_place_of) => {
                Ok(Self { path: tuned.path(), source: ModelSource::Tuned(tuned.tree), ..Self::default() })
            }
            _ => Ok(untuned),
        }
    }

    /// The model that the index of a path, else a settings file names, whatever was tuned.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub fn untuned(path: &Path, options: &OpenOptions, settings: &Settings) -> Result<Self, Error> {
        let remembered = Index::remembered(path, options)?;
        if let Some(name) = remembered.and_then(|remembered| remembered.model) {
            let path = named(name.as_ref()).map(Path::to_owned);
            return Ok(Self { path, source: ModelSource::Remembered, ..Self::default() });
        }
        Ok(Self { path: settings.get(|layer| layer.model.clone()), ..Self::default() })
    }

    /// The same model, re-ranked as `rerank` says, else as the settings say; not re-ranked without `rerank`.
    #[must_use]
    pub fn reranked(self, rerank: Option<&Rerank>, settings: &Settings) -> Self {
        let Some(Rerank { quality, reranker, cross_encoder }) = rerank else { return self };
        let quality = match reranker {
            Some(_) => Some(Quality::Best),
            None => quality.or_else(|| settings.get(|layer| layer.quality)),
        };
        let max_precomputed = settings.background_units();
        let (reranker, cross_encoder) = (reranker.clone(), cross_encoder.clone());
        Self { quality, max_precomputed, reranker, cross_encoder, ..self }
    }

    /// Canonical name of the model.
    ///
    /// # Errors
    /// See [`name`].
    pub fn name(&self) -> Result<String, ModelError> {
        self.path.as_deref().map_or_else(|| Ok(BUILTIN.to_owned()), name)
    }

    /// The model, for a search of `searched`; `directories` may hold the models that come with the program.
    ///
    /// # Errors
    /// When it is missing or damaged.
    pub fn load(&self, searched: &Path, directories: &[PathBuf]) -> Result<Arc<dyn Embedder>, ModelError> {
        let first = load(self.path.as_deref()).map_err(|source| match &self.source {
            ModelSource::Named => ModelError::Embed(source),
            ModelSource::Remembered => {
                ModelError::Remembered { searched: searched.to_owned(), model: self.to_string(), source }
            }
            ModelSource::Tuned(tree) => {
                ModelError::Tuned { tree: tree.clone(), model: self.to_string(), source }
            }
        })?;
        let embedder = match self.quality {
            None | Some(Quality::Fast) => first,
            Some(Quality::Auto) => with_stored_reranker(first, self.max_precomputed, directories),
            Some(Quality::Best) => {
                let directory = self.reranker.clone().map_or_else(|| reranker(directories), Ok)?;
                Arc::new(WithReranker { first, reranker: load(named(&directory))? })
            }
        };
        Ok(match &self.cross_encoder {
            None => embedder,
            Some(path) => with_cross_encoder(embedder, path)?,
        })
    }
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "the model {}", path.display()),
            None => write!(f, "the built-in model"),
        }
    }
}
