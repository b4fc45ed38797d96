//! `quarry data split`: parts that share no query and no answer.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use quarry_corpus::dataset::split::{Part, QueryGrouping, WEIGHTS, split};
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
    /// Parts limited to queries with a positive and to their positives, as in CoSQA's dev and test for search
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    positives_only: Vec<String>,
    /// Keep only equal queries in one part, as published splits do, instead of also those that are nearly equal or have an
    /// answer in common
    #[arg(long)]
    equal_queries: bool,
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
            "expected NAME:SIZE with a size from {} to {}, such as train:8, found {text:?}",
            WEIGHTS.start(),
            WEIGHTS.end()
        )
    };
    let (name, weight) = text.split_once(':').ok_or_else(expected)?;
    let weight: f64 = weight.parse().map_err(|_| expected())?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    if is_name && WEIGHTS.contains(&weight) {
        Ok(Part { name: name.to_owned(), weight, positives_only: false })
    } else {
        Err(expected())
    }
}

pub fn run(args: &SplitArgs) -> anyhow::Result<()> {
    let (inputs, out) = inputs_and_output(&args.paths)?;
    let mut parts = args.parts.clone();
    for name in &args.positives_only {
        let Some(part) = parts.iter_mut().find(|part| part.name == *name) else {
            bail!("--positives-only {name}: expected one of the parts of --parts");
        };
        part.positives_only = true;
    }
    let together = if args.equal_queries { QueryGrouping::Equal } else { QueryGrouping::Related };
    for part in split(&args.inputs.sources(inputs)?, &parts, (args.seed, together), out)? {
        let left_out = match part.left_out {
            0 => String::new(),
            count => format!(", {} that do not match left out", counted(count, "row")),
        };
        output::note(&format!(
            "{}: {}, {}{left_out}",
            part.name,
            counted(part.queries, "query"),
            counted(part.rows, "row")
        ));
    }
    output::note(&format!("wrote {}", out.display()));
    Ok(())
}
