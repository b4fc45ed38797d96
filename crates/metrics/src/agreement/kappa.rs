//! Agreement of nominal ratings, corrected for chance and not.

use super::{distinct, ratio, value_index};
use serde::{Deserialize, Serialize};

/// Weight of a disagreement, by the indices of the two values among all that occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DisagreementWeight {
    /// All the same: the plain κ.
    #[default]
    Equal,
    /// By the difference of the indices.
    Linear,
    /// By its square.
    Quadratic,
}

/// Cohen's κ of two raters over the same units (Cohen, *A Coefficient of Agreement for Nominal Scales*, 1960; weighted
/// 1968): 1 − weighted disagreements over those expected from how often each rater gives each value. −1 to 1, greater
/// is better. `None` without units, when the raters differ in their number, or when both only ever give one same
/// value.
pub fn cohen_kappa(a: &[f64], b: &[f64], weight: DisagreementWeight) -> Option<f64> {
    if a.len() != b.len() {
        return None;
    }
    let values = distinct(a.iter().chain(b).copied());
    let weight = |a: usize, b: usize| match weight {
        DisagreementWeight::Equal => f64::from(u8::from(a != b)),
        DisagreementWeight::Linear => a.abs_diff(b) as f64,
        DisagreementWeight::Quadratic => (a.abs_diff(b) as f64).powi(2),
    };
    let (mut of_a, mut of_b, mut observed) = (vec![0.0; values.len()], vec![0.0; values.len()], 0.0);
    for (&a, &b) in a.iter().zip(b) {
        let (a, b) = (value_index(&values, a), value_index(&values, b));
        of_a[a] += 1.0;
        of_b[b] += 1.0;
        observed += weight(a, b);
    }
    let expected_of = |a: usize| (0..values.len()).map(|b| of_b[b] * weight(a, b)).sum::<f64>();
    let expected: f64 = (0..values.len()).map(|a| of_a[a] * expected_of(a)).sum();
    ratio(observed * a.len() as f64, expected).map(|disagreement| 1.0 - disagreement)
}

/// Fleiss' κ of any number of raters, who need not be the same for each unit (Fleiss, *Measuring Nominal Scale
/// Agreement among Many Raters*, 1971): (P − P_e) / (1 − P_e), P being [`percent_agreement`] and P_e the sum of the
/// squared shares of the values. Greater is better, at most 1. `None` where units have different numbers of
/// ratings, or fewer than two, or where only one value occurs.
pub fn fleiss_kappa(table: &[Vec<Option<f64>>]) -> Option<f64> {
    let mut sizes = table.iter().map(|row| row.iter().flatten().count());
    let size = sizes.next()?;
    if sizes.any(|other| other != size) {
        return None;
    }
    let agreement = percent_agreement(table)?;
    let mut ratings: Vec<f64> = table.iter().flatten().flatten().copied().collect();
    ratings.sort_unstable_by(f64::total_cmp);
    let shares = ratings.chunk_by(|a, b| a == b).map(|same| same.len() as f64 / ratings.len() as f64);
    let by_chance: f64 = shares.map(|share| share * share).sum();
    ratio(agreement - by_chance, 1.0 - by_chance)
}

/// Mean over all units with two or more ratings of the share of pairs of ratings that are equal. 0 to 1, greater is
/// better. `None` without such a unit.
pub fn percent_agreement(table: &[Vec<Option<f64>>]) -> Option<f64> {
    let shares: Vec<f64> = table
        .iter()
        .map(|row| row.iter().flatten().collect::<Vec<_>>())
        .filter(|row| row.len() > 1)
        .map(|row| {
            let equal = row.iter().enumerate().map(|(i, a)| row[..i].iter().filter(|b| a == *b).count());
            equal.sum::<usize>() as f64 / (row.len() * (row.len() - 1) / 2) as f64
        })
        .collect();
    ratio(shares.iter().sum(), shares.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_test_support::assert_close;

    #[test]
    fn cohen_worked_by_hand() {
        // The classic two-by-two table: 20 both yes, 5 and 10 different, 15 both no; P = 0.7, P_e = 0.5.
        let cells = [(1.0, 1.0, 20), (1.0, 0.0, 5), (0.0, 1.0, 10), (0.0, 0.0, 15)];
        let (a, b): (Vec<f64>, Vec<f64>) = cells.iter().flat_map(|&(a, b, n)| vec![(a, b); n]).unzip();
        assert_close(cohen_kappa(&a, &b, DisagreementWeight::Equal), (0.7 - 0.5) / 0.5);
        // With two values all weights are the same.
        assert_close(cohen_kappa(&a, &b, DisagreementWeight::Quadratic), 0.4);
        // Places 0, 1, 2: disagreements of 1 and 2. Expected over the 9 pairs of a and b: 0+1+2, 1+0+1, 2+1+0.
        let (a, b) = ([1.0, 5.0, 9.0], [1.0, 9.0, 1.0]);
        assert_close(
            cohen_kappa(&a, &b, DisagreementWeight::Linear),
            1.0 - 3.0 * (1.0 + 2.0) / (2.0 + 2.0 + 4.0 + 1.0),
        );
        assert_close(
            cohen_kappa(&a, &b, DisagreementWeight::Quadratic),
            1.0 - 3.0 * (1.0 + 4.0) / (4.0 + 3.0 + 8.0),
        );
    }

    #[test]
    fn undefined_kappa_is_reported() {
        assert_eq!(cohen_kappa(&[1.0, 1.0], &[1.0, 1.0], DisagreementWeight::Equal), None);
        assert_eq!(cohen_kappa(&[], &[], DisagreementWeight::Equal), None);
        assert_eq!(cohen_kappa(&[1.0], &[1.0, 2.0], DisagreementWeight::Equal), None);
        let row = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(fleiss_kappa(&[row(&[1.0, 1.0]), row(&[1.0, 1.0])]), None);
        assert_eq!(fleiss_kappa(&[row(&[1.0, 2.0]), row(&[1.0, 1.0, 2.0])]), None);
        assert_eq!(fleiss_kappa(&[row(&[1.0]), row(&[2.0])]), None);
        assert_eq!(
            (fleiss_kappa(&[]), percent_agreement(&[]), percent_agreement(&[row(&[1.0])])),
            (None, None, None)
        );
    }

    #[test]
    fn fleiss_worked_by_hand() {
        // Two units of three: all equal, and two against one. P = (1 + 1/3) / 2; shares 5/6 and 1/6.
        let table = [vec![Some(1.0); 3], vec![Some(1.0), None, Some(2.0), Some(1.0)]];
        assert_close(percent_agreement(&table), 2.0 / 3.0);
        let by_chance = 26.0 / 36.0;
        assert_close(fleiss_kappa(&table), (2.0 / 3.0 - by_chance) / (1.0 - by_chance));
    }
}
