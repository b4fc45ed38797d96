//! The static model: one vector per token; the vector of a text is their weighted sum.
//!
//! The vector of a text is Σ w(p) · v(t) over its tokens t with position p (words before it), L2-normalized.
//! Token vectors are int8 with one scale each, so that a token's weight is part of its vector; documents have
//! position weights, queries do not. A model file is read in place, by casts: a header, then sections in the
//! order and with the lengths that the header gives, in little-endian, each aligned to 4 bytes.

use std::path::Path;

use bytemuck::{Pod, Zeroable};
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::vocabulary::{Slot, Tokenizer};
use crate::{EmbedError, Embedder, Vectors};

/// First bytes of a model file; the digit is the format's version.
pub const MAGIC: [u8; 8] = *b"QUARRYS1";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Header {
    pub magic: [u8; 8],
    /// Hash (xxh3, 64 bits, low half first) of all bytes after the header: the model's identity.
    pub checksum: [u32; 2],
    /// Columns of a token vector.
    pub dimension: u32,
    /// Rows of the document table: one per token.
    pub n_tokens: u32,
    /// Rows of the query table, for the tokens of lowest id. Queries read other tokens, and all if this is 0,
    /// from the document table.
    pub n_query_rows: u32,
    /// Length of the table from hashes to ids.
    pub n_slots: u32,
    /// Number of position weights.
    pub n_positions: u32,
    /// Maximum words read from one text.
    pub max_words: u32,
    /// Zero.
    pub reserved: [u32; 6],
}

/// The parts of a model, borrowed from its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) tokenizer: Tokenizer<'a>,
    dimension: usize,
    position_weights: &'a [f32],
    document_scales: &'a [f32],
    query_scales: &'a [f32],
    document_rows: &'a [i8],
    query_rows: &'a [i8],
}

/// A static token-embedding model.
#[derive(Debug)]
pub struct StaticModel {
    bytes: Bytes,
    id: String,
}

#[derive(Debug)]
enum Bytes {
    Builtin(&'static [u8]),
    /// Words, for their alignment.
    Owned(Vec<u32>, usize),
}

#[repr(C, align(64))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);

static BUILTIN: &Aligned<[u8]> = &Aligned(*include_bytes!("../models/static.bin"));

/// Index of the weight of a word with this many words before it: 0, 1, 2–3, 4–7, ..., the last for all beyond.
pub fn position_bucket(position: usize, n_buckets: usize) -> usize {
    ((usize::BITS - position.leading_zeros()) as usize).min(n_buckets - 1)
}

impl StaticModel {
    /// The model compiled into the program. Costs nothing: no byte of it is read until it is used.
    pub fn builtin() -> StaticModel {
        let bytes = Bytes::Builtin(&BUILTIN.0);
        let header: &Header = bytemuck::from_bytes(&BUILTIN.0[..size_of::<Header>()]);
        StaticModel { id: model_id(header), bytes }
    }

    /// Reads a model file that [`write_model`] wrote.
    ///
    /// # Errors
    /// When the file cannot be read, is not a model, or is damaged.
    pub fn load(path: &Path) -> Result<StaticModel, EmbedError> {
        let file = crate::read_file(path)
            .map_err(|error| EmbedError::model(path, format!("cannot be read: {error}")))?;
        Self::parse(&file, path)
    }

    /// Reads the bytes of a model file, which errors call `path`.
    ///
    /// # Errors
    /// When they are not a model, or damaged.
    pub fn parse(file: &[u8], path: &Path) -> Result<StaticModel, EmbedError> {
        let bad = |problem: String| EmbedError::model(path, problem);
        let mut words = vec![0u32; file.len().div_ceil(4)];
        bytemuck::cast_slice_mut::<u32, u8>(&mut words)[..file.len()].copy_from_slice(file);
        let header = file.get(..size_of::<Header>()).map(bytemuck::pod_read_unaligned::<Header>);
        let header = header.filter(|header| header.magic == MAGIC).ok_or_else(|| {
            bad(format!("is not a static model of this version: expected it to start with {MAGIC:?}"))
        })?;
        let body = &file[size_of::<Header>()..];
        if body.len() as u64 != body_length(&header)
            || header.checksum != split(xxh3_64(body))
            || !header.n_slots.is_power_of_two()
            || header.n_positions == 0
            || header.n_query_rows > header.n_tokens
        {
            return Err(bad(format!(
                "is damaged: expected {} bytes that match its checksum, found {}; copy or train it again",
                body_length(&header) + size_of::<Header>() as u64,
                file.len()
            )));
        }
        let model = StaticModel { id: model_id(&header), bytes: Bytes::Owned(words, file.len()) };
        let parts = model.parts();
        let numbers = [parts.position_weights, parts.document_scales, parts.query_scales];
        if !numbers.into_iter().flatten().all(|value| value.is_finite()) {
            return Err(bad("contains NaN or infinity; train or copy it again".to_owned()));
        }
        Ok(model)
    }

    /// The hash of all bytes after the header, low half first.
    pub(crate) fn checksum(&self) -> [u32; 2] {
        bytemuck::from_bytes::<Header>(&self.bytes()[..size_of::<Header>()]).checksum
    }

    /// Its tables in full precision, to continue training, as far as quantization to int8 preserved them.
    pub fn weights(&self) -> StaticWeights {
        let parts = self.parts();
        let rows = |rows: &[i8], scales: &[f32]| {
            let scaled = rows.chunks_exact(parts.dimension).zip(scales);
            scaled.flat_map(|(row, scale)| row.iter().map(move |value| scale * f32::from(*value))).collect()
        };
        StaticWeights {
            dimension: parts.dimension,
            max_words: parts.tokenizer.max_words,
            slots: parts.tokenizer.slots.to_vec(),
            position_weights: parts.position_weights.to_vec(),
            document_rows: rows(parts.document_rows, parts.document_scales),
            query_rows: rows(parts.query_rows, parts.query_scales),
        }
    }

    /// Number of bytes of its file.
    pub fn n_bytes(&self) -> usize {
        self.bytes().len()
    }

    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Builtin(bytes) => bytes,
            Bytes::Owned(words, length) => &bytemuck::cast_slice(words)[..*length],
        }
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        let (header, mut rest) = self.bytes().split_at(size_of::<Header>());
        let header: &Header = bytemuck::from_bytes(header);
        let (n_tokens, n_query_rows) = (header.n_tokens as usize, header.n_query_rows as usize);
        let dimension = header.dimension as usize;
        Parts {
            dimension,
            tokenizer: Tokenizer {
                slots: section(&mut rest, header.n_slots as usize),
                max_words: header.max_words as usize,
            },
            position_weights: section(&mut rest, header.n_positions as usize),
            document_scales: section(&mut rest, n_tokens),
            query_scales: section(&mut rest, n_query_rows),
            document_rows: section(&mut rest, n_tokens * dimension),
            query_rows: section(&mut rest, n_query_rows * dimension),
        }
    }

    fn embed(&self, texts: &[&str], embed: impl Fn(&Parts<'_>, &str, &mut [f32]) + Sync) -> Vectors {
        let parts = self.parts();
        let mut values = vec![0.0; texts.len() * parts.dimension];
        if texts.len() < 64 {
            for (text, row) in texts.iter().zip(values.chunks_exact_mut(parts.dimension)) {
                embed(&parts, text, row);
            }
        } else {
            values
                .par_chunks_exact_mut(parts.dimension)
                .zip(texts)
                .with_min_len(16)
                .for_each(|(row, text)| embed(&parts, text, row));
        }
        Vectors { dimension: parts.dimension, values }
    }
}

impl<'a> Parts<'a> {
    pub(crate) fn n_tokens(&self) -> usize {
        self.document_scales.len()
    }

    /// The vector of a token of a document, without its scale.
    pub(crate) fn document_row(&self, id: usize) -> &'a [i8] {
        &self.document_rows[id * self.dimension..][..self.dimension]
    }

    /// The vector of a token of a query, and its scale.
    pub(crate) fn query_row(&self, id: usize) -> (&'a [i8], f32) {
        match self.query_scales.get(id) {
            Some(&scale) => (&self.query_rows[id * self.dimension..][..self.dimension], scale),
            None => (self.document_row(id), self.document_scales[id]),
        }
    }

    fn document(&self, text: &str, out: &mut [f32]) {
        self.tokenizer.tokens(text, |id, position| {
            let id = id as usize;
            let weight = self.position_weights[position_bucket(position, self.position_weights.len())];
            add_row(self.document_row(id), self.document_scales[id] * weight, out);
        });
        normalize(out);
    }

    fn query(&self, text: &str, out: &mut [f32]) {
        self.tokenizer.tokens(text, |id, _| {
            let (row, scale) = self.query_row(id as usize);
            add_row(row, scale, out);
        });
        normalize(out);
    }
}

fn add_row(row: &[i8], scale: f32, out: &mut [f32]) {
    for (sum, &value) in out.iter_mut().zip(row) {
        *sum += scale * f32::from(value);
    }
}

/// Scales a vector to length 1; zero is unchanged.
pub(crate) fn normalize(vector: &mut [f32]) {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|x| *x /= norm);
    }
}

fn section<'a, T: Pod>(rest: &mut &'a [u8], length: usize) -> &'a [T] {
    let (bytes, tail) = rest.split_at((length * size_of::<T>()).next_multiple_of(4));
    *rest = tail;
    bytemuck::cast_slice(&bytes[..length * size_of::<T>()])
}

fn body_length(header: &Header) -> u64 {
    let (rows, dimension) = (u64::from(header.n_tokens), u64::from(header.dimension));
    let query_rows = u64::from(header.n_query_rows);
    let words = u64::from(header.n_slots) * 3 + u64::from(header.n_positions) + rows + query_rows;
    words * 4 + (rows * dimension).next_multiple_of(4) + (query_rows * dimension).next_multiple_of(4)
}

fn split(checksum: u64) -> [u32; 2] {
    [checksum as u32, (checksum >> 32) as u32]
}

fn model_id(header: &Header) -> String {
    format!("static-{:08x}{:08x}", header.checksum[1], header.checksum[0])
}

impl Embedder for StaticModel {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimension(&self) -> usize {
        self.parts().dimension
    }

    fn adds_words(&self) -> bool {
        true
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        Ok(self.embed(texts, |parts, text, row| parts.query(text, row)))
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        Ok(self.embed(texts, |parts, text, row| parts.document(text, row)))
    }
}

/// A trained model before it is written: full-precision tables.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticWeights {
    /// Columns of a token vector.
    pub dimension: usize,
    /// Maximum words read from one text.
    pub max_words: usize,
    /// Table from hashes to token ids, made by [`crate::vocabulary::build_slots`].
    pub slots: Vec<Slot>,
    /// Weight of a document's words by [`position_bucket`]; at least one.
    pub position_weights: Vec<f32>,
    /// One row of `dimension` values per token.
    pub document_rows: Vec<f32>,
    /// Rows for the tokens of lowest id; empty if queries share the document table.
    pub query_rows: Vec<f32>,
}

/// The bytes of a model file: rows quantized to int8, each with the scale that maps its largest value to ±127.
pub fn write_model(weights: &StaticWeights) -> Vec<u8> {
    let (document_scales, document_rows) = quantize(&weights.document_rows, weights.dimension);
    let (query_scales, query_rows) = quantize(&weights.query_rows, weights.dimension);
    let mut header = Header {
        magic: MAGIC,
        dimension: weights.dimension as u32,
        n_tokens: document_scales.len() as u32,
        n_query_rows: query_scales.len() as u32,
        n_slots: weights.slots.len() as u32,
        n_positions: weights.position_weights.len() as u32,
        max_words: weights.max_words as u32,
        ..Header::zeroed()
    };
    let mut file = vec![0; size_of::<Header>()];
    let sections: [&[u8]; 6] = [
        bytemuck::cast_slice(&weights.slots),
        bytemuck::cast_slice(&weights.position_weights),
        bytemuck::cast_slice(&document_scales),
        bytemuck::cast_slice(&query_scales),
        bytemuck::cast_slice(&document_rows),
        bytemuck::cast_slice(&query_rows),
    ];
    for section in sections {
        file.extend_from_slice(section);
        file.resize(file.len().next_multiple_of(4), 0);
    }
    header.checksum = split(xxh3_64(&file[size_of::<Header>()..]));
    file[..size_of::<Header>()].copy_from_slice(bytemuck::bytes_of(&header));
    file
}

fn quantize(rows: &[f32], dimension: usize) -> (Vec<f32>, Vec<i8>) {
    let mut values = Vec::with_capacity(rows.len());
    let scales = rows
        .chunks_exact(dimension)
        .map(|row| {
            let largest = row.iter().fold(0f32, |largest, x| largest.max(x.abs()));
            let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
            values.extend(row.iter().map(|x| (x / scale).round() as i8));
            scale
        })
        .collect();
    (scales, values)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::vocabulary::{build_slots, word_hash};

    fn weights(n_query_rows: usize) -> StaticWeights {
        let hashes = ["read", "file", "sort"].map(word_hash);
        StaticWeights {
            dimension: 3,
            max_words: 100,
            slots: build_slots(&hashes),
            position_weights: vec![1.0, 0.5],
            document_rows: vec![1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0],
            query_rows: vec![0.0, 0.0, 3.0, 0.0, 2.0, 0.0][..n_query_rows * 3].to_vec(),
        }
    }

    fn load(bytes: &[u8]) -> Result<StaticModel, EmbedError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.bin");
        std::fs::write(&path, bytes).unwrap();
        StaticModel::load(&path)
    }

    /// A model of three tokens; queries have their own vectors for the first ones.
    pub(crate) fn model(n_query_rows: usize) -> StaticModel {
        load(&write_model(&weights(n_query_rows))).unwrap()
    }

    fn check_close(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-2, "{found:?} is not {expected:?}");
        }
    }

    #[test]
    fn a_document_is_the_weighted_sum_of_its_tokens() {
        let model = load(&write_model(&weights(0))).unwrap();
        let vectors = model.embed_documents(&["readFile", "file", "unknown"]).unwrap();
        let half = 0.5f32.sqrt();
        check_close(&vectors.values, &[half, half, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn queries_have_rows_of_their_own_where_the_model_has_them() {
        let model = load(&write_model(&weights(2))).unwrap();
        check_close(&model.embed_queries(&["read", "sort"]).unwrap().values, &[0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
        let shared = load(&write_model(&weights(0))).unwrap();
        check_close(&shared.embed_queries(&["read"]).unwrap().values, &[1.0, 0.0, 0.0]);
        assert_ne!(model.id(), shared.id());
    }

    #[test]
    fn one_text_and_many_give_the_same_vector() {
        let model = load(&write_model(&weights(2))).unwrap();
        let one = model.embed_documents(&["sort the file"]).unwrap().values;
        let many = model.embed_documents(&["sort the file"; 200]).unwrap().values;
        assert!(many.chunks_exact(3).all(|row| row == one));
    }

    #[test]
    fn the_weights_of_a_model_make_the_same_model() {
        for n_query_rows in [0, 2] {
            let written = write_model(&weights(n_query_rows));
            assert_eq!(write_model(&load(&written).unwrap().weights()), written);
        }
    }

    #[test]
    fn a_damaged_file_is_refused_by_name() {
        let good = write_model(&weights(2));
        assert!(load(&good).is_ok());
        for n_bytes in [0, 5, 63, 64, 70, good.len() - 1] {
            let error = load(&good[..n_bytes]).unwrap_err().to_string();
            assert!(error.contains("model.bin"), "{error}");
        }
        for at in [9, 20, 30, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(load(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn position_buckets_double() {
        let buckets: Vec<usize> = [0, 1, 2, 3, 4, 7, 8, 1000].map(|p| position_bucket(p, 5)).to_vec();
        assert_eq!(buckets, [0, 1, 2, 2, 3, 3, 4, 4]);
    }
}
