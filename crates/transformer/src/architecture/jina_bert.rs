//! JinaBERT (Günther et al., 2023), as jina-embeddings-v2 has it: BERT with biases of attention that are linear in the
//! distance (Press et al., 2022) in place of positions, and gates; that for code normalizes queries and keys too.

use std::path::Path;

use serde::Deserialize;

use super::bert::Config;
use super::{Architecture, Shape, check_sizes, parse};
use crate::attention::{Attention, Biases, Reach};
use crate::encoder::{Encoder, FeedForward, Layer, Linear, Norm, Norms};
use crate::numeric::add_to_rows;
use crate::quantized::Table;
use crate::weights::Weights;
use quarry_embed::EmbedError;

#[derive(Deserialize)]
struct Gates {
    #[serde(default = "default_feed_forward")]
    feed_forward_type: String,
}

fn default_feed_forward() -> String {
    "original".into()
}

struct JinaBert {
    shape: Shape,
    n_token_types: usize,
}

pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Box<dyn Architecture>, EmbedError> {
    let mut config: Config = parse(path, bytes)?;
    let Gates { feed_forward_type } = parse(path, bytes)?;
    if feed_forward_type != "geglu" {
        let problem = format!(
            "asks for feed_forward_type {feed_forward_type:?}, which is not supported; expected \"geglu\""
        );
        return Err(EmbedError::model(path, problem));
    }
    check_sizes(path, &[("type_vocab_size", config.type_vocab_size)])?;
    config.position_embedding_type = None;
    Ok(Box::new(JinaBert { shape: config.shape(path, None)?, n_token_types: config.type_vocab_size }))
}

impl Architecture for JinaBert {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn encoder(&self, weights: &mut Weights) -> Result<Encoder, EmbedError> {
        let Shape { hidden, .. } = self.shape;
        weights.find_prefix(&["bert.", ""], "embeddings.word_embeddings.weight");
        let mut tokens = weights.get("embeddings.word_embeddings.weight", &[self.shape.n_tokens, hidden])?;
        let types = weights.get("embeddings.token_type_embeddings.weight", &[self.n_token_types, hidden])?;
        add_to_rows(&mut tokens, &types[..hidden]);
        let embedding_norm = Some(Norm::layer(weights, "embeddings.LayerNorm", &self.shape)?);
        let layer = |index| self.layer(weights, index);
        let layers = (0..self.shape.n_layers).map(layer).collect::<Result<_, EmbedError>>()?;
        let encoder = Encoder::new(&self.shape, Table::Float(tokens), layers);
        Ok(Encoder { biases: Some(Biases::Slopes), embedding_norm, ..encoder })
    }
}

impl JinaBert {
    fn layer(&self, weights: &Weights, index: usize) -> Result<Layer, EmbedError> {
        let Shape { hidden, intermediate, .. } = self.shape;
        let at = |name: &str| format!("encoder.layer.{index}.{name}");
        let norm = |name: &str| Norm::layer(weights, &at(name), &self.shape);
        let square = |name: &str| Linear::new(weights, &at(name), hidden, hidden);
        let mut query = square("attention.self.query")?;
        let (key, value) = (square("attention.self.key")?, square("attention.self.value")?);
        let after_attention = norm("attention.output.LayerNorm")?;
        let halves = |name: &str| Linear::stacked(weights, &at(name), hidden, [intermediate; 2]);
        let output = |name: &str| Linear::new(weights, &at(name), intermediate, hidden);
        let factor = self.shape.score_factor();
        let is_for_code = weights.has(&at("attention.self.layer_norm_q.weight"));
        let (head_norms, attention_norms, feed_forward, last) = if is_for_code {
            let head_norms =
                [norm("attention.self.layer_norm_q")?.times(factor), norm("attention.self.layer_norm_k")?];
            let norms = Norms {
                sum_before: Some(after_attention),
                sum: Some(norm("layer_norm_1")?),
                ..Norms::default()
            };
            // The second half has the activation.
            let [gate, inner] = halves("mlp.up_gated_layer")?;
            let feed_forward = FeedForward { inner, gate: Some(gate), output: output("mlp.down_layer")? };
            (Some(head_norms), norms, feed_forward, "layer_norm_2")
        } else {
            query.scale(factor);
            let [inner, gate] = halves("mlp.gated_layers")?;
            let feed_forward = FeedForward { inner, gate: Some(gate), output: output("mlp.wo")? };
            (None, Norms::after(after_attention), feed_forward, "mlp.layernorm")
        };
        Ok(Layer {
            attention: Attention {
                query_key_value: Linear::side_by_side([query, key, value]),
                output: square("attention.output.dense")?,
                head_norms,
                rotary: None,
                reach: Reach::ALL,
            },
            attention_norms,
            feed_forward,
            feed_forward_norms: Norms::after(norm(last)?),
        })
    }
}
