//! BERT (Devlin et al., 2019), and RoBERTa, XLM-RoBERTa and CamemBERT, which count positions otherwise.

use std::path::Path;

use rayon::prelude::*;
use serde::Deserialize;

use super::{Architecture, Classifier, Shape, Sizes, activation, check_epsilon, check_sizes, default, parse};
use crate::attention::{Attention, Reach};
use crate::encoder::{Encoder, FeedForward, Layer, Linear, Norm, Norms, Positions};
use crate::layout::{Layout, Wiring};
use crate::numeric::add_to_rows;
use crate::pooling::{Dense, DenseFunction, Pooling, Step};
use crate::weights::Weights;
use quarry_embed::EmbedError;

/// The `config.json` of a model with BERT's layers.
#[derive(Deserialize)]
pub(super) struct Config {
    pub model_type: String,
    #[serde(flatten)]
    sizes: Sizes,
    pub max_position_embeddings: usize,
    /// MPNet has no token types.
    #[serde(default)]
    pub type_vocab_size: usize,
    #[serde(default = "default::epsilon_12")]
    pub layer_norm_eps: f32,
    #[serde(default = "default::gelu")]
    pub hidden_act: String,
    pub position_embedding_type: Option<String>,
    pub pad_token_id: Option<usize>,
}

const PREFIXES: [&str; 3] = ["bert.", "roberta.", ""];

struct Bert {
    shape: Shape,
    n_positions: usize,
    n_token_types: usize,
    /// The padding token, if positions are counted from after its own.
    padding: Option<usize>,
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Box<dyn Architecture>, EmbedError> {
    let config: Config = parse(path, bytes)?;
    let padding = (config.model_type != "bert").then_some(config.pad_token_id.unwrap_or(1));
    check_sizes(path, &[("type_vocab_size", config.type_vocab_size)])?;
    Ok(Box::new(Bert {
        shape: config.shape(path, padding)?,
        n_positions: config.max_position_embeddings,
        n_token_types: config.type_vocab_size,
        padding,
    }))
}

impl Config {
    /// The shape of the encoder, whose positions are counted from after the `padding` token's own, if any.
    pub(super) fn shape(&self, path: &Path, padding: Option<usize>) -> Result<Shape, EmbedError> {
        let wrong = |problem: String| Err(EmbedError::model(path, problem));
        let activation = activation(path, &self.hidden_act)?;
        if let Some(kind) = self.position_embedding_type.as_ref().filter(|kind| *kind != "absolute") {
            return wrong(format!(
                "asks for position_embedding_type {kind:?}, which is not supported; expected \"absolute\""
            ));
        }
        self.sizes.check(path, &[])?;
        check_epsilon(path, "layer_norm_eps", self.layer_norm_eps)?;
        let head_width = self.sizes.head_width(path)?;
        let first_position = padding.map_or(0, |padding| padding.saturating_add(1));
        if self.max_position_embeddings <= first_position {
            return wrong(format!(
                "max_position_embeddings is {}; expected more than {first_position}",
                self.max_position_embeddings
            ));
        }
        let max_tokens = self.max_position_embeddings - first_position;
        Ok(self.sizes.shape(head_width, max_tokens, self.layer_norm_eps, activation))
    }
}

impl Architecture for Bert {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn layout(&self) -> Option<Layout> {
        Some(Layout {
            tensors: layout(&self.shape, self.n_positions, self.n_token_types, &NAMES),
            prefixes: &PREFIXES,
            padding: self.padding,
            wiring: wiring(&NAMES),
        })
    }

    fn classifier(&self, weights: &mut Weights, n_labels: usize) -> Result<Classifier, EmbedError> {
        let hidden = self.shape.hidden;
        if self.padding.is_some() {
            return classifier(weights, hidden, n_labels);
        }
        weights.find_prefix(&PREFIXES, "pooler.dense.weight");
        let pooler = Dense::new(Linear::new(weights, "pooler.dense", hidden, hidden)?, DenseFunction::Tanh);
        weights.find_prefix(&[""], "classifier.weight");
        let labels = Dense::linear(Linear::new(weights, "classifier", hidden, n_labels)?);
        Ok(Classifier { pooling: Pooling::Cls, steps: vec![Step::Dense(pooler), Step::Dense(labels)] })
    }

    fn encoder(&self, weights: &mut Weights) -> Result<Encoder, EmbedError> {
        let hidden = self.shape.hidden;
        weights.find_prefix(&PREFIXES, "embeddings.word_embeddings.weight");
        let tokens = weights.table("embeddings.word_embeddings.weight", [self.shape.n_tokens, hidden])?;
        let mut positions =
            weights.get("embeddings.position_embeddings.weight", &[self.n_positions, hidden])?;
        let types = weights.get("embeddings.token_type_embeddings.weight", &[self.n_token_types, hidden])?;
        add_to_rows(&mut positions, &types[..hidden]);
        let (first, rest) = types.split_at(hidden);
        let second_text =
            (rest.len() >= hidden).then(|| rest.iter().zip(first).map(|(b, a)| b - a).collect::<Vec<f32>>());
        let positions = Some(Positions { table: positions, padding: self.padding });
        let embedding_norm = Some(Norm::layer(weights, "embeddings.LayerNorm", &self.shape)?);
        let encoder = Encoder::new(&self.shape, tokens, layers(weights, &self.shape, &NAMES)?);
        Ok(Encoder { positions, second_text, embedding_norm, ..encoder })
    }
}

/// The head of a cross-encoder as RoBERTa and MPNet have it.
pub(super) fn classifier(
    weights: &mut Weights,
    hidden: usize,
    n_labels: usize,
) -> Result<Classifier, EmbedError> {
    weights.find_prefix(&[""], "classifier.dense.weight");
    let dense = Linear::new(weights, "classifier.dense", hidden, hidden)?;
    let labels = Linear::new(weights, "classifier.out_proj", hidden, n_labels)?;
    let steps = vec![Step::Dense(Dense::new(dense, DenseFunction::Tanh)), Step::Dense(Dense::linear(labels))];
    Ok(Classifier { pooling: Pooling::Cls, steps })
}

const NAMES: Names = Names {
    query: "attention.self.query",
    key: "attention.self.key",
    value: "attention.self.value",
    output: "attention.output.dense",
    norm: "attention.output.LayerNorm",
};

/// Wiring of a model with BERT's layers.
pub(super) fn wiring(names: &Names) -> Wiring {
    Wiring {
        tokens: "embeddings.word_embeddings.weight",
        positions: Some("embeddings.position_embeddings.weight"),
        token_types: Some("embeddings.token_type_embeddings.weight"),
        embedding_norm: Some("embeddings.LayerNorm"),
        relative: None,
        layer: "encoder.layer.",
        query: names.query,
        key: names.key,
        value: names.value,
        attention_output: names.output,
        attention_norm: names.norm,
        inner: "intermediate.dense",
        gate: None,
        output: "output.dense",
        output_norm: "output.LayerNorm",
        last_norm: None,
        is_t5: false,
    }
}

/// Names and shapes of the tensors of a model with BERT's layers, whose attention has these names; without token types if
/// there are none.
pub(super) fn layout(
    shape: &Shape,
    n_positions: usize,
    n_token_types: usize,
    names: &Names,
) -> Vec<(String, Vec<usize>)> {
    let Shape { hidden, intermediate, .. } = *shape;
    let mut tensors = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![shape.n_tokens, hidden]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![n_positions, hidden]),
    ];
    if n_token_types > 0 {
        tensors.push(("embeddings.token_type_embeddings.weight".to_owned(), vec![n_token_types, hidden]));
    }
    let mut vectors = |name: String, columns: usize, rows: Option<usize>| {
        let weight = rows.map_or(vec![columns], |rows| vec![columns, rows]);
        tensors.push((format!("{name}.weight"), weight));
        tensors.push((format!("{name}.bias"), vec![columns]));
    };
    vectors("embeddings.LayerNorm".into(), hidden, None);
    for index in 0..shape.n_layers {
        let at = |name: &str| format!("encoder.layer.{index}.{name}");
        for name in [names.query, names.key, names.value, names.output] {
            vectors(at(name), hidden, Some(hidden));
        }
        vectors(at(names.norm), hidden, None);
        vectors(at("intermediate.dense"), intermediate, Some(hidden));
        vectors(at("output.dense"), hidden, Some(intermediate));
        vectors(at("output.LayerNorm"), hidden, None);
    }
    tensors
}

/// The names of the attention's parts, which differ between models with BERT's layers.
pub(super) struct Names {
    pub query: &'static str,
    pub key: &'static str,
    pub value: &'static str,
    pub output: &'static str,
    pub norm: &'static str,
}

pub(super) fn layers(weights: &Weights, shape: &Shape, names: &Names) -> Result<Vec<Layer>, EmbedError> {
    let Shape { hidden, intermediate, .. } = *shape;
    (0..shape.n_layers)
        .into_par_iter()
        .map(|index| {
            let at = |name: &str| format!("encoder.layer.{index}.{name}");
            let square = |name: &str| Linear::new(weights, &at(name), hidden, hidden);
            let mut query = square(names.query)?;
            query.scale(shape.score_factor());
            let layer = Layer {
                attention: Attention {
                    query_key_value: Linear::side_by_side([query, square(names.key)?, square(names.value)?]),
                    output: square(names.output)?,
                    head_norms: None,
                    rotary: None,
                    reach: Reach::ALL,
                },
                attention_norms: Norms::after(Norm::layer(weights, &at(names.norm), shape)?),
                feed_forward: FeedForward {
                    inner: Linear::new(weights, &at("intermediate.dense"), hidden, intermediate)?,
                    gate: None,
                    output: Linear::new(weights, &at("output.dense"), intermediate, hidden)?,
                },
                feed_forward_norms: Norms::after(Norm::layer(weights, &at("output.LayerNorm"), shape)?),
            };
            Ok(if weights.packs { layer.packed() } else { layer })
        })
        .collect()
}
