//! `quarry data`: reading, converting and making data sets.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use quarry_corpus::formats::convert;

use crate::{output, pairs};

/// Arguments of `quarry data`.
#[derive(Debug, Args)]
pub struct DataArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Turn a published data set into a BEIR folder
    Convert(ConvertArgs),
    /// Make training pairs out of source trees
    Pairs(pairs::PairsArgs),
}

#[derive(Debug, Args)]
struct ConvertArgs {
    /// Format of the published files
    #[arg(long, value_name = "FORMAT")]
    from: Format,
    /// Queries: for CoSQA a retrieval file (cosqa-retrieval-*.json)
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Corpus: for CoSQA the code base (code_idx_map.json)
    #[arg(long, value_name = "FILE")]
    corpus: PathBuf,
    /// Name of the judgements: qrels/SPLIT.tsv
    #[arg(long, value_name = "SPLIT", default_value = "test")]
    split: String,
    /// Folder to write, new or empty
    out: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// The CoSQA retrieval files
    Cosqa,
}

/// Runs `quarry data`.
///
/// # Errors
/// When a file is missing or wrong, or the result cannot be written.
pub fn run(args: DataArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Convert(args) => convert(&args),
        Command::Pairs(args) => pairs::run(&args),
    }
}

fn convert(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    match args.from {
        Format::Cosqa => convert::cosqa_to_beir(&args.queries, &args.corpus, &args.out, &args.split)?,
    }
    output::note(&format!("wrote {}", args.out.display()));
    Ok(ExitCode::SUCCESS)
}
