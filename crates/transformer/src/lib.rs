//! Embeds text with a transformer encoder from a sentence-transformers directory, reads the vectors of other
//! programs, and compares 32-bit vectors exactly.
//!
//! A text is split into tokens, the encoder computes their vectors, and these are pooled into one, as in
//! sentence-transformers. Everything is computed in 32-bit floats on the CPU, one batch per core.

mod adapters;
mod architecture;
mod attention;
mod config;
pub mod convert;
mod cross_encoder;
mod encoder;
mod graph;
mod growth;
mod late_interaction;
mod layout;
mod matcher;
mod modules;
pub mod nearest;
mod numeric;
mod options;
mod pickle;
mod pooling;
mod precomputed;
mod quantized;
mod reader;
mod shape;
mod token_vectors;
mod tokenizer;
mod tokens;
pub mod trainable;
mod weights;

pub use cross_encoder::CrossEncoder;
pub use late_interaction::LateInteraction;
pub use matcher::{Matcher, read_matcher};
pub use options::published_option;
pub use precomputed::read_vectors;
pub use token_vectors::{TokenVectors, write_token_vectors};
pub use tokens::TokenCutter;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use adapters::Adapters;
use config::Directory;
use quarry_embed::{EmbedError, Embedder, Vectors};
use rayon::prelude::*;
use reader::{FAILS, guarded};
use tokenizers::Tokenizer;
use xxhash_rust::xxh3::Xxh3;

use encoder::{About, Encoder, Linear};
use graph::{Graph, GraphReader};
use options::{FlowLanguage, Options};
use pooling::{Dense, DenseFunction, Head, Step};
use trainable::MATCHER_FILE;
use weights::Weights;

/// Maximum number of tokens in a batch, unless one text has more: enough to keep the matrix products busy, and few
/// enough for the intermediate states to stay in a core's cache.
const BATCH_TOKENS: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Query,
    Document,
}

/// An encoder with its tokenizer and pooling.
pub struct TransformerModel {
    id: String,
    path: String,
    encoder: Encoder,
    tokenizer: Tokenizer,
    head: Head,
    /// Tokens after the first one of every text.
    prefix: Vec<u32>,
    /// Prefixes for the tasks of queries and documents.
    adapters: [Option<Arc<Adapters>>; 2],
    /// Reads the data flow of documents.
    graphs: Option<GraphReader>,
    /// True if a run of white space is read as one space.
    collapses: bool,
    /// Maximum numbers of tokens of queries and documents, in place of the tokenizer's.
    limits: Option<[usize; 2]>,
    /// The token with which published code pads CodeT5+'s texts up to the limit, unmasked.
    filler: Option<u32>,
    query_prompt: String,
    document_prompt: String,
}

impl TransformerModel {
    /// Loads a sentence-transformers directory, or a plain Hugging Face one, whose tokens are then pooled by their
    /// mean. Weights come from `model.safetensors`, otherwise from `pytorch_model.bin`; the tokenizer from
    /// `tokenizer.json`, otherwise from `vocab.txt`.
    ///
    /// The path may end with options after colons: a number of columns to keep (Matryoshka), a pooling in place of
    /// the directory's modules, `pooler` for the model's own layer with a hyperbolic tangent, `unixcoder` for that
    /// model's prefix, `graphcodebert` for data flow, tasks of adapters, `cosine` or `dot`, and `published` to read
    /// texts like CoSQA+'s script.
    ///
    /// # Errors
    /// When a file is missing, damaged, or requires something unsupported; the error names it and the remedy.
    pub fn load(path: &Path) -> Result<TransformerModel, EmbedError> {
        let (base, options) = Options::split(path)?;
        if !options.replaces_head() && CrossEncoder::is_at(&base) {
            let problem = "contains a cross-encoder, which scores pairs of texts; use it as B of the method rerank(A, B) or \
                           with `quarry search --cross-encoder`, or name a pooling after the path, as in DIR:mean, for \
                           the encoder in it";
            return Err(EmbedError::model(&base, problem));
        }
        let matcher = base.join(MATCHER_FILE);
        if !options.replaces_head() && matcher.exists() {
            let problem = format!("compares the vectors of the model beside it; {}", matcher::USE);
            return Err(EmbedError::model(&matcher, problem));
        }
        TransformerModel::open(&base, options)
    }

    /// Loads a directory with options as a transformer, regardless of its other contents.
    fn open(base: &Path, options: Options) -> Result<TransformerModel, EmbedError> {
        let mut hash = Xxh3::new();
        let mut directory = Directory::read(base, &options, &mut hash)?;
        if directory.token_vectors.is_some() {
            let problem = "gives each token a vector, not each text; use it with `quarry search --reranker` or as a method of \
                           `quarry eval`, or name a pooling after the path, as in DIR:mean, for the encoder in it";
            return Err(EmbedError::model(base, problem));
        }
        let (mut limits_of_sides, mut filler) = (None, None);
        if let Some(limits) = options.published.and_then(|published| published.limits) {
            let max_tokens = directory.architecture.shape().max_tokens.unwrap_or(usize::MAX);
            limits_of_sides = Some(limits.map(|limit| limit.min(max_tokens)));
            // Texts are truncated after special tokens were added, at the limit for queries or documents.
            let problem = "has a tokenizer that cannot be used; save the model's tokenizer again";
            guarded(base, problem, || directory.tokenizer.with_truncation(None).map(drop))?;
            if directory.model_type == architecture::CODET5P {
                filler = directory.tokenizer.token_to_id("<pad>");
            }
        }
        let mut weights = Weights::open(&directory.weights, &mut hash)?;
        weights.packs = true;
        let encoder = directory.architecture.encoder(&mut weights)?.packed();
        let mut adapters = [None, None];
        if let Some([of_queries, of_documents]) = directory.tasks {
            let mut read = |task| directory.architecture.adapters(&mut weights, task).map(Arc::new);
            let first = read(of_queries)?;
            let second = if of_documents == of_queries { first.clone() } else { read(of_documents)? };
            adapters = [Some(first), Some(second)];
        }
        let mut head = directory.head;
        let hidden = encoder.shape.hidden;
        if options.pooler {
            let pooler = Linear::new(&weights, "pooler.dense", hidden, hidden)?;
            head.steps = vec![Step::Dense(Dense::new(pooler, DenseFunction::Tanh))];
        }
        if directory.projects {
            head.steps = directory.architecture.projection(&weights)?.map(Step::Dense).into_iter().collect();
            head.steps.push(Step::Normalize);
        }
        if options.normalize == Some(false) && options.replaces_head() {
            head.steps.retain(|step| !matches!(step, Step::Normalize));
        }
        if let Some(n_kept) = options.dimension {
            if n_kept > head.full_dimension() {
                let problem = format!(
                    "gives {} columns, of which {n_kept} cannot be kept; name a smaller number",
                    head.full_dimension()
                );
                return Err(EmbedError::model(base, problem));
            }
            head.truncate = Some(n_kept);
        }
        if options != Options::default() {
            hash.update(format!("{options:?}").as_bytes());
        }
        let prefix = if options.unixcoder { encoder_prefix(base, &directory.tokenizer)? } else { Vec::new() };
        let graphs = match options.data_flow {
            None => None,
            Some(of) => {
                let language = if let FlowLanguage::All(language) = of { Some(language) } else { None };
                let is_roberta =
                    encoder.positions.as_ref().is_some_and(|positions| positions.padding.is_some());
                let Some(max_tokens) = encoder.shape.max_tokens.filter(|n| is_roberta && *n > 2) else {
                    let problem = format!(
                        "is a model of type {}, whose positions have no place for variables; use the option \
                         `graphcodebert` with a GraphCodeBERT model",
                        directory.model_type
                    );
                    return Err(EmbedError::model(base, problem));
                };
                Some(GraphReader::new(base, language, &directory.tokenizer, max_tokens)?)
            }
        };
        Ok(TransformerModel {
            id: format!("bert-{}x{hidden}-{:016x}", encoder.shape.n_layers, hash.digest()),
            path: base.display().to_string(),
            encoder,
            tokenizer: directory.tokenizer,
            head,
            prefix,
            adapters,
            graphs,
            collapses: options.published.is_some(),
            limits: limits_of_sides,
            filler,
            query_prompt: directory.query_prompt,
            document_prompt: directory.document_prompt,
        })
    }

    fn embed(&self, side: Side, texts: &[&str]) -> Result<Vectors, EmbedError> {
        let (prompt, reader) = match side {
            Side::Query => (&self.query_prompt, None),
            Side::Document => (&self.document_prompt, self.graphs.as_ref()),
        };
        let adapters = self.adapters[side as usize].as_deref();
        let n_prompt = match self.head.include_prompt {
            true => 0,
            false if prompt.is_empty() => 0,
            // Special tokens added at the end are not part of the prompt.
            false => self.tokenize(side, "", prompt)?.len().saturating_sub(1),
        };
        let read = |text: &&str| match reader.map(|reader| reader.read(Path::new(&self.path), text)) {
            Some(Ok(Some((ids, graph)))) => {
                check_tokens(Path::new(&self.path), &ids, self.encoder.n_tokens())?;
                Ok((ids, Some(graph)))
            }
            Some(Err(error)) => Err(error),
            Some(Ok(None)) | None => Ok((self.tokenize(side, prompt, text)?, None)),
        };
        let read = texts.par_iter().map(read).collect::<Result<Vec<_>, EmbedError>>()?;
        let (ids, graphs): (Vec<Vec<u32>>, Vec<Option<Graph>>) = read.into_iter().unzip();
        let rows: Vec<Vec<f32>> = batches(&ids, rayon::current_num_threads())
            .into_par_iter()
            .with_max_len(1)
            .map(|batch| {
                let texts = &ids[batch.clone()];
                let states =
                    self.encoder.run(texts, About { graphs: &graphs[batch], adapters, ..About::default() });
                self.head.apply(texts.iter().map(Vec::len), n_prompt, &states)
            })
            .collect();
        let values = rows.concat();
        check_numbers(Path::new(&self.path), &values)?;
        Ok(Vectors { dimension: self.head.dimension(), values })
    }

    fn tokenize(&self, side: Side, prompt: &str, text: &str) -> Result<Vec<u32>, EmbedError> {
        let collapsed;
        let text = if self.collapses {
            collapsed = text.split_whitespace().collect::<Vec<_>>().join(" ");
            collapsed.as_str()
        } else {
            text
        };
        let path = Path::new(&self.path);
        let encoding = guarded(path, FAILS, || match prompt {
            "" => self.tokenizer.encode_fast(text, true),
            _ => self.tokenizer.encode_fast(format!("{prompt}{text}"), true),
        })?;
        let mut ids = encoding.get_ids().to_vec();
        ids.splice(ids.len().min(1)..ids.len().min(1), self.prefix.iter().copied());
        if let Some(limits) = self.limits {
            let limit = limits[side as usize];
            match (ids.last().copied(), self.filler) {
                (_, Some(filler)) => ids.resize(limit, filler),
                (Some(end), None) if ids.len() > limit => {
                    ids.truncate(limit - 1);
                    ids.push(end);
                }
                _ => {}
            }
        }
        check_tokens(path, &ids, self.encoder.n_tokens())?;
        Ok(ids)
    }
}

fn check_numbers(path: &Path, values: &[f32]) -> Result<(), EmbedError> {
    if values.iter().all(|value| value.is_finite()) {
        return Ok(());
    }
    let problem =
        "returns NaN or infinity for a text, so its weights are damaged; copy or train the model again";
    Err(EmbedError::model(path, problem))
}

/// Checks that a model has a vector for each token of its tokenizer.
fn check_tokens(path: &Path, ids: &[u32], n_tokens: usize) -> Result<(), EmbedError> {
    match ids.iter().find(|id| **id as usize >= n_tokens) {
        None => Ok(()),
        Some(id) => {
            let problem = format!(
                "has a tokenizer that gives token {id}, but weights for {n_tokens} tokens only; use the tokenizer of \
                 the same model"
            );
            Err(EmbedError::model(path, problem))
        }
    }
}

impl Embedder for TransformerModel {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimension(&self) -> usize {
        self.head.dimension()
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.embed(Side::Query, texts)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vectors, EmbedError> {
        self.embed(Side::Document, texts)
    }
}

/// Loads the model of a directory: a static model of model2vec, a late-interaction model, or another transformer.
///
/// # Errors
/// As [`TokenVectors::load`], [`LateInteraction::load`] and [`TransformerModel::load`].
pub fn load(path: &Path) -> Result<Arc<dyn Embedder>, EmbedError> {
    if TokenVectors::is_at(path) {
        return Ok(Arc::new(TokenVectors::load(path)?));
    }
    if LateInteraction::is_at(path) {
        return Ok(Arc::new(LateInteraction::load(path)?));
    }
    Ok(Arc::new(TransformerModel::load(path)?))
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

/// Splits the path of a model into its directory and the options after a colon; if the whole path exists, there are
/// no options.
pub fn split_options(path: &Path) -> (PathBuf, Option<String>) {
    let whole = || (path.to_owned(), None);
    let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| !path.exists()) else {
        return whole();
    };
    match name.split_once(':') {
        Some((name, options)) if !name.is_empty() => (path.with_file_name(name), Some(options.to_owned())),
        _ => whole(),
    }
}

/// The tokens that UniXcoder requires after the first one in encoder mode; none if the tokenizer adds them itself,
/// as that of a trained model does.
fn encoder_prefix(path: &Path, tokenizer: &Tokenizer) -> Result<Vec<u32>, EmbedError> {
    let id = |token: &str| {
        tokenizer.token_to_id(token).ok_or_else(|| {
            let problem = format!(
                "has a tokenizer without the token {token}, which the option `unixcoder` needs; use it with a \
                 UniXcoder model"
            );
            EmbedError::model(path, problem)
        })
    };
    let mode = id("<encoder-only>")?;
    let of_nothing = guarded(path, FAILS, || tokenizer.encode_fast("", true))?;
    Ok(if of_nothing.get_ids().contains(&mode) { Vec::new() } else { vec![mode, id("</s>")?] })
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

    /// Compares with the output of CoSQA+'s script for the same tokenizers (`tests/make_published_tokens.py`).
    #[test]
    fn texts_are_read_as_the_published_script_reads_them() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let text = std::fs::read(fixtures.join("expected-published-tokens.json")).unwrap();
        let expected: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let strings =
            |value: &serde_json::Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
        let directory = tempfile::tempdir().unwrap();
        for (name, source, options) in [
            ("codebert", "tiny-roberta", "pooler:cosine:"),
            ("unixcoder", "tiny-roberta", "unixcoder:cosine:"),
            ("codet5p", "tiny-codet5p", ""),
        ] {
            let copy = directory.path().join(name);
            std::fs::create_dir(&copy).unwrap();
            for entry in std::fs::read_dir(fixtures.join(source)).unwrap().map(Result::unwrap) {
                if entry.path().is_file() && entry.file_name() != "modules.json" {
                    let mut content = std::fs::read(entry.path()).unwrap();
                    if entry.file_name() == "tokenizer.json" && name == "unixcoder" {
                        let text = String::from_utf8(content).unwrap();
                        content = text.replace("<mask>", "<encoder-only>").into_bytes();
                    }
                    std::fs::write(copy.join(entry.file_name()), content).unwrap();
                }
            }
            let limits: [usize; 2] = serde_json::from_value(expected["limits"].clone()).unwrap();
            let path = format!("{}:{options}{}", copy.display(), published_option(Some(limits)));
            let model = TransformerModel::load(Path::new(&path)).unwrap();
            for (side, key) in [(Side::Query, "queries"), (Side::Document, "documents")] {
                for (text, ids) in
                    strings(&expected["texts"]).iter().zip(expected[name][key].as_array().unwrap())
                {
                    let mut ids: Vec<u32> = serde_json::from_value(ids.clone()).unwrap();
                    // Padding is masked, except that of CodeT5+.
                    while name != "codet5p" && ids.last() == Some(&1) {
                        ids.pop();
                    }
                    assert_eq!(model.tokenize(side, "", text).unwrap(), ids, "{name} {key} {text:?}");
                }
            }
            assert_eq!(model.embed_documents(&["a  b"]).unwrap(), model.embed_documents(&["a\n b"]).unwrap());
        }
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
}
