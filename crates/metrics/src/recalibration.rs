//! Recalibration of confidences into probabilities.

use std::collections::HashMap;
use std::hash::Hash;

use crate::optimize::logistic;

/// Minimum distance of confidences from 0 and 1, because the logit of 1 is infinite.
const MARGIN: f64 = 1e-3;

/// A logistic function of the logit of a confidence: Platt scaling (Platt, *Probabilistic Outputs for Support Vector
/// Machines*, 1999), with his targets, and logits instead of margins.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Recalibration {
    /// 1 if confidences are right, less if they are too far from one half.
    pub slope: f64,
    /// 0 if confidences are right, less if they are too high.
    pub intercept: f64,
}

impl Recalibration {
    /// The most likely one of these confidences, 0 to 1, with whether what they are of held. Lists have the
    /// same length. If there is nothing to fit, confidences stay unchanged; where they are all equal, the slope is
    /// what a very small weight decay leaves.
    pub fn fit(confidences: &[f64], held: &[bool]) -> Self {
        if confidences.is_empty() {
            return Self { slope: 1.0, intercept: 0.0 };
        }
        let n_held = held.iter().filter(|held| **held).count() as f64;
        let n_not = held.len() as f64 - n_held;
        let (target_held, target_not) = ((n_held + 1.0) / (n_held + 2.0), 1.0 / (n_not + 2.0));
        let rows: Vec<([f64; 2], f64, f64)> = confidences
            .iter()
            .zip(held)
            .map(|(confidence, held)| {
                ([logit(*confidence), 1.0], if *held { target_held } else { target_not }, 1.0)
            })
            .collect();
        let [slope, intercept] = logistic(&rows, &[2.0 * DECAY; 2]);
        Self { slope, intercept }
    }

    /// The probability that a confidence stands for, above 0 and below 1.
    #[must_use]
    pub fn apply(self, confidence: f64) -> f64 {
        sigmoid(self.slope * logit(confidence) + self.intercept)
    }
}

/// Weight decay, which makes the solution unique.
const DECAY: f64 = 1e-6;

/// The probability of each confidence by a [`Recalibration`] of the others: cases are put into `n_folds` parts, all of
/// a group into one, and the recalibration of each part is fitted to the other parts. Groups go to the part with the
/// fewest cases so far, in the order in which they occur. Lists have the same length; `n_folds` is 2 or more.
pub fn cross_validated<G: Eq + Hash>(
    confidences: &[f64],
    held: &[bool],
    groups: &[G],
    n_folds: usize,
) -> Vec<f64> {
    let n_folds = n_folds.max(2);
    let mut sizes: HashMap<&G, usize> = HashMap::new();
    groups.iter().for_each(|group| *sizes.entry(group).or_default() += 1);
    let (mut fold_of, mut in_fold) = (HashMap::new(), vec![0; n_folds]);
    for group in groups {
        fold_of.entry(group).or_insert_with(|| {
            let fold = (0..n_folds).min_by_key(|fold| in_fold[*fold]).unwrap_or_default();
            in_fold[fold] += sizes[group];
            fold
        });
    }
    let folds: Vec<usize> = groups.iter().map(|group| fold_of[group]).collect();
    let fits: Vec<Recalibration> = (0..n_folds)
        .map(|fold| {
            let others = (0..folds.len()).filter(|case| folds[*case] != fold);
            let (confidences, held): (Vec<f64>, Vec<bool>) =
                others.map(|case| (confidences[case], held[case])).unzip();
            Recalibration::fit(&confidences, &held)
        })
        .collect();
    confidences.iter().zip(folds).map(|(confidence, fold)| fits[fold].apply(*confidence)).collect()
}

fn logit(confidence: f64) -> f64 {
    let p = confidence.clamp(MARGIN, 1.0 - MARGIN);
    (p / (1.0 - p)).ln()
}

fn sigmoid(z: f64) -> f64 {
    if z >= 0.0 { 1.0 / (1.0 + (-z).exp()) } else { z.exp() / (1.0 + z.exp()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frequencies_of_two_confidences_are_found() {
        // 0.9 holds 60 times of 100, 0.6 40 times of 100: two points, which a logistic function passes through, but
        // for Platt's targets 101/102 and 1/102.
        let confidences: Vec<f64> = [vec![0.9; 100], vec![0.6; 100]].concat();
        let held: Vec<bool> = (0..200).map(|case| case % 100 < if case < 100 { 60 } else { 40 }).collect();
        let fit = Recalibration::fit(&confidences, &held);
        let target = |n_held: f64| (n_held * 101.0 / 102.0 + (100.0 - n_held) / 102.0) / 100.0;
        assert!((fit.apply(0.9) - target(60.0)).abs() < 1e-6, "{fit:?} {}", fit.apply(0.9));
        assert!((fit.apply(0.6) - target(40.0)).abs() < 1e-6, "{fit:?}");
        assert!(fit.slope > 0.0 && fit.slope < 1.0);
    }

    #[test]
    fn unfittable_data_stays_finite() {
        assert_eq!(Recalibration::fit(&[], &[]), Recalibration { slope: 1.0, intercept: 0.0 });
        for (confidences, held) in [
            (vec![1.0; 5], vec![true; 5]),
            (vec![0.0, 1.0], vec![true, false]),
            (vec![0.5, 0.5, 1.0], vec![false; 3]),
        ] {
            let fit = Recalibration::fit(&confidences, &held);
            assert!(fit.slope.is_finite() && fit.intercept.is_finite(), "{fit:?}");
            assert!(confidences.iter().all(|confidence| (0.0..=1.0).contains(&fit.apply(*confidence))));
        }
    }

    #[test]
    fn no_case_is_asked_of_a_fit_that_saw_its_group() {
        // In each group either all outcomes hold or none: training on the own group would reveal the answer.
        let groups = [0, 0, 0, 1, 1, 1];
        let held = [true, true, true, false, false, false];
        let found = cross_validated(&[0.8; 6], &held, &groups, 2);
        assert!(found[..3].iter().all(|p| *p < 0.5) && found[3..].iter().all(|p| *p > 0.5), "{found:?}");
        assert_eq!(cross_validated::<u8>(&[], &[], &[], 5), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn greater_confidence_is_greater_probability_or_the_other_way_round(
            cases in prop::collection::vec((0.0_f64..=1.0, any::<bool>()), 1..60)
        ) {
            let (confidences, held): (Vec<f64>, Vec<bool>) = cases.into_iter().unzip();
            let fit = Recalibration::fit(&confidences, &held);
            let ends = [fit.apply(0.2), fit.apply(0.8)];
            prop_assert!((ends[1] - ends[0]) * fit.slope >= 0.0);
            prop_assert!(ends.iter().all(|p| (0.0..=1.0).contains(p)));
            let groups: Vec<usize> = (0..held.len()).collect();
            let found = cross_validated(&confidences, &held, &groups, 5);
            prop_assert!(found.iter().all(|p| (0.0..=1.0).contains(p)) && found.len() == held.len());
        }
    }
}
