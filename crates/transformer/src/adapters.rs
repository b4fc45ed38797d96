//! Adapters of a task for the weights of an encoder: products of two thin matrices (Hu et al., 2022). They are
//! multiplied with the input one after the other, so that all tasks share the weights.

use super::numeric::{Output, Strided, multiply};

pub(crate) struct Adapters {
    /// A row of `rank` values for each token id.
    pub token_rows: Vec<f32>,
    /// Weights of the product's second matrix: `rank` rows of a token's vector.
    pub token_columns: Vec<f32>,
    /// Added to the vector of every token.
    pub constant: Vec<f32>,
    /// Rank of all products.
    pub rank: usize,
    pub layers: Vec<LayerAdapters>,
}

pub(crate) struct LayerAdapters {
    /// To that to queries, keys and values.
    pub query_key_value: LowRank,
    /// To that after attention.
    pub attention_output: LowRank,
    /// To the first of the feed-forward block.
    pub inner: LowRank,
    /// To the last.
    pub output: LowRank,
}

/// x ↦ outward · (inward · x).
pub(crate) struct LowRank {
    /// `rank` rows, one column per input.
    pub inward: Vec<f32>,
    /// One row per output, `rank` columns.
    pub outward: Vec<f32>,
    /// Columns between the two.
    pub rank: usize,
}

impl Adapters {
    /// Adds the task's summand to the vector of a token.
    pub(crate) fn add_to_token(&self, id: usize, vector: &mut [f32]) {
        let factors = &self.token_rows[id * self.rank..][..self.rank];
        vector.iter_mut().zip(&self.constant).for_each(|(value, constant)| *value += constant);
        for (factor, row) in factors.iter().zip(self.token_columns.chunks_exact(vector.len())) {
            vector.iter_mut().zip(row).for_each(|(value, column)| *value += factor * column);
        }
    }
}

impl LowRank {
    /// Adds the map of every row of `input` to a row of `output`.
    pub(crate) fn add(&self, input: &[f32], output: &mut [f32]) {
        let (n_inputs, n_outputs) = (self.inward.len() / self.rank, self.outward.len() / self.rank);
        let n = input.len() / n_inputs;
        let mut between = vec![0.0; n * self.rank];
        let rows = |values, row_stride| Strided { values, row_stride, column_stride: 1 };
        let transposed = |values, column_stride| Strided { values, row_stride: 1, column_stride };
        let inward = transposed(&self.inward[..], n_inputs);
        multiply(
            Output::Replace,
            &mut between,
            self.rank,
            rows(input, n_inputs),
            inward,
            [n, self.rank, n_inputs],
        );
        let outward = transposed(&self.outward[..], self.rank);
        let sizes = [n, n_outputs, self.rank];
        multiply(Output::Add, output, n_outputs, rows(&between, self.rank), outward, sizes);
    }
}
