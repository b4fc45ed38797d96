//! `quarry judge study --calibration`: calibration of the confidence of a judge.

use anyhow::bail;
use clap::Args;
use quarry_judge::{Calibration, Coverage, Forecasts};
use quarry_metrics::table::{Sections, Table};

use super::PlanArgs;
use crate::eval::arguments::LayoutArgs;
use crate::output;

/// Options for measuring a judge's confidence.
#[derive(Debug, Args)]
pub struct CalibrationArgs {
    /// Instead measure how well the confidence of one plan's judge is calibrated, by the labels in the file of its
    /// pairs
    #[arg(long, conflicts_with_all = ["truth", "min_labels", "min_alpha", "block", "resamples", "seed"])]
    pub calibration: bool,
    /// Number of folds of queries: each is calibrated on the others
    #[arg(long, value_name = "N", default_value_t = 5, requires = "calibration", value_parser = clap::value_parser!(u16).range(2..=1000))]
    folds: u16,
    /// Bins of the reliability diagram
    #[arg(long, value_name = "N", default_value_t = 10, requires = "calibration", value_parser = clap::value_parser!(u16).range(1..=1000))]
    bins: u16,
}

pub fn run(plan: &PlanArgs, args: &CalibrationArgs, layout: &LayoutArgs) -> anyhow::Result<()> {
    let (plan, ledger, judge) = plan.judged()?;
    let found = Calibration::measure(&ledger, judge, args.folds.into(), args.bins.into())?;
    let Some(found) = found else {
        bail!(
            "{}: no pair with a label in its file has a verdict with a confidence; set `confidence = true` in `[tests]` \
             of the plan, or judge by a majority, on labeled pairs",
            plan.path.display()
        );
    };
    if !plan.members.is_empty() {
        output::note("the confidence of a majority is the share of its members that agree with it");
    }
    found.warnings().iter().for_each(|warning| output::note(warning));
    layout.print(&found, || sections(&found))
}

fn sections(found: &Calibration) -> Sections {
    let pairs = quarry_text::counted(found.pairs, "pair");
    let about = format!("{pairs}, agreement with the file {:.1} %\n\n", 100.0 * found.accuracy);
    let mut quality =
        Table::new(["confidence", "Brier score", "calibration error", "area under risk and coverage"]);
    let mut add = |name: &str, forecasts: &Forecasts| {
        let Forecasts { brier, expected_calibration_error, area_under_risk_coverage, .. } = forecasts;
        let values = [brier, expected_calibration_error, area_under_risk_coverage];
        quality.push(std::iter::once(name.to_owned()).chain(values.map(|value| format!("{value:.4}"))));
    };
    add("as stated", &found.as_said);
    if found.confidences == 1 {
        // A single confidence distinguishes nothing.
        return Sections::new().text(about).table(quality);
    }
    add("calibrated, cross-validated", &found.calibrated);
    let fitted = &found.recalibration;
    let sign = if fitted.intercept < 0.0 { '-' } else { '+' };
    let formula = format!(
        "\nCalibration: logistic({:.4} * logit(confidence) {sign} {:.4})\n",
        fitted.slope,
        fitted.intercept.abs()
    );
    let mut kept = Table::new(["right % of those kept", "minimum confidence", "kept %"]).align_right(0);
    for Coverage { accuracy, confidence, share } in &found.kept {
        let minimum = confidence.map_or("none suffices".to_owned(), |minimum| format!("{minimum:.2}"));
        let share = if confidence.is_some() { format!("{:.1}", 100.0 * share) } else { "-".to_owned() };
        kept.push([format!("{:.0}", 100.0 * accuracy), minimum, share]);
    }
    let sections = Sections::new().text(about).table(quality).text(formula);
    let sections = sections.titled("Verdicts that can be kept", kept);
    sections
        .titled("Reliability as stated", reliability(&found.as_said))
        .titled("Reliability, calibrated", reliability(&found.calibrated))
}

fn reliability(forecasts: &Forecasts) -> Table {
    let mut table = Table::new(["mean confidence", "share right", "pairs"]).align_right(0);
    for bin in &forecasts.bins {
        let [confidence, right] = [bin.mean_probability, bin.share_held].map(|value| format!("{value:.3}"));
        table.push([confidence, right, bin.count.to_string()]);
    }
    table
}
