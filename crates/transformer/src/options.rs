//! Options after the path of a model's directory, separated by colons: `DIR:256`, `DIR:pooler:dot`.

use std::path::{Path, PathBuf};

use super::pooling::{POOLINGS, Pooling, pooling};
use quarry_embed::EmbedError;
use quarry_source::{Language, data_flow, language_named};

/// Options that override those of a model's directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Columns to keep.
    pub dimension: Option<usize>,
    /// Pooling in place of the directory's modules.
    pub pooling: Option<Pooling>,
    /// The first token through the model's own layer with a hyperbolic tangent, in place of the directory's modules.
    pub pooler: bool,
    /// The prefix by which UniXcoder knows that it is an encoder, with the mean of all tokens.
    pub unixcoder: bool,
    /// Data flow after the tokens of documents, as GraphCodeBERT reads it, with the layer of `pooler`.
    pub data_flow: Option<FlowOf>,
    /// Task of queries and documents, or first that of queries and then that of documents, in place of retrieval's.
    pub tasks: Vec<String>,
    /// Whether vectors are compared by cosine (of length 1) or by dot product (unscaled).
    pub normalize: Option<bool>,
    /// Texts are read as by CoSQA+'s script.
    pub published: Option<Published>,
}

/// Reading as in CoSQA+'s script: with one space for each run of white space, and with limits unless the script leaves them
/// to sentence-transformers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Published {
    /// Maximum numbers of tokens of queries and documents, special ones included.
    pub limits: Option<[usize; 2]>,
}

/// The option that reads texts as CoSQA+'s script does, with or without limits.
#[must_use]
pub fn published_option(limits: Option<[usize; 2]>) -> String {
    limits.map_or_else(|| PUBLISHED.to_owned(), |[query, document]| format!("{PUBLISHED}-{query}-{document}"))
}

const PUBLISHED: &str = "published";

/// Reads what [`published_option`] writes.
fn published(word: &str) -> Option<Published> {
    let rest = word.strip_prefix(PUBLISHED)?;
    if rest.is_empty() {
        return Some(Published { limits: None });
    }
    let (query, document) = rest.strip_prefix('-')?.split_once('-')?;
    let limit = |text: &str| text.parse::<usize>().ok().filter(|limit| *limit > 4);
    Some(Published { limits: Some([limit(query)?, limit(document)?]) })
}

/// Whether all options after a path are about how texts are read, and none about how their vectors are made.
pub(crate) fn are_of_reading(options: &str) -> bool {
    options.split(':').all(|word| published(word).is_some())
}

/// The tasks that models are published with adapters for.
const TASKS: [&str; 5] =
    ["retrieval.query", "retrieval.passage", "separation", "classification", "text-matching"];

/// The language of documents whose data flow is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowOf {
    /// The language whose syntax a document has.
    Each,
    /// This one.
    All(Language),
}

/// The language of this name, if its data flow is known.
fn language_of_flow(name: &str) -> Option<Language> {
    language_named(name).filter(|language| data_flow(*language, "").is_some())
}

impl Options {
    /// Splits a path into that of a directory and the options after it. A directory whose name has a colon has none.
    ///
    /// # Errors
    /// When an option is unknown.
    pub(crate) fn split(path: &Path) -> Result<(PathBuf, Options), EmbedError> {
        let (directory, words) = super::split_options(path);
        let mut options = Options::default();
        for word in words.iter().flat_map(|words| words.split(':')) {
            if let Some(pooling) = pooling(word) {
                options.pooling = Some(pooling);
                continue;
            }
            if let Some(published) = published(word) {
                options.published = Some(published);
                continue;
            }
            match word {
                "pooler" => {
                    options.pooler = true;
                    options.pooling = Some(Pooling::Cls);
                }
                "unixcoder" => {
                    options.unixcoder = true;
                    options.pooling = Some(options.pooling.unwrap_or(Pooling::Mean));
                }
                "graphcodebert" => options.data_flow = Some(FlowOf::Each),
                task if TASKS.contains(&task) && options.tasks.len() < 2 => {
                    options.tasks.push(task.to_owned())
                }
                "cosine" => options.normalize = Some(true),
                "dot" => options.normalize = Some(false),
                _ => match (word.parse(), word.strip_prefix("graphcodebert-").and_then(language_of_flow)) {
                    (_, Some(language)) => options.data_flow = Some(FlowOf::All(language)),
                    (Ok(n), _) if n > 0 => options.dimension = Some(n),
                    _ => {
                        let tasks = TASKS.join(", ");
                        let known = POOLINGS.map(|(name, _)| name).join(", ");
                        let problem = format!(
                            "has the unknown option {word:?}; expected a number of columns, {known}, pooler, \
                             unixcoder, graphcodebert, graphcodebert-LANGUAGE, cosine, dot, {PUBLISHED}, \
                             {PUBLISHED}-QUERY-DOCUMENT with two numbers of tokens from 5, or one or two of {tasks}"
                        );
                        return Err(EmbedError::model(path, problem));
                    }
                },
            }
        }
        if options.data_flow.is_some() && options.pooling.is_none() {
            options.pooler = true;
            options.pooling = Some(Pooling::Cls);
        }
        Ok((directory, options))
    }

    /// Returns whether the directory's modules after the encoder do not count.
    pub(crate) fn replaces_head(&self) -> bool {
        self.pooling.is_some()
    }

    /// Number of tokens of the prefix of [`Options::unixcoder`].
    pub(crate) fn encoder_prefix_length(&self) -> usize {
        if self.unixcoder { 2 } else { 0 }
    }
}
