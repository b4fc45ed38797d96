//! `quarry judge calibrate`: whether the confidence of a judge can be believed.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use quarry_annotate::{Calibration, Forecasts};

use super::PlanArgs;
use crate::output;

/// Arguments of `quarry judge calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Number of folds of queries: each is calibrated on the others
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..=1000))]
    folds: u16,
    /// Bins of the reliability diagram
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    bins: u16,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `quarry judge calibrate`.
///
/// # Errors
/// When the plan or its ledger cannot be read, or no verdict has both a confidence and a label of the file.
pub fn run(args: &CalibrateArgs) -> anyhow::Result<ExitCode> {
    let (plan, ledger, judge) = args.plan.judged()?;
    let found = Calibration::of(&ledger, judge, args.folds.into(), args.bins.into())?;
    let Some(found) = found else {
        bail!(
            "{}: there is no verdict with a confidence on a pair with a label in its file; set `confidence = true` in \
             `[tests]` of the plan, or judge by a majority, on labeled pairs",
            plan.path.display()
        );
    };
    if !plan.members.is_empty() {
        output::note("the confidence of a majority is the share of its members that agree with it");
    }
    found.warnings().iter().for_each(|warning| output::note(warning));
    if args.json {
        output::print_json(&found)?;
    } else {
        output::print(&text(&found))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(found: &Calibration) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<28} {value}");
    };
    line("pairs", found.pairs.to_string());
    line("agreement with the file", format!("{:.1} %", 100.0 * found.accuracy));
    let forecasts = |forecasts: &Forecasts| {
        format!(
            "Brier score {:.4}, calibration error {:.4}, area under risk and coverage {:.4}",
            forecasts.brier, forecasts.expected_calibration_error, forecasts.area_under_risk_coverage
        )
    };
    line("as said", forecasts(&found.as_said));
    if found.confidences == 1 {
        // A single confidence tells nothing apart.
        return text;
    }
    line("calibrated, cross-validated", forecasts(&found.calibrated));
    let fitted = &found.recalibration;
    line(
        "calibration",
        format!(
            "logistic({:.4} * logit(confidence) {} {:.4})",
            fitted.slope,
            if fitted.intercept < 0.0 { '-' } else { '+' },
            fitted.intercept.abs()
        ),
    );
    for kept in &found.kept {
        let name = format!("to keep {:.0} % right", 100.0 * kept.accuracy);
        line(
            &name,
            match kept.confidence {
                Some(minimum) => {
                    format!("confidence {minimum:.2} and more: {:.1} % of the verdicts", 100.0 * kept.share)
                }
                None => "no confidence suffices".to_owned(),
            },
        );
    }
    for (title, forecasts) in [("as said", &found.as_said), ("calibrated", &found.calibrated)] {
        let _ = writeln!(text, "\n{title}: confidence, share that was right, pairs");
        for bin in &forecasts.bins {
            let _ = writeln!(text, "  {:.3}  {:.3}  {}", bin.mean_probability, bin.share_held, bin.count);
        }
    }
    text
}
