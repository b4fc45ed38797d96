//! Krippendorff's α.

use super::{distinct, place, ratio};
use crate::significance::{Bootstrap, Interval, resampled_interval};
use serde::{Deserialize, Serialize};

/// What the values of ratings mean, and so how far two of them are apart (Krippendorff, *Computing Krippendorff's
/// Alpha-Reliability*, 2011).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Names: 0 where equal, else 1.
    #[default]
    Nominal,
    /// Ranks: squared number of ratings between the middles of the two values.
    Ordinal,
    /// Points on a scale: squared difference.
    Interval,
    /// Amounts of 0 or more: squared difference over sum; 0 for two zeros.
    Ratio,
}

/// Ratings of the units that have two or more, as places among the distinct values.
struct Ratings {
    values: Vec<f64>,
    units: Vec<Vec<usize>>,
}

impl Ratings {
    fn new(table: &[Vec<Option<f64>>]) -> Self {
        let values = distinct(table.iter().flatten().flatten().copied());
        let places =
            |row: &Vec<Option<f64>>| row.iter().flatten().map(|&value| place(&values, value)).collect();
        let units = table.iter().map(places).filter(|unit: &Vec<usize>| unit.len() > 1).collect();
        Self { values, units }
    }

    /// α of some of the units, one or more times each.
    fn alpha<'a>(&'a self, level: Level, units: impl Iterator<Item = &'a Vec<usize>> + Clone) -> Option<f64> {
        let mut counts = vec![0.0; self.values.len()];
        for &value in units.clone().flatten() {
            counts[value] += 1.0;
        }
        let n: f64 = counts.iter().sum();
        let ranks: Vec<f64>;
        let scale = match level {
            Level::Ordinal => {
                let mut below = 0.0;
                ranks = counts
                    .iter()
                    .map(|count| {
                        below += count;
                        below - count / 2.0
                    })
                    .collect();
                &ranks
            }
            _ => &self.values,
        };
        let distance = |a: usize, b: usize| match level {
            Level::Nominal => f64::from(u8::from(a != b)),
            Level::Ordinal | Level::Interval => (scale[a] - scale[b]).powi(2),
            Level::Ratio if a == b => 0.0,
            Level::Ratio => ((scale[a] - scale[b]) / (scale[a] + scale[b])).powi(2),
        };
        // Sums over ordered pairs: within units, each weighing 1 / (ratings of the unit - 1), and over all ratings.
        let observed: f64 = units
            .map(|unit| {
                let pairs =
                    unit.iter().enumerate().flat_map(|(i, &a)| unit[..i].iter().map(move |&b| (a, b)));
                2.0 * pairs.map(|(a, b)| distance(a, b)).sum::<f64>() / (unit.len() as f64 - 1.0)
            })
            .sum();
        let expected: f64 = match level {
            Level::Nominal => counts.iter().map(|count| count * (n - count)).sum(),
            Level::Ordinal | Level::Interval => {
                let mean = counts.iter().zip(scale).map(|(count, value)| count * value).sum::<f64>() / n;
                let squares = counts.iter().zip(scale).map(|(count, value)| count * (value - mean).powi(2));
                2.0 * n * squares.sum::<f64>()
            }
            Level::Ratio => {
                let of = |a: usize| (0..a).map(|b| counts[b] * distance(a, b)).sum::<f64>();
                2.0 * (0..counts.len()).map(|a| counts[a] * of(a)).sum::<f64>()
            }
        };
        // Of one value alone the rounded mean may leave a remainder.
        if counts.iter().filter(|count| **count > 0.0).count() < 2 {
            return None;
        }
        ratio(observed * (n - 1.0), expected).map(|disagreement| 1.0 - disagreement)
    }
}

/// Krippendorff's α = 1 − D_o / D_e: observed disagreement within units over that expected by chance from all
/// pairable ratings (Krippendorff, *Content Analysis*, 2004, chapter 11). −1 to 1, greater is better. Any number of
/// raters; units with one rating are left out. `None` with fewer than two distinct pairable values.
#[must_use]
pub fn krippendorff_alpha(table: &[Vec<Option<f64>>], level: Level) -> Option<f64> {
    let ratings = Ratings::new(table);
    ratings.alpha(level, ratings.units.iter())
}

/// Mean of α over consecutive blocks of `block` rows, the last one as long as it is, as CoSQA+'s scripts compute it
/// with blocks of 100 (Gong et al., 2024). It differs from α of the whole table. `None` without rows, for blocks of
/// 0 rows, or where α of a block is not defined.
#[must_use]
pub fn krippendorff_alpha_by_blocks(table: &[Vec<Option<f64>>], level: Level, block: usize) -> Option<f64> {
    if block == 0 || table.is_empty() {
        return None;
    }
    let alphas: Option<Vec<f64>> = table.chunks(block).map(|rows| krippendorff_alpha(rows, level)).collect();
    alphas.map(|alphas| alphas.iter().sum::<f64>() / alphas.len() as f64)
}

/// Percentile interval of α by drawing units again (Zapf et al., *Measuring Inter-Rater Reliability for Nominal Data*,
/// 2016). Resamples in which α is not defined are left out; `None` where it never is.
#[must_use]
pub fn krippendorff_interval(
    table: &[Vec<Option<f64>>],
    level: Level,
    bootstrap: &Bootstrap,
) -> Option<Interval> {
    let ratings = Ratings::new(table);
    resampled_interval(ratings.units.len(), bootstrap, |drawn| {
        ratings.alpha(level, drawn.iter().map(|&unit| &ratings.units[unit]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-12), "{found:?} {expected}");
    }

    fn two(ratings: &[(f64, f64)]) -> Vec<Vec<Option<f64>>> {
        ratings.iter().map(|&(a, b)| vec![Some(a), Some(b)]).collect()
    }

    #[test]
    fn levels_worked_by_hand() {
        // Values 1, 1, 1, 2, 2, 4: six ratings, the units (1, 1), (1, 2), (2, 4).
        let table = two(&[(1.0, 1.0), (1.0, 2.0), (2.0, 4.0)]);
        // Unlike ordered pairs: 2 + 2 in units; 2 (3·2 + 3·1 + 2·1) = 22 over all, of which n − 1 = 5 each.
        check(krippendorff_alpha(&table, Level::Nominal), 1.0 - 5.0 * 4.0 / 22.0);
        // Squares: 2 (1 + 4); 2 (6·1 + 3·9 + 2·4).
        check(krippendorff_alpha(&table, Level::Interval), 1.0 - 5.0 * 10.0 / 82.0);
        // Middles of the values' places 1.5, 4 and 5.5.
        let (near, far, last) = (2.5_f64.powi(2), 4.0_f64.powi(2), 1.5_f64.powi(2));
        check(
            krippendorff_alpha(&table, Level::Ordinal),
            1.0 - 5.0 * 2.0 * (near + last) / (2.0 * (6.0 * near + 3.0 * far + 2.0 * last)),
        );
        let (third, most) = (1.0 / 9.0, 9.0 / 25.0);
        check(
            krippendorff_alpha(&table, Level::Ratio),
            1.0 - 5.0 * 2.0 * (third + third) / (2.0 * (6.0 * third + 3.0 * most + 2.0 * third)),
        );
    }

    #[test]
    fn missing_ratings_weigh_by_unit_and_single_ones_not_at_all() {
        let table = [
            vec![Some(1.0), Some(1.0), Some(2.0)],
            vec![Some(2.0), None, Some(2.0)],
            vec![None, Some(9.0), None],
        ];
        // Unlike ordered pairs of the first unit: 4, each 1 / 2. Values 1, 1, 2, 2, 2.
        check(krippendorff_alpha(&table, Level::Nominal), 1.0 - 4.0 * (4.0 / 2.0) / 12.0);
    }

    #[test]
    fn one_value_has_no_alpha() {
        for level in [Level::Nominal, Level::Ordinal, Level::Interval, Level::Ratio] {
            assert_eq!(krippendorff_alpha(&two(&[(0.1, 0.1), (0.1, 0.1), (0.1, 0.1)]), level), None);
            assert_eq!(krippendorff_alpha(&[], level), None);
        }
        assert_eq!(krippendorff_alpha(&two(&[(0.0, 0.0), (1.0, 1.0)]), Level::Ratio), Some(1.0));
        let signed = two(&[(0.0, -0.0), (1.0, 1.0)]);
        assert_eq!(krippendorff_alpha(&signed, Level::Nominal), Some(1.0));
    }

    #[test]
    fn blocks_are_averaged() {
        let table = two(&[(0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 1.0)]);
        let of = |rows: &[Vec<Option<f64>>]| krippendorff_alpha(rows, Level::Nominal).unwrap();
        let expected = (of(&table[..2]) + of(&table[2..4]) + of(&table[4..])) / 3.0;
        check(krippendorff_alpha_by_blocks(&table, Level::Nominal, 2), expected);
        assert!((expected - of(&table)).abs() > 0.1);
        assert_eq!(krippendorff_alpha_by_blocks(&table, Level::Nominal, 1), None);
        assert_eq!(krippendorff_alpha_by_blocks(&table, Level::Nominal, 0), None);
    }

    #[test]
    fn the_interval_holds_alpha_and_repeats_itself() {
        let table: Vec<Vec<Option<f64>>> = (0..60)
            .map(|i| vec![Some(f64::from(i % 3)), Some(f64::from(if i % 7 == 0 { 0 } else { i % 3 }))])
            .collect();
        let alpha = krippendorff_alpha(&table, Level::Nominal).unwrap();
        let bootstrap = Bootstrap { resamples: 500, ..Bootstrap::default() };
        let interval = krippendorff_interval(&table, Level::Nominal, &bootstrap).unwrap();
        assert!(
            interval.low < alpha && alpha < interval.high && interval.high - interval.low < 0.3,
            "{interval:?}"
        );
        assert_eq!(krippendorff_interval(&table, Level::Nominal, &bootstrap), Some(interval));
        assert_eq!(krippendorff_interval(&table[..0], Level::Nominal, &bootstrap), None);
    }
}
