//! The directory of a trained model, as sentence-transformers and `quarry` read it, with its card.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use candle_core::{Device, Tensor};
use quarry_transformer::trainable::{
    MATCHER_FILE, MAX_QUERY_TOKENS, NamedTensor, TOKEN_MAP, Trainable, TrainablePooling,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::checkpoint::write_tensors;
use super::settings::{Kind, Settings};
use super::{Evaluation, Select};
use crate::TrainError;

/// Files of a model's directory that are copied to a trained one: how texts become tokens.
const TAKEN_OVER: [&str; 9] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
];

const REPORT_FILE: &str = "training.json";

/// Result of a finished run, as a file of its directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub settings: Settings,
    /// [`super::Device::name`] of where it ran; older versions knew the CPU alone.
    #[serde(default = "cpu")]
    pub device: String,
    pub n_examples: usize,
    pub n_held_out: usize,
    /// Codes that were ranked to measure them.
    pub n_codes: usize,
    pub evaluations: Vec<Evaluation>,
    pub kept: Option<Evaluation>,
}

fn cpu() -> String {
    "cpu".to_owned()
}

impl Report {
    /// Reads the report in a directory; `None` if its run has not ended.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(directory: &Path) -> Result<Option<Report>, TrainError> {
        // Of both files the weights come last.
        let path = directory.join(REPORT_FILE);
        if !directory.join("model.safetensors").is_file() || !path.is_file() {
            return Ok(None);
        }
        let text = fs::read(&path).map_err(|error| TrainError::file(&path, error))?;
        let damaged = |error| {
            TrainError::file(&path, format!("is damaged: {error}; remove the directory to train again"))
        };
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }
}

/// Writes the model. The weights come last, so that a directory with them is complete.
pub(super) fn write_model(
    directory: &Path,
    model: &Trainable,
    cosine: bool,
    settings: &Settings,
    tensors: &[NamedTensor],
    card: &str,
    report: &Report,
) -> Result<(), TrainError> {
    let failed = |path: &Path, error: std::io::Error| {
        TrainError::file(path, format!("cannot be written: {error}; make space, or name another directory"))
    };
    let write = |name: &str, content: &str| {
        let path = directory.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| failed(&path, error))?;
        fs::write(&path, content).map_err(|error| failed(&path, error))
    };
    for name in TAKEN_OVER {
        let source = model.transformer.join(name);
        if source.is_file() {
            fs::copy(&source, directory.join(name)).map_err(|error| failed(&directory.join(name), error))?;
        }
    }
    let kind = settings.objective.kind();
    let write_json = |name: &str, value: &Value| write(name, &format!("{value:#}\n"));
    let read = |path: &Path| -> Result<Value, TrainError> {
        let text = fs::read_to_string(path).map_err(|error| TrainError::file(path, error))?;
        serde_json::from_str(&text).map_err(|error| TrainError::file(path, error))
    };
    let write_modules = |modules: &[(&str, &str)]| {
        let module = |(at, (path, kind)): (usize, &(&str, &str))| json!({ "idx": at, "name": at.to_string(), "path": path, "type": kind });
        write_json("modules.json", &modules.iter().enumerate().map(module).collect())
    };
    let write_limit = |limit: usize| {
        write_json("sentence_bert_config.json", &json!({ "max_seq_length": limit, "do_lower_case": false }))
    };
    let mut config = read(&directory.join("config.json"))?;
    if settings.layers > 0 {
        let name = if model.wiring.is_t5 { "num_layers" } else { "num_hidden_layers" };
        config[name] = model.shape.n_layers.into();
    }
    if kind == Kind::Classifier {
        config["architectures"] = json!([classifier_architecture(&model.model_type)]);
        config["id2label"] = json!({ "0": "other", "1": "answer" });
        config["label2id"] = json!({ "other": 0, "answer": 1 });
        config[MAX_QUERY_TOKENS] = settings.max_query_tokens.into();
        let limit = model.shape.max_tokens.unwrap_or(usize::MAX).min(settings.max_code_tokens);
        let path = directory.join("tokenizer_config.json");
        let mut tokenizer = if path.exists() { read(&path)? } else { json!({}) };
        tokenizer["model_max_length"] = limit.into();
        write_json("tokenizer_config.json", &tokenizer)?;
        write("tokenizer.json", &model.pair_tokenizer().map_err(TrainError::Model)?)?;
    }
    // Any program that reads the tokenizer adds the prefix that the model was trained with.
    if let Some(tokenizer) =
        model.prefixed_tokenizer().map_err(TrainError::Model)?.filter(|_| kind != Kind::Classifier)
    {
        write("tokenizer.json", &tokenizer)?;
    }
    write_json("config.json", &config)?;
    write("README.md", card)?;
    let report = serde_json::to_value(report).map_err(|error| TrainError::file(directory, error))?;
    write_json(REPORT_FILE, &report)?;
    let (of_tokens, tensors): (Vec<&NamedTensor>, Vec<&NamedTensor>) =
        tensors.iter().partition(|tensor| tensor.name == TOKEN_MAP);
    let (head, encoder): (Vec<&NamedTensor>, Vec<&NamedTensor>) =
        tensors.into_iter().partition(|tensor| tensor.name.starts_with("matcher."));
    if let Some(late) = &model.late {
        write_modules(&[
            ("", "sentence_transformers.models.Transformer"),
            ("1_Dense", "pylate.models.Dense.Dense"),
        ])?;
        let dense = json!({
            "in_features": model.shape.hidden,
            "out_features": model.dimension,
            "bias": false,
            "activation_function": "torch.nn.modules.linear.Identity",
            "use_residual": false,
        });
        write_json("1_Dense/config.json", &dense)?;
        let name = "config_sentence_transformers.json";
        let mut config = read(&model.directory.join(name))?;
        // Texts are read as they were in training.
        config["query_length"] = late.lengths[0].min(settings.max_query_tokens).into();
        config["document_length"] = late.lengths[1].min(settings.max_code_tokens).into();
        write_json(name, &config)?;
        write_limit(late.lengths[1].min(settings.max_code_tokens))?;
        save(&directory.join("1_Dense/model.safetensors"), of_tokens.into_iter())?;
    } else if kind != Kind::Classifier {
        let limit = settings.max_query_tokens.max(settings.max_code_tokens);
        let limit = model.shape.max_tokens.map_or(limit, |most| limit.min(most));
        // The configuration of a model with a projection says that it has one; no module of other programs is it.
        let projects = model.pooling == TrainablePooling::Projection;
        let pooling = if model.pooling == TrainablePooling::Mean { "mean" } else { "cls" };
        let mut modules = vec![
            ("", "sentence_transformers.models.Transformer"),
            ("1_Pooling", "sentence_transformers.models.Pooling"),
        ];
        let is = |mode: &str| pooling == mode;
        let pooling = json!({
            "word_embedding_dimension": model.shape.hidden,
            "pooling_mode_cls_token": is("cls"),
            "pooling_mode_mean_tokens": is("mean"),
        });
        if !projects {
            write_json("1_Pooling/config.json", &pooling)?;
        }
        write_limit(limit)?;
        if model.pooling == TrainablePooling::Pooler {
            modules.push(("2_Dense", "sentence_transformers.models.Dense"));
            let dense = json!({
                "in_features": model.shape.hidden,
                "out_features": model.shape.hidden,
                "bias": true,
                "activation_function": "torch.nn.modules.activation.Tanh",
            });
            write_json("2_Dense/config.json", &dense)?;
            let linear: Vec<NamedTensor> = encoder
                .iter()
                .filter_map(|tensor| {
                    let name = tensor.name.strip_prefix("pooler.dense.")?;
                    Some(NamedTensor { name: format!("linear.{name}"), ..(*tensor).clone() })
                })
                .collect();
            save(&directory.join("2_Dense/model.safetensors"), linear.iter())?;
        }
        if cosine && !projects {
            modules.push(("3_Normalize", "sentence_transformers.models.Normalize"));
            fs::create_dir_all(directory.join("3_Normalize")).map_err(|error| failed(directory, error))?;
        }
        if !projects {
            write_modules(&modules)?;
        }
        let prompts = json!({ "query": model.query_prompt, "document": model.document_prompt });
        let similarity = if cosine { "cosine" } else { "dot" };
        let sentence = json!({ "prompts": prompts, "similarity_fn_name": similarity });
        write_json("config_sentence_transformers.json", &sentence)?;
    }
    if !head.is_empty() {
        save(&directory.join(MATCHER_FILE), head.into_iter())?;
    }
    // A classifier's file has the encoder under the model's name, as transformers writes it.
    let prefix = match kind {
        Kind::Classifier if model.model_type == "bert" => "bert.",
        Kind::Classifier if model.wiring.is_t5 => "",
        Kind::Classifier => "roberta.",
        _ => "",
    };
    let named: Vec<NamedTensor> = encoder
        .into_iter()
        .map(|tensor| {
            let prefix = if tensor.name.starts_with("classifier") { "" } else { prefix };
            NamedTensor { name: format!("{prefix}{}", tensor.name), ..tensor.clone() }
        })
        .collect();
    save(&directory.join("model.safetensors"), named.iter())
}

/// The name that transformers gives to a classifier of texts.
fn classifier_architecture(model_type: &str) -> &'static str {
    match model_type {
        "bert" => "BertForSequenceClassification",
        "xlm-roberta" => "XLMRobertaForSequenceClassification",
        "camembert" => "CamembertForSequenceClassification",
        "codet5p_embedding" => "CodeT5pEmbeddingForSequenceClassification",
        _ => "RobertaForSequenceClassification",
    }
}

fn save<'a>(path: &Path, tensors: impl Iterator<Item = &'a NamedTensor>) -> Result<(), TrainError> {
    let tensors: HashMap<String, Tensor> = tensors
        .map(|tensor| {
            let values = Tensor::from_slice(&tensor.values, tensor.shape.as_slice(), &Device::Cpu)?;
            Ok((tensor.name.clone(), values))
        })
        .collect::<candle_core::Result<_>>()?;
    write_tensors(path, &tensors)
}

/// Content of a model's card besides its settings and results.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Provenance {
    pub command: String,
    pub base: String,
    /// The files of pairs, with a hash of each.
    pub data: Vec<(String, String)>,
    pub licenses: Vec<(String, usize)>,
    /// Result of the check for evaluation data.
    pub leakage: String,
    /// Differences between the recipe and its paper, a sentence each.
    pub departures: Vec<String>,
    pub version: String,
}

pub(super) fn card(provenance: &Provenance, report: &Report) -> String {
    let settings = &report.settings;
    let mut text = String::from(
        "---\nlibrary_name: sentence-transformers\ntags: [code-search]\n---\n\n# A model trained with Quarry\n\n",
    );
    let _ = writeln!(
        text,
        "Began as `{}`. Trained by quarry {} on {} with\n\n```sh\n{}\n```\n",
        provenance.base, provenance.version, report.device, provenance.command
    );
    let _ = writeln!(
        text,
        "## Data\n\n{} examples to learn from, {} held out.\n",
        report.n_examples, report.n_held_out
    );
    for (file, hash) in &provenance.data {
        let _ = writeln!(text, "- `{file}` (xxh3 {hash})");
    }
    let _ = writeln!(text, "\nLicenses of the code:\n");
    for (license, n) in &provenance.licenses {
        let _ = writeln!(text, "- {license}: {n}");
    }
    let _ = writeln!(text, "\nEvaluation data: {}.\n", provenance.leakage);
    if !provenance.departures.is_empty() {
        text.push_str("## Differences from the paper\n\n");
        for departure in &provenance.departures {
            let _ = writeln!(text, "- {departure}");
        }
        text.push('\n');
    }
    let measure = settings.select.measure();
    let _ = writeln!(
        text,
        "## Results on the held-out pairs\n\n| epoch | step | loss | {measure} |\n| --- | --- | --- | --- |"
    );
    for evaluation in &report.evaluations {
        let value = evaluation.value.map_or_else(|| "–".to_owned(), |value| format!("{value:.4}"));
        let _ = writeln!(
            text,
            "| {} | {} | {:.4} | {value} |",
            evaluation.epoch, evaluation.step, evaluation.loss
        );
    }
    if let Some(kept) = &report.kept {
        let among = match settings.select {
            Select::Last => "the last".to_owned(),
            Select::Accuracy => format!("the best accuracy on {} held-out pairs", report.n_held_out),
            _ if settings.objective.kind() == Kind::Classifier => {
                format!("the best {measure} among the codes labeled for each held-out query")
            }
            _ => format!(
                "the best {measure} of {} held-out pairs among {} codes",
                report.n_held_out, report.n_codes
            ),
        };
        let _ = writeln!(text, "\nThe weights are those after epoch {}: {among}.", kept.epoch);
    }
    let settings = serde_json::to_value(settings).map(|value| format!("{value:#}\n")).unwrap_or_default();
    let _ = writeln!(text, "\n## Settings\n\n```json\n{settings}```");
    text
}
