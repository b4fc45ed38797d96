//! Siamese matchers: a small network that compares the vectors of a query and a document, as CoSQA's does.

use std::path::{Path, PathBuf};

use candle_core::DType;
use quarry_embed::{EmbedError, Embedder};
use rayon::prelude::*;
use xxhash_rust::xxh3::Xxh3;

use super::convert::read_safetensors;
use super::numeric::{Output, Strided, multiply};
use super::options::{Options, affect_reading_only};
use super::trainable::{MATCHER_FILE, NamedTensor};
use super::{TransformerModel, check_numbers};

pub(crate) const USE: &str = "measure it with `quarry eval` or `quarry eval protocol` and --method DIR, also as B of \
                              rerank(A, B), or name a pooling after the path, as in DIR:mean, for the vectors alone";

/// Names and shapes of the tensors of a matcher of vectors with `dimension` columns.
fn matcher_shapes(dimension: usize) -> [(&'static str, Vec<usize>); 4] {
    [
        ("matcher.dense.weight", vec![dimension, 4 * dimension]),
        ("matcher.dense.bias", vec![dimension]),
        ("matcher.out_proj.weight", vec![1, dimension]),
        ("matcher.out_proj.bias", vec![1]),
    ]
}

/// Reads the tensors of a matcher of vectors with `dimension` columns, in the order of `matcher_shapes`.
///
/// # Errors
/// When the file cannot be read, or a tensor is missing, has another shape or is not finite.
pub fn read_matcher(path: &Path, dimension: usize) -> Result<[NamedTensor; 4], EmbedError> {
    let tensors = read_safetensors(path)?;
    let failed = |error: candle_core::Error| {
        EmbedError::model_file(path, "contains a tensor that cannot be read; train the model again", error)
    };
    let read = |(name, shape): (&str, Vec<usize>)| {
        let Some(tensor) = tensors.get(name) else {
            let problem = format!("has no tensor {name}; remove the file to start over");
            return Err(EmbedError::model(path, problem));
        };
        if tensor.dims() != shape {
            let problem = format!(
                "contains {name} with shape {:?}, expected {shape:?}; use the matcher of the same model",
                tensor.dims()
            );
            return Err(EmbedError::model(path, problem));
        }
        let flat = tensor.to_dtype(DType::F32).and_then(|tensor| tensor.flatten_all());
        let values = flat.and_then(|tensor| tensor.to_vec1::<f32>()).map_err(failed)?;
        if !values.iter().all(|value| value.is_finite()) {
            let problem = format!("contains NaN or infinity in {name}; train it again");
            return Err(EmbedError::model(path, problem));
        }
        Ok(NamedTensor { name: name.to_owned(), shape, values })
    };
    let [weight, bias, output, output_bias] = matcher_shapes(dimension).map(read);
    Ok([weight?, bias?, output?, output_bias?])
}

/// Documents that are compared with a query at a time, by one thread.
const DOCUMENTS_PER_CHUNK: usize = 256;

/// An encoder with a matcher, as `quarry train encoder` writes it: the log-odds that a document d answers a query q are
/// v · tanh(W (q, d, q − d, q ⊙ d) + b) + c (Huang et al., *CoSQA*, 2021, section 4.1).
pub struct Matcher {
    id: String,
    path: PathBuf,
    encoder: TransformerModel,
    /// The part of W for q: rows × columns of a vector, row-major, like the two below.
    of_query: Vec<f32>,
    of_document: Vec<f32>,
    of_product: Vec<f32>,
    bias: Vec<f32>,
    output: Vec<f32>,
    output_bias: f32,
}

impl Matcher {
    /// Returns whether a directory has a matcher, and no option after its path asks for the vectors alone.
    pub fn is_at(path: &Path) -> bool {
        let (directory, options) = super::split_options(path);
        options.is_none_or(|options| affect_reading_only(&options)) && directory.join(MATCHER_FILE).is_file()
    }

    /// Loads a directory.
    ///
    /// # Errors
    /// When a file is missing, damaged, or asks for something unsupported; the error names it and what to do.
    pub fn load(path: &Path) -> Result<Matcher, EmbedError> {
        let (directory, options) = Options::split(path)?;
        let encoder = TransformerModel::open(&directory, options)?;
        let n = encoder.dimension();
        let file = directory.join(MATCHER_FILE);
        let [weight, bias, output, output_bias] = read_matcher(&file, n)?;
        let mut hash = Xxh3::new();
        hash.update(encoder.id().as_bytes());
        for tensor in [&weight, &bias, &output, &output_bias] {
            tensor.values.iter().for_each(|value| hash.update(&value.to_le_bytes()));
        }
        // W is linear in q, d and q − d, which leaves three parts.
        let part = |number: usize| weight.values.chunks_exact(4 * n).map(move |row| &row[number * n..][..n]);
        let combined = |a: usize, b: usize, sign: f32| -> Vec<f32> {
            part(a).zip(part(b)).flat_map(|(a, b)| a.iter().zip(b).map(move |(a, b)| a + sign * b)).collect()
        };
        Ok(Matcher {
            id: format!("matcher-{}-{:016x}", encoder.id(), hash.digest()),
            path: file,
            of_query: combined(0, 2, 1.0),
            of_document: combined(1, 2, -1.0),
            of_product: part(3).flatten().copied().collect(),
            bias: bias.values,
            output: output.values,
            output_bias: output_bias.values.first().copied().unwrap_or_default(),
            encoder,
        })
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Number of columns of the vectors that are compared.
    pub fn dimension(&self) -> usize {
        self.bias.len()
    }

    /// The vectors of queries, in order.
    ///
    /// # Errors
    /// As [`Embedder::embed_queries`].
    pub fn embed_queries(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(self.encoder.embed_queries(texts)?.rows().map(<[f32]>::to_vec).collect())
    }

    /// The vectors of documents, in order.
    ///
    /// # Errors
    /// As [`Embedder::embed_documents`].
    pub fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(self.encoder.embed_documents(texts)?.rows().map(<[f32]>::to_vec).collect())
    }

    /// The log-odds that each document answers a query, by their vectors. For one query, W is a matrix on d alone, so that
    /// the documents are rows of one product.
    ///
    /// # Errors
    /// When a result is not a number, because the weights are damaged.
    pub fn log_odds(&self, query: &[f32], documents: &[&[f32]]) -> Result<Vec<f32>, EmbedError> {
        let n = self.dimension();
        let offset: Vec<f32> = (self.of_query.chunks_exact(n).zip(&self.bias))
            .map(|(row, bias)| bias + row.iter().zip(query).map(|(a, b)| a * b).sum::<f32>())
            .collect();
        let matrix: Vec<f32> = (self.of_document.chunks_exact(n).zip(self.of_product.chunks_exact(n)))
            .flat_map(|(own, product)| {
                own.iter().zip(product).zip(query).map(|((own, product), q)| own + product * q)
            })
            .collect();
        let score = |documents: &[&[f32]]| -> Vec<f32> {
            let input = documents.concat();
            let mut inner = offset.repeat(documents.len());
            let left = Strided { values: &input, row_stride: n, column_stride: 1 };
            let right = Strided { values: &matrix, row_stride: 1, column_stride: n };
            multiply(Output::Add, &mut inner, n, left, right, [documents.len(), n, n]);
            let weigh = |row: &[f32]| {
                let sum: f32 = row.iter().zip(&self.output).map(|(x, weight)| x.tanh() * weight).sum();
                sum + self.output_bias
            };
            inner.chunks_exact(n).map(weigh).collect()
        };
        let scores: Vec<Vec<f32>> = documents.par_chunks(DOCUMENTS_PER_CHUNK).map(score).collect();
        let scores = scores.concat();
        check_numbers(&self.path, &scores)?;
        Ok(scores)
    }
}
