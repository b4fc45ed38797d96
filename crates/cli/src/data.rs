//! `quarry data`: reading, checking, converting and making data sets.

mod api_docs;
pub mod build;
pub mod check;
mod compare;
mod convert;
mod dedupe;
pub mod depth;
pub mod describe;
mod distractors;
pub mod formats;
pub mod intent;
pub mod judging;
mod negatives;
pub mod pull;
mod report;
mod split;
pub mod written;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use quarry_corpus::dataset;
use quarry_corpus::formats::FormatError;
use quarry_corpus::formats::source::Source;

use crate::pairs;
pub use convert::GradesArg;

/// Arguments of `quarry data`.
#[derive(Debug, Args)]
pub struct DataArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build a labeled benchmark and training pairs from source trees, by a plan, or show what is built
    Build(Box<build::BuildArgs>),
    /// Check data files, and report what is wrong and where
    Check(check::CheckArgs),
    /// Convert data sets from one format to another
    Convert(convert::ConvertArgs),
    /// Remove duplicates, or leaks from a test set
    Dedupe(dedupe::DedupeArgs),
    /// Print the statistics of a data set, and what it shares with others
    Describe(describe::DescribeArgs),
    /// Draw the candidates that each query is ranked among
    Distractors(distractors::DistractorsArgs),
    /// List the formats of data sets, or the fields of one
    Formats(formats::FormatsArgs),
    /// Find the queries that look for code, by CoSQA's intent filter
    Intent(intent::IntentArgs),
    /// Find hard negatives for training pairs: functions that rank high for a query but do not answer it
    Negatives(negatives::NegativesArgs),
    /// Download a public data set, or list the known ones
    Pull(pull::PullArgs),
    /// Split by query, stratified by the number of positives
    Split(split::SplitArgs),
    /// Make training pairs from a list of checkouts, without a plan
    Pairs(pairs::PairsArgs),
    /// Report on a build: calls and written queries, the depth of candidates, or differences from another build
    Report(report::ReportArgs),
}

/// Files to read, as most of the commands take them.
#[derive(Debug, Args)]
pub struct Inputs {
    /// Format of the files, or the beginning of its name; detected from their content if omitted
    #[arg(long, value_name = "FORMAT", default_value = "")]
    from: String,
    /// Judgments to read in a directory: qrels/SPLIT.tsv
    #[arg(long, value_name = "SPLIT", default_value = "test")]
    split: String,
}

impl Inputs {
    fn sources(&self, paths: &[PathBuf]) -> Result<Vec<Source>, FormatError> {
        dataset::sources(paths, &self.from, &self.split)
    }
}

/// Separates the files to read from the one to write, which is named last. Not `num_args = 2..` of clap: it counts the
/// paths before and after an option separately.
fn inputs_and_output(paths: &[PathBuf]) -> anyhow::Result<(&[PathBuf], &Path)> {
    match paths.split_last() {
        Some((output, inputs)) if !inputs.is_empty() => Ok((inputs, output)),
        _ => {
            let found: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            bail!("expected paths to read, then one to write, found only {}", found.join(" "))
        }
    }
}

pub fn run(args: DataArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Build(args) => return build::run(&args),
        Command::Check(args) => return check::run(&args),
        Command::Intent(args) => intent::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Dedupe(args) => dedupe::run(&args),
        Command::Describe(args) => describe::run(&args),
        Command::Distractors(args) => distractors::run(&args),
        Command::Formats(args) => formats::run(&args),
        Command::Negatives(args) => negatives::run(&args),
        Command::Pull(args) => pull::run(&args),
        Command::Split(args) => split::run(&args),
        Command::Pairs(args) => pairs::run(&args),
        Command::Report(args) => report::run(&args),
    }?;
    Ok(ExitCode::SUCCESS)
}
