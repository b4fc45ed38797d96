//! Names of the metrics of a ranking.

use crate::MetricsError;
use crate::rank::{
    Gain, accuracy_at, average_precision, bpref, hit_rate_at, judged_at, multi_choice_reciprocal_rank, ndcg,
    precision_at, r_precision, rank_biased_precision, recall_at, reciprocal_rank,
};
use crate::ranking::Ranking;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A metric with its cut-off, by the name that results carry: `mrr`, `mmrr`, `map` and `ndcg`, all of them also cut
/// off at a rank (`mrr@10`), `recall@10`, `precision@10`, `hit_rate@10`, `success@10`, `acc@10`, `judged@10`,
/// `r_precision`, `bpref` and `rbp.95`, the digits after the point being its persistence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(try_from = "String", into = "String")]
pub enum Measure {
    /// [`reciprocal_rank`], its mean being MRR.
    ReciprocalRank(Option<usize>),
    /// [`multi_choice_reciprocal_rank`], its mean being MMRR.
    MultiChoiceReciprocalRank(Option<usize>),
    /// [`average_precision`], its mean being MAP.
    AveragePrecision(Option<usize>),
    /// [`ndcg`].
    Ndcg(Option<usize>),
    /// [`recall_at`].
    Recall(usize),
    /// [`precision_at`].
    Precision(usize),
    /// [`hit_rate_at`].
    HitRate(usize),
    /// [`hit_rate_at`] by another name.
    Success(usize),
    /// [`accuracy_at`], its mean being Acc@k.
    Accuracy(usize),
    /// [`judged_at`].
    Judged(usize),
    /// [`r_precision`].
    RPrecision,
    /// [`bpref`].
    Bpref,
    /// [`rank_biased_precision`] with this persistence in per cent, 1 to 99.
    RankBiasedPrecision(u8),
}

impl Measure {
    /// Measures reported by default: `mrr`, `map`, `mrr@10`, and NDCG, recall and precision at
    /// 1, 3, 5, 10, 20, 100 and 1000.
    pub fn standard() -> Vec<Measure> {
        let at_cutoffs = [1, 3, 5, 10, 20, 100, 1000]
            .into_iter()
            .flat_map(|k| [Measure::Ndcg(Some(k)), Measure::Recall(k), Measure::Precision(k)]);
        [Measure::ReciprocalRank(None), Measure::AveragePrecision(None), Measure::ReciprocalRank(Some(10))]
            .into_iter()
            .chain(at_cutoffs)
            .collect()
    }

    /// Measures compared by default: `mrr`, `map`, `ndcg@10` and `recall@10`.
    pub fn headline() -> Vec<Measure> {
        let (mrr, map) = (Measure::ReciprocalRank(None), Measure::AveragePrecision(None));
        vec![mrr, map, Measure::Ndcg(Some(10)), Measure::Recall(10)]
    }

    /// Value for a query with this ranking, `grades` being those of all its judged documents, found or not.
    #[must_use]
    pub fn value(self, ranking: &Ranking, grades: &[i32], gain: Gain) -> f64 {
        let hits = &ranking.hits;
        let n_relevant = grades.iter().filter(|grade| **grade > 0).count();
        match self {
            Measure::ReciprocalRank(cutoff) => reciprocal_rank(hits, cutoff),
            Measure::MultiChoiceReciprocalRank(cutoff) => {
                multi_choice_reciprocal_rank(hits, n_relevant, cutoff)
            }
            Measure::AveragePrecision(cutoff) => average_precision(hits, n_relevant, cutoff),
            Measure::Ndcg(cutoff) => ndcg(hits, grades, cutoff, gain),
            Measure::Recall(k) => recall_at(hits, n_relevant, k),
            Measure::Precision(k) => precision_at(hits, k),
            Measure::HitRate(k) | Measure::Success(k) => hit_rate_at(hits, k),
            Measure::Accuracy(k) => accuracy_at(hits, n_relevant, k),
            Measure::Judged(k) => judged_at(hits, ranking.n_documents, k),
            Measure::RPrecision => r_precision(hits, n_relevant),
            Measure::Bpref => bpref(hits, n_relevant, grades.len() - n_relevant),
            Measure::RankBiasedPrecision(percent) => rank_biased_precision(hits, f64::from(percent) / 100.0),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, cutoff) = match *self {
            Measure::ReciprocalRank(cutoff) => ("mrr", cutoff),
            Measure::MultiChoiceReciprocalRank(cutoff) => ("mmrr", cutoff),
            Measure::AveragePrecision(cutoff) => ("map", cutoff),
            Measure::Ndcg(cutoff) => ("ndcg", cutoff),
            Measure::Recall(k) => ("recall", Some(k)),
            Measure::Precision(k) => ("precision", Some(k)),
            Measure::HitRate(k) => ("hit_rate", Some(k)),
            Measure::Success(k) => ("success", Some(k)),
            Measure::Accuracy(k) => ("acc", Some(k)),
            Measure::Judged(k) => ("judged", Some(k)),
            Measure::RPrecision => ("r_precision", None),
            Measure::Bpref => ("bpref", None),
            Measure::RankBiasedPrecision(percent) => {
                let digits = format!("{percent:02}");
                return write!(formatter, "rbp.{}", digits.trim_end_matches('0'));
            }
        };
        match cutoff {
            Some(k) => write!(formatter, "{name}@{k}"),
            None => formatter.write_str(name),
        }
    }
}

impl FromStr for Measure {
    type Err = MetricsError;

    fn from_str(name: &str) -> Result<Self, MetricsError> {
        let unknown = || MetricsError::UnknownMeasure { found: name.to_owned() };
        if let Some(digits) = name.strip_prefix("rbp.") {
            let percent = match digits.as_bytes() {
                [tens @ b'0'..=b'9'] => 10 * (tens - b'0'),
                [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => 10 * (tens - b'0') + (ones - b'0'),
                _ => 0,
            };
            return if percent > 0 { Ok(Measure::RankBiasedPrecision(percent)) } else { Err(unknown()) };
        }
        let (metric, cutoff) = match name.split_once('@') {
            Some((metric, k)) => (metric, Some(k.parse().ok().filter(|&k| k > 0).ok_or_else(unknown)?)),
            None => (name, None),
        };
        Ok(match (metric, cutoff) {
            ("mrr", cutoff) => Measure::ReciprocalRank(cutoff),
            ("mmrr", cutoff) => Measure::MultiChoiceReciprocalRank(cutoff),
            ("map", cutoff) => Measure::AveragePrecision(cutoff),
            ("ndcg", cutoff) => Measure::Ndcg(cutoff),
            ("recall", Some(k)) => Measure::Recall(k),
            ("precision", Some(k)) => Measure::Precision(k),
            ("hit_rate", Some(k)) => Measure::HitRate(k),
            ("success", Some(k)) => Measure::Success(k),
            ("acc", Some(k)) => Measure::Accuracy(k),
            ("judged", Some(k)) => Measure::Judged(k),
            ("r_precision", None) => Measure::RPrecision,
            ("bpref", None) => Measure::Bpref,
            _ => return Err(unknown()),
        })
    }
}

impl TryFrom<String> for Measure {
    type Error = MetricsError;

    fn try_from(name: String) -> Result<Self, MetricsError> {
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
    use crate::ranking::{Hit, TiePolicy, rank_judged};
    use proptest::prelude::*;

    /// Every metric, cut off and not.
    fn measures() -> Vec<Measure> {
        let mut measures = Measure::standard();
        measures.extend([
            Measure::MultiChoiceReciprocalRank(None),
            Measure::MultiChoiceReciprocalRank(Some(3)),
            Measure::AveragePrecision(Some(3)),
            Measure::Ndcg(None),
            Measure::HitRate(1),
            Measure::Success(10),
            Measure::Accuracy(5),
            Measure::Judged(3),
            Measure::RPrecision,
            Measure::Bpref,
            Measure::RankBiasedPrecision(80),
            Measure::RankBiasedPrecision(5),
        ]);
        measures
    }

    #[test]
    fn names_read_back_and_unknown_ones_are_refused() {
        for measure in measures() {
            assert_eq!(measure.to_string().parse::<Measure>().unwrap(), measure);
        }
        for (name, persistence) in [("rbp.95", 95), ("rbp.8", 80), ("rbp.80", 80), ("rbp.05", 5)] {
            assert_eq!(name.parse::<Measure>().unwrap(), Measure::RankBiasedPrecision(persistence));
        }
        for name in [
            "", "ndcg@", "ndcg@0", "ndcg@-1", "recall", "mrr@x", "MRR", "bpref@3", "rbp", "rbp.", "rbp.0",
            "rbp.00", "rbp.955", "rbp.+5", "rbp.8@10",
        ] {
            assert!(name.parse::<Measure>().is_err(), "{name}");
        }
    }

    #[test]
    fn nothing_relevant_scores_zero() {
        for measure in measures() {
            for gain in [Gain::Linear, Gain::Exponential] {
                for grades in [&[][..], &[1, 2]] {
                    let value = measure.value(&Ranking::default(), grades, gain);
                    assert!(value == 0.0 && value.is_sign_positive(), "{measure} {value}");
                }
            }
        }
    }

    /// Distinct ranks with grades from 0, and the grades of judged documents that were not found.
    fn rankings() -> impl Strategy<Value = (Ranking, Vec<i32>)> {
        let found = prop::collection::btree_map(1_usize..60, 0_i32..5, 0..12);
        (found, prop::collection::vec(0_i32..5, 0..4)).prop_map(|(found, missed)| {
            let hits: Vec<Hit> = found.into_iter().map(|(rank, grade)| Hit::new(rank, grade)).collect();
            let grades = hits.iter().map(|hit| hit.grade).chain(missed).collect();
            (Ranking { hits, n_documents: 60 }, grades)
        })
    }

    /// All orders of the first `n` numbers.
    fn orders(n: usize) -> Vec<Vec<usize>> {
        if n == 0 {
            return vec![Vec::new()];
        }
        let insert = |order: &[usize], position: usize| {
            let mut order = order.to_vec();
            order.insert(position, n - 1);
            order
        };
        orders(n - 1).iter().flat_map(|order| (0..n).map(|position| insert(order, position))).collect()
    }

    proptest! {
        #[test]
        fn all_lie_between_zero_and_one((ranking, grades) in rankings()) {
            for measure in measures() {
                for gain in [Gain::Linear, Gain::Exponential] {
                    let value = measure.value(&ranking, &grades, gain);
                    prop_assert!((0.0..=1.0 + 1e-12).contains(&value), "{} {}", measure, value);
                }
            }
        }

        #[test]
        fn a_relevant_document_that_moves_up_never_costs(
            (ranking, grades) in rankings(), which in any::<prop::sample::Index>()
        ) {
            prop_assume!(!ranking.hits.is_empty());
            let which = which.index(ranking.hits.len());
            let above = if which == 0 { 0 } else { ranking.hits[which - 1].rank };
            prop_assume!(ranking.hits[which].grade > 0 && ranking.hits[which].rank > above + 1);
            let mut better = ranking.clone();
            better.hits[which].rank -= 1;
            for measure in measures() {
                for gain in [Gain::Linear, Gain::Exponential] {
                    let (before, after) =
                        (measure.value(&ranking, &grades, gain), measure.value(&better, &grades, gain));
                    prop_assert!(after >= before - 1e-12, "{} {} {}", measure, before, after);
                }
            }
        }

        #[test]
        fn the_order_of_the_grades_does_not_matter((ranking, grades) in rankings()) {
            let mut reversed = grades.clone();
            reversed.reverse();
            for measure in measures() {
                prop_assert_eq!(
                    measure.value(&ranking, &grades, Gain::Exponential),
                    measure.value(&ranking, &reversed, Gain::Exponential)
                );
            }
        }

        #[test]
        fn the_best_order_is_perfect(mut grades in prop::collection::vec(1_i32..5, 1..12)) {
            grades.sort_unstable_by(|a, b| b.cmp(a));
            let hits: Vec<Hit> =
                grades.iter().enumerate().map(|(index, &grade)| Hit::new(index + 1, grade)).collect();
            let ranking = Ranking { n_documents: hits.len(), hits };
            for name in ["mrr", "mmrr", "map", "ndcg", "ndcg@3", "recall@20", "r_precision", "bpref", "judged@5"] {
                for gain in [Gain::Linear, Gain::Exponential] {
                    let value = name.parse::<Measure>().unwrap().value(&ranking, &grades, gain);
                    prop_assert!((value - 1.0).abs() < 1e-12, "{} {}", name, value);
                }
            }
        }

        #[test]
        fn gains_agree_on_binary_grades(ranks in prop::collection::btree_set(1_usize..60, 0..12)) {
            let hits: Vec<Hit> = ranks.into_iter().map(|rank| Hit::new(rank, 1)).collect();
            let grades = vec![1; hits.len()];
            let ranking = Ranking { hits, n_documents: 60 };
            let [linear, exponential] =
                [Gain::Linear, Gain::Exponential].map(|gain| Measure::Ndcg(Some(10)).value(&ranking, &grades, gain));
            prop_assert!((linear - exponential).abs() < 1e-12);
        }

        #[test]
        fn the_average_over_ties_is_that_over_all_orders(
            documents in prop::collection::vec((0_i32..3, -1_i32..3), 1..7), missed in 0_i32..3
        ) {
            // An order of the documents is an order of their ids.
            let scores: Vec<i32> = documents.iter().map(|document| document.0).collect();
            let judged: Vec<(usize, i32)> =
                documents.iter().map(|document| document.1).enumerate().filter(|(_, grade)| *grade >= 0).collect();
            let mut grades: Vec<i32> = judged.iter().map(|(_, grade)| *grade).collect();
            grades.push(missed);
            let orders = orders(documents.len());
            let averaged = rank_judged(&orders[0], &scores, &judged, TiePolicy::Average).unwrap();
            let ordered: Vec<Ranking> = orders
                .iter()
                .map(|ids| rank_judged(ids, &scores, &judged, TiePolicy::DocidDesc).unwrap())
                .collect();
            for condense in [false, true] {
                let seen = |ranking: &Ranking| if condense { ranking.condensed() } else { ranking.clone() };
                for measure in measures() {
                    for gain in [Gain::Linear, Gain::Exponential] {
                        let value = |ranking: &Ranking| measure.value(&seen(ranking), &grades, gain);
                        let mean = ordered.iter().map(value).sum::<f64>() / ordered.len() as f64;
                        prop_assert!((value(&averaged) - mean).abs() < 1e-12, "{} {}", measure, mean);
                    }
                }
            }
        }
    }
}
