//! Coverage of a known truth by intervals when labels have errors: `cargo run --release -p quarry-metrics --example
//! label_noise` prints a table; an optional argument sets the number of data sets.
//!
//! Each data set has queries, each with its own propensity to have relevant documents among the judged ones, and
//! two methods that observe relevance with noise, the second being better. A judge errs at known rates in two
//! strata, and a calibration sample of the same number of pairs in each measures these rates. The truth is the mean
//! by true labels over so many queries that chance is negligible.

#![allow(clippy::print_stdout, reason = "an example prints")]
#![allow(clippy::needless_range_loop, reason = "columns of two tables are read together")]

use quarry_metrics::ranking::{Hit, Ranking};
use quarry_metrics::significance::{Bootstrap, Confusion, Interval, NoisyLabel, mean_interval, noisy_means};
use quarry_metrics::{Gain, Measure};

#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    pub queries: usize,
    /// Number of judged documents per query.
    pub documents: usize,
    /// Number of calibrated pairs per stratum.
    pub calibrated: usize,
    /// Rates of positive labels for answers and for other documents, by stratum.
    pub rates: [[f64; 2]; 2],
}

pub const SCENARIOS: [Scenario; 4] = [
    Scenario {
        name: "labels nearly right",
        queries: 100,
        documents: 20,
        calibrated: 200,
        rates: [[0.99, 0.01], [0.97, 0.02]],
    },
    Scenario {
        name: "labels of agents",
        queries: 100,
        documents: 20,
        calibrated: 200,
        rates: [[0.95, 0.03], [0.88, 0.08]],
    },
    Scenario {
        name: "labels of one model",
        queries: 100,
        documents: 20,
        calibrated: 200,
        rates: [[0.90, 0.10], [0.80, 0.15]],
    },
    Scenario {
        name: "few calibrated",
        queries: 100,
        documents: 20,
        calibrated: 60,
        rates: [[0.95, 0.03], [0.88, 0.08]],
    },
];

pub const MEASURES: [Measure; 3] =
    [Measure::ReciprocalRank(None), Measure::AveragePrecision(None), Measure::Ndcg(Some(10))];

/// Effect of relevance on the scores of the two methods, in standard deviations of their noise.
const SIGNALS: [f64; 2] = [1.0, 1.6];
/// Shape of the distribution of propensities: few queries have many relevant documents.
const PROPENSITY: f64 = 3.0;

/// Coverage of the intervals of a measure.
#[derive(Debug, Clone, Copy, Default)]
pub struct Coverage {
    pub truth: f64,
    /// Means of the values by the labels as they are, and with the expected errors removed.
    pub means: [f64; 2],
    /// Share of intervals that cover the truth: ignoring and including the errors of labels.
    pub covered: [f64; 2],
    /// Share of intervals of the difference between both methods, including errors, that cover the true difference.
    pub difference_covered: f64,
}

struct Document {
    truth: bool,
    label: NoisyLabel,
}

fn normal(random: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

fn query(scenario: &Scenario, random: &mut fastrand::Rng) -> Vec<Document> {
    let propensity = 1.0 - (1.0 - random.f64()).powf(1.0 / PROPENSITY);
    let mut scored: Vec<(bool, usize, [f64; 2])> = (0..scenario.documents)
        .map(|_| {
            let truth = random.f64() < propensity;
            let shared = normal(random);
            let score = |signal: f64, random: &mut fastrand::Rng| {
                signal * f64::from(u8::from(truth)) + 0.6 * shared + 0.8 * normal(random)
            };
            let scores = SIGNALS.map(|signal| score(signal, random));
            (truth, usize::from(random.f64() < 0.6), scores)
        })
        .collect();
    let mut ranks = vec![[0; 2]; scored.len()];
    for method in 0..2 {
        let mut order: Vec<usize> = (0..scored.len()).collect();
        order.sort_by(|a, b| scored[*b].2[method].total_cmp(&scored[*a].2[method]));
        for (rank, document) in order.into_iter().enumerate() {
            ranks[document][method] = rank + 1;
        }
    }
    let documents = scored.drain(..).zip(ranks).map(|((truth, stratum, _), ranks)| {
        let rate = scenario.rates[stratum][usize::from(!truth)];
        let grade = i32::from(random.f64() < rate);
        Document { truth, label: NoisyLabel { grade, stratum, ranks: ranks.to_vec() } }
    });
    documents.collect()
}

/// The value of a measure for a method; `None` for a query without an answer, which is ignored.
fn value(
    documents: &[Document],
    measure: Measure,
    method: usize,
    grade: impl Fn(&Document) -> i32,
) -> Option<f64> {
    let mut hits: Vec<Hit> =
        documents.iter().map(|document| Hit::new(document.label.ranks[method], grade(document))).collect();
    hits.sort_unstable_by_key(|hit| hit.rank);
    let grades: Vec<i32> = hits.iter().map(|hit| hit.grade).collect();
    let ranking = Ranking { n_documents: hits.len(), hits };
    grades.iter().any(|grade| *grade > 0).then(|| measure.value(&ranking, &grades, Gain::Linear))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Simulates data sets; one entry per measure.
pub fn simulate(scenario: &Scenario, n_data_sets: usize, resamples: usize, seed: u64) -> Vec<Coverage> {
    let mut random = fastrand::Rng::with_seed(seed);
    let true_grade = |document: &Document| i32::from(document.truth);
    let many: Vec<Vec<Document>> = (0..40_000).map(|_| query(scenario, &mut random)).collect();
    let truths: Vec<[f64; 2]> = MEASURES
        .iter()
        .map(|measure| {
            [0, 1].map(|method| {
                mean(
                    &many.iter().filter_map(|of| value(of, *measure, method, true_grade)).collect::<Vec<_>>(),
                )
            })
        })
        .collect();
    drop(many);
    let mut coverage: Vec<Coverage> =
        truths.iter().map(|[first, _]| Coverage { truth: *first, ..Coverage::default() }).collect();
    for data_set in 0..n_data_sets {
        let bootstrap = Bootstrap { resamples, seed: data_set as u64, ..Bootstrap::default() };
        let queries: Vec<Vec<Document>> =
            (0..scenario.queries).map(|_| query(scenario, &mut random)).collect();
        let mut confusions = [Confusion::default(); 2];
        while confusions.iter().any(|confusion| n_pairs(confusion) < scenario.calibrated) {
            for Document { truth, label } in query(scenario, &mut random) {
                if n_pairs(&confusions[label.stratum]) < scenario.calibrated {
                    confusions[label.stratum].add(label.grade > 0, truth);
                }
            }
        }
        let labels: Vec<Vec<NoisyLabel>> =
            queries.iter().map(|of| of.iter().map(|document| document.label.clone()).collect()).collect();
        let of_measures =
            noisy_means(&labels, &confusions, &MEASURES, true, &bootstrap).expect("queries with methods");
        for (((measure, truths), coverage), means) in
            MEASURES.iter().zip(&truths).zip(&mut coverage).zip(of_measures)
        {
            let plain: Vec<f64> = queries
                .iter()
                .filter_map(|of| value(of, *measure, 0, |document| document.label.grade))
                .collect();
            let (noisy, with_errors) = means.mean(0);
            let as_they_are = mean_interval(&[&plain], &bootstrap).expect("queries with answers");
            let difference = means.difference(0, 1, 1.0);
            let covers = |interval: Interval, truth: f64| {
                f64::from(u8::from(interval.low <= truth && truth <= interval.high)) / n_data_sets as f64
            };
            coverage.means[0] += mean(&plain) / n_data_sets as f64;
            coverage.means[1] += noisy / n_data_sets as f64;
            coverage.covered[0] += covers(as_they_are, truths[0]);
            coverage.covered[1] += covers(with_errors, truths[0]);
            coverage.difference_covered += covers(difference.interval, truths[1] - truths[0]);
        }
    }
    coverage
}

fn n_pairs(confusion: &Confusion) -> usize {
    let Confusion { true_positives, false_positives, false_negatives, true_negatives } = confusion;
    (true_positives + false_positives + false_negatives + true_negatives) as usize
}

#[allow(dead_code, reason = "a test includes this file for the simulation alone")]
fn main() {
    let n_data_sets = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(400);
    println!(
        "| labels | measure | truth | as labeled | errors removed | covered as labeled | covered with errors | difference covered |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for scenario in SCENARIOS {
        for (measure, found) in MEASURES.iter().zip(simulate(&scenario, n_data_sets, 200, 1)) {
            let Coverage {
                truth,
                means: [plain, noisy],
                covered: [as_they_are, with_errors],
                difference_covered,
            } = found;
            println!(
                "| {} | {measure} | {truth:.3} | {plain:.3} | {noisy:.3} | {:.1} % | {:.1} % | {:.1} % |",
                scenario.name,
                100.0 * as_they_are,
                100.0 * with_errors,
                100.0 * difference_covered
            );
        }
    }
}
