//! Abstention: how well a score tells the queries that a method answers badly.

use serde::{Deserialize, Serialize};

/// Confidence of a method in the ranking of a query, by three measures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Confidence {
    pub max: f64,
    /// Standard deviation of the scores, as of a population.
    pub std: f64,
    /// Maximum score minus the second one; 0 for one document.
    pub diff1: f64,
}

impl Confidence {
    /// Names of the three, in the order of [`Confidence::values`].
    pub const NAMES: [&'static str; 3] = ["max", "std", "diff1"];

    /// From the scores of a query's documents, in any order; all 0 without a document.
    pub fn new<Score: Copy + Into<f64>>(scores: &[Score]) -> Self {
        if scores.is_empty() {
            return Self { max: 0.0, std: 0.0, diff1: 0.0 };
        }
        let scores = || scores.iter().map(|&score| score.into());
        let n = scores().count() as f64;
        let mean = scores().sum::<f64>() / n;
        let (max, second) = scores().fold((f64::NEG_INFINITY, f64::NEG_INFINITY), |(max, second), score| {
            if score > max { (score, max) } else { (max, second.max(score)) }
        });
        Self {
            max,
            std: (scores().map(|score: f64| (score - mean).powi(2)).sum::<f64>() / n).sqrt(),
            diff1: if n > 1.0 { max - second } else { 0.0 },
        }
    }

    /// The three numbers.
    #[must_use]
    pub fn values(self) -> [f64; 3] {
        [self.max, self.std, self.diff1]
    }
}

/// Normalized area under the abstention curve: how much the mean of a metric gains by leaving out 0, 10, … 90 % of the
/// queries, the least confident first, over the gain by leaving out the worst first. At most 1, 0 for a
/// confidence that is not informative (Gisserot-Boukhlef et al., *Towards Trustworthy Reranking*, 2024; MTEB).
///
/// Takes a confidence and the metric's value for each query; of equal confidences the earlier are left out first.
/// `None` without queries, or if leaving out the worst gains nothing.
pub fn normalized_area_under_abstention(confidences: &[f64], values: &[f64]) -> Option<f64> {
    let n = values.len();
    if n == 0 || confidences.len() != n {
        return None;
    }
    let curve = |order_by: &[f64]| -> [f64; 10] {
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| order_by[a].total_cmp(&order_by[b]));
        std::array::from_fn(|tenths| {
            // Halves round to the even number, as in Python.
            let left_out = (tenths as f64 * 0.1 * n as f64).round_ties_even() as usize;
            let kept = &order[left_out.min(n - 1)..];
            kept.iter().map(|&query| values[query]).sum::<f64>() / kept.len() as f64
        })
    };
    // By the trapezoidal rule.
    let area =
        |curve: &[f64; 10]| curve.windows(2).map(|pair| 0.1 * f64::midpoint(pair[0], pair[1])).sum::<f64>();
    let (found, best) = (curve(confidences), curve(values));
    let flat = 0.9 * best[0];
    let gain = area(&best) - flat;
    // Sums in another order differ in their last bits.
    (gain > 1e-12 * flat.abs()).then(|| (area(&found) - flat) / gain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidences_worked_by_hand() {
        let found = Confidence::new(&[1.0, 4.0, 1.0_f32]);
        assert_eq!((found.max, found.std, found.diff1), (4.0, 2.0_f64.sqrt(), 3.0));
        assert_eq!(Confidence::new(&[2.0, 2.0]).diff1, 0.0);
        assert_eq!(Confidence::new(&[7.0]).values(), [7.0, 0.0, 0.0]);
        assert_eq!(Confidence::new::<f64>(&[]).values(), [0.0; 3]);
    }

    #[test]
    fn the_best_confidence_reaches_1_and_the_reverse_is_below_0() {
        let values: Vec<f64> = (0..25).map(|i| f64::from((i * 7) % 25) / 25.0).collect();
        let reversed: Vec<f64> = values.iter().map(|value| -value).collect();
        assert_eq!(normalized_area_under_abstention(&values, &values), Some(1.0));
        assert!(normalized_area_under_abstention(&reversed, &values).unwrap() < -0.5);
        assert_eq!(normalized_area_under_abstention(&values, &[0.1; 25]), None);
        assert_eq!(normalized_area_under_abstention(&[], &[]), None);
    }

    #[test]
    fn two_queries_worked_by_hand() {
        // From 30 % on one is left out. The curves stand at 0.5 three times, then at the value that is kept: 0 by the
        // confidences, 1 by the values.
        let found = normalized_area_under_abstention(&[2.0, 1.0], &[0.0, 1.0]).unwrap();
        assert!((found + 1.0).abs() < 1e-12, "{found}");
    }
}
