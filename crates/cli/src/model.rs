//! The models that come with the program, and re-ranking options.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
#[cfg(feature = "eval")]
use quarry_embed::{EmbedError, shipped};
use quarry_session::models::Rerank;
#[cfg(feature = "eval")]
pub use quarry_session::models::{BUILTIN, load, named};
pub use quarry_session::models::{ModelChoice, Quality, name};

use crate::invocation;

/// Re-ranking options.
#[derive(Debug, Clone, Default, Args)]
pub struct RerankArgs {
    /// Trade-off between the speed and the quality of a search [default: that of the settings, else auto]
    #[arg(long, value_name = "NAME", value_parser = quality_parser())]
    quality: Option<Quality>,
    /// Re-rank with another encoder than that of `--quality best`: any that --model takes
    #[arg(long, value_name = "DIR", conflicts_with = "quality")]
    reranker: Option<PathBuf>,
    /// Directory of a cross-encoder that reranks the first 12 results, each read together with the query; not for symbols
    #[arg(long, value_name = "DIR")]
    cross_encoder: Option<PathBuf>,
}

impl From<RerankArgs> for Rerank {
    fn from(RerankArgs { quality, reranker, cross_encoder }: RerankArgs) -> Self {
        Self { quality, reranker, cross_encoder }
    }
}

pub fn quality_parser() -> impl TypedValueParser<Value = Quality> {
    let values = [
        PossibleValue::new("auto").help(
            "`best` for questions and descriptions if the vectors of the results are stored, by `quarry index --quality best` or \
             in the background; otherwise `fast`",
        ),
        PossibleValue::new("fast").help("The static model alone: milliseconds"),
        PossibleValue::new("best").alias("balanced").help(
            "A small transformer re-ranks the first results for questions about behavior: up to 1 s, or about 0.1 s once \
             `quarry index --quality best` has computed its vectors",
        ),
    ];
    PossibleValuesParser::new(values).map(|name| Quality::named(&name).unwrap_or(Quality::Auto))
}

/// The static model in the program, or at `path`; none if that is a transformer's directory.
#[cfg(feature = "train")]
pub fn load_static(path: Option<&Path>) -> Result<Option<quarry_embed::StaticModel>, EmbedError> {
    use quarry_embed::StaticModel;

    let Some(path) = path else { return Ok(Some(StaticModel::builtin())) };
    shipped::static_file(path).map(|file| StaticModel::load(&file)).transpose()
}

/// The directory of the model that re-ranks with [`Quality::Best`].
#[cfg(feature = "eval")]
pub fn reranker() -> Result<PathBuf, EmbedError> {
    quarry_session::models::reranker(&bundled_model_directories())
}

/// The directories of models that come with the program: beside it in an archive, `share/quarry/models` of an
/// installation, that of the repository that it was built in.
pub fn bundled_model_directories() -> Vec<PathBuf> {
    let program = invocation::program().and_then(|program| program.canonicalize()).ok();
    let Some(directory) = program.as_deref().and_then(Path::parent) else { return Vec::new() };
    let installed = directory.parent().map(|prefix| prefix.join("share/quarry/models"));
    let built = directory.ancestors().take(3).find(|directory| directory.ends_with("target"));
    let repository = built.and_then(Path::parent).map(|root| root.join("crates/embed/models"));
    [Some(directory.join("models")), installed, repository].into_iter().flatten().collect()
}

/// Returns true if [`load`] takes a static model.
#[cfg(feature = "eval")]
pub fn is_static(path: Option<&Path>) -> bool {
    path.is_none_or(|path| shipped::static_file(path).is_some())
}
