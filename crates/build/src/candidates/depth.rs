//! Number of candidates per query that are worth labeling: the share of correct candidates at each rank.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Serialize;

use crate::error::BuildError;
use crate::jsonl;
use crate::outputs::{CANDIDATES, PAIRS_FILE};
use crate::record::{Candidate, PairRecord};
use crate::step::{self, directory_of};

/// Labels of the candidates at a rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct DepthRow {
    /// The rank, from 1.
    pub rank: usize,
    /// Queries whose candidate at this rank has a label.
    pub labeled: usize,
    /// Share of those whose candidate answers.
    pub hit: f64,
    /// Share of all queries with an answer up to this rank.
    pub answered: f64,
    /// Mean number of answers of a query up to this rank.
    pub answers: f64,
}

/// Number of candidates of a method that are worth labeling.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Depth {
    /// Name of the method.
    pub method: String,
    /// Queries with a labeled candidate.
    pub queries: usize,
    /// Number of candidates after which more add almost nothing; null if there are too few candidates to decide.
    pub enough: Option<usize>,
    /// Labels by rank.
    pub ranks: Vec<DepthRow>,
}

/// Number of further ranks over which the gain is measured.
pub const AHEAD: usize = 5;

/// Gain over [`AHEAD`] ranks, as a share of queries with an answer, below which the curve counts as flat.
pub const FLAT: f64 = 0.01;

impl Depth {
    /// Counts the labels of the candidates of each query, best first; `None` is a candidate without a label.
    pub fn new(method: String, queries: &[Vec<Option<bool>>]) -> Self {
        let queries: Vec<&Vec<Option<bool>>> =
            queries.iter().filter(|labels| labels.iter().any(Option::is_some)).collect();
        let deepest = queries.iter().filter_map(|labels| labels.iter().rposition(Option::is_some)).max();
        let of_all =
            |count: usize| if queries.is_empty() { 0.0 } else { count as f64 / queries.len() as f64 };
        let mut rows = Vec::new();
        let (mut is_answered, mut n_answers) = (vec![false; queries.len()], 0);
        for place in 0..deepest.map_or(0, |place| place + 1) {
            let (mut labeled, mut hits) = (0, 0);
            for (labels, is_answered) in queries.iter().zip(&mut is_answered) {
                if let Some(Some(answers)) = labels.get(place) {
                    labeled += 1;
                    hits += usize::from(*answers);
                    *is_answered |= answers;
                }
            }
            n_answers += hits;
            rows.push(DepthRow {
                rank: place + 1,
                labeled,
                hit: if labeled == 0 { 0.0 } else { hits as f64 / labeled as f64 },
                answered: of_all(is_answered.iter().filter(|answered| **answered).count()),
                answers: of_all(n_answers),
            });
        }
        Self { method, queries: queries.len(), enough: sufficient_depth(&rows), ranks: rows }
    }
}

/// The number of candidates after which [`AHEAD`] more give an answer to fewer than [`FLAT`] of the queries. `None` if
/// there is no such number among the known ranks.
fn sufficient_depth(rows: &[DepthRow]) -> Option<usize> {
    let is_flat = |pair: &&[DepthRow]| {
        pair.last().zip(pair.first()).is_some_and(|(last, first)| last.answered - first.answered < FLAT)
    };
    rows.windows(AHEAD + 1).find(is_flat).map(|rows| rows[0].rank)
}

/// Reads the candidates and labels of the last build in a directory, by method.
pub fn depth_of_build(root: &Path) -> Result<Vec<Depth>, BuildError> {
    let steps = step::last_build(root)?;
    let directory = |name: &str| {
        let step = steps.iter().find(|step| step.name == name).ok_or_else(|| {
            BuildError::step(
                "candidates",
                format!("expected a build with the step {name}, found none; build again"),
            )
        })?;
        Ok::<_, BuildError>(directory_of(root, &step.key()))
    };
    let mut labels: HashMap<(String, String), bool> = HashMap::new();
    jsonl::for_each(&directory("labels")?.join(PAIRS_FILE), &mut |pair: PairRecord, _| {
        let answers = pair.is_positive();
        labels.insert((pair.query_id, pair.code_id), answers);
        Ok(())
    })?;
    // By method and query, in order of rank.
    let mut found: BTreeMap<String, BTreeMap<String, Vec<Option<bool>>>> = BTreeMap::new();
    jsonl::for_each(&directory("candidates")?.join(CANDIDATES), &mut |candidate: Candidate, _| {
        let pair = (candidate.query, candidate.code);
        let label = labels.get(&pair).copied();
        for by in candidate.found {
            let ranks = found.entry(by.by).or_default().entry(pair.0.clone()).or_default();
            if ranks.len() < by.rank {
                ranks.resize(by.rank, None);
            }
            ranks[by.rank - 1] = label;
        }
        Ok(())
    })?;
    let depth = |(method, queries): (String, BTreeMap<String, Vec<Option<bool>>>)| {
        Depth::new(method, &queries.into_values().collect::<Vec<_>>())
    };
    Ok(found.into_iter().map(depth).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_counted_by_rank_and_unlabeled_candidates_are_not_hits() {
        let (yes, no) = (Some(true), Some(false));
        let depth =
            Depth::new("m".into(), &[vec![no, yes, yes], vec![yes, None], vec![no, no, None], vec![None]]);
        assert_eq!((depth.queries, depth.ranks.len()), (3, 3));
        let row = |rank, labeled, hit, answered, answers| DepthRow { rank, labeled, hit, answered, answers };
        let third = 1.0 / 3.0;
        assert_eq!(
            depth.ranks,
            [
                row(1, 3, third, third, third),
                row(2, 2, 0.5, 2.0 * third, 2.0 * third),
                row(3, 1, 1.0, 2.0 * third, 1.0)
            ]
        );
        assert_eq!(depth.enough, None);
    }

    #[test]
    fn depth_suffices_where_more_candidates_add_nothing() {
        let mut labels = vec![Some(false); 12];
        labels[2] = Some(true);
        let depth = Depth::new("m".into(), &[labels, vec![Some(true)]]);
        assert_eq!(depth.enough, Some(3));
    }
}
