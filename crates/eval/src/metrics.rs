//! Retrieval metrics of one query, over the ranks of its relevant documents.
//!
//! All take `hits` in ascending order of rank ([`rank_relevant`](crate::ranking::rank_relevant) gives them so);
//! relevant documents that were not found are simply absent. All results lie in 0..=1, greater is better.
//! Formulas and edge cases are trec_eval's where it has the metric: a query without relevant documents scores 0.

use crate::EvalError;
use crate::ranking::Hit;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How much a grade is worth to NDCG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gain {
    /// The grade itself (Järvelin and Kekäläinen, 2002; trec_eval).
    #[default]
    Linear,
    /// 2^grade − 1 (Burges et al., 2005; CodeSearchNet).
    Exponential,
}

impl Gain {
    /// Worth of a grade, over 2^`greatest` for the exponential gain: NDCG is a ratio, and the scale keeps any
    /// grade finite.
    fn of(self, grade: i32, greatest: i32) -> f64 {
        match self {
            Gain::Linear => f64::from(grade),
            Gain::Exponential => {
                let (grade, greatest) = (f64::from(grade), f64::from(greatest));
                (grade - greatest).exp2() - (-greatest).exp2()
            }
        }
    }
}

/// 1 over the rank of the first relevant document; 0 without one, or with none up to rank `cutoff`.
#[must_use]
pub fn reciprocal_rank(hits: &[Hit], cutoff: Option<usize>) -> f64 {
    hits.first()
        .filter(|hit| cutoff.is_none_or(|cutoff| hit.rank <= cutoff))
        .map_or(0.0, |hit| 1.0 / hit.rank as f64)
}

/// Mean over all `n_relevant` relevant documents of the precision at their ranks, 0 for those not found.
#[must_use]
pub fn average_precision(hits: &[Hit], n_relevant: usize) -> f64 {
    let precisions = hits.iter().enumerate().map(|(index, hit)| (index + 1) as f64 / hit.rank as f64);
    ratio(precisions.sum(), n_relevant as f64)
}

/// Discounted cumulative gain of the first `k` over that of the best order of `grades`, the grades of all relevant
/// documents (any order); discount log2(rank + 1).
#[must_use]
pub fn ndcg_at(hits: &[Hit], grades: &[i32], k: usize, gain: Gain) -> f64 {
    let mut ideal = grades.to_vec();
    ideal.sort_unstable_by(|a, b| b.cmp(a));
    let greatest = ideal.first().copied().unwrap_or_default();
    let discounted = |rank: usize, grade: i32| gain.of(grade, greatest) / ((rank + 1) as f64).log2();
    let found: f64 = up_to(hits, k).map(|hit| discounted(hit.rank, hit.grade)).sum();
    let best: f64 =
        ideal.iter().take(k).enumerate().map(|(index, &grade)| discounted(index + 1, grade)).sum();
    ratio(found, best)
}

/// Share of the `n_relevant` relevant documents that stand among the first `k`.
#[must_use]
pub fn recall_at(hits: &[Hit], n_relevant: usize, k: usize) -> f64 {
    ratio(up_to(hits, k).count() as f64, n_relevant as f64)
}

/// Share of the first `k` places that hold a relevant document; places past the end of the ranking count as
/// wrong.
#[must_use]
pub fn precision_at(hits: &[Hit], k: usize) -> f64 {
    ratio(up_to(hits, k).count() as f64, k as f64)
}

/// 1 if a relevant document stands among the first `k`, else 0.
#[must_use]
pub fn hit_rate_at(hits: &[Hit], k: usize) -> f64 {
    f64::from(u8::from(up_to(hits, k).next().is_some()))
}

fn up_to(hits: &[Hit], k: usize) -> impl Iterator<Item = &Hit> {
    hits.iter().take_while(move |hit| hit.rank <= k)
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

/// A metric with its cut-off, by the name that results carry: `mrr`, `mrr@10`, `map`, `ndcg@10`, `recall@10`,
/// `precision@10`, `hit_rate@10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Measure {
    /// [`reciprocal_rank`], its mean being MRR.
    ReciprocalRank(Option<usize>),
    /// [`average_precision`], its mean being MAP.
    AveragePrecision,
    /// [`ndcg_at`].
    Ndcg(usize),
    /// [`recall_at`].
    Recall(usize),
    /// [`precision_at`].
    Precision(usize),
    /// [`hit_rate_at`].
    HitRate(usize),
}

impl Measure {
    /// What is reported unless somebody asks for less: `mrr`, `map`, `mrr@10`, and NDCG, recall and precision at
    /// 1, 3, 5, 10, 20, 100 and 1000.
    #[must_use]
    pub fn standard() -> Vec<Measure> {
        let at_cutoffs = [1, 3, 5, 10, 20, 100, 1000]
            .into_iter()
            .flat_map(|k| [Measure::Ndcg(k), Measure::Recall(k), Measure::Precision(k)]);
        [Measure::ReciprocalRank(None), Measure::AveragePrecision, Measure::ReciprocalRank(Some(10))]
            .into_iter()
            .chain(at_cutoffs)
            .collect()
    }

    /// Value for a query whose relevant documents have these grades, found at these hits.
    #[must_use]
    pub fn value(self, hits: &[Hit], grades: &[i32], gain: Gain) -> f64 {
        match self {
            Measure::ReciprocalRank(cutoff) => reciprocal_rank(hits, cutoff),
            Measure::AveragePrecision => average_precision(hits, grades.len()),
            Measure::Ndcg(k) => ndcg_at(hits, grades, k, gain),
            Measure::Recall(k) => recall_at(hits, grades.len(), k),
            Measure::Precision(k) => precision_at(hits, k),
            Measure::HitRate(k) => hit_rate_at(hits, k),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::ReciprocalRank(None) => formatter.write_str("mrr"),
            Measure::ReciprocalRank(Some(k)) => write!(formatter, "mrr@{k}"),
            Measure::AveragePrecision => formatter.write_str("map"),
            Measure::Ndcg(k) => write!(formatter, "ndcg@{k}"),
            Measure::Recall(k) => write!(formatter, "recall@{k}"),
            Measure::Precision(k) => write!(formatter, "precision@{k}"),
            Measure::HitRate(k) => write!(formatter, "hit_rate@{k}"),
        }
    }
}

impl FromStr for Measure {
    type Err = EvalError;

    fn from_str(name: &str) -> Result<Self, EvalError> {
        let unknown = || EvalError::UnknownMeasure { found: name.to_owned() };
        let Some((metric, k)) = name.split_once('@') else {
            return match name {
                "mrr" => Ok(Measure::ReciprocalRank(None)),
                "map" => Ok(Measure::AveragePrecision),
                _ => Err(unknown()),
            };
        };
        let k = k.parse().ok().filter(|&k| k > 0).ok_or_else(unknown)?;
        match metric {
            "mrr" => Ok(Measure::ReciprocalRank(Some(k))),
            "ndcg" => Ok(Measure::Ndcg(k)),
            "recall" => Ok(Measure::Recall(k)),
            "precision" => Ok(Measure::Precision(k)),
            "hit_rate" => Ok(Measure::HitRate(k)),
            _ => Err(unknown()),
        }
    }
}

impl TryFrom<String> for Measure {
    type Error = EvalError;

    fn try_from(name: String) -> Result<Self, EvalError> {
        name.parse()
    }
}

impl From<Measure> for String {
    fn from(measure: Measure) -> Self {
        measure.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hits(ranks_and_grades: &[(usize, i32)]) -> Vec<Hit> {
        ranks_and_grades.iter().map(|&(rank, grade)| Hit { rank, grade }).collect()
    }

    #[track_caller]
    fn check(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }

    #[test]
    fn values_worked_by_hand() {
        // Grades 1, 3 and 2; found at 2 and 5, the grade 2 not at all.
        let (hits, grades) = (hits(&[(2, 1), (5, 3)]), [1, 3, 2]);
        check(reciprocal_rank(&hits, None), 0.5);
        check(reciprocal_rank(&hits, Some(2)), 0.5);
        check(reciprocal_rank(&hits, Some(1)), 0.0);
        check(average_precision(&hits, 3), (1.0 / 2.0 + 2.0 / 5.0) / 3.0);
        check(recall_at(&hits, 3, 4), 1.0 / 3.0);
        check(recall_at(&hits, 3, 5), 2.0 / 3.0);
        check(precision_at(&hits, 5), 2.0 / 5.0);
        check(precision_at(&hits, 1000), 2.0 / 1000.0);
        check(hit_rate_at(&hits, 1), 0.0);
        check(hit_rate_at(&hits, 2), 1.0);
        let log3 = 3.0_f64.log2();
        let linear = (1.0 / log3 + 3.0 / 6.0_f64.log2()) / (3.0 + 2.0 / log3 + 1.0 / 2.0);
        check(ndcg_at(&hits, &grades, 10, Gain::Linear), linear);
        let exponential = (1.0 / log3 + 7.0 / 6.0_f64.log2()) / (7.0 + 3.0 / log3 + 1.0 / 2.0);
        check(ndcg_at(&hits, &grades, 10, Gain::Exponential), exponential);
        check(ndcg_at(&hits, &grades, 2, Gain::Linear), 1.0 / log3 / (3.0 + 2.0 / log3));
    }

    #[test]
    fn nothing_relevant_scores_zero() {
        for measure in Measure::standard() {
            for gain in [Gain::Linear, Gain::Exponential] {
                check(measure.value(&[], &[], gain), 0.0);
                check(measure.value(&[], &[1, 2], gain), 0.0);
            }
        }
    }

    #[test]
    fn extreme_grades_and_ranks_stay_finite() {
        let grades = [i32::MAX, i32::MAX, 1];
        for gain in [Gain::Linear, Gain::Exponential] {
            check(ndcg_at(&hits(&[(1, i32::MAX), (2, i32::MAX), (3, 1)]), &grades, 10, gain), 1.0);
            let last = ndcg_at(&hits(&[(usize::MAX - 1, i32::MAX)]), &grades, usize::MAX, gain);
            assert!(last > 0.0 && last < 0.02, "{last}");
        }
        check(reciprocal_rank(&hits(&[(usize::MAX, 1)]), None), 1.0 / usize::MAX as f64);
    }

    #[test]
    fn names_read_back_and_unknown_ones_are_refused() {
        for measure in Measure::standard().into_iter().chain([Measure::HitRate(7)]) {
            assert_eq!(measure.to_string().parse::<Measure>().unwrap(), measure);
        }
        for name in ["", "ndcg", "ndcg@", "ndcg@0", "ndcg@-1", "map@10", "mrr@x", "MRR"] {
            assert!(name.parse::<Measure>().is_err(), "{name}");
        }
    }

    fn measures() -> Vec<Measure> {
        let mut measures = Measure::standard();
        measures.extend([Measure::HitRate(1), Measure::HitRate(10)]);
        measures
    }

    /// Distinct ranks, ascending, with grades; and the grades of relevant documents that were not found.
    fn rankings() -> impl Strategy<Value = (Vec<Hit>, Vec<i32>)> {
        let found = prop::collection::btree_map(1_usize..60, 1_i32..5, 0..12);
        (found, prop::collection::vec(1_i32..5, 0..4)).prop_map(|(found, missed)| {
            let hits: Vec<Hit> = found.into_iter().map(|(rank, grade)| Hit { rank, grade }).collect();
            let grades = hits.iter().map(|hit| hit.grade).chain(missed).collect();
            (hits, grades)
        })
    }

    proptest! {
        #[test]
        fn all_lie_between_zero_and_one((hits, grades) in rankings()) {
            for measure in measures() {
                for gain in [Gain::Linear, Gain::Exponential] {
                    let value = measure.value(&hits, &grades, gain);
                    prop_assert!((0.0..=1.0 + 1e-12).contains(&value), "{} {}", measure, value);
                }
            }
        }

        #[test]
        fn a_hit_that_moves_up_never_costs((hits, grades) in rankings(), which in any::<prop::sample::Index>()) {
            prop_assume!(!hits.is_empty());
            let which = which.index(hits.len());
            let above = if which == 0 { 0 } else { hits[which - 1].rank };
            prop_assume!(hits[which].rank > above + 1);
            let mut better = hits.clone();
            better[which].rank -= 1;
            for measure in measures() {
                for gain in [Gain::Linear, Gain::Exponential] {
                    let (before, after) =
                        (measure.value(&hits, &grades, gain), measure.value(&better, &grades, gain));
                    prop_assert!(after >= before - 1e-12, "{} {} {}", measure, before, after);
                }
            }
        }

        #[test]
        fn the_order_of_the_grades_does_not_matter((hits, grades) in rankings()) {
            let mut reversed = grades.clone();
            reversed.reverse();
            for measure in measures() {
                prop_assert_eq!(
                    measure.value(&hits, &grades, Gain::Exponential),
                    measure.value(&hits, &reversed, Gain::Exponential)
                );
            }
        }

        #[test]
        fn the_best_order_is_perfect(mut grades in prop::collection::vec(1_i32..5, 1..12)) {
            grades.sort_unstable_by(|a, b| b.cmp(a));
            let hits: Vec<Hit> =
                grades.iter().enumerate().map(|(index, &grade)| Hit { rank: index + 1, grade }).collect();
            for k in [1, 3, 100] {
                for gain in [Gain::Linear, Gain::Exponential] {
                    prop_assert!((ndcg_at(&hits, &grades, k, gain) - 1.0).abs() < 1e-12);
                }
            }
            prop_assert!((average_precision(&hits, grades.len()) - 1.0).abs() < 1e-12);
        }

        #[test]
        fn gains_agree_on_binary_grades(ranks in prop::collection::btree_set(1_usize..60, 0..12)) {
            let hits: Vec<Hit> = ranks.into_iter().map(|rank| Hit { rank, grade: 1 }).collect();
            let grades = vec![1; hits.len()];
            let [linear, exponential] =
                [Gain::Linear, Gain::Exponential].map(|gain| ndcg_at(&hits, &grades, 10, gain));
            prop_assert!((linear - exponential).abs() < 1e-12);
        }
    }
}
