//! An embedding table and its optimizer.

use rayon::prelude::*;

use super::contrastive::dot;
use super::examples::Bag;

/// Adam's decay of the mean gradient, of the mean square, and the guard against division by zero
/// (Kingma and Ba 2015).
const BETA_1: f32 = 0.9;
const BETA_2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// A table of token vectors. Each row holds the vector and, beside it so that one cache miss brings all three,
/// Adam's means of its gradient and of its gradient's square. Rows that no text of a batch names are not
/// touched (lazy Adam).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    /// Columns of a vector.
    pub dimension: usize,
    /// `3 * dimension` values a row.
    pub values: Vec<f32>,
    /// Weight of each position bucket with Adam's two means; empty if position does not count.
    pub positions: Vec<[f32; 3]>,
}

impl Table {
    /// A table of small random vectors.
    pub(super) fn new(n_rows: usize, dimension: usize, n_positions: usize, seed: u64) -> Table {
        let mut random = fastrand::Rng::with_seed(seed);
        let spread = 1.0 / (dimension as f32).sqrt();
        let mut values = vec![0.0; n_rows * dimension * 3];
        for row in values.chunks_exact_mut(dimension * 3) {
            row[..dimension].iter_mut().for_each(|x| *x = (random.f32() * 2.0 - 1.0) * spread);
        }
        Table { dimension, values, positions: vec![[1.0, 0.0, 0.0]; n_positions] }
    }

    /// A table of these rows and weights of positions, from which nothing was learned yet.
    pub(super) fn from_rows(rows: &[f32], dimension: usize, positions: &[f32]) -> Table {
        let mut values = vec![0.0; rows.len() * 3];
        for (to, from) in values.chunks_exact_mut(dimension * 3).zip(rows.chunks_exact(dimension)) {
            to[..dimension].copy_from_slice(from);
        }
        Table { dimension, values, positions: positions.iter().map(|weight| [*weight, 0.0, 0.0]).collect() }
    }

    pub(super) fn n_rows(&self) -> usize {
        self.values.len() / (self.dimension * 3)
    }

    /// The vectors alone, row-major.
    pub(super) fn vectors(&self) -> Vec<f32> {
        self.values.chunks_exact(self.dimension * 3).flat_map(|row| &row[..self.dimension]).copied().collect()
    }

    /// Returns whether all its weights are numbers.
    pub(super) fn is_finite(&self) -> bool {
        let numbers = self.values.par_iter().chain(self.positions.as_flattened());
        numbers.all(|value| value.is_finite())
    }

    fn vector(&self, token: u32) -> &[f32] {
        &self.values[token as usize * self.dimension * 3..][..self.dimension]
    }

    fn position_weight(&self, bucket: u8) -> f32 {
        self.positions.get(usize::from(bucket)).map_or(1.0, |position| position[0])
    }

    /// The sum of each row's token vectors, weighted by position: `bag.len()` rows of `dimension` values.
    pub(super) fn sums(&self, bag: &Bag) -> Vec<f32> {
        let mut sums = vec![0.0; bag.len() * self.dimension];
        sums.par_chunks_exact_mut(self.dimension).enumerate().with_min_len(32).for_each(|(row, sum)| {
            for at in bag.row(row) {
                let weight = self.position_weight(bag.buckets[at]);
                let vector = self.vector(bag.tokens[at]);
                sum.iter_mut().zip(vector).for_each(|(sum, x)| *sum += weight * x);
            }
        });
        sums
    }

    /// Moves the vectors against the gradient of the loss by the rows of [`Table::sums`]. `step` counts from 1.
    pub(super) fn learn(&mut self, bag: &Bag, gradient: &[f32], rate: f32, step: u64) {
        let dimension = self.dimension;
        let gradient_of = |row: u32| &gradient[row as usize * dimension..][..dimension];
        let position_gradient = self.position_gradient(bag, gradient_of);

        let mut entries: Vec<(u32, u32)> = bag.tokens.iter().copied().zip(0u32..).collect();
        entries.par_sort_unstable();
        let rows = touched_rows(&mut self.values, dimension * 3, &entries);
        let positions = &self.positions;
        let weight = |bucket: u8| positions.get(usize::from(bucket)).map_or(1.0, |position| position[0]);
        rows.into_par_iter().with_min_len(64).for_each(|(row, entries)| {
            let mut sum = vec![0.0f32; dimension];
            for &(_, entry) in entries {
                let weight = weight(bag.buckets[entry as usize]);
                let gradient = gradient_of(bag.rows[entry as usize]);
                sum.iter_mut().zip(gradient).for_each(|(sum, x)| *sum += weight * x);
            }
            let (vector, means) = row.split_at_mut(dimension);
            let (mean, square) = means.split_at_mut(dimension);
            for (((x, mean), square), gradient) in vector.iter_mut().zip(mean).zip(square).zip(&sum) {
                adam(x, mean, square, *gradient, rate, step);
            }
        });
        for ([weight, mean, square], gradient) in self.positions.iter_mut().zip(position_gradient) {
            adam(weight, mean, square, gradient, rate, step);
        }
    }

    fn position_gradient<'a>(&self, bag: &Bag, gradient_of: impl Fn(u32) -> &'a [f32] + Sync) -> Vec<f32> {
        if self.positions.is_empty() {
            return Vec::new();
        }
        // Fixed chunks, summed in order, so that the result does not depend on who computes which.
        let chunk = 128;
        let parts: Vec<Vec<f32>> = (0..bag.len().div_ceil(chunk))
            .into_par_iter()
            .map(|part| {
                let mut sums = vec![0.0; self.positions.len()];
                for row in part * chunk..((part + 1) * chunk).min(bag.len()) {
                    let gradient = gradient_of(row as u32);
                    for at in bag.row(row) {
                        if let Some(sum) = sums.get_mut(usize::from(bag.buckets[at])) {
                            *sum += dot(self.vector(bag.tokens[at]), gradient);
                        }
                    }
                }
                sums
            })
            .collect();
        let mut total = vec![0.0; self.positions.len()];
        for part in parts {
            total.iter_mut().zip(part).for_each(|(total, x)| *total += x);
        }
        total
    }
}

fn adam(x: &mut f32, mean: &mut f32, square: &mut f32, gradient: f32, rate: f32, step: u64) {
    *mean = BETA_1 * *mean + (1.0 - BETA_1) * gradient;
    *square = BETA_2 * *square + (1.0 - BETA_2) * gradient * gradient;
    let step = step.min(100_000) as i32;
    let mean = *mean / (1.0 - BETA_1.powi(step));
    let square = *square / (1.0 - BETA_2.powi(step));
    *x -= rate * mean / (square.sqrt() + EPSILON);
}

type TouchedRow<'a, 'b> = (&'a mut [f32], &'b [(u32, u32)]);

/// The rows that entries sorted by token name, each with its entries.
fn touched_rows<'a, 'b>(
    mut values: &'a mut [f32],
    stride: usize,
    entries: &'b [(u32, u32)],
) -> Vec<TouchedRow<'a, 'b>> {
    let mut rows = Vec::new();
    let mut next = 0;
    for entries in entries.chunk_by(|a, b| a.0 == b.0) {
        let token = entries[0].0 as usize;
        let (row, rest) = values[(token - next) * stride..].split_at_mut(stride);
        rows.push((row, entries));
        values = rest;
        next = token + 1;
    }
    rows
}
