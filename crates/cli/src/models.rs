//! `quarry model`: models on disk, and downloading them.

pub mod convert;
pub mod list;
mod release;

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use quarry_download::{DownloadOptions, Expected, download};
use quarry_embed::PairModel;
use quarry_embed::shipped;
use quarry_text::counted;
use quarry_transformer::{CrossEncoder, Matcher};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{model, new_file, output, progress};

/// Arguments of `quarry model`.
#[derive(Debug, Args)]
pub struct ModelArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the models on this machine (built in, beside the program, in the cache, tuned), or describe one
    List(list::ListArgs),
    /// Download the model of `--quality best`, or a model from a hub, and verify them; existing files are kept
    Pull(PullArgs),
    /// Convert a transformer's weights to safetensors or to 8 or 4 bits, or a model between model2vec and static
    Convert(convert::ConvertArgs),
}

#[derive(Debug, Args)]
struct PullArgs {
    /// `best`, the model of `--quality best`, or owner/name of a model at a hub
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Directory for the files of a hub's model [default: models/OWNER/NAME in the user's cache]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    /// Branch, tag or commit at the hub [default: main]
    #[arg(long, value_name = "NAME")]
    revision: Option<String>,
    /// Address of the hub [default: huggingface.co]; for `best`, an address, archive or directory that has
    /// it [default: the release of this version]
    #[arg(long, value_name = "URL|PATH")]
    from: Option<String>,
}

pub fn run(args: &ModelArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::List(args) => match &args.model {
            Some(model) => describe(model)?,
            None => list::run(args)?,
        },
        Command::Pull(args) => pull(args)?,
        Command::Convert(args) => convert::convert(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(named: &Path) -> anyhow::Result<()> {
    let of_quality = shipped::is_reranker(named).then(model::reranker).transpose()?;
    let path = of_quality.as_deref().or(model::named(named));
    if let Some(path) = path.filter(|path| CrossEncoder::is_at(path)) {
        let model = CrossEncoder::load(path)?;
        let lines = format!(
            "id: {}\nkind: cross-encoder, for --cross-encoder and rerank(A, B)\nmaximum tokens of a pair: {}\n",
            model.id(),
            model.max_tokens()
        );
        return Ok(output::print(&lines)?);
    }
    if let Some(path) = path.filter(|path| Matcher::is_at(path)) {
        let model = Matcher::load(path)?;
        let lines = format!(
            "id: {}\nkind: siamese matcher, for --method DIR of `quarry eval`\ncolumns: {}\n",
            model.id(),
            model.dimension()
        );
        return Ok(output::print(&lines)?);
    }
    let loaded = model::load(path)?;
    let mut lines = vec![format!("id: {}", loaded.id()), format!("columns: {}", loaded.dimension())];
    if let Some(path) = path.filter(|path| !model::is_static(Some(*path))) {
        let (directory, _) = quarry_transformer::split_options(path);
        match quarry_transformer::trainable::Trainable::read(path) {
            _ if quarry_transformer::TokenVectors::is_at(path) => {
                lines.push("kind: token vectors, as model2vec has them".to_owned());
                lines.push(
                    "can be trained: no: `quarry model convert` makes a static model from it, which can"
                        .to_owned(),
                );
            }
            Ok(model) => {
                let n: usize = model.tensors.iter().map(|tensor| tensor.values.len()).sum();
                let shape = &model.shape;
                lines.push(format!(
                    "kind: {}, {} of {} columns, {} heads, {} tokens",
                    model.model_type,
                    counted(shape.n_layers, "layer"),
                    shape.hidden,
                    shape.n_heads,
                    shape.n_tokens
                ));
                lines.push(format!("parameters: {n}"));
                if let Some(limit) = shape.max_tokens {
                    lines.push(format!("positions: {limit}"));
                }
                lines.push(format!("similarity: {}", if model.cosine { "cosine" } else { "dot" }));
                lines.push("can be trained: yes".to_owned());
            }
            Err(error) => lines.push(format!("can be trained: no: {error}")),
        }
        if let Some(receipt) = Receipt::read(&directory)? {
            lines.push(format!("from: {} at {}", receipt.name, receipt.revision));
        }
    }
    Ok(output::print(&(lines.join("\n") + "\n"))?)
}

const RECEIPT: &str = "pulled.json";

/// Receipt of the files downloaded into a directory.
#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    name: String,
    revision: String,
    files: Vec<ReceiptFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ReceiptFile {
    path: String,
    size: u64,
    sha256: Option<String>,
}

impl Receipt {
    fn read(directory: &Path) -> anyhow::Result<Option<Receipt>> {
        let path = directory.join(RECEIPT);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).with_context(|| {
                format!(
                    "{}: was not written by `quarry model pull`; remove it, and pull again",
                    path.display()
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{}: cannot be read", path.display())),
        }
    }
}

/// An entry of a hub's list of files.
#[derive(Debug, Deserialize)]
struct Entry {
    r#type: String,
    path: String,
    #[serde(default)]
    size: u64,
    lfs: Option<LargeFile>,
}

#[derive(Debug, Deserialize)]
struct LargeFile {
    /// The SHA-256 hash of the content.
    oid: String,
    size: u64,
}

/// Maximum bytes of a hub's list of files.
const MAX_LIST_BYTES: u64 = 16 << 20;

fn pulled_models() -> anyhow::Result<PathBuf> {
    shipped::pulled_models().context("this user has no cache directory; set XDG_CACHE_HOME, or HOME")
}

fn pull(args: &PullArgs) -> anyhow::Result<()> {
    let is_of_hub = args.out.is_some() || args.revision.is_some();
    for name in &args.names {
        let directory = match shipped::is_reranker(Path::new(name)) {
            true if is_of_hub => bail!("{name}: --out and --revision are for models of a hub"),
            true => release::pull(args.from.as_deref())?,
            false if args.out.is_some() && args.names.len() > 1 => bail!("--out: expected one model"),
            false => pull_from_hub(args, name)?,
        };
        output::print(&format!("{}\n", directory.display()))?;
    }
    Ok(())
}

/// Downloads a model from a hub; returns its directory.
fn pull_from_hub(args: &PullArgs, name: &str) -> anyhow::Result<PathBuf> {
    let parts: Vec<&str> = name.split('/').collect();
    let plain = |part: &&str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    if parts.len() != 2 || !parts.iter().all(plain) {
        bail!("{name}: expected best, or the name of a model at a hub as owner/name");
    }
    let revision = args.revision.as_deref().unwrap_or("main");
    if revision.is_empty() || !revision.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        bail!("{revision}: expected a branch, tag or commit without slashes");
    }
    let from = args.from.as_deref().unwrap_or("https://huggingface.co");
    let base = Url::parse(&format!("{}/", from.trim_end_matches('/')))
        .with_context(|| format!("{from}: expected an address, such as https://host"))?;
    if !matches!(base.scheme(), "https" | "http") {
        bail!("{from}: expected an address that begins with https:// or http://");
    }
    let directory = match &args.out {
        Some(directory) => directory.clone(),
        None => pulled_models()?.join(name),
    };
    fs::create_dir_all(&directory).with_context(|| new_file::cannot_write(&directory))?;
    let known = Receipt::read(&directory)?;
    if let Some(known) = known.as_ref().filter(|known| known.name != name || known.revision != revision) {
        bail!(
            "{}: has {} at {}; give another directory with --out",
            directory.display(),
            known.name,
            known.revision
        );
    }
    let mut receipt = match known {
        Some(known) => known,
        None => Receipt {
            name: name.to_owned(),
            revision: revision.to_owned(),
            files: listed(&base, name, revision, &directory)?,
        },
    };
    for file in &mut receipt.files {
        let target = directory.join(checked(&file.path)?);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).with_context(|| new_file::cannot_write(parent))?;
        }
        let address = base.join(&format!("{name}/resolve/{revision}/{}", file.path))?;
        let expected = Expected { size: Some(file.size), sha256: file.sha256.clone(), ..Expected::default() };
        let got = progress::download(&address, &target, &expected)?;
        let verified =
            if got.is_verified { "verified" } else { "the hub has no checksum; verified by length" };
        output::note(&format!("{}: {}, {verified}", target.display(), counted(got.size, "byte")));
        file.sha256 = Some(got.sha256);
    }
    new_file::write_json(&directory.join(RECEIPT), &receipt)?;
    Ok(directory)
}

/// The files of a model that are needed, by the hub's list.
fn listed(base: &Url, name: &str, revision: &str, directory: &Path) -> anyhow::Result<Vec<ReceiptFile>> {
    let address = base.join(&format!("api/models/{name}/tree/{revision}?recursive=true"))?;
    let list = directory.join("list.json");
    _ = fs::remove_file(&list);
    let expected = Expected { max_size: Some(MAX_LIST_BYTES), ..Expected::default() };
    download(&address, &list, &expected, &DownloadOptions::default(), &mut |_, _| {})?;
    let bytes = fs::read(&list).with_context(|| format!("{}: cannot be read", list.display()))?;
    _ = fs::remove_file(&list);
    let entries: Vec<Entry> = serde_json::from_slice(&bytes).with_context(|| {
        format!("{address}: expected a hub's list of files; check the address of the hub")
    })?;
    let needed = needed(
        &entries
            .iter()
            .filter(|entry| entry.r#type == "file")
            .map(|entry| entry.path.as_str())
            .collect::<Vec<_>>(),
    );
    if !needed.iter().any(|path| is_weights(path)) {
        bail!(
            "{name}: has no model.safetensors, pytorch_model.bin or model.bin; expected a model with weights"
        );
    }
    let wanted = entries.into_iter().filter(|entry| needed.contains(&entry.path));
    Ok(wanted
        .map(|entry| match entry.lfs {
            Some(large) => ReceiptFile { path: entry.path, size: large.size, sha256: Some(large.oid) },
            None => ReceiptFile { path: entry.path, size: entry.size, sha256: None },
        })
        .collect())
}

/// The files needed to run a model: configurations, tokenizers, and weights, from safetensors if both forms exist.
fn needed(paths: &[&str]) -> Vec<String> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let has_safetensors = |directory: &str| paths.contains(&format!("{directory}model.safetensors").as_str());
    let wants = |path: &&&str| {
        let name = name(path);
        let directory = &path[..path.len() - name.len()];
        // The directories of other forms of the weights (onnx, openvino) hold no module.
        let is_module = directory.is_empty() || directory.as_bytes()[0].is_ascii_digit();
        let is_small = [".json", ".txt", ".md"].iter().any(|ending| name.ends_with(ending))
            || name.ends_with(".model")
            || name.starts_with("LICENSE");
        is_module
            && (is_small
                || name == "model.safetensors"
                || name == "model.bin"
                || (name == "pytorch_model.bin" && !has_safetensors(directory)))
    };
    paths.iter().filter(wants).map(|path| (*path).to_owned()).collect()
}

fn is_weights(path: &str) -> bool {
    ["model.safetensors", "pytorch_model.bin", "model.bin"]
        .contains(&path.rsplit('/').next().unwrap_or_default())
}

/// A path from a hub or a receipt, which must stay in the model's directory.
fn checked(path: &str) -> anyhow::Result<&Path> {
    let path = Path::new(path);
    if path.components().all(|part| matches!(part, Component::Normal(_))) && path.file_name().is_some() {
        return Ok(path);
    }
    bail!("{}: expected the path of a file in the model's directory; do not trust this hub", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_model_are_downloaded() {
        let paths = [
            "README.md",
            "config.json",
            "1_Pooling/config.json",
            "2_Dense/pytorch_model.bin",
            "model.safetensors",
            "pytorch_model.bin",
            "onnx/model.onnx",
            "onnx/config.json",
            "tf_model.h5",
            "vocab.txt",
            "train_script.py",
        ];
        let expected = [
            "README.md",
            "config.json",
            "1_Pooling/config.json",
            "2_Dense/pytorch_model.bin",
            "model.safetensors",
            "vocab.txt",
        ];
        assert_eq!(needed(&paths), expected);
        assert_eq!(needed(&["pytorch_model.bin"]), ["pytorch_model.bin"]);
    }

    #[test]
    fn paths_stay_in_the_directory() {
        assert!(checked("1_Pooling/config.json").is_ok());
        for path in ["../config.json", "/etc/passwd", "a/../../b", ""] {
            assert!(checked(path).is_err(), "{path}");
        }
    }
}
