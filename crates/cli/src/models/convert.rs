//! `quarry model convert`: other forms of a model's weights.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use indicatif::HumanBytes;
use quarry_corpus::formats::write::Staged;
use quarry_embed::shipped::{STATIC_MODEL_FILE, static_file};
use quarry_embed::static_model::write_model;
use quarry_embed::{PairModel, StaticModel};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use quarry_transformer::convert::{Precision, Rewritten, rewrite};
use quarry_transformer::{CrossEncoder, TokenVectors, write_token_vectors};
use serde::Serialize;

use crate::eval::arguments::LayoutArgs;
use crate::{model, output, progress};

/// Number of texts embedded at a time.
const BATCH: usize = 64;

/// Arguments of `quarry model convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// Directory of a transformer, with model.safetensors or pytorch_model.bin (no code in it is run), of a model
    /// written by model2vec, or of a static model with its vocabulary.txt
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// New directory
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Bits to quantize a transformer's weights to, also in computation: 8, with a factor for each row of a matrix, or
    /// 4, with one for each 32 weights [default: no quantization]
    #[arg(long, value_name = "N", value_enum, requires = "texts")]
    bits: Option<Bits>,
    /// Texts for measuring the loss of --bits, one per line
    #[arg(long, value_name = "FILE", requires = "bits")]
    texts: Option<PathBuf>,
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

pub fn convert(args: &ConvertArgs) -> anyhow::Result<()> {
    if let (Some(bits), Some(texts)) = (args.bits, &args.texts) {
        return quantize(args, bits, texts);
    }
    if model::named(&args.model).is_none() {
        bail!("the built-in model comes without its vocabulary, so it cannot be converted; name another one");
    }
    if let Some(file) = static_file(&args.model) {
        return to_token_vectors(&file, &args.out);
    }
    if TokenVectors::is_at(&args.model) {
        return to_static(&args.model, &args.out);
    }
    let (staged, rewritten) = written(&args.model, &args.out, Precision::Same)?;
    // A checkpoint can be readable and lack the weights that its architecture needs.
    let loaded = match CrossEncoder::is_at(staged.path()) {
        true => CrossEncoder::load(staged.path()).map(drop),
        false => quarry_transformer::load(staged.path()).map(drop),
    };
    loaded.with_context(|| {
        format!("{}: nothing was written, since the converted model cannot be loaded", args.model.display())
    })?;
    staged.publish()?;
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
    for (name, content) in [(VOCABULARY, vocabulary.as_bytes()), (STATIC_MODEL_FILE, &bytes)] {
        let path = staged.path().join(name);
        std::fs::write(&path, content).with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    staged.publish()?;
    output::note(&format!(
        "{}: a static model of {} of {} tokens, those that are words or parts of words; texts are split into words by \
         other rules, and vectors are quantized to 8 bits: measure it before you use it",
        target.display(),
        words.len(),
        loaded.n_tokens()
    ));
    Ok(())
}

/// A new directory, which appears when all of it is written.
fn staged(target: &Path) -> anyhow::Result<Staged> {
    let staged = Staged::new(target)?;
    std::fs::create_dir(staged.path())
        .with_context(|| format!("{}: cannot be created", staged.path().display()))?;
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Loss {
    /// Number of texts that the loss is measured with.
    texts: usize,
    /// Bytes of the weights before.
    bytes_before: u64,
    /// Bytes of the weights after.
    bytes_after: u64,
    #[serde(flatten)]
    measured: Measured,
}

/// Effect of the conversion on results.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(untagged)]
enum Measured {
    /// A text's vectors.
    Vectors {
        /// Mean cosine of the vectors before and after.
        mean_cosine: f64,
        /// Minimum of these cosines.
        minimum_cosine: f64,
    },
    /// The log-odds of a cross-encoder for a text with the next one.
    LogOdds {
        /// Mean absolute difference of the log-odds before and after.
        mean_difference: f64,
        /// Maximum of these differences.
        maximum_difference: f64,
    },
}

/// Writes a transformer with fewer bits, and measures the loss with texts, one a line of `file`.
fn quantize(args: &ConvertArgs, bits: Bits, file: &Path) -> anyhow::Result<()> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("{}: cannot be read", file.display()))?;
    let texts: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if texts.is_empty() {
        bail!("{}: expected texts to measure the loss with, one per line, found none", file.display());
    }
    let (precision, weights) = match bits {
        Bits::Eight => (Precision::Int8, "8 bits"),
        Bits::Four => (Precision::Int4, "4 bits"),
    };
    let (staged, rewritten) = written(&args.model, &args.out, precision)?;
    let measured = match CrossEncoder::is_at(&args.model) {
        true => differences(&args.model, staged.path(), &texts)?,
        false => cosines(&args.model, staged.path(), &texts)?,
    };
    staged.publish()?;
    let Rewritten { bytes_before, bytes_after, .. } = rewritten;
    let loss = Loss { texts: texts.len(), bytes_before, bytes_after, measured };
    args.layout.print(&loss, || {
        let (columns, before, after) = match loss.measured {
            Measured::Vectors { mean_cosine, minimum_cosine } => {
                (["mean cosine", "minimum cosine"], "1", [mean_cosine, minimum_cosine])
            }
            Measured::LogOdds { mean_difference, maximum_difference } => (
                ["mean difference of log-odds", "maximum difference"],
                "0",
                [mean_difference, maximum_difference],
            ),
        };
        let mut table = Table::new(["weights", "size", columns[0], columns[1]]);
        table.push(["as they were", &HumanBytes(loss.bytes_before).to_string(), before, before]);
        let [mean, extreme] = after.map(|value| format!("{value:.5}"));
        table.push([weights.to_owned(), HumanBytes(loss.bytes_after).to_string(), mean, extreme]);
        Sections::new()
            .text(format!("{} of {}\n\n", counted(loss.texts, "text"), file.display()))
            .table(table)
    })
}

/// Writes a model to a new directory, which is yet to be published.
fn written(source: &Path, target: &Path, precision: Precision) -> anyhow::Result<(Staged, Rewritten)> {
    if model::is_static(Some(source)) || TokenVectors::is_at(source) {
        bail!(
            "{}: is a static model, which has no matrices to quantize; expected the directory of a transformer",
            source.display()
        );
    }
    let staged = Staged::new(target)?;
    let rewritten = rewrite(source, staged.path(), precision)?;
    Ok((staged, rewritten))
}

/// The differences between the log-odds of two cross-encoders for each text, as a query, with the next one.
fn differences(before: &Path, after: &Path, texts: &[&str]) -> anyhow::Result<Measured> {
    let pairs: Vec<(&str, &str)> = texts.iter().copied().zip(texts.iter().copied().cycle().skip(1)).collect();
    let [before, after] =
        [before, after].map(|path| CrossEncoder::load(path).and_then(|model| model.log_odds(&pairs)));
    let differences: Vec<f64> =
        before?.iter().zip(after?).map(|(before, after)| f64::from((before - after).abs())).collect();
    Ok(Measured::LogOdds {
        mean_difference: differences.iter().sum::<f64>() / differences.len() as f64,
        maximum_difference: differences.iter().copied().fold(0.0, f64::max),
    })
}

/// The cosine of each text's vectors by two models.
fn cosines(before: &Path, after: &Path, texts: &[&str]) -> anyhow::Result<Measured> {
    let models = [model::load(Some(before))?, model::load(Some(after))?];
    let bar = progress::Progress::new("embedding", texts.len());
    let mut cosines = Vec::with_capacity(texts.len());
    for batch in texts.chunks(BATCH) {
        let [a, b] = [models[0].embed_documents(batch)?, models[1].embed_documents(batch)?];
        let rows = a.values.chunks_exact(a.dimension).zip(b.values.chunks_exact(b.dimension));
        cosines.extend(rows.map(|(a, b)| cosine(a, b)));
        bar.inc(batch.len() as u64);
    }
    Ok(Measured::Vectors {
        mean_cosine: cosines.iter().sum::<f64>() / cosines.len() as f64,
        minimum_cosine: cosines.iter().copied().fold(f64::INFINITY, f64::min),
    })
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    // Two vectors of zeros are the same.
    if lengths > 0.0 { dot(a, b) / lengths } else { 1.0 }
}
