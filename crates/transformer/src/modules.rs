//! The modules of a sentence-transformers directory, in the order of `modules.json`.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::encoder::Linear;
use super::numeric::Activation;
use super::pooling::{Dense, DenseFunction, Head, POOLINGS, Pooling, Step, pooling};
use super::reader::Reader;
use super::weights::Weights;
use quarry_embed::EmbedError;

#[derive(Deserialize)]
struct Module {
    path: String,
    r#type: String,
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

#[derive(Deserialize)]
struct DenseConfig {
    in_features: usize,
    out_features: usize,
    #[serde(default = "yes")]
    bias: bool,
    #[serde(default = "tanh")]
    activation_function: String,
    /// Adds its input, or a linear map of that, as PyLate does.
    #[serde(default)]
    use_residual: bool,
}

fn yes() -> bool {
    true
}

/// The default of sentence-transformers.
fn tanh() -> String {
    "Tanh".into()
}

/// The modules of a directory, checked except for their configurations.
pub(crate) struct Modules {
    pub transformer: PathBuf,
    /// Directory of the pooling; none if each token has a vector of its own.
    pooling: Option<PathBuf>,
    /// Those after it, by their types, and their directories.
    steps: Vec<(String, PathBuf)>,
}

impl Modules {
    /// Reads `modules.json`, if there is one.
    ///
    /// # Errors
    /// When it cannot be parsed, or lists something unsupported.
    pub(crate) fn read(path: &Path, reader: &mut Reader) -> Result<Option<Modules>, EmbedError> {
        let file = path.join("modules.json");
        let Some(modules) = reader.optional::<Vec<Module>>(&file)? else { return Ok(None) };
        let wrong = |problem: String| {
            let expected = "expected Transformer, Pooling and then, if any, Dense and Normalize, or Transformer and Dense \
                            for a vector of each token";
            Err(EmbedError::model(&file, format!("{problem}; {expected}")))
        };
        let mut found = Vec::new();
        for module in &modules {
            let name = last_segment(&module.r#type);
            if !["Transformer", "Pooling", "Dense", "Normalize"].contains(&name) {
                return wrong(format!("asks for a module {name}, which is not supported"));
            }
            let inner = Path::new(&module.path);
            if !inner.components().all(|part| matches!(part, Component::Normal(_))) {
                let problem = format!(
                    "names the directory {:?}; expected one in the directory of the model",
                    module.path
                );
                return Err(EmbedError::model(&file, problem));
            }
            let directory = if module.path.is_empty() { path.to_owned() } else { path.join(inner) };
            found.push((name.to_owned(), directory));
        }
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let has_pooling = names.get(1) == Some(&"Pooling");
        let n_first = if has_pooling { 2 } else { 1 };
        let is_step =
            |name: &&str| if has_pooling { ["Dense", "Normalize"].contains(name) } else { *name == "Dense" };
        let steps = names.get(n_first..).unwrap_or_default();
        let is_whole = names.first() == Some(&"Transformer") && (has_pooling || !steps.is_empty());
        if !is_whole || !steps.iter().all(is_step) {
            return wrong(format!("lists the modules {names:?}"));
        }
        let steps = found.split_off(n_first);
        let mut directories = found.into_iter().map(|(_, directory)| directory);
        let Some(transformer) = directories.next() else { return wrong("lists too few modules".into()) };
        Ok(Some(Modules { transformer, pooling: directories.next(), steps }))
    }

    /// The directories of the modules after the pooling, or after the encoder.
    pub(crate) fn step_directories(&self) -> Vec<PathBuf> {
        self.steps.iter().map(|(_, directory)| directory.clone()).collect()
    }

    /// Returns whether each token has a vector of its own.
    pub(crate) fn has_token_vectors(&self) -> bool {
        self.pooling.is_none()
    }

    /// Reads what follows an encoder of `hidden` columns.
    ///
    /// # Errors
    /// When a module is damaged, or takes other columns than the one before gives.
    pub(crate) fn head(&self, hidden: usize, reader: &mut Reader) -> Result<Head, EmbedError> {
        let mut head = Head::new(hidden, vec![Pooling::None]);
        if let Some(pooling) = &self.pooling {
            let file = pooling.join("config.json");
            let config: PoolingConfig = reader.required(&file)?;
            head.poolings = config.check(&file, hidden)?;
            head.include_prompt = config.include_prompt;
        }
        for (name, directory) in &self.steps {
            let step = match name.as_str() {
                "Dense" => Step::Dense(read_dense(directory, head.full_dimension(), reader)?),
                _ => Step::Normalize,
            };
            head.steps.push(step);
        }
        Ok(head)
    }
}

fn read_dense(directory: &Path, n_inputs: usize, reader: &mut Reader) -> Result<Dense, EmbedError> {
    let file = directory.join("config.json");
    let config: DenseConfig = reader.required(&file)?;
    if config.in_features != n_inputs || config.out_features == 0 {
        let problem = format!(
            "maps {} columns to {}, expected {n_inputs} from the module before; use the files of one model",
            config.in_features, config.out_features
        );
        return Err(EmbedError::model(&file, problem));
    }
    let function = match last_segment(&config.activation_function) {
        "Identity" => DenseFunction::Identity,
        "Tanh" => DenseFunction::Tanh,
        "GELU" => DenseFunction::Activation(Activation::Gelu),
        "ReLU" => DenseFunction::Activation(Activation::Relu),
        other => {
            let problem = format!(
                "asks for activation_function {other:?}, which is not supported; expected Identity, Tanh, GELU or \
                 ReLU"
            );
            return Err(EmbedError::model(&file, problem));
        }
    };
    let weights = Weights::open(directory, reader.hash)?;
    let linear = if config.bias { Linear::new } else { Linear::without_bias };
    let dense = Dense::new(linear(&weights, "linear", n_inputs, config.out_features)?, function);
    Ok(match config.use_residual {
        false => dense,
        true if n_inputs == config.out_features => dense.added_to(None),
        true => {
            dense.added_to(Some(Linear::without_bias(&weights, "residual", n_inputs, config.out_features)?))
        }
    })
}

fn last_segment(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

impl PoolingConfig {
    fn check(&self, path: &Path, hidden: usize) -> Result<Vec<Pooling>, EmbedError> {
        let wrong = |problem: String| Err(EmbedError::model(path, problem));
        if self.word_embedding_dimension != hidden {
            return wrong(format!(
                "pools vectors of {} columns, expected the {hidden} of the transformer's config.json; use the files \
                 of one model",
                self.word_embedding_dimension
            ));
        }
        let switches = [
            (self.pooling_mode_cls_token, "cls"),
            (self.pooling_mode_max_tokens, "max"),
            (self.pooling_mode_mean_tokens, "mean"),
            (self.pooling_mode_mean_sqrt_len_tokens, "mean_sqrt_len_tokens"),
            (self.pooling_mode_weightedmean_tokens, "weightedmean"),
            (self.pooling_mode_lasttoken, "lasttoken"),
        ];
        let names = match &self.pooling_mode {
            Some(Names::One(name)) => vec![name.clone()],
            Some(Names::Several(names)) => names.clone(),
            None => switches.iter().filter(|(on, _)| *on).map(|(_, name)| (*name).to_owned()).collect(),
        };
        if names.is_empty() {
            // The default of sentence-transformers.
            return Ok(vec![Pooling::Mean]);
        }
        let mut poolings =
            names.iter().map(|name| pooling(name)).collect::<Option<Vec<_>>>().ok_or_else(|| {
                let known = POOLINGS.map(|(name, _)| name).join(", ");
                let problem = format!(
                    "asks for pooling {}, which is not supported; expected {known}",
                    names.join(" with ")
                );
                EmbedError::model(path, problem)
            })?;
        poolings.sort_unstable();
        poolings.dedup();
        Ok(poolings)
    }
}
