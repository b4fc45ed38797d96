//! jina-embeddings-v3 (Sturua et al., 2024): XLM-RoBERTa with rotary positions, and low-rank adapters for tasks.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{Architecture, Shape, Sizes, activation, check_epsilon, check_sizes, default, parse, rotary};
use crate::adapters::{Adapters, LayerAdapters, LowRank};
use crate::attention::{Attention, Reach, Rotary};
use crate::encoder::{Encoder, FeedForward, Layer, Linear, Norm, Norms};
use crate::numeric::add_to_rows;
use crate::quantized::Table;
use crate::weights::Weights;
use quarry_embed::EmbedError;

#[derive(Deserialize)]
struct Config {
    #[serde(flatten)]
    sizes: Sizes,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    #[serde(default = "default::epsilon_5")]
    layer_norm_eps: f32,
    #[serde(default = "default::gelu")]
    hidden_act: String,
    rotary_emb_base: Option<f32>,
    #[serde(flatten)]
    rotary: rotary::Fields,
    /// Names of the tasks, in the order of their adapters.
    #[serde(default)]
    lora_adaptations: Vec<String>,
    #[serde(default)]
    lora_rank: usize,
    #[serde(default = "default::one")]
    lora_alpha: f32,
    /// Prefix of texts for each task.
    #[serde(default)]
    task_instructions: BTreeMap<String, String>,
}

struct JinaV3 {
    shape: Shape,
    n_token_types: usize,
    rotary: Rotary,
    tasks: Vec<String>,
    rank: usize,
    factor: f32,
    instructions: BTreeMap<String, String>,
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Box<dyn Architecture>, EmbedError> {
    let config: Config = parse(path, bytes)?;
    let sizes = [
        ("max_position_embeddings", config.max_position_embeddings),
        ("type_vocab_size", config.type_vocab_size),
    ];
    config.sizes.check(path, &sizes)?;
    check_epsilon(path, "layer_norm_eps", config.layer_norm_eps)?;
    let activation = activation(path, &config.hidden_act)?;
    if !config.lora_adaptations.is_empty() {
        check_sizes(path, &[("lora_rank", config.lora_rank)])?;
        if !config.lora_alpha.is_finite() {
            return Err(EmbedError::model(path, "lora_alpha is not a number".to_owned()));
        }
    }
    let head_width = config.sizes.head_width(path)?;
    rotary::check_width(path, head_width)?;
    Ok(Box::new(JinaV3 {
        shape: (config.sizes).shape(
            head_width,
            config.max_position_embeddings,
            config.layer_norm_eps,
            activation,
        ),
        n_token_types: config.type_vocab_size,
        rotary: config.rotary.rotary(path, "full_attention", config.rotary_emb_base, 10_000.0)?,
        tasks: config.lora_adaptations,
        rank: config.lora_rank,
        factor: config.lora_alpha / config.lora_rank.max(1) as f32,
        instructions: config.task_instructions,
    }))
}

const PREFIXES: [&str; 2] = ["roberta.", ""];
const TOKENS: &str = "embeddings.word_embeddings.weight";
const TYPES: &str = "embeddings.token_type_embeddings.weight";

impl Architecture for JinaV3 {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn tasks(&self) -> &[String] {
        &self.tasks
    }

    fn instruction(&self, task: &str) -> Option<&str> {
        self.instructions.get(task).map(String::as_str)
    }

    fn encoder(&self, weights: &mut Weights) -> Result<Encoder, EmbedError> {
        let Shape { hidden, intermediate, .. } = self.shape;
        weights.find_prefix(&PREFIXES, "emb_ln.weight");
        let mut tokens = weights.get(TOKENS, &[self.shape.n_tokens, hidden])?;
        let types = weights.get(TYPES, &[self.n_token_types, hidden])?;
        add_to_rows(&mut tokens, &types[..hidden]);
        let norm = |name: &str| Norm::layer(weights, name, &self.shape);
        let layer = |index: usize| {
            let at = |name: &str| format!("encoder.layers.{index}.{name}");
            let linear =
                |name: &str, n_inputs, n_outputs| Linear::new(weights, &at(name), n_inputs, n_outputs);
            let mut query_key_value = linear("mixer.Wqkv", hidden, 3 * hidden)?;
            query_key_value.scale_first(hidden, self.shape.score_factor());
            Ok(Layer {
                attention: Attention {
                    query_key_value,
                    output: linear("mixer.out_proj", hidden, hidden)?,
                    head_norms: None,
                    rotary: Some(self.rotary),
                    reach: Reach::ALL,
                },
                attention_norms: Norms::after(norm(&at("norm1"))?),
                feed_forward: FeedForward {
                    inner: linear("mlp.fc1", hidden, intermediate)?,
                    gate: None,
                    output: linear("mlp.fc2", intermediate, hidden)?,
                },
                feed_forward_norms: Norms::after(norm(&at("norm2"))?),
            })
        };
        let embedding_norm = Some(norm("emb_ln")?);
        let layers = (0..self.shape.n_layers).map(layer).collect::<Result<_, EmbedError>>()?;
        Ok(Encoder { embedding_norm, ..Encoder::new(&self.shape, Table::Float(tokens), layers) })
    }

    fn adapters(&self, weights: &mut Weights, task: usize) -> Result<Adapters, EmbedError> {
        let Shape { hidden, intermediate, n_tokens, .. } = self.shape;
        weights.find_prefix(&PREFIXES, "emb_ln.weight");
        // Each tensor has the parts of all tasks, one after the other.
        let part = |name: &str, which: &str, rows: usize, columns: usize| {
            let name = format!("{}.parametrizations.weight.0.{which}", name.trim_end_matches(".weight"));
            let mut values = weights.get(&name, &[self.tasks.len(), rows, columns])?;
            let size = rows * columns;
            values.drain(..task * size);
            values.truncate(size);
            Ok::<_, EmbedError>(values)
        };
        let of_linear = |name: &str, n_inputs: usize, n_outputs: usize| {
            let mut outward = part(name, "lora_B", n_outputs, self.rank)?;
            outward.iter_mut().for_each(|value| *value *= self.factor);
            Ok::<_, EmbedError>(LowRank {
                inward: part(name, "lora_A", self.rank, n_inputs)?,
                outward,
                rank: self.rank,
            })
        };
        let of_rows = |name: &str, n_rows: usize| {
            let mut columns = part(name, "lora_B", self.rank, hidden)?;
            columns.iter_mut().for_each(|value| *value *= self.factor);
            Ok::<_, EmbedError>((part(name, "lora_A", n_rows, self.rank)?, columns))
        };
        let layer = |index: usize| {
            let at = |name: &str| format!("encoder.layers.{index}.{name}");
            let mut query_key_value = of_linear(&at("mixer.Wqkv"), hidden, 3 * hidden)?;
            let of_queries = &mut query_key_value.outward[..hidden * self.rank];
            of_queries.iter_mut().for_each(|value| *value *= self.shape.score_factor());
            Ok(LayerAdapters {
                query_key_value,
                attention_output: of_linear(&at("mixer.out_proj"), hidden, hidden)?,
                inner: of_linear(&at("mlp.fc1"), hidden, intermediate)?,
                output: of_linear(&at("mlp.fc2"), intermediate, hidden)?,
            })
        };
        let (token_rows, token_columns) = of_rows(TOKENS, n_tokens)?;
        let (type_rows, type_columns) = of_rows(TYPES, self.n_token_types)?;
        let constant = (0..hidden)
            .map(|column| (0..self.rank).map(|at| type_rows[at] * type_columns[at * hidden + column]).sum())
            .collect();
        Ok(Adapters {
            token_rows,
            token_columns,
            constant,
            rank: self.rank,
            layers: (0..self.shape.n_layers).map(layer).collect::<Result<_, EmbedError>>()?,
        })
    }
}
