//! Computation of a text's vector from its tokens' vectors: pooling, and the steps after it.

use super::encoder::{Linear, Norm};
use super::numeric::Activation;

/// Pooling of the vectors of a text's tokens into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pooling {
    /// The first of them.
    Cls,
    /// The maximum of each column.
    Max,
    Mean,
    /// Their sum, divided by the root of their number.
    MeanSqrtLength,
    /// Their mean, weighted by their positions, which count from 1.
    WeightedMean,
    /// The last of them.
    LastToken,
    /// None: each of them is a row of its own.
    None,
}

/// The names of poolings in configurations, in the order in which they are concatenated.
pub(crate) const POOLINGS: [(&str, Pooling); 6] = [
    ("cls", Pooling::Cls),
    ("max", Pooling::Max),
    ("mean", Pooling::Mean),
    ("mean_sqrt_len_tokens", Pooling::MeanSqrtLength),
    ("weightedmean", Pooling::WeightedMean),
    ("lasttoken", Pooling::LastToken),
];

pub(crate) fn pooling(name: &str) -> Option<Pooling> {
    POOLINGS.iter().find(|(known, _)| *known == name).map(|(_, pooling)| *pooling)
}

/// A linear map of the pooled vector, and a function of its result.
pub(crate) struct Dense {
    linear: Linear,
    function: DenseFunction,
    residual: Option<Residual>,
}

/// Term added to the result of a [`Dense`].
enum Residual {
    /// Its input.
    Input,
    /// A linear map of that.
    Map(Linear),
}

/// The function after a linear map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DenseFunction {
    /// None.
    Identity,
    Tanh,
    /// An activation that encoders also use.
    Activation(Activation),
}

impl Dense {
    /// A linear map without a function.
    pub(crate) fn linear(linear: Linear) -> Dense {
        Dense::new(linear, DenseFunction::Identity)
    }

    pub(crate) fn new(linear: Linear, function: DenseFunction) -> Dense {
        Dense { linear: linear.packed(), function, residual: None }
    }

    /// Adds its input, or a map of it, to the result.
    pub(crate) fn added_to(self, map: Option<Linear>) -> Dense {
        let residual = map.map_or(Residual::Input, |map| Residual::Map(map.packed()));
        Dense { residual: Some(residual), ..self }
    }

    /// Columns of the result.
    fn n_outputs(&self) -> usize {
        self.linear.n_outputs()
    }

    /// Returns whether it only multiplies by a matrix.
    pub(crate) fn is_matrix(&self) -> bool {
        self.function == DenseFunction::Identity && self.residual.is_none() && !self.linear.has_bias()
    }

    fn apply(&self, rows: &[f32]) -> Vec<f32> {
        let n_inputs = self.linear.n_inputs();
        let mut output = vec![0.0; rows.len() / n_inputs * self.n_outputs()];
        self.linear.replace(rows, &mut output);
        match self.function {
            DenseFunction::Identity => {}
            DenseFunction::Tanh => output.iter_mut().for_each(|value| *value = value.tanh()),
            DenseFunction::Activation(function) => function.apply(&mut output, &vec![0.0; self.n_outputs()]),
        }
        match &self.residual {
            None => {}
            Some(Residual::Input) => output.iter_mut().zip(rows).for_each(|(value, input)| *value += input),
            Some(Residual::Map(map)) => map.add(rows, &mut output),
        }
        output
    }
}

#[expect(clippy::large_enum_variant, reason = "a model has few steps")]
pub(crate) enum Step {
    Dense(Dense),
    /// A normalization with weights.
    Norm(Norm),
    Normalize,
}

/// Computation of a text's vector from those of its tokens.
pub(crate) struct Head {
    /// Columns of a token's vector.
    pub hidden: usize,
    /// Poolings; several are concatenated.
    pub poolings: Vec<Pooling>,
    pub include_prompt: bool,
    pub steps: Vec<Step>,
    /// Number of columns to keep of the result, which is normalized again.
    pub truncate: Option<usize>,
    /// If true, the result is scaled to length 1 after the steps, for models that are compared by cosine.
    pub normalize: bool,
}

impl Head {
    /// Poolings of an encoder with `hidden` columns, without further steps.
    pub(crate) fn new(hidden: usize, poolings: Vec<Pooling>) -> Head {
        Head { hidden, poolings, include_prompt: true, steps: Vec::new(), truncate: None, normalize: true }
    }

    /// Columns of the result.
    pub(crate) fn dimension(&self) -> usize {
        self.truncate.unwrap_or_else(|| self.full_dimension())
    }

    /// Columns before truncation.
    pub(crate) fn full_dimension(&self) -> usize {
        let dense = |step: &Step| if let Step::Dense(dense) = step { Some(dense.n_outputs()) } else { None };
        self.steps.iter().rev().find_map(dense).unwrap_or(self.hidden * self.poolings.len())
    }

    /// One row for each text, or for each token without pooling. `lengths` has the number of tokens of each text;
    /// the input contains the vectors of all these tokens. The first `n_prompt` tokens of each text belong to the
    /// prompt.
    pub(crate) fn apply(
        &self,
        lengths: impl Iterator<Item = usize>,
        n_prompt: usize,
        states: &[f32],
    ) -> Vec<f32> {
        let mut rows = Vec::new();
        let mut rest = states;
        for length in lengths {
            let (text, after) = rest.split_at(length * self.hidden);
            rest = after;
            let skipped = if self.include_prompt { 0 } else { n_prompt.min(length) };
            if self.poolings == [Pooling::None] {
                rows.extend_from_slice(text);
                continue;
            }
            for pooling in &self.poolings {
                let start = rows.len();
                rows.resize(start + self.hidden, 0.0);
                pool(*pooling, text, skipped, &mut rows[start..]);
            }
        }
        let mut n_columns = self.hidden * self.poolings.len();
        for step in &self.steps {
            match step {
                Step::Dense(dense) => {
                    rows = dense.apply(&rows);
                    n_columns = dense.n_outputs();
                }
                Step::Norm(norm) => norm.apply(&mut rows),
                Step::Normalize => normalize_rows(&mut rows, n_columns),
            }
        }
        if let Some(n_kept) = self.truncate {
            rows = rows.chunks_exact(self.full_dimension()).flat_map(|row| &row[..n_kept]).copied().collect();
        }
        let normalizes = matches!(self.steps.last(), Some(Step::Normalize));
        if self.normalize || (normalizes && self.truncate.is_some()) {
            normalize_rows(&mut rows, self.dimension());
        }
        rows
    }
}

fn normalize_rows(rows: &mut [f32], n_columns: usize) {
    rows.chunks_exact_mut(n_columns).for_each(quarry_embed::normalize);
}

/// Pools the tokens from `skipped` on into `row`, which contains zeros; without tokens, it is left unchanged.
fn pool(pooling: Pooling, states: &[f32], skipped: usize, row: &mut [f32]) {
    let hidden = row.len();
    let n = states.len() / hidden;
    if pooling == Pooling::Cls {
        // The first token is not part of the prompt.
        if n > 0 {
            row.copy_from_slice(&states[..hidden]);
        }
        return;
    }
    if n <= skipped {
        return;
    }
    if pooling == Pooling::LastToken {
        row.copy_from_slice(&states[(n - 1) * hidden..]);
        return;
    }
    if pooling == Pooling::Max {
        row.fill(f32::NEG_INFINITY);
    }
    for (index, state) in states.chunks_exact(hidden).enumerate().skip(skipped) {
        let weight = if pooling == Pooling::WeightedMean { (index + 1) as f32 } else { 1.0 };
        for (value, state) in row.iter_mut().zip(state) {
            *value = if pooling == Pooling::Max { value.max(*state) } else { *value + weight * state };
        }
    }
    let divisor = match pooling {
        Pooling::Mean => (n - skipped) as f32,
        Pooling::MeanSqrtLength => ((n - skipped) as f32).sqrt(),
        Pooling::WeightedMean => (skipped + 1..=n).sum::<usize>() as f32,
        _ => return,
    };
    row.iter_mut().for_each(|value| *value /= divisor);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(poolings: &[Pooling]) -> Head {
        let mut head = Head::new(2, poolings.to_vec());
        head.steps.push(Step::Normalize);
        head
    }

    #[test]
    fn pooling_of_texts_of_unequal_length() {
        let states = [3.0, 0.0, 0.0, 4.0, 0.0, -2.0];
        let pooled = |pooling| head(&[pooling]).apply([2, 0, 1].into_iter(), 0, &states);
        assert_eq!(pooled(Pooling::Mean), [0.6, 0.8, 0.0, 0.0, 0.0, -1.0]);
        assert_eq!(pooled(Pooling::Max), [0.6, 0.8, 0.0, 0.0, 0.0, -1.0]);
        assert_eq!(pooled(Pooling::Cls), [1.0, 0.0, 0.0, 0.0, 0.0, -1.0]);
        assert_eq!(pooled(Pooling::LastToken), [0.0, 1.0, 0.0, 0.0, 0.0, -1.0]);
    }

    #[test]
    fn raw_vectors_keep_their_length_and_several_poolings_stand_side_by_side() {
        let mut head = head(&[Pooling::Cls, Pooling::Mean, Pooling::MeanSqrtLength, Pooling::WeightedMean]);
        head.steps.clear();
        head.normalize = false;
        let row = head.apply([4].into_iter(), 0, &[4.0, 0.0, 4.0, 0.0, 4.0, 0.0, 4.0, 10.0]);
        assert_eq!(row, [4.0, 0.0, 4.0, 2.5, 8.0, 5.0, 4.0, 4.0]);
        head.truncate = Some(3);
        assert_eq!(head.apply([1].into_iter(), 0, &[4.0, 0.0]), [4.0, 0.0, 4.0]);
    }

    #[test]
    fn tokens_of_the_prompt_are_left_out_on_request() {
        let mut head = head(&[Pooling::Mean, Pooling::WeightedMean, Pooling::Max]);
        head.steps.clear();
        head.normalize = false;
        head.include_prompt = false;
        let row = head.apply([3].into_iter(), 1, &[9.0, 9.0, 1.0, 5.0, 6.0, 0.0]);
        assert_eq!(row, [3.5, 2.5, 4.0, 2.0, 6.0, 5.0]);
        assert_eq!(head.apply([1].into_iter(), 1, &[9.0, 9.0]), [0.0; 6]);
    }
}
