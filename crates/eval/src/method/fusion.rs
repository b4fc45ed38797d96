//! Fusing the scores of several methods, and re-ranking.

use super::{Scale, Scorer};
use crate::EvalError;
use quarry_corpus::formats::Query;
use rayon::prelude::*;
use std::cmp::Ordering;

/// Fusion of the scores of several methods, for each query separately.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fusion {
    /// The weighted mean of the raw scores: of cosines, the candidates of CoSQA+ according to its paper.
    Mean,
    /// The sum of the scores, each divided by the maximum absolute score of its method: the candidates of CoSQA+
    /// according to its code.
    MaxAbs,
    /// Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): the sum of 1 / (k + rank), with 1-based
    /// ranks. Documents with equal scores share the best of their ranks; those with the minimum score have no rank,
    /// like documents that a lexical method or a run does not retrieve.
    ReciprocalRank {
        /// Constant added to each rank, 0 or more.
        k: f64,
    },
    /// The sum of standard scores: each score minus the mean over all documents, divided by the standard deviation.
    ZScore,
}

impl Fusion {
    /// The k of the paper.
    pub const DEFAULT_K: f64 = 60.0;

    /// Fuses lists of scores of the same documents, each with its weight. A list of equal scores does not affect the
    /// order. Infinite scores are replaced by the largest finite number, so that nothing is NaN.
    #[must_use]
    pub fn combine(self, lists: &[(f64, &[f32])]) -> Vec<f32> {
        let n_documents = lists.first().map_or(0, |(_, scores)| scores.len());
        let mut fused = vec![0.0_f64; n_documents];
        let total: f64 = match self {
            Fusion::Mean => lists.iter().map(|(weight, _)| weight).sum(),
            _ => 1.0,
        };
        for (weight, scores) in lists {
            for (sum, score) in fused.iter_mut().zip(self.scaled(scores)) {
                *sum += weight / total * score;
            }
        }
        fused.into_iter().map(|score| score as f32).collect()
    }

    fn scaled(self, scores: &[f32]) -> Vec<f64> {
        let finite = |score: &f32| f64::from(score.clamp(f32::MIN, f32::MAX));
        let scores: Vec<f64> = scores.iter().map(finite).collect();
        let n = scores.len().max(1) as f64;
        let (shift, width) = match self {
            Fusion::Mean => (0.0, 1.0),
            Fusion::MaxAbs => (0.0, scores.iter().fold(0.0, |maximum, score| score.abs().max(maximum))),
            Fusion::ZScore => {
                let mean = scores.iter().sum::<f64>() / n;
                let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / n;
                (mean, variance.sqrt())
            }
            Fusion::ReciprocalRank { k } => return reciprocal_ranks(&scores, k),
        };
        let width = if width > 0.0 { width } else { 1.0 };
        scores.iter().map(|score| (score - shift) / width).collect()
    }
}

fn reciprocal_ranks(scores: &[f64], k: f64) -> Vec<f64> {
    let minimum = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let mut values = vec![0.0; scores.len()];
    let mut order: Vec<usize> = (0..scores.len()).filter(|&document| scores[document] > minimum).collect();
    order.sort_unstable_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    for (position, tied) in tied_groups(&order, |a, b| scores[a] == scores[b]) {
        tied.iter().for_each(|&document| values[document] = 1.0 / (k + (position + 1) as f64));
    }
    values
}

/// Groups of documents that tie, each with the number of documents before it.
fn tied_groups(
    order: &[usize],
    same: impl Fn(usize, usize) -> bool,
) -> impl Iterator<Item = (usize, &[usize])> {
    let groups = order.chunk_by(move |&a, &b| same(a, b));
    groups.scan(0, |before, group| {
        let position = *before;
        *before += group.len();
        Some((position, group))
    })
}

pub struct Fused {
    pub fusion: Fusion,
    /// Methods over the same documents, each with its weight.
    pub parts: Vec<(f64, Box<dyn Scorer>)>,
}

impl Scorer for Fused {
    /// The scale of its parts if they share one and their mean is taken.
    fn scale(&self) -> Scale {
        let mut scales = self.parts.iter().map(|(_, part)| part.scale());
        match scales.next() {
            Some(first) if self.fusion == Fusion::Mean && scales.all(|scale| scale == first) => first,
            _ => Scale::Similarity,
        }
    }

    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        let of_parts: Vec<Vec<Vec<f32>>> =
            self.parts.iter().map(|(_, part)| part.scores(queries)).collect::<Result<_, _>>()?;
        let fuse = |query: usize| {
            let lists: Vec<(f64, &[f32])> = self
                .parts
                .iter()
                .zip(&of_parts)
                .map(|((weight, _), of_part)| (*weight, &of_part[query][..]))
                .collect();
            self.fusion.combine(&lists)
        };
        Ok((0..queries.len()).into_par_iter().map(fuse).collect())
    }
}

/// A method that finds candidates, and one that orders them.
pub struct Reranked {
    pub first: Box<dyn Scorer>,
    /// Over the same documents as the first.
    pub second: Box<dyn Scorer>,
    /// Number of candidates.
    pub depth: usize,
}

impl Scorer for Reranked {
    /// The scale of the second method, which scores the candidates.
    fn scale(&self) -> Scale {
        self.second.scale()
    }

    /// Candidates are the best by the first method, ties in corpus order. They have the scores of the second method;
    /// all others follow in the order of the first method, starting 1 below the lowest candidate, in steps of 1; ties
    /// of the first method remain ties.
    fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
        let of_first = self.first.scores(queries)?;
        let orders: Vec<Vec<usize>> = of_first.par_iter().map(|scores| best_first(scores)).collect();
        let candidates: Vec<(&Query, &[usize])> = queries
            .iter()
            .zip(&orders)
            .map(|(query, order)| (*query, &order[..order.len().min(self.depth)]))
            .collect();
        let of_second = self.second.scores_of(&candidates)?;
        let join = |((first, order), second): ((&Vec<f32>, &Vec<usize>), &Vec<f32>)| {
            let (candidates, rest) = order.split_at(second.len());
            let minimum = second.iter().copied().fold(f32::MAX, f32::min);
            // If a step of 1 is lost in rounding at this magnitude, a larger one is used.
            let step = (minimum.abs() * f32::EPSILON * 2.0).max(1.0);
            let mut scores = vec![0.0; first.len()];
            candidates.iter().zip(second).for_each(|(&document, &score)| scores[document] = score);
            for (group, (_, tied)) in tied_groups(rest, |a, b| first[a] == first[b]).enumerate() {
                tied.iter().for_each(|&document| scores[document] = minimum - (group + 1) as f32 * step);
            }
            scores
        };
        Ok(of_first.par_iter().zip(&orders).zip(&of_second).map(join).collect())
    }
}

/// All indices by descending score, ties in order.
fn best_first(scores: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].partial_cmp(&scores[a]).unwrap_or(Ordering::Equal));
    order
}

#[cfg(test)]
mod tests {
    use super::super::tests::asked;
    use super::*;

    /// Gives every query the same scores, and counts documents.
    struct Fixed(Vec<f32>);

    impl Scorer for Fixed {
        fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
            Ok(vec![self.0.clone(); queries.len()])
        }
    }

    #[test]
    fn means_are_weighted_and_maxima_are_of_absolute_values() {
        let (a, b) = ([0.5, -1.0, 0.0], [4.0, 2.0, -8.0]);
        assert_eq!(Fusion::Mean.combine(&[(1.0, &a), (3.0, &b)]), [3.125, 1.25, -6.0]);
        assert_eq!(Fusion::MaxAbs.combine(&[(1.0, &a), (2.0, &b)]), [1.5, -0.5, -2.0]);
        assert_eq!(Fusion::MaxAbs.combine(&[(1.0, &[0.0, 0.0])]), [0.0, 0.0]);
        assert!(Fusion::Mean.combine(&[]).is_empty());
    }

    #[test]
    fn standard_scores_have_mean_0_and_deviation_1() {
        // For 1, 2, 3, 6: mean 3, variance 14 / 4.
        let deviation = 3.5_f64.sqrt();
        let expected = [-2.0, -1.0, 0.0, 3.0].map(|score| (0.5 * score / deviation) as f32);
        assert_eq!(Fusion::ZScore.combine(&[(0.5, &[1.0, 2.0, 3.0, 6.0]), (1.0, &[7.0; 4])]), expected);
        let infinite = Fusion::ZScore.combine(&[(1.0, &[f32::NEG_INFINITY, 0.0, 1.0])]);
        assert!(infinite.iter().all(|score| score.is_finite()) && infinite[0] < infinite[1], "{infinite:?}");
    }

    #[test]
    fn reciprocal_ranks_are_shared_and_the_least_score_has_none() {
        let fused = Fusion::ReciprocalRank { k: 60.0 };
        let found = fused.combine(&[(1.0, &[3.0, 3.0, 1.0, 0.0]), (2.0, &[-0.3, 0.1, 0.2, -0.3])]);
        let expected = [1.0 / 61.0, 1.0 / 61.0 + 2.0 / 62.0, 1.0 / 63.0 + 2.0 / 61.0, 0.0];
        assert_eq!(found, expected.map(|score: f64| score as f32));
    }

    #[test]
    fn a_mean_of_one_scale_keeps_it() {
        struct LogOdds;
        impl Scorer for LogOdds {
            fn scale(&self) -> Scale {
                Scale::LogOdds
            }

            fn scores(&self, queries: &[&Query]) -> Result<Vec<Vec<f32>>, EvalError> {
                Ok(vec![Vec::new(); queries.len()])
            }
        }
        let odds = || Box::new(LogOdds) as Box<dyn Scorer>;
        let cosines = || Box::new(Fixed(Vec::new())) as Box<dyn Scorer>;
        let scale = |fusion, parts: Vec<Box<dyn Scorer>>| {
            Fused { fusion, parts: parts.into_iter().map(|part| (1.0, part)).collect() }.scale()
        };
        assert_eq!(scale(Fusion::Mean, vec![odds(), odds()]), Scale::LogOdds);
        assert_eq!(scale(Fusion::Mean, vec![odds(), cosines()]), Scale::Similarity);
        assert_eq!(scale(Fusion::ZScore, vec![odds(), odds()]), Scale::Similarity);
        assert_eq!(Reranked { first: cosines(), second: odds(), depth: 1 }.scale(), Scale::LogOdds);
    }

    #[test]
    fn fused_scorers_equal_their_fused_scores() {
        let fixed = |scores: [f32; 3]| Box::new(Fixed(scores.to_vec())) as Box<dyn Scorer>;
        let (a, b) = ([0.1, 0.9, 0.5], [2.0, 0.0, 1.0]);
        let fused = Fused { fusion: Fusion::MaxAbs, parts: vec![(1.0, fixed(a)), (0.25, fixed(b))] };
        let (one, other) = (asked("x"), asked("y"));
        let expected = Fusion::MaxAbs.combine(&[(1.0, &a), (0.25, &b)]);
        assert_eq!(fused.scores(&[&one, &other]).unwrap(), [expected.clone(), expected]);
    }

    #[test]
    fn only_candidates_change_places() {
        let rerank = |first: &[f32], second: &[f32], depth| {
            let boxed = |scores: &[f32]| Box::new(Fixed(scores.to_vec())) as Box<dyn Scorer>;
            let scorer = Reranked { first: boxed(first), second: boxed(second), depth };
            scorer.scores(&[&asked("x")]).unwrap().remove(0)
        };
        let (first, second) = ([0.9, 0.1, 0.5, 0.1, 0.7, 0.0], [-3.0, 9.0, -2.0, 9.0, -1.0, 9.0]);
        assert_eq!(rerank(&first, &second, 3), [-3.0, -4.0, -2.0, -4.0, -1.0, -5.0]);
        assert_eq!(rerank(&first, &second, 1), [-3.0, -6.0, -5.0, -6.0, -4.0, -7.0]);
        assert_eq!(rerank(&first, &second, 100), second);
        assert_eq!(rerank(&[], &[], 3), [0.0_f32; 0]);
        let great = rerank(&first, &[1e30; 6], 2);
        assert!(great[0] == great[4] && great[2] < great[4] && great[1] < great[2] && great[5] < great[3]);
    }
}
