//! Metrics of one query, over the ranks of its judged documents.
//!
//! All take the hits of a [`Ranking`](crate::ranking::Ranking) as [`rank_judged`](crate::ranking::rank_judged)
//! gives them; judged documents that were not found are simply absent. All results lie in 0..=1, larger is better.
//! A document of grade 1 or more is relevant. Formulas and edge cases are trec_eval's where it has the metric: a
//! query without relevant documents scores 0, and so do positions past the end of the ranking.
//!
//! Documents that share positions (`Hit::tied`) make a metric the expected value over all orders of them, every order
//! with the same probability (McSherry and Najork, *Computing Information Retrieval Performance Measures
//! Efficiently in the Presence of Tied Scores*, ECIR 2008). What the formulas below say holds for one document a
//! position.

use crate::ranking::{Hit, tied_groups};
use serde::{Deserialize, Serialize};

/// Gain of a grade in NDCG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "kebab-case")]
pub enum Gain {
    /// The grade itself (Järvelin and Kekäläinen, 2002; trec_eval).
    #[default]
    Linear,
    /// 2^grade − 1 (Burges et al., 2005; CodeSearchNet).
    Exponential,
}

impl Gain {
    /// Worth of a grade, over 2^`max_grade` for the exponential gain: NDCG is a ratio, and the scale keeps any
    /// grade finite.
    fn value(self, grade: i32, max_grade: i32) -> f64 {
        match self {
            Gain::Linear => f64::from(grade),
            Gain::Exponential => {
                let (grade, max_grade) = (f64::from(grade), f64::from(max_grade));
                (grade - max_grade).exp2() - (-max_grade).exp2()
            }
        }
    }
}

/// Documents that share `size` positions, the first one after `before` others.
struct Group<'a> {
    hits: &'a [Hit],
    before: usize,
    size: usize,
    n_relevant: usize,
}

impl Group<'_> {
    /// Number of its positions among the first `k`.
    fn positions_up_to(&self, k: usize) -> usize {
        k.saturating_sub(self.before).min(self.size)
    }

    /// Share of its positions that hold a relevant document.
    fn density(&self) -> f64 {
        self.n_relevant as f64 / self.size as f64
    }
}

fn groups(hits: &[Hit]) -> impl Iterator<Item = Group<'_>> {
    tied_groups(hits).map(|hits| Group {
        hits,
        before: hits[0].rank - 1,
        size: hits[0].tied,
        n_relevant: hits.iter().filter(|hit| hit.grade > 0).count(),
    })
}

fn relevant_groups(hits: &[Hit]) -> impl Iterator<Item = Group<'_>> {
    groups(hits).filter(|group| group.n_relevant > 0)
}

/// For each position from the first of a group on: the probability that the group's first relevant document is there.
fn first_relevant(group: &Group<'_>) -> impl Iterator<Item = f64> + use<> {
    let (size, n_relevant) = (group.size, group.n_relevant);
    let mut none_yet = 1.0;
    (0..=size - n_relevant).map(move |passed| {
        let here = none_yet * (n_relevant as f64 / (size - passed) as f64);
        none_yet -= here;
        here
    })
}

/// 1 over the rank of the first relevant document; 0 without one, or with none up to rank `cutoff`. Its mean is MRR
/// (Voorhees, *The TREC-8 Question Answering Track Report*, 1999).
pub fn reciprocal_rank(hits: &[Hit], cutoff: Option<usize>) -> f64 {
    relevant_groups(hits).next().map_or(0.0, |group| {
        let positions = group.positions_up_to(cutoff.unwrap_or(usize::MAX));
        let chances = first_relevant(&group).take(positions).enumerate();
        total(chances.map(|(passed, chance)| chance / (group.before + passed + 1) as f64))
    })
}

/// Multi-choice reciprocal rank, its mean being MMRR: mean over all `n_relevant` relevant documents of
/// 1 / (rank − number of relevant documents before it), 0 for those not found or behind rank `cutoff`; 1 for a
/// perfect ranking (Gong et al., *CoSQA+*, 2024).
pub fn multi_choice_reciprocal_rank(hits: &[Hit], n_relevant: usize, cutoff: Option<usize>) -> f64 {
    let (mut sum, mut relevant_before) = (0.0, 0);
    for group in relevant_groups(hits) {
        // chances[x]: that x of the group's relevant documents stand before the position.
        let mut chances = vec![0.0; group.n_relevant + 1];
        chances[0] = 1.0;
        for passed in 0..group.positions_up_to(cutoff.unwrap_or(usize::MAX)) {
            for x in (0..=passed.min(group.n_relevant - 1)).rev() {
                let here = chances[x] * ((group.n_relevant - x) as f64 / (group.size - passed) as f64);
                sum += here / (group.before + passed + 1 - relevant_before - x) as f64;
                chances[x] -= here;
                chances[x + 1] += here;
            }
        }
        relevant_before += group.n_relevant;
    }
    ratio(sum, n_relevant as f64)
}

/// Mean over all `n_relevant` relevant documents of the precision at their ranks, 0 for those not found or behind
/// rank `cutoff`. Its mean is MAP (Buckley and Voorhees, *Evaluating Evaluation Measure Stability*, SIGIR 2000).
pub fn average_precision(hits: &[Hit], n_relevant: usize, cutoff: Option<usize>) -> f64 {
    let (mut sum, mut relevant_before) = (0.0, 0);
    for group in relevant_groups(hits) {
        // Given a relevant document at one position, the probability that another position of the group holds one.
        let others = ratio((group.n_relevant - 1) as f64, (group.size - 1) as f64);
        for passed in 0..group.positions_up_to(cutoff.unwrap_or(usize::MAX)) {
            let relevant = (relevant_before + 1) as f64 + passed as f64 * others;
            sum += group.density() * (relevant / (group.before + passed + 1) as f64);
        }
        relevant_before += group.n_relevant;
    }
    ratio(sum, n_relevant as f64)
}

/// Discounted cumulative gain of the first `cutoff` over that of the best order of `grades`, the grades of all
/// judged documents (any order); discount log2(rank + 1) (Järvelin and Kekäläinen, *Cumulated Gain-Based Evaluation
/// of IR Techniques*, 2002, with the discount of Burges et al., 2005).
pub fn ndcg(hits: &[Hit], grades: &[i32], cutoff: Option<usize>, gain: Gain) -> f64 {
    let cutoff = cutoff.unwrap_or(usize::MAX);
    let mut ideal: Vec<i32> = grades.iter().copied().filter(|grade| *grade > 0).collect();
    ideal.sort_unstable_by(|a, b| b.cmp(a));
    let max_grade = ideal.first().copied().unwrap_or_default();
    let discount = |rank: usize| ((rank + 1) as f64).log2();
    let found = relevant_groups(hits).map(|group| {
        let relevant = group.hits.iter().filter(|hit| hit.grade > 0);
        let gains = total(relevant.map(|hit| gain.value(hit.grade, max_grade)));
        let positions = 0..group.positions_up_to(cutoff);
        total(positions.map(|passed| gains / discount(group.before + passed + 1))) / group.size as f64
    });
    let best = ideal.iter().take(cutoff).enumerate();
    let best = best.map(|(index, &grade)| gain.value(grade, max_grade) / discount(index + 1));
    ratio(total(found), total(best))
}

/// Share of the `n_relevant` relevant documents that stand among the first `k`.
pub fn recall_at(hits: &[Hit], n_relevant: usize, k: usize) -> f64 {
    ratio(relevant_up_to(hits, k), n_relevant as f64)
}

/// Share of the first `k` positions that hold a relevant document.
pub fn precision_at(hits: &[Hit], k: usize) -> f64 {
    ratio(relevant_up_to(hits, k), k as f64)
}

/// Precision at the number of relevant documents, `n_relevant`.
pub fn r_precision(hits: &[Hit], n_relevant: usize) -> f64 {
    precision_at(hits, n_relevant)
}

/// 1 if a relevant document stands among the first `k`, else 0; also called success.
pub fn hit_rate_at(hits: &[Hit], k: usize) -> f64 {
    let first = relevant_groups(hits).next();
    first.map_or(0.0, |group| match group.positions_up_to(k) {
        positions if positions > group.size - group.n_relevant => 1.0,
        positions => total(first_relevant(&group).take(positions)),
    })
}

/// 1 if all `n_relevant` relevant documents stand among the first `k`, else 0; 0 without one. Its mean is Acc@k of issue
/// localization (Chen et al., *LocAgent: Graph-Guided LLM Agents for Code Localization*, 2025).
pub fn accuracy_at(hits: &[Hit], n_relevant: usize, k: usize) -> f64 {
    let n_found: usize = relevant_groups(hits).map(|group| group.n_relevant).sum();
    if n_relevant == 0 || n_found < n_relevant {
        return 0.0;
    }
    let all_of_group = |group: Group<'_>| {
        let positions = group.positions_up_to(k);
        let chance = |placed: usize| positions.saturating_sub(placed) as f64 / (group.size - placed) as f64;
        (0..group.n_relevant).map(chance).product::<f64>()
    };
    relevant_groups(hits).map(all_of_group).product()
}

/// Preference for relevant documents over judged ones that are not: mean over all `n_relevant` relevant documents
/// of 1 − min(judged not relevant documents before it, R) / min(N, R), with R = `n_relevant` and N =
/// `n_nonrelevant`; 0 for those not found, unjudged documents ignored (Buckley and Voorhees, *Retrieval Evaluation
/// with Incomplete Information*, SIGIR 2004, as trec_eval has it since version 8).
pub fn bpref(hits: &[Hit], n_relevant: usize, n_nonrelevant: usize) -> f64 {
    let smaller = n_relevant.min(n_nonrelevant) as f64;
    let kept = |before: usize| 1.0 - ratio(before.min(n_relevant) as f64, smaller);
    let (mut sum, mut nonrelevant_before) = (0.0, 0);
    for group in groups(hits) {
        // Among those of its group, a relevant document comes after any number with the same probability.
        let nonrelevant = group.hits.len() - group.n_relevant;
        let preferences = total((0..=nonrelevant).map(|within| kept(nonrelevant_before + within)));
        sum += group.n_relevant as f64 * (preferences / (nonrelevant + 1) as f64);
        nonrelevant_before += nonrelevant;
    }
    ratio(sum, n_relevant as f64)
}

/// Rank-biased precision: (1 − p) times the sum of p^(rank − 1) over the relevant documents, with `persistence` p
/// in 0..1. 1 for an endless ranking of relevant documents only (Moffat and Zobel, *Rank-Biased Precision for
/// Measurement of Retrieval Effectiveness*, 2008).
pub fn rank_biased_precision(hits: &[Hit], persistence: f64) -> f64 {
    let weight = |rank: usize| persistence.powf((rank - 1) as f64);
    let weights = relevant_groups(hits).map(|group| {
        let positions = group.before + 1..=group.before + group.size;
        group.density() * total(positions.map(weight))
    });
    (1.0 - persistence) * total(weights)
}

/// Share of the first `k` documents that are judged, relevant or not; of all `n_documents` where the ranking holds
/// fewer than `k`. 0 for an empty ranking.
pub fn judged_at(hits: &[Hit], n_documents: usize, k: usize) -> f64 {
    let judged = groups(hits)
        .map(|group| group.hits.len() as f64 * (group.positions_up_to(k) as f64 / group.size as f64));
    ratio(total(judged), k.min(n_documents) as f64)
}

/// Expected number of relevant documents among the first `k`.
fn relevant_up_to(hits: &[Hit], k: usize) -> f64 {
    let groups = groups(hits).take_while(|group| group.before < k);
    total(groups.map(|group| group.n_relevant as f64 * (group.positions_up_to(k) as f64 / group.size as f64)))
}

/// The sum, which is 0 of nothing, as `Iterator::sum` makes it -0.
fn total(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |total, value| total + value)
}

/// `part / whole`, or 0 if `whole` is 0.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_test_support::assert_close;

    fn hits(ranks_and_grades: &[(usize, i32)]) -> Vec<Hit> {
        ranks_and_grades.iter().map(|&(rank, grade)| Hit::new(rank, grade)).collect()
    }

    #[test]
    fn values_worked_by_hand() {
        // Grades 1, 3 and 2; found at 2 and 5, the grade 2 not at all. Judged not relevant: 1, 4 and one not found.
        let (hits, grades) = (hits(&[(1, 0), (2, 1), (4, 0), (5, 3)]), [1, 3, 2, 0, 0, 0]);
        assert_close(reciprocal_rank(&hits, None), 0.5);
        assert_close(reciprocal_rank(&hits, Some(2)), 0.5);
        assert_close(reciprocal_rank(&hits, Some(1)), 0.0);
        assert_close(multi_choice_reciprocal_rank(&hits, 3, None), (1.0 / 2.0 + 1.0 / 4.0) / 3.0);
        assert_close(multi_choice_reciprocal_rank(&hits, 3, Some(4)), (1.0 / 2.0) / 3.0);
        assert_close(average_precision(&hits, 3, None), (1.0 / 2.0 + 2.0 / 5.0) / 3.0);
        assert_close(average_precision(&hits, 3, Some(4)), (1.0 / 2.0) / 3.0);
        assert_close(recall_at(&hits, 3, 4), 1.0 / 3.0);
        assert_close(recall_at(&hits, 3, 5), 2.0 / 3.0);
        assert_close(precision_at(&hits, 5), 2.0 / 5.0);
        assert_close(precision_at(&hits, 1000), 2.0 / 1000.0);
        assert_close(r_precision(&hits, 3), 1.0 / 3.0);
        assert_close(hit_rate_at(&hits, 1), 0.0);
        assert_close(hit_rate_at(&hits, 2), 1.0);
        assert_close(accuracy_at(&hits, 2, 4), 0.0);
        assert_close(accuracy_at(&hits, 2, 5), 1.0);
        assert_close(accuracy_at(&hits, 3, 5), 0.0);
        // One of three negatives comes before the first, two before the second.
        assert_close(bpref(&hits, 3, 3), ((1.0 - 1.0 / 3.0) + (1.0 - 2.0 / 3.0)) / 3.0);
        // If only two are judged not relevant, they weigh more.
        assert_close(bpref(&hits, 3, 2), ((1.0 - 1.0 / 2.0) + (1.0 - 2.0 / 2.0)) / 3.0);
        assert_close(rank_biased_precision(&hits, 0.8), 0.2 * (0.8 + 0.8_f64.powi(4)));
        assert_close(judged_at(&hits, 6, 4), 3.0 / 4.0);
        assert_close(judged_at(&hits, 6, 10), 4.0 / 6.0);
        let log3 = 3.0_f64.log2();
        let linear = (1.0 / log3 + 3.0 / 6.0_f64.log2()) / (3.0 + 2.0 / log3 + 1.0 / 2.0);
        assert_close(ndcg(&hits, &grades, Some(10), Gain::Linear), linear);
        assert_close(ndcg(&hits, &grades, None, Gain::Linear), linear);
        let exponential = (1.0 / log3 + 7.0 / 6.0_f64.log2()) / (7.0 + 3.0 / log3 + 1.0 / 2.0);
        assert_close(ndcg(&hits, &grades, Some(10), Gain::Exponential), exponential);
        assert_close(ndcg(&hits, &grades, Some(2), Gain::Linear), 1.0 / log3 / (3.0 + 2.0 / log3));
    }

    #[test]
    fn mmrr_of_a_perfect_ranking_is_1_and_of_single_answers_the_reciprocal_rank() {
        assert_close(multi_choice_reciprocal_rank(&hits(&[(1, 1), (2, 1), (3, 1)]), 3, None), 1.0);
        assert_close(multi_choice_reciprocal_rank(&hits(&[(7, 1)]), 1, None), 1.0 / 7.0);
    }

    #[test]
    fn ties_worked_by_hand() {
        // One relevant document shares the positions 2 to 4.
        let one = [Hit { rank: 2, tied: 3, grade: 2 }];
        assert_close(reciprocal_rank(&one, None), (1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 4.0) / 3.0);
        assert_close(reciprocal_rank(&one, Some(3)), (1.0 / 2.0 + 1.0 / 3.0) / 3.0);
        assert_close(recall_at(&one, 1, 3), 2.0 / 3.0);
        assert_close(precision_at(&one, 2), 1.0 / 6.0);
        assert_close(hit_rate_at(&one, 3), 2.0 / 3.0);
        assert_close(accuracy_at(&one, 1, 3), 2.0 / 3.0);
        assert_close(rank_biased_precision(&one, 0.5), 0.5 * (0.5 + 0.25 + 0.125) / 3.0);
        assert_close(
            ndcg(&one, &[2], None, Gain::Linear),
            (1.0 / 3.0_f64.log2() + 1.0 / 2.0 + 1.0 / 5.0_f64.log2()) / 3.0,
        );
        // A relevant document and one that is judged not relevant share the positions 1 and 2.
        let two = [Hit { rank: 1, tied: 2, grade: 1 }, Hit { rank: 1, tied: 2, grade: 0 }];
        assert_close(bpref(&two, 1, 1), 0.5);
        assert_close(judged_at(&two, 5, 1), 1.0);
        // Two relevant documents among three: first positions 1 and 2, 1 and 3, or 2 and 3.
        let pair = [Hit { rank: 1, tied: 3, grade: 1 }; 2];
        assert_close(
            average_precision(&pair, 2, None),
            (1.0 + (1.0 + 2.0 / 3.0) / 2.0 + (0.5 + 2.0 / 3.0) / 2.0) / 3.0,
        );
        assert_close(multi_choice_reciprocal_rank(&pair, 2, None), (1.0 + (1.0 + 0.5) / 2.0 + 0.5) / 3.0);
    }

    #[test]
    fn extreme_grades_and_ranks_stay_finite() {
        let grades = [i32::MAX, i32::MAX, 1];
        for gain in [Gain::Linear, Gain::Exponential] {
            assert_close(ndcg(&hits(&[(1, i32::MAX), (2, i32::MAX), (3, 1)]), &grades, Some(10), gain), 1.0);
            let last = ndcg(&hits(&[(usize::MAX - 1, i32::MAX)]), &grades, None, gain);
            assert!(last > 0.0 && last < 0.02, "{last}");
        }
        assert_close(reciprocal_rank(&hits(&[(usize::MAX, 1)]), None), 1.0 / usize::MAX as f64);
    }
}
