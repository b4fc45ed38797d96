//! Exact comparison of 32-bit vectors: every query with every document.
//!
//! The product is a matrix product in blocks that stay in a core's cache. [`nearest`] selects the best of each block
//! while it is cached, so the whole product is never stored.

use std::cmp::Ordering;

use rayon::prelude::*;

use crate::numeric::{Output, Strided, multiply};
use quarry_embed::Vectors;

/// Documents and queries per block: half a megabyte of products, and as much of documents.
const BLOCK_DOCUMENTS: usize = 512;
const BLOCK_QUERIES: usize = 256;

/// Parts of the documents for each thread, so that no thread waits long for the last one.
const PARTS_PER_THREAD: usize = 4;

/// Products that are compared with the threshold at once.
const LANES: usize = 16;

/// A document and its product with a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    /// Row of the document.
    pub position: usize,
    /// Dot product of its vector with the query's.
    pub similarity: f32,
}

/// The order of neighbors: larger products first, equal ones by position. Neither may be NaN.
fn order(a: &Neighbor, b: &Neighbor) -> Ordering {
    b.similarity.partial_cmp(&a.similarity).unwrap_or(Ordering::Equal).then(a.position.cmp(&b.position))
}

/// Dot products of every query with every document: a list for each query, in the order of the documents.
///
/// # Panics
/// When the two differ in dimension.
pub fn products(queries: &Vectors, documents: &Vectors) -> Vec<Vec<f32>> {
    let n_documents = documents.n_rows();
    let n_queries = queries.n_rows().div_ceil(rayon::current_num_threads()).clamp(1, BLOCK_QUERIES);
    let of_block = |queries: &[f32]| {
        let mut block = Vec::new();
        multiply_rows(&mut block, queries, &documents.values, documents.dimension);
        block.chunks(n_documents.max(1)).map(<[f32]>::to_vec).collect::<Vec<_>>()
    };
    assert_eq!(queries.dimension, documents.dimension, "both are of one dimension");
    if n_documents == 0 {
        return vec![Vec::new(); queries.n_rows()];
    }
    queries.values.par_chunks(n_queries * queries.dimension.max(1)).flat_map_iter(of_block).collect()
}

/// The `k` documents with the largest dot products for each query, largest first, equal ones by position; fewer if
/// there are fewer documents. A product that is NaN or minus infinity is left out.
///
/// # Panics
/// When the two differ in dimension.
pub fn nearest(queries: &Vectors, documents: &Vectors, k: usize) -> Vec<Vec<Neighbor>> {
    assert_eq!(queries.dimension, documents.dimension, "both are of one dimension");
    let dimension = queries.dimension;
    let n_parts = rayon::current_num_threads() * PARTS_PER_THREAD;
    let part_rows = documents.n_rows().div_ceil(n_parts).next_multiple_of(BLOCK_DOCUMENTS);
    let of_part = |(part, values): (usize, &[f32])| {
        let mut best = vec![Best::new(k); queries.n_rows()];
        let mut products = Vec::new();
        for (block, documents) in values.chunks(BLOCK_DOCUMENTS * dimension).enumerate() {
            let first = part * part_rows + block * BLOCK_DOCUMENTS;
            let n_documents = documents.len() / dimension;
            let blocks = queries.values.chunks(BLOCK_QUERIES * dimension);
            for (queries, best) in blocks.zip(best.chunks_mut(BLOCK_QUERIES)) {
                multiply_rows(&mut products, queries, documents, dimension);
                let rows = products.chunks_exact(n_documents);
                best.iter_mut().zip(rows).for_each(|(best, products)| best.offer(first, products));
            }
        }
        best
    };
    let join = |mut all: Vec<Best>, other: Vec<Best>| {
        all.iter_mut().zip(other).for_each(|(best, other)| best.found.extend(other.found));
        all
    };
    if dimension == 0 || k == 0 {
        return vec![Vec::new(); queries.n_rows()];
    }
    let parts = documents.values.par_chunks(part_rows.max(1) * dimension).enumerate();
    let best = parts.map(of_part).reduce(|| vec![Best::new(k); queries.n_rows()], join);
    best.into_par_iter().map(Best::finish).collect()
}

/// The `k` largest of a list of scores, in the order of [`nearest`]; NaN and minus infinity are left out.
pub fn largest(scores: &[f32], k: usize) -> Vec<Neighbor> {
    let mut best = Best::new(k);
    best.offer(0, scores);
    best.finish()
}

/// Replaces `products` by those of each row of `queries` with each row of `documents`, query by query.
fn multiply_rows(products: &mut Vec<f32>, queries: &[f32], documents: &[f32], dimension: usize) {
    if dimension == 0 {
        return products.clear();
    }
    let (rows, columns) = (queries.len() / dimension, documents.len() / dimension);
    // The old values are not read.
    products.resize(rows * columns, 0.0);
    let left = Strided { values: queries, row_stride: dimension, column_stride: 1 };
    let right = Strided { values: documents, row_stride: 1, column_stride: dimension };
    multiply(Output::Replace, products, columns, left, right, [rows, columns, dimension]);
}

/// The best products so far, and some more.
#[derive(Debug, Clone)]
struct Best {
    k: usize,
    /// The value that a product must exceed: the minimum of the best `k`. Documents come in ascending order, so a
    /// later one with an equal product ranks lower.
    threshold: f32,
    found: Vec<Neighbor>,
}

impl Best {
    fn new(k: usize) -> Self {
        Self { k, threshold: f32::NEG_INFINITY, found: Vec::new() }
    }

    /// Adds those of `products`, which belong to the documents from `first` on, that may be among the best.
    fn offer(&mut self, first: usize, products: &[f32]) {
        let (chunks, rest) = products.as_chunks::<LANES>();
        for (index, chunk) in chunks.iter().enumerate() {
            // All lanes without a branch, as hardly any chunk holds one that counts.
            if chunk.iter().fold(false, |any, product| any | (*product > self.threshold)) {
                self.take(first + index * LANES, chunk);
            }
        }
        self.take(first + chunks.len() * LANES, rest);
    }

    fn take(&mut self, first: usize, products: &[f32]) {
        let neighbor = |(lane, &similarity)| Neighbor { position: first + lane, similarity };
        let greater = |neighbor: &Neighbor| neighbor.similarity > self.threshold;
        self.found.extend(products.iter().enumerate().map(neighbor).filter(greater));
        if self.found.len() >= 2 * self.k + LANES {
            self.cut();
        }
    }

    /// Keeps the best `k`, in any order.
    fn cut(&mut self) {
        if self.k == 0 {
            self.found.clear();
        } else if self.found.len() > self.k {
            let (_, last, _) = self.found.select_nth_unstable_by(self.k - 1, order);
            self.threshold = last.similarity;
            self.found.truncate(self.k);
        }
    }

    fn finish(mut self) -> Vec<Neighbor> {
        self.cut();
        self.found.sort_unstable_by(order);
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of small whole numbers, so that products are exact and many are equal.
    fn random(n_rows: usize, dimension: usize, seed: u64) -> Vectors {
        let mut random = fastrand::Rng::with_seed(seed);
        let values = (0..n_rows * dimension).map(|_| random.i8(-3..=3).into()).collect();
        Vectors { dimension, values }
    }

    fn exact(queries: &Vectors, documents: &Vectors) -> Vec<Vec<f32>> {
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum();
        let rows = |vectors: &Vectors| -> Vec<Vec<f32>> {
            vectors.values.chunks(vectors.dimension).map(<[f32]>::to_vec).collect()
        };
        let documents = rows(documents);
        rows(queries)
            .iter()
            .map(|query| documents.iter().map(|document| product(query, document)).collect())
            .collect()
    }

    #[test]
    fn products_and_nearest_equal_their_definitions() {
        for (n_queries, n_documents, dimension) in
            [(1, 1, 1), (3, 40, 7), (2, 5 * BLOCK_DOCUMENTS + 9, 3), (BLOCK_QUERIES + 5, 700, 17), (4, 0, 2)]
        {
            let (queries, documents) = (random(n_queries, dimension, 1), random(n_documents, dimension, 2));
            let expected = exact(&queries, &documents);
            assert_eq!(products(&queries, &documents), expected);
            for k in [0, 1, 10, 100, n_documents + 1] {
                let sorted: Vec<Vec<Neighbor>> = expected
                    .iter()
                    .map(|products| {
                        let neighbor = |(position, &similarity)| Neighbor { position, similarity };
                        let mut all: Vec<Neighbor> = products.iter().enumerate().map(neighbor).collect();
                        all.sort_by(order);
                        all.truncate(k);
                        all
                    })
                    .collect();
                assert_eq!(nearest(&queries, &documents, k), sorted, "{n_documents} documents, best {k}");
                let best: Vec<_> = expected.iter().map(|products| largest(products, k)).collect();
                assert_eq!(best, sorted, "{n_documents} documents, best {k}");
            }
        }
    }

    #[test]
    fn nan_is_left_out() {
        let documents = Vectors { dimension: 1, values: vec![1.0, f32::NAN, -1.0, f32::NEG_INFINITY] };
        let query = Vectors { dimension: 1, values: vec![1.0] };
        let found = nearest(&query, &documents, 4).remove(0);
        assert_eq!(found.iter().map(|neighbor| neighbor.position).collect::<Vec<_>>(), [0, 2]);
    }
}
