//! `quarry eval agreement`: inter-rater agreement.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use quarry_corpus::formats::table::{Ratings, Table as RatingTable};
use quarry_metrics::agreement::{Agreement, Level, NumericAgreement, NumericPairAgreement};
use quarry_metrics::significance::{Bootstrap, Interval};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use super::arguments::{BootstrapArgs, LayoutArgs, by_name};
use crate::eval::shown::{format_defined, format_interval};

/// Arguments of `quarry eval agreement`.
#[derive(Debug, Args)]
pub struct AgreementArgs {
    /// Ratings, CSV or TSV: a header with the raters, a row per rated unit, empty cells for missing ratings
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Level of measurement: nominal (names), ordinal (ranks), interval, ratio (amounts)
    #[arg(long, value_name = "LEVEL", default_value = "nominal", value_parser = by_name::<Level>)]
    level: Level,
    /// Column that names the rated units and contains no ratings
    #[arg(long, value_name = "NAME")]
    unit_column: Option<String>,
    /// Columns of ratings, separated by commas [default: all but the unit column]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    raters: Vec<String>,
    /// Also average Krippendorff's alpha over blocks of N rows, as CoSQA+ does with 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    block: Option<u32>,
    #[command(flatten)]
    layout: LayoutArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgreementReport<'a> {
    /// Level of measurement.
    level: Level,
    /// Names of the raters.
    raters: &'a [String],
    /// Labels in the order of their numbers; empty if ratings are numbers.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    labels: &'a [String],
    #[serde(flatten)]
    agreement: Agreement,
    /// Resampling for intervals and p-values.
    bootstrap: Bootstrap,
}

pub fn run(args: &AgreementArgs) -> anyhow::Result<()> {
    let bootstrap = args.bootstrap.resolve();
    let table = RatingTable::read(&args.file)?;
    let Ratings { raters, units, labels } =
        table.ratings(&args.raters, args.unit_column.as_deref(), args.level != Level::Nominal)?;
    if args.level == Level::Ratio && units.iter().flatten().flatten().any(|value| *value < 0.0) {
        bail!("{}: expected ratings of 0 or more at level ratio, found a negative one", args.file.display());
    }
    let block = args.block.map(|block| block as usize);
    let agreement = Agreement::new(&units, labels.is_empty(), args.level, block, &bootstrap);
    let report =
        AgreementReport { level: args.level, raters: &raters, labels: &labels, agreement, bootstrap };
    args.layout.print(&report, || sections(&report, args.block))
}

fn sections(report: &AgreementReport<'_>, block: Option<u32>) -> Sections {
    let agreement = &report.agreement;
    let counts = format!(
        "{}, {} ({}), {}",
        counted(agreement.units, "unit"),
        counted(report.raters.len(), "rater"),
        report.raters.join(", "),
        counted(agreement.ratings, "rating")
    );
    let sections = Sections::new().text(counts).table(all_raters(agreement, block));
    if agreement.pairs.is_empty() { sections } else { sections.titled("Pairs of raters", pairs(report)) }
}

fn all_raters(agreement: &Agreement, block: Option<u32>) -> Table {
    let mut table = Table::new(["statistic", "value", "interval"]);
    let mut add = |name: &str, value: Option<f64>, interval: Option<Interval>| {
        let interval = interval.map_or_else(String::new, format_interval);
        table.push([name.to_owned(), format_defined(value), interval]);
    };
    add("percent agreement", agreement.percent_agreement, None);
    add("Krippendorff's alpha", agreement.krippendorff_alpha, agreement.krippendorff_interval);
    if let Some(block) = block {
        let name = format!("Krippendorff's alpha, mean over blocks of {block} rows");
        add(&name, agreement.krippendorff_alpha_by_blocks, None);
    }
    add("Fleiss' kappa", agreement.fleiss_kappa, None);
    if let Some(NumericAgreement { cronbach_alpha, average_variance_population, average_variance_sample }) =
        agreement.numeric
    {
        add("Cronbach's alpha", cronbach_alpha, None);
        add("average variance, population", average_variance_population, None);
        add("average variance, sample", average_variance_sample, None);
    }
    table
}

fn pairs(report: &AgreementReport<'_>) -> Table {
    let pairs = &report.agreement.pairs;
    let numeric = ["linear weights", "quadratic weights", "Pearson", "Spearman", "Kendall's tau-b"];
    let numeric = numeric.into_iter().filter(|_| pairs.iter().any(|pair| pair.numeric.is_some()));
    let mut table = Table::new(["raters", "units", "Cohen's kappa"].into_iter().chain(numeric));
    for pair in pairs {
        let [a, b] = pair.raters.map(|rater| report.raters[rater].as_str());
        let numeric = pair.numeric.as_ref().map(
            |NumericPairAgreement {
                 cohen_kappa_linear,
                 cohen_kappa_quadratic,
                 pearson,
                 spearman,
                 kendall_tau_b,
             }| {
                [cohen_kappa_linear, cohen_kappa_quadratic, pearson, spearman, kendall_tau_b]
                    .map(|value| format_defined(*value))
            },
        );
        let row = [format!("{a}, {b}"), pair.units.to_string(), format_defined(pair.cohen_kappa)];
        table.push(row.into_iter().chain(numeric.into_iter().flatten()));
    }
    table
}
