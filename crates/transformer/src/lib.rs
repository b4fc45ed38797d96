//! Embeds text with a BERT encoder from a sentence-transformers directory; reads the vectors of other programs, and
//! compares 32-bit vectors exactly.
//!
//! A text becomes tokens, the tokens go through the encoder, and the pooled vector is L2-normalized, as
//! sentence-transformers does it. Everything is computed in 32-bit floats on the CPU, one batch per core.

mod config;
mod encoder;
pub mod nearest;
mod numeric;
mod precomputed;
mod tokens;
mod weights;

pub use precomputed::read_vectors;
pub use tokens::TokenCutter;

use std::ops::Range;
use std::path::Path;

use config::{Directory, Pooling, guarded};
use quarry_embed::{EmbedError, Embedder, Vectors};
use rayon::prelude::*;
use tokenizers::Tokenizer;
use xxhash_rust::xxh3::Xxh3;

use encoder::Encoder;
use weights::Weights;

/// Tokens in a batch, unless one text has more: enough to keep the matrix products busy, few enough for the states
/// between them to stay in a core's cache.
const BATCH_TOKENS: usize = 512;

/// A BERT or RoBERTa encoder with its tokenizer and pooling.
pub struct TransformerModel {
    id: String,
    path: String,
    encoder: Encoder,
    dimension: usize,
    tokenizer: Tokenizer,
    pooling: Pooling,
    query_prompt: String,
    document_prompt: String,
}

impl TransformerModel {
    /// Loads a sentence-transformers directory, or a plain Hugging Face one, whose tokens are then pooled by their
    /// mean. Weights come from `model.safetensors`, else `pytorch_model.bin`; the tokenizer from `tokenizer.json`,
    /// else `vocab.txt`.
    ///
    /// # Errors
    /// When a file is missing, damaged, or asks for what is not supported; the error names it and what to do.
    pub fn load(path: &Path) -> Result<TransformerModel, EmbedError> {
        let mut hash = Xxh3::new();
        let directory = Directory::read(path, &mut hash)?;
        let weights = Weights::open(&directory.weights, &mut hash)?;
        let encoder = Encoder::new(&directory.shape, &weights)?;
        Ok(TransformerModel {
            id: format!(
                "bert-{}x{}-{:016x}",
                directory.shape.n_layers,
                directory.shape.hidden,
                hash.digest()
            ),
            path: path.display().to_string(),
            encoder,
            dimension: directory.shape.hidden,
            tokenizer: directory.tokenizer,
            pooling: directory.pooling,
            query_prompt: directory.query_prompt,
            document_prompt: directory.document_prompt,
        })
    }

    fn embed(&self, prompt: &str, texts: &[&str]) -> Result<Vectors, EmbedError> {
        let ids = texts.par_iter().map(|text| self.tokenize(prompt, text)).collect::<Result<Vec<_>, _>>()?;
        let rows: Vec<Vec<f32>> = batches(&ids, rayon::current_num_threads())
            .into_par_iter()
            .with_max_len(1)
            .map(|batch| {
                let texts = &ids[batch];
                pool(self.pooling, self.dimension, texts, &self.encoder.run(texts))
            })
            .collect();
        Ok(Vectors { dimension: self.dimension, values: rows.concat() })
    }

    fn tokenize(&self, prompt: &str, text: &str) -> Result<Vec<u32>, EmbedError> {
        let path = Path::new(&self.path);
        let problem = "has a tokenizer that fails on a text; save the model's tokenizer again";
        let encoding = guarded(path, problem, || match prompt {
            "" => self.tokenizer.encode_fast(text, true),
            _ => self.tokenizer.encode_fast(format!("{prompt}{text}"), true),
        })?;
        let ids = encoding.get_ids();
        match ids.iter().find(|id| **id as usize >= self.encoder.n_tokens()) {
            Some(id) => Err(EmbedError::model(
                path,
                format!(
                    "has a tokenizer that gives token {id}, but weights for {} tokens only; use the tokenizer of the \
                     same model",
                    self.encoder.n_tokens()
                ),
            )),
            None => Ok(ids.to_vec()),
        }
    }
}

impl Embedder for TransformerModel {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.embed(&self.query_prompt, texts)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.embed(&self.document_prompt, texts)
    }
}

/// Splits texts into batches of about [`BATCH_TOKENS`] tokens, fewer if that would leave a thread without work.
fn batches(texts: &[Vec<u32>], n_threads: usize) -> Vec<Range<usize>> {
    let n_tokens: usize = texts.iter().map(Vec::len).sum();
    let limit = BATCH_TOKENS.min(n_tokens.div_ceil(n_threads));
    let mut batches = Vec::new();
    let (mut start, mut filled) = (0, 0);
    for (index, text) in texts.iter().enumerate() {
        if index > start && filled + text.len() > limit {
            batches.push(start..index);
            (start, filled) = (index, 0);
        }
        filled += text.len();
    }
    if start < texts.len() {
        batches.push(start..texts.len());
    }
    batches
}

/// One normalized row of `hidden` values for each text, from the vectors of all their tokens; zeros for a text
/// without tokens.
fn pool(pooling: Pooling, hidden: usize, texts: &[Vec<u32>], states: &[f32]) -> Vec<f32> {
    let mut pooled = vec![0.0f32; texts.len() * hidden];
    let mut states = states.chunks_exact(hidden);
    for (row, text) in pooled.chunks_exact_mut(hidden).zip(texts) {
        for (index, state) in states.by_ref().take(text.len()).enumerate() {
            for (value, state) in row.iter_mut().zip(state) {
                *value = match pooling {
                    _ if index == 0 => *state,
                    Pooling::Mean => *value + state,
                    Pooling::Max => value.max(*state),
                    Pooling::Cls => *value,
                };
            }
        }
        // The mean is the sum up to a factor, which this removes.
        quarry_embed::normalize(row);
    }
    pooled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the number of texts in each batch.
    fn check_batches(lengths: &[usize], n_threads: usize, expected: &[usize]) {
        let texts: Vec<Vec<u32>> = lengths.iter().map(|length| vec![0; *length]).collect();
        let batches = batches(&texts, n_threads);
        assert_eq!(batches.iter().map(Range::len).collect::<Vec<_>>(), expected);
        assert!(batches.into_iter().flatten().eq(0..texts.len()));
    }

    #[test]
    fn batches_hold_about_the_limit() {
        check_batches(&[], 2, &[]);
        check_batches(&[0, 0], 2, &[2]);
        check_batches(&[300, 300, 200, 13, 900, 1], 1, &[1, 2, 1, 1, 1]);
    }

    #[test]
    fn a_small_list_is_shared_between_threads() {
        check_batches(&[10, 10, 10, 10], 2, &[2, 2]);
        check_batches(&[10], 2, &[1]);
    }

    #[test]
    fn pooling_of_texts_of_unequal_length() {
        let texts = [vec![0; 2], vec![], vec![0; 1]];
        let states = [3.0, 0.0, 0.0, 4.0, 0.0, -2.0];
        let pooled = |pooling| pool(pooling, 2, &texts, &states);
        assert_eq!(pooled(Pooling::Mean), [0.6, 0.8, 0.0, 0.0, 0.0, -1.0]);
        assert_eq!(pooled(Pooling::Max), [0.6, 0.8, 0.0, 0.0, 0.0, -1.0]);
        assert_eq!(pooled(Pooling::Cls), [1.0, 0.0, 0.0, 0.0, 0.0, -1.0]);
    }
}
