//! Fuses two lists of scores into one.

/// Weighted sum of two scores that are first scaled to 0 to 1; `dense_weight` (0 to 1) is the weight of the dense
/// one. Convex combination as in Bruch, Gai and Ingber, *An Analysis of Fusion Functions for Hybrid Retrieval*
/// (2023), with the theoretical minimum of each score: 0 for BM25, and also 0 for cosines, because texts with lower
/// ones are not similar at all. Scales depend on the whole lists, so these must contain all documents or at least the
/// best of each side.
///
/// # Panics
/// When the lists have different lengths.
pub fn convex_combination(lexical: &[f32], dense: &[f32], dense_weight: f32) -> Vec<f32> {
    let fusion = Fusion::new(lexical, dense, dense_weight);
    lexical.iter().zip(dense).map(|(&lexical, &dense)| fusion.score(lexical, dense)).collect()
}

/// The factors of the two scores of a document in a [`convex_combination`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fusion {
    lexical: f32,
    dense: f32,
}

impl Fusion {
    /// Scales for lists with the scores of all documents.
    pub fn new(lexical: &[f32], dense: &[f32], dense_weight: f32) -> Self {
        assert_eq!(lexical.len(), dense.len(), "both score the same documents");
        Self { lexical: (1.0 - dense_weight) / max_or_one(lexical), dense: dense_weight / max_or_one(dense) }
    }

    /// The score of one document.
    pub fn score(self, lexical: f32, dense: f32) -> f32 {
        lexical.max(0.0) * self.lexical + dense.max(0.0) * self.dense
    }
}

/// Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009): the sum over both lists of 1 / (k + rank), with
/// 1-based ranks, and k usually 60. Documents with equal scores share the best of their ranks; a score of 0 or less
/// has no rank.
///
/// # Panics
/// When the lists have different lengths.
pub fn reciprocal_rank(lexical: &[f32], dense: &[f32], k: f32) -> Vec<f32> {
    assert_eq!(lexical.len(), dense.len(), "both score the same documents");
    let mut fused = vec![0.0; lexical.len()];
    for scores in [lexical, dense] {
        let mut order: Vec<usize> = (0..scores.len()).filter(|&document| scores[document] > 0.0).collect();
        order.sort_unstable_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let mut rank = 1;
        for (position, &document) in order.iter().enumerate() {
            if position > 0 && scores[document] < scores[order[position - 1]] {
                rank = position + 1;
            }
            fused[document] += 1.0 / (k + rank as f32);
        }
    }
    fused
}

/// The maximum of the scores, or 1 if none is positive, for use as a divisor.
pub(crate) fn max_or_one(scores: &[f32]) -> f32 {
    // In lanes, for SIMD instructions.
    let (chunks, rest) = scores.as_chunks::<16>();
    let mut lanes = [0.0_f32; 16];
    chunks
        .iter()
        .for_each(|chunk| lanes.iter_mut().zip(chunk).for_each(|(lane, score)| *lane = lane.max(*score)));
    let maximum = lanes.iter().chain(rest).copied().fold(0.0, f32::max);
    if maximum > 0.0 { maximum } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn convex_combination_weighs_scaled_scores() {
        let fused = convex_combination(&[4.0, 2.0, 0.0], &[-0.5, 0.2, 0.4], 0.25);
        assert_eq!(fused, [0.75, 0.375 + 0.125, 0.25]);
    }

    #[test]
    fn no_match_on_a_side_leaves_the_other() {
        assert_eq!(convex_combination(&[0.0, 0.0], &[0.5, 0.25], 0.5), [0.5, 0.25]);
        assert_eq!(convex_combination(&[], &[], 0.5), [0.0; 0]);
    }

    #[test]
    fn reciprocal_rank_adds_ranks_and_skips_what_has_no_score() {
        let fused = reciprocal_rank(&[3.0, 3.0, 1.0, 0.0], &[0.0, 0.1, 0.2, -0.3], 60.0);
        let expected = [1.0 / 61.0, 1.0 / 61.0 + 1.0 / 62.0, 1.0 / 63.0 + 1.0 / 61.0, 0.0];
        assert_eq!(fused, expected);
    }
}
