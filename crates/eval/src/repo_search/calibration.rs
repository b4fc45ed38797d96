//! How well a search knows whether it has found anything.
//!
//! A threshold on the confidence of a search turns it into a yes-or-no decision. [`Decision`] says how often that is
//! right, [`best_threshold`] picks one, and [`cross_validate`] says what picking one that way is worth on
//! repositories that were not picked on.

use serde::Serialize;

use super::RepositoryScores;

/// How often the decision that a threshold makes is right.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Decision {
    /// Least confidence that counts as found.
    pub threshold: f32,
    /// Queries with an answer.
    pub answerable: usize,
    /// Queries without.
    pub unanswerable: usize,
    /// Share of the answerable queries that count as found, 0 to 1.
    pub found: f64,
    /// Share of the unanswerable queries that count as not found, 0 to 1.
    pub held_back: f64,
}

impl Decision {
    /// Of a threshold on these confidences.
    #[must_use]
    pub fn new(threshold: f32, answerable: &[f32], unanswerable: &[f32]) -> Self {
        let above = |values: &[f32]| values.iter().filter(|value| **value >= threshold).count();
        let share = |n: usize, of: usize| if of == 0 { 0.0 } else { n as f64 / of as f64 };
        Self {
            threshold,
            answerable: answerable.len(),
            unanswerable: unanswerable.len(),
            found: share(above(answerable), answerable.len()),
            held_back: share(unanswerable.len() - above(unanswerable), unanswerable.len()),
        }
    }

    /// Mean of both shares: 0.5 for a decision by chance, 1 for one that is always right (balanced accuracy).
    #[must_use]
    pub fn balanced_accuracy(&self) -> f64 {
        (self.found + self.held_back) / 2.0
    }
}

/// The threshold of the greatest `weight` × found + (1 − `weight`) × held back among those that lie half-way between
/// two neighbouring confidences; the lowest of equal ones, 0 without any. A weight of 0.5 gives Youden's index.
#[must_use]
pub fn best_threshold(answerable: &[f32], unanswerable: &[f32], weight: f64) -> f32 {
    let mut values: Vec<f32> = [answerable, unanswerable].concat();
    values.sort_unstable_by(f32::total_cmp);
    values.dedup();
    let mut best = (f64::NEG_INFINITY, 0.0);
    for pair in values.windows(2) {
        let decision = Decision::new(f32::midpoint(pair[0], pair[1]), answerable, unanswerable);
        let value = weight * decision.found + (1.0 - weight) * decision.held_back;
        if value > best.0 {
            best = (value, decision.threshold);
        }
    }
    best.1
}

/// The area under the receiver operating characteristic: the probability that a query with an answer has more
/// confidence than one without, equal ones counting half. 0.5 where either side is empty.
#[must_use]
pub fn roc_auc(answerable: &[f32], unanswerable: &[f32]) -> f64 {
    let n_pairs = answerable.len() * unanswerable.len();
    if n_pairs == 0 {
        return 0.5;
    }
    let pairs = answerable.iter().flat_map(|a| unanswerable.iter().map(move |u| (a, u)));
    let won: f64 = pairs
        .map(|(a, u)| {
            if a > u {
                1.0
            } else if a == u {
                0.5
            } else {
                0.0
            }
        })
        .sum();
    won / n_pairs as f64
}

/// What the decision is worth when the threshold for each repository is picked on the others: the counts of all of
/// them together, with the mean of their thresholds.
#[must_use]
pub fn cross_validate(repositories: &[RepositoryScores], weight: f64) -> Decision {
    let (mut answerable, mut unanswerable) = (Vec::new(), Vec::new());
    let mut thresholds = Vec::new();
    for left_out in 0..repositories.len() {
        let (mut seen_answerable, mut seen_unanswerable) = (Vec::new(), Vec::new());
        for (number, repository) in repositories.iter().enumerate() {
            if number != left_out {
                seen_answerable.extend(repository.queries.iter().map(|query| query.confidence));
                seen_unanswerable.extend(&repository.unanswerable);
            }
        }
        let threshold = best_threshold(&seen_answerable, &seen_unanswerable, weight);
        thresholds.push(threshold);
        // Distances from a threshold can be pooled, confidences below different ones cannot.
        let repository = &repositories[left_out];
        answerable.extend(repository.queries.iter().map(|query| query.confidence - threshold));
        unanswerable.extend(repository.unanswerable.iter().map(|confidence| confidence - threshold));
    }
    let threshold = thresholds.iter().sum::<f32>() / thresholds.len().max(1) as f32;
    Decision { threshold, ..Decision::new(0.0, &answerable, &unanswerable) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_counts_both_sides() {
        let decision = Decision::new(0.5, &[0.5, 0.9, 0.4], &[0.1, 0.6]);
        assert_eq!((decision.found, decision.held_back), (2.0 / 3.0, 0.5));
        assert!((decision.balanced_accuracy() - 7.0 / 12.0).abs() < 1e-12);
        assert_eq!(Decision::new(0.5, &[], &[]).balanced_accuracy(), 0.0);
    }

    #[test]
    fn the_best_threshold_parts_what_can_be_parted() {
        assert_eq!(best_threshold(&[0.75, 1.0], &[0.25, 0.5], 0.5), 0.625);
        // One unanswerable query is very sure: letting it pass costs less than holding back both others.
        assert_eq!(best_threshold(&[0.75, 1.0], &[0.25, 2.0], 0.5), 0.5);
        assert_eq!(best_threshold(&[], &[], 0.5), 0.0);
    }

    #[test]
    fn auc_is_the_share_of_pairs_in_order() {
        assert_eq!(roc_auc(&[0.9, 0.5], &[0.5, 0.1]), 3.5 / 4.0);
        assert_eq!(roc_auc(&[], &[0.5]), 0.5);
    }
}
