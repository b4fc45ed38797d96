//! `quarry data negatives`: hard negatives for training pairs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use quarry_corpus::formats::write::Staged;
use quarry_eval::method::{Method, ModelName};
use quarry_eval::negatives::{Negatives, Options, Pair, mine};
use quarry_text::counted;
use serde_json::{Map, Value};

use crate::eval::models::ModelArgs;
use crate::progress::Progress;
use crate::{model, new_file, output};

/// Arguments of `quarry data negatives`.
#[derive(Debug, Args)]
pub struct NegativesArgs {
    /// File of pairs, as `quarry data pairs` or `quarry data build` writes it
    pairs: PathBuf,
    /// File to write, which must not exist: the same pairs, with the functions that were found for each in `negatives`
    out: PathBuf,
    /// Method that ranks the functions for each query, as for `quarry eval`
    #[arg(long, default_value = "hybrid")]
    method: Method,
    /// Maximum number of negatives for each query
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = crate::settings::at_least_one)]
    count: usize,
    /// Number of top-ranked functions to consider
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = crate::settings::at_least_one)]
    depth: usize,
    /// Choose candidates from all repositories, not just the query's own
    #[arg(long)]
    all: bool,
    /// Model used to discard functions that may answer the query as well: a directory, or `builtin`
    #[arg(long, value_name = "DIR", default_value = model::BUILTIN)]
    judge: PathBuf,
    /// Maximum similarity of a negative to the query, as a fraction of the positive's similarity
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, value_parser = above_zero)]
    maximum_share: f32,
    #[command(flatten)]
    models: ModelArgs,
}

fn above_zero(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number: &f32| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

pub fn run(args: &NegativesArgs) -> anyhow::Result<()> {
    let staged = Staged::new(&args.out)?;
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
            // A code that does not answer its query is only one that others may be asked about.
            let query = if label(row) == Some(0) { "" } else { text(row, "query") };
            Pair { query, code: text(row, "code"), group }
        })
        .collect();
    let options = Options { count: args.count, depth: args.depth, maximum_share: args.maximum_share };
    let bar = Progress::new("pairs", pairs.len());
    let Negatives { of_pairs, left_out } =
        mine(&pairs, &args.method, &models, &*judge, options, &mut |n| bar.inc(n as u64))?;
    bar.finish_and_clear();
    let codes: Vec<Vec<Value>> = of_pairs
        .iter()
        .map(|negatives| negatives.iter().map(|&number| pairs[number].code.into()).collect())
        .collect();
    let asks = |pair: &&Pair<'_>| !pair.query.trim().is_empty();
    let n_asked = pairs.iter().filter(asks).count();
    let n_without = pairs.iter().zip(&codes).filter(|(pair, codes)| asks(pair) && codes.is_empty()).count();
    let note = format!(
        "{}: {} for {}, {n_without} of which have none; discarded {} that may answer; {} without a query or labeled 0",
        args.out.display(),
        counted(codes.iter().map(Vec::len).sum::<usize>(), "negative"),
        counted(n_asked, "query"),
        counted(left_out, "candidate"),
        counted(pairs.len() - n_asked, "pair"),
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
    new_file::write_json_lines(staged.path(), rows.iter())?;
    staged.publish()?;
    output::note(&note);
    Ok(())
}

fn text<'a>(row: &'a Map<String, Value>, name: &str) -> &'a str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The label of a row, if it is not null; -1 if it is not a valid label.
fn label(row: &Map<String, Value>) -> Option<i8> {
    let label = row.get("label").filter(|label| !label.is_null())?;
    Some(match label.as_f64() {
        Some(0.0) => 0,
        Some(1.0) => 1,
        _ => -1,
    })
}

/// A number in a value that is not the one in its line: a whole one beyond 64 bits.
fn rounded(value: &Value, line: &str) -> Option<String> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() && number.as_f64().is_some_and(|x| x.abs() >= EXACT) => {
            Some(number.to_string()).filter(|text| !line.contains(text.as_str()))
        }
        Value::Array(values) => values.iter().find_map(|value| rounded(value, line)),
        Value::Object(values) => values.values().find_map(|value| rounded(value, line)),
        _ => None,
    }
}

fn is_list_of_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|values| values.iter().all(Value::is_string))
}

fn is_text(row: &Map<String, Value>, name: &str) -> bool {
    row.get(name).is_some_and(Value::is_string)
}

/// Reads objects with a query and a code, one a line.
fn read(path: &Path) -> anyhow::Result<Vec<Map<String, Value>>> {
    let unreadable = || format!("{}: cannot be read", path.display());
    let file = std::fs::File::open(path).with_context(unreadable)?;
    let mut rows = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.with_context(unreadable)?;
        match serde_json::from_str(&line) {
            Ok(Value::Object(row)) if row.get("negatives").is_some_and(|codes| !is_list_of_texts(codes)) => {
                bail!("{}:{}: expected negatives to be a list of strings", path.display(), number + 1)
            }
            Ok(Value::Object(row)) if !matches!(label(&row), None | Some(0 | 1)) => bail!(
                "{}:{}: expected the label 1 if the code answers the query or 0 if it does not, found {}",
                path.display(),
                number + 1,
                row["label"]
            ),
            Ok(Value::Object(row)) if is_text(&row, "query") && is_text(&row, "code") => {
                if let Some(rounded) = row.values().find_map(|value| rounded(value, &line)) {
                    bail!(
                        "{}:{}: expected numbers of at most 64 bits, found one that would be written as {rounded}; make \
                         it a string",
                        path.display(),
                        number + 1
                    );
                }
                rows.push(row);
            }
            _ => bail!(
                "{}:{}: expected an object with query and code, both strings",
                path.display(),
                number + 1
            ),
        }
    }
    if rows.is_empty() {
        bail!("{}: contains no pairs; make some with `quarry data pairs`", path.display());
    }
    Ok(rows)
}
