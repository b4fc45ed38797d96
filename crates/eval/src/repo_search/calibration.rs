//! Calibration of the confidence that a search has found something.
//!
//! [`fit`] fits the weights of the evidence, [`cross_validate`] applies them to repositories that were held out,
//! and [`Separation`] measures how well confidences separate questions with an answer from questions without.

use std::collections::BTreeMap;

use quarry_index::Evidence;
use quarry_index::confidence::{FEATURES, Weights};
use quarry_index::question::QuestionKind;
use quarry_metrics::calibration::{Bin, Binning, expected_calibration_error, reliability};
use quarry_metrics::classification;
use quarry_metrics::optimize::logistic;
use serde::Serialize;

/// The share of questions with an answer that must reach a threshold.
pub const KEPT: f64 = 0.95;

/// L2 penalty of [`fit`]: just enough to keep the weights finite if the classes are separable.
const PENALTY: f64 = 1e-5;

/// Upper bounds of the word counts that form a class of descriptions of similar length.
const LENGTHS: [usize; 6] = [3, 5, 7, 9, 11, 14];

const BINS: usize = 10;

/// One search, with the truth about its query.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub repository: usize,
    /// True if the question has an answer in the repository.
    pub answerable: bool,
    /// True if an answer is among the first ten results.
    pub found: bool,
    pub words: usize,
    pub evidence: Evidence,
}

/// A search and the features of its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "ConfidenceSample")]
pub struct SampleFeatures {
    /// Number of the repository.
    pub repository: usize,
    /// Kind of the question.
    pub kind: QuestionKind,
    /// True if the question has an answer in the repository.
    pub answerable: bool,
    /// True if an answer is among the first ten results.
    pub found: bool,
    /// The features of the evidence, in the order of the weights.
    pub evidence: [f32; FEATURES.len()],
}

impl From<&Sample> for SampleFeatures {
    fn from(sample: &Sample) -> Self {
        let Sample { repository, answerable, found, evidence, .. } = *sample;
        Self { repository, kind: evidence.kind, answerable, found, evidence: evidence.features() }
    }
}

impl Sample {
    /// Returns true if the sample belongs to either class. A question whose answer was not found belongs to
    /// neither.
    fn decides(&self) -> bool {
        self.found || !self.answerable
    }
}

/// Separation by confidence of questions whose answer is among the first ten results from questions without one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Separation {
    /// Number of questions whose answer was found.
    pub found: usize,
    /// Number of questions without an answer.
    pub unanswerable: usize,
    /// Area under the ROC curve; 0.5 if either is missing.
    pub roc_auc: f64,
    /// Share of those without an answer below the threshold that keeps 95 % of the found ones.
    pub held_back: f64,
    /// Share of the found ones that reach the threshold in use.
    pub kept_in_use: f64,
    /// Share of those without an answer that do not.
    pub held_back_in_use: f64,
}

impl Separation {
    /// Measures confidences, each paired with whether an answer was found.
    pub fn new(judged: &[(bool, f32)], threshold: f32) -> Self {
        let values = |found: bool| {
            judged.iter().filter(move |(is_found, _)| *is_found == found).map(|(_, value)| *value)
        };
        let mut kept: Vec<f32> = values(true).collect();
        kept.sort_unstable_by(f32::total_cmp);
        let below = |limit: f32, found: bool| values(found).filter(|value| *value < limit).count() as f64;
        let (n_found, n_unanswerable) = (kept.len(), values(false).count());
        let share = |count: f64, values: usize| if values == 0 { 1.0 } else { count / values as f64 };
        // Exactly the permitted losses are below the first value that must be kept.
        let lost = (n_found as f64 * (1.0 - KEPT)).floor() as usize;
        let limit = kept.get(lost).copied().unwrap_or_default();
        let (positive, scores): (Vec<bool>, Vec<f64>) =
            judged.iter().map(|(found, value)| (*found, f64::from(*value))).unzip();
        Self {
            found: n_found,
            unanswerable: n_unanswerable,
            roc_auc: classification::roc_auc(&positive, &scores).unwrap_or(0.5),
            held_back: share(below(limit, false), n_unanswerable),
            kept_in_use: share(n_found as f64 - below(threshold, true), n_found),
            held_back_in_use: share(below(threshold, false), n_unanswerable),
        }
    }
}

/// Confidences measured.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "ConfidenceMeasured")]
pub struct Measured {
    /// All questions.
    pub all: Separation,
    /// The questions of each kind.
    pub kinds: BTreeMap<QuestionKind, Separation>,
    /// Confidences against the share that was found, in bins of equal width.
    pub reliability: Vec<Bin>,
    /// The expected calibration error of these.
    pub calibration_error: f64,
}

impl Measured {
    pub fn new(samples: &[Sample], confidences: &[f32], threshold: f32) -> Self {
        let judged = |kind: Option<QuestionKind>| -> Vec<(bool, f32)> {
            let deciding = samples.iter().zip(confidences).filter(|(sample, _)| sample.decides());
            let of_kind = deciding.filter(|(sample, _)| kind.is_none_or(|kind| sample.evidence.kind == kind));
            of_kind.map(|(sample, confidence)| (sample.answerable, *confidence)).collect()
        };
        let kinds = QuestionKind::ALL.into_iter().map(|kind| (kind, judged(Some(kind))));
        let kinds = kinds.filter(|(_, judged)| !judged.is_empty());
        let all = judged(None);
        let (outcomes, probabilities): (Vec<bool>, Vec<f64>) =
            all.iter().map(|(found, value)| (*found, f64::from(*value))).unzip();
        let reliability = reliability(&probabilities, &outcomes, BINS, Binning::Width);
        Self {
            kinds: kinds.map(|(kind, judged)| (kind, Separation::new(&judged, threshold))).collect(),
            all: Separation::new(&all, threshold),
            calibration_error: expected_calibration_error(&reliability),
            reliability,
        }
    }
}

/// Fits a logistic regression that predicts from the evidence whether there is an answer. Among questions of one
/// kind and of similar length, those with and without an answer have the same total weight, so that neither the
/// kind nor the length is evidence by itself.
pub fn fit<'a>(samples: impl Iterator<Item = &'a Sample>) -> Weights {
    let mut groups = BTreeMap::<(QuestionKind, usize), [Vec<&Sample>; 2]>::new();
    for sample in samples.filter(|sample| sample.decides()) {
        let kind = sample.evidence.kind;
        let length = match kind {
            QuestionKind::Description => LENGTHS.partition_point(|end| *end < sample.words),
            _ => 0,
        };
        groups.entry((kind, length)).or_default()[usize::from(sample.answerable)].push(sample);
    }
    groups.retain(|_, classes| classes.iter().all(|class| !class.is_empty()));
    let total: usize = groups.values().flatten().map(Vec::len).sum();
    let mut rows = Vec::with_capacity(total);
    for classes in groups.values() {
        let half = classes.iter().map(Vec::len).sum::<usize>() as f64 / total as f64 / 2.0;
        for (label, class) in [0.0, 1.0].into_iter().zip(classes) {
            rows.extend(class.iter().map(|sample| {
                let mut inputs = [1.0; FEATURES.len() + 1];
                inputs
                    .iter_mut()
                    .zip(sample.evidence.features())
                    .for_each(|(input, value)| *input = f64::from(value));
                (inputs, label, half / class.len() as f64)
            }));
        }
    }
    let found = logistic(&rows, &[PENALTY; FEATURES.len() + 1]).map(|weight| weight as f32);
    Weights { intercept: found[FEATURES.len()], features: std::array::from_fn(|at| found[at]) }
}

/// The confidence of each sample by weights that were fitted without its repository.
pub fn cross_validate(samples: &[Sample]) -> Vec<f32> {
    let mut fitted = BTreeMap::<usize, Weights>::new();
    for Sample { repository, .. } in samples {
        fitted
            .entry(*repository)
            .or_insert_with(|| fit(samples.iter().filter(|sample| sample.repository != *repository)));
    }
    samples.iter().map(|sample| fitted[&sample.repository].confidence(&sample.evidence)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUDGED: [(bool, f32); 6] =
        [(true, 0.9), (true, 0.5), (true, 0.7), (false, 0.5), (false, 0.1), (false, 0.4)];

    fn sample(repository: usize, answerable: bool, matched: f32) -> Sample {
        let evidence = Evidence { matched, share: 1.0, lead: 1.0, ..Evidence::default() };
        Sample { repository, answerable, found: answerable, words: 4, evidence }
    }

    #[test]
    fn a_separation_counts_both_classes() {
        let found = Separation::new(&JUDGED, 0.6);
        assert_eq!((found.found, found.unanswerable), (3, 3));
        assert_eq!(found.roc_auc, 8.5 / 9.0);
        assert_eq!((found.kept_in_use, found.held_back_in_use), (2.0 / 3.0, 1.0));
        // All three must be kept, and one without an answer is as confident as the least confident of them.
        assert_eq!(found.held_back, 2.0 / 3.0);
        assert_eq!(Separation::new(&[], 0.5).held_back, 1.0);
    }

    #[test]
    fn one_in_twenty_may_be_lost() {
        let mut judged: Vec<(bool, f32)> = (0..20).map(|number| (true, number as f32)).collect();
        judged.push((false, 0.5));
        assert_eq!(Separation::new(&judged, 0.0).held_back, 1.0);
        judged.remove(19);
        assert_eq!(Separation::new(&judged, 0.0).held_back, 0.0);
    }

    #[test]
    fn a_fit_gives_the_frequencies_of_what_it_was_fitted_to() {
        // Three of four are on the right side.
        let samples = [(true, 0.8), (false, 0.2)].into_iter().flat_map(|(answerable, matched)| {
            [matched, matched, matched, 1.0 - matched].map(|m| sample(0, answerable, m))
        });
        let samples: Vec<Sample> = samples.collect();
        let weights = fit(samples.iter());
        for (matched, expected) in [(0.8, 0.75), (0.2, 0.25)] {
            let found = weights.confidence(&sample(0, true, matched).evidence);
            assert!((found - expected).abs() < 1e-2, "{matched}: {found}");
        }
    }

    #[test]
    fn the_length_of_a_question_is_no_evidence() {
        // Long questions mostly have an answer, short ones mostly do not, and all look alike.
        let sampled = |answerable, words| Sample { words, ..sample(0, answerable, words as f32 / 10.0) };
        let mut samples = vec![sampled(true, 3), sampled(false, 10)];
        samples.extend((0..9).flat_map(|_| [sampled(true, 10), sampled(false, 3)]));
        let weights = fit(samples.iter());
        assert!(weights.features[0].abs() < 1e-2, "{weights:?}");
    }

    #[test]
    fn questions_whose_answer_is_not_found_decide_nothing() {
        let lost = Sample { found: false, ..sample(0, true, 0.1) };
        let samples = [sample(0, true, 0.9), sample(0, false, 0.1)];
        let with = [samples[0].clone(), samples[1].clone(), lost];
        assert_eq!(fit(with.iter()), fit(samples.iter()));
        assert_eq!(Measured::new(&with, &[0.9, 0.1, 0.1], 0.5), Measured::new(&samples, &[0.9, 0.1], 0.5));
    }

    #[test]
    fn a_repository_is_judged_by_what_the_others_say() {
        // In the first two, more of the words are found if there is an answer; in the last it is the other way
        // around.
        let mut samples: Vec<Sample> = (0..2)
            .flat_map(|repository| {
                [(true, 0.8), (true, 0.7), (false, 0.2)].map(|(a, m)| sample(repository, a, m))
            })
            .collect();
        samples.extend([sample(2, true, 0.1), sample(2, false, 0.9)]);
        let confidences = cross_validate(&samples);
        assert!(confidences[6] < 0.5 && confidences[7] > 0.5, "{confidences:?}");
    }
}
