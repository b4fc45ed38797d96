//! `quarry eval calibration` and `quarry eval classification`: how good yes-or-no verdicts are, with probabilities and
//! without.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use quarry_corpus::formats::table::Table;
use quarry_metrics::calibration::{
    Bin, Binning, Selective, area_under_risk_coverage, brier_score, check_forecasts,
    expected_calibration_error, reliability, risk_coverage,
};
use quarry_metrics::classification::{
    ClassScores, accuracy, average_precision, class_scores, macro_f1, roc_auc,
};
use quarry_metrics::significance::{McNemar, mcnemar};
use serde::Serialize;

use super::arguments::by_name;
use crate::eval::shown::format_defined;
use crate::output;

/// Arguments of `quarry eval calibration`.
#[derive(Debug, Args)]
pub struct CalibrationArgs {
    /// Forecasts, CSV or TSV with the columns probability (0 to 1) and outcome (1, true, yes or 0, false, no)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Bins of the reliability table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    bins: u32,
    /// Bins of the same: width, quantile
    #[arg(long, value_name = "BINNING", default_value = "width", value_parser = by_name::<Binning>)]
    binning: Binning,
    /// Print one JSON object, with every point of the risk-coverage curve
    #[arg(long)]
    json: bool,
}

/// Arguments of `quarry eval classification`.
#[derive(Debug, Args)]
pub struct ClassificationArgs {
    /// Verdicts, CSV or TSV with the columns truth and prediction, any labels, and if need be score
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Verdicts of another method on the same cases, in the same order; says by McNemar's test whether they differ
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Label that greater scores speak for
    #[arg(long, value_name = "LABEL", default_value = "1")]
    positive: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Calibration {
    forecasts: usize,
    brier_score: f64,
    expected_calibration_error: f64,
    binning: Binning,
    bins: Vec<Bin>,
    area_under_risk_coverage: f64,
    /// Answers being the likelier outcomes, and their probability the confidence.
    risk_coverage: Vec<Selective>,
}

/// Runs `quarry eval calibration`.
///
/// # Errors
/// When the file is missing or wrong.
pub fn calibration(args: &CalibrationArgs) -> anyhow::Result<()> {
    let table = Table::read(&args.file)?;
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
    if args.json {
        return output::print_json(&report);
    }
    let mut text = format!(
        "{} forecasts\nBrier score {:.4}\nexpected calibration error {:.4}\n\n{:<18} {:>7} {:>16} {:>6}\n",
        report.forecasts,
        report.brier_score,
        report.expected_calibration_error,
        "probability",
        "count",
        "mean",
        "held"
    );
    for Bin { from, to, count, mean_probability, share_held } in &report.bins {
        let range = format!("{from:.4} to {to:.4}");
        let _ = writeln!(text, "{range:<18} {count:>7} {mean_probability:>16.4} {share_held:>6.4}");
    }
    let _ = writeln!(
        text,
        "\narea under risk-coverage {:.4}\n{:>8} {:>8} {:>10}",
        report.area_under_risk_coverage, "coverage", "risk", "confidence"
    );
    for tenth in 1..=10 {
        // The curve ends at a coverage of 1.
        let at = report.risk_coverage.iter().find(|at| at.coverage >= f64::from(tenth) / 10.0 - 1e-12);
        if let Some(Selective { threshold, coverage, risk }) = at {
            let _ = writeln!(text, "{coverage:>8.4} {risk:>8.4} {threshold:>10.4}");
        }
    }
    Ok(output::print(&text)?)
}

#[derive(Serialize)]
struct Classification<'a> {
    cases: usize,
    accuracy: f64,
    macro_f1: f64,
    /// By label.
    classes: BTreeMap<&'a str, ClassScores>,
    #[serde(flatten)]
    curves: Option<Curves>,
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<Against<'a>>,
}

#[derive(Serialize)]
struct Curves {
    roc_auc: Option<f64>,
    average_precision: Option<f64>,
}

#[derive(Serialize)]
struct Against<'a> {
    file: &'a Path,
    accuracy: f64,
    mcnemar: McNemar,
}

fn label(field: &str) -> Option<&str> {
    Some(field).filter(|field| !field.is_empty())
}

/// Runs `quarry eval classification`.
///
/// # Errors
/// When a file is missing or wrong, or the two files hold different cases.
pub fn classification(args: &ClassificationArgs) -> anyhow::Result<()> {
    let table = Table::read(&args.file)?;
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
        let table = Table::read(file)?;
        let other = table.column("prediction", "a label", label)?;
        if table.column("truth", "a label", label)? != truth {
            bail!(
                "{}: expected the truth of {}, row by row, found another; put both into the same order",
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
    if args.json {
        return output::print_json(&report);
    }
    let mut text =
        format!("{} cases\naccuracy {:.4}\nmacro F1 {:.4}\n", report.cases, report.accuracy, report.macro_f1);
    if let Some(Curves { roc_auc, average_precision }) = report.curves {
        let _ = writeln!(
            text,
            "ROC AUC {}\naverage precision {}",
            format_defined(roc_auc),
            format_defined(average_precision)
        );
    }
    let _ = writeln!(text, "\n{:<16} {:>9} {:>7} {:>7} {:>8}", "label", "precision", "recall", "F1", "cases");
    for (label, ClassScores { precision, recall, f1, support }) in &report.classes {
        let _ = writeln!(text, "{label:<16} {precision:>9.4} {recall:>7.4} {f1:>7.4} {support:>8}");
    }
    if let Some(Against { file, accuracy, mcnemar }) = report.against {
        let McNemar { only_a, only_b, p, chi_squared, p_chi_squared } = mcnemar;
        let _ = writeln!(
            text,
            "\n{}: accuracy {accuracy:.4}\nonly right here {only_a}, only there {only_b}: McNemar p {p:.4} (chi-squared \
             {chi_squared:.4}, p {p_chi_squared:.4})",
            file.display()
        );
    }
    Ok(output::print(&text)?)
}
