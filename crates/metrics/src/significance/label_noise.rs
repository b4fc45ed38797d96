//! Intervals that include the errors of labels.
//!
//! A judge errs, by a calibration, with known rates in each stratum of pairs, whatever methods rank: given the truth, its
//! errors do not depend on ranks. How likely a document with a label is relevant then follows from its ranks and from the
//! other labels of its query (by a logistic regression), and from both rates, by Bayes' rule. Each resample draws queries,
//! rates (from their posteriors) and labels together, so that its means vary as much as those of new queries whose labels
//! have such errors.

use super::bootstrap::{Bootstrap, Interval, interval};
use crate::optimize::minimize;
use crate::rank::Gain;
use crate::ranking::{Hit, Ranking};
use crate::{Measure, MetricsError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The labels of a judge against the truth, in a stratum of pairs: numbers of pairs, which may be weighted.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(deny_unknown_fields)]
pub struct Confusion {
    /// Pairs that answer, labeled so.
    pub true_positives: f64,
    /// Pairs that do not answer, labeled as if they did.
    pub false_positives: f64,
    /// Pairs that answer, labeled as if they did not.
    pub false_negatives: f64,
    /// Pairs that do not answer, labeled so.
    pub true_negatives: f64,
}

impl Confusion {
    /// Adds a pair.
    pub fn add(&mut self, label: bool, truth: bool) {
        *match (label, truth) {
            (true, true) => &mut self.true_positives,
            (true, false) => &mut self.false_positives,
            (false, true) => &mut self.false_negatives,
            (false, false) => &mut self.true_negatives,
        } += 1.0;
    }

    /// The same number of pairs with as large a share labeled as answers as among all that the judge labeled: people may have
    /// been given more of some labels than of others.
    #[must_use]
    pub fn with_share(self, positive: f64) -> Self {
        let Self { true_positives, false_positives, false_negatives, true_negatives } = self;
        let [yes, no] = [true_positives + false_positives, false_negatives + true_negatives];
        let weight = |share: f64, n: f64| if n > 0.0 { share * (yes + no) / n } else { 1.0 };
        let [of_yes, of_no] = [weight(positive, yes), weight(1.0 - positive, no)];
        Self {
            true_positives: true_positives * of_yes,
            false_positives: false_positives * of_yes,
            false_negatives: false_negatives * of_no,
            true_negatives: true_negatives * of_no,
        }
    }

    /// The sum of several.
    pub fn sum<'a>(confusions: impl IntoIterator<Item = &'a Self>) -> Self {
        confusions.into_iter().fold(Self::default(), |sum, other| Self {
            true_positives: sum.true_positives + other.true_positives,
            false_positives: sum.false_positives + other.false_positives,
            false_negatives: sum.false_negatives + other.false_negatives,
            true_negatives: sum.true_negatives + other.true_negatives,
        })
    }

    /// Shares of the pairs that answer, and of the others, that are labeled as answers, drawn from their posteriors (with
    /// Jeffreys' prior). The first is kept above the second: labels are not worse than chance.
    fn draw(&self, random: &mut fastrand::Rng) -> [f64; 2] {
        self.rates_by(|hits, misses| beta(hits, misses, random))
    }

    /// The means of these posteriors.
    fn rates(&self) -> [f64; 2] {
        self.rates_by(|hits, misses| hits / (hits + misses))
    }

    fn rates_by(&self, mut rate: impl FnMut(f64, f64) -> f64) -> [f64; 2] {
        let mut smoothed = |hits: f64, misses: f64| rate(hits.max(0.0) + 0.5, misses.max(0.0) + 0.5);
        let sensitivity = smoothed(self.true_positives, self.false_negatives);
        let fallout = smoothed(self.false_positives, self.true_negatives).min(1.0 - LEAST_GAP);
        [sensitivity.max(fallout + LEAST_GAP), fallout]
    }
}

/// Error rates of a judge, by a calibration, in strata of the pairs that it labeled.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelErrors {
    /// The judge.
    pub judge: String,
    /// The reference labels.
    pub truth: String,
    /// Labels against the truth, by the name of the stratum.
    pub strata: BTreeMap<String, Confusion>,
    /// The stratum of each labeled pair, by the ids of query and code.
    pub pairs: BTreeMap<String, BTreeMap<String, String>>,
}

impl LabelErrors {
    /// The confusions of the strata in the order of their names, then that of all together.
    pub fn confusions(&self) -> Vec<Confusion> {
        self.strata.values().copied().chain([Confusion::sum(self.strata.values())]).collect()
    }

    /// The number of a pair's stratum among [`LabelErrors::confusions`]; the last one if its stratum is not known.
    pub fn stratum(&self, query: &str, code: &str) -> usize {
        let name = self.pairs.get(query).and_then(|codes| codes.get(code));
        let position = name.and_then(|name| self.strata.keys().position(|known| known == name));
        position.unwrap_or(self.strata.len())
    }
}

/// Least difference between the rates of positive labels of what answers and of what does not.
const LEAST_GAP: f64 = 0.05;

#[derive(Debug, Clone, PartialEq)]
pub struct NoisyLabel {
    /// Its grade; 1 or more if it was labeled as an answer.
    pub grade: i32,
    /// Number of its stratum among the confusions.
    pub stratum: usize,
    /// Its rank by each method, from 1.
    pub ranks: Vec<usize>,
}

/// Means of a measure over resamples, one list per method, of equal lengths.
#[derive(Debug, Clone, PartialEq)]
pub struct NoisyMeans {
    means: Vec<Vec<f64>>,
    confidence: f64,
}

/// The difference between two methods with label noise removed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct NoisyDifference {
    /// Mean difference, with the expected errors of labels removed.
    pub difference: f64,
    /// Interval of the difference.
    pub interval: Interval,
    /// Share of the resamples in which the order of both is that of their plain means.
    pub kept: f64,
    /// True if the interval is on the side of the plain difference: the order survives.
    pub survives: bool,
}

/// Maximum number of resamples: each draws all labels several times.
const MAX_RESAMPLES: usize = 1_000;
/// Draws of the labels of a query in a resample, of which the mean counts: what a query's mean owes to chance alone is not
/// part of what new queries would change.
const DRAWS: usize = 4;

/// Resamples means over queries, which are lists of their judged documents; documents that nobody judged are taken as not
/// relevant. With `only_answered`, queries without a relevant document do not count, as in most protocols. One entry per
/// measure.
///
/// # Errors
/// Without queries, methods or a confusion, or if a document has another number of ranks or a stratum without a confusion.
pub fn noisy_means(
    queries: &[Vec<NoisyLabel>],
    confusions: &[Confusion],
    measures: &[Measure],
    only_answered: bool,
    bootstrap: &Bootstrap,
) -> Result<Vec<NoisyMeans>, MetricsError> {
    let labels = || queries.iter().flatten();
    let n_methods = labels().next().map_or(0, |label| label.ranks.len());
    if n_methods == 0 || confusions.is_empty() {
        return Err(MetricsError::NoQueries { remedy: "check that queries and judgments belong together" });
    }
    if labels().any(|label| label.ranks.len() != n_methods || label.stratum >= confusions.len()) {
        return Err(MetricsError::Values { found: "different numbers of methods or strata".into() });
    }
    let prepare = |labels: &Vec<NoisyLabel>| {
        PreparedQuery::new(&labels.iter().map(|label| label.ranks.as_slice()).collect::<Vec<_>>())
    };
    let prepared: Vec<PreparedQuery> = queries.iter().map(prepare).collect();
    let inputs = Inputs::new(queries.iter().map(|labels| {
        labels.iter().map(|label| (Some(label.grade > 0), label.stratum, label.ranks.as_slice())).collect()
    }));
    let expected: Vec<[f64; 2]> = confusions.iter().map(Confusion::rates).collect();
    let start = inputs.fit(&expected, &vec![1; queries.len()], None);
    let mut random = fastrand::Rng::with_seed(bootstrap.seed);
    let n_resamples = bootstrap.resamples.clamp(1, MAX_RESAMPLES);
    let mut means = vec![vec![Vec::with_capacity(n_resamples); n_methods]; measures.len()];
    for _ in 0..n_resamples {
        let rates: Vec<[f64; 2]> = confusions.iter().map(|confusion| confusion.draw(&mut random)).collect();
        let drawn: Vec<usize> = queries.iter().map(|_| random.u64(..queries.len() as u64) as usize).collect();
        let mut times = vec![0; queries.len()];
        drawn.iter().for_each(|query| times[*query] += 1);
        let weights = inputs.fit(&rates, &times, Some(&start));
        let (mut sums, mut weight) = (vec![vec![0.0; n_methods]; measures.len()], 0.0);
        for query in drawn {
            let chances: Vec<f64> = queries[query]
                .iter()
                .zip(inputs.priors(query, &weights))
                .map(|(label, prior)| posterior(label.grade > 0, prior, rates[label.stratum]))
                .collect();
            for _ in 0..DRAWS {
                let grades: Vec<i32> = queries[query]
                    .iter()
                    .zip(&chances)
                    .map(|(label, chance)| if random.f64() < *chance { label.grade.max(1) } else { 0 })
                    .collect();
                if only_answered && grades.iter().all(|grade| *grade < 1) {
                    continue;
                }
                weight += 1.0;
                for (method, order) in prepared[query].0.iter().enumerate() {
                    let ranking = order.graded(&grades);
                    for (sums, measure) in sums.iter_mut().zip(measures) {
                        sums[method] += measure.value(&ranking, &grades, Gain::Linear);
                    }
                }
            }
        }
        // A resample in which no query has an answer has no mean.
        let is_defined = weight > 0.0;
        for (means, sum) in means.iter_mut().flatten().zip(sums.into_iter().flatten()) {
            means.push(if is_defined { sum / weight } else { 0.0 });
        }
    }
    Ok(means.into_iter().map(|means| NoisyMeans { means, confidence: bootstrap.confidence }).collect())
}

impl NoisyMeans {
    /// The mean of a method with the expected errors of labels removed, and its interval.
    pub fn mean(&self, method: usize) -> (f64, Interval) {
        let means = &self.means[method];
        (means.iter().sum::<f64>() / means.len() as f64, interval(means.clone(), self.confidence))
    }

    /// The difference of the second from the first, `plain` being that of the labels as they are.
    pub fn difference(&self, first: usize, second: usize, plain: f64) -> NoisyDifference {
        let differences: Vec<f64> =
            self.means[first].iter().zip(&self.means[second]).map(|(a, b)| b - a).collect();
        let n = differences.len() as f64;
        let is_kept = |difference: &&f64| **difference * plain > 0.0;
        let found = interval(differences.clone(), self.confidence);
        NoisyDifference {
            difference: differences.iter().sum::<f64>() / n,
            kept: differences.iter().filter(is_kept).count() as f64 / n,
            survives: plain > 0.0 && found.low > 0.0 || plain < 0.0 && found.high < 0.0,
            interval: found,
        }
    }
}

/// A query's judged documents in the order of each method.
#[derive(Debug)]
pub(super) struct PreparedQuery(pub(super) Vec<OrderedDocuments>);

/// The documents of a query in the order of a method: rank, and number among the query's labels.
#[derive(Debug)]
pub(super) struct OrderedDocuments(Vec<(usize, usize)>);

impl PreparedQuery {
    /// Of the ranks of its documents by each method.
    pub(super) fn new(ranks: &[&[usize]]) -> Self {
        let n_methods = ranks.first().map_or(0, |ranks| ranks.len());
        let ordered = |method: usize| {
            let mut order: Vec<(usize, usize)> =
                ranks.iter().enumerate().map(|(number, ranks)| (ranks[method], number)).collect();
            order.sort_unstable();
            OrderedDocuments(order)
        };
        Self((0..n_methods).map(ordered).collect())
    }
}

impl OrderedDocuments {
    pub(super) fn graded(&self, grades: &[i32]) -> Ranking {
        let hits: Vec<Hit> = self.0.iter().map(|(rank, number)| Hit::new(*rank, grades[*number])).collect();
        let n_documents = hits.last().map_or(0, |hit| hit.rank);
        Ranking { hits, n_documents }
    }
}

/// A label if there is one, a stratum, and inputs of a logistic regression.
type Row = (Option<bool>, usize, Vec<f64>);

/// Predictors of relevance: ranks of documents, and the other labels of their queries.
pub(super) struct Inputs {
    /// By query and document: the label if there is one, the stratum, and inputs of a logistic regression.
    rows: Vec<Vec<Row>>,
}

/// Weight decay, which makes the solution unique.
const DECAY: f64 = 1e-3;
/// Least probability of a label, so that no label is impossible.
const LEAST: f64 = 1e-9;

impl Inputs {
    /// Of documents with their labels if they have one, strata, and ranks by each method.
    pub(super) fn new<'l>(queries: impl Iterator<Item = Vec<(Option<bool>, usize, &'l [usize])>>) -> Self {
        let rows = queries.map(|documents| {
            let n_labeled = documents.iter().filter(|(label, ..)| label.is_some()).count();
            let n_positive = documents.iter().filter(|(label, ..)| *label == Some(true)).count();
            let rows = documents.into_iter().map(|(label, stratum, ranks)| {
                let positive = (n_positive - usize::from(label == Some(true))) as f64;
                let others = (n_labeled - usize::from(label.is_some())) as f64;
                let odds = ((positive + 0.5) / (others - positive + 0.5)).ln();
                let ranks = ranks.iter().map(|rank| (*rank as f64).ln());
                (label, stratum, [1.0, odds, odds * odds / 4.0].into_iter().chain(ranks).collect())
            });
            rows.collect()
        });
        Self { rows: rows.collect() }
    }

    /// The most likely weights if labels err by `rates`, each query counting as often as `times` says, from `start`.
    pub(super) fn fit(&self, rates: &[[f64; 2]], times: &[usize], start: Option<&[f64]>) -> Vec<f64> {
        let n_inputs = self.rows.iter().flatten().next().map_or(0, |(_, _, inputs)| inputs.len());
        let labeled: Vec<(f64, bool, [f64; 2], &Vec<f64>)> = (self.rows.iter().zip(times))
            .filter(|(_, times)| **times > 0)
            .flat_map(|(rows, times)| {
                rows.iter().filter_map(|(label, stratum, inputs)| {
                    Some((*times as f64, (*label)?, rates[*stratum], inputs))
                })
            })
            .collect();
        let n_rows = labeled.iter().map(|(times, ..)| times).sum::<f64>().max(1.0);
        let start = start.map_or_else(|| vec![0.0; n_inputs], <[f64]>::to_vec);
        minimize(start, |weights| {
            let mut value = 0.0;
            let mut gradient = vec![0.0; n_inputs];
            for (times, label, [sensitivity, fallout], inputs) in &labeled {
                let relevant = sigmoid(dot(inputs, weights));
                let positive = (fallout + (sensitivity - fallout) * relevant).clamp(LEAST, 1.0 - LEAST);
                value -= times / n_rows * if *label { positive.ln() } else { (1.0 - positive).ln() };
                let error = (positive - f64::from(u8::from(*label))) / (positive * (1.0 - positive));
                let slope = times / n_rows * error * (sensitivity - fallout) * relevant * (1.0 - relevant);
                gradient.iter_mut().zip(*inputs).for_each(|(sum, input)| *sum += slope * input);
            }
            // Not of the intercept.
            for (sum, weight) in gradient.iter_mut().zip(weights).skip(1) {
                value += DECAY * weight * weight / 2.0;
                *sum += DECAY * weight;
            }
            (value, gradient)
        })
    }

    /// The probabilities that the documents of a query are relevant, by weights alone.
    pub(super) fn priors(&self, query: usize, weights: &[f64]) -> impl Iterator<Item = f64> {
        self.rows[query].iter().map(|(_, _, inputs)| sigmoid(dot(inputs, weights)))
    }
}

/// The probability that a document is relevant, by its label, its probability before there was a label, and the rates of
/// positive labels of relevant documents and of others.
fn posterior(label: bool, prior: f64, [sensitivity, fallout]: [f64; 2]) -> f64 {
    let (if_relevant, if_not) =
        if label { (sensitivity, fallout) } else { (1.0 - sensitivity, 1.0 - fallout) };
    let relevant = prior * if_relevant;
    relevant / (relevant + (1.0 - prior) * if_not).max(LEAST)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// A draw of the beta distribution, of two draws of the gamma distribution.
fn beta(a: f64, b: f64, random: &mut fastrand::Rng) -> f64 {
    let (a, b) = (gamma(a, random), gamma(b, random));
    a / (a + b)
}

/// A draw of the gamma distribution (Marsaglia and Tsang, *A Simple Method for Generating Gamma Variables*, 2000).
fn gamma(shape: f64, random: &mut fastrand::Rng) -> f64 {
    if shape < 1.0 {
        let boost = (1.0 - random.f64()).powf(1.0 / shape);
        return gamma(shape + 1.0, random) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        // A standard normal (Box and Muller, 1958).
        let (u, v) = (1.0 - random.f64(), random.f64());
        let x = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        let cube = (1.0 + c * x).powi(3);
        if cube > 0.0 && (1.0 - random.f64()).ln() < 0.5 * x * x + d - d * cube + d * cube.ln() {
            return d * cube;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_of_the_beta_distribution_have_its_mean_and_deviation() {
        let mut random = fastrand::Rng::with_seed(1);
        for (a, b) in [(0.5, 0.5), (90.5, 10.5), (3.5, 0.5)] {
            let draws: Vec<f64> = (0..20_000).map(|_| beta(a, b, &mut random)).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
            let expected = a * b / ((a + b).powi(2) * (a + b + 1.0));
            assert!((mean - a / (a + b)).abs() < 0.01, "{a} {b} {mean}");
            assert!((variance / expected - 1.0).abs() < 0.05, "{a} {b} {variance} {expected}");
        }
    }

    #[test]
    fn a_judge_that_never_errs_changes_nothing() {
        let label = |grade: i32, ranks: [usize; 2]| NoisyLabel { grade, stratum: 0, ranks: ranks.to_vec() };
        let queries: Vec<Vec<NoisyLabel>> = (0..40)
            .map(|query| vec![label(1, [1 + query % 3, 2]), label(0, [4, 1]), label(0, [5, 3])])
            .collect();
        let perfect = Confusion { true_positives: 1e5, true_negatives: 1e5, ..Confusion::default() };
        let bootstrap = Bootstrap { resamples: 200, ..Bootstrap::default() };
        let measures = [Measure::ReciprocalRank(None)];
        let means = &noisy_means(&queries, &[perfect], &measures, true, &bootstrap).unwrap()[0];
        let plain = (14.0 + 13.0 / 2.0 + 13.0 / 3.0) / 40.0;
        let (mean, interval) = means.mean(0);
        assert!(
            (mean - plain).abs() < 0.02 && interval.low < plain && plain < interval.high,
            "{mean} {plain}"
        );
        let difference = means.difference(0, 1, 0.5 - plain);
        assert!(difference.survives && difference.kept == 1.0, "{difference:?}");
        // One that errs often leaves less certain which is better.
        let poor = Confusion {
            true_positives: 12.0,
            false_negatives: 8.0,
            false_positives: 8.0,
            true_negatives: 12.0,
        };
        let mut random = fastrand::Rng::with_seed(1);
        let mut mislabel = |mut label: NoisyLabel| {
            label.grade ^= i32::from(random.f64() < 0.4);
            label
        };
        let queries: Vec<Vec<NoisyLabel>> =
            queries.into_iter().map(|labels| labels.into_iter().map(&mut mislabel).collect()).collect();
        let means = &noisy_means(&queries, &[poor], &measures, true, &bootstrap).unwrap()[0];
        assert!(!means.difference(0, 1, 0.5 - plain).survives);
        let wide = means.mean(0).1;
        assert!(wide.high - wide.low > 1.5 * (interval.high - interval.low), "{wide:?} {interval:?}");
    }

    #[test]
    fn a_sample_with_more_of_one_label_is_weighted() {
        // Of 1,000 pairs 100 are labeled as answers; people were given 50 of each label.
        let sample = Confusion {
            true_positives: 45.0,
            false_positives: 5.0,
            false_negatives: 2.0,
            true_negatives: 48.0,
        };
        let weighted = sample.with_share(0.1);
        let [sensitivity, fallout] = [
            weighted.true_positives / (weighted.true_positives + weighted.false_negatives),
            weighted.false_positives / (weighted.false_positives + weighted.true_negatives),
        ];
        // Of all: 90 of 90 + 36 that answer are found, and 10 of 10 + 864 others labeled.
        assert!((sensitivity - 90.0 / 126.0).abs() < 1e-12 && (fallout - 10.0 / 874.0).abs() < 1e-12);
    }

    #[test]
    fn inconsistent_inputs_are_refused() {
        let bootstrap = Bootstrap::default();
        let confusions = [Confusion::default()];
        let means = |queries: &[Vec<NoisyLabel>]| {
            noisy_means(queries, &confusions, &[Measure::ReciprocalRank(None)], true, &bootstrap)
        };
        assert!(means(&[]).is_err());
        assert!(means(&[vec![NoisyLabel { grade: 1, stratum: 1, ranks: vec![1] }]]).is_err());
        let two = NoisyLabel { grade: 1, stratum: 0, ranks: vec![1, 2] };
        assert!(means(&[vec![two.clone()], vec![NoisyLabel { ranks: vec![1], ..two }]]).is_err());
    }
}
