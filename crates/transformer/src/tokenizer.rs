//! The tokenizer of a model, from any of its possible files.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::{BertNormalizer, Lowercase, NormalizerWrapper, Sequence};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::{
    AddedToken, DecoderWrapper, PostProcessor, PostProcessorWrapper, PreTokenizerWrapper, Tokenizer,
    TokenizerImpl, TruncationParams,
};

use super::growth;
use super::reader::{Reader, guarded};
use super::shape::Shape;
use quarry_embed::EmbedError;

/// Limit of a text if neither positions nor the configuration limit it.
const DEFAULT_MAX_TOKENS: usize = 512;

/// Upper bound of a configured limit if positions do not limit it: the memory for attention grows with its square.
const UNLIMITED: usize = 1 << 15;

#[derive(Deserialize, Default)]
pub(crate) struct SentenceConfig {
    /// Maximum number of tokens in a text.
    pub max_seq_length: Option<usize>,
    #[serde(default)]
    /// True if texts are converted to lower case before tokenization.
    pub do_lower_case: bool,
}

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

/// Reads the tokenizer of a model, which adds special tokens and truncates texts at the model's limit minus
/// `n_reserved`.
///
/// # Errors
/// When a file is missing or damaged, or leaves no room for a text.
pub(crate) fn read_tokenizer(
    directory: &Path,
    shape: &Shape,
    sentence_config: &SentenceConfig,
    n_reserved: usize,
    reader: &mut Reader,
) -> Result<Tokenizer, EmbedError> {
    let config: TokenizerConfig =
        reader.optional(&directory.join("tokenizer_config.json"))?.unwrap_or_default();
    let json = directory.join("tokenizer.json");
    let vocabulary = directory.join("vocab.txt");
    let (path, mut tokenizer) = if let Some(bytes) = reader.bytes(&json)? {
        let tokenizer = parse_tokenizer(&json, &bytes)?;
        (json, tokenizer)
    } else if reader.bytes(&vocabulary)?.is_some() {
        let tokenizer = word_piece(&vocabulary, &config)?;
        (vocabulary, tokenizer)
    } else if let Some(tokenizer) = byte_pairs(directory, reader)? {
        tokenizer
    } else {
        let problem = "has neither tokenizer.json nor vocab.txt (or vocab.json with merges.txt); save the model's \
                       tokenizer into it";
        return Err(EmbedError::model(directory, problem));
    };

    add_text_ends(&mut tokenizer, shape.n_tokens)
        .map_err(|error| EmbedError::model_file(&path, "cannot be given special tokens", error))?;
    if sentence_config.do_lower_case {
        let mut normalizers = vec![Lowercase.into()];
        normalizers.extend(tokenizer.get_normalizer().cloned());
        tokenizer.with_normalizer(Some(NormalizerWrapper::from(Sequence::new(normalizers)))).map_err(
            |error| EmbedError::model_file(&path, "cannot be set to lower the case of its input", error),
        )?;
    }
    let n_positions = shape.max_tokens.unwrap_or(UNLIMITED);
    let max_tokens = match (sentence_config.max_seq_length, config.model_max_length) {
        (Some(limit), _) => limit,
        // A cast from a float saturates at the maximum integer.
        (None, Some(limit)) => limit as usize,
        (None, None) => n_positions.min(DEFAULT_MAX_TOKENS.max(shape.max_tokens.unwrap_or(0))),
    };
    if max_tokens > n_positions && sentence_config.max_seq_length.is_some() {
        tracing::warn!(
            "{}: texts are truncated at {n_positions} tokens, the number of positions of the model, not at {max_tokens}",
            directory.display()
        );
    }
    let max_tokens = max_tokens.min(n_positions).saturating_sub(n_reserved);
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

/// A tokenizer whose model is known to be BERT's.
type WordPieceTokenizer =
    TokenizerImpl<WordPiece, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// The tokenizer in the content of a `tokenizer.json`.
///
/// # Errors
/// When it is not a tokenizer, or can make texts much longer.
pub(crate) fn parse_tokenizer(path: &Path, bytes: &[u8]) -> Result<Tokenizer, EmbedError> {
    let problem =
        "expected the tokenizer.json of a model; check the path, or save the model's tokenizer again";
    growth::check_maps(bytes).map_err(|found| EmbedError::model_file(path, problem, found))?;
    // Reading a tokenizer of any kind copies the vocabulary three times, which takes most of the time of loading a
    // small model.
    let word_pieces = || serde_json::from_slice::<WordPieceTokenizer>(bytes).map(Tokenizer::from);
    let tokenizer = guarded(path, problem, || word_pieces().or_else(|_| Tokenizer::from_bytes(bytes)))?;
    growth::check(&tokenizer).map_err(|found| {
        EmbedError::model(path, format!("is not a usable tokenizer: {found}; use the one of another model"))
    })?;
    Ok(tokenizer)
}

/// StarEncoder was trained on `<cls>`, a text and `<sep>`, but its tokenizer does not add special tokens, or even
/// lacks them: programs add these four, in this order, before use.
const STAR_ENCODER_TOKENS: [&str; 4] = ["<pad>", "<sep>", "<cls>", "<mask>"];

/// Puts `<cls>` before and `<sep>` after a text if a byte-pair tokenizer has these tokens, or lacks exactly those
/// that StarEncoder's lacks, and adds none itself.
fn add_text_ends(tokenizer: &mut Tokenizer, n_tokens: usize) -> tokenizers::Result<()> {
    let adds_some = tokenizer.get_post_processor().is_some_and(|processor| processor.added_tokens(false) > 0);
    if adds_some || !matches!(tokenizer.get_model(), ModelWrapper::BPE(_)) {
        return Ok(());
    }
    let is_missing = |token: &&&str| tokenizer.token_to_id(token).is_none();
    let missing: Vec<&str> = STAR_ENCODER_TOKENS.iter().filter(is_missing).copied().collect();
    if missing.len() == STAR_ENCODER_TOKENS.len()
        && tokenizer.get_vocab_size(true) + missing.len() == n_tokens
    {
        tokenizer.add_special_tokens(missing.into_iter().map(|token| AddedToken::from(token, true)))?;
    }
    let end = |token: &str| Some((token.to_owned(), tokenizer.token_to_id(token)?));
    if let (Some(last), Some(first)) = (end("<sep>"), end("<cls>")) {
        tokenizer.with_post_processor(Some(BertProcessing::new(last, first)));
    }
    Ok(())
}

/// The tokenizer of a BERT model that only has a list of tokens, one per line.
fn word_piece(path: &Path, config: &TokenizerConfig) -> Result<Tokenizer, EmbedError> {
    let model = WordPiece::from_file(&path.to_string_lossy()).build().map_err(|error| {
        EmbedError::model_file(path, "is not a WordPiece vocabulary; expected one token per line", error)
    })?;
    let mut tokenizer = Tokenizer::new(model);
    let special = |token: &str| {
        let id = tokenizer.token_to_id(token).ok_or_else(|| {
            EmbedError::model(path, format!("has no line {token}; expected the vocabulary of a BERT model"))
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

/// The tokenizer of a RoBERTa model that only has lists of tokens and merges, with the path of the former.
fn byte_pairs(directory: &Path, reader: &mut Reader) -> Result<Option<(PathBuf, Tokenizer)>, EmbedError> {
    let (vocabulary, merges) = (directory.join("vocab.json"), directory.join("merges.txt"));
    if reader.bytes(&vocabulary)?.is_none() || reader.bytes(&merges)?.is_none() {
        return Ok(None);
    }
    let problem = "is not, with merges.txt, the vocabulary of a RoBERTa model; copy both again";
    let model = guarded(&vocabulary, problem, || {
        BPE::from_file(&vocabulary.to_string_lossy(), &merges.to_string_lossy()).build()
    })?;
    let mut tokenizer = Tokenizer::new(model);
    let special = |token: &str| {
        let id = tokenizer.token_to_id(token).ok_or_else(|| {
            let problem = format!("has no token {token}; expected the vocabulary of a RoBERTa model");
            EmbedError::model(&vocabulary, problem)
        })?;
        Ok((token.to_owned(), id))
    };
    let processor = RobertaProcessing::new(special("</s>")?, special("<s>")?).add_prefix_space(false);
    let special = ["<s>", "<pad>", "</s>", "<unk>"].map(|token| AddedToken::from(token, true));
    // This token includes the space before it.
    let mask = AddedToken::from("<mask>", true).lstrip(true);
    let pre_tokenizer = ByteLevel::default().add_prefix_space(false);
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer)).with_post_processor(Some(processor));
    tokenizer
        .add_special_tokens(special)
        .and_then(|_| tokenizer.add_special_tokens([mask]))
        .map_err(|error| EmbedError::model_file(&vocabulary, problem, error))?;
    Ok(Some((vocabulary, tokenizer)))
}
