//! Dense search: an exact scan over int8 vectors.

pub(crate) mod embedding_text;
pub(crate) mod passages;

use std::sync::Arc;

use quarry_embed::Vectors;
use quarry_files::Directory;
use rayon::prelude::*;
use simsimd::SpatialSimilarity;

use crate::Error;
use crate::storage::column::Column;
use crate::storage::segments::Segment;
use crate::storage::stored_file::{StoredFile, replace_file};
use crate::storage::table::{Numbering, PartUnits};

/// Rows per task: enough work to outweigh the cost of distributing it.
const ROWS_PER_TASK: usize = 8192;

/// Row vectors with 8 bits per value. Each row is scaled so that its maximum is 127, and has a factor that undoes the
/// scaling, so a dot product of L2-normalized rows is accurate to about 0.01.
pub struct VectorMatrix {
    dimension: usize,
    /// Row-major, `dimension` values per row.
    values: Column<i8>,
    /// Factor of each row's values; 0 for a row of zeros, NaN for a missing row.
    factors: Column<f32>,
}

/// The vectors of the units of an index, one matrix for each part.
pub(crate) struct UnitVectors {
    pub parts: Vec<Segment<VectorMatrix>>,
    pub numbering: Arc<Numbering>,
}

impl UnitVectors {
    /// [`VectorMatrix::similarities`] of all units.
    ///
    /// # Errors
    /// When a part cannot be opened.
    pub fn similarities(&self, query: &[f32]) -> Result<Vec<f32>, Error> {
        let mut similarities = vec![0.0; self.numbering.n_units];
        for (part, units) in self.parts.iter().zip(&self.numbering.parts) {
            let part = part.get()?;
            match units {
                PartUnits::Run(units) => part.scan(query, &mut similarities[units.clone()]),
                PartUnits::Each(_) => {
                    for (row, similarity) in part.similarities(query).into_iter().enumerate() {
                        if let Some(unit) = units.unit(row) {
                            similarities[unit] = similarity;
                        }
                    }
                }
            }
        }
        Ok(similarities)
    }

    /// [`VectorMatrix::vector`] of the unit in a row of a part; zeros if it has none.
    ///
    /// # Errors
    /// When the part cannot be opened.
    pub fn vector(&self, (part, row): (usize, usize)) -> Result<Vec<f32>, Error> {
        let part = self.parts[part].get()?;
        Ok(if part.has_row(row) { part.vector(row) } else { vec![0.0; part.dimension] })
    }

    /// The factor and the values of the unit in a row of a part; none if it has no vector.
    ///
    /// # Errors
    /// When the part cannot be opened.
    pub fn quantized(&self, (part, row): (usize, usize)) -> Result<Option<(f32, Vec<i8>)>, Error> {
        let part = self.parts[part].get()?;
        Ok(part.has_row(row).then(|| (part.factors[row], part.row(row).to_vec())))
    }

    /// Dot product of the vectors of two units (part and row); 0 if one has none.
    ///
    /// # Errors
    /// When a part cannot be opened.
    pub fn similarity(&self, a: (usize, usize), b: (usize, usize)) -> Result<f32, Error> {
        let (of_a, of_b) = (self.parts[a.0].get()?, self.parts[b.0].get()?);
        if !(of_a.has_row(a.1) && of_b.has_row(b.1)) {
            return Ok(0.0);
        }
        let dot = i8::dot(of_a.row(a.1), of_b.row(b.1)).unwrap_or_default();
        Ok(dot as f32 * of_a.factors[a.1] * of_b.factors[b.1])
    }
}

impl VectorMatrix {
    /// Quantizes vectors in memory.
    pub fn in_memory(vectors: &Vectors) -> Self {
        let mut rows = Rows::missing(vectors.dimension, vectors.values.len() / vectors.dimension.max(1));
        let values = vectors.values.chunks_exact(vectors.dimension.max(1));
        values.enumerate().for_each(|(row, values)| rows.set(row, values));
        rows.into_matrix()
    }

    /// Maps and verifies the matrix that [`Rows::write`] wrote.
    ///
    /// # Errors
    /// When the file is damaged, or does not contain `n_rows` rows.
    pub(crate) fn open(directory: &Directory, file: &StoredFile, n_rows: usize) -> Result<Self, Error> {
        let file = file.map(directory)?;
        let (bytes, n_factor_bytes) = (file.len(), n_rows * size_of::<f32>());
        let dimension = bytes.saturating_sub(n_factor_bytes) / n_rows.max(1);
        if bytes != n_factor_bytes + n_rows * dimension {
            return Err(Error::corrupt(file.path(), format!("expected {n_rows} rows, found {bytes} bytes")));
        }
        Ok(Self {
            dimension,
            factors: Column::part_of(&file, 0, n_rows)?,
            values: Column::part_of(&file, n_factor_bytes, n_rows * dimension)?,
        })
    }

    /// Number of columns.
    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns whether a row has a vector.
    pub(crate) fn has_row(&self, row: usize) -> bool {
        !self.factors[row].is_nan()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.factors.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.factors.is_empty()
    }

    /// Dot product of every row with `query`, in row order: for L2-normalized vectors their cosine (-1 to 1, larger
    /// is closer), 0 for a row of zeros.
    ///
    /// # Panics
    /// When `query` has another dimension.
    pub fn similarities(&self, query: &[f32]) -> Vec<f32> {
        let mut similarities = vec![0.0; self.len()];
        self.scan(query, &mut similarities);
        similarities
    }

    /// [`similarities`](Self::similarities) into a slice with an element for each row.
    fn scan(&self, query: &[f32], similarities: &mut [f32]) {
        assert_eq!(query.len(), self.dimension, "a query is of the dimension of the matrix");
        let mut quantized = Vec::with_capacity(self.dimension);
        let query_factor = quantize(query, &mut quantized);
        let (values, factors) = (&*self.values, &*self.factors);
        similarities.par_chunks_mut(ROWS_PER_TASK).enumerate().for_each(|(task, chunk)| {
            let rows = task * ROWS_PER_TASK..task * ROWS_PER_TASK + chunk.len();
            let values = values[rows.start * self.dimension..rows.end * self.dimension]
                .chunks_exact(self.dimension.max(1));
            for ((similarity, factor), row) in chunk.iter_mut().zip(&factors[rows]).zip(values) {
                let dot = i8::dot(&quantized, row).unwrap_or_default();
                let cosine = dot as f32 * query_factor * factor;
                *similarity = if cosine.is_nan() { 0.0 } else { cosine };
            }
        });
    }

    /// A row before quantization to 8 bits, within the width of a step.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn vector(&self, row: usize) -> Vec<f32> {
        self.row(row).iter().map(|&value| f32::from(value) * self.factors[row]).collect()
    }

    fn row(&self, row: usize) -> &[i8] {
        &self.values[row * self.dimension..(row + 1) * self.dimension]
    }
}

/// A matrix that is being built.
pub(crate) struct Rows {
    dimension: usize,
    values: Vec<i8>,
    factors: Vec<f32>,
}

impl Rows {
    /// A matrix of missing rows.
    pub fn missing(dimension: usize, n_rows: usize) -> Self {
        Self { dimension, values: vec![0; n_rows * dimension], factors: vec![f32::NAN; n_rows] }
    }

    /// A copy of a matrix.
    pub fn from_matrix(matrix: &VectorMatrix) -> Self {
        Self { dimension: matrix.dimension, values: matrix.values.to_vec(), factors: matrix.factors.to_vec() }
    }

    /// Quantizes the values of a row.
    pub fn set(&mut self, row: usize, values: &[f32]) {
        let mut quantized = Vec::with_capacity(self.dimension);
        self.factors[row] = quantize(values, &mut quantized);
        self.row_mut(row).copy_from_slice(&quantized);
    }

    /// Sets a row to values that were quantized before.
    pub fn set_quantized(&mut self, row: usize, (factor, values): (f32, &[i8])) {
        if values.len() == self.dimension {
            self.factors[row] = factor;
            self.row_mut(row).copy_from_slice(values);
        }
    }

    /// Copies a row of another matrix.
    pub fn copy(&mut self, row: usize, matrix: &VectorMatrix, from: usize) {
        self.factors[row] = matrix.factors[from];
        self.row_mut(row).copy_from_slice(matrix.row(from));
    }

    /// The matrix, in memory.
    pub fn into_matrix(self) -> VectorMatrix {
        VectorMatrix { dimension: self.dimension, values: self.values.into(), factors: self.factors.into() }
    }

    fn row_mut(&mut self, row: usize) -> &mut [i8] {
        &mut self.values[row * self.dimension..(row + 1) * self.dimension]
    }

    /// Writes the matrix to a file, replacing an existing one: the factors, then the values.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, directory: &Directory, name: &str) -> Result<(), Error> {
        let columns = [bytemuck::cast_slice(&self.factors), bytemuck::cast_slice(&self.values)];
        replace_file(directory, name, &columns)
    }
}

/// Appends the quantized values of a row in steps of its maximum / 127, and returns the step: the factor
/// that restores the row.
pub(crate) fn quantize(row: &[f32], out: &mut Vec<i8>) -> f32 {
    let maximum = row.iter().fold(0.0_f32, |maximum, value| maximum.max(value.abs()));
    if !maximum.is_normal() {
        out.extend(row.iter().map(|_| 0));
        return 0.0;
    }
    let step = maximum / 127.0;
    // At most ±127 by construction; a NaN becomes 0.
    out.extend(row.iter().map(|value| (value / step).round() as i8));
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of pseudo-random numbers, L2-normalized.
    fn random(n_rows: usize, dimension: usize) -> Vectors {
        let mut random = fastrand::Rng::with_seed(7);
        let values = (0..n_rows * dimension).map(|_| random.f32() - 0.5).collect();
        let mut vectors = Vectors { dimension, values };
        vectors.normalize();
        vectors
    }

    fn check_close(vectors: &Vectors, similarities: &[f32], query: &[f32]) {
        for (row, found) in vectors.values.chunks(vectors.dimension).zip(similarities) {
            let exact: f32 = row.iter().zip(query).map(|(a, b)| a * b).sum();
            assert!((found - exact).abs() < 0.01, "{found} {exact}");
        }
    }

    #[test]
    fn eight_bits_are_close_to_the_exact_product() {
        // More rows than a task has, and a dimension that is not a multiple of any SIMD width.
        let vectors = random(2 * ROWS_PER_TASK + 3, 67);
        let query = random(1, 67).values;
        let similarities = VectorMatrix::in_memory(&vectors).similarities(&query);
        assert_eq!(similarities.len(), 2 * ROWS_PER_TASK + 3);
        check_close(&vectors, &similarities, &query);
    }

    #[test]
    fn the_file_and_memory_agree_and_rows_can_be_copied() {
        let temporary = tempfile::tempdir().unwrap();
        let vectors = random(5, 32);
        let memory = VectorMatrix::in_memory(&vectors);
        let mut rows = Rows::missing(32, 5);
        (0..5).for_each(|row| rows.copy(row, &memory, row));
        let directory = Directory::open(temporary.path()).unwrap();
        rows.write(&directory, "vectors").unwrap();
        let file = StoredFile::record(&directory, "vectors".to_owned()).unwrap();
        let mapped = VectorMatrix::open(&directory, &file, 5).unwrap();
        let query = &vectors.values[32..64];
        assert_eq!(mapped.similarities(query), memory.similarities(query));
        assert!(VectorMatrix::open(&directory, &file, 7).is_err());
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
