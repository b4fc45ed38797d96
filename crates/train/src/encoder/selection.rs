//! The measures by which the best epoch is chosen.

use std::collections::BTreeMap;

/// The rank at which [`ndcg`] cuts off.
const CUTOFF: usize = 10;

/// A code that answers a held-out query, and where it is ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ranked {
    pub query: u64,
    /// Number of codes that do not answer the query and score as high or higher.
    pub above: usize,
    pub code: u32,
}

/// The reciprocal rank of each code among itself and those that do not answer its query.
pub(super) fn reciprocal_ranks(ranked: &[Ranked]) -> Vec<f64> {
    ranked.iter().map(|code| 1.0 / (1 + code.above) as f64).collect()
}

/// The NDCG of the first ten codes for each query, with gains of 1: the sum of 1 / log2(rank + 1) over the codes that
/// answer it, divided by its maximum possible value. Of equal scores, codes that do not answer come first.
pub(super) fn ndcg(ranked: &[Ranked]) -> Vec<f64> {
    let mut ordered = ranked.to_vec();
    ordered.sort_unstable();
    ordered.dedup();
    let mut queries: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for code in ordered {
        let ranks = queries.entry(code.query).or_default();
        ranks.push(code.above + ranks.len() + 1);
    }
    let gain = |rank: usize| 1.0 / (rank as f64 + 1.0).log2();
    let of_query = |ranks: &Vec<usize>| {
        let found: f64 = ranks.iter().filter(|rank| **rank <= CUTOFF).map(|rank| gain(*rank)).sum();
        found / (1..=ranks.len().min(CUTOFF)).map(gain).sum::<f64>()
    };
    queries.values().map(of_query).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(all: &[(u64, usize)]) -> Vec<Ranked> {
        (0..).zip(all).map(|(code, &(query, above))| Ranked { query, above, code }).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn ndcg_and_mrr_can_order_two_epochs_differently() {
        let (one, other) = (ranked(&[(1, 0), (2, 10)]), ranked(&[(1, 1), (2, 1)]));
        assert!(mean(&reciprocal_ranks(&one)) > mean(&reciprocal_ranks(&other)));
        assert!(mean(&ndcg(&one)) < mean(&ndcg(&other)));
    }

    #[test]
    fn ndcg_is_over_all_codes_that_answer_a_query() {
        // Ranks 1 and 4 of one query, of which the second is known twice; 11 of another.
        let mut all = ranked(&[(1, 2), (1, 0), (2, 10)]);
        all.push(all[0]);
        let expected = (1.0 + 1.0 / 5f64.log2()) / (1.0 + 1.0 / 3f64.log2());
        let found = ndcg(&all);
        assert!((found[0] - expected).abs() < 1e-12 && found[1] == 0.0, "{found:?}");
        assert_eq!(ndcg(&ranked(&[(1, 0), (1, 0)])), [1.0]);
    }
}
