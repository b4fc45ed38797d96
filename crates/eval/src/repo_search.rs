//! The protocol of repository search: how high the first result within each target stands.

use crate::metrics::{Gain, ndcg_at};
use crate::ranking::Hit;
use quarry_corpus::formats::repo_search::Target;

/// Number of results that count.
pub const K: usize = 10;

/// A result: some lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Path relative to the folder that was searched, `/` between parts.
    pub path: String,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
}

/// NDCG of one query's results, best first, cut at [`K`] results: each target, all of them of grade 1, stands at
/// the rank of the first result that lies in it, that is, in its file and, for a target with lines, on at least
/// one of them. A result may serve several targets; the value is at most 1 even so.
#[must_use]
pub fn ndcg(results: &[Place], targets: &[Target]) -> f64 {
    let mut hits: Vec<Hit> = targets
        .iter()
        .filter_map(|target| results.iter().position(|result| lies_in(result, target)))
        .map(|index| Hit { rank: index + 1, grade: 1 })
        .collect();
    hits.sort_unstable_by_key(|hit| hit.rank);
    ndcg_at(&hits, &vec![1; targets.len()], K, Gain::Linear).min(1.0)
}

fn lies_in(result: &Place, target: &Target) -> bool {
    result.path == target.path
        && target.lines.is_none_or(|(start, end)| result.start_line <= end && start <= result.end_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(places: &[(&str, u32, u32)]) -> Vec<Place> {
        places
            .iter()
            .map(|&(path, start_line, end_line)| Place { path: path.into(), start_line, end_line })
            .collect()
    }

    fn target(path: &str, lines: Option<(u32, u32)>) -> Target {
        Target { path: path.into(), lines }
    }

    #[track_caller]
    fn check(places: &[(&str, u32, u32)], targets: &[Target], expected: f64) {
        let found = ndcg(&results(places), targets);
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }

    #[test]
    fn the_first_unit_in_a_file_counts_and_further_ones_neither_help_nor_fill_up() {
        let log = |rank: f64| 1.0 / (rank + 1.0).log2();
        let places = [("x", 1, 5), ("a", 9, 12), ("a", 1, 5), ("b", 1, 2)];
        check(&places, &[target("a", None)], log(2.0));
        check(
            &places,
            &[target("a", None), target("b", None)],
            (log(2.0) + log(4.0)) / (log(1.0) + log(2.0)),
        );
        check(&places, &[target("a", None), target("y", None)], log(2.0) / (log(1.0) + log(2.0)));
        check(&places, &[target("y", None)], 0.0);
        check(&[], &[target("y", None)], 0.0);
    }

    #[test]
    fn a_range_needs_a_line_in_common() {
        let places = [("a", 1, 9), ("a", 20, 30), ("b", 10, 19)];
        for (range, rank) in [((9, 9), 1), ((1, 40), 1), ((10, 20), 2), ((30, 40), 2)] {
            check(&places, &[target("a", Some(range))], 1.0 / (f64::from(rank) + 1.0).log2());
        }
        for range in [(10, 19), (31, 40)] {
            check(&places, &[target("a", Some(range))], 0.0);
        }
    }

    #[test]
    fn only_ten_results_count() {
        let mut places = vec![("x", 1, 1); 9];
        places.push(("a", 1, 1));
        check(&places, &[target("a", None)], 1.0 / 11.0_f64.log2());
        places.insert(0, ("x", 1, 1));
        check(&places, &[target("a", None)], 0.0);
    }

    #[test]
    fn one_result_may_serve_overlapping_targets() {
        check(&[("a", 1, 9)], &[target("a", None), target("a", Some((1, 3)))], 1.0);
    }
}
