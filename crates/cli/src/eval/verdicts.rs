//! `quarry eval verdicts`: metrics of verdicts, with probabilities and without.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use quarry_corpus::formats::table::Table as VerdictTable;
use quarry_metrics::calibration::{
    Bin, Binning, Selective, area_under_risk_coverage, brier_score, check_forecasts,
    expected_calibration_error, reliability, risk_coverage,
};
use quarry_metrics::classification::{
    ClassScores, accuracy, average_precision, class_scores, macro_f1, roc_auc,
};
use quarry_metrics::significance::{McNemar, mcnemar};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use super::arguments::{LayoutArgs, by_name};
use crate::eval::shown::format_defined;

/// Arguments of `quarry eval verdicts`.
#[derive(Debug, Args)]
pub struct VerdictsArgs {
    /// Verdicts, CSV or TSV with the columns truth and prediction (any labels) and optionally score, or with the
    /// columns probability (0 to 1) and outcome (1, true, yes or 0, false, no), whose calibration is measured
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Compare with another method's predictions on the same pairs, in the same order, by McNemar's test
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Label that higher scores indicate
    #[arg(long, value_name = "LABEL", default_value = "1")]
    positive: String,
    /// Number of bins of the reliability table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    bins: u32,
    /// Bins of equal width or equal size: width, quantile
    #[arg(long, value_name = "BINNING", default_value = "width", value_parser = by_name::<Binning>)]
    binning: Binning,
    #[command(flatten)]
    layout: LayoutArgs,
}

pub fn run(args: &VerdictsArgs) -> anyhow::Result<()> {
    let table = VerdictTable::read(&args.file)?;
    match (table.has("prediction"), table.has("probability")) {
        (true, _) => classification(args, &table),
        (false, true) => calibration(args, &table),
        (false, false) => bail!(
            "{}: expected the columns truth and prediction, or probability and outcome, found neither",
            args.file.display()
        ),
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ForecastScores"))]
pub struct Calibration {
    /// Number of forecasts.
    forecasts: usize,
    /// Mean squared error of the probabilities.
    brier_score: f64,
    /// Mean distance of probabilities and observed shares.
    expected_calibration_error: f64,
    /// Choice of bins.
    binning: Binning,
    /// The reliability diagram.
    bins: Vec<Bin>,
    /// Area under the risk-coverage curve.
    area_under_risk_coverage: f64,
    /// Of the likelier outcome as prediction, with its probability as confidence.
    risk_coverage: Vec<Selective>,
}

fn calibration(args: &VerdictsArgs, table: &VerdictTable) -> anyhow::Result<()> {
    if let Some(file) = &args.against {
        bail!(
            "--against {}: only predictions can be compared, and {} has probabilities",
            file.display(),
            args.file.display()
        );
    }
    let probabilities = table.column("probability", "a number from 0 to 1", |field| {
        field.parse().ok().filter(|value| (0.0..=1.0).contains(value))
    })?;
    let outcomes = table.column("outcome", "1, true, yes, 0, false or no", |field| {
        match field.to_lowercase().as_str() {
            "1" | "true" | "yes" => Some(true),
            "0" | "false" | "no" => Some(false),
            _ => None,
        }
    })?;
    check_forecasts(&probabilities, &outcomes)?;
    let bins = reliability(&probabilities, &outcomes, args.bins as usize, args.binning);
    let confidences: Vec<f64> = probabilities.iter().map(|p: &f64| p.max(1.0 - p)).collect();
    let right: Vec<bool> =
        probabilities.iter().zip(&outcomes).map(|(p, held)| (*p >= 0.5) == *held).collect();
    let curve = risk_coverage(&confidences, &right);
    let report = Calibration {
        forecasts: probabilities.len(),
        brier_score: brier_score(&probabilities, &outcomes),
        expected_calibration_error: expected_calibration_error(&bins),
        binning: args.binning,
        bins,
        area_under_risk_coverage: area_under_risk_coverage(&curve),
        risk_coverage: curve,
    };
    args.layout.print(&report, || calibration_sections(&report))
}

fn calibration_sections(report: &Calibration) -> Sections {
    let mut measures = Table::new(["measure", "value"]);
    for (name, value) in [
        ("Brier score", report.brier_score),
        ("expected calibration error", report.expected_calibration_error),
        ("area under risk-coverage", report.area_under_risk_coverage),
    ] {
        measures.push([name.to_owned(), format!("{value:.4}")]);
    }
    let mut reliability = Table::new(["probability", "count", "mean", "held"]);
    for Bin { from, to, count, mean_probability, share_held } in &report.bins {
        let range = format!("{from:.4} to {to:.4}");
        let means = [mean_probability, share_held].map(|value| format!("{value:.4}"));
        reliability.push([range, count.to_string()].into_iter().chain(means));
    }
    let mut curve = Table::new(["coverage", "risk", "confidence"]).align_right(0);
    for tenth in 1..=10 {
        // The curve ends at a coverage of 1.
        let at = report.risk_coverage.iter().find(|at| at.coverage >= f64::from(tenth) / 10.0 - 1e-12);
        if let Some(Selective { threshold, coverage, risk }) = at {
            curve.push([coverage, risk, threshold].map(|value| format!("{value:.4}")));
        }
    }
    Sections::new()
        .text(counted(report.forecasts, "forecast"))
        .table(measures)
        .titled("Reliability", reliability)
        .titled("Risk and coverage", curve)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "VerdictScores"))]
pub struct Classification<'a> {
    /// Number of cases.
    cases: usize,
    /// Share of correct cases.
    accuracy: f64,
    /// Mean F1 over classes.
    macro_f1: f64,
    /// By label.
    classes: BTreeMap<&'a str, ClassScores>,
    #[serde(flatten)]
    curves: Option<Curves>,
    /// Comparison with other verdicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<Against<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Curves {
    /// Area under the ROC curve; null without scores.
    roc_auc: Option<f64>,
    /// Average precision; null without scores.
    average_precision: Option<f64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Against<'a> {
    /// The other file.
    file: &'a Path,
    /// Share of correct cases.
    accuracy: f64,
    /// McNemar's test of the difference.
    mcnemar: McNemar,
}

fn label(field: &str) -> Option<&str> {
    Some(field).filter(|field| !field.is_empty())
}

fn classification(args: &VerdictsArgs, table: &VerdictTable) -> anyhow::Result<()> {
    let truth = table.column("truth", "a label", label)?;
    let predicted = table.column("prediction", "a label", label)?;
    let curves = if table.has("score") {
        let scores = table
            .column("score", "a number", |field| field.parse().ok().filter(|score: &f64| !score.is_nan()))?;
        let positive: Vec<bool> = truth.iter().map(|label| *label == args.positive).collect();
        Some(Curves {
            roc_auc: roc_auc(&positive, &scores),
            average_precision: average_precision(&positive, &scores),
        })
    } else {
        None
    };
    let against = args.against.as_deref().map(|file| -> anyhow::Result<Against<'_>> {
        let table = VerdictTable::read(file)?;
        let other = table.column("prediction", "a label", label)?;
        if table.column("truth", "a label", label)? != truth {
            bail!(
                "{}: expected the truth of {} in the same order, found a different one; sort both files alike",
                file.display(),
                args.file.display()
            );
        }
        let right = truth.iter().zip(&predicted).zip(&other).map(|((truth, a), b)| (truth == a, truth == b));
        Ok(Against { file, accuracy: accuracy(&truth, &other), mcnemar: mcnemar(right) })
    });
    let report = Classification {
        cases: truth.len(),
        accuracy: accuracy(&truth, &predicted),
        macro_f1: macro_f1(&truth, &predicted),
        classes: truth
            .iter()
            .chain(&predicted)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(|&label| (label, class_scores(&truth, &predicted, &label)))
            .collect(),
        curves,
        against: against.transpose()?,
    };
    args.layout.print(&report, || classification_sections(&report))
}

fn classification_sections(report: &Classification<'_>) -> Sections {
    let mut measures = Table::new(["measure", "value"]);
    measures.push(["accuracy".to_owned(), format!("{:.4}", report.accuracy)]);
    measures.push(["macro F1".to_owned(), format!("{:.4}", report.macro_f1)]);
    if let Some(Curves { roc_auc, average_precision }) = &report.curves {
        measures.push(["ROC AUC".to_owned(), format_defined(*roc_auc)]);
        measures.push(["average precision".to_owned(), format_defined(*average_precision)]);
    }
    let mut labels = Table::new(["label", "precision", "recall", "F1", "cases"]);
    for (label, ClassScores { precision, recall, f1, support }) in &report.classes {
        let scores = [precision, recall, f1].map(|score| format!("{score:.4}"));
        labels.push([(*label).to_owned()].into_iter().chain(scores).chain([support.to_string()]));
    }
    let sections =
        Sections::new().text(counted(report.cases, "case")).table(measures).titled("By label", labels);
    let Some(Against { file, accuracy, mcnemar }) = &report.against else { return sections };
    let McNemar { only_a, only_b, p, chi_squared, p_chi_squared } = mcnemar;
    let mut comparison = Table::new(["statistic", "value"]);
    for (name, value) in [
        ("accuracy of the other", format!("{accuracy:.4}")),
        ("right only here", only_a.to_string()),
        ("right only in the other", only_b.to_string()),
        ("McNemar p", format!("{p:.4}")),
        ("McNemar chi-squared", format!("{chi_squared:.4}")),
        ("McNemar chi-squared p", format!("{p_chi_squared:.4}")),
    ] {
        comparison.push([name.to_owned(), value]);
    }
    sections.titled(format!("Compared with {}", file.display()), comparison)
}
