//! The forward pass of a BERT encoder (Devlin et al., 2019) over packed texts.
//!
//! The tokens of all texts of a batch are concatenated in one matrix, one row per token, so there is no padding
//! and nothing to mask: only attention looks at where a text starts and ends. A batch runs on one thread; batches
//! run beside each other.

use std::ops::Range;

use super::config::Shape;
use super::numeric::{LANES, Output, Strided, add_to_rows, layer_norm_rows, multiply, softmax_rows};
use super::weights::Weights;
use quarry_embed::EmbedError;

/// Weights of an encoder.
pub struct Encoder {
    shape: Shape,
    /// One row per token id.
    tokens: Vec<f32>,
    /// One row per position in the text, plus the vector of the first token type.
    positions: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

struct Layer {
    /// Makes query, key and value of all heads side by side; the query comes divided by the root of a head's width.
    query_key_value: Linear,
    attention_output: Linear,
    attention_norm: Norm,
    intermediate: Linear,
    output: Linear,
    output_norm: Norm,
}

/// x ↦ x · weight + bias, with weight of shape inputs × outputs.
struct Linear {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

struct Norm {
    scale: Vec<f32>,
    shift: Vec<f32>,
    epsilon: f32,
}

impl Encoder {
    /// Loads the encoder's tensors from a checkpoint.
    ///
    /// # Errors
    /// When a tensor is missing or has another shape than `shape` says.
    pub fn new(shape: &Shape, weights: &Weights) -> Result<Encoder, EmbedError> {
        let hidden = shape.hidden;
        let tokens = weights.get("embeddings.word_embeddings.weight", &[shape.n_tokens, hidden])?;
        let mut positions =
            weights.get("embeddings.position_embeddings.weight", &[shape.n_positions, hidden])?;
        let types = weights.get("embeddings.token_type_embeddings.weight", &[shape.n_token_types, hidden])?;
        add_to_rows(&mut positions, &types[..hidden]);
        positions.drain(..shape.first_position * hidden);
        Ok(Encoder {
            tokens,
            positions,
            norm: Norm::new(weights, "embeddings", shape)?,
            layers: (0..shape.n_layers)
                .map(|index| Layer::new(weights, index, shape))
                .collect::<Result<_, _>>()?,
            shape: shape.clone(),
        })
    }

    /// Number of token ids.
    pub fn n_tokens(&self) -> usize {
        self.shape.n_tokens
    }

    /// The vector of every token of every text, in order: `hidden` values each. Texts are lists of token ids below
    /// [`Encoder::n_tokens`], none longer than the model has positions.
    pub fn run(&self, texts: &[impl AsRef<[u32]>]) -> Vec<f32> {
        let Shape { hidden, intermediate, .. } = self.shape;
        let mut states = Vec::new();
        let mut spans: Vec<Range<usize>> = Vec::new();
        for ids in texts.iter().map(AsRef::as_ref) {
            let start = states.len() / hidden;
            for (id, position) in ids.iter().zip(self.positions.chunks_exact(hidden)) {
                let token = &self.tokens[*id as usize * hidden..][..hidden];
                states.extend(token.iter().zip(position).map(|(token, position)| token + position));
            }
            spans.push(start..states.len() / hidden);
        }
        self.norm.apply(&mut states);

        let n = states.len() / hidden;
        let mut query_key_value = vec![0.0; n * 3 * hidden];
        let mut context = vec![0.0; n * hidden];
        let mut inner = vec![0.0; n * intermediate];
        let mut scores = Vec::new();
        for layer in &self.layers {
            layer.query_key_value.replace(&states, &mut query_key_value);
            for span in &spans {
                self.attend(&query_key_value, span.clone(), &mut context, &mut scores);
            }
            layer.attention_output.add(&context, &mut states);
            layer.attention_norm.apply(&mut states);
            layer.intermediate.multiply(Output::Replace, &states, &mut inner);
            self.shape.activation.apply(&mut inner, &layer.intermediate.bias);
            layer.output.add(&inner, &mut states);
            layer.output_norm.apply(&mut states);
        }
        states
    }

    /// Softmax attention of one text's tokens to each other, all heads; `scores` is scratch space.
    fn attend(
        &self,
        query_key_value: &[f32],
        span: Range<usize>,
        context: &mut [f32],
        scores: &mut Vec<f32>,
    ) {
        let Shape { hidden, n_heads, .. } = self.shape;
        let width = hidden / n_heads;
        let n = span.len();
        let stride = n.next_multiple_of(LANES);
        scores.resize(n * stride, 0.0);
        let rows = &query_key_value[span.start * 3 * hidden..span.end * 3 * hidden];
        let context = &mut context[span.start * hidden..span.end * hidden];
        for head in 0..n_heads {
            let part = |index: usize| &rows[(index * hidden + head * width).min(rows.len())..];
            let query = Strided { values: part(0), row_stride: 3 * hidden, column_stride: 1 };
            let key_transposed = Strided { values: part(1), row_stride: 1, column_stride: 3 * hidden };
            let value = Strided { values: part(2), row_stride: 3 * hidden, column_stride: 1 };
            multiply(Output::Replace, scores, stride, query, key_transposed, [n, n, width]);
            softmax_rows(scores, n, stride);
            let weights = Strided { values: scores, row_stride: stride, column_stride: 1 };
            let head_context = &mut context[(head * width).min(n * hidden)..];
            multiply(Output::Replace, head_context, hidden, weights, value, [n, width, n]);
        }
    }
}

impl Layer {
    fn new(weights: &Weights, index: usize, shape: &Shape) -> Result<Layer, EmbedError> {
        let Shape { hidden, intermediate, n_heads, .. } = *shape;
        let at = |name: &str| format!("encoder.layer.{index}.{name}");
        let mut query = Linear::new(weights, &at("attention.self.query"), hidden, hidden)?;
        let factor = 1.0 / ((hidden / n_heads) as f32).sqrt();
        query.weight.iter_mut().chain(&mut query.bias).for_each(|value| *value *= factor);
        let key = Linear::new(weights, &at("attention.self.key"), hidden, hidden)?;
        let value = Linear::new(weights, &at("attention.self.value"), hidden, hidden)?;
        Ok(Layer {
            query_key_value: Linear::side_by_side(&[query, key, value]),
            attention_output: Linear::new(weights, &at("attention.output.dense"), hidden, hidden)?,
            attention_norm: Norm::new(weights, &at("attention.output"), shape)?,
            intermediate: Linear::new(weights, &at("intermediate.dense"), hidden, intermediate)?,
            output: Linear::new(weights, &at("output.dense"), intermediate, hidden)?,
            output_norm: Norm::new(weights, &at("output"), shape)?,
        })
    }
}

impl Linear {
    fn new(weights: &Weights, name: &str, n_inputs: usize, n_outputs: usize) -> Result<Linear, EmbedError> {
        let weight = weights.get(&format!("{name}.weight"), &[n_outputs, n_inputs])?;
        let bias = weights.get(&format!("{name}.bias"), &[n_outputs])?;
        Ok(Linear { weight: transpose(&weight, n_inputs), bias })
    }

    /// One map that concatenates the outputs of `parts`, which share their inputs.
    fn side_by_side(parts: &[Linear]) -> Linear {
        let n_inputs = parts[0].weight.len() / parts[0].bias.len();
        let weight = (0..n_inputs)
            .flat_map(|row| {
                parts.iter().flat_map(move |part| &part.weight[row * part.bias.len()..][..part.bias.len()])
            })
            .copied()
            .collect();
        Linear { weight, bias: parts.iter().flat_map(|part| &part.bias).copied().collect() }
    }

    /// Maps every row of `input` to a row of `output`.
    fn replace(&self, input: &[f32], output: &mut [f32]) {
        output.chunks_exact_mut(self.bias.len()).for_each(|row| row.copy_from_slice(&self.bias));
        self.multiply(Output::Add, input, output);
    }

    /// Adds the map of every row of `input` to a row of `output`.
    fn add(&self, input: &[f32], output: &mut [f32]) {
        add_to_rows(output, &self.bias);
        self.multiply(Output::Add, input, output);
    }

    /// The map without its bias.
    fn multiply(&self, mode: Output, input: &[f32], output: &mut [f32]) {
        let n_outputs = self.bias.len();
        let n_inputs = self.weight.len() / n_outputs;
        let n_rows = input.len() / n_inputs;
        let input = Strided { values: input, row_stride: n_inputs, column_stride: 1 };
        let weight = Strided { values: &self.weight, row_stride: n_outputs, column_stride: 1 };
        multiply(mode, output, n_outputs, input, weight, [n_rows, n_outputs, n_inputs]);
    }
}

impl Norm {
    fn new(weights: &Weights, name: &str, shape: &Shape) -> Result<Norm, EmbedError> {
        Ok(Norm {
            scale: weights.get(&format!("{name}.LayerNorm.weight"), &[shape.hidden])?,
            shift: weights.get(&format!("{name}.LayerNorm.bias"), &[shape.hidden])?,
            epsilon: shape.epsilon,
        })
    }

    fn apply(&self, values: &mut [f32]) {
        layer_norm_rows(values, &self.scale, &self.shift, self.epsilon);
    }
}

/// The transpose of a row-major matrix with `n_columns` columns.
fn transpose(values: &[f32], n_columns: usize) -> Vec<f32> {
    let n_rows = values.len() / n_columns;
    let mut transposed = vec![0.0; values.len()];
    // Rows by blocks, so that each cache line is filled before it is evicted.
    for (block, rows) in values.chunks(LANES * n_columns).enumerate() {
        for column in 0..n_columns {
            for (row, value) in rows.iter().skip(column).step_by(n_columns).enumerate() {
                transposed[column * n_rows + block * LANES + row] = *value;
            }
        }
    }
    transposed
}
