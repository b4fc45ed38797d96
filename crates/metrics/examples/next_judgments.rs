//! Number of judgments needed to reach the order of methods that all judgments give: `cargo run --release -p
//! quarry-metrics --example next_judgments` prints a table.
//!
//! Each data set has queries with documents whose relevance is known, and methods of similar quality. The pool
//! consists of the documents within a depth of any method. Judgments are made in three orders: by their possible
//! effect, at random, and by the best rank of any method. The first treats unjudged documents as unknown, the
//! others as not relevant, as usual.

#![allow(clippy::print_stdout, reason = "an example prints")]
#![allow(clippy::needless_range_loop, reason = "columns of two tables are read together")]

use quarry_metrics::Measure;
use quarry_metrics::ranking::{Hit, Ranking};
use quarry_metrics::significance::{Pool, PooledDocument};

pub const MEASURES: [Measure; 3] =
    [Measure::ReciprocalRank(None), Measure::AveragePrecision(None), Measure::Ndcg(Some(10))];

/// Number of judgments until the order is final and remains so, by strategy, and the results of stopping the first
/// one by itself.
#[derive(Debug, Clone, Default)]
pub struct Reached {
    pub by_worth: Vec<usize>,
    pub random: Vec<usize>,
    pub pooled: Vec<usize>,
    /// Number of judgments at which the order became certain, and whether it was the final one.
    pub stopped: Vec<(usize, bool)>,
    /// Sizes of the pools.
    pub all: Vec<usize>,
}

const QUERIES: usize = 40;
const DOCUMENTS: usize = 200;
const DEPTH: usize = 15;
const SIGNALS: [f64; 4] = [1.0, 1.25, 1.5, 2.0];
/// Certainty at which judging stops.
const CONFIDENCE: f64 = 0.95;

fn normal(random: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

/// The pooled documents of a query, with whether they are relevant.
fn query(random: &mut fastrand::Rng) -> Vec<(bool, PooledDocument)> {
    let propensity = 0.08 * (1.0 - random.f64()).powf(0.5);
    let documents: Vec<(bool, [f64; SIGNALS.len()])> = (0..DOCUMENTS)
        .map(|_| {
            let truth = random.f64() < propensity;
            let shared = normal(random);
            let own = SIGNALS
                .map(|signal| signal * f64::from(u8::from(truth)) + 0.5 * shared + 0.85 * normal(random));
            (truth, own)
        })
        .collect();
    let mut ranks = vec![vec![0; SIGNALS.len()]; DOCUMENTS];
    for method in 0..SIGNALS.len() {
        let mut order: Vec<usize> = (0..DOCUMENTS).collect();
        order.sort_by(|a, b| documents[*b].1[method].total_cmp(&documents[*a].1[method]));
        order.into_iter().enumerate().for_each(|(rank, document)| ranks[document][method] = rank + 1);
    }
    let pooled =
        documents.into_iter().zip(ranks).filter(|(_, ranks)| ranks.iter().any(|rank| *rank <= DEPTH));
    pooled.map(|((truth, _), ranks)| (truth, PooledDocument { grade: None, ranks })).collect()
}

/// The order of the methods with unjudged documents as not relevant.
fn plain_order(queries: &[Vec<PooledDocument>], measure: Measure) -> Vec<usize> {
    let mut means = [0.0; SIGNALS.len()];
    for documents in queries {
        for (method, sum) in means.iter_mut().enumerate() {
            let hit =
                |document: &PooledDocument| Hit::new(document.ranks[method], document.grade.unwrap_or(0));
            let mut hits: Vec<Hit> = documents.iter().map(hit).collect();
            hits.sort_unstable_by_key(|hit| hit.rank);
            let grades: Vec<i32> = hits.iter().map(|hit| hit.grade).collect();
            *sum += measure.value(
                &Ranking { n_documents: DOCUMENTS, hits },
                &grades,
                quarry_metrics::Gain::Linear,
            );
        }
    }
    let mut order: Vec<usize> = (0..SIGNALS.len()).collect();
    order.sort_by(|a, b| means[*b].total_cmp(&means[*a]));
    order
}

/// Judges in an order, `step` at a time; returns the number of judgments at which the final order of methods is
/// reached for good.
fn judged_in(
    order: &[(usize, usize)],
    truth: &[Vec<(bool, PooledDocument)>],
    (measure, step): (Measure, usize),
    last: &[usize],
) -> usize {
    let mut queries: Vec<Vec<PooledDocument>> = truth
        .iter()
        .map(|documents| documents.iter().map(|(_, document)| document.clone()).collect())
        .collect();
    let mut reached = 0;
    for (number, batch) in order.chunks(step).enumerate() {
        if plain_order(&queries, measure) != last {
            reached = number * step + batch.len();
        }
        for (query, document) in batch {
            queries[*query][*document].grade = Some(i32::from(truth[*query][*document].0));
        }
    }
    reached
}

/// Simulates data sets, with `step` judgments at a time.
pub fn simulate(measure: Measure, n_data_sets: usize, step: usize, seed: u64) -> Reached {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut found = Reached::default();
    for data_set in 0..n_data_sets as u64 {
        let truth: Vec<Vec<(bool, PooledDocument)>> = (0..QUERIES).map(|_| query(&mut random)).collect();
        let mut all: Vec<(usize, usize)> = truth
            .iter()
            .enumerate()
            .flat_map(|(query, documents)| (0..documents.len()).map(move |document| (query, document)))
            .collect();
        let complete: Vec<Vec<PooledDocument>> = truth
            .iter()
            .map(|documents| {
                let judged = |(truth, document): &(bool, PooledDocument)| PooledDocument {
                    grade: Some(i32::from(*truth)),
                    ..document.clone()
                };
                documents.iter().map(judged).collect()
            })
            .collect();
        let last = plain_order(&complete, measure);
        all.sort_by_key(|(query, document)| {
            (truth[*query][*document].1.ranks.iter().min().copied(), *query, *document)
        });
        found.pooled.push(judged_in(&all, &truth, (measure, step), &last));
        random.shuffle(&mut all);
        found.random.push(judged_in(&all, &truth, (measure, step), &last));
        found.all.push(all.len());

        let unjudged: Vec<Vec<PooledDocument>> = truth
            .iter()
            .map(|documents| documents.iter().map(|(_, document)| document.clone()).collect())
            .collect();
        let Ok(mut pool) = Pool::new(unjudged, measure) else { continue };
        let (mut n_judged, mut reached, mut stopped) = (0, 0, None);
        loop {
            let order = pool.order(data_set);
            if order.order != last {
                reached = n_judged + step;
            }
            if stopped.is_none() && n_judged > 0 && order.certainty >= CONFIDENCE {
                stopped = Some((n_judged, order.order == last));
            }
            // Without any informative judgments yet, documents are drawn at random.
            let next: Vec<(usize, usize)> = match n_judged {
                0 => all[..step].to_vec(),
                _ => pool.next(step, data_set).iter().map(|found| (found.query, found.document)).collect(),
            };
            if next.is_empty() {
                break;
            }
            n_judged += next.len();
            for (query, document) in next {
                pool.judge(query, document, i32::from(truth[query][document].0));
            }
            pool.estimate();
        }
        found.by_worth.push(reached.min(all.len()));
        found.stopped.push(stopped.unwrap_or((n_judged, true)));
    }
    found
}

pub fn median(values: &[usize]) -> usize {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[allow(dead_code, reason = "a test includes this file for the simulation alone")]
fn main() {
    println!("| measure | pool | by worth | random | by best rank | certain after | and final |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for measure in MEASURES {
        let found = simulate(measure, 40, 20, 1);
        let stopped: Vec<usize> = found.stopped.iter().map(|(judgments, _)| *judgments).collect();
        let right = found.stopped.iter().filter(|(_, is_final)| *is_final).count() as f64;
        println!(
            "| {measure} | {} | {} | {} | {} | {} | {:.0} % |",
            median(&found.all),
            median(&found.by_worth),
            median(&found.random),
            median(&found.pooled),
            median(&stopped),
            100.0 * right / found.stopped.len() as f64
        );
    }
}
