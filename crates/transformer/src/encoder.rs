//! The forward pass of an encoder (Vaswani et al., 2017; Devlin et al., 2019) over packed texts.
//!
//! The tokens of all texts of a batch are concatenated in one matrix, one row per token, so there is no padding
//! and nothing to mask: only attention looks at where a text starts and ends. A batch runs on one thread; batches
//! run beside each other.

use std::ops::Range;

use super::adapters::{Adapters, LowRank};
use super::attention::{Attended, Attention, Biases, Rotations};
use super::graph::Graph;
use super::numeric::{
    LANES, Output, Strided, add_to_rows, layer_norm_rows, multiply, root_mean_square_norm_rows,
};
use super::quantized::{Int8Matrix, Packed, Table};
use super::shape::Shape;
use super::weights::{StoredMatrix, Weights};
use quarry_embed::EmbedError;
use rayon::prelude::*;

/// Weights of an encoder, and what its architecture does with them.
pub(crate) struct Encoder {
    pub shape: Shape,
    /// One row per token id.
    pub tokens: Table,
    /// Vectors of positions, added to those of tokens.
    pub positions: Option<Positions>,
    /// Added to the vectors of the second text's tokens, if the model distinguishes the texts of a pair.
    pub second_text: Option<Vec<f32>>,
    pub biases: Option<Biases>,
    /// Applied before the first layer.
    pub embedding_norm: Option<Norm>,
    pub layers: Vec<Layer>,
    /// Applied after the last layer.
    pub last_norm: Option<Norm>,
}

/// Inputs of a model besides the tokens, one per text; none if empty.
#[derive(Clone, Copy, Default)]
pub(crate) struct About<'a> {
    /// The tokens at which the second text of a pair begins.
    pub seconds: &'a [usize],
    /// Marks the nodes of variables, which are last.
    pub graphs: &'a [Option<Graph>],
    /// Those of a task.
    pub adapters: Option<&'a Adapters>,
    /// Numbers of the first tokens, which alone are attended to; all by default.
    pub n_attended: &'a [usize],
}

pub(crate) struct Layer {
    pub attention: Attention,
    pub attention_norms: Norms,
    pub feed_forward: FeedForward,
    pub feed_forward_norms: Norms,
}

/// The normalizations around half a layer, which adds something to the vectors of tokens.
#[derive(Default)]
pub(crate) struct Norms {
    pub input: Option<Norm>,
    pub output: Option<Norm>,
    /// Norm of the sum of its input and its output, which is then added once more.
    pub sum_before: Option<Norm>,
    pub sum: Option<Norm>,
}

/// x ↦ output(activation(inner(x)) · gate(x)), the gate being 1 if there is none.
pub(crate) struct FeedForward {
    /// Has the activation.
    pub inner: Linear,
    /// Multiplies it.
    pub gate: Option<Linear>,
    /// Back to the width of a token's vector.
    pub output: Linear,
}

/// Vectors of positions in a text.
pub(crate) struct Positions {
    /// One row per position.
    pub table: Vec<f32>,
    /// The token whose position is its own id, for models that count the positions of others from after that.
    pub padding: Option<usize>,
}

/// x ↦ x · weight + bias, with weight of shape inputs × outputs.
pub(crate) struct Linear {
    weight: Matrix,
    bias: Vec<f32>,
}

/// The weight of a [`Linear`], as its file has it.
enum Matrix {
    Float(Vec<f32>),
    /// The transpose, in 8 bits.
    Int8(Int8Matrix),
    /// The same, ready for products.
    Packed(Packed),
}

/// Normalizes every row.
pub(crate) struct Norm {
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

    /// The row of each token of a text, whichever it is, and then of each node: all nodes have the first.
    fn rows_before_nodes(&self, graph: &Graph) -> impl Iterator<Item = usize> {
        let first = self.padding.map_or(0, |padding| padding + 1);
        (first..first + graph.n_tokens).chain(std::iter::repeat_n(0, graph.nodes.len()))
    }
}

impl Encoder {
    /// Layers on the vectors of tokens, and nothing else.
    pub(crate) fn new(shape: &Shape, tokens: Table, layers: Vec<Layer>) -> Self {
        Self {
            shape: shape.clone(),
            tokens,
            positions: None,
            second_text: None,
            biases: None,
            embedding_norm: None,
            layers,
            last_norm: None,
        }
    }

    pub(crate) fn n_tokens(&self) -> usize {
        self.shape.n_tokens
    }

    /// The encoder with all maps ready for products.
    #[must_use]
    pub(crate) fn packed(mut self) -> Encoder {
        self.layers = self.layers.into_par_iter().map(Layer::packed).collect();
        self
    }

    /// The vector of every token of every text, in order: `hidden` values each. Texts are lists of token ids below
    /// [`Encoder::n_tokens`], none longer than the model has positions.
    pub(crate) fn run(&self, texts: &[impl AsRef<[u32]>], about: About) -> Vec<f32> {
        let Shape { hidden, intermediate, n_heads, head_width, .. } = self.shape;
        let (mut states, spans) = self.embeddings(texts, about);
        let longest = spans.iter().map(Range::len).max().unwrap_or(0);
        let biases = self.biases.as_ref().map(|biases| biases.by_distance(longest, n_heads));
        let rotations = Rotations::new(self.layers.iter().map(|layer| &layer.attention), longest, head_width);

        let n = states.len() / hidden;
        let (row_width, context_width) = (self.shape.query_key_value_width(), n_heads * head_width);
        let mut query_key_value = vec![0.0; n * row_width];
        let mut context = vec![0.0; n * context_width];
        let mut inner = vec![0.0; n * intermediate];
        let has_gate = self.layers.iter().any(|layer| layer.feed_forward.gate.is_some());
        let mut gate = vec![0.0; if has_gate { inner.len() } else { 0 }];
        let mut normed = Vec::new();
        let mut scores = Vec::new();
        for (number, layer) in self.layers.iter().enumerate() {
            let adapters = about.adapters.map(|adapters| &adapters.layers[number]);
            let input = layer.attention_norms.input(&states, &mut normed);
            layer.attention.query_key_value.replace(input, &mut query_key_value);
            if let Some(adapters) = adapters {
                adapters.query_key_value.add(input, &mut query_key_value);
            }
            layer.attention.position(&self.shape, &mut query_key_value, &spans, &rotations);
            for (number, span) in spans.iter().enumerate() {
                let graph = about.graphs.get(number).and_then(Option::as_ref);
                let rows = &query_key_value[span.start * row_width..span.end * row_width];
                let context = &mut context[span.start * context_width..span.end * context_width];
                let n_attended = about.n_attended.get(number).copied().unwrap_or(span.len());
                let attended = Attended { n: n_attended, biases: biases.as_ref(), graph };
                layer.attention.attend(&self.shape, rows, &attended, context, &mut scores);
            }
            let adapter = adapters.map(|adapters| &adapters.attention_output);
            let output = &layer.attention.output;
            layer.attention_norms.add(output, adapter, &context, &mut states, &mut normed);

            let FeedForward { inner: first, gate: second, output } = &layer.feed_forward;
            let input = layer.feed_forward_norms.input(&states, &mut normed);
            first.multiply(Output::Replace, input, &mut inner);
            if let Some(adapters) = adapters {
                adapters.inner.add(input, &mut inner);
            }
            self.shape.activation.apply(&mut inner, &first.bias);
            if let Some(second) = second {
                second.replace(input, &mut gate);
                inner.iter_mut().zip(&gate).for_each(|(value, gate)| *value *= gate);
            }
            let adapter = adapters.map(|adapters| &adapters.output);
            layer.feed_forward_norms.add(output, adapter, &inner, &mut states, &mut normed);
        }
        if let Some(norm) = &self.last_norm {
            norm.apply(&mut states);
        }
        states
    }

    /// The vectors with which the first layer begins, and the rows of each text.
    fn embeddings(&self, texts: &[impl AsRef<[u32]>], about: About) -> (Vec<f32>, Vec<Range<usize>>) {
        let hidden = self.shape.hidden;
        let mut states = Vec::new();
        let mut spans: Vec<Range<usize>> = Vec::new();
        for ids in texts.iter().map(AsRef::as_ref) {
            let start = states.len();
            states.resize(start + ids.len() * hidden, 0.0);
            for (id, state) in ids.iter().zip(states[start..].chunks_exact_mut(hidden)) {
                self.tokens.read(*id as usize, state);
            }
            if let Some(adapters) = about.adapters {
                for (id, state) in ids.iter().zip(states[start..].chunks_exact_mut(hidden)) {
                    adapters.add_to_token(*id as usize, state);
                }
            }
            let graph = about.graphs.get(spans.len()).and_then(Option::as_ref);
            if let Some(graph) = graph {
                let (tokens, nodes) = states[start..].split_at_mut(graph.n_tokens * hidden);
                for (node, range) in nodes.chunks_exact_mut(hidden).zip(&graph.nodes) {
                    node.fill(0.0);
                    for token in tokens[range.start * hidden..range.end * hidden].chunks_exact(hidden) {
                        node.iter_mut().zip(token).for_each(|(sum, value)| *sum += value);
                    }
                    node.iter_mut().for_each(|sum| *sum /= range.len().max(1) as f32);
                }
            }
            if let Some(positions) = &self.positions {
                let rows: Vec<usize> = match graph {
                    Some(graph) => positions.rows_before_nodes(graph).collect(),
                    None => positions.rows(ids).collect(),
                };
                for (state, row) in states[start..].chunks_exact_mut(hidden).zip(rows) {
                    add_to_rows(state, &positions.table[row * hidden..][..hidden]);
                }
            }
            if let (Some(second_text), Some(second)) = (&self.second_text, about.seconds.get(spans.len())) {
                let second = states.len().min(start + second * hidden);
                add_to_rows(&mut states[second..], second_text);
            }
            spans.push(start / hidden..states.len() / hidden);
        }
        if let Some(norm) = &self.embedding_norm {
            norm.apply(&mut states);
        }
        (states, spans)
    }
}

impl Layer {
    /// The layer with all maps ready for products.
    pub(crate) fn packed(self) -> Layer {
        let (attention, feed_forward) = (self.attention, self.feed_forward);
        Layer {
            attention: Attention {
                query_key_value: attention.query_key_value.packed(),
                output: attention.output.packed(),
                ..attention
            },
            feed_forward: FeedForward {
                inner: feed_forward.inner.packed(),
                gate: feed_forward.gate.map(Linear::packed),
                output: feed_forward.output.packed(),
            },
            ..self
        }
    }
}

impl Norms {
    /// One before half a layer, of its input.
    pub(crate) fn before(norm: Norm) -> Norms {
        Norms { input: Some(norm), ..Norms::default() }
    }

    /// One after half a layer, of the sum of its input and its output.
    pub(crate) fn after(norm: Norm) -> Norms {
        Norms { sum: Some(norm), ..Norms::default() }
    }

    /// Input of half a layer.
    fn input<'a>(&self, states: &'a [f32], normed: &'a mut Vec<f32>) -> &'a [f32] {
        let Some(norm) = &self.input else { return states };
        normed.clear();
        normed.extend_from_slice(states);
        norm.apply(normed);
        normed
    }

    /// Adds the map of `values`, and that of the adapter, to the vectors of tokens; `added` is scratch space.
    fn add(
        &self,
        map: &Linear,
        adapter: Option<&LowRank>,
        values: &[f32],
        states: &mut [f32],
        added: &mut Vec<f32>,
    ) {
        if self.output.is_none() && self.sum_before.is_none() {
            map.add(values, states);
            if let Some(adapter) = adapter {
                adapter.add(values, states);
            }
        } else {
            added.resize(states.len(), 0.0);
            map.replace(values, added);
            if let Some(adapter) = adapter {
                adapter.add(values, added);
            }
            if let Some(norm) = &self.output {
                norm.apply(added);
            }
            if let Some(norm) = &self.sum_before {
                added.iter_mut().zip(&*states).for_each(|(added, state)| *added += state);
                norm.apply(added);
            }
            states.iter_mut().zip(&*added).for_each(|(state, added)| *state += added);
        }
        if let Some(norm) = &self.sum {
            norm.apply(states);
        }
    }
}

impl Linear {
    /// Reads `NAME.weight` and `NAME.bias`.
    pub(crate) fn new(
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
    pub(crate) fn without_bias(
        weights: &Weights,
        name: &str,
        n_inputs: usize,
        n_outputs: usize,
    ) -> Result<Linear, EmbedError> {
        let weight = match weights.matrix(&format!("{name}.weight"), [n_outputs, n_inputs])? {
            StoredMatrix::Float(weight) => Matrix::Float(transpose(&weight, n_inputs)),
            StoredMatrix::Int8(weight) => Matrix::Int8(weight),
        };
        Ok(Linear { weight, bias: vec![0.0; n_outputs] })
    }

    /// Reads maps whose matrices are stacked in the rows of `NAME.weight`, without biases.
    pub(crate) fn stacked<const N: usize>(
        weights: &Weights,
        name: &str,
        n_inputs: usize,
        n_outputs: [usize; N],
    ) -> Result<[Linear; N], EmbedError> {
        let n_rows: usize = n_outputs.iter().sum();
        let weight = weights.matrix(&format!("{name}.weight"), [n_rows, n_inputs])?;
        let mut start = 0;
        Ok(n_outputs.map(|n_outputs| {
            let rows = start..start + n_outputs;
            start = rows.end;
            let values = rows.start * n_inputs..rows.end * n_inputs;
            let weight = match &weight {
                StoredMatrix::Float(weight) => Matrix::Float(transpose(&weight[values], n_inputs)),
                StoredMatrix::Int8(weight) => Matrix::Int8(Int8Matrix {
                    values: weight.values[values].to_vec(),
                    factors: weight.factors[rows].to_vec(),
                }),
            };
            Linear { weight, bias: vec![0.0; n_outputs] }
        }))
    }

    pub(crate) fn scale(&mut self, factor: f32) {
        let weight = match &mut self.weight {
            Matrix::Float(values) => values,
            Matrix::Int8(matrix) => &mut matrix.factors,
            Matrix::Packed(packed) => &mut packed.factors,
        };
        weight.iter_mut().chain(&mut self.bias).for_each(|value| *value *= factor);
    }

    /// Multiplies the first `n` columns of its output by a number.
    pub(crate) fn scale_first(&mut self, n: usize, factor: f32) {
        let n_outputs = self.n_outputs();
        self.bias[..n].iter_mut().for_each(|value| *value *= factor);
        match &mut self.weight {
            Matrix::Float(values) => {
                let rows = values.chunks_exact_mut(n_outputs);
                rows.flat_map(|row| &mut row[..n]).for_each(|value| *value *= factor);
            }
            Matrix::Int8(Int8Matrix { factors, .. }) | Matrix::Packed(Packed { factors, .. }) => {
                factors[..n].iter_mut().for_each(|value| *value *= factor);
            }
        }
    }

    /// Number of columns that it takes.
    pub(crate) fn n_inputs(&self) -> usize {
        match &self.weight {
            Matrix::Float(values) => values.len() / self.bias.len(),
            Matrix::Int8(matrix) => matrix.n_inputs(),
            Matrix::Packed(packed) => packed.n_inputs(),
        }
    }

    /// Number of columns that it gives.
    pub(crate) fn n_outputs(&self) -> usize {
        self.bias.len()
    }

    /// One map that concatenates the outputs of `parts`, which share their inputs; in 8 bits if all of these are.
    pub(crate) fn side_by_side(parts: impl IntoIterator<Item = Linear>) -> Linear {
        let mut parts: Vec<Linear> = parts.into_iter().collect();
        if parts.iter().any(|part| matches!(part.weight, Matrix::Float(_))) {
            for Linear { weight, .. } in &mut parts {
                if let Matrix::Int8(matrix) = weight {
                    *weight = Matrix::Float(transpose(&matrix.dequantized(), matrix.n_inputs()));
                }
            }
        }
        let mut bias = Vec::new();
        let mut all = Int8Matrix { values: Vec::new(), factors: Vec::new() };
        let mut floats: Vec<(Vec<f32>, usize)> = Vec::new();
        for Linear { weight, bias: own } in parts {
            bias.extend_from_slice(&own);
            match weight {
                Matrix::Float(values) => floats.push((values, own.len())),
                Matrix::Int8(matrix) => {
                    all.values.extend(matrix.values);
                    all.factors.extend(matrix.factors);
                }
                Matrix::Packed(_) => unreachable!("maps are packed last"),
            }
        }
        let Some((first, width)) = floats.first() else {
            return Linear { weight: Matrix::Int8(all), bias };
        };
        let n_inputs = first.len() / width;
        let row =
            |row: usize| floats.iter().flat_map(move |(values, width)| &values[row * width..][..*width]);
        let weight = (0..n_inputs).flat_map(row).copied().collect();
        Linear { weight: Matrix::Float(weight), bias }
    }

    /// The map, ready for products.
    pub(crate) fn packed(self) -> Linear {
        match self.weight {
            Matrix::Int8(matrix) => Linear { weight: Matrix::Packed(matrix.pack()), bias: self.bias },
            _ => self,
        }
    }

    /// Maps every row of `input` to a row of `output`.
    pub(crate) fn replace(&self, input: &[f32], output: &mut [f32]) {
        output.chunks_exact_mut(self.bias.len()).for_each(|row| row.copy_from_slice(&self.bias));
        self.multiply(Output::Add, input, output);
    }

    pub(crate) fn has_bias(&self) -> bool {
        self.bias.iter().any(|value| *value != 0.0)
    }

    /// Adds the map of every row of `input` to a row of `output`.
    pub(crate) fn add(&self, input: &[f32], output: &mut [f32]) {
        add_to_rows(output, &self.bias);
        self.multiply(Output::Add, input, output);
    }

    /// The map without its bias.
    fn multiply(&self, mode: Output, input: &[f32], output: &mut [f32]) {
        let n_outputs = self.bias.len();
        let weight = match &self.weight {
            Matrix::Float(weight) => weight,
            Matrix::Packed(packed) => return packed.multiply(mode, input, output),
            Matrix::Int8(_) => unreachable!("maps are packed before they are used"),
        };
        let n_inputs = weight.len() / n_outputs;
        let n_rows = input.len() / n_inputs;
        let input = Strided { values: input, row_stride: n_inputs, column_stride: 1 };
        let weight = Strided { values: weight, row_stride: n_outputs, column_stride: 1 };
        multiply(mode, output, n_outputs, input, weight, [n_rows, n_outputs, n_inputs]);
    }
}

impl Norm {
    /// Reads the scale and shift `NAME.weight` and `NAME.bias`.
    pub(crate) fn layer(weights: &Weights, name: &str, shape: &Shape) -> Result<Norm, EmbedError> {
        let shift = weights.get(&format!("{name}.bias"), &[shape.hidden])?;
        Ok(Norm { shift: Some(shift), ..Norm::root_mean_square(weights, name, shape)? })
    }

    /// Reads the scale `NAME.weight` of a normalization of mean and variance that has no shift.
    pub(crate) fn layer_without_shift(
        weights: &Weights,
        name: &str,
        shape: &Shape,
    ) -> Result<Norm, EmbedError> {
        let norm = Norm::root_mean_square(weights, name, shape)?;
        Ok(Norm { shift: Some(vec![0.0; shape.hidden]), ..norm })
    }

    /// Reads the scale `NAME.weight` of a normalization that leaves the mean.
    pub(crate) fn root_mean_square(weights: &Weights, name: &str, shape: &Shape) -> Result<Norm, EmbedError> {
        let scale = weights.get(&format!("{name}.weight"), &[shape.hidden])?;
        Ok(Norm { scale, shift: None, epsilon: shape.epsilon })
    }

    /// The same for the query or key of a head.
    pub(crate) fn for_heads(weights: &Weights, name: &str, shape: &Shape) -> Result<Norm, EmbedError> {
        let scale = weights.get(&format!("{name}.weight"), &[shape.head_width])?;
        Ok(Norm { scale, shift: None, epsilon: shape.epsilon })
    }

    /// The same with another scale.
    pub(crate) fn with_scale(mut self, change: impl Fn(f32) -> f32) -> Norm {
        self.scale.iter_mut().for_each(|scale| *scale = change(*scale));
        self
    }

    /// The same with a result that is multiplied by a number.
    pub(crate) fn times(mut self, factor: f32) -> Norm {
        self.scale.iter_mut().chain(self.shift.iter_mut().flatten()).for_each(|value| *value *= factor);
        self
    }

    /// Normalizes rows that are as long as the scale.
    pub(crate) fn apply(&self, values: &mut [f32]) {
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
