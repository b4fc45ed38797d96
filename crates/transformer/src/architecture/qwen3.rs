//! Qwen3 (Yang et al., 2025), as Qwen3-Embedding has it: tokens attend to those before them, and heads share keys.

use std::path::Path;

use serde::Deserialize;

use super::{
    Architecture, Shape, Sizes, activation, check_divisor, check_epsilon, check_unsupported, default, parse,
    rotary,
};
use crate::attention::{Attention, Reach, Rotary};
use crate::encoder::{Encoder, FeedForward, Layer, Linear, Norm, Norms};
use crate::weights::Weights;
use quarry_embed::EmbedError;

#[derive(Deserialize)]
struct Config {
    #[serde(flatten)]
    sizes: Sizes,
    num_key_value_heads: Option<usize>,
    #[serde(default = "default_head")]
    head_dim: usize,
    max_position_embeddings: usize,
    #[serde(default = "default::epsilon_6")]
    rms_norm_eps: f32,
    #[serde(default = "default_activation")]
    hidden_act: String,
    rope_theta: Option<f32>,
    #[serde(flatten)]
    rotary: rotary::Fields,
    #[serde(default)]
    use_sliding_window: bool,
    #[serde(default)]
    attention_bias: bool,
}

fn default_head() -> usize {
    128
}

fn default_activation() -> String {
    "silu".into()
}

struct Qwen3 {
    shape: Shape,
    rotary: Rotary,
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Box<dyn Architecture>, EmbedError> {
    let config: Config = parse(path, bytes)?;
    let n_key_heads = config.num_key_value_heads.unwrap_or(config.sizes.num_attention_heads);
    let sizes = [
        ("num_key_value_heads", n_key_heads),
        ("head_dim", config.head_dim),
        ("max_position_embeddings", config.max_position_embeddings),
    ];
    config.sizes.check(path, &sizes)?;
    check_epsilon(path, "rms_norm_eps", config.rms_norm_eps)?;
    let heads = ("num_attention_heads", config.sizes.num_attention_heads);
    check_divisor(path, heads, ("num_key_value_heads", n_key_heads))?;
    rotary::check_width(path, config.head_dim)?;
    let unsupported =
        [("use_sliding_window", config.use_sliding_window), ("attention_bias", config.attention_bias)];
    check_unsupported(path, &unsupported, "model like Qwen3-Embedding")?;
    let activation = activation(path, &config.hidden_act)?;
    let (max_tokens, epsilon) = (config.max_position_embeddings, config.rms_norm_eps);
    Ok(Box::new(Qwen3 {
        shape: Shape { n_key_heads, ..config.sizes.shape(config.head_dim, max_tokens, epsilon, activation) },
        rotary: config.rotary.rotary(path, "full_attention", config.rope_theta, 10_000.0)?,
    }))
}

impl Architecture for Qwen3 {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn encoder(&self, weights: &mut Weights) -> Result<Encoder, EmbedError> {
        let shape = &self.shape;
        weights.find_prefix(&["model.", ""], "embed_tokens.weight");
        let norm = |name: &str| Norm::root_mean_square(weights, name, shape);
        let layer = |index: usize| {
            let at = |name: &str| format!("layers.{index}.{name}");
            let head_norms = [
                Norm::for_heads(weights, &at("self_attn.q_norm"), shape)?.times(shape.score_factor()),
                Norm::for_heads(weights, &at("self_attn.k_norm"), shape)?,
            ];
            Ok(Layer {
                attention: attention(weights, shape, index, head_norms, (self.rotary, Reach::ALL.causal()))?,
                attention_norms: Norms::before(norm(&at("input_layernorm"))?),
                feed_forward: feed_forward(weights, shape, index)?,
                feed_forward_norms: Norms::before(norm(&at("post_attention_layernorm"))?),
            })
        };
        let tokens = weights.table("embed_tokens.weight", [shape.n_tokens, shape.hidden])?;
        let layers = (0..shape.n_layers).map(layer).collect::<Result<_, EmbedError>>()?;
        let last_norm = Some(norm("norm")?);
        Ok(Encoder { last_norm, ..Encoder::new(shape, tokens, layers) })
    }
}

/// Attention with the names of tensors that most models for generating text have, whose heads share keys.
pub(super) fn attention(
    weights: &Weights,
    shape: &Shape,
    index: usize,
    head_norms: [Norm; 2],
    (rotary, reach): (Rotary, Reach),
) -> Result<Attention, EmbedError> {
    let at = |name: &str| format!("layers.{index}.self_attn.{name}_proj");
    let (of_queries, of_keys) = (shape.n_heads * shape.head_width, shape.n_key_heads * shape.head_width);
    let input = |name: &str, n_outputs| Linear::without_bias(weights, &at(name), shape.hidden, n_outputs);
    let parts = [input("q", of_queries)?, input("k", of_keys)?, input("v", of_keys)?];
    Ok(Attention {
        query_key_value: Linear::side_by_side(parts),
        output: Linear::without_bias(weights, &at("o"), of_queries, shape.hidden)?,
        head_norms: Some(head_norms),
        rotary: Some(rotary),
        reach,
    })
}

/// A feed-forward block with a gate, named as in these models.
pub(super) fn feed_forward(
    weights: &Weights,
    shape: &Shape,
    index: usize,
) -> Result<FeedForward, EmbedError> {
    let at = |name: &str| format!("layers.{index}.mlp.{name}_proj");
    let wide = |name: &str| Linear::without_bias(weights, &at(name), shape.hidden, shape.intermediate);
    Ok(FeedForward {
        inner: wide("gate")?,
        gate: Some(wide("up")?),
        output: Linear::without_bias(weights, &at("down"), shape.intermediate, shape.hidden)?,
    })
}
