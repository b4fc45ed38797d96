//! Comparing a judge's confidence with people's labels.

use quarry_metrics::calibration::{
    Bin, Binning, area_under_risk_coverage, brier_score, expected_calibration_error, reliability,
    risk_coverage,
};
use quarry_metrics::recalibration::{Recalibration, cross_validated};
use quarry_text::counted;
use serde::Serialize;

use crate::error::JudgeError;
use crate::ledger::Ledger;

/// The shares of correct verdicts for which [`Calibration`] gives how many verdicts can be kept.
const TARGETS: [f64; 3] = [0.9, 0.95, 0.99];

/// With fewer pairs, a calibration is hardly better than chance: the interval of a share is ± 10 points at this
/// number.
const FEW_PAIRS: usize = 100;

/// Calibration of confidences: how well they predict that a verdict agrees with the file's label.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "JudgeCalibration")]
pub struct Calibration {
    /// Pairs with a label in the file and a verdict with a confidence.
    pub pairs: usize,
    /// Number of distinct confidences that the judge gave.
    pub confidences: usize,
    /// Share of the pairs in which the verdict agrees with the file.
    pub accuracy: f64,
    /// Confidences as the judge gave them.
    pub as_said: Forecasts,
    /// Confidences after recalibration, cross-validated over queries.
    pub calibrated: Forecasts,
    /// The recalibration fitted on all pairs, for future verdicts.
    pub recalibration: Recalibration,
    /// Coverage at each target accuracy.
    pub kept: Vec<Coverage>,
}

/// Quality of probabilities.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Forecasts {
    /// Brier score: mean squared difference from the outcome; lower is better.
    pub brier: f64,
    /// Expected calibration error; lower is better.
    pub expected_calibration_error: f64,
    /// Mean share of wrong verdicts over all coverages, most confident first; lower is better.
    pub area_under_risk_coverage: f64,
    /// The reliability diagram.
    pub bins: Vec<Bin>,
}

/// The share of verdicts that can be kept at an accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "KeptShare")]
pub struct Coverage {
    /// Minimum share of correct verdicts among those kept.
    pub accuracy: f64,
    /// Minimum confidence, as the judge gives it, of the verdicts kept; `None` if no confidence suffices.
    pub confidence: Option<f64>,
    /// Share of all verdicts kept.
    pub share: f64,
}

/// A verdict whose confidence can be compared with a label.
struct ConfidenceCase {
    query: String,
    confidence: f64,
    is_right: bool,
}

impl Calibration {
    /// Why the numbers are unreliable, if they are.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.pairs < FEW_PAIRS {
            warnings.push(format!(
                "only {}: other pairs may give different numbers; label at least {FEW_PAIRS}",
                counted(self.pairs, "pair")
            ));
        }
        if self.confidences == 1 {
            warnings.push(
                "all confidences are equal, so they cannot distinguish verdicts; nothing can be calibrated"
                    .to_owned(),
            );
        }
        warnings
    }

    /// Calibration of the verdicts of `judge`, cross-validated over queries with `n_folds` folds; `None` if no
    /// verdict has both a confidence and a label in the file.
    pub fn measure(
        ledger: &Ledger,
        judge: i64,
        n_folds: usize,
        n_bins: usize,
    ) -> Result<Option<Self>, JudgeError> {
        let mut cases = Vec::new();
        ledger.for_each_decided(judge, |decided| {
            let Some(predicted) = decided.verdict.outcome.label() else { return Ok(()) };
            if let (Some(confidence), Some(label)) = (decided.verdict.confidence, decided.pair.label) {
                let is_right = predicted == (label >= 1);
                cases.push(ConfidenceCase { query: decided.pair.query_id, confidence, is_right });
            }
            Ok(())
        })?;
        Ok((!cases.is_empty()).then(|| Self::new(&cases, n_folds, n_bins)))
    }

    fn new(cases: &[ConfidenceCase], n_folds: usize, n_bins: usize) -> Self {
        let confidences: Vec<f64> = cases.iter().map(|case| case.confidence).collect();
        let mut distinct: Vec<u64> = confidences.iter().map(|confidence| confidence.to_bits()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let right: Vec<bool> = cases.iter().map(|case| case.is_right).collect();
        let queries: Vec<&str> = cases.iter().map(|case| case.query.as_str()).collect();
        let calibrated = cross_validated(&confidences, &right, &queries, n_folds);
        let curve = risk_coverage(&confidences, &right);
        let kept = |accuracy: f64| {
            let enough = curve.iter().rfind(|point| 1.0 - point.risk >= accuracy);
            Coverage {
                accuracy,
                confidence: enough.map(|point| point.threshold),
                share: enough.map_or(0.0, |point| point.coverage),
            }
        };
        Self {
            pairs: cases.len(),
            confidences: distinct.len(),
            accuracy: right.iter().filter(|right| **right).count() as f64 / cases.len() as f64,
            as_said: Forecasts::new(&confidences, &right, n_bins),
            calibrated: Forecasts::new(&calibrated, &right, n_bins),
            recalibration: Recalibration::fit(&confidences, &right),
            kept: TARGETS.map(kept).to_vec(),
        }
    }
}

impl Forecasts {
    fn new(probabilities: &[f64], held: &[bool], n_bins: usize) -> Self {
        let bins = reliability(probabilities, held, n_bins, Binning::Width);
        Self {
            brier: brier_score(probabilities, held),
            expected_calibration_error: expected_calibration_error(&bins),
            area_under_risk_coverage: area_under_risk_coverage(&risk_coverage(probabilities, held)),
            bins,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judge_that_is_too_sure_is_calibrated() {
        // Confidence 0.95 is right in 7 of 10, 0.6 in 5 of 10; ten queries with ten pairs each.
        let case = |number: usize| {
            let (confidence, n_right) = if number % 20 < 10 { (0.95, 7) } else { (0.6, 5) };
            ConfidenceCase { query: (number / 20).to_string(), confidence, is_right: number % 10 < n_right }
        };
        let cases: Vec<ConfidenceCase> = (0..200).map(case).collect();
        let found = Calibration::new(&cases, 5, 10);
        assert_eq!((found.pairs, found.accuracy), (200, 0.6));
        let brier = 0.5 * (0.7 * 0.05_f64.powi(2) + 0.3 * 0.95_f64.powi(2))
            + 0.5 * (0.5 * 0.4_f64.powi(2) + 0.5 * 0.6_f64.powi(2));
        assert!((found.as_said.brier - brier).abs() < 1e-12);
        assert!((found.as_said.expected_calibration_error - (0.25 + 0.1) / 2.0).abs() < 1e-12);
        assert!(found.calibrated.expected_calibration_error < 0.02, "{found:?}");
        assert!(found.calibrated.brier < found.as_said.brier);
        assert!((found.recalibration.apply(0.95) - 0.7).abs() < 0.01, "{found:?}");
        // No confidence reaches an accuracy of 0.9.
        assert_eq!(found.kept[0], Coverage { accuracy: 0.9, confidence: None, share: 0.0 });
        assert!(found.warnings().is_empty());
        let alike = Calibration::new(&cases[..6], 5, 10).warnings();
        assert!(alike[0].starts_with("only 6 pairs") && alike[1].contains("are equal"), "{alike:?}");
    }

    #[test]
    fn the_kept_share_is_maximal() {
        let case = |(confidence, is_right): (f64, bool)| ConfidenceCase {
            query: confidence.to_string(),
            confidence,
            is_right,
        };
        let cases: Vec<ConfidenceCase> =
            [(0.9, true), (0.8, true), (0.7, false), (0.6, true)].map(case).into();
        let found = Calibration::new(&cases, 2, 5);
        assert_eq!(found.kept[1], Coverage { accuracy: 0.95, confidence: Some(0.8), share: 0.5 });
    }
}
