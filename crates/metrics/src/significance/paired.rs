//! Tests of the differences between two methods, one a query.

use super::Bootstrap;
use serde::{Deserialize, Serialize};
use spec_math::{Beta, NormDist};

/// Most differences for which [`wilcoxon`] counts all signs instead of approximating by a normal distribution:
/// the counts are below 2^53, so that they are exact in a double, and SciPy draws the line there too.
const WILCOXON_EXACT_UP_TO: usize = 50;

/// Result of a paired test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Test {
    /// The test's statistic, as documented by each function.
    pub statistic: f64,
    /// Two-sided p-value, 0 to 1.
    pub p: f64,
}

/// Mean, and sample standard deviation unless there are fewer than two values; the mean of none is NaN.
pub fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()))
}

/// Two-sided p-value of Student's t.
fn p_of_t(t: f64, degrees_of_freedom: f64) -> f64 {
    (degrees_of_freedom / (degrees_of_freedom + t * t)).ibeta(degrees_of_freedom / 2.0, 0.5)
}

/// Student's t-test of the mean of paired differences against 0 (Student, *The Probable Error of a Mean*, 1908);
/// n − 1 degrees of freedom. The statistic is t = mean / (s / √n), s being the sample standard deviation.
///
/// `None` for fewer than two differences. Where all are 0, t is 0 and p is 1; where all are equal otherwise, t is
/// infinite and p is 0.
pub fn paired_t(differences: &[f64]) -> Option<Test> {
    let (mean, Some(deviation)) = mean_and_deviation(differences) else { return None };
    let n = differences.len() as f64;
    let statistic = if mean == 0.0 { 0.0 } else { mean / (deviation / n.sqrt()) };
    let p = if statistic.is_infinite() { 0.0 } else { p_of_t(statistic, n - 1.0) };
    Some(Test { statistic, p })
}

/// Cohen's d of paired differences (d_z): their mean over their sample standard deviation (Cohen, *Statistical Power
/// Analysis for the Behavioral Sciences*, 1988, section 2.3.5); in units of standard deviations, 0.2 being called
/// small and 0.8 great.
///
/// `None` for fewer than two differences, and where all are equal but not 0.
pub fn effect_size(differences: &[f64]) -> Option<f64> {
    let (mean, Some(deviation)) = mean_and_deviation(differences) else { return None };
    let effect = if mean == 0.0 { 0.0 } else { mean / deviation };
    effect.is_finite().then_some(effect)
}

/// Wilcoxon's signed-rank test that paired differences are symmetric about 0 (Wilcoxon, *Individual Comparisons by
/// Ranking Methods*, 1945). Differences of 0 are left out, equal ones share their mean rank. The statistic is the
/// lesser of the sums of the ranks of positive and of negative differences.
///
/// p is exact for up to 50 differences that are not 0, ties or not: the share of all signs of these ranks that give a
/// sum as far from the middle. For more it is that of the normal approximation with the correction of the variance
/// for ties and without one for continuity. Without a difference, p is 1.
pub fn wilcoxon(differences: &[f64]) -> Test {
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|value| *value != 0.0).collect();
    sorted.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Twice the ranks, which are whole numbers.
    let mut ranks: Vec<usize> = Vec::with_capacity(sorted.len());
    let (mut positive, mut tied_cubes) = (0, 0.0);
    for group in sorted.chunk_by(|a, b| a.abs() == b.abs()) {
        let rank = 2 * ranks.len() + group.len() + 1;
        positive += rank * group.iter().filter(|value| **value > 0.0).count();
        ranks.extend(group.iter().map(|_| rank));
        let size = group.len() as f64;
        tied_cubes += size.powi(3) - size;
    }
    let lesser = positive.min(ranks.iter().sum::<usize>() - positive);
    let statistic = lesser as f64 / 2.0;
    if ranks.len() <= WILCOXON_EXACT_UP_TO {
        // ways[sum]: in how many choices of signs the positive ranks have this sum.
        let mut ways = vec![0.0; lesser + 1];
        ways[0] = 1.0;
        for &rank in &ranks {
            for sum in (rank..=lesser).rev() {
                ways[sum] += ways[sum - rank];
            }
        }
        let share = ways.iter().sum::<f64>() / (ranks.len() as f64).exp2();
        return Test { statistic, p: (2.0 * share).min(1.0) };
    }
    let n = ranks.len() as f64;
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - tied_cubes / 48.0;
    let z = (statistic - n * (n + 1.0) / 4.0) / variance.sqrt();
    Test { statistic, p: (2.0 * z.norm_cdf()).min(1.0) }
}

/// Fisher's randomization test of the mean of paired differences, of which every one could have had the other sign
/// (Fisher, *The Design of Experiments*, 1935; for retrieval Smucker, Allan and Carterette, CIKM 2007). The statistic
/// is the mean; p is the share of signs for which it is at least as far from 0.
///
/// All signs are tried where that takes at most `bootstrap.resamples` trials; otherwise as many random ones, the
/// signs seen counting as one more. Its `confidence` does not matter. Without a difference, p is 1.
pub fn randomization(differences: &[f64], bootstrap: &Bootstrap) -> Test {
    let sum: f64 = differences.iter().sum();
    let magnitudes: Vec<f64> =
        differences.iter().map(|value| value.abs()).filter(|value| *value > 0.0).collect();
    // Sums of the same values in another order differ in their last bits, and must not count as nearer.
    let threshold = sum.abs() - 1e-12 * magnitudes.iter().sum::<f64>();
    let n = magnitudes.len();
    let as_far = |signs: &mut dyn FnMut(usize) -> bool| {
        let signed = magnitudes.iter().enumerate().map(|(i, value)| if signs(i) { *value } else { -value });
        signed.sum::<f64>().abs() >= threshold
    };
    let trials = 1_usize.checked_shl(n as u32).filter(|trials| n < 64 && *trials <= bootstrap.resamples);
    let p = if let Some(trials) = trials {
        let found = (0..trials).filter(|trial| as_far(&mut |i| trial >> i & 1 == 1)).count();
        found as f64 / trials as f64
    } else {
        let mut random = fastrand::Rng::with_seed(bootstrap.seed);
        let mut bits = 0;
        let found = (0..bootstrap.resamples).filter(|_| {
            as_far(&mut |i| {
                if i % 64 == 0 {
                    bits = random.u64(..);
                }
                bits >> (i % 64) & 1 == 1
            })
        });
        (found.count() + 1) as f64 / (bootstrap.resamples + 1) as f64
    };
    Test { statistic: sum / differences.len().max(1) as f64, p }
}

/// Result of McNemar's test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Mcnemar")]
pub struct McNemar {
    /// Number of cases that only the first method gets right.
    pub only_a: usize,
    /// Number of cases that only the second method gets right.
    pub only_b: usize,
    /// p-value of the exact test: binomial with probability 1/2.
    pub p: f64,
    /// Chi-squared with one degree of freedom and Edwards's correction for continuity,
    /// (|only_a − only_b| − 1)² / (only_a + only_b); 0 if the methods never differ.
    pub chi_squared: f64,
    /// p-value of `chi_squared`.
    pub p_chi_squared: f64,
}

/// McNemar's test that two methods are right equally often over the same cases (McNemar, *Note on the Sampling Error
/// of the Difference between Correlated Proportions or Percentages*, 1947; Edwards, 1948). Takes (first right, second
/// right) for each case.
pub fn mcnemar(right: impl IntoIterator<Item = (bool, bool)>) -> McNemar {
    let (mut only_a, mut only_b) = (0, 0);
    for case in right {
        match case {
            (true, false) => only_a += 1,
            (false, true) => only_b += 1,
            _ => {}
        }
    }
    let (smaller, n) = (only_a.min(only_b), only_a + only_b);
    if n == 0 {
        return McNemar { only_a, only_b, p: 1.0, chi_squared: 0.0, p_chi_squared: 1.0 };
    }
    let chi_squared = (only_a.abs_diff(only_b) as f64 - 1.0).powi(2) / n as f64;
    // The binomial distribution function by the incomplete beta function.
    let at_most_smaller = 0.5_f64.ibeta((n - smaller) as f64, (smaller + 1) as f64);
    McNemar {
        only_a,
        only_b,
        p: (2.0 * at_most_smaller).min(1.0),
        chi_squared,
        p_chi_squared: 2.0 * (-chi_squared.sqrt()).norm_cdf(),
    }
}

/// Corrects p-values for their number, in their order, so that the chance of one or more false findings stays below
/// the level that they are compared with: the k-th smallest of n, from 0, times n − k, and at least those below it
/// (Holm, *A Simple Sequentially Rejective Multiple Test Procedure*, 1979).
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut ascending: Vec<usize> = (0..p_values.len()).collect();
    ascending.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut maximum: f64 = 0.0;
    for (k, index) in ascending.into_iter().enumerate() {
        maximum = maximum.max((p_values[index] * (p_values.len() - k) as f64).min(1.0));
        corrected[index] = maximum;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quarry_test_support::assert_close;

    #[test]
    fn t_worked_by_hand() {
        // Mean 2, deviation 1, n 3: t = 2 √3; with two degrees of freedom p = 1 − t / √(t² + 2).
        let found = paired_t(&[1.0, 2.0, 3.0]).unwrap();
        assert_close(found.statistic, 12.0_f64.sqrt());
        assert_close(found.p, 1.0 - (12.0_f64 / 14.0).sqrt());
        assert_close(effect_size(&[1.0, 2.0, 3.0]).unwrap(), 2.0);
        // With one degree of freedom t follows Cauchy's distribution: p = 1 − 2 atan(t) / π.
        let found = paired_t(&[0.0, 1.0]).unwrap();
        assert_close(found.statistic, 1.0);
        assert_close(found.p, 0.5);
    }

    #[test]
    fn differences_that_do_not_vary_have_extreme_t() {
        assert_eq!(paired_t(&[1.0]), None);
        assert_eq!(effect_size(&[]), None);
        assert_eq!(paired_t(&[0.0, 0.0]), Some(Test { statistic: 0.0, p: 1.0 }));
        assert_eq!(paired_t(&[-0.5, -0.5]), Some(Test { statistic: f64::NEG_INFINITY, p: 0.0 }));
        assert_eq!((effect_size(&[0.0; 2]), effect_size(&[0.5; 2])), (Some(0.0), None));
    }

    #[test]
    fn wilcoxon_worked_by_hand() {
        // Ranks 1, 2 and 3, the 2 negative: of 8 choices of signs three have a sum of 2 or less: {}, {1}, {2}.
        assert_eq!(wilcoxon(&[0.1, -0.2, 0.5, 0.0]), Test { statistic: 2.0, p: 2.0 * 3.0 / 8.0 });
        // Ranks 1.5, 1.5 and 3; of 8 choices two or three have a sum of at most 1.5.
        assert_eq!(wilcoxon(&[0.2, -0.2, 0.5]), Test { statistic: 1.5, p: 2.0 * 3.0 / 8.0 });
        assert_eq!(wilcoxon(&[0.0, 0.0]), Test { statistic: 0.0, p: 1.0 });
        assert_eq!(wilcoxon(&[]), Test { statistic: 0.0, p: 1.0 });
        // The minimum for 50 differences.
        assert_eq!(wilcoxon(&[1.0; 50]).p, 2.0 / 50.0_f64.exp2());
    }

    #[test]
    fn wilcoxon_of_many_is_close_to_exact() {
        let values: Vec<f64> = (0..51).map(|i| f64::from((i * 37) % 51) - 22.5).collect();
        let (exact, approximate) = (wilcoxon(&values[..50]).p, wilcoxon(&values).p);
        assert!(exact > 0.2 && (exact - approximate).abs() < 0.1, "{exact} {approximate}");
    }

    #[test]
    fn randomization_worked_by_hand() {
        let bootstrap = Bootstrap::default();
        // Of the 8 sums of ±1 ±2 ±3, four are at least 4 from 0: ±6 and ±4.
        let found = randomization(&[-1.0, 2.0, 3.0, 0.0], &bootstrap);
        assert_eq!(found, Test { statistic: 1.0, p: 4.0 / 8.0 });
        assert_eq!(randomization(&[0.0, 0.0], &bootstrap).p, 1.0);
        assert_eq!(randomization(&[], &bootstrap).p, 1.0);
        // Too many for all signs; the signs seen are the only ones as far.
        let found = randomization(&[0.5; 100], &bootstrap);
        assert_eq!(found, Test { statistic: 0.5, p: 1.0 / 10_001.0 });
    }

    #[test]
    fn random_signs_come_near_to_all_signs() {
        let values: Vec<f64> = (0..12).map(|i| f64::from((i * 7) % 12) - 4.0).collect();
        let all = randomization(&values, &Bootstrap::default()).p;
        let few = randomization(&values, &Bootstrap { resamples: 2_000, ..Bootstrap::default() }).p;
        assert!(all != few && (all - few).abs() < 4.0 * (all * (1.0 - all) / 2_000.0).sqrt(), "{all} {few}");
    }

    #[test]
    fn mcnemar_worked_by_hand() {
        // 1 against 5: P(X ≤ 1) = (1 + 6) / 64 for six fair coins; chi-squared (4 − 1)² / 6.
        let cases = [(true, false), (true, true), (false, false)].into_iter().chain([(false, true); 5]);
        let found = mcnemar(cases);
        assert_eq!((found.only_a, found.only_b), (1, 5));
        assert_close(found.p, 2.0 * 7.0 / 64.0);
        assert_close(found.chi_squared, 1.5);
        // Beyond √1.5 = 1.2247 standard deviations, on both sides.
        assert!((found.p_chi_squared - 0.220_671).abs() < 1e-6, "{found:?}");
        assert_eq!(mcnemar([(true, false), (false, true)]).p, 1.0);
        assert_eq!(mcnemar([(true, true)]).p, 1.0);
    }

    #[test]
    fn holm_worked_by_hand() {
        // 0.01 · 4, then 0.03 · 3 and 0.04 · 2, which is less, then 0.2 · 1.
        let corrected = holm(&[0.04, 0.01, 0.2, 0.03]);
        for (found, expected) in corrected.into_iter().zip([0.09, 0.04, 0.2, 0.09]) {
            assert_close(found, expected);
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn the_other_way_round_p_is_the_same(values in prop::collection::vec(-4_i32..5, 2..20)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let reversed: Vec<f64> = values.iter().map(|value| -value).collect();
            let bootstrap = Bootstrap { resamples: 1 << 20, ..Bootstrap::default() };
            prop_assert_eq!(wilcoxon(&values), wilcoxon(&reversed));
            prop_assert_eq!(paired_t(&values).unwrap().p, paired_t(&reversed).unwrap().p);
            if values.len() < 10 {
                prop_assert_eq!(randomization(&values, &bootstrap).p, randomization(&reversed, &bootstrap).p);
            }
        }

        #[test]
        fn wilcoxon_counts_all_signs(values in prop::collection::vec(-4_i32..5, 0..9)) {
            let values: Vec<f64> = values.into_iter().filter(|value| *value != 0).map(f64::from).collect();
            let n = values.len();
            let found = wilcoxon(&values);
            let statistic = |signs: usize| {
                let signed: Vec<f64> = values
                    .iter()
                    .enumerate()
                    .map(|(i, value)| if signs >> i & 1 == 1 { value.abs() } else { -value.abs() })
                    .collect();
                wilcoxon(&signed).statistic
            };
            let as_low = (0..1_usize << n).filter(|&signs| statistic(signs) <= found.statistic).count();
            prop_assert!((found.p - as_low as f64 / (n as f64).exp2()).abs() < 1e-12);
        }
    }
}
