//! The configuration files of a model: the shape of the encoder, how texts become tokens, and how tokens become a
//! vector.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::{BertNormalizer, Lowercase, NormalizerWrapper, Sequence};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::{AddedToken, PostProcessor, Tokenizer, TruncationParams};
use xxhash_rust::xxh3::Xxh3;

use super::numeric::Activation;
use quarry_embed::EmbedError;

/// A sentence-transformers directory, or a plain Hugging Face one, read and checked except for its weights.
pub struct Directory {
    /// Shape of the encoder.
    pub shape: Shape,
    /// Turns a text into token ids, including special tokens, truncated at the model's limit.
    pub tokenizer: Tokenizer,
    /// How the vectors of a text's tokens are pooled.
    pub pooling: Pooling,
    /// Prefix of every query.
    pub query_prompt: String,
    /// Prefix of every document.
    pub document_prompt: String,
    /// Directory of the weights.
    pub weights: PathBuf,
}

/// Shape of a BERT encoder, from `config.json`.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Columns of a token's vector.
    pub hidden: usize,
    /// Columns between the two products of a feed-forward block.
    pub intermediate: usize,
    /// Number of attention heads, a divisor of `hidden`.
    pub n_heads: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Number of token ids.
    pub n_tokens: usize,
    /// Rows of the position table.
    pub n_positions: usize,
    /// Rows of the token type table.
    pub n_token_types: usize,
    /// Row of the position table for the first token.
    pub first_position: usize,
    /// Added to the variance in every normalization.
    pub epsilon: f32,
    /// The function inside a feed-forward block.
    pub activation: Activation,
}

/// How the vectors of a text's tokens are pooled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first of them.
    Cls,
    /// The maximum of each column.
    Max,
}

/// Runs a step of another crate on a model file. Both `tokenizers` and candle's pickle reader panic on some damaged
/// files; this turns panics into errors.
pub fn guarded<T, E: Into<Box<dyn Error + Send + Sync>>>(
    path: &Path,
    problem: &str,
    step: impl FnOnce() -> Result<T, E>,
) -> Result<T, EmbedError> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(result) => result.map_err(|error| EmbedError::model_file(path, problem, error)),
        Err(_) => Err(EmbedError::model(path, problem)),
    }
}

#[derive(Deserialize)]
struct Module {
    path: String,
    r#type: String,
}

#[derive(Deserialize)]
struct BertConfig {
    model_type: String,
    hidden_size: usize,
    intermediate_size: usize,
    num_attention_heads: usize,
    num_hidden_layers: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    #[serde(default = "default_epsilon")]
    layer_norm_eps: f32,
    #[serde(default = "default_activation")]
    hidden_act: String,
    position_embedding_type: Option<String>,
    pad_token_id: Option<usize>,
}

fn default_epsilon() -> f32 {
    1e-12
}

fn default_activation() -> String {
    "gelu".into()
}

#[derive(Deserialize, Default)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

/// The files that sentence-transformers has used for [`SentenceConfig`], by the architectures read here.
const SENTENCE_CONFIGS: [&str; 4] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_camembert_config.json",
];

#[derive(Deserialize)]
struct TokenizerConfig {
    /// A float, because "no limit" is written as 10^30.
    model_max_length: Option<f64>,
    #[serde(default = "yes")]
    do_lower_case: bool,
    #[serde(default = "yes")]
    tokenize_chinese_chars: bool,
    strip_accents: Option<bool>,
}

impl Default for TokenizerConfig {
    fn default() -> TokenizerConfig {
        TokenizerConfig {
            model_max_length: None,
            do_lower_case: true,
            tokenize_chinese_chars: true,
            strip_accents: None,
        }
    }
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct PoolingConfig {
    #[serde(alias = "embedding_dimension")]
    word_embedding_dimension: usize,
    pooling_mode: Option<Names>,
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
    #[serde(default)]
    pooling_mode_max_tokens: bool,
    #[serde(default)]
    pooling_mode_mean_sqrt_len_tokens: bool,
    #[serde(default)]
    pooling_mode_weightedmean_tokens: bool,
    #[serde(default)]
    pooling_mode_lasttoken: bool,
    #[serde(default = "yes")]
    include_prompt: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize, Default)]
struct PromptConfig {
    #[serde(default)]
    prompts: std::collections::BTreeMap<String, Option<String>>,
}

impl Directory {
    /// Reads and checks a model directory, and adds the bytes of the files it reads to `hash`.
    ///
    /// # Errors
    /// When a file is missing, cannot be parsed, or asks for something unsupported; the error names it.
    pub fn read(path: &Path, hash: &mut Xxh3) -> Result<Directory, EmbedError> {
        if !path.is_dir() {
            return Err(EmbedError::model(
                path,
                "is not a directory; expected a sentence-transformers model directory",
            ));
        }
        let mut reader = Reader { hash };
        let modules: Option<Vec<Module>> = reader.optional(&path.join("modules.json"))?;
        let (transformer, pooling) = match &modules {
            Some(modules) => read_modules(path, modules)?,
            None => {
                tracing::warn!(
                    "{}: has no modules.json; using the normalized mean of all tokens",
                    path.display()
                );
                (path.to_owned(), None)
            }
        };
        let config_path = transformer.join("config.json");
        let shape = reader.required::<BertConfig>(&config_path)?.check(&config_path)?;
        let pooling = match pooling {
            Some(directory) => {
                let path = directory.join("config.json");
                reader.required::<PoolingConfig>(&path)?.check(&path, shape.hidden)?
            }
            None => Pooling::Mean,
        };
        let mut sentence_config = SentenceConfig::default();
        for name in SENTENCE_CONFIGS {
            if let Some(config) = reader.optional(&transformer.join(name))? {
                sentence_config = config;
                break;
            }
        }
        let tokenizer = read_tokenizer(&transformer, &shape, &sentence_config, &mut reader)?;
        let prompts: PromptConfig =
            reader.optional(&path.join("config_sentence_transformers.json"))?.unwrap_or_default();
        let prompt = |names: &[&str]| {
            names.iter().find_map(|name| prompts.prompts.get(*name).cloned().flatten()).unwrap_or_default()
        };
        Ok(Directory {
            shape,
            tokenizer,
            pooling,
            query_prompt: prompt(&["query"]),
            document_prompt: prompt(&["document", "passage", "corpus"]),
            weights: transformer,
        })
    }
}

/// Directories of the transformer and of the pooling.
fn read_modules(path: &Path, modules: &[Module]) -> Result<(PathBuf, Option<PathBuf>), EmbedError> {
    let file = path.join("modules.json");
    let names: Vec<&str> = modules.iter().map(|module| last_segment(&module.r#type)).collect();
    match names[..] {
        ["Transformer", "Pooling"] | ["Transformer", "Pooling", "Normalize"] => {
            let directory = |module: &Module| {
                let inner = Path::new(&module.path);
                if inner.as_os_str().is_empty() {
                    return Ok(path.to_owned());
                }
                if inner.components().all(|part| matches!(part, Component::Normal(_))) {
                    return Ok(path.join(inner));
                }
                let problem = format!(
                    "names the directory {:?}; expected one in the directory of the model",
                    module.path
                );
                Err(EmbedError::model(&file, problem))
            };
            Ok((directory(&modules[0])?, Some(directory(&modules[1])?)))
        }
        _ => {
            let known = ["Transformer", "Pooling", "Normalize"];
            let problem = match names.iter().find(|name| !known.contains(name)) {
                Some(name) => format!("asks for a module {name}, which is not supported"),
                None => format!("lists the modules {names:?}"),
            };
            Err(EmbedError::model(
                &file,
                format!("{problem}; expected Transformer, Pooling and, if any, Normalize"),
            ))
        }
    }
}

fn last_segment(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

impl BertConfig {
    fn check(self, path: &Path) -> Result<Shape, EmbedError> {
        let wrong = |problem: String| Err(EmbedError::model(path, problem));
        let first_position = match self.model_type.as_str() {
            "bert" => 0,
            // These count positions from after the padding token, which has a position of its own.
            "roberta" | "xlm-roberta" | "camembert" => self.pad_token_id.unwrap_or(1) + 1,
            other => {
                return wrong(format!(
                    "asks for model_type {other:?}, which is not supported; expected bert, roberta, xlm-roberta \
                     or camembert"
                ));
            }
        };
        let activation = match self.hidden_act.as_str() {
            "gelu" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Activation::GeluTanh,
            "relu" => Activation::Relu,
            other => {
                return wrong(format!(
                    "asks for hidden_act {other:?}, which is not supported; expected gelu, gelu_new, \
                     gelu_pytorch_tanh, gelu_fast or relu"
                ));
            }
        };
        if let Some(kind) = self.position_embedding_type.filter(|kind| kind != "absolute") {
            return wrong(format!(
                "asks for position_embedding_type {kind:?}, which is not supported; expected \"absolute\""
            ));
        }
        let sizes = [
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_attention_heads", self.num_attention_heads),
            ("num_hidden_layers", self.num_hidden_layers),
            ("vocab_size", self.vocab_size),
            ("type_vocab_size", self.type_vocab_size),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return wrong(format!("says that {name} is 0; expected the configuration of a trained model"));
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return wrong(format!(
                "says that hidden_size is {} and num_attention_heads {}; expected a divisor",
                self.hidden_size, self.num_attention_heads
            ));
        }
        if self.max_position_embeddings <= first_position {
            return wrong(format!(
                "says that max_position_embeddings is {}; expected more than {first_position}",
                self.max_position_embeddings
            ));
        }
        if !self.layer_norm_eps.is_finite() || self.layer_norm_eps < 0.0 {
            return wrong("says that layer_norm_eps is not a number of 0 or more".into());
        }
        Ok(Shape {
            hidden: self.hidden_size,
            intermediate: self.intermediate_size,
            n_heads: self.num_attention_heads,
            n_layers: self.num_hidden_layers,
            n_tokens: self.vocab_size,
            n_positions: self.max_position_embeddings,
            n_token_types: self.type_vocab_size,
            first_position,
            epsilon: self.layer_norm_eps,
            activation,
        })
    }
}

impl PoolingConfig {
    fn check(self, path: &Path, hidden: usize) -> Result<Pooling, EmbedError> {
        let wrong = |problem: String| Err(EmbedError::model(path, problem));
        if self.word_embedding_dimension != hidden {
            return wrong(format!(
                "pools vectors of {} columns, expected the {hidden} of the transformer's config.json; use the files \
                 of one model",
                self.word_embedding_dimension
            ));
        }
        if !self.include_prompt {
            return wrong(
                "asks to leave the prompt out (include_prompt: false), which is not supported".into(),
            );
        }
        let switches = [
            (self.pooling_mode_cls_token, "cls"),
            (self.pooling_mode_max_tokens, "max"),
            (self.pooling_mode_mean_tokens, "mean"),
            (self.pooling_mode_mean_sqrt_len_tokens, "mean_sqrt_len_tokens"),
            (self.pooling_mode_weightedmean_tokens, "weightedmean"),
            (self.pooling_mode_lasttoken, "lasttoken"),
        ];
        let names = match self.pooling_mode {
            Some(Names::One(name)) => vec![name],
            Some(Names::Several(names)) => names,
            None => switches.iter().filter(|(on, _)| *on).map(|(_, name)| (*name).to_owned()).collect(),
        };
        match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            // The default of sentence-transformers.
            [] | ["mean"] => Ok(Pooling::Mean),
            ["cls"] => Ok(Pooling::Cls),
            ["max"] => Ok(Pooling::Max),
            _ => wrong(format!(
                "asks for pooling {}, which is not supported; expected mean, cls or max",
                names.join(" with ")
            )),
        }
    }
}

fn read_tokenizer(
    directory: &Path,
    shape: &Shape,
    sentence_config: &SentenceConfig,
    reader: &mut Reader,
) -> Result<Tokenizer, EmbedError> {
    let config: TokenizerConfig =
        reader.optional(&directory.join("tokenizer_config.json"))?.unwrap_or_default();
    let json = directory.join("tokenizer.json");
    let vocabulary = directory.join("vocab.txt");
    let (path, mut tokenizer) = if let Some(bytes) = reader.bytes(&json)? {
        let problem = "is not a tokenizer; save the model's tokenizer again";
        let tokenizer = guarded(&json, problem, || Tokenizer::from_bytes(bytes))?;
        (json, tokenizer)
    } else if reader.bytes(&vocabulary)?.is_some() {
        let tokenizer = word_piece(&vocabulary, &config)?;
        (vocabulary, tokenizer)
    } else {
        let problem = "has neither tokenizer.json nor vocab.txt; save the model's tokenizer into it";
        return Err(EmbedError::model(directory, problem));
    };

    if sentence_config.do_lower_case {
        let mut normalizers = vec![Lowercase.into()];
        normalizers.extend(tokenizer.get_normalizer().cloned());
        tokenizer.with_normalizer(Some(NormalizerWrapper::from(Sequence::new(normalizers)))).map_err(
            |error| EmbedError::model_file(&path, "cannot be set to lower the case of its input", error),
        )?;
    }
    let n_positions = shape.n_positions - shape.first_position;
    let max_tokens = match (sentence_config.max_seq_length, config.model_max_length) {
        (Some(limit), _) => limit,
        // A cast from a float saturates at the maximum integer.
        (None, Some(limit)) => limit as usize,
        (None, None) => n_positions,
    };
    if max_tokens > n_positions && sentence_config.max_seq_length.is_some() {
        tracing::warn!(
            "{}: texts are truncated at {n_positions} tokens, the number of positions of the model, not at {max_tokens}",
            directory.display()
        );
    }
    let max_tokens = max_tokens.min(n_positions);
    let n_special = tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
    if max_tokens <= n_special {
        let problem = format!(
            "truncates texts at {max_tokens} tokens; expected more than the {n_special} special tokens"
        );
        return Err(EmbedError::model(directory, problem));
    }
    tokenizer
        .with_padding(None)
        .with_truncation(Some(TruncationParams { max_length: max_tokens, ..TruncationParams::default() }))
        .map_err(|error| {
            EmbedError::model_file(&path, "cannot truncate texts at the model's limit", error)
        })?;
    Ok(tokenizer)
}

/// The tokenizer of a BERT model that has only a list of tokens, one per line.
fn word_piece(path: &Path, config: &TokenizerConfig) -> Result<Tokenizer, EmbedError> {
    let model = WordPiece::from_file(&path.to_string_lossy()).build().map_err(|error| {
        EmbedError::model_file(path, "is not a WordPiece vocabulary; expected one token per line", error)
    })?;
    let mut tokenizer = Tokenizer::new(model);
    let special = |token: &str| {
        let id = tokenizer.token_to_id(token).ok_or_else(|| {
            EmbedError::model(path, format!("holds no line {token}; expected the vocabulary of a BERT model"))
        })?;
        Ok((token.to_owned(), id))
    };
    special("[UNK]")?;
    let processor = BertProcessing::new(special("[SEP]")?, special("[CLS]")?);
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(|token| AddedToken::from(token, true));
    let normalizer =
        BertNormalizer::new(true, config.tokenize_chinese_chars, config.strip_accents, config.do_lower_case);
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer)).with_post_processor(Some(processor));
    tokenizer
        .with_normalizer(Some(normalizer))
        .and_then(|tokenizer| tokenizer.add_special_tokens(special))
        .map_err(|error| EmbedError::model_file(path, "is not a WordPiece vocabulary", error))?;
    Ok(tokenizer)
}

/// Reads files and hashes their content.
struct Reader<'a> {
    hash: &'a mut Xxh3,
}

impl Reader<'_> {
    /// The bytes of a file; `None` if it is missing.
    fn bytes(&mut self, path: &Path) -> Result<Option<Vec<u8>>, EmbedError> {
        match quarry_embed::read_file(path) {
            Ok(bytes) => {
                // The length makes the hash depend on the boundaries of files.
                self.hash.update(&(bytes.len() as u64).to_le_bytes());
                self.hash.update(&bytes);
                Ok(Some(bytes))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(EmbedError::model_file(path, "cannot be read", error)),
        }
    }

    fn optional<T: DeserializeOwned>(&mut self, path: &Path) -> Result<Option<T>, EmbedError> {
        let Some(bytes) = self.bytes(path)? else { return Ok(None) };
        let problem = "does not hold the JSON expected here; copy it again from the model's source";
        serde_json::from_slice(&bytes).map(Some).map_err(|error| EmbedError::model_file(path, problem, error))
    }

    fn required<T: DeserializeOwned>(&mut self, path: &Path) -> Result<T, EmbedError> {
        self.optional(path)?.ok_or_else(|| {
            EmbedError::model(path, "is missing; copy it from the model's source into the directory")
        })
    }
}
