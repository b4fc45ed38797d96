//! Judgments that could change the order of methods.
//!
//! A document that nobody judged is unknown, not wrong: its probability of being relevant follows from its ranks and from the
//! judgments of its query. Drawing the unknown ones shows how certain the order of the methods is; the judgments that are worth
//! most are those whose outcome moves the differences most that are not certain yet (after Carterette, Allan and Sitaraman,
//! *Minimal Test Collections for Retrieval Evaluation*, SIGIR 2006, who do this for average precision).

use super::label_noise::{Inputs, OrderedDocuments, PreparedQuery};
use crate::rank::Gain;
use crate::{Measure, MetricsError};
use serde::{Deserialize, Serialize};

/// A document that a method found for a query.
#[derive(Debug, Clone, PartialEq)]
pub struct PooledDocument {
    /// Its grade; `None` if nobody judged it.
    pub grade: Option<i32>,
    /// Its rank by each method, from 1; of one that a method did not find, a rank after all that it found.
    pub ranks: Vec<usize>,
}

/// The order of methods by expected means, and how certain it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExpectedOrder {
    /// Expected mean of each method over draws of the unknown documents.
    pub means: Vec<f64>,
    /// Numbers of the methods, best first.
    pub order: Vec<usize>,
    /// Share of the draws with exactly this order.
    pub certainty: f64,
    /// For each two neighbors in the order, the share of draws in which the first is better.
    pub neighbors: Vec<f64>,
    /// Number of documents that nobody judged.
    pub unknown: usize,
}

/// A judgment to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NextJudgment {
    /// Number of the query.
    pub query: usize,
    /// Number of the document in it.
    pub document: usize,
    /// Variance of the differences that are not certain which its outcome removes, as a share of the largest one's.
    pub worth: f64,
}

/// Queries with their pooled documents, of which some are judged.
#[derive(Debug)]
pub struct Pool {
    queries: Vec<Vec<PooledDocument>>,
    orders: Vec<PreparedQuery>,
    n_methods: usize,
    measure: Measure,
    /// Probability that each unknown document is relevant, by several estimates.
    chances: Vec<Vec<Vec<f64>>>,
}

/// Draws of the unknown documents by which the order is judged.
const DRAWS: usize = 200;
/// Estimates of the probabilities.
const ESTIMATES: usize = 10;
/// Rates of positive labels of a judge that does not err.
const RIGHT: [[f64; 2]; 1] = [[1.0, 0.0]];
/// Draws of the other documents by which the effect of one is measured.
const EFFECT_DRAWS: usize = 3;

impl Pool {
    /// Estimates how likely unknown documents are relevant.
    ///
    /// # Errors
    /// Without a query with a document, or with different numbers of ranks.
    pub fn new(queries: Vec<Vec<PooledDocument>>, measure: Measure) -> Result<Self, MetricsError> {
        let n_methods = queries.iter().flatten().next().map_or(0, |document| document.ranks.len());
        if n_methods == 0 {
            return Err(MetricsError::NoQueries { remedy: "check that runs and queries belong together" });
        }
        if queries.iter().flatten().any(|document| document.ranks.len() != n_methods) {
            return Err(MetricsError::Values { found: "different numbers of methods".into() });
        }
        let prepare = |documents: &Vec<PooledDocument>| {
            PreparedQuery::new(
                &documents.iter().map(|document| document.ranks.as_slice()).collect::<Vec<_>>(),
            )
        };
        let orders = queries.iter().map(prepare).collect();
        let mut pool = Self { queries, orders, n_methods, measure, chances: Vec::new() };
        pool.estimate();
        Ok(pool)
    }

    /// Adds a judgment. Probabilities of others change with [`Pool::estimate`].
    ///
    /// # Panics
    /// When there is no such document.
    pub fn judge(&mut self, query: usize, document: usize, grade: i32) {
        self.queries[query][document].grade = Some(grade);
    }

    /// Estimates the probabilities of unknown documents again, after judgments: several times, from queries that are drawn
    /// again, because few judgments tell little.
    pub fn estimate(&mut self) {
        let inputs = Inputs::new(self.queries.iter().map(|documents| {
            let label = |document: &PooledDocument| document.grade.map(|grade| grade > 0);
            documents.iter().map(|document| (label(document), 0, document.ranks.as_slice())).collect()
        }));
        let n_queries = self.queries.len();
        let mut random = fastrand::Rng::with_seed(n_queries as u64);
        let start = inputs.fit(&RIGHT, &vec![1; n_queries], None);
        self.chances = (0..ESTIMATES)
            .map(|_| {
                let mut times = vec![0; n_queries];
                (0..n_queries).for_each(|_| times[random.u64(..n_queries as u64) as usize] += 1);
                let weights = inputs.fit(&RIGHT, &times, Some(&start));
                (0..n_queries).map(|query| inputs.priors(query, &weights).collect()).collect()
            })
            .collect();
    }

    /// The order of the methods, and its certainty.
    pub fn order(&self, seed: u64) -> ExpectedOrder {
        let draws = self.draws(seed);
        let n = draws.len() as f64;
        let means: Vec<f64> = (0..self.n_methods)
            .map(|method| draws.iter().map(|means| means[method]).sum::<f64>() / n)
            .collect();
        let mut order: Vec<usize> = (0..self.n_methods).collect();
        order.sort_by(|a, b| means[*b].total_cmp(&means[*a]));
        let is_kept = |means: &&Vec<f64>| order.windows(2).all(|pair| means[pair[0]] > means[pair[1]]);
        let certainty = draws.iter().filter(is_kept).count() as f64 / n;
        let better =
            |pair: &[usize]| draws.iter().filter(|means| means[pair[0]] > means[pair[1]]).count() as f64 / n;
        let unknown = self.queries.iter().flatten().filter(|document| document.grade.is_none()).count();
        ExpectedOrder { neighbors: order.windows(2).map(better).collect(), means, order, certainty, unknown }
    }

    /// The means of the methods for draws of all unknown documents.
    fn draws(&self, seed: u64) -> Vec<Vec<f64>> {
        let mut random = fastrand::Rng::with_seed(seed);
        let draw = |number: usize| {
            let mut means = vec![0.0; self.n_methods];
            for query in 0..self.queries.len() {
                let grades = self.drawn(query, number % ESTIMATES, &mut random);
                let values = self.values(query, &grades);
                means
                    .iter_mut()
                    .zip(values)
                    .for_each(|(sum, value)| *sum += value / self.queries.len() as f64);
            }
            means
        };
        (0..DRAWS).map(draw).collect()
    }

    fn drawn(&self, query: usize, estimate: usize, random: &mut fastrand::Rng) -> Vec<i32> {
        let grade = |(document, chance): (&PooledDocument, &f64)| {
            document.grade.unwrap_or_else(|| i32::from(random.f64() < *chance))
        };
        self.queries[query].iter().zip(&self.chances[estimate][query]).map(grade).collect()
    }

    fn values(&self, query: usize, grades: &[i32]) -> Vec<f64> {
        let value =
            |order: &OrderedDocuments| self.measure.value(&order.graded(grades), grades, Gain::Linear);
        self.orders[query].0.iter().map(value).collect()
    }

    /// The judgments that are worth most, best first.
    pub fn next(&self, n: usize, seed: u64) -> Vec<NextJudgment> {
        let draws = self.draws(seed);
        // Uncertainty about which of two methods is better: 1 if both are equally likely.
        let uncertainty = |a: usize, b: usize| {
            let better = draws.iter().filter(|means| means[a] > means[b]).count() as f64 / draws.len() as f64;
            4.0 * better * (1.0 - better)
        };
        let pairs: Vec<(usize, usize, f64)> = (0..self.n_methods)
            .flat_map(|a| (a + 1..self.n_methods).map(move |b| (a, b)))
            .map(|(a, b)| (a, b, uncertainty(a, b) + LEAST_UNCERTAINTY))
            .collect();
        let mut random = fastrand::Rng::with_seed(seed ^ 1);
        let mut found = Vec::new();
        for (query, documents) in self.queries.iter().enumerate() {
            for document in (0..documents.len()).filter(|document| documents[*document].grade.is_none()) {
                let mut effects = vec![0.0; self.n_methods];
                for estimate in 0..EFFECT_DRAWS {
                    let mut grades = self.drawn(query, estimate, &mut random);
                    for (grade, sign) in [(1, 1.0), (0, -1.0)] {
                        grades[document] = grade;
                        let values = self.values(query, &grades);
                        effects.iter_mut().zip(values).for_each(|(sum, value)| *sum += sign * value);
                    }
                }
                let of_estimates = self.chances.iter().map(|chances| chances[query][document]);
                let chance = of_estimates.sum::<f64>() / ESTIMATES as f64;
                let moved: f64 =
                    pairs.iter().map(|(a, b, weight)| weight * (effects[*a] - effects[*b]).powi(2)).sum();
                found.push(NextJudgment { query, document, worth: chance * (1.0 - chance) * moved });
            }
        }
        found.sort_by(|a, b| {
            b.worth.total_cmp(&a.worth).then((a.query, a.document).cmp(&(b.query, b.document)))
        });
        found.truncate(n);
        let largest = found.first().map_or(0.0, |first| first.worth);
        found.iter_mut().filter(|_| largest > 0.0).for_each(|found| found.worth /= largest);
        found
    }

    /// The place of a method, from 1, by expected means, if the judgments of documents that only it found within a depth are
    /// taken as unknown: another one than now if the pool favors it.
    pub fn rank_without_own_judgments(&self, method: usize, depth: usize, seed: u64) -> usize {
        let mut queries = self.queries.clone();
        for document in queries.iter_mut().flatten() {
            let found_by = |other: usize| document.ranks[other] <= depth;
            if found_by(method) && (0..self.n_methods).all(|other| other == method || !found_by(other)) {
                document.grade = None;
            }
        }
        let order = Self::new(queries, self.measure).map(|pool| pool.order(seed).order);
        order
            .ok()
            .and_then(|order| order.iter().position(|other| *other == method))
            .map_or(0, |place| place + 1)
    }
}

/// Weight of differences that are certain, so that there is an order among judgments once all are.
const LEAST_UNCERTAINTY: f64 = 1e-3;
