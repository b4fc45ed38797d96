//! `quarry data dedupe`: what is there twice, and what a test set has too.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};
use quarry_corpus::dataset::dedupe::{ComparedText, Equality, dedupe};
use quarry_text::counted;

use super::Inputs;
use crate::output;

/// Arguments of `quarry data dedupe`.
#[derive(Debug, Args)]
pub struct DedupeArgs {
    #[command(flatten)]
    inputs: Inputs,
    /// When two texts count as equal
    #[arg(long, value_name = "RULE", default_value = "normalized")]
    same: SameArg,
    /// Minimum similarity of near-duplicates: Jaccard index of their sets of three consecutive identifiers
    #[arg(long, value_name = "S", default_value_t = 0.8)]
    threshold: f64,
    /// Texts to compare
    #[arg(long, value_name = "SIDE", default_value = "code")]
    on: OnArg,
    /// Data to remove from these, such as a test set from training data; may be repeated
    #[arg(long, value_name = "PATH")]
    against: Vec<PathBuf>,
    /// File (for one input) or directory for the remaining rows; must not exist
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Maximum number of matches to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Files or directories of one data set
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SameArg {
    /// Byte for byte
    Exact,
    /// Runs of white space count as one space
    #[value(alias = "normalised")]
    Normalized,
    /// Most runs of tokens are equal
    Near,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnArg {
    Query,
    Code,
    /// Query and code together
    Pair,
}

pub fn run(args: &DedupeArgs) -> anyhow::Result<()> {
    if !(args.threshold > 0.0 && args.threshold <= 1.0) {
        bail!("--threshold {}: expected a similarity over 0 and at most 1", args.threshold);
    }
    let same = match args.same {
        SameArg::Exact => Equality::Exact,
        SameArg::Normalized => Equality::Normalized,
        SameArg::Near => Equality::Near(args.threshold),
    };
    let on = match args.on {
        OnArg::Query => ComparedText::Query,
        OnArg::Code => ComparedText::Code,
        OnArg::Pair => ComparedText::Pair,
    };
    let sources = args.inputs.sources(&args.paths)?;
    let against = args.inputs.sources(&args.against)?;
    let report = dedupe(&sources, &against, (same, on), args.out.as_deref(), args.limit)?;
    if args.json {
        output::print_json(&report)?;
    } else {
        let mut text = String::new();
        for example in &report.examples {
            let what = if example.is_leak { "leaks from" } else { "repeats" };
            text.push_str(&format!("{} {what} {}\n", example.row, example.same_as));
        }
        text.push_str(&format!(
            "{}, {} repeated, {} kept",
            counted(report.rows, "row"),
            report.repeated,
            report.kept
        ));
        if !args.against.is_empty() {
            text.push_str(&format!("; {} leak from {} of the other data", report.leaked, report.leaking));
        }
        text.push('\n');
        output::print(&text)?;
    }
    if let Some(out) = &args.out {
        output::note(&format!("wrote {}", out.display()));
    }
    Ok(())
}
