//! `quarry model convert` and `quarry model quantize`: other forms of a model's weights.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use indicatif::HumanBytes;
use quarry_corpus::formats::write::Staged;
use quarry_embed::StaticModel;
use quarry_embed::static_model::write_model;
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use quarry_transformer::convert::{Precision, Rewritten, rewrite};
use quarry_transformer::{TokenVectors, write_token_vectors};
use serde::Serialize;

use crate::eval::arguments::LayoutArgs;
use crate::{model, output, progress};

/// Texts that are embedded at a time.
const BATCH: usize = 64;

/// Arguments of `quarry model convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// Directory of a transformer, with model.safetensors or pytorch_model.bin, a pickle of which no code is run; of a model
    /// that model2vec wrote; or of a static model with its vocabulary.txt
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// New directory
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Arguments of `quarry model quantize`.
#[derive(Debug, Args)]
pub struct QuantizeArgs {
    /// Directory of a transformer
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Texts to measure the loss with, one per line
    #[arg(long, value_name = "FILE")]
    texts: PathBuf,
    /// Bits of a weight: 8, with a factor for each row of a matrix, or 4, with one for each 32 weights
    #[arg(long, value_name = "N", value_enum, default_value_t = Bits::Eight)]
    bits: Bits,
    /// New directory for the model
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    layout: LayoutArgs,
}

/// Bits of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bits {
    #[value(name = "8")]
    Eight,
    #[value(name = "4")]
    Four,
}

/// Runs `quarry model convert`.
///
/// # Errors
/// When the model cannot be read, or the directory is not new or cannot be written.
pub fn convert(args: &ConvertArgs) -> anyhow::Result<()> {
    if model::named(&args.model).is_none() {
        bail!(
            "the built-in model has no vocabulary beside it, without which it cannot be converted; name another one"
        );
    }
    if let Some(file) = model::static_file(&args.model) {
        return to_token_vectors(&file, &args.out);
    }
    if TokenVectors::is_at(&args.model) {
        return to_static(&args.model, &args.out);
    }
    let rewritten = written(&args.model, &args.out, Precision::Same)?;
    output::note(&format!(
        "{}: {}, {} in {}",
        args.out.display(),
        counted(rewritten.tensors, "tensor"),
        HumanBytes(rewritten.bytes_after),
        counted(rewritten.files, "file"),
    ));
    Ok(())
}

/// Writes a model of model2vec as a static model.
fn to_static(source: &Path, target: &Path) -> anyhow::Result<()> {
    let loaded = TokenVectors::load(source)?;
    let (weights, words) = loaded.to_static();
    if words.is_empty() {
        bail!("{}: no token is a word or a part of one; there is nothing to convert", source.display());
    }
    let staged = staged(target)?;
    let bytes = write_model(&weights);
    let vocabulary = words.join("\n") + "\n";
    for (name, content) in [(VOCABULARY, vocabulary.as_bytes()), (model::STATIC_MODEL_FILE, &bytes)] {
        let path = staged.path().join(name);
        std::fs::write(&path, content).with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    staged.publish()?;
    output::note(&format!(
        "{}: a static model of {} of {} tokens, those that are words or parts of words; texts are split into words by \
         other rules, and vectors are rounded to 8 bits: measure it before you use it",
        target.display(),
        words.len(),
        loaded.n_tokens()
    ));
    Ok(())
}

/// A new directory, which is there when all of it is written.
fn staged(target: &Path) -> anyhow::Result<Staged> {
    let staged = Staged::new(target)?;
    std::fs::create_dir(staged.path())
        .with_context(|| format!("{}: cannot be made", staged.path().display()))?;
    Ok(staged)
}

/// Name of the file with a static model's tokens, as `quarry train static` writes it beside the model.
const VOCABULARY: &str = "vocabulary.txt";

/// Writes a static model as model2vec has it.
fn to_token_vectors(source: &Path, target: &Path) -> anyhow::Result<()> {
    let weights = StaticModel::load(source)?.weights();
    let path = source.with_file_name(VOCABULARY);
    let vocabulary = std::fs::read_to_string(&path).with_context(|| {
        format!(
            "{}: cannot be read; the file of a static model has hashes of its tokens, and `quarry train static` and \
             `quarry model convert` write the tokens beside it",
            path.display()
        )
    })?;
    let words: Vec<&str> = vocabulary.lines().collect();
    let staged = staged(target)?;
    let n_written = write_token_vectors(&weights, &words, staged.path())?;
    staged.publish()?;
    output::note(&format!(
        "{}: a model for model2vec of {n_written} of {} tokens; pairs of words, weights of positions and vectors that only \
         queries have are lost: measure it before you use it",
        target.display(),
        words.len()
    ));
    Ok(())
}

#[derive(Serialize)]
struct Loss {
    texts: usize,
    bytes_before: u64,
    bytes_after: u64,
    /// Of a text's vectors before and after.
    mean_cosine: f64,
    minimum_cosine: f64,
}

/// Runs `quarry model quantize`.
///
/// # Errors
/// When the model or the texts cannot be read, or the directory is not new or cannot be written.
pub fn quantize(args: &QuantizeArgs) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&args.texts)
        .with_context(|| format!("{}: cannot be read", args.texts.display()))?;
    let texts: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if texts.is_empty() {
        bail!("{}: expected texts to measure the loss with, one per line, found none", args.texts.display());
    }
    let (precision, weights) = match args.bits {
        Bits::Eight => (Precision::Int8, "8 bits"),
        Bits::Four => (Precision::Int4, "4 bits"),
    };
    let rewritten = written(&args.model, &args.out, precision)?;
    let cosines = cosines(&args.model, &args.out, &texts)?;
    let loss = Loss {
        texts: texts.len(),
        bytes_before: rewritten.bytes_before,
        bytes_after: rewritten.bytes_after,
        mean_cosine: cosines.iter().sum::<f64>() / cosines.len() as f64,
        minimum_cosine: cosines.iter().copied().fold(f64::INFINITY, f64::min),
    };
    args.layout.print(&loss, || {
        let mut table = Table::new(["weights", "size", "mean cosine", "minimum cosine"]);
        table.push(["as they were", &HumanBytes(loss.bytes_before).to_string(), "1", "1"]);
        let cosine = |cosine: f64| format!("{cosine:.5}");
        table.push([
            weights.to_owned(),
            HumanBytes(loss.bytes_after).to_string(),
            cosine(loss.mean_cosine),
            cosine(loss.minimum_cosine),
        ]);
        Sections::new()
            .text(format!("{} of {}\n\n", counted(loss.texts, "vector"), args.texts.display()))
            .table(table)
    })
}

/// Writes a model into a new directory, all of it or nothing.
fn written(source: &Path, target: &Path, precision: Precision) -> anyhow::Result<Rewritten> {
    if model::is_static(Some(source)) || TokenVectors::is_at(source) {
        bail!(
            "{}: is a static model, which has no matrices to round; expected the directory of a transformer",
            source.display()
        );
    }
    let staged = Staged::new(target)?;
    let rewritten = rewrite(source, staged.path(), precision)?;
    staged.publish()?;
    Ok(rewritten)
}

/// The cosine of each text's vectors by two models.
fn cosines(before: &Path, after: &Path, texts: &[&str]) -> anyhow::Result<Vec<f64>> {
    let models = [model::load(Some(before))?, model::load(Some(after))?];
    let bar = progress::progress_bar("embedding", texts.len());
    let mut cosines = Vec::with_capacity(texts.len());
    for batch in texts.chunks(BATCH) {
        let [a, b] = [models[0].embed_documents(batch)?, models[1].embed_documents(batch)?];
        let rows = a.values.chunks_exact(a.dimension).zip(b.values.chunks_exact(b.dimension));
        cosines.extend(rows.map(|(a, b)| cosine(a, b)));
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    Ok(cosines)
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    // Two vectors of zeros are the same.
    if lengths > 0.0 { dot(a, b) / lengths } else { 1.0 }
}
