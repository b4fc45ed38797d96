//! Ranks of judged documents.

use crate::MetricsError;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::ops::Range;

/// A judged document that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// Position in the ranking, from 1; the first of its positions if it shares some.
    pub rank: usize,
    /// Number of documents that share the positions from `rank` on, judged or not, in every order with the same
    /// probability; 1 under every policy but [`TiePolicy::Average`].
    pub tied: usize,
    /// Grade of relevance: 1 or more, or 0 for judged and not relevant.
    pub grade: i32,
}

impl Hit {
    /// A document with a position of its own.
    pub fn new(rank: usize, grade: i32) -> Self {
        Self { rank, tied: 1, grade }
    }
}

/// One query's ranking, as metrics see it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranking {
    /// The judged documents, in ascending order of rank; those that share positions are adjacent.
    pub hits: Vec<Hit>,
    /// Number of documents that are ranked, judged or not.
    pub n_documents: usize,
}

impl Ranking {
    /// The condensed list: the ranking without its unjudged documents (Sakai, *Alternatives to Bpref*, SIGIR 2007).
    pub fn condensed(&self) -> Self {
        let mut hits = Vec::with_capacity(self.hits.len());
        for group in tied_groups(&self.hits) {
            let rank = hits.len() + 1;
            hits.extend(group.iter().map(|hit| Hit { rank, tied: group.len(), ..*hit }));
        }
        Self { n_documents: hits.len(), hits }
    }
}

/// The hits that share the same positions, group by group.
pub(crate) fn tied_groups(hits: &[Hit]) -> impl Iterator<Item = &[Hit]> {
    hits.chunk_by(|a, b| a.rank == b.rank)
}

/// Order of documents with equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "kebab-case")]
pub enum TiePolicy {
    /// Greater id first, as bytes: trec_eval and tools based on it.
    #[default]
    DocidDesc,
    /// Smaller id first: the MS MARCO script.
    DocidAsc,
    /// Later document first: what CoSQA+'s scripts tend to.
    IndexDesc,
    /// The unjudged first, then the judged by ascending grade: CodeSearchNet, GenCodeSearchNet, AdvTest.
    Pessimistic,
    /// The reverse of `Pessimistic`: an upper bound.
    Optimistic,
    /// Every order with the same probability: metrics are expected values (McSherry and Najork, *Computing
    /// Information Retrieval Performance Measures Efficiently in the Presence of Tied Scores*, ECIR 2008), as
    /// scikit-learn's `ndcg_score` is.
    Average,
}

/// Finds the ranks of the judged documents of one query, greater scores first.
///
/// `ids` and `scores` run over all documents of the ranking, ids unique. `judged` holds (position in `ids`,
/// grade ≥ 0), positions ascending, each once. Nothing is sorted but the judged documents; the others are counted.
///
/// # Errors
/// When `ids` and `scores` differ in length, or a score is NaN.
///
/// # Panics
/// When a position is outside of `ids`.
pub fn rank_judged<Id: Ord, Score: PartialOrd + Copy>(
    ids: &[Id],
    scores: &[Score],
    judged: &[(usize, i32)],
    ties: TiePolicy,
) -> Result<Ranking, MetricsError> {
    if ids.len() != scores.len() {
        return Err(MetricsError::ScoreCount { documents: ids.len(), scores: scores.len() });
    }
    if let Some(position) = scores.iter().position(|score| score.partial_cmp(score).is_none()) {
        return Err(MetricsError::NotANumber { position });
    }
    let grade = |position: usize| {
        judged.binary_search_by_key(&position, |&(position, _)| position).map_or(-1, |index| judged[index].1)
    };
    // `Less` where the first comes before the second, `Equal` where they share their positions.
    let order = |a: usize, b: usize| {
        scores[b].partial_cmp(&scores[a]).unwrap_or(Ordering::Equal).then_with(|| match ties {
            TiePolicy::DocidDesc => ids[b].cmp(&ids[a]),
            TiePolicy::DocidAsc => ids[a].cmp(&ids[b]),
            TiePolicy::IndexDesc => b.cmp(&a),
            TiePolicy::Pessimistic => (grade(a), a).cmp(&(grade(b), b)),
            TiePolicy::Optimistic => (grade(b), b).cmp(&(grade(a), a)),
            TiePolicy::Average => Ordering::Equal,
        })
    };
    let mut best_first = judged.to_vec();
    best_first.sort_by(|&(a, _), &(b, _)| order(a, b));
    let tied_groups: Vec<&[(usize, i32)]> =
        best_first.chunk_by(|&(a, _), &(b, _)| scores[a] == scores[b]).collect();
    let distinct: Vec<Score> = tied_groups.iter().map(|group| scores[group[0].0]).collect();
    let mut hits = Vec::with_capacity(judged.len());
    for ((group, score), positions) in
        tied_groups.into_iter().zip(&distinct).zip(positions(scores, &distinct))
    {
        if ties == TiePolicy::Average {
            hits.extend(group.iter().map(|&(_, grade)| Hit {
                rank: positions.start + 1,
                tied: positions.len(),
                grade,
            }));
            continue;
        }
        // Of the documents of this score, those before each judged one and behind the one above it.
        let mut before = vec![0; group.len() + 1];
        if group.len() < positions.len() {
            for position in (0..ids.len()).filter(|&position| scores[position] == *score) {
                if let Err(index) = group.binary_search_by(|&(judged, _)| order(judged, position)) {
                    before[index] += 1;
                }
            }
        }
        let mut rank = positions.start;
        for (&(_, grade), before) in group.iter().zip(before) {
            rank += before + 1;
            hits.push(Hit::new(rank, grade));
        }
    }
    Ok(Ranking { hits, n_documents: ids.len() })
}

/// For each of some scores, in descending order, the positions of the documents that have it, counted from 0.
fn positions<Score: PartialOrd + Copy>(scores: &[Score], distinct: &[Score]) -> Vec<Range<usize>> {
    // Few scores are faster looked for one after the other, by vector instructions, than each document among them.
    const FEW: usize = 64;
    if distinct.len() <= FEW {
        return distinct
            .iter()
            .map(|of| {
                let above = scores.iter().filter(|score| *score > of).count();
                above..above + scores.iter().filter(|score| *score == of).count()
            })
            .collect();
    }
    let (mut above, mut equal) = (vec![0; distinct.len() + 1], vec![0; distinct.len() + 1]);
    for score in scores {
        let index = distinct.partition_point(|of| of > score);
        if distinct.get(index) == Some(score) { equal[index] += 1 } else { above[index] += 1 }
    }
    let mut first = 0;
    let positions = above.into_iter().zip(equal).map(|(above, equal)| {
        let start = first + above;
        first = start + equal;
        start..first
    });
    positions.take(distinct.len()).collect()
}

/// Positions of all documents, best first: greater scores first, equal ones by id, greater first.
///
/// # Errors
/// When `ids` and `scores` differ in length, or a score is NaN.
pub fn best_first<Id: Ord>(ids: &[Id], scores: &[f32]) -> Result<Vec<usize>, MetricsError> {
    if ids.len() != scores.len() {
        return Err(MetricsError::ScoreCount { documents: ids.len(), scores: scores.len() });
    }
    if let Some(position) = scores.iter().position(|score| score.is_nan()) {
        return Err(MetricsError::NotANumber { position });
    }
    let mut positions: Vec<usize> = (0..ids.len()).collect();
    // `partial_cmp` so that -0 equals 0, as in `rank_judged`.
    positions.sort_unstable_by(|&a, &b| {
        scores[b].partial_cmp(&scores[a]).unwrap_or(Ordering::Equal).then_with(|| ids[b].cmp(&ids[a]))
    });
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Those that give every document a position of its own.
    const STRICT: [TiePolicy; 5] = [
        TiePolicy::DocidDesc,
        TiePolicy::DocidAsc,
        TiePolicy::IndexDesc,
        TiePolicy::Pessimistic,
        TiePolicy::Optimistic,
    ];

    fn ranks(ids: &[&str], scores: &[f64], relevant: &[(usize, i32)], ties: TiePolicy) -> Vec<(usize, i32)> {
        let hits = rank_judged(ids, scores, relevant, ties).unwrap().hits;
        hits.into_iter().map(|hit| (hit.rank, hit.grade)).collect()
    }

    #[test]
    fn each_policy_breaks_ties_its_own_way() {
        // All tie; "10" < "9" < "a" as text. Grades: 9 → 1, 10 → 2.
        let (ids, scores) = (["9", "a", "10"], [1.0; 3]);
        let relevant = [(0, 1), (2, 2)];
        let check =
            |ties, expected: [(usize, i32); 2]| assert_eq!(ranks(&ids, &scores, &relevant, ties), expected);
        check(TiePolicy::DocidDesc, [(2, 1), (3, 2)]);
        check(TiePolicy::DocidAsc, [(1, 2), (2, 1)]);
        check(TiePolicy::IndexDesc, [(1, 2), (3, 1)]);
        check(TiePolicy::Pessimistic, [(2, 1), (3, 2)]);
        check(TiePolicy::Optimistic, [(1, 2), (2, 1)]);
    }

    #[test]
    fn zeros_of_both_signs_tie_and_infinities_are_ranked() {
        let scores = [f64::NEG_INFINITY, 0.0, -0.0, f64::INFINITY];
        let ids = ["a", "b", "c", "d"];
        assert_eq!(
            ranks(&ids, &scores, &[(0, 1), (1, 1), (3, 1)], TiePolicy::DocidDesc),
            [(1, 1), (3, 1), (4, 1)]
        );
        assert_eq!(best_first(&ids, &scores.map(|score| score as f32)).unwrap(), [3, 2, 1, 0]);
    }

    #[test]
    fn unrankable_inputs_are_refused() {
        let error = rank_judged(&["a", "b"], &[1.0, f64::NAN], &[], TiePolicy::DocidDesc).unwrap_err();
        assert!(matches!(error, MetricsError::NotANumber { position: 1 }));
        let error = rank_judged(&["a", "b"], &[1.0], &[], TiePolicy::DocidDesc).unwrap_err();
        assert!(matches!(error, MetricsError::ScoreCount { documents: 2, scores: 1 }));
        assert!(best_first(&["a"], &[f32::NAN]).is_err());
        assert!(best_first(&["a"], &[]).is_err());
    }

    #[test]
    fn documents_that_share_places_are_grouped() {
        // Places 1; 2 to 4; 5. The unjudged "c" shares the middle ones.
        let (ids, scores) = (["a", "b", "c", "d", "e"], [2.0, 1.0, 1.0, 1.0, 0.0]);
        let ranking = rank_judged(&ids, &scores, &[(1, 0), (3, 2), (4, 1)], TiePolicy::Average).unwrap();
        let hit = |rank, tied, grade| Hit { rank, tied, grade };
        assert_eq!(ranking, Ranking { hits: vec![hit(2, 3, 0), hit(2, 3, 2), hit(5, 1, 1)], n_documents: 5 });
        let condensed = vec![hit(1, 2, 0), hit(1, 2, 2), hit(3, 1, 1)];
        assert_eq!(ranking.condensed(), Ranking { hits: condensed, n_documents: 3 });
    }

    /// Documents with few or many distinct scores and grades 0..=2, ids in a shuffled order.
    fn documents() -> impl Strategy<Value = Vec<(u32, f32, i32)>> {
        let few = prop::collection::vec((0_i32..4, 0_i32..3), 1..30);
        let many = prop::collection::vec((0_i32..500, 0_i32..3), 150..200);
        prop_oneof![3 => few, 1 => many].prop_flat_map(|documents| {
            let ids: Vec<u32> = (0..documents.len() as u32).collect();
            Just(ids).prop_shuffle().prop_map(move |ids| {
                ids.into_iter()
                    .zip(&documents)
                    .map(|(id, &(score, grade))| (id, score as f32, grade))
                    .collect()
            })
        })
    }

    fn rank_documents(documents: &[(u32, f32, i32)], ties: TiePolicy) -> Vec<Hit> {
        let ids: Vec<u32> = documents.iter().map(|document| document.0).collect();
        let scores: Vec<f32> = documents.iter().map(|document| document.1).collect();
        let relevant: Vec<(usize, i32)> = documents
            .iter()
            .enumerate()
            .filter(|(_, document)| document.2 > 0)
            .map(|(position, document)| (position, document.2))
            .collect();
        rank_judged(&ids, &scores, &relevant, ties).unwrap().hits
    }

    proptest! {
        #[test]
        fn counting_agrees_with_sorting(documents in documents()) {
            for ties in STRICT {
                let mut sorted: Vec<(usize, &(u32, f32, i32))> = documents.iter().enumerate().collect();
                sorted.sort_by(|(index, a), (other_index, b)| {
                    b.1.total_cmp(&a.1).then(match ties {
                        TiePolicy::DocidDesc => b.0.cmp(&a.0),
                        TiePolicy::DocidAsc => a.0.cmp(&b.0),
                        TiePolicy::IndexDesc => other_index.cmp(index),
                        TiePolicy::Pessimistic => a.2.cmp(&b.2),
                        TiePolicy::Optimistic => b.2.cmp(&a.2),
                        TiePolicy::Average => unreachable!("not among the policies tried"),
                    })
                });
                let expected: Vec<Hit> = sorted
                    .iter()
                    .enumerate()
                    .filter(|(_, (_, document))| document.2 > 0)
                    .map(|(index, (_, document))| Hit::new(index + 1, document.2))
                    .collect();
                prop_assert_eq!(rank_documents(&documents, ties), expected);
            }
        }

        #[test]
        fn the_order_of_documents_matters_to_no_policy_but_index_desc(documents in documents()) {
            let mut reversed = documents.clone();
            reversed.reverse();
            for ties in STRICT.into_iter().filter(|ties| *ties != TiePolicy::IndexDesc) {
                prop_assert_eq!(rank_documents(&documents, ties), rank_documents(&reversed, ties));
            }
        }

        #[test]
        fn optimism_and_pessimism_bound_the_rest(documents in documents()) {
            let worst = rank_documents(&documents, TiePolicy::Pessimistic);
            let best = rank_documents(&documents, TiePolicy::Optimistic);
            for ties in STRICT {
                for ((hit, worst), best) in rank_documents(&documents, ties).iter().zip(&worst).zip(&best) {
                    prop_assert!(best.rank <= hit.rank && hit.rank <= worst.rank);
                }
            }
        }

        #[test]
        fn best_first_agrees_with_the_ranks(documents in documents()) {
            let ids: Vec<u32> = documents.iter().map(|document| document.0).collect();
            let scores: Vec<f32> = documents.iter().map(|document| document.1).collect();
            let expected: Vec<Hit> = best_first(&ids, &scores)
                .unwrap()
                .into_iter()
                .enumerate()
                .filter(|&(_, position)| documents[position].2 > 0)
                .map(|(index, position)| Hit::new(index + 1, documents[position].2))
                .collect();
            prop_assert_eq!(rank_documents(&documents, TiePolicy::DocidDesc), expected);
        }
    }
}
