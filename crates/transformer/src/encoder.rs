//! The forward pass of an encoder (Vaswani et al., 2017; Devlin et al., 2019) over packed texts.
//!
//! The tokens of all texts of a batch are concatenated in one matrix, one row per token, so there is no padding
//! and nothing to mask: only attention looks at where a text starts and ends. A batch runs on one thread; batches
//! run beside each other.

use std::ops::Range;

use super::architecture::Shape;
use super::numeric::{
    LANES, Output, Strided, add_to_rows, layer_norm_rows, multiply, root_mean_square_norm_rows, softmax_rows,
};
use super::weights::Weights;
use quarry_embed::EmbedError;

/// Weights of an encoder, and what its architecture does with them.
pub struct Encoder {
    /// Sizes of the tensors.
    pub shape: Shape,
    /// One row per token id.
    pub tokens: Vec<f32>,
    /// Vectors of positions, added to those of tokens.
    pub positions: Option<Positions>,
    /// Biases of attention by distance.
    pub relative: Option<RelativePositions>,
    /// Applied before the first layer.
    pub embedding_norm: Option<Norm>,
    /// The layers, the first one first.
    pub layers: Vec<Layer>,
    /// Where a layer normalizes.
    pub norm_order: NormOrder,
    /// Applied after the last layer.
    pub last_norm: Option<Norm>,
}

/// A layer of an encoder.
pub struct Layer {
    /// Makes query, key and value of all heads side by side; the query comes with the factor of its scores.
    pub query_key_value: Linear,
    /// From the heads' results to what is added to the token's vector.
    pub attention_output: Linear,
    /// Before or after attention.
    pub attention_norm: Norm,
    /// The second half of the layer.
    pub feed_forward: FeedForward,
    /// Before or after that.
    pub output_norm: Norm,
}

/// x ↦ output(activation(inner(x)) · gate(x)), the gate being 1 if there is none.
pub struct FeedForward {
    /// Has the activation.
    pub inner: Linear,
    /// Multiplies it.
    pub gate: Option<Linear>,
    /// Back to the width of a token's vector.
    pub output: Linear,
}

/// Where the normalizations of a layer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormOrder {
    /// Of the input of each half.
    Before,
    /// Of the sum of each half with its input.
    After,
}

/// Vectors of positions in a text.
pub struct Positions {
    /// One row per position.
    pub table: Vec<f32>,
    /// The token whose position is its own id, for models that count the positions of others from after that.
    pub padding: Option<usize>,
}

/// Biases of attention by the distance between two tokens: near distances have their own, the further ones share
/// one in buckets of growing size, the two directions apart.
pub struct RelativePositions {
    /// One row per bucket, one column per head.
    pub biases: Vec<f32>,
    /// Number of buckets, of both directions together.
    pub n_buckets: usize,
    /// The distance from which on all share a bucket.
    pub max_distance: usize,
}

/// x ↦ x · weight + bias, with weight of shape inputs × outputs.
pub struct Linear {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

/// Normalizes every row.
pub struct Norm {
    scale: Vec<f32>,
    /// Absent if only the root mean square of a row is normalized, not its mean.
    shift: Option<Vec<f32>>,
    epsilon: f32,
}

impl Positions {
    /// The row of each token of a text.
    fn rows(&self, ids: &[u32]) -> impl Iterator<Item = usize> {
        let padding = self.padding;
        let mut next = padding.map_or(0, |padding| padding + 1);
        ids.iter().map(move |id| match padding {
            Some(padding) if *id as usize == padding => padding,
            _ => {
                next += 1;
                next - 1
            }
        })
    }
}

impl RelativePositions {
    /// Bucket of a token that is `distance` tokens after the one that attends to it.
    fn bucket(&self, distance: isize) -> usize {
        let half = self.n_buckets / 2;
        let direction = if distance > 0 { half } else { 0 };
        let distance = distance.unsigned_abs();
        let n_exact = half / 2;
        if distance < n_exact {
            return direction + distance;
        }
        // As in the original, with 32 bits: a bucket begins where the logarithm is exact.
        let exact = n_exact as f32;
        let share = (distance as f32 / exact).ln() / (self.max_distance as f32 / exact).ln();
        direction + (n_exact + (share * (half - n_exact) as f32) as usize).min(half - 1)
    }

    /// For each head, the biases of the distances from `1 - n` to `n - 1`.
    fn by_distance(&self, n: usize, n_heads: usize) -> Vec<f32> {
        let distances = 1 - n as isize..n as isize;
        let buckets: Vec<usize> = distances.map(|distance| self.bucket(distance)).collect();
        (0..n_heads)
            .flat_map(|head| buckets.iter().map(move |bucket| self.biases[bucket * n_heads + head]))
            .collect()
    }
}

impl Encoder {
    /// Number of token ids.
    pub fn n_tokens(&self) -> usize {
        self.shape.n_tokens
    }

    /// The vector of every token of every text, in order: `hidden` values each. Texts are lists of token ids below
    /// [`Encoder::n_tokens`], none longer than the model has positions.
    pub fn run(&self, texts: &[impl AsRef<[u32]>]) -> Vec<f32> {
        let Shape { hidden, intermediate, n_heads, head_width, .. } = self.shape;
        let (mut states, spans) = self.embeddings(texts);
        let longest = spans.iter().map(Range::len).max().unwrap_or(0);
        let biases = match &self.relative {
            Some(relative) if longest > 0 => relative.by_distance(longest, n_heads),
            _ => Vec::new(),
        };

        let n = states.len() / hidden;
        let width = n_heads * head_width;
        let mut query_key_value = vec![0.0; n * 3 * width];
        let mut context = vec![0.0; n * width];
        let mut inner = vec![0.0; n * intermediate];
        let mut gate = vec![
            0.0;
            if self.layers.iter().any(|layer| layer.feed_forward.gate.is_some()) {
                inner.len()
            } else {
                0
            }
        ];
        let mut normed = Vec::new();
        let mut scores = Vec::new();
        for layer in &self.layers {
            let input = self.input(&layer.attention_norm, &states, &mut normed);
            layer.query_key_value.replace(input, &mut query_key_value);
            for span in &spans {
                self.attend(&query_key_value, span.clone(), &biases, &mut context, &mut scores);
            }
            layer.attention_output.add(&context, &mut states);
            self.finish(&layer.attention_norm, &mut states);

            let FeedForward { inner: first, gate: second, output } = &layer.feed_forward;
            let input = self.input(&layer.output_norm, &states, &mut normed);
            first.multiply(Output::Replace, input, &mut inner);
            self.shape.activation.apply(&mut inner, &first.bias);
            if let Some(second) = second {
                second.replace(input, &mut gate);
                inner.iter_mut().zip(&gate).for_each(|(value, gate)| *value *= gate);
            }
            output.add(&inner, &mut states);
            self.finish(&layer.output_norm, &mut states);
        }
        if let Some(norm) = &self.last_norm {
            norm.apply(&mut states);
        }
        states
    }

    /// The vectors with which the first layer begins, and the rows of each text.
    fn embeddings(&self, texts: &[impl AsRef<[u32]>]) -> (Vec<f32>, Vec<Range<usize>>) {
        let hidden = self.shape.hidden;
        let mut states = Vec::new();
        let mut spans: Vec<Range<usize>> = Vec::new();
        for ids in texts.iter().map(AsRef::as_ref) {
            let start = states.len();
            for id in ids {
                states.extend_from_slice(&self.tokens[*id as usize * hidden..][..hidden]);
            }
            if let Some(positions) = &self.positions {
                for (state, row) in states[start..].chunks_exact_mut(hidden).zip(positions.rows(ids)) {
                    add_to_rows(state, &positions.table[row * hidden..][..hidden]);
                }
            }
            spans.push(start / hidden..states.len() / hidden);
        }
        if let Some(norm) = &self.embedding_norm {
            norm.apply(&mut states);
        }
        (states, spans)
    }

    /// The input of half a layer.
    fn input<'a>(&self, norm: &Norm, states: &'a [f32], normed: &'a mut Vec<f32>) -> &'a [f32] {
        match self.norm_order {
            NormOrder::After => states,
            NormOrder::Before => {
                normed.clear();
                normed.extend_from_slice(states);
                norm.apply(normed);
                normed
            }
        }
    }

    /// Ends half a layer.
    fn finish(&self, norm: &Norm, states: &mut [f32]) {
        if self.norm_order == NormOrder::After {
            norm.apply(states);
        }
    }

    /// Softmax attention of one text's tokens to each other, all heads; `biases` are those of
    /// [`RelativePositions::by_distance`], and `scores` is scratch space.
    fn attend(
        &self,
        query_key_value: &[f32],
        span: Range<usize>,
        biases: &[f32],
        context: &mut [f32],
        scores: &mut Vec<f32>,
    ) {
        let Shape { n_heads, head_width: width, .. } = self.shape;
        let all = n_heads * width;
        let n = span.len();
        let stride = n.next_multiple_of(LANES);
        scores.resize(n * stride, 0.0);
        let rows = &query_key_value[span.start * 3 * all..span.end * 3 * all];
        let context = &mut context[span.start * all..span.end * all];
        let n_distances = biases.len() / n_heads;
        for head in 0..n_heads {
            let part = |index: usize| &rows[(index * all + head * width).min(rows.len())..];
            let query = Strided { values: part(0), row_stride: 3 * all, column_stride: 1 };
            let key_transposed = Strided { values: part(1), row_stride: 1, column_stride: 3 * all };
            let value = Strided { values: part(2), row_stride: 3 * all, column_stride: 1 };
            multiply(Output::Replace, scores, stride, query, key_transposed, [n, n, width]);
            if n_distances > 0 && n > 0 {
                let biases = &biases[head * n_distances..][..n_distances];
                for (row, scores) in scores.chunks_exact_mut(stride).take(n).enumerate() {
                    // The distance 0 is in the middle, and this row begins `row` before it.
                    let biases = &biases[n_distances / 2 - row..][..n];
                    scores.iter_mut().zip(biases).for_each(|(score, bias)| *score += bias);
                }
            }
            softmax_rows(scores, n, stride);
            let weights = Strided { values: scores, row_stride: stride, column_stride: 1 };
            let head_context = &mut context[(head * width).min(n * all)..];
            multiply(Output::Replace, head_context, all, weights, value, [n, width, n]);
        }
    }
}

impl Linear {
    /// Reads `NAME.weight` and `NAME.bias`.
    pub fn new(
        weights: &Weights,
        name: &str,
        n_inputs: usize,
        n_outputs: usize,
    ) -> Result<Linear, EmbedError> {
        let mut linear = Linear::without_bias(weights, name, n_inputs, n_outputs)?;
        linear.bias = weights.get(&format!("{name}.bias"), &[n_outputs])?;
        Ok(linear)
    }

    /// Reads `NAME.weight` alone.
    pub fn without_bias(
        weights: &Weights,
        name: &str,
        n_inputs: usize,
        n_outputs: usize,
    ) -> Result<Linear, EmbedError> {
        let weight = weights.get(&format!("{name}.weight"), &[n_outputs, n_inputs])?;
        Ok(Linear { weight: transpose(&weight, n_inputs), bias: vec![0.0; n_outputs] })
    }

    /// Multiplies the map by a number.
    pub fn scale(&mut self, factor: f32) {
        self.weight.iter_mut().chain(&mut self.bias).for_each(|value| *value *= factor);
    }

    /// Number of columns that it takes.
    pub fn n_inputs(&self) -> usize {
        self.weight.len() / self.bias.len()
    }

    /// Number of columns that it gives.
    pub fn n_outputs(&self) -> usize {
        self.bias.len()
    }

    /// One map that concatenates the outputs of `parts`, which share their inputs.
    pub fn side_by_side(parts: &[Linear]) -> Linear {
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
    pub fn replace(&self, input: &[f32], output: &mut [f32]) {
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
    /// Reads the scale and shift `NAME.weight` and `NAME.bias`.
    pub fn layer(weights: &Weights, name: &str, shape: &Shape) -> Result<Norm, EmbedError> {
        let shift = weights.get(&format!("{name}.bias"), &[shape.hidden])?;
        Ok(Norm { shift: Some(shift), ..Norm::root_mean_square(weights, name, shape)? })
    }

    /// Reads the scale `NAME.weight` of a normalization that leaves the mean.
    pub fn root_mean_square(weights: &Weights, name: &str, shape: &Shape) -> Result<Norm, EmbedError> {
        let scale = weights.get(&format!("{name}.weight"), &[shape.hidden])?;
        Ok(Norm { scale, shift: None, epsilon: shape.epsilon })
    }

    fn apply(&self, values: &mut [f32]) {
        match &self.shift {
            Some(shift) => layer_norm_rows(values, &self.scale, shift, self.epsilon),
            None => root_mean_square_norm_rows(values, &self.scale, self.epsilon),
        }
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
