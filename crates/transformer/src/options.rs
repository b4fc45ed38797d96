//! What may follow the path of a model's directory, after colons: `DIR:256`, `DIR:pooler:dot`.

use std::path::{Path, PathBuf};

use super::modules::pooling;
use super::pooling::{POOLINGS, Pooling};
use quarry_embed::EmbedError;

/// What a model is to do otherwise than its directory says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Columns to keep.
    pub dimension: Option<usize>,
    /// Pooling in place of the directory's modules.
    pub pooling: Option<Pooling>,
    /// The first token through the model's own layer with a hyperbolic tangent, in place of the directory's modules.
    pub pooler: bool,
    /// The prefix by which UniXcoder knows that it is an encoder, with the mean of all tokens.
    pub unixcoder: bool,
    /// Whether vectors are compared by cosine (of length 1) or by dot product (as they are).
    pub normalize: Option<bool>,
}

impl Options {
    /// Splits a path into that of a directory and the options after it. A directory whose name has a colon has none.
    ///
    /// # Errors
    /// When an option is unknown.
    pub fn split(path: &Path) -> Result<(PathBuf, Options), EmbedError> {
        let (directory, words) = super::split_options(path);
        let mut options = Options::default();
        for word in words.iter().flat_map(|words| words.split(':')) {
            if let Some(pooling) = pooling(word) {
                options.pooling = Some(pooling);
                continue;
            }
            match word {
                "pooler" => {
                    options.pooler = true;
                    options.pooling = Some(Pooling::Cls);
                }
                "unixcoder" => {
                    options.unixcoder = true;
                    options.pooling = Some(options.pooling.unwrap_or(Pooling::Mean));
                }
                "cosine" => options.normalize = Some(true),
                "dot" => options.normalize = Some(false),
                _ => match word.parse() {
                    Ok(n) if n > 0 => options.dimension = Some(n),
                    _ => {
                        let known = POOLINGS.map(|(name, _)| name).join(", ");
                        let problem = format!(
                            "has the unknown option {word:?}; expected a number of columns, {known}, pooler, \
                             unixcoder, cosine or dot"
                        );
                        return Err(EmbedError::model(path, problem));
                    }
                },
            }
        }
        Ok((directory, options))
    }

    /// Whether the directory's modules after the encoder do not count.
    pub fn replaces_head(&self) -> bool {
        self.pooling.is_some()
    }

    /// Number of tokens of the prefix of [`Options::unixcoder`].
    pub fn encoder_prefix_length(&self) -> usize {
        if self.unixcoder { 2 } else { 0 }
    }
}
