//! The best of many scores.

use std::cmp::Ordering;

use rayon::prelude::*;

/// Units per task: enough to outweigh the cost of distributing them.
const UNITS_PER_TASK: usize = 1 << 15;

/// Sets the scores of units that are not allowed to 0.
pub(crate) fn hide(scores: &mut [f32], allowed: Option<&[bool]>) {
    let hidden = scores.iter_mut().zip(allowed.into_iter().flatten()).filter(|(_, allowed)| !**allowed);
    hidden.for_each(|(score, _)| *score = 0.0);
}

/// Orders by descending score, then by ascending unit.
pub(crate) fn better_first(a: &(usize, f32), b: &(usize, f32)) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// Of the first `n_units` units, the `n` with the largest scores above 0, with their scores, unordered; ties at the
/// border are resolved in favor of lower numbers.
pub(crate) fn best(n_units: usize, n: usize, score: impl Fn(usize) -> f32 + Sync) -> Vec<(usize, f32)> {
    let cut = |mut units: Vec<(usize, f32)>| {
        if n < units.len() {
            units.select_nth_unstable_by(n, better_first);
            units.truncate(n);
        }
        units
    };
    let best_of = |task: usize| {
        let mut best: Vec<(usize, f32)> = Vec::new();
        // Once twice as many are found as requested, the worst of the best `n` becomes the threshold.
        let mut bar = 0.0;
        for unit in task * UNITS_PER_TASK..n_units.min((task + 1) * UNITS_PER_TASK) {
            let score = score(unit);
            if score > bar {
                best.push((unit, score));
                if best.len() / 2 >= n.max(1) {
                    best = cut(best);
                    bar = best.iter().map(|(_, score)| *score).fold(f32::INFINITY, f32::min);
                }
            }
        }
        best
    };
    let tasks = (0..n_units.div_ceil(UNITS_PER_TASK)).into_par_iter();
    cut(tasks.map(best_of).reduce(Vec::new, |a, b| cut([a, b].concat())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_those_above_the_rest() {
        let sorted = |scores: &[f32], n| {
            let mut best = best(scores.len(), n, |unit| scores[unit]);
            best.sort_unstable_by_key(|(unit, _)| *unit);
            assert!(best.iter().all(|&(unit, score)| score == scores[unit]));
            best.into_iter().map(|(unit, _)| unit).collect::<Vec<_>>()
        };
        assert_eq!(sorted(&[0.1, 0.0, 0.5, 0.3, -1.0], 2), [2, 3]);
        assert_eq!(sorted(&[0.1, 0.0, 0.5], 10), [0, 2]);
        assert_eq!(sorted(&[0.5, 0.5, 0.5], 2), [0, 1]);
        assert_eq!(sorted(&[0.5], 0), [0; 0]);
        assert_eq!(sorted(&[0.5], usize::MAX), [0]);
        // Over several tasks, with many ties.
        let scores: Vec<f32> = (0..2 * UNITS_PER_TASK + 5).map(|unit| (unit * 37 % 101) as f32).collect();
        let mut expected: Vec<usize> = (0..scores.len()).collect();
        expected.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        expected.truncate(1000);
        expected.sort_unstable();
        assert_eq!(sorted(&scores, 1000), expected);
    }
}
