//! `quarry eval agreement`: how far raters agree.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use quarry_corpus::formats::table::{Ratings, Table};
use quarry_metrics::agreement::{Agreement, Level, NumericAgreement, NumericPairAgreement};
use quarry_metrics::significance::Bootstrap;
use quarry_text::counted;
use serde::Serialize;

use super::arguments::{BootstrapArgs, by_name};
use crate::eval::shown::{format_defined, format_interval};
use crate::output;

/// Arguments of `quarry eval agreement`.
#[derive(Debug, Args)]
pub struct AgreementArgs {
    /// Ratings, CSV or TSV: a header with the raters, a row for each unit, blank where a rating is missing
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What the ratings are: nominal (names), ordinal (ranks), interval, ratio (amounts)
    #[arg(long, value_name = "LEVEL", default_value = "nominal", value_parser = by_name::<Level>)]
    level: Level,
    /// Column that names the units and holds no ratings
    #[arg(long, value_name = "NAME")]
    unit_column: Option<String>,
    /// Also average Krippendorff's alpha over blocks of N rows, as CoSQA+ does with 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    block: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

#[derive(Serialize)]
struct Report<'a> {
    level: Level,
    raters: &'a [String],
    /// What the numbers of the labels mean; empty for numbers.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    labels: &'a [String],
    #[serde(flatten)]
    agreement: Agreement,
    bootstrap: Bootstrap,
}

/// Runs `quarry eval agreement`.
///
/// # Errors
/// When the file is missing or wrong, or holds text where the level needs numbers.
pub fn run(args: &AgreementArgs) -> anyhow::Result<()> {
    let bootstrap = args.bootstrap.resolve()?;
    let table = Table::read(&args.file)?;
    let Ratings { raters, units, labels } =
        table.ratings(args.unit_column.as_deref(), args.level != Level::Nominal)?;
    if args.level == Level::Ratio && units.iter().flatten().flatten().any(|value| *value < 0.0) {
        bail!("{}: expected ratings of 0 or more at level ratio, found a negative one", args.file.display());
    }
    let block = args.block.map(|block| block as usize);
    let agreement = Agreement::new(&units, labels.is_empty(), args.level, block, &bootstrap);
    let report = Report { level: args.level, raters: &raters, labels: &labels, agreement, bootstrap };
    if args.json { output::print_json(&report) } else { Ok(output::print(&text(&report, args.block))?) }
}

fn text(report: &Report<'_>, block: Option<u32>) -> String {
    let found = &report.agreement;
    let mut text = format!(
        "{}, {}, {}\n",
        counted(found.units, "unit"),
        counted(report.raters.len(), "rater"),
        counted(found.ratings, "rating")
    );
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<32} {value}");
    };
    let interval =
        found.krippendorff_interval.map_or(String::new(), |range| "  ".to_owned() + &format_interval(range));
    line("percent agreement", format_defined(found.percent_agreement));
    line("Krippendorff's alpha", format_defined(found.krippendorff_alpha) + &interval);
    if let Some(block) = block {
        let name = format!("  mean over blocks of {block} rows");
        line(&name, format_defined(found.krippendorff_alpha_by_blocks));
    }
    line("Fleiss' kappa", format_defined(found.fleiss_kappa));
    if let Some(NumericAgreement { cronbach_alpha, average_variance_population, average_variance_sample }) =
        found.numeric
    {
        line("Cronbach's alpha", format_defined(cronbach_alpha));
        line("average variance, population", format_defined(average_variance_population));
        line("average variance, sample", format_defined(average_variance_sample));
    }
    for pair in &found.pairs {
        let [a, b] = pair.raters.map(|rater| report.raters[rater].as_str());
        line(&format!("\n{a}, {b}"), counted(pair.units, "unit"));
        line("  Cohen's kappa", format_defined(pair.cohen_kappa));
        if let Some(NumericPairAgreement {
            cohen_kappa_linear,
            cohen_kappa_quadratic,
            pearson,
            spearman,
            kendall_tau_b,
        }) = pair.numeric
        {
            line("    linear weights", format_defined(cohen_kappa_linear));
            line("    quadratic weights", format_defined(cohen_kappa_quadratic));
            line("  Pearson", format_defined(pearson));
            line("  Spearman", format_defined(spearman));
            line("  Kendall's tau-b", format_defined(kendall_tau_b));
        }
    }
    text
}
