//! `quarry data convert`: from any format to any other.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use quarry_corpus::dataset::convert::{Converted, Grades, Options, Target, convert};

use super::Inputs;
use crate::output;

/// Arguments of `quarry data convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    #[command(flatten)]
    inputs: Inputs,
    /// Format to write: beir, coir, mteb or another that `quarry data formats` lists as written
    #[arg(long, value_name = "FORMAT", default_value = "beir")]
    to: String,
    /// Another file to read: the queries
    #[arg(long, value_name = "FILE")]
    queries: Vec<PathBuf>,
    /// Another file to read: the corpus
    #[arg(long, value_name = "FILE")]
    corpus: Vec<PathBuf>,
    /// Take the published tokens, spaces between, for the texts
    #[arg(long)]
    tokens: bool,
    /// Keep pairs and judgements of this programming language only
    #[arg(long, value_name = "NAME")]
    language: Option<String>,
    /// Grade of pairs that have no label
    #[arg(long, value_name = "GRADE")]
    unlabelled: Option<i32>,
    /// Which of several grades for one query and document counts
    #[arg(long, value_name = "RULE", default_value = "refuse")]
    grades: GradesArg,
    /// Number queries and documents from 0; equal texts of pairs become one
    #[arg(long)]
    renumber: bool,
    /// Files or folders to read, then the file or folder to write, which must not exist
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Which of several grades for one query and document counts.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum GradesArg {
    /// Different ones are an error
    Refuse,
    Max,
    Min,
    /// Rounded to a whole number
    Mean,
}

impl From<GradesArg> for Grades {
    fn from(rule: GradesArg) -> Self {
        match rule {
            GradesArg::Refuse => Self::Refuse,
            GradesArg::Max => Self::Max,
            GradesArg::Min => Self::Min,
            GradesArg::Mean => Self::Mean,
        }
    }
}

/// Converts.
///
/// # Errors
/// As [`convert`]; when no input is named, or the target is none.
pub fn run(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    let Some(target) = Target::named(&args.to) else {
        let names: Vec<&str> = Target::names().collect();
        bail!("--to {}: expected a format that can be written: {}", args.to, names.join(", "));
    };
    let (out, rest) = args.paths.split_last().context("expected a path to write")?;
    let inputs: Vec<PathBuf> = [&args.queries, &args.corpus, rest].into_iter().flatten().cloned().collect();
    if inputs.is_empty() {
        bail!("{}: expected files to read before the one to write", out.display());
    }
    let options = Options {
        tokens: args.tokens,
        language: args.language.clone(),
        unlabelled: args.unlabelled,
        grades: args.grades.into(),
        renumber: args.renumber,
    };
    let sources = args.inputs.sources(&inputs)?;
    let Converted { files, negatives } = convert(&sources, target, out, &args.inputs.split, &options)?;
    files.iter().for_each(|file| output::note(&file.to_string()));
    if negatives > 0 {
        output::note(&format!("{negatives} pairs with label 0 are left out: {} holds matches only", args.to));
    }
    Ok(ExitCode::SUCCESS)
}
