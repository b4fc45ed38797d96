//! Parts of a model directory required for training: the encoder's tensors by name, its shape, tokenizer and
//! pooling.
//!
//! The forward pass of [`crate::TransformerModel`] has no gradients; a trainer computes its own from these tensors.

use std::path::{Path, PathBuf};

use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{Tokenizer, TruncationParams};
use xxhash_rust::xxh3::Xxh3;

use super::config::Directory;
use super::options::Options;
use super::pooling::{Pooling, Step};
use super::reader::{FAILS, guarded};
use super::weights::Weights;
use super::{check_tokens, encoder_prefix};
use quarry_embed::EmbedError;

pub use super::late_interaction::{Expansion, TokenSettings};
pub use super::layout::{Layout, Relative, Wiring};
pub use super::numeric::{Activation, Output, Strided, multiply};
pub use super::shape::Shape;

/// The key in `config.json` of the maximum number of tokens of a query with which a cross-encoder was trained.
pub const MAX_QUERY_TOKENS: &str = "max_query_tokens";

/// Name of the linear map of token vectors in a late-interaction model.
pub const TOKEN_MAP: &str = "linear.weight";

/// Name of the file with the tensors of a matcher: a network that compares the vectors of a query and a code.
pub const MATCHER_FILE: &str = "matcher.safetensors";

/// A tensor of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTensor {
    /// Its name, without the prefix of the encoder in a complete model.
    pub name: String,
    /// Rows and columns.
    pub shape: Vec<usize>,
    /// Row-major.
    pub values: Vec<f32>,
}

/// Pooling of a text's token vectors, among those supported in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainablePooling {
    /// The first of them.
    Cls,
    Mean,
    /// The first, mapped by the model's own layer with a hyperbolic tangent.
    Pooler,
    /// The first, mapped linearly to fewer columns and scaled to length 1, as in CodeT5+.
    Projection,
    /// All of them, each mapped linearly and scaled to length 1: for late interaction.
    Tokens,
}

/// A model directory, read for training.
pub struct Trainable {
    /// The directory, without options.
    pub directory: PathBuf,
    /// Directory of the encoder's weights and tokenizer: `directory` or one below it.
    pub transformer: PathBuf,
    /// `model_type` of `config.json`.
    pub model_type: String,
    pub shape: Shape,
    /// See [`Layout::padding`].
    pub padding: Option<usize>,
    /// See [`Layout::wiring`].
    pub wiring: Wiring,
    pub pooling: TrainablePooling,
    /// Columns of a text's vector.
    pub dimension: usize,
    /// True if vectors are compared by cosine.
    pub cosine: bool,
    /// The encoder's tensors, and the pooler's if `pooling` needs it.
    pub tensors: Vec<NamedTensor>,
    pub query_prompt: String,
    pub document_prompt: String,
    pub late: Option<TokenSettings>,
    tokenizer: Tokenizer,
    /// Tokens after the first one of every text.
    prefix: Vec<u32>,
}

impl Trainable {
    /// Reads a directory; the path may end with the options that [`crate::TransformerModel::load`] takes.
    ///
    /// # Errors
    /// When a file is missing or damaged, or this kind of model cannot be trained here.
    pub fn read(path: &Path) -> Result<Trainable, EmbedError> {
        let (base, options) = Options::split(path)?;
        let mut hash = Xxh3::new();
        let directory = Directory::read(&base, &options, &mut hash)?;
        let unsupported = |problem: String| Err(EmbedError::model(&base, problem));
        let Some(layout) = directory.architecture.layout() else {
            return unsupported(
                "has an architecture that cannot be trained; name a BERT, RoBERTa, MPNet or T5 model".into(),
            );
        };
        if options.data_flow.is_some() {
            return unsupported(
                "cannot be trained with data flow; leave out the option `graphcodebert` to train on code alone, unlike \
                 in GraphCodeBERT's paper"
                    .into(),
            );
        }
        if let Some(columns) = options.dimension {
            return unsupported(format!(
                "is always trained with all columns, not {columns}; leave out the number, and set `matryoshka` to train \
                 the first columns as well"
            ));
        }
        let limit = directory.architecture.shape().max_tokens.unwrap_or(usize::MAX);
        let late = directory.token_vectors.as_ref();
        let late =
            late.map(|config| TokenSettings::new(&base, config, &directory.tokenizer, limit)).transpose()?;
        let is_matrix = matches!(&directory.head.steps[..], [Step::Dense(dense)] if dense.is_matrix());
        if late.is_some() && !is_matrix {
            return unsupported(
                "has more after its encoder than one Dense module without bias, function and residual, which cannot be \
                 trained"
                    .into(),
            );
        }
        if late.as_ref().and_then(|late| late.expansion).is_some_and(|expansion| !expansion.is_attended) {
            return unsupported(
                "fills queries up with mask tokens that no other token attends to, which cannot be trained; set \
                 attend_to_expansion_tokens to true or do_query_expansion to false in its \
                 config_sentence_transformers.json"
                    .into(),
            );
        }
        if late.is_none() && directory.head.steps.iter().any(|step| matches!(step, Step::Dense(_)))
            || !directory.head.include_prompt
        {
            return unsupported(
                "has a Dense module, or a pooling without the prompt, which cannot be trained; name a \
                 pooling after the path, as in DIR:mean"
                    .into(),
            );
        }
        let pooling = match directory.head.poolings[..] {
            [Pooling::Cls] if options.pooler => TrainablePooling::Pooler,
            _ if directory.projects => TrainablePooling::Projection,
            _ if late.is_some() => TrainablePooling::Tokens,
            [Pooling::Cls] => TrainablePooling::Cls,
            [Pooling::Mean] => TrainablePooling::Mean,
            _ => {
                return unsupported(
                    "has a pooling that cannot be trained; name one after the path: DIR:cls, DIR:mean or DIR:pooler"
                        .into(),
                );
            }
        };
        let mut weights = Weights::open(&directory.weights, &mut hash)?;
        weights.find_prefix(layout.prefixes, &layout.tensors[0].0);
        let shape = directory.architecture.shape().clone();
        let (mut names, mut wiring) = (layout.tensors, layout.wiring);
        // T5 stores its tokens once or twice, under either name.
        if wiring.is_t5 && !weights.has(wiring.tokens) {
            wiring.tokens = "encoder.embed_tokens.weight";
            wiring.tokens.clone_into(&mut names[0].0);
        }
        if pooling == TrainablePooling::Pooler {
            names.push(("pooler.dense.weight".into(), vec![shape.hidden, shape.hidden]));
            names.push(("pooler.dense.bias".into(), vec![shape.hidden]));
        }
        let dimension = match directory.architecture.projection_width() {
            Some(columns) if pooling == TrainablePooling::Projection => columns,
            _ if late.is_some() => directory.head.full_dimension(),
            _ => shape.hidden,
        };
        if pooling == TrainablePooling::Projection {
            names.push(("proj.weight".into(), vec![dimension, shape.hidden]));
            names.push(("proj.bias".into(), vec![dimension]));
        }
        let mut tensors = names
            .into_iter()
            .map(|(name, shape)| Ok(NamedTensor { values: weights.get(&name, &shape)?, name, shape }))
            .collect::<Result<Vec<_>, EmbedError>>()?;
        if let (Some(_), [of_tokens]) = (&late, &directory.steps[..]) {
            let (name, shape) = (TOKEN_MAP.to_owned(), vec![dimension, shape.hidden]);
            let values = Weights::open(of_tokens, &mut hash)?.get(&name, &shape)?;
            tensors.push(NamedTensor { name, shape, values });
        }
        let prefix =
            if options.unixcoder { encoder_prefix(&base, &directory.tokenizer)? } else { Vec::new() };
        let normalizes = directory.head.steps.iter().any(|step| matches!(step, Step::Normalize));
        Ok(Trainable {
            dimension,
            // A projection has length 1, whatever the options are.
            cosine: matches!(pooling, TrainablePooling::Projection | TrainablePooling::Tokens)
                || options.normalize.unwrap_or(directory.head.normalize || normalizes),
            directory: base,
            transformer: directory.weights,
            model_type: directory.model_type,
            shape,
            padding: layout.padding,
            wiring,
            pooling,
            tensors,
            query_prompt: directory.query_prompt,
            document_prompt: directory.document_prompt,
            late,
            tokenizer: directory.tokenizer,
            prefix,
        })
    }

    /// Keeps only the first `n` layers.
    ///
    /// # Errors
    /// When the model has fewer, or `n` is 0.
    pub fn keep_layers(&mut self, n: usize) -> Result<(), EmbedError> {
        if !(1..=self.shape.n_layers).contains(&n) {
            let problem =
                format!("has {} layers; expected to keep 1 to all of them, not {n}", self.shape.n_layers);
            return Err(EmbedError::model(&self.directory, problem));
        }
        let layer_of =
            |name: &str| name.strip_prefix(self.wiring.layer)?.split('.').next()?.parse::<usize>().ok();
        self.tensors.retain(|tensor| layer_of(&tensor.name).is_none_or(|layer| layer < n));
        self.shape.n_layers = n;
        Ok(())
    }

    /// The `tokenizer.json` of a model that reads pairs of texts as in [`TextTokenizer::pair_ids`], without a
    /// limit.
    ///
    /// # Errors
    /// When the tokenizer has no special tokens before and after a text.
    pub fn pair_tokenizer(&self) -> Result<String, EmbedError> {
        let mut tokenizer = self.tokenizer.clone();
        let ends = text_ends(&self.directory, &tokenizer)?;
        let [first, last] = ends.map(|id| (tokenizer.id_to_token(id).unwrap_or_default(), id));
        let (single, pair) =
            (format!("{0} $A {1}", first.0, last.0), format!("{0} $A {1} $B:0 {1}", first.0, last.0));
        let problem = "has a tokenizer that cannot read pairs of texts; use that of a BERT or RoBERTa model";
        guarded(&self.directory, problem, || -> tokenizers::Result<String> {
            let processor = TemplateProcessing::builder()
                .try_single(single)?
                .try_pair(pair)?
                .special_tokens(vec![first, last])
                .build()?;
            tokenizer.with_post_processor(Some(processor)).with_truncation(None)?;
            tokenizer.to_string(false)
        })
    }

    /// The `tokenizer.json` of a model whose texts have a prefix of tokens, which the tokenizer then adds itself;
    /// `None` without a prefix.
    ///
    /// # Errors
    /// When the tokenizer has no special tokens before and after a text.
    pub fn prefixed_tokenizer(&self) -> Result<Option<String>, EmbedError> {
        if self.prefix.is_empty() {
            return Ok(None);
        }
        let mut tokenizer = self.tokenizer.clone();
        let [first, last] = text_ends(&self.directory, &tokenizer)?;
        let named = |id: &u32| (tokenizer.id_to_token(*id).unwrap_or_default(), *id);
        let before: Vec<(String, u32)> = std::iter::once(&first).chain(&self.prefix).map(named).collect();
        let last = named(&last);
        let names: Vec<&str> = before.iter().map(|(name, _)| name.as_str()).collect();
        let single = format!("{} $A {}", names.join(" "), last.0);
        let mut special: Vec<(String, u32)> = before.into_iter().chain([last]).collect();
        special.sort();
        special.dedup();
        let problem = "has a tokenizer that cannot add a prefix; use that of a UniXcoder model";
        guarded(&self.directory, problem, || -> tokenizers::Result<String> {
            let processor =
                TemplateProcessing::builder().try_single(single)?.special_tokens(special).build()?;
            tokenizer.with_post_processor(Some(processor)).with_truncation(None)?;
            tokenizer.to_string(false)
        })
        .map(Some)
    }

    /// Tokenizer of texts, truncated at `max_tokens` or at the model's own limit, whichever is less, including
    /// special tokens.
    ///
    /// # Errors
    /// When the limit leaves no room for a text.
    pub fn text_tokenizer(&self, max_tokens: usize) -> Result<TextTokenizer, EmbedError> {
        self.tokenizer_of(1, max_tokens)
    }

    /// Tokenizer of queries, which differ from other texts in late-interaction models.
    ///
    /// # Errors
    /// As [`Trainable::text_tokenizer`].
    pub fn query_tokenizer(&self, max_tokens: usize) -> Result<TextTokenizer, EmbedError> {
        self.tokenizer_of(0, max_tokens)
    }

    fn tokenizer_of(&self, side: usize, max_tokens: usize) -> Result<TextTokenizer, EmbedError> {
        let mut tokenizer = self.tokenizer.clone();
        let own = tokenizer.get_truncation().map_or(max_tokens, |truncation| truncation.max_length);
        let (prefix, own) = match &self.late {
            None => (self.prefix.clone(), own),
            // The model's limit applies to a text with its prefix.
            Some(late) => {
                let prefix: Vec<u32> = late.prefixes[side].into_iter().collect();
                let own = late.lengths[side].saturating_sub(prefix.len());
                (prefix, own)
            }
        };
        let max_length = max_tokens.saturating_sub(prefix.len()).min(own);
        if max_length < 3 {
            let problem = format!("cannot read texts of {max_tokens} tokens; give a limit of at least 8");
            return Err(EmbedError::model(&self.directory, problem));
        }
        let problem = "has a tokenizer that cannot truncate texts; save the model's tokenizer again";
        let truncation = TruncationParams { max_length, ..TruncationParams::default() };
        guarded(&self.directory, problem, || tokenizer.with_truncation(Some(truncation)).map(drop))?;
        let mut whole = tokenizer.clone();
        guarded(&self.directory, problem, || whole.with_truncation(None).map(drop))?;
        Ok(TextTokenizer {
            path: self.directory.clone(),
            tokenizer,
            whole,
            filler: self.late.as_ref().filter(|_| side == 0).and_then(|late| Some(late.expansion?.token)),
            max_tokens: max_length + prefix.len(),
            prefix,
            n_tokens: self.shape.n_tokens,
        })
    }
}

/// The lengths of two texts after truncating the longer one, token by token, until both fit into `room`; the second
/// one on ties.
pub(crate) fn truncate_pair([first, second]: [usize; 2], room: usize) -> [usize; 2] {
    let first = first.min(room.saturating_sub(second).max(room.div_ceil(2)));
    [first, second.min(room - first)]
}

/// Converts texts to token ids.
pub struct TextTokenizer {
    path: PathBuf,
    tokenizer: Tokenizer,
    /// Without truncation.
    whole: Tokenizer,
    prefix: Vec<u32>,
    /// The token that pads texts up to `max_tokens`.
    filler: Option<u32>,
    n_tokens: usize,
    max_tokens: usize,
}

/// The special tokens before and after a text.
fn text_ends(path: &Path, tokenizer: &Tokenizer) -> Result<[u32; 2], EmbedError> {
    let special = guarded(path, FAILS, || tokenizer.encode_fast("", true))?;
    let [first, .., last] = *special.get_ids() else {
        let problem = "has a tokenizer without special tokens before and after a text, which pairs need; use that of a \
                       BERT or RoBERTa model";
        return Err(EmbedError::model(path, problem));
    };
    Ok([first, last])
}

impl TextTokenizer {
    /// The tokens of a text, including special ones.
    ///
    /// # Errors
    /// When the tokenizer fails, or returns a token without a vector in the model.
    pub fn ids(&self, text: &str) -> Result<Vec<u32>, EmbedError> {
        let encoding = guarded(&self.path, FAILS, || self.tokenizer.encode_fast(text, true))?;
        let mut ids = encoding.get_ids().to_vec();
        let at = ids.len().min(1);
        ids.splice(at..at, self.prefix.iter().copied());
        if let Some(filler) = self.filler {
            ids.resize(self.max_tokens, filler);
        }
        self.check(ids)
    }

    /// The texts of special tokens that begin, separate, end or fill sequences.
    pub fn sequence_tokens(&self) -> Vec<String> {
        let added = self.whole.get_added_tokens_decoder();
        let tokens = added.values().filter(|token| token.special).map(|token| token.content.clone());
        let stands_for_text = |token: &String| {
            let name = token.to_ascii_lowercase();
            name.contains("mask") || name.contains("unk")
        };
        tokens.filter(|token| !stands_for_text(token)).collect()
    }

    /// The tokens of two texts in one sequence, as in GenCodeSearchNet: the first special token, at most
    /// `max_first` tokens of the first text, the last special token, the second text, the last special token. The
    /// longer text is truncated, token by token, until both fit.
    ///
    /// # Errors
    /// As [`TextTokenizer::ids`].
    pub fn pair_ids(&self, first: &str, second: &str, max_first: usize) -> Result<Vec<u32>, EmbedError> {
        let tokens = |text: &str| -> Result<Vec<u32>, EmbedError> {
            Ok(guarded(&self.path, FAILS, || self.whole.encode_fast(text, false))?.get_ids().to_vec())
        };
        let [begin, end] = text_ends(&self.path, &self.whole)?;
        let (mut first, mut second) = (tokens(first)?, tokens(second)?);
        let [n_first, n_second] =
            truncate_pair([first.len().min(max_first), second.len()], self.max_tokens.saturating_sub(3));
        first.truncate(n_first);
        second.truncate(n_second);
        let mut ids = vec![begin];
        ids.extend(first);
        ids.push(end);
        ids.extend(second);
        ids.push(end);
        self.check(ids)
    }

    fn check(&self, ids: Vec<u32>) -> Result<Vec<u32>, EmbedError> {
        check_tokens(&self.path, &ids, self.n_tokens)?;
        Ok(ids)
    }
}
