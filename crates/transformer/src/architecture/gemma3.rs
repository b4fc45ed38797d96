//! Gemma 3 (Kamath et al., 2025), as EmbeddingGemma has it: normalizations before and after each half of a layer, and
//! layers that attend to near tokens only.

use std::path::Path;

use serde::Deserialize;

use super::qwen3::{attention, feed_forward};
use super::{
    Architecture, Shape, Sizes, activation, check_divisor, check_epsilon, check_unsupported, default,
    near_layers, parse, rotary,
};
use crate::attention::{Reach, Rotary};
use crate::encoder::{Encoder, Layer, Norm, Norms};
use crate::quantized::Table;
use crate::weights::Weights;
use quarry_embed::EmbedError;

#[derive(Deserialize)]
struct Config {
    #[serde(flatten)]
    sizes: Sizes,
    num_key_value_heads: usize,
    #[serde(default = "default_head")]
    head_dim: usize,
    max_position_embeddings: usize,
    #[serde(default = "default::epsilon_6")]
    rms_norm_eps: f32,
    #[serde(default = "default_activation")]
    hidden_activation: String,
    #[serde(default = "default_scalar")]
    query_pre_attn_scalar: f32,
    sliding_window: usize,
    #[serde(rename = "_sliding_window_pattern")]
    hidden_pattern: Option<usize>,
    sliding_window_pattern: Option<usize>,
    layer_types: Option<Vec<String>>,
    use_bidirectional_attention: Option<bool>,
    rope_theta: Option<f32>,
    rope_local_base_freq: Option<f32>,
    #[serde(flatten)]
    rotary: rotary::Fields,
    attn_logit_softcapping: Option<f32>,
    #[serde(default)]
    attention_bias: bool,
}

fn default_head() -> usize {
    256
}

fn default_activation() -> String {
    "gelu_pytorch_tanh".into()
}

fn default_scalar() -> f32 {
    256.0
}

struct Gemma3 {
    shape: Shape,
    /// Square of the divisor of the scores of attention.
    score_divisor: f32,
    positions: Vec<(Rotary, Reach)>,
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Box<dyn Architecture>, EmbedError> {
    let config: Config = parse(path, bytes)?;
    let pattern = config.sliding_window_pattern.or(config.hidden_pattern).unwrap_or(6);
    let sizes = [
        ("num_key_value_heads", config.num_key_value_heads),
        ("head_dim", config.head_dim),
        ("max_position_embeddings", config.max_position_embeddings),
        ("sliding_window", config.sliding_window),
        ("sliding_window_pattern", pattern),
    ];
    config.sizes.check(path, &sizes)?;
    check_epsilon(path, "rms_norm_eps", config.rms_norm_eps)?;
    let heads = ("num_attention_heads", config.sizes.num_attention_heads);
    check_divisor(path, heads, ("num_key_value_heads", config.num_key_value_heads))?;
    rotary::check_width(path, config.head_dim)?;
    if !(config.query_pre_attn_scalar.is_finite() && config.query_pre_attn_scalar > 0.0) {
        return Err(EmbedError::model(path, "query_pre_attn_scalar is not a number above 0"));
    }
    let unsupported = [
        ("attn_logit_softcapping", config.attn_logit_softcapping.is_some()),
        ("attention_bias", config.attention_bias),
    ];
    check_unsupported(path, &unsupported, "model like EmbeddingGemma")?;
    let all = config.rotary.rotary(path, "full_attention", config.rope_theta, 1_000_000.0)?;
    let near = config.rotary.rotary(path, "sliding_attention", config.rope_local_base_freq, 10_000.0)?;
    let (all, near) = if config.use_bidirectional_attention == Some(true) {
        // The window is that of both directions together.
        ((all, Reach::ALL), (near, Reach::within(config.sliding_window / 2)))
    } else {
        ((all, Reach::ALL.causal()), (near, Reach::within(config.sliding_window - 1).causal()))
    };
    // Older configurations have the pattern alone.
    let is_near = |index: usize| !(index + 1).is_multiple_of(pattern);
    let is_near = near_layers(path, config.layer_types.as_deref(), config.sizes.num_hidden_layers, is_near)?;
    let activation = activation(path, &config.hidden_activation)?;
    let (max_tokens, epsilon) = (config.max_position_embeddings, config.rms_norm_eps);
    Ok(Box::new(Gemma3 {
        shape: Shape {
            n_key_heads: config.num_key_value_heads,
            ..config.sizes.shape(config.head_dim, max_tokens, epsilon, activation)
        },
        score_divisor: config.query_pre_attn_scalar,
        positions: is_near.into_iter().map(|is_near| if is_near { near } else { all }).collect(),
    }))
}

impl Architecture for Gemma3 {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn encoder(&self, weights: &mut Weights) -> Result<Encoder, EmbedError> {
        let shape = &self.shape;
        weights.find_prefix(&["model.", ""], "embed_tokens.weight");
        let mut tokens = weights.get("embed_tokens.weight", &[shape.n_tokens, shape.hidden])?;
        let factor = (shape.hidden as f32).sqrt();
        tokens.iter_mut().for_each(|value| *value *= factor);
        // Files have the scales less 1.
        let norm =
            |name: &str| Ok(Norm::root_mean_square(weights, name, shape)?.with_scale(|scale| 1.0 + scale));
        let layer = |(index, position): (usize, &(Rotary, Reach))| {
            let at = |name: &str| format!("layers.{index}.{name}");
            let of_heads = |name: &str| Norm::for_heads(weights, &at(name), shape);
            let score_factor = 1.0 / self.score_divisor.sqrt();
            let head_norms = [
                of_heads("self_attn.q_norm")?.with_scale(|scale| 1.0 + scale).times(score_factor),
                of_heads("self_attn.k_norm")?.with_scale(|scale| 1.0 + scale),
            ];
            let around = |input: &str, output: &str| -> Result<Norms, EmbedError> {
                let (input, output) = (Some(norm(&at(input))?), Some(norm(&at(output))?));
                Ok(Norms { input, output, ..Norms::default() })
            };
            Ok(Layer {
                attention: attention(weights, shape, index, head_norms, *position)?,
                attention_norms: around("input_layernorm", "post_attention_layernorm")?,
                feed_forward: feed_forward(weights, shape, index)?,
                feed_forward_norms: around("pre_feedforward_layernorm", "post_feedforward_layernorm")?,
            })
        };
        let layers = self.positions.iter().enumerate().map(layer).collect::<Result<_, EmbedError>>()?;
        let last_norm = Some(norm("norm")?);
        Ok(Encoder { last_norm, ..Encoder::new(shape, Table::Float(tokens), layers) })
    }
}
