//! Dense search: an exact scan over int8 vectors.

use std::path::Path;

use quarry_embed::Vectors;
use rayon::prelude::*;
use simsimd::SpatialSimilarity;

use crate::Error;
use crate::storage::Column;

/// Rows that one thread scans at a time: enough work to pay for handing it out.
const ROWS_PER_TASK: usize = 8192;

const VALUES_FILE: &str = "vectors.i8";
const FACTORS_FILE: &str = "factors.f32";

/// Row vectors with 8 bits a value. Each row has its own scale, its greatest value being 127, and a factor
/// that undoes it, so that a dot product of L2-normalised rows comes out within about 0.01.
pub struct VectorMatrix {
    dimension: usize,
    /// Row-major, `dimension` a row.
    values: Column<i8>,
    /// What a row's values are multiplied with; 0 for a row of zeros.
    factors: Column<f32>,
}

impl VectorMatrix {
    /// Quantises vectors in memory.
    #[must_use]
    pub fn in_memory(vectors: &Vectors) -> Self {
        let mut rows = Rows::new(vectors.dimension);
        vectors.values.chunks_exact(vectors.dimension.max(1)).for_each(|row| rows.push(row));
        Self { dimension: rows.dimension, values: rows.values.into(), factors: rows.factors.into() }
    }

    /// Maps the matrix that [`Rows::write`] wrote.
    ///
    /// # Errors
    /// When the folder does not hold `n_rows` rows of this dimension.
    pub(crate) fn open(folder: &Path, n_rows: usize, dimension: usize) -> Result<Self, Error> {
        Ok(Self {
            dimension,
            values: Column::open(&folder.join(VALUES_FILE), n_rows * dimension)?,
            factors: Column::open(&folder.join(FACTORS_FILE), n_rows)?,
        })
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.factors.len()
    }

    /// True without rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.factors.is_empty()
    }

    /// Dot product of every row with `query`, in row order: for L2-normalised vectors their cosine (-1 to 1,
    /// greater is closer), 0 for a row of zeros.
    ///
    /// # Panics
    /// When `query` has another dimension.
    #[must_use]
    pub fn similarities(&self, query: &[f32]) -> Vec<f32> {
        assert_eq!(query.len(), self.dimension, "a query is of the dimension of the matrix");
        let mut quantised = Vec::with_capacity(self.dimension);
        let query_factor = quantise(query, &mut quantised);
        let mut similarities = vec![0.0; self.len()];
        similarities.par_chunks_mut(ROWS_PER_TASK).enumerate().for_each(|(task, chunk)| {
            let first = task * ROWS_PER_TASK;
            for (row, similarity) in (first..).zip(chunk) {
                let dot = i8::dot(&quantised, self.row(row)).unwrap_or_default();
                *similarity = dot as f32 * query_factor * self.factors[row];
            }
        });
        similarities
    }

    /// Dot product of two rows.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    pub fn similarity(&self, a: usize, b: usize) -> f32 {
        let dot = i8::dot(self.row(a), self.row(b)).unwrap_or_default();
        dot as f32 * self.factors[a] * self.factors[b]
    }

    /// A row as it was before its values were cut to 8 bits, within the width of a step.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    pub fn vector(&self, row: usize) -> Vec<f32> {
        self.row(row).iter().map(|&value| f32::from(value) * self.factors[row]).collect()
    }

    fn row(&self, row: usize) -> &[i8] {
        &self.values[row * self.dimension..(row + 1) * self.dimension]
    }
}

/// A matrix that grows, to be written.
pub(crate) struct Rows {
    dimension: usize,
    values: Vec<i8>,
    factors: Vec<f32>,
}

impl Rows {
    pub fn new(dimension: usize) -> Self {
        Self { dimension, values: Vec::new(), factors: Vec::new() }
    }

    /// Appends a row, quantised.
    pub fn push(&mut self, row: &[f32]) {
        self.factors.push(quantise(row, &mut self.values));
    }

    /// Appends a row of another matrix as it is.
    pub fn push_quantised(&mut self, matrix: &VectorMatrix, row: usize) {
        self.values.extend_from_slice(matrix.row(row));
        self.factors.push(matrix.factors[row]);
    }

    /// Writes the matrix into a folder.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        Column::write(&folder.join(VALUES_FILE), &self.values)?;
        Column::write(&folder.join(FACTORS_FILE), &self.factors)
    }
}

/// Appends the values of a row in steps of its greatest / 127, and returns the step: what they must be multiplied
/// with to give the row again.
fn quantise(row: &[f32], out: &mut Vec<i8>) -> f32 {
    let greatest = row.iter().fold(0.0_f32, |greatest, value| greatest.max(value.abs()));
    if !greatest.is_normal() {
        out.extend(row.iter().map(|_| 0));
        return 0.0;
    }
    let step = greatest / 127.0;
    // At most ±127 by construction; a NaN becomes 0.
    out.extend(row.iter().map(|value| (value / step).round() as i8));
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of pseudo-random numbers, L2-normalised.
    fn random(n_rows: usize, dimension: usize) -> Vectors {
        let mut state = 7_u64;
        let mut values: Vec<f32> = Vec::new();
        for _ in 0..n_rows {
            let row: Vec<f32> = (0..dimension)
                .map(|_| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 40) as f32 / (1 << 24) as f32 - 0.5
                })
                .collect();
            let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt();
            values.extend(row.iter().map(|value| value / norm));
        }
        Vectors { dimension, values }
    }

    fn check_close(vectors: &Vectors, similarities: &[f32], query: &[f32]) {
        for (row, found) in vectors.values.chunks(vectors.dimension).zip(similarities) {
            let exact: f32 = row.iter().zip(query).map(|(a, b)| a * b).sum();
            assert!((found - exact).abs() < 0.01, "{found} {exact}");
        }
    }

    #[test]
    fn eight_bits_are_close_to_the_exact_product() {
        // More rows than a task takes, a dimension that no SIMD register divides.
        let vectors = random(2 * ROWS_PER_TASK + 3, 67);
        let query = random(1, 67).values;
        let similarities = VectorMatrix::in_memory(&vectors).similarities(&query);
        assert_eq!(similarities.len(), 2 * ROWS_PER_TASK + 3);
        check_close(&vectors, &similarities, &query);
    }

    #[test]
    fn the_file_and_memory_agree_and_rows_can_be_copied() {
        let folder = tempfile::tempdir().unwrap();
        let vectors = random(5, 32);
        let memory = VectorMatrix::in_memory(&vectors);
        let mut rows = Rows::new(32);
        (0..5).for_each(|row| rows.push_quantised(&memory, row));
        rows.write(folder.path()).unwrap();
        let mapped = VectorMatrix::open(folder.path(), 5, 32).unwrap();
        let query = &vectors.values[32..64];
        assert_eq!(mapped.similarities(query), memory.similarities(query));
        assert!(VectorMatrix::open(folder.path(), 4, 32).is_err());
    }

    #[test]
    fn rows_without_direction_are_0_from_everything() {
        let vectors = Vectors { dimension: 2, values: vec![0.0, 0.0, f32::NAN, f32::NAN, 0.6, 0.8] };
        let similarities = VectorMatrix::in_memory(&vectors).similarities(&[0.6, 0.8]);
        assert_eq!(similarities[..2], [0.0, 0.0]);
        assert!((similarities[2] - 1.0).abs() < 0.01);
        assert_eq!(VectorMatrix::in_memory(&vectors).similarities(&[0.0, 0.0]), [0.0; 3]);
    }
}
