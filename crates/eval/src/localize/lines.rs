//! The lines that a fix changed, among ranked units.
//!
//! A place is found by a unit that has a line in common with it. Results in tests and documentation are left out, as their changes
//! are. The lines inside the code for an agent are those of the units that it shows in full.

use std::collections::{BTreeMap, HashSet};

use quarry_corpus::formats::localize::ChangedLines;
use quarry_index::Index;
use quarry_metrics::significance::mean;
use quarry_walk::{FileFlags, path_flags};
use serde::Serialize;

use super::{EvaluatedIssue, MAX_TOKENS};

/// Ranks up to which the first place counts as found, and up to which hunks are counted.
const HIT_RANKS: [usize; 3] = [1, 5, 10];
const HUNK_RANKS: [usize; 2] = [10, 20];

/// The changed places of an issue among the results of a method.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundLines {
    /// The 1-based rank of the first result for each changed place, if there is one.
    pub ranks: Vec<Option<usize>>,
    /// The share of the changed lines that the code for an agent shows, for each of [`MAX_TOKENS`]; empty without such code.
    pub shown: Vec<f64>,
}

/// Means over the issues with changed lines.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "LocalizeLines")]
pub struct LinesSummary {
    /// Number of issues with changed lines.
    pub issues: usize,
    /// Means by name: `mrr` and `hit@k` of the first changed place, `hunks@k`, and `context@tokens`.
    pub metrics: BTreeMap<String, f64>,
}

impl FoundLines {
    /// Looks for places among ranked units, best first.
    pub(super) fn new(index: &Index, lines: &[ChangedLines], units: &[usize]) -> Self {
        let left_out = FileFlags::TEST | FileFlags::DOCUMENTATION;
        let mut ranks = vec![None; lines.len()];
        let counted = units
            .iter()
            .map(|&unit| index.unit(unit))
            .filter(|hit| !path_flags(&hit.path).intersects(left_out));
        for (position, hit) in counted.enumerate() {
            for (rank, lines) in ranks.iter_mut().zip(lines) {
                let is_found =
                    hit.path == lines.path && hit.start_line <= lines.end && lines.start <= hit.end_line;
                if is_found && rank.is_none() {
                    *rank = Some(position + 1);
                }
            }
        }
        Self { ranks, shown: Vec::new() }
    }

    /// The share of changed lines that units have.
    pub(super) fn share(index: &Index, lines: &[ChangedLines], units: &[usize]) -> f64 {
        let changed: HashSet<(&str, u32)> =
            lines.iter().flat_map(|of| (of.start..=of.end).map(|line| (of.path.as_str(), line))).collect();
        let hits: Vec<_> = units.iter().map(|&unit| index.unit(unit)).collect();
        let is_shown = |(path, line): &&(&str, u32)| {
            hits.iter().any(|hit| hit.path == *path && (hit.start_line..=hit.end_line).contains(line))
        };
        changed.iter().filter(is_shown).count() as f64 / changed.len().max(1) as f64
    }

    /// The values of this issue, by name.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let first = self.ranks.iter().flatten().min();
        let flag = |value: bool| f64::from(u8::from(value));
        let mut metrics = BTreeMap::from([("mrr".to_owned(), first.map_or(0.0, |rank| 1.0 / *rank as f64))]);
        for k in HIT_RANKS {
            metrics.insert(format!("hit@{k}"), flag(first.is_some_and(|rank| *rank <= k)));
        }
        for k in HUNK_RANKS {
            let found = self.ranks.iter().flatten().filter(|rank| **rank <= k).count();
            metrics.insert(format!("hunks@{k}"), found as f64 / self.ranks.len().max(1) as f64);
        }
        for (tokens, share) in MAX_TOKENS.iter().zip(&self.shown) {
            metrics.insert(format!("context@{tokens}"), *share);
        }
        metrics
    }
}

/// The means of a method over the asked issues that `counts` accepts; `None` if none of them has changed lines.
pub(super) fn summary(asked: &[&EvaluatedIssue], method: usize) -> Option<LinesSummary> {
    let found: Vec<BTreeMap<String, f64>> =
        asked.iter().filter_map(|asked| Some(asked.answers[method].lines.as_ref()?.metrics())).collect();
    let names = found.first()?.keys();
    let mean_of = |name: &String| mean(&[&found.iter().map(|metrics| metrics[name]).collect::<Vec<f64>>()]);
    Some(LinesSummary {
        issues: found.len(),
        metrics: names.map(|name| (name.clone(), mean_of(name))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_and_the_share_of_places_count() {
        let metrics =
            FoundLines { ranks: vec![Some(12), None, Some(4), Some(2)], shown: vec![0.25] }.metrics();
        for (name, value) in [
            ("mrr", 0.5),
            ("hit@1", 0.0),
            ("hit@5", 1.0),
            ("hunks@10", 0.5),
            ("hunks@20", 0.75),
            ("context@2000", 0.25),
        ] {
            assert_eq!(metrics[name], value, "{name}");
        }
        assert!(!metrics.contains_key("context@4000"));
        assert_eq!(FoundLines { ranks: vec![None], shown: Vec::new() }.metrics()["mrr"], 0.0);
    }
}
