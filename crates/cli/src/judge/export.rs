//! `quarry judge export`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use quarry_annotate::Export;
use quarry_corpus::dataset::convert::Target;

use super::PlanArgs;
use crate::output;

/// Arguments of `quarry judge export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// The new file or folder
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Format: cosqa-plus, beir, trec-qrels, or any other that `quarry data convert` writes
    #[arg(long, value_name = "FORMAT", default_value = "cosqa-plus")]
    to: String,
    /// Name of the split
    #[arg(long, value_name = "SPLIT", default_value = "test")]
    split: String,
    /// Write grades rather than labels, where the guideline of the judge has grades
    #[arg(long)]
    graded: bool,
    /// Number queries and codes anew
    #[arg(long)]
    renumber: bool,
}

/// Runs `quarry judge export`.
///
/// # Errors
/// When there is nothing to write, or it cannot be written.
pub fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let (_, ledger, judge) = args.plan.judged()?;
    let target = Target::named(&args.to).ok_or_else(|| {
        let known: Vec<&str> = Target::names().collect();
        anyhow!("--to {}: expected one of {}", args.to, known.join(", "))
    })?;
    let export = Export { target, split: &args.split, graded: args.graded, renumber: args.renumber };
    for (name, count) in quarry_annotate::export(&ledger, judge, &export, &args.out)? {
        output::note(&format!("{name}: {count}"));
    }
    Ok(ExitCode::SUCCESS)
}
