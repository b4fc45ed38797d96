//! Spans of code as search results, and their measure: NDCG by the first result within each answer.

use quarry_corpus::formats::repo_search::Target;
use quarry_metrics::ranking::Hit;
use quarry_metrics::{Gain, Measure, rank};

/// Number of results that count.
pub const K: usize = 10;

/// The measure that [`ndcg`] computes.
pub const MEASURE: Measure = Measure::Ndcg(Some(K));

/// A result: a range of lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSpan {
    /// Path relative to the searched directory, with `/` between parts.
    pub path: String,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
}

impl From<quarry_index::Hit> for CodeSpan {
    fn from(hit: quarry_index::Hit) -> Self {
        Self { path: hit.path, start_line: hit.start_line, end_line: hit.end_line }
    }
}

impl CodeSpan {
    /// Returns whether the span is in the file of a target and, if the target has lines, overlaps them.
    pub fn answers(&self, target: &Target) -> bool {
        self.path == target.path
            && target.lines.is_none_or(|(start, end)| self.start_line <= end && start <= self.end_line)
    }
}

/// NDCG of one query's results, best first, cut off at [`K`]: each answer has grade 1 and the rank of the first
/// result that `is_answered_by` accepts for it; the value does not exceed 1 even if one result matches several
/// answers. 0 without an answer.
pub fn ndcg<A, R>(answers: &[A], results: &[R], is_answered_by: impl Fn(&A, &R) -> bool) -> f64 {
    let first = |answer: &A| results.iter().position(|result| is_answered_by(answer, result));
    let mut hits: Vec<Hit> =
        answers.iter().filter_map(first).map(|position| Hit::new(position + 1, 1)).collect();
    hits.sort_unstable_by_key(|hit| hit.rank);
    rank::ndcg(&hits, &vec![1; answers.len()], Some(K), Gain::Linear).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str, lines: Option<(u32, u32)>) -> Target {
        Target { path: path.into(), lines }
    }

    #[track_caller]
    fn check(spans: &[(&str, u32, u32)], targets: &[Target], expected: f64) {
        let results: Vec<CodeSpan> = spans
            .iter()
            .map(|&(path, start_line, end_line)| CodeSpan { path: path.into(), start_line, end_line })
            .collect();
        let found = ndcg(targets, &results, |target, span| span.answers(target));
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        // Additional equivalent spans that are not found change nothing.
        let elsewhere = target("elsewhere", None);
        let alternatives: Vec<[&Target; 2]> = targets.iter().map(|target| [&elsewhere, target]).collect();
        let by_any = ndcg(&alternatives, &results, |any, span| any.iter().any(|of| span.answers(of)));
        assert!((by_any - found).abs() < f64::EPSILON, "{by_any} {found}");
    }

    #[test]
    fn the_first_unit_in_a_file_counts_and_further_ones_neither_help_nor_fill_up() {
        let log = |rank: f64| 1.0 / (rank + 1.0).log2();
        let spans = [("x", 1, 5), ("a", 9, 12), ("a", 1, 5), ("b", 1, 2)];
        check(&spans, &[target("a", None)], log(2.0));
        check(&spans, &[target("a", None), target("b", None)], (log(2.0) + log(4.0)) / (log(1.0) + log(2.0)));
        check(&spans, &[target("a", None), target("y", None)], log(2.0) / (log(1.0) + log(2.0)));
        check(&spans, &[target("y", None)], 0.0);
        check(&[], &[target("y", None)], 0.0);
    }

    #[test]
    fn a_range_needs_a_line_in_common() {
        let spans = [("a", 1, 9), ("a", 20, 30), ("b", 10, 19)];
        for (range, rank) in [((9, 9), 1), ((1, 40), 1), ((10, 20), 2), ((30, 40), 2)] {
            check(&spans, &[target("a", Some(range))], 1.0 / (f64::from(rank) + 1.0).log2());
        }
        for range in [(10, 19), (31, 40)] {
            check(&spans, &[target("a", Some(range))], 0.0);
        }
    }

    #[test]
    fn only_ten_results_count() {
        let mut spans = vec![("x", 1, 1); 9];
        spans.push(("a", 1, 1));
        check(&spans, &[target("a", None)], 1.0 / 11.0_f64.log2());
        spans.insert(0, ("x", 1, 1));
        check(&spans, &[target("a", None)], 0.0);
    }

    #[test]
    fn one_result_may_serve_overlapping_targets() {
        check(&[("a", 1, 9)], &[target("a", None), target("a", Some((1, 3)))], 1.0);
    }
}
