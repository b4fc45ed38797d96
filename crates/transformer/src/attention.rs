//! Softmax attention of the tokens of a text to each other (Vaswani et al., 2017), and what positions do to it.

use std::ops::Range;

use super::encoder::{Linear, Norm};
use super::graph::Graph;
use super::numeric::{LANES, Output, Strided, multiply, rotate_rows, softmax_rows};
use super::shape::Shape;

/// Rows of scores that are computed at a time, so that a long text needs no square of its length in memory.
const BLOCK: usize = 256;

/// The first half of a layer.
pub(crate) struct Attention {
    /// Makes queries, keys and values of all heads side by side; the query, or its normalization, comes with the factor
    /// of its scores.
    pub query_key_value: Linear,
    /// Maps the heads' results to the summand of the token's vector.
    pub output: Linear,
    pub head_norms: Option<[Norm; 2]>,
    /// Rotates queries and keys by their positions.
    pub rotary: Option<Rotary>,
    pub reach: Reach,
}

/// Rotary positions (Su et al., 2021): column i and column i + half of a head's query or key are rotated by the position
/// times `base`^(-i / half).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rotary {
    /// The larger, the slower the last columns rotate.
    pub base: f32,
}

/// Number of tokens before and after itself that a token attends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    pub before: usize,
    pub after: usize,
}

/// Biases of attention by the distance between two tokens.
pub(crate) enum Biases {
    /// Near distances have their own, the further ones share one in buckets of growing size, the two directions separately
    /// (Raffel et al., 2020).
    Buckets {
        /// One row per bucket, one column per head.
        table: Vec<f32>,
        /// Number of buckets, of both directions together.
        n_buckets: usize,
        /// The distance from which on all share a bucket.
        max_distance: usize,
    },
    /// Less than 0 in proportion to the distance, each head by a factor of its own (Press et al., 2022).
    Slopes,
}

/// Biases of every distance within a text: for each head, those of the distances from `1 - n` to `n - 1`.
pub(crate) struct DistanceBiases {
    values: Vec<f32>,
    n: usize,
}

/// Cosines and sines of the angles by which the layers of an encoder rotate.
pub(crate) struct Rotations {
    half: usize,
    /// For each base, the cosines and the sines: one row per position.
    tables: Vec<(Rotary, Vec<f32>, Vec<f32>)>,
}

impl Reach {
    pub(crate) const ALL: Reach = Reach { before: usize::MAX, after: usize::MAX };

    /// The tokens up to this distance.
    pub(crate) fn within(distance: usize) -> Reach {
        Reach { before: distance, after: distance }
    }

    /// The same without those after the token itself.
    pub(crate) fn causal(self) -> Reach {
        Reach { after: 0, ..self }
    }

    /// The tokens that the one at `position` of `n` attends to.
    fn range(self, position: usize, n: usize) -> Range<usize> {
        position.saturating_sub(self.before)..position.saturating_add(self.after).saturating_add(1).min(n)
    }
}

impl Biases {
    pub(crate) fn by_distance(&self, n: usize, n_heads: usize) -> DistanceBiases {
        let n = n.max(1);
        let distances = 1 - n as isize..n as isize;
        let values = match self {
            Biases::Buckets { table, n_buckets, max_distance } => {
                let buckets: Vec<usize> =
                    distances.map(|distance| bucket(distance, *n_buckets, *max_distance)).collect();
                (0..n_heads)
                    .flat_map(|head| buckets.iter().map(move |bucket| table[bucket * n_heads + head]))
                    .collect()
            }
            Biases::Slopes => slopes(n_heads)
                .into_iter()
                .flat_map(|slope| {
                    distances.clone().map(move |distance| -slope * distance.unsigned_abs() as f32)
                })
                .collect(),
        };
        DistanceBiases { values, n }
    }
}

/// The factors of [`Biases::Slopes`]: 2^(-8 / n), its square and so on for n heads if n is a power of 2; else those of the
/// next lower power, and every other one of the next higher power.
fn slopes(n_heads: usize) -> Vec<f32> {
    let powers = |n: usize| (1..=n).map(move |head| (-8.0 * head as f64 / n as f64).exp2() as f32);
    let lower = if n_heads.is_power_of_two() { n_heads } else { n_heads.next_power_of_two() / 2 };
    powers(lower).chain(powers(2 * lower).step_by(2)).take(n_heads).collect()
}

/// Bucket of a token that is `distance` tokens after the one that attends to it.
pub(crate) fn bucket(distance: isize, n_buckets: usize, max_distance: usize) -> usize {
    let half = n_buckets / 2;
    let direction = if distance > 0 { half } else { 0 };
    let distance = distance.unsigned_abs();
    let n_exact = half / 2;
    if distance < n_exact {
        return direction + distance;
    }
    // As in the original, with 32 bits: a bucket begins where the logarithm is exact.
    let exact = n_exact as f32;
    let share = (distance as f32 / exact).ln() / (max_distance as f32 / exact).ln();
    direction + (n_exact + (share * (half - n_exact) as f32) as usize).min(half - 1)
}

impl DistanceBiases {
    /// The biases of a head for the token at `position` that attends to the tokens from `first` on.
    fn row(&self, head: usize, position: usize, first: usize) -> &[f32] {
        let of_head = &self.values[head * (2 * self.n - 1)..][..2 * self.n - 1];
        &of_head[self.n - 1 + first - position..]
    }
}

impl Rotations {
    /// Tables for the positions of a text of `n` tokens, for all layers.
    pub(crate) fn new<'a>(
        layers: impl Iterator<Item = &'a Attention>,
        n: usize,
        head_width: usize,
    ) -> Rotations {
        let half = head_width / 2;
        let mut tables: Vec<(Rotary, Vec<f32>, Vec<f32>)> = Vec::new();
        for rotary in layers.filter_map(|layer| layer.rotary) {
            if tables.iter().any(|(known, ..)| *known == rotary) {
                continue;
            }
            // In 32 bits, as the originals compute them.
            let speeds: Vec<f32> =
                (0..half).map(|i| 1.0 / rotary.base.powf((2 * i) as f32 / head_width as f32)).collect();
            let angles = (0..n).flat_map(|position| speeds.iter().map(move |speed| position as f32 * speed));
            let (sines, cosines): (Vec<f32>, Vec<f32>) = angles.map(f32::sin_cos).unzip();
            tables.push((rotary, cosines, sines));
        }
        Rotations { half, tables }
    }
}

/// The tokens of a text that the others attend to, and by how much.
pub(crate) struct Attended<'a> {
    /// The number of the first tokens that are attended to.
    pub n: usize,
    pub biases: Option<&'a DistanceBiases>,
    /// Tokens attend along it, if there is one.
    pub graph: Option<&'a Graph>,
}

impl Attention {
    /// Applies the normalizations of heads, and rotates queries and keys, of which each text has a span of rows.
    pub(crate) fn position(
        &self,
        shape: &Shape,
        query_key_value: &mut [f32],
        spans: &[Range<usize>],
        rotations: &Rotations,
    ) {
        let (queries, keys) = (shape.n_heads * shape.head_width, shape.n_key_heads * shape.head_width);
        let row_width = shape.query_key_value_width();
        if let Some([of_queries, of_keys]) = &self.head_norms {
            for row in query_key_value.chunks_exact_mut(row_width) {
                of_queries.apply(&mut row[..queries]);
                of_keys.apply(&mut row[queries..queries + keys]);
            }
        }
        let table = rotations.tables.iter().find(|(rotary, ..)| Some(*rotary) == self.rotary);
        let Some((_, cosines, sines)) = table else { return };
        let half = rotations.half;
        for span in spans {
            let rows = query_key_value[span.start * row_width..].chunks_exact_mut(row_width).take(span.len());
            for (position, row) in rows.enumerate() {
                let at = position * half..(position + 1) * half;
                rotate_rows(&mut row[..queries + keys], &cosines[at.clone()], &sines[at]);
            }
        }
    }

    /// Attention of the tokens of one text to each other, all heads: from the rows of queries, keys and values to those
    /// of `context`, which is 0 for a token that attends to none. `scores` is scratch space.
    pub(crate) fn attend(
        &self,
        shape: &Shape,
        query_key_value: &[f32],
        attended: &Attended,
        context: &mut [f32],
        scores: &mut Vec<f32>,
    ) {
        let Shape { n_heads, n_key_heads, head_width: width, .. } = *shape;
        let row_stride = shape.query_key_value_width();
        let n = query_key_value.len() / row_stride;
        let reach = |position: usize| {
            let Range { start, end } = self.reach.range(position, n);
            start.min(attended.n)..end.min(attended.n)
        };
        for block in (0..n).step_by(BLOCK).map(|start| start..(start + BLOCK).min(n)) {
            let first = reach(block.start).start;
            let n_keys = reach(block.end - 1).end - first;
            if n_keys == 0 {
                context[block.start * n_heads * width..block.end * n_heads * width].fill(0.0);
                continue;
            }
            let stride = n_keys.next_multiple_of(LANES);
            scores.resize(block.len() * stride, 0.0);
            for head in 0..n_heads {
                let key_head = head * n_key_heads / n_heads;
                let part = |row: usize, head: usize| &query_key_value[row * row_stride + head * width..];
                let query = Strided { values: part(block.start, head), row_stride, column_stride: 1 };
                let keys = part(first, n_heads + key_head);
                let key_transposed = Strided { values: keys, row_stride: 1, column_stride: row_stride };
                let values = part(first, n_heads + n_key_heads + key_head);
                let value = Strided { values, row_stride, column_stride: 1 };
                let sizes = [block.len(), n_keys, width];
                multiply(Output::Replace, scores, stride, query, key_transposed, sizes);
                for (position, scores) in block.clone().zip(scores.chunks_exact_mut(stride)) {
                    let scores = &mut scores[..n_keys];
                    if let Some(biases) = attended.biases {
                        let biases = biases.row(head, position, first);
                        scores.iter_mut().zip(biases).for_each(|(score, bias)| *score += bias);
                    }
                    if let Some(graph) = attended.graph {
                        let reached = &graph.reached(position)[first..];
                        let outside = scores.iter_mut().zip(reached).filter(|(_, reached)| !**reached);
                        outside.for_each(|(score, _)| *score = f32::NEG_INFINITY);
                    }
                    let reached = reach(position);
                    scores[..reached.start - first].fill(f32::NEG_INFINITY);
                    scores[reached.end - first..].fill(f32::NEG_INFINITY);
                }
                softmax_rows(scores, n_keys, stride);
                for (_, scores) in
                    block.clone().zip(scores.chunks_exact_mut(stride)).filter(|(at, _)| reach(*at).is_empty())
                {
                    scores.fill(0.0);
                }
                let weights = Strided { values: scores, row_stride: stride, column_stride: 1 };
                let head_context = &mut context[block.start * n_heads * width + head * width..];
                let sizes = [block.len(), width, n_keys];
                multiply(Output::Replace, head_context, n_heads * width, weights, value, sizes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_of_heads() {
        assert_eq!(slopes(8)[..3], [0.5, 0.25, 0.125]);
        assert_eq!(slopes(4), [0.25, 0.0625, 0.015_625, 0.003_906_25]);
        // 12 heads: those of 8, and the first, third, fifth and seventh of 16.
        let twelve = slopes(12);
        assert_eq!(twelve.len(), 12);
        assert_eq!((twelve[7], twelve[9]), (0.003_906_25, 0.5f32.powf(1.5)));
    }
}
