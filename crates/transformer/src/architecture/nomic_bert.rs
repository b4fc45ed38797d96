//! NomicBERT (Nussbaum et al., 2024), as nomic-embed-text and CodeRankEmbed have it: BERT with rotary positions, gates
//! and no biases.

use std::path::Path;

use serde::Deserialize;

use super::{
    Architecture, Shape, check_divisor, check_epsilon, check_sizes, check_unsupported, default, parse, rotary,
};
use crate::attention::{Attention, Reach, Rotary};
use crate::encoder::{Encoder, FeedForward, Layer, Linear, Norm, Norms};
use crate::numeric::{Activation, add_to_rows};
use crate::quantized::Table;
use crate::weights::Weights;
use quarry_embed::EmbedError;

/// The names are those of the model's own code; the second ones are those of transformers.
#[derive(Deserialize)]
struct Config {
    #[serde(alias = "hidden_size")]
    n_embd: usize,
    #[serde(alias = "intermediate_size")]
    n_inner: Option<usize>,
    #[serde(alias = "num_attention_heads")]
    n_head: usize,
    #[serde(alias = "num_hidden_layers")]
    n_layer: usize,
    #[serde(alias = "max_position_embeddings")]
    n_positions: usize,
    vocab_size: usize,
    type_vocab_size: usize,
    #[serde(alias = "layer_norm_eps", default = "default::epsilon_12")]
    layer_norm_epsilon: f32,
    #[serde(alias = "hidden_act", default = "default_activation")]
    activation_function: String,
    rotary_emb_base: Option<f32>,
    /// If there is one, positions from this on are rotated more slowly, the longer the text.
    rotary_scaling_factor: Option<f32>,
    max_trained_positions: Option<usize>,
    #[serde(default = "default::one")]
    rotary_emb_fraction: f32,
    #[serde(default)]
    rotary_emb_interleaved: bool,
    #[serde(flatten)]
    rotary: rotary::Fields,
    #[serde(default)]
    prenorm: bool,
    #[serde(default)]
    causal: bool,
    #[serde(default)]
    parallel_block: bool,
    #[serde(default)]
    use_rms_norm: bool,
    #[serde(default)]
    qkv_proj_bias: bool,
    #[serde(default)]
    mlp_fc1_bias: bool,
    #[serde(default)]
    mlp_fc2_bias: bool,
    moe_every_n_layers: Option<usize>,
}

fn default_activation() -> String {
    "swiglu".into()
}

struct NomicBert {
    shape: Shape,
    n_token_types: usize,
    rotary: Rotary,
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Box<dyn Architecture>, EmbedError> {
    let config: Config = parse(path, bytes)?;
    let intermediate = config.n_inner.unwrap_or(config.n_embd.saturating_mul(4));
    let sizes = [
        ("n_embd", config.n_embd),
        ("n_inner", intermediate),
        ("n_head", config.n_head),
        ("n_layer", config.n_layer),
        ("n_positions", config.n_positions),
        ("vocab_size", config.vocab_size),
        ("type_vocab_size", config.type_vocab_size),
    ];
    check_sizes(path, &sizes)?;
    check_epsilon(path, "layer_norm_epsilon", config.layer_norm_epsilon)?;
    if !["swiglu", "silu"].contains(&config.activation_function.as_str()) {
        let problem = format!(
            "asks for activation_function {:?}, which is not supported; expected \"swiglu\"",
            config.activation_function
        );
        return Err(EmbedError::model(path, problem));
    }
    let unsupported = [
        ("prenorm", config.prenorm),
        ("causal", config.causal),
        ("parallel_block", config.parallel_block),
        ("use_rms_norm", config.use_rms_norm),
        ("qkv_proj_bias", config.qkv_proj_bias),
        ("mlp_fc1_bias", config.mlp_fc1_bias),
        ("mlp_fc2_bias", config.mlp_fc2_bias),
        ("rotary_emb_interleaved", config.rotary_emb_interleaved),
        ("rotary_emb_fraction other than 1", config.rotary_emb_fraction != 1.0),
        ("moe_every_n_layers", config.moe_every_n_layers.is_some_and(|n| n > 0)),
    ];
    check_unsupported(path, &unsupported, "model like nomic-embed-text-v1.5 or CodeRankEmbed")?;
    let head_width = check_divisor(path, ("n_embd", config.n_embd), ("n_head", config.n_head))?;
    rotary::check_width(path, head_width)?;
    let n_positions = match (config.rotary_scaling_factor, config.max_trained_positions) {
        (Some(_), Some(n_trained)) => config.n_positions.min(n_trained),
        _ => config.n_positions,
    };
    Ok(Box::new(NomicBert {
        shape: Shape {
            hidden: config.n_embd,
            intermediate,
            n_heads: config.n_head,
            n_key_heads: config.n_head,
            head_width,
            n_layers: config.n_layer,
            n_tokens: config.vocab_size,
            max_tokens: Some(n_positions),
            epsilon: config.layer_norm_epsilon,
            activation: Activation::Silu,
        },
        n_token_types: config.type_vocab_size,
        rotary: config.rotary.rotary(path, "full_attention", config.rotary_emb_base, 1000.0)?,
    }))
}

impl Architecture for NomicBert {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn encoder(&self, weights: &mut Weights) -> Result<Encoder, EmbedError> {
        let Shape { hidden, intermediate, .. } = self.shape;
        weights.find_prefix(&["nomic_bert.", "bert.", ""], "embeddings.word_embeddings.weight");
        let mut tokens = weights.get("embeddings.word_embeddings.weight", &[self.shape.n_tokens, hidden])?;
        let types = weights.get("embeddings.token_type_embeddings.weight", &[self.n_token_types, hidden])?;
        add_to_rows(&mut tokens, &types[..hidden]);
        let norm = |name: &str| Norm::layer(weights, name, &self.shape);
        let layer = |index: usize| {
            let at = |name: &str| format!("encoder.layers.{index}.{name}");
            let linear = |name: &str, n_inputs, n_outputs| {
                Linear::without_bias(weights, &at(name), n_inputs, n_outputs)
            };
            let mut parts = Linear::stacked(weights, &at("attn.Wqkv"), hidden, [hidden; 3])?;
            parts[0].scale(self.shape.score_factor());
            Ok(Layer {
                attention: Attention {
                    query_key_value: Linear::side_by_side(parts),
                    output: linear("attn.out_proj", hidden, hidden)?,
                    head_norms: None,
                    rotary: Some(self.rotary),
                    reach: Reach::ALL,
                },
                attention_norms: Norms::after(norm(&at("norm1"))?),
                feed_forward: FeedForward {
                    // The second of the two has the activation.
                    inner: linear("mlp.fc12", hidden, intermediate)?,
                    gate: Some(linear("mlp.fc11", hidden, intermediate)?),
                    output: linear("mlp.fc2", intermediate, hidden)?,
                },
                feed_forward_norms: Norms::after(norm(&at("norm2"))?),
            })
        };
        let embedding_norm = Some(norm("emb_ln")?);
        let layers = (0..self.shape.n_layers).map(layer).collect::<Result<_, EmbedError>>()?;
        Ok(Encoder { embedding_norm, ..Encoder::new(&self.shape, Table::Float(tokens), layers) })
    }
}
