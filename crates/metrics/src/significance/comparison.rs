//! All statistics of the difference between two methods.

use super::paired::mean_and_deviation;
use super::{
    Bootstrap, McNemar, PairedDifference, Power, Test, effect_size, holm, mcnemar,
    minimum_detectable_difference, paired_difference, paired_t, randomization, wilcoxon,
};
use crate::MetricsError;
use serde::Serialize;
use std::collections::BTreeMap;

/// Difference of two methods over the same queries, by every test that applies.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PairedComparison {
    /// Means, difference, bootstrap interval and bootstrap p-value.
    #[serde(flatten)]
    pub difference: PairedDifference,
    /// Number of queries with a greater value in the second.
    pub wins: usize,
    /// Number of queries with a smaller one.
    pub losses: usize,
    /// Effect size of the difference.
    pub effect_size: Option<f64>,
    /// Minimum detectable difference for this number of queries.
    pub minimum_detectable_difference: Option<f64>,
    /// By name: `bootstrap`, `randomization`, `t` (two queries or more), `wilcoxon`, and `mcnemar` where all values
    /// are 0 or 1 (its statistic is chi-squared, its p-value exact).
    pub tests: BTreeMap<&'static str, CorrectedTest>,
    /// Details of McNemar's test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcnemar: Option<McNemar>,
}

/// A test with its corrected p-value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CorrectedTest {
    /// The test by itself.
    #[serde(flatten)]
    pub test: Test,
    /// p-value after Holm's correction.
    pub p_holm: f64,
}

/// Compares the values of two methods over the same queries, in the same order. `n_planned` is the number of queries
/// for which the minimum detectable difference is given, at the default [`Power`].
///
/// # Errors
/// Without values, with a value that is not finite, or when there are more of one than of the other.
pub fn compare_paired(
    a: &[f64],
    b: &[f64],
    n_planned: usize,
    bootstrap: &Bootstrap,
) -> Result<PairedComparison, MetricsError> {
    let difference = paired_difference(&[a], &[b], bootstrap)?;
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let binary = a.iter().chain(b).all(|value| [0.0, 1.0].contains(value));
    let mcnemar = binary.then(|| mcnemar(a.iter().zip(b).map(|(a, b)| (*a == 1.0, *b == 1.0))));
    let tests = [
        ("bootstrap", Some(Test { statistic: difference.difference, p: difference.p })),
        ("randomisation", Some(randomization(&differences, bootstrap))),
        ("t", paired_t(&differences)),
        ("wilcoxon", Some(wilcoxon(&differences))),
        ("mcnemar", mcnemar.map(|found| Test { statistic: found.chi_squared, p: found.p })),
    ];
    Ok(PairedComparison {
        difference,
        wins: differences.iter().filter(|difference| **difference > 0.0).count(),
        losses: differences.iter().filter(|difference| **difference < 0.0).count(),
        effect_size: effect_size(&differences),
        minimum_detectable_difference: mean_and_deviation(&differences)
            .1
            .and_then(|deviation| minimum_detectable_difference(deviation, n_planned, &Power::default())),
        tests: tests
            .into_iter()
            .filter_map(|(name, test)| test.map(|test| (name, CorrectedTest { test, p_holm: test.p })))
            .collect(),
        mcnemar,
    })
}

/// Corrects the p-values of comparisons that are read together ([`holm`]), each test for itself.
pub fn correct_together<'a>(comparisons: impl IntoIterator<Item = &'a mut PairedComparison>) {
    let mut by_name: BTreeMap<&str, Vec<&mut CorrectedTest>> = BTreeMap::new();
    for comparison in comparisons {
        for (name, test) in &mut comparison.tests {
            by_name.entry(name).or_default().push(test);
        }
    }
    for tests in by_name.into_values() {
        let p_values: Vec<f64> = tests.iter().map(|test| test.test.p).collect();
        for (test, p) in tests.into_iter().zip(holm(&p_values)) {
            test.p_holm = p;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_apply_where_they_are_defined() {
        let names = |a: &[f64], b: &[f64]| -> Vec<&str> {
            compare_paired(a, b, 10, &Bootstrap::default()).unwrap().tests.into_keys().collect()
        };
        assert_eq!(names(&[0.5, 0.2], &[0.1, 0.2]), ["bootstrap", "randomisation", "t", "wilcoxon"]);
        assert_eq!(
            names(&[1.0, 0.0], &[0.0, 0.0]),
            ["bootstrap", "mcnemar", "randomisation", "t", "wilcoxon"]
        );
        assert_eq!(names(&[0.5], &[0.1]), ["bootstrap", "randomisation", "wilcoxon"]);
        assert!(compare_paired(&[], &[], 10, &Bootstrap::default()).is_err());
        assert!(compare_paired(&[1.0], &[1.0, 2.0], 10, &Bootstrap::default()).is_err());
    }

    #[test]
    fn every_test_is_corrected_over_all_comparisons() {
        let a = [0.0; 8];
        let b = [[0.5; 8], [0.25, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, -0.25]];
        let mut found = b.map(|b| compare_paired(&a, &b, 8, &Bootstrap::default()).unwrap());
        assert_eq!(found.each_ref().map(|found| (found.wins, found.losses)), [(8, 0), (7, 1)]);
        correct_together(&mut found);
        let wilcoxon = found.each_ref().map(|found| found.tests["wilcoxon"]);
        // 2 / 2^8 is doubled; the other stays.
        assert_eq!((wilcoxon[0].test.p, wilcoxon[0].p_holm), (2.0 / 256.0, 4.0 / 256.0));
        assert_eq!(wilcoxon[1].p_holm, wilcoxon[1].test.p);
    }
}
