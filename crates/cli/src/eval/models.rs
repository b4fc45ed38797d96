//! The models that methods run: their sources, and the cache of their answers.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "data")]
use super::chat_matcher::ChatMatcher;
use super::remote_model::{Prefixes, RemoteModel};
use anyhow::{Context, bail};
use clap::Args;
use quarry_corpus::formats::Document;
use quarry_embed::shipped;
use quarry_embed::{CachedEmbedder, EmbedError, Embedder, WithReranker};
use quarry_eval::EvalError;
use quarry_eval::method::{ApiModel, ChatModel, ModelName, ModelSource, Scorer};
use quarry_eval::plan::Input;
use quarry_llm::{
    Budget, Cache, Client, Cost, Limits, LlmError, Money, Provider, Recording, Settings, Transport,
};
use quarry_text::counted;
use serde::Deserialize;
use toml::Table;

use crate::cache::{ANSWERS, VECTORS};
use crate::model;
use crate::output;
use crate::settings::named_llm;

/// Address of OpenAI's own API, and the environment variables that its clients agree on.
const OPENAI: &str = "https://api.openai.com/v1";
const ADDRESS_VARIABLE: &str = "OPENAI_BASE_URL";
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// Access to models, and the cache of their answers.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// Settings of models behind an API (api:MODEL, chat:MODEL) and of cached vectors; may be repeated, later ones win.
    ///
    /// SETTING is KEY=VALUE, a TOML file, or the NAME of a table `[llm.NAME]` in your settings. Keys are those of
    /// `[model]` in a judging plan (provider, base_url, key_variable, input_price, …), `budget` in dollars,
    /// `token_budget`, `record` or `replay` with a file of answers, and `cache`: a directory for vectors and answers,
    /// or false [default: the server of OPENAI_BASE_URL with the key in OPENAI_API_KEY; vectors in quarry/embeddings in
    /// the user's cache directory]
    #[arg(long, value_name = "SETTING")]
    llm: Vec<String>,
}

/// The settings of `--llm` for the client rather than the server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClientSettings {
    budget: Option<f64>,
    token_budget: Option<u64>,
    record: Option<PathBuf>,
    replay: Option<PathBuf>,
    cache: Option<CacheSetting>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a directory, true or false")]
enum CacheSetting {
    IsKept(bool),
    Directory(PathBuf),
}

/// The keys of [`ClientSettings`]; the value of one that names a file is relative to the file that holds it.
const CLIENT_KEYS: [(&str, bool); 5] =
    [("budget", false), ("token_budget", false), ("record", true), ("replay", true), ("cache", true)];

pub struct Models {
    /// Model in place of the built-in one.
    builtin: Option<PathBuf>,
    cache: Option<PathBuf>,
    /// True if the user named the directory of the cache, so that failing to use it is an error.
    cache_is_named: bool,
    endpoint: Table,
    budget: Budget,
    record: Option<PathBuf>,
    replay: Option<PathBuf>,
    /// Calls servers in place of this process.
    transports: Option<Box<OpenTransport>>,
}

/// Opens a transport to the server of some settings.
pub type OpenTransport = dyn Fn(&Settings) -> Result<Box<dyn Transport>, LlmError> + Send + Sync;

impl ModelArgs {
    /// Reads the settings; `builtin` replaces the built-in model.
    ///
    /// # Errors
    /// When settings cannot be read, are unknown or exclude each other, or the budget is not an amount of money.
    pub fn resolve(&self, builtin: Option<PathBuf>) -> anyhow::Result<Models> {
        let (mut endpoint, mut client) = (Table::new(), Table::new());
        for setting in &self.llm {
            let (of_endpoint, of_client) = read_setting(setting)?;
            endpoint.extend(of_endpoint);
            client.extend(of_client);
        }
        let ClientSettings { budget, token_budget, record, replay, cache } = client.try_into()?;
        if record.is_some() && replay.is_some() {
            bail!("--llm: record and replay exclude each other; omit one of them");
        }
        let money = match budget {
            None => None,
            Some(dollars) => match Money::from_dollars(dollars) {
                Some(money) => Some(money),
                None => bail!("--llm: expected a budget in dollars, 0 or more, found {dollars}"),
            },
        };
        let cache_is_named = matches!(cache, Some(CacheSetting::Directory(_)));
        let cache = match cache {
            Some(CacheSetting::Directory(directory)) => Some(directory),
            Some(CacheSetting::IsKept(false)) => None,
            _ => quarry_files::cache_directory().map(|directory| directory.join(VECTORS)),
        };
        let budget = Budget::new(Limits { tokens: token_budget, money }, Cost::default());
        Ok(Models { builtin, cache, cache_is_named, endpoint, budget, record, replay, transports: None })
    }
}

/// Parses one `--llm` setting, into those for the server and those for the client. A mistake is reported before
/// anything is embedded.
fn read_setting(setting: &str) -> anyhow::Result<(Table, Table)> {
    let is_key =
        |key: &str| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let (mut endpoint, directory) = match setting.split_once('=').filter(|(key, _)| is_key(key)) {
        // A string needs no quotes.
        Some((key, value)) => {
            let table =
                setting.parse().unwrap_or_else(|_| Table::from_iter([(key.to_owned(), value.into())]));
            (table, PathBuf::new())
        }
        None if setting.ends_with(".toml") => (read_file(setting)?, parent(setting.as_ref())),
        None => {
            let (file, table) = named_llm(setting)?;
            (table, parent(&file))
        }
    };
    let mut client = Table::new();
    for (key, is_path) in CLIENT_KEYS {
        let Some(value) = endpoint.remove(key) else { continue };
        let value = match value.as_str().filter(|_| is_path) {
            Some(path) => directory.join(path).to_string_lossy().into_owned().into(),
            None => value,
        };
        client.insert(key.to_owned(), value);
    }
    let problem = || format!("--llm {setting}");
    settings(&endpoint, "model").with_context(problem)?;
    client.clone().try_into::<ClientSettings>().with_context(problem)?;
    Ok((endpoint, client))
}

fn read_file(path: &str) -> anyhow::Result<Table> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("--llm {path}: expected settings of models, found no readable file"))?;
    text.parse().with_context(|| format!("--llm {path}: expected settings of models as TOML"))
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}

/// The settings of an endpoint for `model`: those of `table`, completed from the environment.
fn settings(table: &Table, model: &str) -> Result<Settings, LlmError> {
    let mut table = table.clone();
    if table.contains_key("model") {
        let problem = "`model` is named by the method, as api:MODEL or chat:MODEL; remove it".to_owned();
        return Err(LlmError::Settings { problem });
    }
    table.insert("model".to_owned(), model.into());
    if !table.contains_key("base_url") {
        let address = env::var(ADDRESS_VARIABLE).unwrap_or_else(|_| OPENAI.to_owned());
        // A server of the user's own may need no key.
        if !table.contains_key("key_variable") && (address == OPENAI || env::var_os(KEY_VARIABLE).is_some()) {
            table.insert("key_variable".to_owned(), KEY_VARIABLE.into());
        }
        table.insert("base_url".to_owned(), address.into());
    }
    if !table.contains_key("provider") {
        let openai = table["base_url"].as_str() == Some(OPENAI);
        table.insert("provider".to_owned(), if openai { "openai" } else { "openai-compatible" }.into());
    }
    table.try_into().map_err(|error| LlmError::Settings { problem: error.to_string().trim().to_owned() })
}

fn remote(error: LlmError) -> EmbedError {
    EmbedError::Remote(error.into())
}

impl Models {
    /// The same models, whose servers are called through `transports`.
    #[cfg(feature = "data")]
    pub fn asked_by(self, transports: Box<OpenTransport>) -> Self {
        Self { transports: Some(transports), ..self }
    }

    pub fn without_cache(self) -> Self {
        Self { cache: None, ..self }
    }

    /// Loads a model. The cache keeps the vectors of transformers and the answers of servers; a static model is faster
    /// than the cache.
    pub fn load(&self, name: ModelName<'_>) -> Result<Arc<dyn Embedder>, EmbedError> {
        let path = match name {
            ModelName::Builtin => self.builtin.as_deref(),
            ModelName::Path(path) => Some(path),
            ModelName::Reranker => return self.reranker(),
            ModelName::Api(api) => {
                let client = self.api_client(api).map_err(remote)?;
                let prefixes =
                    Prefixes { query: api.query_prefix.clone(), document: api.document_prefix.clone() };
                return Ok(Arc::new(RemoteModel::new(client, prefixes)?));
            }
        };
        if path.is_some_and(shipped::is_reranker) {
            return Ok(Arc::new(WithReranker { first: model::load(None)?, reranker: self.reranker()? }));
        }
        let embedder = model::load(path)?;
        if model::is_static(path) { Ok(embedder) } else { self.cached(embedder) }
    }

    /// The re-ranker of `--quality best`, with cached vectors.
    fn reranker(&self) -> Result<Arc<dyn Embedder>, EmbedError> {
        self.cached(model::load(Some(&model::reranker()?))?)
    }

    fn cached(&self, embedder: Arc<dyn Embedder>) -> Result<Arc<dyn Embedder>, EmbedError> {
        let Some(directory) = self.cache.as_deref() else { return Ok(embedder) };
        match CachedEmbedder::new(embedder.clone(), directory) {
            Ok(cached) => Ok(Arc::new(cached)),
            Err(error) if self.cache_is_named => Err(error),
            Err(error) => {
                output::note(&format!("vectors are not kept: {error}"));
                Ok(embedder)
            }
        }
    }

    /// Dependencies of the vectors of a model behind an API besides the method's name: the server, or the recording
    /// that replaces it.
    pub fn api_identity(&self, api: &ApiModel) -> Result<String, EvalError> {
        let Settings { provider, base_url, dimensions, .. } = self.api_settings(api).map_err(remote)?;
        Ok(format!("{provider:?} {base_url} {dimensions:?} {}", self.recording_identity()?))
    }

    /// The same for the answers of a chat model. Its prompts are part of the program, unless it names others.
    pub fn chat_identity(&self, chat: &ChatModel) -> Result<String, EvalError> {
        let settings = settings(&self.endpoint, &chat.model).map_err(remote)?;
        #[cfg(feature = "data")]
        let prompts = {
            let found = ChatMatcher::prompts_identity(chat);
            found.map_err(|source| EvalError::Chat { model: chat.model.clone(), source: Box::new(source) })?
        };
        #[cfg(not(feature = "data"))]
        let prompts = "";
        let identity =
            format!("{:?} {} {}", settings.provider, settings.base_url, self.recording_identity()?);
        Ok(if prompts.is_empty() { identity } else { format!("{identity} {prompts}") })
    }

    /// Hash of the recording that replaces the server; empty without one.
    fn recording_identity(&self) -> Result<String, EvalError> {
        let recording = self.replay.as_deref().map(|path| Input::read(Path::new(""), path)).transpose()?;
        Ok(recording.map_or_else(String::new, |file| file.sha256))
    }

    fn api_settings(&self, api: &ApiModel) -> Result<Settings, LlmError> {
        let mut settings = settings(&self.endpoint, &api.model)?;
        settings.dimensions = api.dimensions.or(settings.dimensions);
        Ok(settings)
    }

    fn api_client(&self, api: &ApiModel) -> Result<Client, LlmError> {
        let mut settings = self.api_settings(api)?;
        // A model for embeddings has no output tokens.
        settings.output_price = settings.output_price.or(Some(0.0));
        if settings.provider == Provider::Anthropic {
            let problem = "Anthropic has no embeddings; name another endpoint".to_owned();
            return Err(LlmError::Settings { problem });
        }
        self.client(settings)
    }

    /// A client by the arguments: with the cache, within the budget, recording or replaying.
    fn client(&self, settings: Settings) -> Result<Client, LlmError> {
        if let Some(path) = &self.replay {
            return Client::replay(settings, Recording::open(path)?);
        }
        let client = match &self.transports {
            Some(open) => {
                let transport = open(&settings)?;
                Client::with_transport(settings, transport)?
            }
            None => Client::new(settings)?,
        };
        let mut client = client.with_budget(self.budget.clone())?;
        if let Some(directory) = &self.cache {
            client = client.with_cache(Cache::open(&directory.join(ANSWERS))?);
        }
        if let Some(path) = &self.record {
            client = client.with_recording(path)?;
        }
        Ok(client)
    }

    pub fn report_spending(&self) {
        let spending = self.budget.spending();
        if spending.calls > 0 {
            output::note(&format!("{} of a server: {}", counted(spending.calls, "call"), spending.spent));
        }
    }
}

impl ModelSource for Models {
    fn load(&self, name: ModelName<'_>) -> Result<Arc<dyn Embedder>, EmbedError> {
        self.load(name)
    }

    #[cfg(feature = "data")]
    fn chat(&self, chat: &ChatModel, documents: &[Document]) -> Result<(Box<dyn Scorer>, String), EvalError> {
        use quarry_eval::method::AllPairs;

        let failed = |source| EvalError::Chat { model: chat.model.clone(), source };
        let settings = settings(&self.endpoint, &chat.model).map_err(|error| failed(error.into()))?;
        let at_once = settings.concurrency as usize;
        let client = self.client(settings).map_err(|error| failed(error.into()))?;
        let matcher = ChatMatcher::new(client, chat, at_once).map_err(|error| failed(error.into()))?;
        let id = matcher.id();
        Ok((Box::new(AllPairs::new(matcher, documents)?), id))
    }
}
