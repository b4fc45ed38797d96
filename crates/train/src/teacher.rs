//! Vectors of a teacher: another model's view of the texts that a static model learns from.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use quarry_embed::{EmbedError, Embedder};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::TrainError;

const CHUNK: usize = 4096;

/// First line of a teacher file; 64-bit hashes of the texts follow, then their vectors as 32-bit floats, both in
/// little-endian.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    model: String,
    dimension: usize,
    n_texts: usize,
}

/// Vectors by text, each of length 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Teacher {
    /// Columns of a vector.
    pub dimension: usize,
    rows: FxHashMap<u64, usize>,
    values: Vec<f32>,
}

impl Teacher {
    /// The teacher's vector of a text; none if it was not asked for it.
    pub fn vector(&self, text: &str) -> Option<&[f32]> {
        let at = *self.rows.get(&xxh3_64(text.as_bytes()))?;
        Some(&self.values[at * self.dimension..][..self.dimension])
    }

    /// Embeds each distinct text as a question and writes the vectors to `path`. `report` receives the number of texts
    /// are done, out of how many.
    ///
    /// # Errors
    /// When the model fails or the file cannot be written.
    pub fn write(
        path: &Path,
        model: &dyn Embedder,
        texts: &[&str],
        mut report: impl FnMut(usize, usize),
    ) -> Result<(), TrainError> {
        let mut distinct: Vec<(u64, &str)> =
            texts.iter().map(|text| (xxh3_64(text.as_bytes()), *text)).collect();
        distinct.sort_unstable();
        distinct.dedup_by_key(|(hash, _)| *hash);
        let file_error = |error: std::io::Error| TrainError::file(path, error);
        let aside = path.with_extension("new");
        let mut file = BufWriter::new(File::create(&aside).map_err(file_error)?);
        let head =
            Head { model: model.id().to_owned(), dimension: model.dimension(), n_texts: distinct.len() };
        serde_json::to_writer(&mut file, &head).map_err(|error| file_error(error.into()))?;
        file.write_all(b"\n").map_err(file_error)?;
        for (hash, _) in &distinct {
            file.write_all(&hash.to_le_bytes()).map_err(file_error)?;
        }
        for (n_chunks, chunk) in distinct.chunks(CHUNK).enumerate() {
            let texts: Vec<&str> = chunk.iter().map(|(_, text)| *text).collect();
            let vectors = model.embed_queries(&texts)?;
            file.write_all(bytemuck::cast_slice(&vectors.values)).map_err(file_error)?;
            report(n_chunks * CHUNK + chunk.len(), distinct.len());
        }
        let file = file.into_inner().map_err(|error| file_error(error.into_error()))?;
        file.sync_all().and_then(|()| fs::rename(&aside, path)).map_err(file_error)
    }

    /// Reads a file that [`Teacher::write`] wrote.
    ///
    /// # Errors
    /// When the file cannot be read, is not a teacher file, or is incomplete.
    pub fn read(path: &Path) -> Result<Teacher, TrainError> {
        let file = fs::read(path).map_err(|error| TrainError::file(path, error))?;
        let bad =
            || TrainError::file(path, "is not a complete teacher file; make it with `quarry train teacher`");
        let line = file.iter().position(|&byte| byte == b'\n').ok_or_else(bad)?;
        let Head { dimension, n_texts, .. } = serde_json::from_slice(&file[..line]).map_err(|_| bad())?;
        let body = &file[line + 1..];
        if dimension == 0 || body.len() != n_texts * (8 + dimension * 4) {
            return Err(bad());
        }
        let (hashes, values) = body.split_at(n_texts * 8);
        let hashes = bytemuck::pod_collect_to_vec::<u8, u64>(hashes);
        let rows = hashes.into_iter().zip(0..).collect();
        Ok(Teacher { dimension, rows, values: bytemuck::pod_collect_to_vec(values) })
    }
}

impl From<EmbedError> for TrainError {
    fn from(error: EmbedError) -> TrainError {
        TrainError::Teacher(error)
    }
}

/// The `n` directions of maximum variance of vectors: `n` rows of `dimension` values, orthonormal, by orthogonal
/// iteration on their covariance (Golub and Van Loan, Matrix Computations, §8.2). Deterministic.
pub fn principal_directions(vectors: &[f32], dimension: usize, n: usize) -> Vec<f32> {
    let mean = mean(vectors, dimension);
    let mut covariance = vec![0.0f64; dimension * dimension];
    for vector in vectors.chunks_exact(dimension) {
        let centered: Vec<f64> = vector.iter().zip(&mean).map(|(x, m)| f64::from(x - m)).collect();
        for (row, &a) in covariance.chunks_exact_mut(dimension).zip(&centered) {
            row.iter_mut().zip(&centered).for_each(|(cell, b)| *cell += a * b);
        }
    }
    let mut random = fastrand::Rng::with_seed(0);
    let mut directions: Vec<Vec<f64>> =
        (0..n.min(dimension)).map(|_| (0..dimension).map(|_| random.f64() - 0.5).collect()).collect();
    for _ in 0..60 {
        for direction in &mut directions {
            *direction = covariance.chunks_exact(dimension).map(|row| dot(row, direction)).collect();
        }
        orthonormalize(&mut directions);
    }
    directions.into_iter().flatten().map(|x| x as f32).collect()
}

pub fn mean(vectors: &[f32], dimension: usize) -> Vec<f32> {
    let mut mean = vec![0.0f64; dimension];
    for vector in vectors.chunks_exact(dimension) {
        mean.iter_mut().zip(vector).for_each(|(mean, x)| *mean += f64::from(*x));
    }
    let n = (vectors.len() / dimension).max(1) as f64;
    mean.into_iter().map(|x| (x / n) as f32).collect()
}

/// Gram–Schmidt in its modified form.
fn orthonormalize(directions: &mut [Vec<f64>]) {
    for at in 0..directions.len() {
        let (before, rest) = directions.split_at_mut(at);
        let direction = &mut rest[0];
        for other in before.iter() {
            let along = dot(direction, other);
            direction.iter_mut().zip(other).for_each(|(x, o)| *x -= along * o);
        }
        let norm = dot(direction, direction).sqrt();
        if norm > 0.0 {
            direction.iter_mut().for_each(|x| *x /= norm);
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_embed::Vectors;

    struct Lengths;

    impl Embedder for Lengths {
        fn id(&self) -> &str {
            "lengths"
        }
        fn dimension(&self) -> usize {
            2
        }
        fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
            let values = texts.iter().flat_map(|text| [text.len() as f32, 1.0]).collect();
            Ok(Vectors { dimension: 2, values })
        }
        fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
            self.embed_queries(texts)
        }
    }

    #[test]
    fn written_data_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("teacher.bin");
        let long = "x".repeat(50);
        let texts: Vec<&str> = (0..9000).map(|n| &long[..n % 50 + 1]).collect();
        Teacher::write(&path, &Lengths, &texts, |_, _| {}).unwrap();
        let teacher = Teacher::read(&path).unwrap();
        assert_eq!(teacher.vector("xxx"), Some(&[3.0, 1.0][..]));
        assert_eq!(teacher.vector("absent"), None);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(Teacher::read(&path).unwrap_err().to_string().contains("teacher.bin"));
    }

    #[test]
    fn principal_directions_find_the_spread() {
        let mut random = fastrand::Rng::with_seed(3);
        let vectors: Vec<f32> = (0..500)
            .flat_map(|_| {
                let (a, b) = (random.f32() * 8.0, random.f32() * 2.0);
                [a + b + 5.0, a - b, random.f32() * 0.01]
            })
            .collect();
        let found = principal_directions(&vectors, 3, 2);
        assert!((found[0].abs() - 0.707).abs() < 0.05 && (found[1].abs() - 0.707).abs() < 0.05, "{found:?}");
        assert!(found[2].abs() < 0.01 && found[5].abs() < 0.01, "{found:?}");
        assert!(found[..3].iter().zip(&found[3..]).map(|(a, b)| a * b).sum::<f32>().abs() < 1e-4);
    }
}
