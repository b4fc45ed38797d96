//! MPNet (Song et al., 2020): BERT's layers with a bias for relative positions, shared by all of them.

use std::path::Path;

use serde::Deserialize;

use super::bert::{Config, Names, classifier, layers, layout, wiring};
use super::{Architecture, Classifier, Shape, check_sizes, default, parse};
use crate::attention::Biases;
use crate::encoder::{Encoder, Norm, Positions};
use crate::layout::{Layout, Relative, Wiring};
use crate::weights::Weights;
use quarry_embed::EmbedError;

/// The distance from which on all positions share a bucket, a constant of the model.
const MAX_DISTANCE: usize = 128;

#[derive(Deserialize)]
struct Buckets {
    #[serde(default = "default::buckets")]
    relative_attention_num_buckets: usize,
}

struct MpNet {
    shape: Shape,
    n_positions: usize,
    n_buckets: usize,
}

/// The padding token, a constant of the model.
const PADDING: usize = 1;

const PREFIXES: [&str; 2] = ["mpnet.", ""];

const BIASES: &str = "encoder.relative_attention_bias.weight";

const NAMES: Names = Names {
    query: "attention.attn.q",
    key: "attention.attn.k",
    value: "attention.attn.v",
    output: "attention.attn.o",
    norm: "attention.LayerNorm",
};

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Box<dyn Architecture>, EmbedError> {
    let config: Config = parse(path, bytes)?;
    let Buckets { relative_attention_num_buckets: n_buckets } = parse(path, bytes)?;
    check_sizes(path, &[("relative_attention_num_buckets / 4", n_buckets / 4)])?;
    let shape = config.shape(path, Some(PADDING))?;
    Ok(Box::new(MpNet { shape, n_positions: config.max_position_embeddings, n_buckets }))
}

impl Architecture for MpNet {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn classifier(&self, weights: &mut Weights, n_labels: usize) -> Result<Classifier, EmbedError> {
        classifier(weights, self.shape.hidden, n_labels)
    }

    fn layout(&self) -> Option<Layout> {
        let mut tensors = layout(&self.shape, self.n_positions, 0, &NAMES);
        tensors.push((BIASES.to_owned(), vec![self.n_buckets, self.shape.n_heads]));
        let relative = Relative { name: BIASES, n_buckets: self.n_buckets, max_distance: MAX_DISTANCE };
        let wiring = Wiring { token_types: None, relative: Some(relative), ..wiring(&NAMES) };
        Some(Layout { tensors, prefixes: &PREFIXES, padding: Some(PADDING), wiring })
    }

    fn encoder(&self, weights: &mut Weights) -> Result<Encoder, EmbedError> {
        let hidden = self.shape.hidden;
        weights.find_prefix(&PREFIXES, "embeddings.word_embeddings.weight");
        let tokens = weights.table("embeddings.word_embeddings.weight", [self.shape.n_tokens, hidden])?;
        let positions = Some(Positions {
            table: weights.get("embeddings.position_embeddings.weight", &[self.n_positions, hidden])?,
            padding: Some(PADDING),
        });
        let biases = Some(Biases::Buckets {
            table: weights.get(BIASES, &[self.n_buckets, self.shape.n_heads])?,
            n_buckets: self.n_buckets,
            max_distance: MAX_DISTANCE,
        });
        let embedding_norm = Some(Norm::layer(weights, "embeddings.LayerNorm", &self.shape)?);
        let encoder = Encoder::new(&self.shape, tokens, layers(weights, &self.shape, &NAMES)?);
        Ok(Encoder { positions, biases, embedding_norm, ..encoder })
    }
}
