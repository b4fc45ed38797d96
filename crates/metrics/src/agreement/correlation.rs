//! Correlation of two lists of numbers: −1 to 1, 1 for the same order. `None` where a list has fewer than two
//! distinct values, or the lists differ in length.

/// Pearson's product-moment correlation (Pearson, 1895): covariance over the product of the deviations.
pub fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || is_constant(a) || is_constant(b) {
        return None;
    }
    let centered = |values: &[f64]| -> Vec<f64> {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| value - mean).collect()
    };
    let (a, b) = (centered(a), centered(b));
    let length = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let (length_a, length_b) = (length(&a), length(&b));
    let sum: f64 = a.iter().zip(&b).map(|(a, b)| (a / length_a) * (b / length_b)).sum();
    Some(sum.clamp(-1.0, 1.0))
}

/// Spearman's rank correlation (Spearman, 1904): [`pearson`] of the ranks, equal values sharing their mean rank.
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    pearson(&ranks(a), &ranks(b))
}

/// Kendall's τ-b (Kendall, *The Treatment of Ties in Ranking Problems*, 1945): pairs in the same order less pairs in
/// the other one, over the square root of the product of the numbers of pairs that are not tied in each list. Takes
/// n log n steps (Knight, *A Computer Method for Calculating Kendall's Tau with Ungrouped Data*, 1966).
pub fn kendall_tau_b(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || is_constant(a) || is_constant(b) {
        return None;
    }
    let mut pairs: Vec<(f64, f64)> = a.iter().zip(b).map(|(a, b)| (a + 0.0, b + 0.0)).collect();
    pairs.sort_unstable_by(|x, y| x.0.total_cmp(&y.0).then(x.1.total_cmp(&y.1)));
    let tied = |sizes: &mut dyn Iterator<Item = usize>| -> u64 {
        sizes.map(|size| size as u64 * (size as u64 - 1) / 2).sum()
    };
    let all = tied(&mut [pairs.len()].into_iter());
    let tied_a = tied(&mut pairs.chunk_by(|x, y| x.0 == y.0).map(<[_]>::len));
    let tied_both = tied(&mut pairs.chunk_by(|x, y| x == y).map(<[_]>::len));
    let mut of_b: Vec<f64> = pairs.into_iter().map(|(_, b)| b).collect();
    let inversions = sort_counting_inversions(&mut of_b);
    let tied_b = tied(&mut of_b.chunk_by(|x, y| x == y).map(<[_]>::len));
    let same_less_other = (all + tied_both - tied_a - tied_b) as f64 - 2.0 * inversions as f64;
    let tau = same_less_other / (((all - tied_a) as f64).sqrt() * ((all - tied_b) as f64).sqrt());
    Some(tau.clamp(-1.0, 1.0))
}

fn is_constant(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

/// Ranks from 1, ascending.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| (values[a] + 0.0).total_cmp(&(values[b] + 0.0)));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for same in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = before as f64 + (same.len() + 1) as f64 / 2.0;
        same.iter().for_each(|&position| ranks[position] = rank);
        before += same.len();
    }
    ranks
}

/// Sorts, and returns the number of pairs that were in the wrong order.
fn sort_counting_inversions(values: &mut [f64]) -> u64 {
    if values.len() < 2 {
        return 0;
    }
    let (left, right) = values.split_at_mut(values.len() / 2);
    let mut inversions = sort_counting_inversions(left) + sort_counting_inversions(right);
    let (mut i, mut j) = (0, 0);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    while i < left.len() && j < right.len() {
        if right[j] < left[i] {
            inversions += (left.len() - i) as u64;
            merged.push(right[j]);
            j += 1;
        } else {
            merged.push(left[i]);
            i += 1;
        }
    }
    merged.extend_from_slice(&left[i..]);
    merged.extend_from_slice(&right[j..]);
    values.copy_from_slice(&merged);
    inversions
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quarry_test_support::assert_close;

    #[test]
    fn values_worked_by_hand() {
        // Centered: −1.5, −0.5, 0.5, 1.5 and −1, 0, −1, 2; products 1.5 + 0 − 0.5 + 3, squares 5 and 6.
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, 3.0]);
        assert_close(pearson(&a, &b), 4.0 / 30.0_f64.sqrt());
        // Ranks of b: 1.5, 3, 1.5, 4; centered −1, 0.5, −1, 1.5: products 1.5 − 0.25 − 0.5 + 2.25, squares 5 and 4.5.
        assert_close(spearman(&a, &b), 3.0 / 22.5_f64.sqrt());
        // Of six pairs four are in the same order, one in the other, one is tied in b.
        assert_close(kendall_tau_b(&a, &b), 3.0 / 30.0_f64.sqrt());
        // Of ten pairs six are tied in each list, three of them in both; the only other one is in the same order.
        let (a, b) = ([1.0, 1.0, 1.0, 1.0, 2.0], [1.0, 2.0, 2.0, 2.0, 2.0]);
        assert_close(kendall_tau_b(&a, &b), 1.0 / 4.0);
    }

    #[test]
    fn the_same_order_is_1_the_reverse_minus_1_and_none_is_none() {
        let (up, down) = ([-1.0, 0.5, 7.0], [3.0, 2.0, 1.0]);
        for correlation in [pearson, spearman, kendall_tau_b] {
            assert_close(correlation(&up, &up), 1.0);
            assert!(correlation(&up, &down).unwrap() < -0.9);
            assert_eq!(correlation(&up, &[2.0; 3]), None);
            assert_eq!(correlation(&[], &[]), None);
            assert_eq!(correlation(&up, &down[..2]), None);
        }
        assert_close(spearman(&up, &down), -1.0);
        assert_close(kendall_tau_b(&up, &down), -1.0);
    }

    proptest! {
        #[test]
        fn knight_counts_as_all_pairs_do(pairs in prop::collection::vec((-2_i32..3, -2_i32..3), 2..30)) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().map(|&(a, b)| (f64::from(a), f64::from(b))).unzip();
            let sign = |values: &[f64], i: usize, j: usize| (values[i] - values[j]).clamp(-1.0, 1.0).round();
            let (mut sum, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
            for i in 0..a.len() {
                for j in 0..i {
                    let (x, y) = (sign(&a, i, j), sign(&b, i, j));
                    sum += x * y;
                    of_a += x * x;
                    of_b += y * y;
                }
            }
            match kendall_tau_b(&a, &b) {
                Some(found) => prop_assert!((found - sum / f64::sqrt(of_a * of_b)).abs() < 1e-12),
                None => prop_assert!(of_a == 0.0 || of_b == 0.0),
            }
        }
    }
}
