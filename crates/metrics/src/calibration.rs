//! Calibration of probabilities: of verdicts, and of the decision that no result answers the query.
//!
//! A forecast is the probability of an event, and whether it happened. Values are finite; lists have the same
//! length and are not empty, which [`check_forecasts`] checks.

use crate::MetricsError;
use crate::significance::quantile;
use serde::{Deserialize, Serialize};

/// Refuses an invalid list of forecasts.
///
/// # Errors
/// Without forecasts, when there are more probabilities than outcomes or fewer, or with a probability outside of 0
/// to 1.
pub fn check_forecasts(probabilities: &[f64], outcomes: &[bool]) -> Result<(), MetricsError> {
    if probabilities.is_empty() || probabilities.len() != outcomes.len() {
        let found = format!("{} probabilities and {} outcomes", probabilities.len(), outcomes.len());
        return Err(MetricsError::Forecasts { found });
    }
    match probabilities.iter().find(|probability| !(0.0..=1.0).contains(*probability)) {
        Some(probability) => Err(MetricsError::Forecasts { found: probability.to_string() }),
        None => Ok(()),
    }
}

/// Brier score: mean squared difference between probability and outcome, 0 to 1, less is better (Brier, *Verification
/// of Forecasts Expressed in Terms of Probability*, 1950, in its form for two classes).
pub fn brier_score(probabilities: &[f64], outcomes: &[bool]) -> f64 {
    let squares = probabilities.iter().zip(outcomes).map(|(p, held)| (p - number(*held)).powi(2));
    squares.sum::<f64>() / probabilities.len() as f64
}

/// Binning of forecasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "kebab-case")]
pub enum Binning {
    /// Bins of the same width.
    #[default]
    Width,
    /// Bins between quantiles of the probabilities, in proportion between neighbors; equal probabilities share a
    /// bin, so that bins differ in size if there are many.
    Quantile,
}

/// A bin of a reliability diagram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Bin {
    /// Lower end, exclusive except in the first bin.
    pub from: f64,
    /// Upper end, inclusive.
    pub to: f64,
    /// Number of forecasts, 1 or more.
    pub count: usize,
    /// Their mean probability.
    pub mean_probability: f64,
    /// Share of them that came true.
    pub share_held: f64,
}

/// The bins of a reliability diagram that hold a forecast, probabilities ascending (Murphy and Winkler, *Reliability of
/// Subjective Probability Forecasts*, 1977), with the borders of scikit-learn's `calibration_curve`. `n_bins` is 1 or
/// more.
pub fn reliability(probabilities: &[f64], outcomes: &[bool], n_bins: usize, binning: Binning) -> Vec<Bin> {
    let n_bins = n_bins.max(1);
    let share = |i: usize| if i < n_bins { i as f64 * (1.0 / n_bins as f64) } else { 1.0 };
    let borders: Vec<f64> = match binning {
        Binning::Width => (0..=n_bins).map(share).collect(),
        Binning::Quantile => {
            let mut ascending = probabilities.to_vec();
            ascending.sort_unstable_by(f64::total_cmp);
            (0..=n_bins).map(|i| quantile(&ascending, share(i))).collect()
        }
    };
    let mut sums = vec![(0, 0.0, 0); n_bins];
    for (&probability, &held) in probabilities.iter().zip(outcomes) {
        // Inner borders only, so that the ends of the range have a bin.
        let bin = &mut sums[borders[1..n_bins].partition_point(|border| *border < probability)];
        *bin = (bin.0 + 1, bin.1 + probability, bin.2 + usize::from(held));
    }
    sums.into_iter()
        .zip(borders.windows(2))
        .filter(|((count, ..), _)| *count > 0)
        .map(|((count, sum, n_held), border)| Bin {
            from: border[0],
            to: border[1],
            count,
            mean_probability: sum / count as f64,
            share_held: n_held as f64 / count as f64,
        })
        .collect()
}

/// Expected calibration error: mean over forecasts of the distance between their bin's mean probability and its share
/// that held; 0 to 1, less is better (Naeini, Cooper and Hauskrecht, *Obtaining Well Calibrated Probabilities Using
/// Bayesian Binning*, AAAI 2015).
pub fn expected_calibration_error(bins: &[Bin]) -> f64 {
    let gaps = bins.iter().map(|bin| bin.count as f64 * (bin.mean_probability - bin.share_held).abs());
    gaps.sum::<f64>() / bins.iter().map(|bin| bin.count).sum::<usize>() as f64
}

/// A point of a risk–coverage curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Selective {
    /// Least confidence that is answered.
    pub threshold: f64,
    /// Share of the cases that are answered, above 0, up to 1.
    pub coverage: f64,
    /// Share of these that are answered wrongly, 0 to 1.
    pub risk: f64,
}

/// The risk–coverage curve: what share of the answers is wrong when only confident ones are given, a point for each
/// distinct confidence, most confident first (El-Yaniv and Wiener, *On the Foundations of Noise-Free Selective
/// Classification*, 2010).
pub fn risk_coverage(confidences: &[f64], right: &[bool]) -> Vec<Selective> {
    let mut cases: Vec<(f64, bool)> = confidences.iter().copied().zip(right.iter().copied()).collect();
    cases.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let (mut answered, mut wrong) = (0, 0);
    cases
        .chunk_by(|a, b| a.0 == b.0)
        .map(|same| {
            answered += same.len();
            wrong += same.iter().filter(|case| !case.1).count();
            Selective {
                threshold: same[0].0,
                coverage: answered as f64 / cases.len() as f64,
                risk: wrong as f64 / answered as f64,
            }
        })
        .collect()
}

/// Area under the risk–coverage curve: mean risk over all coverages, those between two points having the risk of the
/// upper one. 0 to 1, less is better (Geifman, Uziel and El-Yaniv, *Bias-Reduced Uncertainty Estimation for Deep
/// Neural Classifiers*, ICLR 2019).
pub fn area_under_risk_coverage(curve: &[Selective]) -> f64 {
    let mut covered = 0.0;
    curve
        .iter()
        .map(|point| {
            let width = point.coverage - covered;
            covered = point.coverage;
            width * point.risk
        })
        .sum()
}

fn number(held: bool) -> f64 {
    f64::from(u8::from(held))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_test_support::assert_close;

    const PROBABILITIES: [f64; 5] = [0.1, 0.5, 0.9, 1.0, 0.9];
    const OUTCOMES: [bool; 5] = [false, true, true, true, false];

    #[test]
    fn values_worked_by_hand() {
        assert_close(brier_score(&PROBABILITIES, &OUTCOMES), (0.01 + 0.25 + 0.01 + 0.0 + 0.81) / 5.0);
        let bins = reliability(&PROBABILITIES, &OUTCOMES, 2, Binning::Width);
        assert_eq!((bins.len(), bins[0].count, bins[1].count), (2, 2, 3));
        assert_eq!((bins[0].from, bins[0].to, bins[1].to), (0.0, 0.5, 1.0));
        assert_close(bins[1].mean_probability, 2.8 / 3.0);
        assert_close(bins[1].share_held, 2.0 / 3.0);
        assert_close(expected_calibration_error(&bins), (2.0 * (0.5 - 0.3) + 3.0 * (2.8 - 2.0) / 3.0) / 5.0);
    }

    #[test]
    fn quantiles_share_out_the_forecasts() {
        // The middle one of five is 0.9; it and its like are in the lower bin.
        let bins = reliability(&PROBABILITIES, &OUTCOMES, 2, Binning::Quantile);
        assert_eq!(bins.iter().map(|bin| bin.count).collect::<Vec<_>>(), [4, 1]);
        let one = reliability(&[0.5; 4], &[true; 4], 3, Binning::Quantile);
        assert_eq!(one.iter().map(|bin| bin.count).sum::<usize>(), 4);
    }

    #[test]
    fn the_confident_are_answered_first_and_equals_together() {
        let curve = risk_coverage(&[0.9, 0.8, 0.9, 0.6], &[true, true, false, false]);
        let points: Vec<(f64, f64, f64)> =
            curve.iter().map(|at| (at.threshold, at.coverage, at.risk)).collect();
        assert_eq!(points, [(0.9, 0.5, 0.5), (0.8, 0.75, 1.0 / 3.0), (0.6, 1.0, 0.5)]);
        assert_close(area_under_risk_coverage(&curve), 0.5 * 0.5 + 0.25 / 3.0 + 0.25 * 0.5);
        assert!(risk_coverage(&[], &[]).is_empty());
    }

    #[test]
    fn invalid_forecasts_are_refused() {
        assert!(check_forecasts(&PROBABILITIES, &OUTCOMES).is_ok());
        assert!(check_forecasts(&PROBABILITIES, &OUTCOMES[1..]).is_err());
        assert!(check_forecasts(&[], &[]).is_err());
        for wrong in [-0.1, 1.1, f64::NAN] {
            assert!(check_forecasts(&[wrong], &[true]).is_err());
        }
    }
}
