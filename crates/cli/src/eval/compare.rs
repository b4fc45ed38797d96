//! `quarry eval compare`: whether runs differ.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use quarry_corpus::formats::{qrels, run as run_format};
use quarry_eval::evaluation::{self, Conventions, Evaluation, evaluate_run};
use quarry_eval::metrics::Measure;
use quarry_eval::significance::{Bootstrap, PairedComparison};
use serde::Serialize;

use super::arguments::{BootstrapArgs, ConventionArgs, PrecisionArgs};
use crate::output::{self, format_defined, format_interval};

/// Arguments of `quarry eval compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// TREC run to compare with
    #[arg(value_name = "BASELINE")]
    baseline: PathBuf,
    /// TREC runs that are compared; p-values are corrected (Holm) over all of them and all metrics
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Judgements, TREC or BEIR
    #[arg(long, value_name = "FILE")]
    qrels: PathBuf,
    /// Say how great a difference can be found with this many queries [default: as many as are compared]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    planned_queries: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    conventions: ConventionArgs,
    #[command(flatten)]
    precision: PrecisionArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

#[derive(Serialize)]
struct Report<'a> {
    baseline: &'a Path,
    comparisons: Vec<RunReport<'a>>,
    conventions: Conventions,
    bootstrap: Bootstrap,
}

#[derive(Serialize)]
struct RunReport<'a> {
    run: &'a Path,
    queries: usize,
    /// By measure.
    metrics: BTreeMap<String, PairedComparison>,
}

/// Runs `quarry eval compare`.
///
/// # Errors
/// When a file is missing or wrong, or two runs share no query.
pub fn run(args: &CompareArgs) -> anyhow::Result<()> {
    let (bootstrap, conventions) =
        (args.bootstrap.resolve()?, args.conventions.resolve(Some(&args.precision)));
    let measures = args.conventions.measures(Measure::headline);
    let qrels = qrels::read(&args.qrels)?;
    let evaluate = |path: &PathBuf| -> anyhow::Result<Evaluation> {
        let run = run_format::read(path)?;
        evaluate_run(&qrels, &run, &measures, &conventions).with_context(|| path.display().to_string())
    };
    let baseline = evaluate(&args.baseline)?;
    let others = args.runs.iter().map(evaluate).collect::<anyhow::Result<Vec<_>>>()?;
    let n_planned = args.planned_queries.map(|n| n as usize);
    let comparisons = evaluation::compare(&baseline, &others, n_planned, &bootstrap)?;
    if args.json {
        let named = |(measure, found): (Measure, PairedComparison)| (measure.to_string(), found);
        return output::print_json(&Report {
            baseline: &args.baseline,
            comparisons: args
                .runs
                .iter()
                .zip(comparisons)
                .map(|(run, found)| RunReport {
                    run,
                    queries: found.queries,
                    metrics: found.measures.into_iter().map(named).collect(),
                })
                .collect(),
            conventions,
            bootstrap,
        });
    }
    let mut text = format!("a: {}\n", args.baseline.display());
    for (run, found) in args.runs.iter().zip(&comparisons) {
        let _ = write!(text, "\nb: {}, {} queries\n{}", run.display(), found.queries, table(&found.measures));
    }
    text.push_str("\np-values are two-sided; in brackets corrected (Holm) over all rows, test by test\n");
    Ok(output::print(&text)?)
}

fn table(measures: &[(Measure, PairedComparison)]) -> String {
    const TESTS: [&str; 5] = ["randomisation", "bootstrap", "t", "wilcoxon", "mcnemar"];
    let mut text = format!(
        "{:<14} {:>7} {:>7} {:>8}  {:<18} {:>7} {:>10}",
        "", "a", "b", "b - a", "interval", "effect", "detectable"
    );
    for test in TESTS {
        let _ = write!(text, "  {test:<15}");
    }
    text = text.trim_end().to_owned() + "\n";
    for (measure, found) in measures {
        let of = &found.difference;
        let mut line = format!(
            "{:<14} {:>7.4} {:>7.4} {:>+8.4}  {:<18} {:>7} {:>10}",
            measure.to_string(),
            of.mean_a,
            of.mean_b,
            of.difference,
            format_interval(of.interval),
            format_defined(found.effect_size),
            format_defined(found.minimum_detectable_difference)
        );
        for test in TESTS {
            let p = found.tests.get(test);
            let p = p.map_or("-".to_owned(), |test| format!("{:.4} ({:.4})", test.test.p, test.p_holm));
            let _ = write!(line, "  {p:<15}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
