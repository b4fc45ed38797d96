//! Where the relevant documents stand.

use crate::EvalError;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// A relevant document that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// Place in the ranking, from 1.
    pub rank: usize,
    /// How relevant it is, 1 or more.
    pub grade: i32,
}

/// In which order documents of equal score stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TiePolicy {
    /// Greater id first, as bytes: trec_eval and what is built on it.
    #[default]
    DocidDesc,
    /// Smaller id first: the MS MARCO script.
    DocidAsc,
    /// Later document first: what CoSQA+'s scripts tend to.
    IndexDesc,
    /// The relevant ones last, least relevant first: CodeSearchNet, GenCodeSearchNet, AdvTest.
    Pessimistic,
    /// The relevant ones first, most relevant first: an upper bound.
    Optimistic,
}

/// Finds the ranks of the relevant documents of one query, greater scores first.
///
/// `ids` and `scores` run over all documents of the ranking, ids unique. `relevant` holds (position in `ids`,
/// grade ≥ 1), positions ascending, each once. The hits come in ascending order of rank, ranks distinct.
/// Takes time in the number of documents times that of the relevant ones; nothing is sorted but the hits.
///
/// # Errors
/// When `ids` and `scores` differ in length, or a score is NaN.
///
/// # Panics
/// When a position lies outside of `ids`.
pub fn rank_relevant<Id: Ord, Score: PartialOrd + Copy>(
    ids: &[Id],
    scores: &[Score],
    relevant: &[(usize, i32)],
    ties: TiePolicy,
) -> Result<Vec<Hit>, EvalError> {
    if ids.len() != scores.len() {
        return Err(EvalError::ScoreCount { documents: ids.len(), scores: scores.len() });
    }
    if let Some(position) = scores.iter().position(|score| score.partial_cmp(score).is_none()) {
        return Err(EvalError::NotANumber { position });
    }
    let grade = |position: usize| {
        relevant
            .binary_search_by_key(&position, |&(position, _)| position)
            .map_or(0, |place| relevant[place].1)
    };
    // Whether a document stands before another of the same score.
    let precedes = |this: usize, other: usize| match ties {
        TiePolicy::DocidDesc => ids[this] > ids[other],
        TiePolicy::DocidAsc => ids[this] < ids[other],
        TiePolicy::IndexDesc => this > other,
        TiePolicy::Pessimistic => (grade(this), this) < (grade(other), other),
        TiePolicy::Optimistic => (grade(this), this) > (grade(other), other),
    };
    let mut hits: Vec<Hit> = relevant
        .iter()
        .map(|&(position, grade)| {
            let score = scores[position];
            let before = |other: usize| match scores[other].partial_cmp(&score) {
                Some(Ordering::Greater) => true,
                Some(Ordering::Equal) => precedes(other, position),
                _ => false,
            };
            Hit { rank: 1 + (0..ids.len()).filter(|&other| before(other)).count(), grade }
        })
        .collect();
    hits.sort_unstable_by_key(|hit| hit.rank);
    Ok(hits)
}

/// Positions of all documents, best first: greater scores first, equal ones by id, greater first.
///
/// # Errors
/// When `ids` and `scores` differ in length, or a score is NaN.
pub fn best_first<Id: Ord>(ids: &[Id], scores: &[f32]) -> Result<Vec<usize>, EvalError> {
    if ids.len() != scores.len() {
        return Err(EvalError::ScoreCount { documents: ids.len(), scores: scores.len() });
    }
    if let Some(position) = scores.iter().position(|score| score.is_nan()) {
        return Err(EvalError::NotANumber { position });
    }
    let mut positions: Vec<usize> = (0..ids.len()).collect();
    // `partial_cmp` so that -0 equals 0, as in `rank_relevant`.
    positions.sort_unstable_by(|&a, &b| {
        scores[b].partial_cmp(&scores[a]).unwrap_or(Ordering::Equal).then_with(|| ids[b].cmp(&ids[a]))
    });
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [TiePolicy; 5] = [
        TiePolicy::DocidDesc,
        TiePolicy::DocidAsc,
        TiePolicy::IndexDesc,
        TiePolicy::Pessimistic,
        TiePolicy::Optimistic,
    ];

    fn ranks(ids: &[&str], scores: &[f64], relevant: &[(usize, i32)], ties: TiePolicy) -> Vec<(usize, i32)> {
        let hits = rank_relevant(ids, scores, relevant, ties).unwrap();
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
    fn zeros_of_both_signs_tie_and_infinities_have_a_place() {
        let scores = [f64::NEG_INFINITY, 0.0, -0.0, f64::INFINITY];
        let ids = ["a", "b", "c", "d"];
        assert_eq!(
            ranks(&ids, &scores, &[(0, 1), (1, 1), (3, 1)], TiePolicy::DocidDesc),
            [(1, 1), (3, 1), (4, 1)]
        );
        assert_eq!(best_first(&ids, &scores.map(|score| score as f32)).unwrap(), [3, 2, 1, 0]);
    }

    #[test]
    fn what_cannot_be_ranked_is_refused() {
        let error = rank_relevant(&["a", "b"], &[1.0, f64::NAN], &[], TiePolicy::DocidDesc).unwrap_err();
        assert!(matches!(error, EvalError::NotANumber { position: 1 }));
        let error = rank_relevant(&["a", "b"], &[1.0], &[], TiePolicy::DocidDesc).unwrap_err();
        assert!(matches!(error, EvalError::ScoreCount { documents: 2, scores: 1 }));
        assert!(best_first(&["a"], &[f32::NAN]).is_err());
        assert!(best_first(&["a"], &[]).is_err());
    }

    /// Documents with few distinct scores and grades 0..=2, ids in a shuffled order.
    fn documents() -> impl Strategy<Value = Vec<(u32, f32, i32)>> {
        prop::collection::vec((0_i32..4, 0_i32..3), 1..30).prop_flat_map(|documents| {
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
        rank_relevant(&ids, &scores, &relevant, ties).unwrap()
    }

    proptest! {
        #[test]
        fn counting_agrees_with_sorting(documents in documents()) {
            for ties in ALL {
                let mut sorted: Vec<(usize, &(u32, f32, i32))> = documents.iter().enumerate().collect();
                sorted.sort_by(|(index, a), (other_index, b)| {
                    b.1.total_cmp(&a.1).then(match ties {
                        TiePolicy::DocidDesc => b.0.cmp(&a.0),
                        TiePolicy::DocidAsc => a.0.cmp(&b.0),
                        TiePolicy::IndexDesc => other_index.cmp(index),
                        TiePolicy::Pessimistic => a.2.cmp(&b.2),
                        TiePolicy::Optimistic => b.2.cmp(&a.2),
                    })
                });
                let expected: Vec<Hit> = sorted
                    .iter()
                    .enumerate()
                    .filter(|(_, (_, document))| document.2 > 0)
                    .map(|(place, (_, document))| Hit { rank: place + 1, grade: document.2 })
                    .collect();
                prop_assert_eq!(rank_documents(&documents, ties), expected);
            }
        }

        #[test]
        fn the_order_of_documents_matters_to_no_policy_but_index_desc(documents in documents()) {
            let mut reversed = documents.clone();
            reversed.reverse();
            for ties in ALL.into_iter().filter(|ties| *ties != TiePolicy::IndexDesc) {
                prop_assert_eq!(rank_documents(&documents, ties), rank_documents(&reversed, ties));
            }
        }

        #[test]
        fn optimism_and_pessimism_bound_the_rest(documents in documents()) {
            let worst = rank_documents(&documents, TiePolicy::Pessimistic);
            let best = rank_documents(&documents, TiePolicy::Optimistic);
            for ties in ALL {
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
                .map(|(place, position)| Hit { rank: place + 1, grade: documents[position].2 })
                .collect();
            prop_assert_eq!(rank_documents(&documents, TiePolicy::DocidDesc), expected);
        }
    }
}
