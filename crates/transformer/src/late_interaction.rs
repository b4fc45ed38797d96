//! Models that give each token of a text a vector of its own (Khattab & Zaharia, *ColBERT*, SIGIR 2020), in the format of
//! PyLate.

use std::path::{Path, PathBuf};

use quarry_embed::{EmbedError, Embedder, TokenEmbedder, Vectors};
use rayon::prelude::*;
use tokenizers::{Tokenizer, TruncationParams};
use xxhash_rust::xxh3::Xxh3;

use super::config::{Directory, TokenVectorConfig};
use super::encoder::{About, Encoder};
use super::modules::Modules;
use super::options::Options;
use super::pooling::Head;
use super::reader::{FAILS, Reader, guarded};
use super::weights::Weights;
use super::{batches, check_numbers, check_tokens};

/// An encoder with a linear map of each token's vector.
pub struct LateInteraction {
    id: String,
    path: PathBuf,
    encoder: Encoder,
    head: Head,
    queries: Side,
    documents: Side,
    settings: TokenSettings,
}

/// The tokenizer of the texts of a side.
struct Side {
    tokenizer: Tokenizer,
    /// Token after the first one.
    prefix: Option<u32>,
}

/// Settings of a model of late interaction, in the tokens of its tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSettings {
    /// Tokens after the first one of queries and of documents.
    pub prefixes: [Option<u32>; 2],
    /// Maximum numbers of tokens of queries and of documents.
    pub lengths: [usize; 2],
    /// Fills queries up to their maximum length.
    pub expansion: Option<Expansion>,
    /// Tokens of documents without a vector, ascending.
    pub skipped: Vec<u32>,
}

/// The token that fills queries up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expansion {
    pub token: u32,
    /// True if the others attend to it.
    pub is_attended: bool,
}

/// Tokens that fill up queries, in the order in which they are looked for.
const MASKS: [&str; 3] = ["[MASK]", "<mask>", "<|mask|>"];

impl TokenSettings {
    /// Finds the tokens that a configuration names; no text is longer than `limit`.
    ///
    /// # Errors
    /// When the tokenizer lacks one.
    pub(crate) fn new(
        path: &Path,
        config: &TokenVectorConfig,
        tokenizer: &Tokenizer,
        limit: usize,
    ) -> Result<TokenSettings, EmbedError> {
        let prefix = |prefix: &str| {
            match prefix {
            "" => Ok(None),
            _ => tokenizer.token_to_id(prefix).map(Some).ok_or_else(|| {
                let problem = format!(
                    "puts {prefix:?} before texts, which its tokenizer does not have as a token; save the model with \
                     PyLate again"
                );
                EmbedError::model(path, problem)
            }),
        }
        };
        let id = |names: &[&str]| names.iter().find_map(|name| tokenizer.token_to_id(name));
        let expansion = match config.do_query_expansion {
            false => None,
            true => {
                let problem = "fills queries up with mask tokens, of which its tokenizer has none; set do_query_expansion to \
                               false, or use the tokenizer of the same model";
                let token = id(&MASKS).ok_or_else(|| EmbedError::model(path, problem))?;
                Some(Expansion { token, is_attended: config.attend_to_expansion_tokens })
            }
        };
        // PyLate takes an unknown word for the token of unknown words.
        let skipped = config.skiplist_words.iter().filter_map(|word| id(&[word, "[UNK]", "<unk>"]));
        let mut skipped: Vec<u32> = skipped.collect();
        skipped.sort_unstable();
        Ok(TokenSettings {
            prefixes: [prefix(&config.query_prefix)?, prefix(&config.document_prefix)?],
            lengths: [config.query_length.min(limit), config.document_length.min(limit)],
            expansion,
            skipped,
        })
    }
}

impl LateInteraction {
    /// Returns whether a directory has such a model, and no option after its path asks for another use of its encoder.
    pub fn is_at(path: &Path) -> bool {
        let (directory, options) = super::split_options(path);
        let modules = Modules::read(&directory, &mut Reader { hash: &mut Xxh3::new() });
        options.is_none() && modules.is_ok_and(|modules| modules.is_some_and(|of| of.has_token_vectors()))
    }

    /// Loads a directory.
    ///
    /// # Errors
    /// When a file is missing, damaged, or asks for something unsupported; the error names it and what to do.
    pub fn load(path: &Path) -> Result<LateInteraction, EmbedError> {
        let mut hash = Xxh3::new();
        let Directory { architecture, tokenizer, head, token_vectors, weights, .. } =
            Directory::read(path, &Options::default(), &mut hash)?;
        let Some(config) = token_vectors else {
            return Err(EmbedError::model(path, "gives each text one vector; expected one for each token"));
        };
        let mut weights = Weights::open(&weights, &mut hash)?;
        let encoder = architecture.encoder(&mut weights)?.packed();
        let limit = encoder.shape.max_tokens.unwrap_or(usize::MAX);
        let settings = TokenSettings::new(path, &config, &tokenizer, limit)?;
        let side = |number: usize| -> Result<Side, EmbedError> {
            let (prefix, length) = (settings.prefixes[number], settings.lengths[number]);
            let mut tokenizer = tokenizer.clone();
            let max_length = length.saturating_sub(usize::from(prefix.is_some()));
            let problem = format!("cannot truncate texts at {length} tokens; set a length of at least 8");
            let truncation = TruncationParams { max_length, ..TruncationParams::default() };
            guarded(path, &problem, || tokenizer.with_truncation(Some(truncation)).map(drop))?;
            Ok(Side { tokenizer, prefix })
        };
        Ok(LateInteraction {
            id: format!("late-{}x{}-{:016x}", encoder.shape.n_layers, head.dimension(), hash.digest()),
            path: path.to_owned(),
            queries: side(0)?,
            documents: side(1)?,
            encoder,
            head,
            settings,
        })
    }

    fn tokens(&self, side: &Side, text: &str) -> Result<Vec<u32>, EmbedError> {
        // As sentence-transformers does.
        let encoding = guarded(&self.path, FAILS, || side.tokenizer.encode_fast(text.trim(), true))?;
        let mut ids = encoding.get_ids().to_vec();
        let at = ids.len().min(1);
        ids.splice(at..at, side.prefix);
        check_tokens(&self.path, &ids, self.encoder.n_tokens())?;
        Ok(ids)
    }

    /// The vectors of all tokens of texts, of which the first `n_attended` are attended to.
    fn vectors(&self, ids: &[Vec<u32>], n_attended: &[usize]) -> Result<Vec<Vectors>, EmbedError> {
        let embedded: Vec<Vec<f32>> = batches(ids, rayon::current_num_threads())
            .into_par_iter()
            .with_max_len(1)
            .map(|batch| {
                let texts = &ids[batch.clone()];
                let states =
                    self.encoder.run(texts, About { n_attended: &n_attended[batch], ..About::default() });
                self.head.apply(texts.iter().map(Vec::len), 0, &states)
            })
            .collect();
        let values = embedded.concat();
        check_numbers(&self.path, &values)?;
        let dimension = self.head.dimension();
        let mut rest = values.as_slice();
        let of_text = ids.iter().map(|ids| {
            let (values, after) = rest.split_at(ids.len() * dimension);
            rest = after;
            Vectors { dimension, values: values.to_vec() }
        });
        Ok(of_text.collect())
    }

    fn several(&self) -> EmbedError {
        let problem = "gives a text several vectors, which an index of one for each unit cannot hold; use it with `--reranker`, \
                       or as a method of `quarry eval`";
        EmbedError::model(&self.path, problem)
    }
}

impl TokenEmbedder for LateInteraction {
    fn query_tokens(&self, text: &str) -> Result<Vectors, EmbedError> {
        let mut ids = self.tokens(&self.queries, text)?;
        let mut n_attended = ids.len();
        if let Some(Expansion { token, is_attended }) = self.settings.expansion {
            ids.resize(self.settings.lengths[0], token);
            if is_attended {
                n_attended = ids.len();
            }
        }
        Ok(self.vectors(&[ids], &[n_attended])?.remove(0))
    }

    fn document_tokens(&self, texts: &[&str]) -> Result<Vec<Vectors>, EmbedError> {
        let ids = texts.par_iter().map(|text| self.tokens(&self.documents, text));
        let ids = ids.collect::<Result<Vec<Vec<u32>>, EmbedError>>()?;
        let lengths: Vec<usize> = ids.iter().map(Vec::len).collect();
        let mut vectors = self.vectors(&ids, &lengths)?;
        for (ids, vectors) in ids.iter().zip(&mut vectors) {
            let kept =
                vectors.rows().zip(ids).filter(|(_, id)| self.settings.skipped.binary_search(id).is_err());
            vectors.values = kept.flat_map(|(row, _)| row).copied().collect();
        }
        Ok(vectors)
    }
}

impl Embedder for LateInteraction {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimension(&self) -> usize {
        self.head.dimension()
    }

    fn embed_queries(&self, _: &[&str]) -> Result<Vectors, EmbedError> {
        Err(self.several())
    }

    fn embed_documents(&self, _: &[&str]) -> Result<Vectors, EmbedError> {
        Err(self.several())
    }

    fn token_embedder(&self) -> Option<&dyn TokenEmbedder> {
        Some(self)
    }
}
