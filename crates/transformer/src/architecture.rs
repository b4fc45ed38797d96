//! The architectures of encoders. Each is a file that reads its `config.json` and names its tensors; the arithmetic is
//! in `encoder.rs`, once for all.

mod bert;
mod gemma3;
mod jina_bert;
mod jina_v3;
mod modernbert;
mod mpnet;
mod nomic_bert;
mod qwen3;
mod rotary;
mod t5;

use std::path::Path;

use serde::Deserialize;

use super::adapters::Adapters;
use super::encoder::Encoder;
use super::layout::Layout;
use super::numeric::Activation;
use super::pooling::{Dense, Pooling, Step};
use super::reader::parse;
use super::shape::Shape;
use super::weights::Weights;
use quarry_embed::EmbedError;

/// A model whose `config.json` is read and checked, and whose weights can be read.
pub(crate) trait Architecture {
    fn shape(&self) -> &Shape;

    /// Reads the encoder's tensors.
    ///
    /// # Errors
    /// When a tensor is missing or has another shape than in `config.json`.
    fn encoder(&self, weights: &mut Weights) -> Result<Encoder, EmbedError>;

    /// The names of the tasks that it has adapters for.
    fn tasks(&self) -> &[String] {
        &[]
    }

    /// Prefix of texts for a task.
    fn instruction(&self, _task: &str) -> Option<&str> {
        None
    }

    /// Reads the adapters of a task, by its number in [`Architecture::tasks`].
    ///
    /// # Errors
    /// When the architecture has none, or their tensors are missing or have another shape than in `config.json`.
    fn adapters(&self, weights: &mut Weights, _task: usize) -> Result<Adapters, EmbedError> {
        Err(EmbedError::model(weights.path(), "has no adapters for tasks".to_owned()))
    }

    /// Columns of the projection that the model itself applies to the vector of the first token, if it has one.
    fn projection_width(&self) -> Option<usize> {
        None
    }

    /// The encoder's tensors by name, if it is one that can be trained.
    fn layout(&self) -> Option<Layout> {
        None
    }

    /// Reads what a cross-encoder has after its encoder.
    ///
    /// # Errors
    /// When the architecture has none, or its tensors are missing or have another shape than in `config.json`.
    fn classifier(&self, weights: &mut Weights, _n_labels: usize) -> Result<Classifier, EmbedError> {
        let problem = "contains a cross-encoder of an architecture that is not supported as one; expected bert, roberta, \
                       xlm-roberta, camembert, mpnet or modernbert";
        Err(EmbedError::model(weights.path(), problem))
    }

    /// Reads that projection.
    ///
    /// # Errors
    /// When its tensors are missing or have another shape than in `config.json`.
    fn projection(&self, _weights: &Weights) -> Result<Option<Dense>, EmbedError> {
        Ok(None)
    }
}

/// Head of a cross-encoder: from the vectors of tokens to a logit for each label.
pub(crate) struct Classifier {
    pub pooling: Pooling,
    pub steps: Vec<Step>,
}

#[derive(Deserialize)]
pub(super) struct ModelType {
    pub model_type: String,
    /// Distinguishes models that all call themselves BERT.
    position_embedding_type: Option<String>,
}

/// Name of the type of CodeT5+'s models of vectors.
pub(crate) const CODET5P: &str = "codet5p_embedding";

/// Reads the `config.json` at `path`, whose content is `bytes`.
///
/// # Errors
/// When it cannot be parsed or asks for something unsupported.
pub(crate) fn read(path: &Path, bytes: &[u8]) -> Result<Box<dyn Architecture>, EmbedError> {
    let ModelType { model_type, position_embedding_type } = parse(path, bytes)?;
    match model_type.as_str() {
        "bert" if position_embedding_type.as_deref() == Some("alibi") => jina_bert::read(path, bytes),
        "xlm-roberta" if position_embedding_type.as_deref() == Some("rotary") => jina_v3::read(path, bytes),
        "bert" | "roberta" | "xlm-roberta" | "camembert" => bert::read(path, bytes),
        "modernbert" => modernbert::read(path, bytes),
        "mpnet" => mpnet::read(path, bytes),
        "nomic_bert" => nomic_bert::read(path, bytes),
        "qwen3" => qwen3::read(path, bytes),
        "gemma3_text" => gemma3::read(path, bytes),
        "t5" | CODET5P => t5::read(path, bytes),
        other => {
            let problem = format!(
                "asks for model_type {other:?}, which is not supported; expected bert, roberta, xlm-roberta, \
                 camembert, modernbert, mpnet, nomic_bert, qwen3, gemma3_text, t5 or codet5p_embedding"
            );
            Err(EmbedError::model(path, problem))
        }
    }
}

/// The function that `config.json` names.
fn activation(path: &Path, name: &str) -> Result<Activation, EmbedError> {
    match name {
        "gelu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::GeluTanh),
        "relu" => Ok(Activation::Relu),
        "silu" | "swish" => Ok(Activation::Silu),
        other => {
            let problem = format!(
                "asks for hidden_act {other:?}, which is not supported; expected gelu, gelu_new, gelu_pytorch_tanh, \
                 gelu_fast, relu or silu"
            );
            Err(EmbedError::model(path, problem))
        }
    }
}

/// The sizes that most configurations give under the same names.
#[derive(Deserialize)]
struct Sizes {
    hidden_size: usize,
    intermediate_size: usize,
    num_attention_heads: usize,
    num_hidden_layers: usize,
    vocab_size: usize,
}

impl Sizes {
    /// Checks these sizes and others of the same configuration.
    fn check(&self, path: &Path, others: &[(&str, usize)]) -> Result<(), EmbedError> {
        let sizes = [
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_attention_heads", self.num_attention_heads),
            ("num_hidden_layers", self.num_hidden_layers),
            ("vocab_size", self.vocab_size),
        ];
        check_sizes(path, &[&sizes, others].concat())
    }

    /// Columns of a head, if the heads divide the vector of a token between them.
    fn head_width(&self, path: &Path) -> Result<usize, EmbedError> {
        let heads = ("num_attention_heads", self.num_attention_heads);
        check_divisor(path, ("hidden_size", self.hidden_size), heads)
    }

    /// The shape of an encoder whose heads share no keys.
    fn shape(&self, head_width: usize, max_tokens: usize, epsilon: f32, activation: Activation) -> Shape {
        Shape {
            hidden: self.hidden_size,
            intermediate: self.intermediate_size,
            n_heads: self.num_attention_heads,
            n_key_heads: self.num_attention_heads,
            head_width,
            n_layers: self.num_hidden_layers,
            n_tokens: self.vocab_size,
            max_tokens: Some(max_tokens),
            epsilon,
            activation,
        }
    }
}

/// Checks the numbers that `config.json` gives under these names.
fn check_sizes(path: &Path, sizes: &[(&str, usize)]) -> Result<(), EmbedError> {
    if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
        let problem = format!("{name} is 0; expected the configuration of a trained model");
        return Err(EmbedError::model(path, problem));
    }
    if let Some((name, size)) = sizes.iter().find(|(_, size)| *size > MAX_SIZE) {
        let problem = format!("{name} is {size}; expected at most {MAX_SIZE}");
        return Err(EmbedError::model(path, problem));
    }
    Ok(())
}

/// Checks that one number that `config.json` gives divides another; returns the quotient.
fn check_divisor(path: &Path, whole: (&str, usize), part: (&str, usize)) -> Result<usize, EmbedError> {
    if !whole.1.is_multiple_of(part.1) {
        let problem = format!("{} is {} and {} is {}; expected a divisor", whole.0, whole.1, part.0, part.1);
        return Err(EmbedError::model(path, problem));
    }
    Ok(whole.1 / part.1)
}

/// Returns whether each layer attends to near tokens only, by `layer_types`, or by `otherwise` where `config.json` has
/// none.
fn near_layers(
    path: &Path,
    layer_types: Option<&[String]>,
    n_layers: usize,
    otherwise: impl Fn(usize) -> bool,
) -> Result<Vec<bool>, EmbedError> {
    let wrong = |problem: String| EmbedError::model(path, problem);
    let Some(names) = layer_types else { return Ok((0..n_layers).map(otherwise).collect()) };
    if names.len() != n_layers {
        let problem = format!("has {} layer_types for {n_layers} layers; expected one for each", names.len());
        return Err(wrong(problem));
    }
    let is_near = names.iter().map(|name| match name.as_str() {
        "full_attention" => Ok(false),
        "sliding_attention" => Ok(true),
        _ => Err(wrong(format!(
            "has a layer of type {name:?}, which is not supported; expected full_attention or sliding_attention"
        ))),
    });
    is_near.collect()
}

/// Checks that `config.json` asks for none of these; `expected` names a model that does not.
fn check_unsupported(path: &Path, asked: &[(&str, bool)], expected: &str) -> Result<(), EmbedError> {
    match asked.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((name, _)) => {
            let problem = format!("asks for {name}, which is not supported; expected a {expected}");
            Err(EmbedError::model(path, problem))
        }
    }
}

/// Checks what `config.json` adds to variances.
fn check_epsilon(path: &Path, name: &str, epsilon: f32) -> Result<(), EmbedError> {
    if epsilon.is_finite() && epsilon >= 0.0 {
        return Ok(());
    }
    Err(EmbedError::model(path, format!("{name} is not a number of 0 or more")))
}

/// Values that configurations leave out.
mod default {
    pub(super) fn gelu() -> String {
        "gelu".into()
    }

    pub(super) fn epsilon_12() -> f32 {
        1e-12
    }

    pub(super) fn epsilon_6() -> f32 {
        1e-6
    }

    pub(super) fn epsilon_5() -> f32 {
        1e-5
    }

    pub(super) fn one() -> f32 {
        1.0
    }

    pub(super) fn buckets() -> usize {
        32
    }
}

/// Maximum of a size in `config.json`: more than any model has, and products of three stay below an overflow.
const MAX_SIZE: usize = 1 << 21;
