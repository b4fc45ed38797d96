//! Which model a command uses, and what named it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use quarry_embed::Embedder;
use quarry_index::{Index, OpenOptions};

use crate::model::{self, Quality};
use crate::settings::Settings;

/// What orders results again.
#[derive(Debug, Clone, Default, Args)]
pub struct RerankArgs {
    /// How much time a search may take for better results [default: fast]
    #[arg(long, value_name = "NAME")]
    quality: Option<Quality>,
    /// Directory of a cross-encoder that reranks the first 12 results, each read together with the query; not for symbols
    #[arg(long, value_name = "DIR")]
    cross_encoder: Option<PathBuf>,
}

impl RerankArgs {
    /// Without a cross-encoder, which computes nothing ahead of a query.
    pub fn of_quality(quality: Option<Quality>) -> Self {
        Self { quality, cross_encoder: None }
    }

    /// With this quality, if one is given.
    #[cfg(feature = "lsp")]
    pub fn or_quality(self, quality: Option<Quality>) -> Self {
        Self { quality: quality.or(self.quality), ..self }
    }
}

/// A model that was named.
#[derive(Debug, Default)]
pub struct ModelChoice {
    /// Its path; none for the built-in one.
    pub path: Option<PathBuf>,
    pub source: ModelSource,
    /// What orders its first results again.
    pub quality: Quality,
    /// Directory of a cross-encoder that does so after that.
    pub cross_encoder: Option<PathBuf>,
}

/// What names a model.
#[derive(Debug, Default)]
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
    /// The model that the index of a path, else a settings file names, whatever was tuned.
    pub fn untuned(path: &Path, options: &OpenOptions, settings: &Settings) -> anyhow::Result<Self> {
        let remembered = Index::remembered(path, options)?;
        if let Some(name) = remembered.and_then(|remembered| remembered.model) {
            let path = model::named(name.as_ref()).map(Path::to_owned);
            return Ok(Self { path, source: ModelSource::Remembered, ..Self::default() });
        }
        Ok(Self { path: settings.get(|layer| layer.model.clone()), ..Self::default() })
    }

    /// The same model, with what the command line, else the settings have order its results again; without arguments nothing
    /// does.
    pub fn reranked(self, args: Option<&RerankArgs>, settings: &Settings) -> Self {
        let Some(RerankArgs { quality, cross_encoder }) = args else { return self };
        let quality = quality.or_else(|| settings.get(|layer| layer.quality)).unwrap_or_default();
        Self { quality, cross_encoder: cross_encoder.clone(), ..self }
    }

    /// What the model is called wherever it is named from.
    pub fn name(&self) -> anyhow::Result<String> {
        self.path.as_deref().map_or_else(|| Ok(model::BUILTIN.to_owned()), model::name)
    }

    /// The model, for a search of `searched`.
    pub fn load(&self, searched: &Path) -> anyhow::Result<Arc<dyn Embedder>> {
        let loaded = model::load(self.path.as_deref());
        let first = match &self.source {
            ModelSource::Named => Ok(loaded?),
            ModelSource::Remembered => loaded.with_context(|| {
                format!(
                    "{} was indexed with {self}; name another one with --model, or with `quarry index --model DIR` for \
                     all searches",
                    searched.display()
                )
            }),
            ModelSource::Tuned(tree) => loaded.with_context(|| {
                format!(
                    "{self} was made by `quarry tune`; `quarry tune {0}` makes it again, `quarry tune --undo {0}` \
                     stops using it",
                    tree.display()
                )
            }),
        }?;
        let embedder = self.quality.of(first)?;
        Ok(match &self.cross_encoder {
            None => embedder,
            Some(path) => model::with_cross_encoder(embedder, path)?,
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
