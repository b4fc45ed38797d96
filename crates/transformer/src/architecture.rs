//! The architectures of encoders. Each is a file that reads its `config.json` and names its tensors; the arithmetic is
//! in `encoder.rs`, once for all.

mod bert;
mod mpnet;
mod t5;

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::encoder::Encoder;
use super::numeric::Activation;
use super::pooling::Dense;
use super::trainable::Layout;
use super::weights::Weights;
use quarry_embed::EmbedError;

/// Shape of an encoder.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Columns of a token's vector.
    pub hidden: usize,
    /// Columns between the two products of a feed-forward block.
    pub intermediate: usize,
    /// Number of attention heads.
    pub n_heads: usize,
    /// Columns of a head.
    pub head_width: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Number of token ids.
    pub n_tokens: usize,
    /// Maximum number of tokens in a text, if the positions limit it.
    pub max_tokens: Option<usize>,
    /// Added to the variance in every normalization.
    pub epsilon: f32,
    /// The function inside a feed-forward block.
    pub activation: Activation,
}

/// A model whose `config.json` is read and checked, and whose weights can be read.
pub trait Architecture {
    /// Shape of the encoder.
    fn shape(&self) -> &Shape;

    /// Reads the encoder's tensors.
    ///
    /// # Errors
    /// When a tensor is missing or has another shape than `config.json` says.
    fn encoder(&self, weights: &mut Weights) -> Result<Encoder, EmbedError>;

    /// Columns of the projection that the model itself applies to the vector of the first token, if it has one.
    fn projection_width(&self) -> Option<usize> {
        None
    }

    /// The encoder's tensors by name, if it is one that can be trained.
    fn layout(&self) -> Option<Layout> {
        None
    }

    /// Reads that projection.
    ///
    /// # Errors
    /// When its tensors are missing or have another shape than `config.json` says.
    fn projection(&self, _weights: &Weights) -> Result<Option<Dense>, EmbedError> {
        Ok(None)
    }
}

#[derive(Deserialize)]
pub(super) struct ModelType {
    pub model_type: String,
}

/// Reads the `config.json` at `path`, whose content is `bytes`.
///
/// # Errors
/// When it cannot be parsed or asks for something unsupported.
pub fn read(path: &Path, bytes: &[u8]) -> Result<Box<dyn Architecture>, EmbedError> {
    let ModelType { model_type } = super::config::parse(path, bytes)?;
    match model_type.as_str() {
        "bert" | "roberta" | "xlm-roberta" | "camembert" => bert::read(path, bytes),
        "mpnet" => mpnet::read(path, bytes),
        "t5" | "codet5p_embedding" => t5::read(path, bytes),
        other => {
            let problem = format!(
                "asks for model_type {other:?}, which is not supported; expected bert, roberta, xlm-roberta, \
                 camembert, mpnet, t5 or codet5p_embedding"
            );
            Err(EmbedError::model(path, problem))
        }
    }
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, EmbedError> {
    super::config::parse(path, bytes)
}

/// The function that `config.json` names.
fn activation(path: &Path, name: &str) -> Result<Activation, EmbedError> {
    match name {
        "gelu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::GeluTanh),
        "relu" => Ok(Activation::Relu),
        other => {
            let problem = format!(
                "asks for hidden_act {other:?}, which is not supported; expected gelu, gelu_new, gelu_pytorch_tanh, \
                 gelu_fast or relu"
            );
            Err(EmbedError::model(path, problem))
        }
    }
}

/// Checks the numbers that `config.json` gives under these names.
fn check_sizes(path: &Path, sizes: &[(&str, usize)]) -> Result<(), EmbedError> {
    if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
        let problem = format!("says that {name} is 0; expected the configuration of a trained model");
        return Err(EmbedError::model(path, problem));
    }
    if let Some((name, size)) = sizes.iter().find(|(_, size)| *size > MAX_SIZE) {
        let problem = format!("says that {name} is {size}; expected at most {MAX_SIZE}");
        return Err(EmbedError::model(path, problem));
    }
    Ok(())
}

/// Checks what `config.json` adds to variances.
fn check_epsilon(path: &Path, name: &str, epsilon: f32) -> Result<(), EmbedError> {
    if epsilon.is_finite() && epsilon >= 0.0 {
        return Ok(());
    }
    Err(EmbedError::model(path, format!("says that {name} is not a number of 0 or more")))
}

/// Maximum of a size in `config.json`: more than any model has, and products of three stay below an overflow.
const MAX_SIZE: usize = 1 << 21;
