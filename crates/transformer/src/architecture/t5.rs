//! The encoder of T5 (Raffel et al., 2020), and of CodeT5+ (Wang et al., 2023) with its projection.

use std::path::Path;

use serde::Deserialize;

use super::{Architecture, Classifier, Shape, activation, check_epsilon, check_sizes, default, parse};
use crate::attention::{Attention, Biases, Reach};
use crate::encoder::{Encoder, FeedForward, Layer, Linear, Norm, Norms};
use crate::layout::{Layout, Relative, Wiring};
use crate::pooling::{Dense, DenseFunction, Pooling, Step};
use crate::weights::Weights;
use quarry_embed::EmbedError;

#[derive(Deserialize)]
struct Config {
    model_type: String,
    d_model: usize,
    d_kv: usize,
    d_ff: usize,
    num_heads: usize,
    num_layers: usize,
    vocab_size: usize,
    #[serde(default = "default::buckets")]
    relative_attention_num_buckets: usize,
    #[serde(default = "default_distance")]
    relative_attention_max_distance: usize,
    #[serde(default = "default::epsilon_6")]
    layer_norm_epsilon: f32,
    #[serde(default = "default_feed_forward")]
    feed_forward_proj: String,
    embed_dim: Option<usize>,
}

fn default_distance() -> usize {
    128
}

fn default_feed_forward() -> String {
    "relu".into()
}

struct T5 {
    shape: Shape,
    gated: bool,
    n_buckets: usize,
    max_distance: usize,
    /// Columns of CodeT5+'s projection.
    projection: Option<usize>,
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Box<dyn Architecture>, EmbedError> {
    let config: Config = parse(path, bytes)?;
    let projection = (config.model_type != "t5").then_some(config.embed_dim.unwrap_or(256));
    let sizes = [
        ("d_model", config.d_model),
        ("d_kv", config.d_kv),
        ("d_ff", config.d_ff),
        ("num_heads", config.num_heads),
        ("num_layers", config.num_layers),
        ("vocab_size", config.vocab_size),
        // Each direction has half of the buckets, and half of these are for single distances.
        ("relative_attention_num_buckets / 4", config.relative_attention_num_buckets / 4),
        ("relative_attention_max_distance", config.relative_attention_max_distance),
        ("embed_dim", projection.unwrap_or(1)),
    ];
    check_sizes(path, &sizes)?;
    check_epsilon(path, "layer_norm_epsilon", config.layer_norm_epsilon)?;
    let (gated, function) = match config.feed_forward_proj.strip_prefix("gated-") {
        // The model's own code takes the approximation for this name.
        Some("gelu") => (true, "gelu_new"),
        Some(function) => (true, function),
        None => (false, config.feed_forward_proj.as_str()),
    };
    Ok(Box::new(T5 {
        shape: Shape {
            hidden: config.d_model,
            intermediate: config.d_ff,
            n_heads: config.num_heads,
            n_key_heads: config.num_heads,
            head_width: config.d_kv,
            n_layers: config.num_layers,
            n_tokens: config.vocab_size,
            max_tokens: None,
            epsilon: config.layer_norm_epsilon,
            activation: activation(path, function)?,
        },
        gated,
        n_buckets: config.relative_attention_num_buckets,
        max_distance: config.relative_attention_max_distance,
        projection,
    }))
}

/// The biases of attention, which the first layer has for all.
const BIASES: &str = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";

impl Architecture for T5 {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn layout(&self) -> Option<Layout> {
        let Shape { hidden, intermediate, n_heads, head_width, .. } = self.shape;
        let width = n_heads * head_width;
        let wiring = Wiring {
            tokens: "shared.weight",
            positions: None,
            token_types: None,
            embedding_norm: None,
            relative: Some(Relative {
                name: BIASES,
                n_buckets: self.n_buckets,
                max_distance: self.max_distance,
            }),
            layer: "encoder.block.",
            query: "layer.0.SelfAttention.q",
            key: "layer.0.SelfAttention.k",
            value: "layer.0.SelfAttention.v",
            attention_output: "layer.0.SelfAttention.o",
            attention_norm: "layer.0.layer_norm",
            inner: if self.gated { "layer.1.DenseReluDense.wi_0" } else { "layer.1.DenseReluDense.wi" },
            gate: self.gated.then_some("layer.1.DenseReluDense.wi_1"),
            output: "layer.1.DenseReluDense.wo",
            output_norm: "layer.1.layer_norm",
            last_norm: Some("encoder.final_layer_norm"),
            is_t5: true,
        };
        let mut tensors = vec![
            (wiring.tokens.to_owned(), vec![self.shape.n_tokens, hidden]),
            (BIASES.to_owned(), vec![self.n_buckets, n_heads]),
            ("encoder.final_layer_norm.weight".to_owned(), vec![hidden]),
        ];
        for index in 0..self.shape.n_layers {
            let mut push = |name: &str, shape: &[usize]| {
                tensors.push((format!("{}{index}.{name}.weight", wiring.layer), shape.to_vec()));
            };
            for name in [wiring.query, wiring.key, wiring.value] {
                push(name, &[width, hidden]);
            }
            push(wiring.attention_output, &[hidden, width]);
            push(wiring.attention_norm, &[hidden]);
            for name in std::iter::once(wiring.inner).chain(wiring.gate) {
                push(name, &[intermediate, hidden]);
            }
            push(wiring.output, &[hidden, intermediate]);
            push(wiring.output_norm, &[hidden]);
        }
        Some(Layout { tensors, prefixes: &[""], padding: None, wiring })
    }

    fn encoder(&self, weights: &mut Weights) -> Result<Encoder, EmbedError> {
        let Shape { hidden, intermediate, n_heads, head_width, .. } = self.shape;
        let inner = n_heads * head_width;
        let shared =
            if weights.has("shared.weight") { "shared.weight" } else { "encoder.embed_tokens.weight" };
        let norm = |name: &str| Norm::root_mean_square(weights, name, &self.shape);
        let layer = |index: usize| {
            let attention = |name: &str| format!("encoder.block.{index}.layer.0.{name}");
            let dense = |name: &str| format!("encoder.block.{index}.layer.1.{name}");
            let input = |name: &str| {
                Linear::without_bias(weights, &attention(&format!("SelfAttention.{name}")), hidden, inner)
            };
            let wide = |name: &str| Linear::without_bias(weights, &dense(name), hidden, intermediate);
            let (first, gate) = if self.gated {
                (wide("DenseReluDense.wi_0")?, Some(wide("DenseReluDense.wi_1")?))
            } else {
                (wide("DenseReluDense.wi")?, None)
            };
            Ok(Layer {
                attention: Attention {
                    query_key_value: Linear::side_by_side([input("q")?, input("k")?, input("v")?]),
                    output: Linear::without_bias(weights, &attention("SelfAttention.o"), inner, hidden)?,
                    head_norms: None,
                    rotary: None,
                    reach: Reach::ALL,
                },
                attention_norms: Norms::before(norm(&attention("layer_norm"))?),
                feed_forward: FeedForward {
                    inner: first,
                    gate,
                    output: Linear::without_bias(weights, &dense("DenseReluDense.wo"), intermediate, hidden)?,
                },
                feed_forward_norms: Norms::before(norm(&dense("layer_norm"))?),
            })
        };
        let tokens = weights.table(shared, [self.shape.n_tokens, hidden])?;
        let biases = Some(Biases::Buckets {
            table: weights.get(BIASES, &[self.n_buckets, n_heads])?,
            n_buckets: self.n_buckets,
            max_distance: self.max_distance,
        });
        let layers = (0..self.shape.n_layers).map(layer).collect::<Result<_, EmbedError>>()?;
        let last_norm = Some(norm("encoder.final_layer_norm")?);
        Ok(Encoder { biases, last_norm, ..Encoder::new(&self.shape, tokens, layers) })
    }

    fn projection_width(&self) -> Option<usize> {
        self.projection
    }

    /// That of GenCodeSearchNet's fine-tuned CodeT5+, on the projection.
    fn classifier(&self, weights: &mut Weights, n_labels: usize) -> Result<Classifier, EmbedError> {
        let (Some(width), Some(projection)) = (self.projection, self.projection(weights)?) else {
            let problem = "contains a cross-encoder of T5, which has no form that others share; expected one of CodeT5+";
            return Err(EmbedError::model(weights.path(), problem));
        };
        let dense = Linear::new(weights, "classifier.dense", width, width)?;
        let output = Linear::new(weights, "classifier.out_proj", width, n_labels)?;
        Ok(Classifier {
            pooling: Pooling::Cls,
            steps: vec![
                Step::Dense(projection),
                Step::Normalize,
                Step::Dense(Dense::new(dense, DenseFunction::Tanh)),
                Step::Dense(Dense::linear(output)),
            ],
        })
    }

    fn projection(&self, weights: &Weights) -> Result<Option<Dense>, EmbedError> {
        let dense = |n_outputs| Linear::new(weights, "proj", self.shape.hidden, n_outputs);
        Ok(self.projection.map(dense).transpose()?.map(Dense::linear))
    }
}
