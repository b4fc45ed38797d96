//! Metrics of decisions about pairs: does this code answer this query?
//!
//! Classes are any ordered values; lists run over the same cases. All results lie in 0..=1, larger is better. What
//! has nothing to divide by is 0, as in scikit-learn, or `None` where no value makes sense.

use serde::Serialize;

use crate::rank::ratio;

/// Share of the cases that are predicted as they are; 0 without a case.
pub fn accuracy<Class: PartialEq>(truth: &[Class], predicted: &[Class]) -> f64 {
    let right = truth.iter().zip(predicted).filter(|(truth, predicted)| truth == predicted).count();
    ratio(right as f64, truth.len() as f64)
}

/// Precision, recall and F1 of one class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ClassScores {
    /// Share of the cases predicted to be of the class that are.
    pub precision: f64,
    /// Share of the cases of the class that are predicted to be.
    pub recall: f64,
    /// Harmonic mean of both (van Rijsbergen, *Information Retrieval*, 1979).
    pub f1: f64,
    /// Number of cases of the class.
    pub support: usize,
}

pub fn class_scores<Class: PartialEq>(truth: &[Class], predicted: &[Class], class: &Class) -> ClassScores {
    let count = |classes: &[Class]| classes.iter().filter(|other| *other == class).count();
    let both = truth.iter().zip(predicted).filter(|(a, b)| *a == class && *b == class).count() as f64;
    let (support, n_predicted) = (count(truth), count(predicted));
    ClassScores {
        precision: ratio(both, n_predicted as f64),
        recall: ratio(both, support as f64),
        f1: ratio(2.0 * both, (support + n_predicted) as f64),
        support,
    }
}

/// Mean F1 over all classes that occur, be it as truth or as prediction; 0 without a case.
pub fn macro_f1<Class: Ord>(truth: &[Class], predicted: &[Class]) -> f64 {
    let mut classes: Vec<&Class> = truth.iter().chain(predicted).collect();
    classes.sort_unstable();
    classes.dedup();
    let sum: f64 = classes.iter().map(|class| class_scores(truth, predicted, class).f1).sum();
    ratio(sum, classes.len() as f64)
}

/// Area under the receiver operating characteristic: the chance that a positive case has a greater score than a
/// negative one, equal scores counting half (Hanley and McNeil, *The Meaning and Use of the Area under a ROC Curve*,
/// 1982). `None` without a positive or without a negative case. Scores are not NaN.
pub fn roc_auc(positive: &[bool], scores: &[f64]) -> Option<f64> {
    let (mut negatives_below, mut won) = (0_u64, 0.0);
    for group in groups(positive, scores).iter().rev() {
        let (positives, negatives) = *group;
        won += positives as f64 * (negatives_below as f64 + negatives as f64 / 2.0);
        negatives_below += negatives;
    }
    let n_positive = positive.iter().filter(|positive| **positive).count();
    let pairs = n_positive as f64 * negatives_below as f64;
    (pairs > 0.0).then(|| won / pairs)
}

/// Average precision of scores: sum over the distinct scores, largest first, of the precision above and at it times
/// the recall that it adds (scikit-learn's `average_precision_score`; without equal scores that of a ranking). `None`
/// without a positive case. Scores are not NaN.
pub fn average_precision(positive: &[bool], scores: &[f64]) -> Option<f64> {
    let (mut positives, mut cases, mut sum) = (0, 0, 0.0);
    for (more_positives, more_negatives) in groups(positive, scores) {
        positives += more_positives;
        cases += more_positives + more_negatives;
        sum += more_positives as f64 * (positives as f64 / cases as f64);
    }
    (positives > 0).then(|| sum / positives as f64)
}

/// Numbers of positive and negative cases for each distinct score, largest first.
fn groups(positive: &[bool], scores: &[f64]) -> Vec<(u64, u64)> {
    let mut cases: Vec<(f64, bool)> =
        scores.iter().map(|score| score + 0.0).zip(positive.iter().copied()).collect();
    cases.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let count = |same: &[(f64, bool)]| {
        let positives = same.iter().filter(|case| case.1).count();
        (positives as u64, (same.len() - positives) as u64)
    };
    cases.chunk_by(|a, b| a.0 == b.0).map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_test_support::assert_close;

    #[test]
    fn values_worked_by_hand() {
        let (truth, predicted) = (["a", "a", "a", "b", "c"], ["a", "b", "a", "b", "b"]);
        assert_close(accuracy(&truth, &predicted), 3.0 / 5.0);
        let found = class_scores(&truth, &predicted, &"b");
        assert_eq!((found.precision, found.recall, found.support), (1.0 / 3.0, 1.0, 1));
        assert_close(found.f1, 0.5);
        assert_close(macro_f1(&truth, &predicted), (0.8 + 0.5 + 0.0) / 3.0);
        assert_eq!(
            class_scores(&truth, &predicted, &"d"),
            ClassScores { precision: 0.0, recall: 0.0, f1: 0.0, support: 0 }
        );
        assert_eq!((accuracy::<u8>(&[], &[]), macro_f1::<u8>(&[], &[])), (0.0, 0.0));
    }

    #[test]
    fn curves_worked_by_hand() {
        let positive = [true, false, true, false, true];
        let scores = [0.9, 0.8, 0.5, 0.5, -0.0];
        // Pairs won: 2 by the first, half of one by the third, none by the last.
        assert_close(roc_auc(&positive, &scores).unwrap(), (2.0 + 0.5) / 6.0);
        assert_close(average_precision(&positive, &scores).unwrap(), (1.0 + 2.0 / 4.0 + 3.0 / 5.0) / 3.0);
        assert_eq!(
            (roc_auc(&[true], &[1.0]), roc_auc(&[false], &[1.0]), roc_auc(&[], &[])),
            (None, None, None)
        );
        assert_eq!(
            (average_precision(&[false], &[1.0]), average_precision(&[true], &[1.0])),
            (None, Some(1.0))
        );
        // Zeros of both signs are one score.
        assert_close(roc_auc(&[true, false], &[0.0, -0.0]).unwrap(), 0.5);
    }
}
