//! Krippendorff's α.

use super::{distinct, ratio, value_index};
use crate::significance::{Bootstrap, Interval, resampled_interval};
use serde::{Deserialize, Serialize};

/// Level of measurement, which sets the distance of two values (Krippendorff, *Computing Krippendorff's
/// Alpha-Reliability*, 2011).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Names: 0 if equal, else 1.
    #[default]
    Nominal,
    /// Ranks: squared number of ratings between the middles of the two values.
    Ordinal,
    /// Points on a scale: squared difference.
    Interval,
    /// Amounts of 0 or more: squared difference over sum; 0 for two zeros.
    Ratio,
}

/// Ratings of the units that have two or more, as indices among the distinct values.
struct Ratings {
    values: Vec<f64>,
    units: Vec<Vec<usize>>,
}

impl Ratings {
    fn new(table: &[Vec<Option<f64>>]) -> Self {
        let values = distinct(table.iter().flatten().flatten().copied());
        let indices =
            |row: &Vec<Option<f64>>| row.iter().flatten().map(|&value| value_index(&values, value)).collect();
        let units = table.iter().map(indices).filter(|unit: &Vec<usize>| unit.len() > 1).collect();
        Self { values, units }
    }

    /// Resamples the units, each one or more times.
    fn chance<'a>(&'a self, level: Level, units: impl Iterator<Item = &'a Vec<usize>>) -> Chance {
        let mut counts = vec![0.0; self.values.len()];
        for &value in units.flatten() {
            counts[value] += 1.0;
        }
        let n: f64 = counts.iter().sum();
        let scale: Vec<f64> = match level {
            Level::Ordinal => {
                let mut below = 0.0;
                let middle = |count: &f64| {
                    below += count;
                    below - count / 2.0
                };
                counts.iter().map(middle).collect()
            }
            _ => self.values.clone(),
        };
        let chance = Chance { level, scale, n, disagreement: None };
        // Sum over ordered pairs of all ratings.
        let disagreement = match level {
            Level::Nominal => counts.iter().map(|count| count * (n - count)).sum(),
            Level::Ordinal | Level::Interval => {
                let values = || counts.iter().zip(&chance.scale);
                let mean = values().map(|(count, value)| count * value).sum::<f64>() / n;
                let squares = values().map(|(count, value)| count * (value - mean).powi(2));
                2.0 * n * squares.sum::<f64>()
            }
            Level::Ratio => {
                let distances = |a: usize| (0..a).map(|b| counts[b] * chance.distance(a, b)).sum::<f64>();
                2.0 * (0..counts.len()).map(|a| counts[a] * distances(a)).sum::<f64>()
            }
        };
        // With a single value, the rounded mean may leave a remainder.
        let varied = counts.iter().filter(|count| **count > 0.0).count() > 1;
        Chance { disagreement: varied.then_some(disagreement), ..chance }
    }

    /// α of some of the units, one or more times each.
    fn alpha<'a>(&'a self, level: Level, units: impl Iterator<Item = &'a Vec<usize>> + Clone) -> Option<f64> {
        self.chance(level, units.clone()).alpha(units)
    }
}

/// Expected disagreement.
struct Chance {
    level: Level,
    scale: Vec<f64>,
    n: f64,
    /// Sum over ordered pairs of all ratings; `None` where only one value occurs.
    disagreement: Option<f64>,
}

impl Chance {
    fn distance(&self, a: usize, b: usize) -> f64 {
        let (x, y) = (self.scale[a], self.scale[b]);
        match self.level {
            Level::Nominal => f64::from(u8::from(a != b)),
            Level::Ordinal | Level::Interval => (x - y).powi(2),
            Level::Ratio if a == b => 0.0,
            Level::Ratio => ((x - y) / (x + y)).powi(2),
        }
    }

    /// α of some units against this chance.
    fn alpha<'a>(&self, units: impl Iterator<Item = &'a Vec<usize>>) -> Option<f64> {
        let (mut observed, mut ratings) = (0.0, 0.0);
        for unit in units {
            let pairs = unit.iter().enumerate().flat_map(|(i, &a)| unit[..i].iter().map(move |&b| (a, b)));
            let sum: f64 = pairs.map(|(a, b)| self.distance(a, b)).sum();
            // Over ordered pairs, each weighing 1 / (ratings of the unit - 1).
            observed += 2.0 * sum / (unit.len() as f64 - 1.0);
            ratings += unit.len() as f64;
        }
        ratio(observed * (self.n - 1.0) * (self.n / ratings), self.disagreement?)
            .map(|disagreement| 1.0 - disagreement)
    }
}

/// Krippendorff's α = 1 − D_o / D_e: observed disagreement within units over that expected by chance from all
/// pairable ratings (Krippendorff, *Content Analysis*, 2004, chapter 11). −1 to 1, larger is better. Any number of
/// raters; units with one rating are left out. `None` with fewer than two distinct pairable values.
pub fn krippendorff_alpha(table: &[Vec<Option<f64>>], level: Level) -> Option<f64> {
    let ratings = Ratings::new(table);
    ratings.alpha(level, ratings.units.iter())
}

/// α of each unit: 1 − its mean disagreement over that expected by chance from all pairable ratings of the table, so
/// that α of the table is the mean of these, each weighing as many times as the unit has ratings. At most 1; low where
/// the raters of a unit disagree, which is how pairs on which annotators disagree are found and removed (CoSQA, Huang
/// et al., 2021). `None` for units with one rating or none, and for all if α is not defined.
pub fn krippendorff_by_unit(table: &[Vec<Option<f64>>], level: Level) -> Vec<Option<f64>> {
    let ratings = Ratings::new(table);
    let chance = ratings.chance(level, ratings.units.iter());
    let mut units = ratings.units.iter();
    let row_alpha = |row: &Vec<Option<f64>>| {
        let unit = (row.iter().flatten().count() > 1).then(|| units.next()).flatten()?;
        chance.alpha(std::iter::once(unit))
    };
    table.iter().map(row_alpha).collect()
}

/// Mean of α over consecutive blocks of `block` rows, the last one possibly shorter, as CoSQA+'s scripts compute it
/// with blocks of 100 (Gong et al., 2024). It differs from α of the whole table. `None` without rows, for blocks of
/// 0 rows, or where α of a block is not defined.
pub fn krippendorff_alpha_by_blocks(table: &[Vec<Option<f64>>], level: Level, block: usize) -> Option<f64> {
    if block == 0 || table.is_empty() {
        return None;
    }
    let alphas: Option<Vec<f64>> = table.chunks(block).map(|rows| krippendorff_alpha(rows, level)).collect();
    alphas.map(|alphas| alphas.iter().sum::<f64>() / alphas.len() as f64)
}

/// Percentile interval of α by drawing units again (Zapf et al., *Measuring Inter-Rater Reliability for Nominal Data*,
/// 2016). Resamples in which α is not defined are left out; `None` where it never is.
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
    use quarry_test_support::assert_close;

    fn two(ratings: &[(f64, f64)]) -> Vec<Vec<Option<f64>>> {
        ratings.iter().map(|&(a, b)| vec![Some(a), Some(b)]).collect()
    }

    #[test]
    fn levels_worked_by_hand() {
        // Values 1, 1, 1, 2, 2, 4: six ratings, the units (1, 1), (1, 2), (2, 4).
        let table = two(&[(1.0, 1.0), (1.0, 2.0), (2.0, 4.0)]);
        // Unlike ordered pairs: 2 + 2 in units; 2 (3·2 + 3·1 + 2·1) = 22 over all, of which n − 1 = 5 each.
        assert_close(krippendorff_alpha(&table, Level::Nominal), 1.0 - 5.0 * 4.0 / 22.0);
        // Squares: 2 (1 + 4); 2 (6·1 + 3·9 + 2·4).
        assert_close(krippendorff_alpha(&table, Level::Interval), 1.0 - 5.0 * 10.0 / 82.0);
        // Middles of the values' indices 1.5, 4 and 5.5.
        let (near, far, last) = (2.5_f64.powi(2), 4.0_f64.powi(2), 1.5_f64.powi(2));
        assert_close(
            krippendorff_alpha(&table, Level::Ordinal),
            1.0 - 5.0 * 2.0 * (near + last) / (2.0 * (6.0 * near + 3.0 * far + 2.0 * last)),
        );
        let (third, most) = (1.0 / 9.0, 9.0 / 25.0);
        assert_close(
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
        assert_close(krippendorff_alpha(&table, Level::Nominal), 1.0 - 4.0 * (4.0 / 2.0) / 12.0);
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
    fn units_average_to_the_whole() {
        // Four ratings of 1 and three of 2: 2 · 12 unlike ordered pairs of 42, so that chance disagrees 4 / 7.
        let table = [
            vec![Some(1.0), Some(1.0), Some(2.0)],
            vec![Some(2.0), None, Some(2.0)],
            vec![None, Some(9.0), None],
            vec![Some(1.0), Some(1.0), None],
        ];
        let found = krippendorff_by_unit(&table, Level::Nominal);
        assert_close(found[0], 1.0 - (2.0 / 3.0) / (4.0 / 7.0));
        assert_eq!((found[1], found[2], found[3]), (Some(1.0), None, Some(1.0)));
        for level in [Level::Nominal, Level::Ordinal, Level::Interval, Level::Ratio] {
            let units = krippendorff_by_unit(&table, level);
            let mean = (3.0 * units[0].unwrap() + 2.0 * units[1].unwrap() + 2.0 * units[3].unwrap()) / 7.0;
            assert_close(krippendorff_alpha(&table, level), mean);
        }
        assert_eq!(krippendorff_by_unit(&two(&[(1.0, 1.0)]), Level::Nominal), [None]);
    }

    #[test]
    fn blocks_are_averaged() {
        let table = two(&[(0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 1.0)]);
        let alpha = |rows: &[Vec<Option<f64>>]| krippendorff_alpha(rows, Level::Nominal).unwrap();
        let expected = (alpha(&table[..2]) + alpha(&table[2..4]) + alpha(&table[4..])) / 3.0;
        assert_close(krippendorff_alpha_by_blocks(&table, Level::Nominal, 2), expected);
        assert!((expected - alpha(&table)).abs() > 0.1);
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
