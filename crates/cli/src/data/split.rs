//! `quarry data split`: parts that share no query.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use quarry_corpus::dataset::split::{Part, WEIGHTS, split};
use quarry_text::counted;

use super::{Inputs, inputs_and_output};
use crate::output;

/// Arguments of `quarry data split`.
#[derive(Debug, Args)]
pub struct SplitArgs {
    #[command(flatten)]
    inputs: Inputs,
    /// Names of the parts with their proportions
    #[arg(long, value_name = "NAME:SIZE,...", value_delimiter = ',', default_value = "train:8,dev:1,test:1", value_parser = part)]
    parts: Vec<Part>,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Files or directories to read, then the directory to write, which must not exist
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

fn part(text: &str) -> Result<Part, String> {
    let expected = || {
        format!(
            "expected NAME:SIZE with a size from {} to {}, as train:8, found {text:?}",
            WEIGHTS.start(),
            WEIGHTS.end()
        )
    };
    let (name, weight) = text.split_once(':').ok_or_else(expected)?;
    let weight: f64 = weight.parse().map_err(|_| expected())?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    if is_name && WEIGHTS.contains(&weight) {
        Ok(Part { name: name.to_owned(), weight })
    } else {
        Err(expected())
    }
}

/// Splits.
///
/// # Errors
/// When a file is missing or wrong, or the result cannot be written.
pub fn run(args: &SplitArgs) -> anyhow::Result<ExitCode> {
    let (inputs, out) = inputs_and_output(&args.paths)?;
    for part in split(&args.inputs.sources(inputs)?, &args.parts, args.seed, out)? {
        output::note(&format!(
            "{}: {}, {}",
            part.name,
            counted(part.queries, "query"),
            counted(part.rows, "row")
        ));
    }
    output::note(&format!("wrote {}", out.display()));
    Ok(ExitCode::SUCCESS)
}
