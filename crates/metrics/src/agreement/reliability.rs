//! Reliability of scores over cases.

use super::ratio;
use serde::{Deserialize, Serialize};

/// Divisor of a variance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variance {
    /// The number of values.
    #[default]
    Population,
    /// One less.
    Sample,
}

impl Variance {
    fn compute(self, values: &[f64]) -> Option<f64> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum();
        match self {
            Variance::Population => ratio(squares, n),
            Variance::Sample => ratio(squares, n - 1.0).filter(|_| n > 1.0),
        }
    }
}

/// Cronbach's α of items (columns) over cases (rows): K / (K − 1) · (1 − sum of the items' variances / variance of
/// the cases' sums) for K items (Cronbach, *Coefficient Alpha and the Internal Structure of Tests*, 1951). At most 1,
/// greater is more reliable. Rows with a missing value are left out; `None` for fewer than two items or cases, or
/// where the sums do not vary.
pub fn cronbach_alpha(table: &[Vec<Option<f64>>]) -> Option<f64> {
    let cases: Vec<Vec<f64>> = table.iter().filter_map(|row| row.iter().copied().collect()).collect();
    let n_items = cases.first()?.len();
    let items: Option<Vec<f64>> = (0..n_items)
        .map(|item| Variance::Sample.compute(&cases.iter().map(|case| case[item]).collect::<Vec<_>>()))
        .collect();
    let sums: Vec<f64> = cases.iter().map(|case| case.iter().sum()).collect();
    let rest = 1.0 - ratio(items?.iter().sum(), Variance::Sample.compute(&sums)?)?;
    ratio(n_items as f64, n_items as f64 - 1.0).map(|factor| factor * rest)
}

/// Mean over the columns of the variance of each over its rows, missing values left out: how much scores of models
/// (columns) move from one set of queries (rows) to the next. Less is steadier. `None` where a column has too few
/// values, or without columns.
pub fn average_variance(table: &[Vec<Option<f64>>], variance: Variance) -> Option<f64> {
    let n_columns = table.iter().map(Vec::len).max()?;
    let variances: Option<Vec<f64>> = (0..n_columns)
        .map(|column| {
            let values = table.iter().filter_map(|row| row.get(column).copied().flatten());
            variance.compute(&values.collect::<Vec<_>>())
        })
        .collect();
    ratio(variances?.iter().sum(), n_columns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_test_support::assert_close;

    fn table(rows: &[&[f64]]) -> Vec<Vec<Option<f64>>> {
        rows.iter().map(|row| row.iter().copied().map(Some).collect()).collect()
    }

    #[test]
    fn values_worked_by_hand() {
        // Variances 1 and 4 of the items, of the sums 3, 5 and 9: mean 17/3, squares 56/3, variance 28/3.
        let mut rows = table(&[&[1.0, 2.0], &[2.0, 3.0], &[3.0, 6.0]]);
        let second = ((2.0 - 11.0 / 3.0_f64).powi(2)
            + (3.0 - 11.0 / 3.0_f64).powi(2)
            + (6.0 - 11.0 / 3.0_f64).powi(2))
            / 2.0;
        assert_close(cronbach_alpha(&rows), 2.0 * (1.0 - (1.0 + second) / (28.0 / 3.0)));
        assert_close(average_variance(&rows, Variance::Sample), (1.0 + second) / 2.0);
        assert_close(average_variance(&rows, Variance::Population), (1.0 + second) / 2.0 * (2.0 / 3.0));
        rows.push(vec![Some(100.0), None]);
        assert_close(cronbach_alpha(&rows), 2.0 * (1.0 - (1.0 + second) / (28.0 / 3.0)));
    }

    /// The table of CoSQA+ (Gong et al., 2024, version 1): scores of UniXcoder, CodeT5+ and CodeBERT (columns) for
    /// queries with 2, 3, 4 and 5 positives (rows). The paper gives 0.956 for MMRR.
    #[test]
    fn published_tables_give_their_published_alpha() {
        let mmrr: [&[f64]; 4] =
            [&[0.192, 0.124, 0.265], &[0.213, 0.141, 0.265], &[0.229, 0.159, 0.275], &[0.273, 0.193, 0.301]];
        let map: [&[f64]; 4] =
            [&[0.285, 0.206, 0.374], &[0.381, 0.288, 0.416], &[0.448, 0.361, 0.493], &[0.525, 0.457, 0.554]];
        let mrr: [&[f64]; 4] =
            [&[0.307, 0.215, 0.405], &[0.427, 0.313, 0.497], &[0.517, 0.404, 0.571], &[0.617, 0.531, 0.651]];
        for (rows, alpha, population, sample) in
            [(mmrr, 0.9558, 0.0006, 0.0008), (map, 0.990, 0.0071, 0.0094), (mrr, 0.993, 0.0116, 0.0155)]
        {
            let table = table(&rows);
            let near = |found: Option<f64>, expected: f64, digit: f64| {
                assert!((found.unwrap() - expected).abs() <= digit / 2.0, "{found:?} {expected}");
            };
            near(cronbach_alpha(&table), alpha, if alpha == 0.9558 { 0.0001 } else { 0.001 });
            near(average_variance(&table, Variance::Population), population, 0.0001);
            near(average_variance(&table, Variance::Sample), sample, 0.0001);
        }
    }

    #[test]
    fn constant_values_have_no_alpha() {
        assert_eq!(cronbach_alpha(&table(&[&[1.0, 2.0]])), None);
        assert_eq!(cronbach_alpha(&table(&[&[1.0], &[2.0]])), None);
        assert_eq!(cronbach_alpha(&table(&[&[1.0, 2.0], &[2.0, 1.0]])), None);
        assert_eq!(cronbach_alpha(&[]), None);
        assert_eq!(average_variance(&[], Variance::Population), None);
        assert_eq!(average_variance(&table(&[&[1.0]]), Variance::Sample), None);
        assert_eq!(average_variance(&table(&[&[1.0]]), Variance::Population), Some(0.0));
    }
}
