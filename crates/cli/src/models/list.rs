//! `quarry model list`: the models on this machine.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::HumanBytes;
use quarry_embed::shipped::STATIC_MODEL_FILE;
use quarry_embed::{Embedder, StaticModel, shipped};
use quarry_metrics::table::{Layout, Table};
use quarry_transformer::TokenVectors;
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

use super::RECEIPT;
use crate::{model, output, tuned};

/// Names of files with the weights of a model, the one that is read first.
const WEIGHTS: [&str; 3] = [STATIC_MODEL_FILE, "model.safetensors", "pytorch_model.bin"];

/// Maximum depth of model directories: models/OWNER/NAME.
const MAX_DEPTH: usize = 3;

/// Arguments of `quarry model list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Describe this model: its kind, size and limits. A directory or file, with options as for --model
    #[arg(value_name = "MODEL")]
    pub model: Option<PathBuf>,
    /// Print the list as one JSON object
    #[arg(long, conflicts_with = "model")]
    json: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ModelList {
    /// The models on this machine.
    models: Vec<ModelView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct ModelView {
    /// Its name; the tree of a tuned one.
    name: String,
    /// Location.
    place: ModelLocation,
    /// `static`, or what `config.json` calls it; null if it cannot be read.
    architecture: Option<String>,
    /// Columns of the vector of a token.
    columns: Option<u64>,
    /// Bytes of the weights.
    bytes: u64,
    /// xxh3 of the weights.
    checksum: String,
    /// Value to pass to `--model`.
    path: PathBuf,
    /// Why it cannot be used; null if it can.
    problem: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "kebab-case")]
enum ModelLocation {
    /// In the program.
    BuiltIn,
    /// Beside the program ([`model::bundled_model_directories`]).
    Beside,
    /// In the user's cache, by `quarry model pull`.
    Pulled,
    /// In the user's cache, by other means.
    Copied,
    /// Made by `quarry tune`.
    Tuned,
}

impl ModelLocation {
    fn words(self) -> &'static str {
        match self {
            Self::BuiltIn => "built in",
            Self::Beside => "beside the program",
            Self::Pulled => "pulled",
            Self::Copied => "copied",
            Self::Tuned => "tuned",
        }
    }
}

pub fn run(args: &ListArgs) -> anyhow::Result<()> {
    let builtin = StaticModel::builtin();
    let mut models = vec![ModelView {
        name: model::BUILTIN.to_owned(),
        place: ModelLocation::BuiltIn,
        architecture: Some("static".to_owned()),
        columns: Some(builtin.dimension() as u64),
        bytes: builtin.n_bytes() as u64,
        checksum: checksum_in(builtin.id()),
        path: model::BUILTIN.into(),
        problem: None,
    }];
    let beside =
        model::bundled_model_directories().into_iter().map(|directory| (ModelLocation::Beside, directory));
    let pulled = shipped::pulled_models().map(|models| (ModelLocation::Pulled, models));
    for (place, directory) in beside.chain(pulled) {
        for path in model_directories(&directory, MAX_DEPTH) {
            let name = path.strip_prefix(&directory).unwrap_or(&path).display().to_string();
            let place = match place {
                ModelLocation::Pulled if !path.join(RECEIPT).is_file() => ModelLocation::Copied,
                place => place,
            };
            models.push(view(name, place, &path));
        }
    }
    for tuned in tuned::all() {
        let Some(path) = tuned.path() else { continue };
        models.push(view(tuned.tree.display().to_string(), ModelLocation::Tuned, &path));
    }
    if args.json {
        return output::print_json(&ModelList { models });
    }
    let mut table =
        Table::new(["model", "", "architecture", "columns", "size", "checksum"]).align_left([1, 2, 5]);
    for model in &models {
        table.push([
            model.name.clone(),
            model.place.words().to_owned(),
            model.problem.clone().or_else(|| model.architecture.clone()).unwrap_or_default(),
            model.columns.map(|columns| columns.to_string()).unwrap_or_default(),
            HumanBytes(model.bytes).to_string(),
            model.checksum.clone(),
        ]);
    }
    Ok(output::print(&table.render(Layout::Text))?)
}

/// The directories below one that have weights, ascending. Hidden ones belong to unfinished pulls, and are left out.
fn model_directories(directory: &Path, depth: usize) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_hidden = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    let shown = entries.flatten().filter(|entry| !is_hidden(entry));
    let mut below: Vec<PathBuf> = shown.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    below.sort();
    let mut found = Vec::new();
    for path in below {
        if WEIGHTS.iter().any(|name| path.join(name).is_file()) {
            found.push(path);
        } else if depth > 1 {
            found.extend(model_directories(&path, depth - 1));
        }
    }
    found
}

/// Describes a model without loading more of it than its weights' bytes.
fn view(name: String, place: ModelLocation, path: &Path) -> ModelView {
    let files = WEIGHTS.iter().map(|name| path.join(name));
    let weights = std::iter::once(path.to_owned()).chain(files).find(|file| file.is_file());
    let mut view = ModelView {
        name,
        place,
        architecture: None,
        columns: None,
        bytes: 0,
        checksum: String::new(),
        path: path.to_owned(),
        problem: None,
    };
    let described = describe(&mut view, weights.as_deref());
    view.problem = described.err().map(|error| format!("{error:#}"));
    view
}

fn describe(view: &mut ModelView, weights: Option<&Path>) -> anyhow::Result<()> {
    let Some(weights) = weights else { anyhow::bail!("the weights are missing") };
    view.bytes = fs::metadata(weights)?.len();
    if weights.extension().is_some_and(|ending| ending == "bin") && !weights.ends_with(WEIGHTS[2]) {
        let loaded = StaticModel::load(weights)?;
        view.architecture = Some("static".to_owned());
        view.columns = Some(loaded.dimension() as u64);
        view.checksum = checksum_in(loaded.id());
        return Ok(());
    }
    let mut hash = Xxh3::new();
    std::io::copy(&mut fs::File::open(weights)?, &mut Hashing(&mut hash))?;
    view.checksum = format!("{:016x}", hash.digest());
    if TokenVectors::is_at(&view.path) {
        view.architecture = Some("model2vec".to_owned());
        view.columns = Some(TokenVectors::load(&view.path)?.dimension() as u64);
        return Ok(());
    }
    let config: serde_json::Value = serde_json::from_slice(&fs::read(view.path.join("config.json"))?)?;
    view.architecture = config["model_type"].as_str().map(str::to_owned);
    view.columns = ["hidden_size", "d_model", "dim"].iter().find_map(|key| config[*key].as_u64());
    Ok(())
}

struct Hashing<'a>(&'a mut Xxh3);

impl std::io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn checksum_in(id: &str) -> String {
    id.rsplit('-').next().unwrap_or(id).to_owned()
}
