//! Static models in the format of model2vec: a vector for each token of a tokenizer. The vector of a text is their
//! mean.
//!
//! A directory contains `model.safetensors` with the tensor `embeddings` (or `embedding.weight`, as
//! sentence-transformers writes it, also below `0_StaticEmbedding`), `tokenizer.json` and `config.json`. The
//! vectors may have 8, 16 or 32 bits per value; a tensor `mapping` maps each token to its vector, and `weights` to
//! its weight.

use std::path::{Path, PathBuf};

use quarry_embed::static_model::StaticWeights;
use quarry_embed::vocabulary::{build_slots, for_each_word, word_hash};
use quarry_embed::{EmbedError, Embedder, Vectors, normalize};
use rayon::prelude::*;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::Deserialize;
use serde_json::json;
use tokenizers::models::ModelWrapper;
use tokenizers::{Tokenizer, TruncationParams};
use xxhash_rust::xxh3::Xxh3;

use super::options::Options;
use super::reader::{FAILS, Reader, guarded, missing};
use super::tokenizer::parse_tokenizer;
use super::weights::{NOT_SAFETENSORS, check_header};

const WEIGHTS: &str = "model.safetensors";

/// Directories that may contain the vectors and the tokenizer, below a model's directory.
const PLACES: [&str; 2] = ["", "0_StaticEmbedding"];

/// Possible names of the tensor of the vectors.
const NAMES: [&str; 2] = ["embeddings", "embedding.weight"];

/// Maximum number of tokens of a text if `config.json` does not set it.
const DEFAULT_MAX_TOKENS: usize = 512;

/// Maximum length in bytes of the header of a safetensors file that is read to recognize its content.
const MAX_HEAD: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
struct Config {
    /// Absent: the default. Null: no limit.
    #[serde(default = "default_max_tokens")]
    max_length: Option<usize>,
}

fn default_max_tokens() -> Option<usize> {
    Some(DEFAULT_MAX_TOKENS)
}

pub struct TokenVectors {
    id: String,
    path: PathBuf,
    tokenizer: Tokenizer,
    /// The unknown token, which is removed from texts.
    unknown: Option<u32>,
    /// Maximum number of characters of a text that are read.
    max_letters: Option<usize>,
    max_tokens: Option<usize>,
    full_dimension: usize,
    /// Number of columns to keep.
    dimension: usize,
    vectors: Vec<f32>,
    /// The row of each token; if `None`, its id.
    mapping: Option<Vec<usize>>,
    weights: Option<Vec<f32>>,
    /// True if vectors are compared by cosine.
    cosine: bool,
}

impl TokenVectors {
    /// Returns whether a directory (with or without options after its path) contains such a model, by the names of
    /// its tensors.
    pub fn is_at(path: &Path) -> bool {
        place(&super::split_options(path).0).is_some()
    }

    /// Reads a directory; the path may end with a number of columns to keep, `cosine` or `dot`.
    ///
    /// # Errors
    /// When a file is missing or damaged, or the files do not match; the error names it and the remedy.
    pub fn load(path: &Path) -> Result<TokenVectors, EmbedError> {
        let (base, options) = Options::split(path)?;
        if options.pooling.is_some() {
            let problem = "is a static model, whose vectors are a mean; expected no option but a number of columns, \
                           cosine or dot";
            return Err(EmbedError::model(&base, problem));
        }
        let wrong = |problem: String| EmbedError::model(&base, problem);
        let place = place(&base).ok_or_else(|| {
            wrong(format!("has no {WEIGHTS} with a tensor {}; copy the model again", NAMES[0]))
        })?;
        let mut hash = Xxh3::new();
        let mut reader = Reader { hash: &mut hash };
        let config: Config = reader
            .optional(&base.join("config.json"))?
            .unwrap_or(Config { max_length: default_max_tokens() });
        let file = place.join("tokenizer.json");
        let bytes = reader.bytes(&file)?.ok_or_else(|| missing(&file))?;
        let mut tokenizer = parse_tokenizer(&file, &bytes)?;
        tokenizer.with_padding(None);
        let truncation = config
            .max_length
            .map(|max_length| TruncationParams { max_length, ..TruncationParams::default() });
        guarded(&file, "cannot truncate texts; save the model's tokenizer again", || {
            tokenizer.with_truncation(truncation).map(drop)
        })?;

        let file = place.join(WEIGHTS);
        let bytes = reader.bytes(&file)?.ok_or_else(|| EmbedError::model(&file, "cannot be read"))?;
        let damaged = |error| EmbedError::model_file(&file, NOT_SAFETENSORS, error);
        check_header(&file, &bytes)?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(damaged)?;
        let wrong = |problem: String| EmbedError::model(&file, problem);
        let embeddings = NAMES.iter().find_map(|name| tensors.tensor(name).ok());
        let embeddings = embeddings.ok_or_else(|| wrong(format!("has no tensor {}", NAMES[0])))?;
        let &[n_rows, full_dimension] = embeddings.shape() else {
            let found = embeddings.shape();
            return Err(wrong(format!(
                "contains vectors with shape {found:?}, expected rows and columns; copy it again"
            )));
        };
        let n_tokens = tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        let read =
            |name: &str| tensors.tensor(name).ok().map(|tensor| numbers(&tensor, name, &file)).transpose();
        let of_tokens = |name: &str, values: Option<Vec<f64>>| match values {
            Some(values) if values.len() < n_tokens => Err(wrong(format!(
                "contains {} {name} for {n_tokens} tokens; use the tokenizer of the same model",
                values.len()
            ))),
            values => Ok(values),
        };
        let weights = of_tokens("weights", read("weights")?)?;
        let mapping = of_tokens("mapping", read("mapping")?)?;
        if mapping.is_none() && n_rows < n_tokens || full_dimension == 0 {
            return Err(wrong(format!(
                "contains {n_rows} vectors of {full_dimension} columns for {n_tokens} tokens; use the tokenizer of the same \
                 model"
            )));
        }
        let mapping: Option<Vec<usize>> =
            mapping.map(|rows| rows.into_iter().map(|row| row as usize).collect());
        if let Some(row) = mapping.iter().flatten().find(|row| **row >= n_rows) {
            return Err(wrong(format!("maps a token to vector {row} of {n_rows}; copy the model again")));
        }
        let vectors: Vec<f32> =
            numbers(&embeddings, NAMES[0], &file)?.into_iter().map(|value| value as f32).collect();
        let dimension = options.dimension.unwrap_or(full_dimension);
        if dimension > full_dimension {
            return Err(EmbedError::model(
                &base,
                format!(
                    "gives {full_dimension} columns, of which {dimension} cannot be kept; name a smaller number"
                ),
            ));
        }
        if options != Options::default() {
            hash.update(format!("{options:?}").as_bytes());
        }
        Ok(TokenVectors {
            id: format!("model2vec-{full_dimension}-{:016x}", hash.digest()),
            path: base,
            unknown: unknown(&tokenizer),
            max_letters: config.max_length.map(|tokens| tokens.saturating_mul(median_length(&tokenizer))),
            max_tokens: config.max_length,
            tokenizer,
            full_dimension,
            dimension,
            vectors,
            mapping,
            weights: weights.map(|weights| weights.into_iter().map(|weight| weight as f32).collect()),
            cosine: options.normalize.unwrap_or(true),
        })
    }

    pub fn n_tokens(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    /// The vector of a token, with all columns.
    fn token(&self, id: usize) -> impl Iterator<Item = f32> {
        let row = self.mapping.as_ref().map_or(id, |mapping| mapping[id]);
        let weight = self.weights.as_ref().map_or(1.0, |weights| weights[id]);
        self.vectors[row * self.full_dimension..][..self.full_dimension]
            .iter()
            .map(move |value| value * weight)
    }

    fn vector(&self, text: &str, out: &mut [f32]) -> Result<(), EmbedError> {
        let text = match self.max_letters.and_then(|limit| text.char_indices().nth(limit)) {
            Some((end, _)) => &text[..end],
            None => text,
        };
        let encoding = guarded(&self.path, FAILS, || self.tokenizer.encode_fast(text, false))?;
        let mut n = 0usize;
        for id in encoding.get_ids().iter().filter(|id| Some(**id) != self.unknown) {
            out.iter_mut().zip(self.token(*id as usize)).for_each(|(sum, value)| *sum += value);
            n += 1;
        }
        out.iter_mut().for_each(|sum| *sum /= n.max(1) as f32);
        if self.cosine {
            normalize(out);
        }
        Ok(())
    }

    fn embed(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        let mut values = vec![0.0; texts.len() * self.dimension];
        values
            .par_chunks_exact_mut(self.dimension)
            .zip(texts)
            .with_min_len(16)
            .try_for_each(|(row, text)| self.vector(text, row))?;
        Ok(Vectors { dimension: self.dimension, values })
    }

    /// Converts the model to the format of `quarry train static`, and returns the words of its tokens: those tokens
    /// that are words or parts of words, in lower case; of a word and a part with the same spelling, the word. In
    /// that format, punctuation has no vector, texts are split into words by other rules, and vectors are rounded
    /// to 8 bits when written.
    pub fn to_static(&self) -> (StaticWeights, Vec<String>) {
        let special = self.tokenizer.get_added_tokens_decoder();
        let mut tokens: Vec<(String, u32)> = self.tokenizer.get_vocab(true).into_iter().collect();
        tokens.retain(|(_, id)| Some(*id) != self.unknown && !special.contains_key(id));
        let mut words: Vec<(String, Part, u32)> = tokens
            .into_iter()
            .filter_map(|(token, id)| {
                let (part, text) = part_of_word(&self.tokenizer, &token);
                let mut found = Vec::new();
                for_each_word(text, 2, |word, _| found.push(word.to_owned()));
                let [word] = &found[..] else { return None };
                let is_lower = *word == text;
                (word.chars().count() == text.chars().count())
                    .then(|| (word.clone(), Part { is_rest: part, is_changed: !is_lower }, id))
            })
            .collect();
        words.sort();
        words.dedup_by(|later, first| later.0 == first.0);
        // In the tokenizer's order, which often is that of frequency.
        words.sort_by_key(|(_, _, id)| *id);
        let hashes: Vec<u64> = words.iter().map(|(word, _, _)| word_hash(word)).collect();
        let weights = StaticWeights {
            dimension: self.dimension,
            max_words: self.max_tokens.unwrap_or(u32::MAX as usize).min(u32::MAX as usize),
            slots: build_slots(&hashes),
            position_weights: vec![1.0],
            document_rows: words
                .iter()
                .flat_map(|(_, _, id)| self.token(*id as usize).take(self.dimension))
                .collect(),
            query_rows: Vec::new(),
        };
        (weights, words.into_iter().map(|(word, _, _)| word).collect())
    }
}

/// Relation of a token to the word that it represents, in order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    /// True if it continues a word.
    is_rest: bool,
    /// True if it contains capitals.
    is_changed: bool,
}

impl Embedder for TokenVectors {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.embed(texts)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.embed(texts)
    }
}

/// Directory of a model's vectors: its own, or a subdirectory.
fn place(directory: &Path) -> Option<PathBuf> {
    PLACES.iter().map(|place| directory.join(place)).find(|place| {
        let names = tensor_names(&place.join(WEIGHTS)).unwrap_or_default();
        names.iter().any(|name| NAMES.contains(&name.as_str()))
    })
}

/// The names in the header of a safetensors file; empty if it is too long for a static model.
fn tensor_names(path: &Path) -> Option<Vec<String>> {
    use std::io::Read;
    // Avoids blocking on a pipe.
    if !path.is_file() {
        return None;
    }
    let mut file = std::fs::File::open(path).ok()?;
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let length = u64::from_le_bytes(length);
    let mut head = Vec::new();
    file.take(length.min(MAX_HEAD)).read_to_end(&mut head).ok()?;
    let head: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&head).ok()?;
    Some(head.into_iter().map(|(name, _)| name).collect())
}

fn numbers(tensor: &TensorView<'_>, name: &str, path: &Path) -> Result<Vec<f64>, EmbedError> {
    let bytes = tensor.data();
    let values: Vec<f64> = match tensor.dtype() {
        Dtype::F64 => bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect(),
        Dtype::F32 => bytes.as_chunks().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect(),
        Dtype::F16 => {
            bytes.as_chunks().0.iter().map(|bytes| half::f16::from_le_bytes(*bytes).to_f64()).collect()
        }
        Dtype::BF16 => {
            bytes.as_chunks().0.iter().map(|bytes| half::bf16::from_le_bytes(*bytes).to_f64()).collect()
        }
        Dtype::I8 => bytes.iter().map(|byte| f64::from(*byte as i8)).collect(),
        Dtype::I32 => bytes.as_chunks().0.iter().map(|bytes| f64::from(i32::from_le_bytes(*bytes))).collect(),
        Dtype::I64 => bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes) as f64).collect(),
        other => {
            let problem =
                format!("contains {name} as {other:?}, which is not supported; save it as 32-bit floats");
            return Err(EmbedError::model(path, problem));
        }
    };
    if values.iter().all(|value| value.is_finite()) {
        return Ok(values);
    }
    Err(EmbedError::model(path, format!("contains NaN or infinity in {name}; train or copy the model again")))
}

/// The token for unknown words, according to the tokenizer's model.
fn unknown(tokenizer: &Tokenizer) -> Option<u32> {
    let number = |token: &str| tokenizer.token_to_id(token);
    match tokenizer.get_model() {
        ModelWrapper::WordPiece(model) => number(&model.unk_token),
        ModelWrapper::WordLevel(model) => number(&model.unk_token),
        ModelWrapper::BPE(model) => model.unk_token.as_deref().and_then(number),
        // The model does not expose the number, but serializes it.
        ModelWrapper::Unigram(model) => {
            let model = serde_json::to_value(model).ok()?;
            u32::try_from(model["unk_id"].as_u64()?).ok()
        }
    }
}

/// The median length of all tokens, which model2vec uses to truncate texts before splitting them.
fn median_length(tokenizer: &Tokenizer) -> usize {
    let mut lengths: Vec<usize> =
        tokenizer.get_vocab(true).into_keys().map(|token| token.chars().count()).collect();
    lengths.sort_unstable();
    match lengths.len() {
        0 => 0,
        n if n % 2 == 0 => usize::midpoint(lengths[n / 2 - 1], lengths[n / 2]),
        n => lengths[n / 2],
    }
}

/// Returns whether a token continues a word, and its text.
fn part_of_word<'a>(tokenizer: &Tokenizer, token: &'a str) -> (bool, &'a str) {
    let marked = |mark: &str| match token.strip_prefix(mark) {
        Some(text) => (false, text),
        None => (true, token),
    };
    match tokenizer.get_model() {
        ModelWrapper::WordPiece(model) => {
            match token.strip_prefix(model.continuing_subword_prefix.as_str()) {
                Some(text) if !model.continuing_subword_prefix.is_empty() => (true, text),
                _ => (false, token),
            }
        }
        ModelWrapper::Unigram(_) => marked("▁"),
        ModelWrapper::BPE(_) if token.starts_with('▁') => marked("▁"),
        ModelWrapper::BPE(_) => marked("Ġ"),
        ModelWrapper::WordLevel(_) => (false, token),
    }
}

/// Writes a static model in model2vec's format into the directory `out`; `words` are its tokens by number, with a
/// space within pairs of words. Returns the number of written tokens: pairs of words are not written, since no
/// tokenizer produces them. The weights of positions, the separate vectors of queries and the limit of a text are
/// lost as well.
///
/// # Errors
/// When the words do not match the model, or a file cannot be written.
pub fn write_token_vectors(weights: &StaticWeights, words: &[&str], out: &Path) -> Result<usize, EmbedError> {
    let n_rows = weights.document_rows.len() / weights.dimension.max(1);
    if words.len() != n_rows {
        let problem =
            format!("has {} words for {n_rows} vectors; expected those of the same model", words.len());
        return Err(EmbedError::model(out, problem));
    }
    const UNKNOWN: &str = "[UNK]";
    let mut vocabulary = serde_json::Map::from_iter([(UNKNOWN.to_owned(), json!(0))]);
    let mut rows = vec![0.0f32; weights.dimension];
    for (word, row) in words.iter().zip(weights.document_rows.chunks_exact(weights.dimension)) {
        if !word.contains(' ') && !vocabulary.contains_key(*word) {
            vocabulary.insert((*word).to_owned(), json!(vocabulary.len()));
            rows.extend_from_slice(row);
        }
    }
    let n_written = vocabulary.len() - 1;
    let replace = |pattern: &str| json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": " "});
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        // Identifiers are split where lower case turns into upper, and before the last capital of several.
        "normalizer": {"type": "Sequence", "normalizers": [
            replace(r"(?<=[^\p{Lu}])(?=\p{Lu})"),
            replace(r"(?<=\p{Lu})(?=\p{Lu}\p{Ll})"),
            {"type": "Lowercase"},
        ]},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": r"[^\p{L}\p{N}]+"},
            "behavior": "Removed",
            "invert": false,
        },
        "post_processor": null,
        "decoder": null,
        // Unknown words are split into their longest known pieces from left to right.
        "model": {
            "type": "WordPiece",
            "unk_token": UNKNOWN,
            "continuing_subword_prefix": "",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    });
    let config = json!({
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "hidden_dim": weights.dimension,
        "max_length": null,
        "normalize": true,
        "embedding_dtype": "float32",
    });
    let modules = json!([
        {"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"},
        {"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]);
    for (name, value) in [("tokenizer.json", tokenizer), ("config.json", config), ("modules.json", modules)] {
        let path = out.join(name);
        std::fs::write(&path, format!("{value:#}\n"))
            .map_err(|error| EmbedError::model_file(&path, "cannot be written", error))?;
    }
    let path = out.join(WEIGHTS);
    guarded(&path, "cannot be written; make space, or name another directory", || {
        let shape = (n_written + 1, weights.dimension);
        let tensor = candle_core::Tensor::from_vec(rows, shape, &candle_core::Device::Cpu)?;
        super::convert::save(&std::iter::once((NAMES[0].to_owned(), tensor)).collect(), &path)
    })?;
    Ok(n_written)
}
