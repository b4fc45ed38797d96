//! ModernBERT (Warner et al., 2024): rotary positions, and layers that attend to near tokens only.

use std::path::Path;

use serde::Deserialize;

use super::{
    Architecture, Classifier, Shape, Sizes, activation, check_epsilon, check_unsupported, default,
    near_layers, parse, rotary,
};
use crate::attention::{Attention, Reach, Rotary};
use crate::encoder::{Encoder, FeedForward, Layer, Linear, Norm, Norms};
use crate::numeric::Activation;
use crate::pooling::{Dense, DenseFunction, Pooling, Step};
use crate::weights::Weights;
use quarry_embed::EmbedError;

#[derive(Deserialize)]
struct Config {
    #[serde(flatten)]
    sizes: Sizes,
    #[serde(default = "default_positions")]
    max_position_embeddings: usize,
    #[serde(default = "default::epsilon_5")]
    norm_eps: f32,
    #[serde(default = "default::gelu")]
    hidden_activation: String,
    #[serde(default = "default_window")]
    local_attention: usize,
    #[serde(default = "default_pattern")]
    global_attn_every_n_layers: usize,
    layer_types: Option<Vec<String>>,
    global_rope_theta: Option<f32>,
    local_rope_theta: Option<f32>,
    #[serde(flatten)]
    rotary: rotary::Fields,
    #[serde(default)]
    norm_bias: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    classifier_bias: bool,
    #[serde(default = "default::gelu")]
    classifier_activation: String,
    classifier_pooling: Option<String>,
}

fn default_positions() -> usize {
    8192
}

fn default_window() -> usize {
    128
}

fn default_pattern() -> usize {
    3
}

struct ModernBert {
    shape: Shape,
    /// The pooling and the function of the head of a cross-encoder.
    classifier: (Pooling, Activation),
    positions: Vec<(Rotary, Reach)>,
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Box<dyn Architecture>, EmbedError> {
    let config: Config = parse(path, bytes)?;
    let sizes = [
        ("max_position_embeddings", config.max_position_embeddings),
        ("global_attn_every_n_layers", config.global_attn_every_n_layers),
    ];
    config.sizes.check(path, &sizes)?;
    check_epsilon(path, "norm_eps", config.norm_eps)?;
    let biases = [
        ("norm_bias", config.norm_bias),
        ("attention_bias", config.attention_bias),
        ("mlp_bias", config.mlp_bias),
        ("classifier_bias", config.classifier_bias),
    ];
    check_unsupported(path, &biases, "ModernBERT without biases")?;
    let head_width = config.sizes.head_width(path)?;
    rotary::check_width(path, head_width)?;
    let all = config.rotary.rotary(path, "full_attention", config.global_rope_theta, 160_000.0)?;
    let near = config.rotary.rotary(path, "sliding_attention", config.local_rope_theta, 10_000.0)?;
    // Older configurations have the pattern alone.
    let is_near = |index: usize| !index.is_multiple_of(config.global_attn_every_n_layers);
    let is_near = near_layers(path, config.layer_types.as_deref(), config.sizes.num_hidden_layers, is_near)?;
    let near = (near, Reach::within(config.local_attention / 2));
    let pooling = match config.classifier_pooling.as_deref() {
        None | Some("cls") => Pooling::Cls,
        Some("mean") => Pooling::Mean,
        Some(other) => {
            let problem = format!(
                "asks for classifier_pooling {other:?}, which is not supported; expected cls or mean"
            );
            return Err(EmbedError::model(path, problem));
        }
    };
    let classifier = (pooling, activation(path, &config.classifier_activation)?);
    let activation = activation(path, &config.hidden_activation)?;
    Ok(Box::new(ModernBert {
        classifier,
        shape: config.sizes.shape(head_width, config.max_position_embeddings, config.norm_eps, activation),
        positions: is_near
            .into_iter()
            .map(|is_near| if is_near { near } else { (all, Reach::ALL) })
            .collect(),
    }))
}

impl Architecture for ModernBert {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn classifier(&self, weights: &mut Weights, n_labels: usize) -> Result<Classifier, EmbedError> {
        let hidden = self.shape.hidden;
        weights.find_prefix(&[""], "classifier.weight");
        let (pooling, function) = self.classifier;
        let dense = Linear::without_bias(weights, "head.dense", hidden, hidden)?;
        let labels = Linear::new(weights, "classifier", hidden, n_labels)?;
        let steps = vec![
            Step::Dense(Dense::new(dense, DenseFunction::Activation(function))),
            Step::Norm(Norm::layer_without_shift(weights, "head.norm", &self.shape)?),
            Step::Dense(Dense::linear(labels)),
        ];
        Ok(Classifier { pooling, steps })
    }

    fn encoder(&self, weights: &mut Weights) -> Result<Encoder, EmbedError> {
        let Shape { hidden, intermediate, .. } = self.shape;
        weights.find_prefix(&["model.", ""], "embeddings.tok_embeddings.weight");
        let norm = |name: &str| Norm::layer_without_shift(weights, name, &self.shape);
        let layer = |(index, &(rotary, reach)): (usize, &(Rotary, Reach))| {
            let at = |name: &str| format!("layers.{index}.{name}");
            let mut parts = Linear::stacked(weights, &at("attn.Wqkv"), hidden, [hidden; 3])?;
            parts[0].scale(self.shape.score_factor());
            let [inner, gate] = Linear::stacked(weights, &at("mlp.Wi"), hidden, [intermediate; 2])?;
            Ok(Layer {
                attention: Attention {
                    query_key_value: Linear::side_by_side(parts),
                    output: Linear::without_bias(weights, &at("attn.Wo"), hidden, hidden)?,
                    head_norms: None,
                    rotary: Some(rotary),
                    reach,
                },
                // The first layer begins with what the normalization of embeddings gives.
                attention_norms: match index {
                    0 => Norms::default(),
                    _ => Norms::before(norm(&at("attn_norm"))?),
                },
                feed_forward: FeedForward {
                    inner,
                    gate: Some(gate),
                    output: Linear::without_bias(weights, &at("mlp.Wo"), intermediate, hidden)?,
                },
                feed_forward_norms: Norms::before(norm(&at("mlp_norm"))?),
            })
        };
        let tokens = weights.table("embeddings.tok_embeddings.weight", [self.shape.n_tokens, hidden])?;
        let embedding_norm = Some(norm("embeddings.norm")?);
        let layers = self.positions.iter().enumerate().map(layer).collect::<Result<_, EmbedError>>()?;
        let last_norm = Some(norm("final_norm")?);
        Ok(Encoder { embedding_norm, last_norm, ..Encoder::new(&self.shape, tokens, layers) })
    }
}
