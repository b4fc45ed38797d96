//! The configuration files of a model: its architecture, tokenization and pooling.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::Tokenizer;
use xxhash_rust::xxh3::Xxh3;

use super::architecture::{self, Architecture};
use super::modules::Modules;
use super::options::Options;
use super::pooling::{Head, Pooling, Step};
use super::reader::{Reader, missing, parse};
use super::tokenizer::{SentenceConfig, read_tokenizer};
use quarry_embed::EmbedError;

/// A sentence-transformers directory, or a plain Hugging Face one, read and checked except for the encoder's
/// weights.
pub(crate) struct Directory {
    pub architecture: Box<dyn Architecture>,
    /// Name of the architecture in `config.json`.
    pub model_type: String,
    /// Converts a text to token ids, including special tokens, truncated at the model's limit.
    pub tokenizer: Tokenizer,
    /// Head that computes a vector from the tokens' vectors.
    pub head: Head,
    /// True if the model's own projection follows the pooling.
    pub projects: bool,
    /// Numbers of the tasks of queries and documents, if the architecture has adapters.
    pub tasks: Option<[usize; 2]>,
    pub query_prompt: String,
    pub document_prompt: String,
    pub weights: PathBuf,
    pub token_vectors: Option<TokenVectorConfig>,
    /// Directories of the modules after the pooling, or after the encoder.
    pub steps: Vec<PathBuf>,
}

/// PyLate's name for the similarity of multi-vector models. Single-vector models that it derives from them by
/// pooling are compared by cosine.
const MAX_SIM: &str = "MaxSim";

/// Settings of PyLate, with its defaults.
#[derive(Deserialize)]
#[serde(default)]
pub(crate) struct TokenVectorConfig {
    /// A token after the first one of every query; no token if empty.
    pub query_prefix: String,
    /// Like `query_prefix`, for documents.
    pub document_prefix: String,
    pub query_length: usize,
    pub document_length: usize,
    /// Pads queries to the maximum length with mask tokens, whose vectors are used.
    pub do_query_expansion: bool,
    pub attend_to_expansion_tokens: bool,
    /// Tokens of documents whose vectors are omitted.
    pub skiplist_words: Vec<String>,
}

impl Default for TokenVectorConfig {
    fn default() -> Self {
        let punctuation = ('!'..='~').filter(char::is_ascii_punctuation);
        Self {
            query_prefix: "[Q] ".to_owned(),
            document_prefix: "[D] ".to_owned(),
            query_length: 32,
            document_length: 180,
            do_query_expansion: true,
            attend_to_expansion_tokens: false,
            skiplist_words: punctuation.map(String::from).collect(),
        }
    }
}

/// The files in which sentence-transformers has stored [`SentenceConfig`], for the architectures read here.
const SENTENCE_CONFIGS: [&str; 6] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_camembert_config.json",
    "sentence_mpnet_config.json",
    "sentence_t5_config.json",
];

#[derive(Deserialize, Default)]
struct PromptConfig {
    #[serde(default)]
    prompts: BTreeMap<String, Option<String>>,
    default_prompt_name: Option<String>,
    similarity_fn_name: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Directory {
    /// Reads and checks a model directory, and adds the bytes of the files it reads to `hash`.
    ///
    /// # Errors
    /// When a file is missing, cannot be parsed, or asks for something unsupported; the error names it.
    pub(crate) fn read(path: &Path, options: &Options, hash: &mut Xxh3) -> Result<Directory, EmbedError> {
        if !path.is_dir() {
            return Err(EmbedError::model(
                path,
                "is not a directory; expected a sentence-transformers model directory",
            ));
        }
        let mut reader = Reader { hash };
        let modules = Modules::read(path, &mut reader)?;
        let transformer = modules.as_ref().map_or(path, |modules| &modules.transformer).to_owned();
        let config_path = transformer.join("config.json");
        let config = reader.bytes(&config_path)?.ok_or_else(|| missing(&config_path))?;
        let architecture = architecture::read(&config_path, &config)?;
        let architecture::ModelType { model_type, .. } = parse(&config_path, &config)?;
        let shape = architecture.shape();
        let projects =
            modules.is_none() && !options.replaces_head() && architecture.projection_width().is_some();
        let has_token_vectors =
            !options.replaces_head() && modules.as_ref().is_some_and(Modules::has_token_vectors);
        let steps = modules.as_ref().map_or_else(Vec::new, Modules::step_directories);
        let mut head = match modules {
            Some(modules) if !options.replaces_head() => modules.head(shape.hidden, &mut reader)?,
            _ if projects => Head::new(shape.hidden, vec![Pooling::Cls]),
            _ => {
                if !options.replaces_head() {
                    tracing::warn!(
                        "{}: has no modules.json; using the normalized mean of all tokens",
                        path.display()
                    );
                }
                let mut head = Head::new(shape.hidden, vec![options.pooling.unwrap_or(Pooling::Mean)]);
                head.steps.push(Step::Normalize);
                head
            }
        };
        let mut sentence_config = SentenceConfig::default();
        for name in SENTENCE_CONFIGS {
            if let Some(config) = reader.optional(&transformer.join(name))? {
                sentence_config = config;
                break;
            }
        }
        // For the prefix of two tokens.
        let n_reserved = if options.unixcoder { 2 } else { 0 };
        let tokenizer = read_tokenizer(&transformer, shape, &sentence_config, n_reserved, &mut reader)?;
        let file = path.join("config_sentence_transformers.json");
        let prompts: PromptConfig = reader.optional(&file)?.unwrap_or_default();
        let prompt = |names: &[&str]| {
            names.iter().find_map(|name| prompts.prompts.get(*name).cloned().flatten()).unwrap_or_default()
        };
        let tasks = find_tasks(&config_path, architecture.tasks(), &options.tasks)?;
        let of_task = |task: usize, others: &[&str]| match tasks {
            None => prompt(others),
            Some(tasks) => {
                let name = architecture.tasks()[tasks[task]].as_str();
                let own = prompts.prompts.get(name).cloned().flatten();
                own.or_else(|| architecture.instruction(name).map(str::to_owned)).unwrap_or_default()
            }
        };
        let [query_prompt, document_prompt] =
            [of_task(0, &["query"]), of_task(1, &["document", "passage", "corpus"])];
        let similarity = prompts.similarity_fn_name.as_deref().unwrap_or("cosine");
        if has_token_vectors {
            let default = prompts.default_prompt_name.map(|name| prompt(&[&name]));
            if let Some(prompt) = default.filter(|prompt| !prompt.is_empty()) {
                let problem = format!(
                    "puts {prompt:?} before all texts of a model with a vector for each token, which is not supported; \
                     remove default_prompt_name"
                );
                return Err(EmbedError::model(&file, problem));
            }
        } else if !(["cosine", "dot", "dot_product"].contains(&similarity)
            || options.replaces_head() && similarity == MAX_SIM)
        {
            let problem = format!(
                "asks for similarity_fn_name {similarity:?}, which is not supported; expected cosine or dot"
            );
            return Err(EmbedError::model(&file, problem));
        }
        head.normalize =
            has_token_vectors || options.normalize.unwrap_or(["cosine", MAX_SIM].contains(&similarity));
        let token_vectors =
            has_token_vectors.then(|| token_vector_config(&file, prompts.others)).transpose()?;
        Ok(Directory {
            tasks,
            query_prompt,
            document_prompt,
            architecture,
            model_type,
            tokenizer,
            head,
            projects,
            weights: transformer,
            token_vectors,
            steps,
        })
    }
}

/// Reads the settings of a model with a vector for each token from the other fields of its configuration.
fn token_vector_config(path: &Path, mut fields: Map<String, Value>) -> Result<TokenVectorConfig, EmbedError> {
    // Null counts as absent.
    fields.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(fields)).map_err(|error| {
        EmbedError::model_file(
            path,
            "does not contain the settings of PyLate; copy it again from the model's source",
            error,
        )
    })
}

/// The numbers of the tasks of queries and documents: the requested ones, otherwise those of retrieval.
fn find_tasks(path: &Path, known: &[String], wanted: &[String]) -> Result<Option<[usize; 2]>, EmbedError> {
    let names = match wanted {
        [] if known.is_empty() => return Ok(None),
        [] => ["retrieval.query", "retrieval.passage"],
        [both] => [both.as_str(); 2],
        [of_queries, of_documents, ..] => [of_queries.as_str(), of_documents.as_str()],
    };
    let find = |name: &str| {
        known.iter().position(|task| task == name).ok_or_else(|| {
            let problem = match known {
                [] => format!("has no adapters for tasks; leave out the option `{name}`"),
                _ => format!(
                    "has no adapters for the task {name}; name one or two of {} after the path",
                    known.join(", ")
                ),
            };
            EmbedError::model(path, problem)
        })
    };
    Ok(Some([find(names[0])?, find(names[1])?]))
}
