//! `quarry data negatives`: hard negatives for training pairs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use quarry_eval::method::{Method, ModelName};
use quarry_eval::negatives::{Negatives, Options, Pair, mine};
use quarry_text::counted;
use serde_json::{Map, Value};

use crate::eval::models::ModelArgs;
use crate::progress::progress_bar;
use crate::{model, new_file, output};

/// Arguments of `quarry data negatives`.
#[derive(Debug, Args)]
pub struct NegativesArgs {
    /// File of pairs, as `quarry data pairs` or `quarry data build` writes it
    pairs: PathBuf,
    /// File to write, which must not exist: the same pairs, with the codes in `negatives` that were found for each
    out: PathBuf,
    /// Method that ranks the codes for each query, as for `quarry eval`
    #[arg(long, default_value = "hybrid")]
    method: Method,
    /// Maximum number of negatives for each query
    #[arg(long, value_name = "N", default_value_t = 4)]
    count: usize,
    /// Number of the best codes that are considered
    #[arg(long, value_name = "N", default_value_t = 50)]
    depth: usize,
    /// Rank the codes of all pairs for each query, in place of those of its repository
    #[arg(long)]
    all: bool,
    /// Model whose cosines tell which codes may answer the query as well, so that they are no negatives: a directory, or
    /// `builtin`
    #[arg(long, value_name = "DIR", default_value = model::BUILTIN)]
    judge: PathBuf,
    /// Maximum cosine of a negative with the query, as a share of that of the own code
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    maximum_share: f32,
    #[command(flatten)]
    models: ModelArgs,
}

/// Looks for negatives and writes them.
///
/// # Errors
/// When a file or a model cannot be used, or the result cannot be written.
pub fn run(args: &NegativesArgs) -> anyhow::Result<ExitCode> {
    if !args.maximum_share.is_finite() || args.maximum_share <= 0.0 || args.count == 0 {
        bail!("expected --maximum-share above 0 and --count of 1 or more");
    }
    if args.out.exists() {
        bail!("{}: something there already; name another file", args.out.display());
    }
    let mut rows = read(&args.pairs)?;
    let models = args.models.resolve(None)?;
    let judge = models.load(match model::named(&args.judge) {
        Some(path) => ModelName::Path(path),
        None => ModelName::Builtin,
    })?;
    let pairs: Vec<Pair<'_>> = rows
        .iter()
        .map(|row| {
            let group = if args.all { "" } else { text(row, "repository") };
            Pair { query: text(row, "query"), code: text(row, "code"), group }
        })
        .collect();
    let options = Options { count: args.count, depth: args.depth, maximum_share: args.maximum_share };
    let bar = progress_bar("pairs", pairs.len());
    let found = mine(&pairs, &args.method, &models, &*judge, options, &mut |n| bar.inc(n as u64));
    bar.finish_and_clear();
    let Negatives { of_pairs, left_out } = found?;
    let codes: Vec<Vec<Value>> = of_pairs
        .iter()
        .map(|negatives| negatives.iter().map(|&number| pairs[number].code.into()).collect())
        .collect();
    let n_asked = pairs.iter().filter(|pair| !pair.query.trim().is_empty()).count();
    let n_without =
        pairs.iter().zip(&codes).filter(|(pair, codes)| !pair.query.trim().is_empty() && codes.is_empty());
    let note = format!(
        "{}: {} for {}, of which {} have none; {} may answer and were left out",
        args.out.display(),
        counted(codes.iter().map(Vec::len).sum::<usize>(), "negative"),
        counted(n_asked, "query"),
        n_without.count(),
        counted(left_out, "candidate"),
    );
    for (row, mut codes) in rows.iter_mut().zip(codes) {
        if let Some(Value::Array(known)) = row.get("negatives") {
            let new: Vec<Value> = codes.into_iter().filter(|code| !known.contains(code)).collect();
            codes = [known.clone(), new].concat();
        }
        if !codes.is_empty() {
            row.insert("negatives".to_owned(), codes.into());
        }
    }
    new_file::write_json_lines(&args.out, rows.iter())?;
    output::note(&note);
    Ok(ExitCode::SUCCESS)
}

fn text<'a>(row: &'a Map<String, Value>, name: &str) -> &'a str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Reads objects with a query and a code, one a line.
fn read(path: &Path) -> anyhow::Result<Vec<Map<String, Value>>> {
    let unreadable = || format!("{}: cannot be read", path.display());
    let file = std::fs::File::open(path).with_context(unreadable)?;
    let mut rows = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.with_context(unreadable)?;
        match serde_json::from_str(&line) {
            Ok(Value::Object(row)) if row["query"].is_string() && row["code"].is_string() => rows.push(row),
            _ => bail!(
                "{}:{}: expected an object with query and code, both strings",
                path.display(),
                number + 1
            ),
        }
    }
    if rows.is_empty() {
        bail!("{}: holds no pair; make some with `quarry data pairs`", path.display());
    }
    Ok(rows)
}
