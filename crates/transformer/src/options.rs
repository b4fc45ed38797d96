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
    /// Applies the model's own layer with a hyperbolic tangent to the first token, in place of the directory's
    /// modules.
    pub pooler: bool,
    /// Adds the prefix that puts UniXcoder into encoder mode, with the mean of all tokens.
    pub unixcoder: bool,
    /// Appends data flow to the tokens of documents in GraphCodeBERT's format, with the layer of `pooler`.
    pub data_flow: Option<FlowLanguage>,
    /// Task of queries and documents, or the task of queries followed by that of documents, in place of
    /// retrieval's.
    pub tasks: Vec<String>,
    /// True to compare vectors by cosine (with length 1), false by dot product (unscaled).
    pub normalize: Option<bool>,
    /// Reads texts like CoSQA+'s script.
    pub published: Option<Published>,
}

/// Reading as in CoSQA+'s script: with each run of white space collapsed to one space, and with limits unless the
/// script leaves them to sentence-transformers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Published {
    /// Maximum numbers of tokens of queries and documents, including special ones.
    pub limits: Option<[usize; 2]>,
}

/// The option for reading texts like CoSQA+'s script, with or without limits.
pub fn published_option(limits: Option<[usize; 2]>) -> String {
    limits.map_or_else(|| PUBLISHED.to_owned(), |[query, document]| format!("{PUBLISHED}-{query}-{document}"))
}

const PUBLISHED: &str = "published";

fn published(word: &str) -> Option<Published> {
    let rest = word.strip_prefix(PUBLISHED)?;
    if rest.is_empty() {
        return Some(Published { limits: None });
    }
    let (query, document) = rest.strip_prefix('-')?.split_once('-')?;
    let limit = |text: &str| text.parse::<usize>().ok().filter(|limit| *limit > 4);
    Some(Published { limits: Some([limit(query)?, limit(document)?]) })
}

/// Returns true if all options after a path affect only how texts are read, not how their vectors are computed.
pub(crate) fn affect_reading_only(options: &str) -> bool {
    options.split(':').all(|word| published(word).is_some())
}

/// The tasks for which models are published with adapters.
const TASKS: [&str; 5] =
    ["retrieval.query", "retrieval.passage", "separation", "classification", "text-matching"];

/// The language of documents whose data flow is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowLanguage {
    /// The language of each document, as detected from its syntax.
    Each,
    /// The given language.
    All(Language),
}

/// The language with this name, if it has data flow rules.
fn language_of_flow(name: &str) -> Option<Language> {
    language_named(name).filter(|language| data_flow(*language, "").is_some())
}

impl Options {
    /// Splits a path into a directory and the options after it. A directory whose name contains a colon has no
    /// options.
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
                "graphcodebert" => options.data_flow = Some(FlowLanguage::Each),
                task if TASKS.contains(&task) && options.tasks.len() < 2 => {
                    options.tasks.push(task.to_owned())
                }
                "cosine" => options.normalize = Some(true),
                "dot" => options.normalize = Some(false),
                _ => match (word.parse(), word.strip_prefix("graphcodebert-").and_then(language_of_flow)) {
                    (_, Some(language)) => options.data_flow = Some(FlowLanguage::All(language)),
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

    /// Returns whether the directory's modules after the encoder are ignored.
    pub(crate) fn replaces_head(&self) -> bool {
        self.pooling.is_some()
    }
}
