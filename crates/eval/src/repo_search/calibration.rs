//! Calibration of the confidence that a search has found something.
//!
//! Two kinds of questions have no answer: those that were written to have none, which are few and close to what the
//! repository does, and those of other repositories, which are many and occasionally do have one. [`fit`] chooses the
//! weights of evidence, [`best_threshold`] the threshold, and [`cross_validate`] measures both on repositories that
//! neither was chosen on.

use quarry_index::Evidence;
use quarry_index::confidence::Weights;
use serde::Serialize;

use quarry_metrics::classification;
use quarry_metrics::optimize::logistic;

/// Weight of answerable questions against unanswerable ones, out of 1: wrongly reporting that nothing was found costs
/// more than showing results. Both kinds of unanswerable questions have the same weight.
const FOUND_WEIGHT: f64 = 0.75;

/// L2 penalty of [`fit`]: just enough to keep the weights finite if the classes are separable.
const PENALTY: f64 = 1e-6;

/// Whether a query has an answer in the searched repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It has an answer.
    Answerable,
    /// It was written to have none.
    Unanswerable,
    /// It is about another repository.
    Elsewhere,
}

const KINDS: [Kind; 3] = [Kind::Answerable, Kind::Unanswerable, Kind::Elsewhere];

/// One search, with the truth about its query.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Number of the repository that was searched.
    pub searched: usize,
    /// Number of the repository that the question is about.
    pub about: usize,
    /// Whether the question has an answer there.
    pub answerable: bool,
    /// 1-based rank of the first answer among the first ten results; `None` if it is not among them.
    pub rank: Option<usize>,
    /// Evidence of the search.
    pub evidence: Evidence,
}

impl Sample {
    /// Whether the query has an answer in the searched repository.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match (self.searched == self.about, self.answerable) {
            (true, true) => Kind::Answerable,
            (true, false) => Kind::Unanswerable,
            (false, _) => Kind::Elsewhere,
        }
    }
}

/// The share of correct decisions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Share {
    /// Number of queries.
    pub queries: usize,
    /// Share of them with a correct decision, 0 to 1; 1 without queries.
    pub right: f64,
}

/// The shares of correct decisions with a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Decision {
    /// Minimum confidence that counts as found.
    pub threshold: f32,
    /// Correct if found.
    pub answerable: Share,
    /// Correct if not found.
    pub unanswerable: Share,
    /// Correct if not found.
    pub elsewhere: Share,
}

impl Decision {
    /// Evaluates a threshold on these confidences.
    #[must_use]
    pub fn new(threshold: f32, judged: &[(Kind, f32)]) -> Self {
        let [answerable, unanswerable, elsewhere] = KINDS.map(|kind| {
            let of_kind = || judged.iter().filter(|(other, _)| *other == kind);
            let queries = of_kind().count();
            let found = of_kind().filter(|(_, confidence)| *confidence >= threshold).count();
            let right = if kind == Kind::Answerable { found } else { queries - found };
            Share { queries, right: if queries == 0 { 1.0 } else { right as f64 / queries as f64 } }
        });
        Self { threshold, answerable, unanswerable, elsewhere }
    }

    /// The weighted share of correct decisions.
    fn value(&self) -> f64 {
        let held_back = f64::midpoint(self.unanswerable.right, self.elsewhere.right);
        FOUND_WEIGHT * self.answerable.right + (1.0 - FOUND_WEIGHT) * held_back
    }
}

/// The threshold whose decision has the highest value (weights: three quarters for answerable questions, an eighth
/// for each kind of unanswerable ones) among the hundredths from 0 to 1; the lowest of ties.
#[must_use]
pub fn best_threshold(judged: &[(Kind, f32)]) -> f32 {
    let decisions = (0..=100_u8).map(|hundredths| Decision::new(f32::from(hundredths) / 100.0, judged));
    let better = |best: Decision, next: Decision| if next.value() > best.value() { next } else { best };
    decisions.reduce(better).map_or(0.0, |best| best.threshold)
}

/// The logistic regression of whether the answer is among the first ten results, on evidence. Answerable questions
/// whose answer is not among them are left out: the search did not find them, but they are not unanswerable either.
/// Found ones have the same total weight as the two kinds of unanswerable questions together, which have equal
/// weights. Without a model, the weight of cosines stays 0.
#[must_use]
pub fn fit<'a>(samples: impl Iterator<Item = &'a Sample> + Clone) -> Weights {
    let known = samples.filter(|sample| sample.kind() != Kind::Answerable || sample.rank.is_some());
    let counts = KINDS.map(|kind| known.clone().filter(|sample| sample.kind() == kind).count() as f64);
    let rows: Vec<([f64; 5], f64, f64)> = known
        .map(|sample| {
            let Evidence { dense, coverage, known, .. } = sample.evidence;
            let inputs = [dense.unwrap_or_default(), coverage, known, sample.evidence.log_share(), 1.0];
            let (label, weight) = match sample.kind() {
                Kind::Answerable => (1.0, 1.0 / counts[0]),
                Kind::Unanswerable => (0.0, 0.5 / counts[1]),
                Kind::Elsewhere => (0.0, 0.5 / counts[2]),
            };
            (inputs.map(f64::from), label, weight)
        })
        .collect();
    let [dense, coverage, known, share, intercept] =
        logistic(&rows, &[PENALTY; 5]).map(|weight| weight as f32);
    Weights { dense, coverage, known, share, intercept }
}

/// The area under the ROC curve of confidences between answerable questions whose answer is first and those whose
/// answer is not among the first ten results; 0.5 if either class is empty.
#[must_use]
pub fn first_roc_auc<'a>(confidences: impl Iterator<Item = (&'a Sample, f32)>) -> f64 {
    let compared = confidences
        .filter(|(sample, _)| sample.kind() == Kind::Answerable && matches!(sample.rank, None | Some(1)));
    let (positive, scores): (Vec<bool>, Vec<f64>) =
        compared.map(|(sample, confidence)| (sample.rank.is_some(), f64::from(confidence))).unzip();
    classification::roc_auc(&positive, &scores).unwrap_or(0.5)
}

/// Confidences with given weights.
#[must_use]
pub fn judge<'a>(weights: &Weights, samples: impl Iterator<Item = &'a Sample>) -> Vec<(Kind, f32)> {
    samples.map(|sample| (sample.kind(), weights.confidence(&sample.evidence))).collect()
}

/// [`classification::roc_auc`] of the confidences of answerable queries against those of `kind`; 0.5 if either class
/// is empty.
#[must_use]
pub fn roc_auc(judged: &[(Kind, f32)], kind: Kind) -> f64 {
    let compared = judged.iter().filter(|(other, _)| *other == Kind::Answerable || *other == kind);
    let (positive, scores): (Vec<bool>, Vec<f64>) =
        compared.map(|(kind, confidence)| (*kind == Kind::Answerable, f64::from(*confidence))).unzip();
    classification::roc_auc(&positive, &scores).unwrap_or(0.5)
}

/// The decisions when weights and threshold for each of `n_repositories` are fitted on samples without this
/// repository: all decisions together, with the mean of the thresholds; and [`first_roc_auc`] of them all.
#[must_use]
pub fn cross_validate(samples: &[Sample], n_repositories: usize) -> (Decision, f64) {
    let mut margins = Vec::new();
    let mut thresholds = 0.0;
    for left_out in 0..n_repositories {
        let others = samples.iter().filter(|sample| sample.searched != left_out && sample.about != left_out);
        let weights = fit(others.clone());
        let threshold = best_threshold(&judge(&weights, others));
        thresholds += threshold;
        let own = samples.iter().filter(|sample| sample.searched == left_out);
        // Distances from a threshold can be pooled; confidences with different thresholds cannot.
        margins.extend(own.map(|sample| (sample, weights.confidence(&sample.evidence) - threshold)));
    }
    let judged: Vec<(Kind, f32)> = margins.iter().map(|(sample, margin)| (sample.kind(), *margin)).collect();
    let threshold = thresholds / n_repositories.max(1) as f32;
    (Decision { threshold, ..Decision::new(0.0, &judged) }, first_roc_auc(margins.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUDGED: [(Kind, f32); 6] = [
        (Kind::Answerable, 0.9),
        (Kind::Answerable, 0.5),
        (Kind::Answerable, 0.7),
        (Kind::Unanswerable, 0.5),
        (Kind::Unanswerable, 0.1),
        (Kind::Elsewhere, 0.4),
    ];

    fn sample(about: usize, answerable: bool, share: f32) -> Sample {
        let evidence = Evidence { dense: None, coverage: share, known: share, share: 1.0 };
        Sample { searched: 0, about, answerable, rank: (about == 0 && answerable).then_some(1), evidence }
    }

    #[test]
    fn a_decision_counts_every_kind() {
        let decision = Decision::new(0.5, &JUDGED);
        assert_eq!(decision.answerable, Share { queries: 3, right: 1.0 });
        assert_eq!(decision.unanswerable, Share { queries: 2, right: 0.5 });
        assert_eq!(decision.elsewhere, Share { queries: 1, right: 1.0 });
        assert_eq!(Decision::new(0.5, &[]).answerable, Share { queries: 0, right: 1.0 });
    }

    #[test]
    fn the_best_threshold_parts_what_can_be_parted() {
        assert_eq!(best_threshold(&JUDGED), 0.41);
        let parted = [(Kind::Answerable, 0.75), (Kind::Unanswerable, 0.25), (Kind::Elsewhere, 0.3)];
        assert_eq!(best_threshold(&parted), 0.31);
    }

    #[test]
    fn auc_is_the_share_of_pairs_in_order() {
        assert_eq!(roc_auc(&JUDGED, Kind::Unanswerable), 5.5 / 6.0);
        assert_eq!(roc_auc(&JUDGED, Kind::Elsewhere), 1.0);
        assert_eq!(roc_auc(&[], Kind::Elsewhere), 0.5);
    }

    #[test]
    fn answers_that_come_first_are_compared_with_those_that_are_not_found() {
        let of = |rank, answerable| Sample { rank, ..sample(0, answerable, 0.5) };
        let samples =
            [of(Some(1), true), of(Some(1), true), of(None, true), of(Some(4), true), of(None, false)];
        let auc = |confidences: [f32; 5]| first_roc_auc(samples.iter().zip(confidences));
        assert_eq!(auc([0.9, 0.3, 0.5, 0.0, 1.0]), 0.5);
        assert_eq!(auc([0.9, 0.8, 0.5, 1.0, 1.0]), 1.0);
    }

    #[test]
    fn a_fit_gives_the_frequencies_of_what_it_was_fitted_to() {
        // With half of the weight at 0.2 and half at 0.8, and three of four on the right side.
        let samples = [
            sample(0, true, 0.8),
            sample(0, true, 0.8),
            sample(0, true, 0.8),
            sample(0, true, 0.2),
            sample(0, false, 0.2),
            sample(0, false, 0.2),
            sample(0, false, 0.2),
            sample(0, false, 0.8),
            sample(1, true, 0.2),
            sample(1, true, 0.2),
            sample(1, true, 0.2),
            sample(1, true, 0.8),
        ];
        let weights = fit(samples.iter());
        assert_eq!(weights.dense, 0.0);
        for (share, expected) in [(0.8, 0.75), (0.2, 0.25)] {
            let found = weights.confidence(&sample(0, true, share).evidence);
            assert!((found - expected).abs() < 1e-3, "{share}: {found}");
        }
    }

    #[test]
    fn a_repository_is_judged_by_what_the_others_say() {
        let of = |searched, sample: Sample| Sample { searched, about: sample.about + searched, ..sample };
        let samples: Vec<Sample> = (0..3)
            .flat_map(|searched| {
                [(0, true, 0.8), (0, true, 0.7), (0, false, 0.2), (1, true, 0.1)]
                    .map(|(about, answerable, share)| of(searched, sample(about, answerable, share)))
            })
            .collect();
        let (decision, first_roc_auc) = cross_validate(&samples, 3);
        // All six answers are first, so there is nothing to compare.
        assert_eq!(first_roc_auc, 0.5);
        assert_eq!(decision.answerable, Share { queries: 6, right: 1.0 });
        assert_eq!((decision.unanswerable.right, decision.elsewhere.right), (1.0, 1.0));
    }
}
