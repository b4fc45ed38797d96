//! The bootstrap.
//!
//! Values come in strata: the mean is that over strata of the means within them, and queries are resampled within
//! their stratum. A single stratum gives the plain mean over queries; one stratum per repository gives the mean
//! over repositories.

use crate::MetricsError;
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

/// Parameters of the bootstrap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bootstrap {
    /// Number of resamples, 1 to 1,000,000.
    #[serde(deserialize_with = "resamples")]
    pub resamples: usize,
    /// Seed: equal seeds draw equally, on every machine.
    pub seed: u64,
    /// Share of the resampled means that an interval covers, more than 0 and less than 1.
    #[serde(deserialize_with = "confidence")]
    pub confidence: f64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { resamples: 10_000, seed: 42, confidence: 0.95 }
    }
}

/// Maximum number of resamples. For each of them, a mean is kept per measure.
pub const MAX_RESAMPLES: usize = 1_000_000;

fn resamples<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let resamples = usize::deserialize(deserializer)?;
    if (1..=MAX_RESAMPLES).contains(&resamples) {
        return Ok(resamples);
    }
    Err(D::Error::invalid_value(Unexpected::Unsigned(resamples as u64), &"resamples from 1 to 1000000"))
}

fn confidence<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let confidence = f64::deserialize(deserializer)?;
    if confidence > 0.0 && confidence < 1.0 {
        return Ok(confidence);
    }
    Err(D::Error::invalid_value(
        Unexpected::Float(confidence),
        &"a confidence of more than 0 and less than 1",
    ))
}

/// A range that covers a mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl From<[f64; 2]> for Interval {
    fn from([low, high]: [f64; 2]) -> Self {
        Self { low, high }
    }
}

impl From<Interval> for [f64; 2] {
    fn from(Interval { low, high }: Interval) -> Self {
        [low, high]
    }
}

/// Difference of two methods over the same queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PairedDifference {
    /// Mean of the first.
    pub mean_a: f64,
    /// Mean of the second.
    pub mean_b: f64,
    /// `mean_b - mean_a`.
    pub difference: f64,
    /// Percentile interval of the difference.
    pub interval: Interval,
    /// Two-sided p-value of the hypothesis that the true difference is 0.
    pub p: f64,
}

impl PairedDifference {
    /// Returns true if the interval excludes 0 but the p-value is not significant, or the reverse: they are
    /// computed by different methods.
    pub fn contradicts(&self, p: f64, bootstrap: &Bootstrap) -> bool {
        (self.interval.low > 0.0 || self.interval.high < 0.0) != (p < 1.0 - bootstrap.confidence)
    }
}

/// Mean over strata of the means within them; NaN without values.
pub fn mean(strata: &[&[f64]]) -> f64 {
    strata.iter().map(|values| values.iter().sum::<f64>() / values.len() as f64).sum::<f64>()
        / strata.len() as f64
}

/// Percentile interval of [`mean`] (Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13).
///
/// # Errors
/// Without a stratum, with an empty one, or with a value that is not finite.
pub fn mean_interval(strata: &[&[f64]], bootstrap: &Bootstrap) -> Result<Interval, MetricsError> {
    check_values(strata)?;
    Ok(interval(resampled_means(strata, bootstrap), bootstrap.confidence))
}

/// Paired bootstrap of the difference `b - a`; `a` and `b` hold the same queries in the same order.
///
/// The p-value is the share of resampled differences, shifted so that their true mean is 0, that are at least as
/// far from 0 as the observed difference, in either direction (Efron and Tibshirani, chapter 16). The observed
/// difference counts as a resample, so that p is at least 1 / (resamples + 1) (Davison and Hinkley, *Bootstrap
/// Methods and their Application*, 1997, chapter 4).
///
/// # Errors
/// Like [`mean_interval`]; when the shapes of `a` and `b` differ.
pub fn paired_difference(
    a: &[&[f64]],
    b: &[&[f64]],
    bootstrap: &Bootstrap,
) -> Result<PairedDifference, MetricsError> {
    check_values(a)?;
    check_values(b)?;
    if !a.iter().map(|values| values.len()).eq(b.iter().map(|values| values.len())) {
        return Err(MetricsError::Values { found: "different numbers of queries".into() });
    }
    let differences: Vec<Vec<f64>> =
        a.iter().zip(b).map(|(a, b)| a.iter().zip(*b).map(|(a, b)| b - a).collect()).collect();
    let differences: Vec<&[f64]> = differences.iter().map(Vec::as_slice).collect();
    let difference = mean(&differences);
    let resampled = resampled_means(&differences, bootstrap);
    // Sums of the same values in another order differ in their last bits, and must not count as closer to 0.
    let tolerance = difference.abs() * 1e-12;
    let as_far = |resample: &&f64| (**resample - difference).abs() >= difference.abs() - tolerance;
    let n_as_far = resampled.iter().filter(as_far).count();
    Ok(PairedDifference {
        mean_a: mean(a),
        mean_b: mean(b),
        difference,
        p: (n_as_far + 1) as f64 / (resampled.len() + 1) as f64,
        interval: interval(resampled, bootstrap.confidence),
    })
}

fn check_values(strata: &[&[f64]]) -> Result<(), MetricsError> {
    if strata.is_empty() || strata.iter().any(|values| values.is_empty()) {
        return Err(MetricsError::NoQueries { remedy: "check that queries and judgments belong together" });
    }
    match strata.iter().copied().flatten().find(|value| !value.is_finite()) {
        Some(value) => Err(MetricsError::Values { found: value.to_string() }),
        None => Ok(()),
    }
}

fn resampled_means(strata: &[&[f64]], bootstrap: &Bootstrap) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(bootstrap.seed);
    let mut draw_mean = |values: &[f64]| {
        let sum: f64 = (0..values.len()).map(|_| values[random.u64(..values.len() as u64) as usize]).sum();
        sum / values.len() as f64
    };
    (0..bootstrap.resamples.max(1))
        .map(|_| strata.iter().map(|values| draw_mean(values)).sum::<f64>() / strata.len() as f64)
        .collect()
}

/// Percentile interval of any statistic of `n` cases, which gets the positions of the drawn cases. Resamples
/// without a value are left out; `None` if none has a value, or there are no cases.
pub fn resampled_interval(
    n: usize,
    bootstrap: &Bootstrap,
    statistic: impl Fn(&[usize]) -> Option<f64>,
) -> Option<Interval> {
    if n == 0 {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(bootstrap.seed);
    let mut drawn = vec![0; n];
    let values: Vec<f64> = (0..bootstrap.resamples.max(1))
        .filter_map(|_| {
            drawn.iter_mut().for_each(|index| *index = random.u64(..n as u64) as usize);
            statistic(&drawn)
        })
        .collect();
    (!values.is_empty()).then(|| interval(values, bootstrap.confidence))
}

/// The interval that contains the middle `confidence` share of some values.
pub(super) fn interval(mut values: Vec<f64>, confidence: f64) -> Interval {
    values.sort_unstable_by(f64::total_cmp);
    let at = |share| quantile(&values, share);
    Interval { low: at((1.0 - confidence) / 2.0), high: at((1.0 + confidence) / 2.0) }
}

/// The value below which a share of some ascending values (at least one) lies, interpolated linearly.
pub(crate) fn quantile(ascending: &[f64], share: f64) -> f64 {
    let position = share.clamp(0.0, 1.0) * (ascending.len() - 1) as f64;
    let below = ascending[position.floor() as usize];
    below + (ascending[position.ceil() as usize] - below) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn random_values(n: usize, seed: u64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..n).map(|_| random.f64()).collect()
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let read = |text: &str| serde_json::from_str::<Bootstrap>(text);
        for (text, words) in [
            (r#"{"resamples": 0}"#, "resamples from 1"),
            (r#"{"resamples": 18446744073709551615}"#, "resamples from 1"),
            (r#"{"resamples": 1000001}"#, "resamples from 1"),
            (r#"{"confidence": 2.0}"#, "a confidence of more than 0"),
            (r#"{"confidence": 0}"#, "a confidence of more than 0"),
            (r#"{"confidence": -1}"#, "a confidence of more than 0"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let nan = confidence(serde::de::value::F64Deserializer::<serde::de::value::Error>::new(f64::NAN));
        assert!(nan.is_err());
        assert_eq!(read("{}").unwrap(), Bootstrap::default());
    }

    #[test]
    fn the_interval_is_that_of_the_normal_approximation_for_many_values() {
        let values = random_values(2_000, 1);
        let interval = mean_interval(&[&values], &Bootstrap::default()).unwrap();
        let mean = mean(&[&values]);
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        let half = 1.959_964 * (variance / values.len() as f64).sqrt();
        assert!((interval.low - (mean - half)).abs() < 0.03 * half, "{interval:?} {mean} {half}");
        assert!((interval.high - (mean + half)).abs() < 0.03 * half, "{interval:?} {mean} {half}");
    }

    #[test]
    fn p_is_that_of_the_normal_approximation_for_many_values() {
        // Differences with mean 0.01 and standard deviation about 0.29: z = 0.01 / (0.29 / sqrt(2000)) = 1.55.
        let a = random_values(2_000, 2);
        let mut noise = random_values(2_000, 3);
        let offset = mean(&[&noise]);
        noise.iter_mut().for_each(|value| *value -= offset - 0.01);
        let b: Vec<f64> = a.iter().zip(&noise).map(|(a, noise)| a + noise).collect();
        let deviation = (noise.iter().map(|value| (value - 0.01).powi(2)).sum::<f64>() / 2_000.0).sqrt();
        let z = 0.01 / (deviation / 2_000.0_f64.sqrt());
        assert!((z - 1.55).abs() < 0.05, "{z}");
        let found = paired_difference(&[&a], &[&b], &Bootstrap::default()).unwrap();
        // Two-sided normal tail beyond 1.55: 0.121.
        assert!((found.p - 0.121).abs() < 0.015, "{found:?}");
        assert!((found.difference - 0.01).abs() < 1e-12);
    }

    #[test]
    fn clear_and_absent_differences_have_extreme_p() {
        let a = random_values(100, 4);
        let same = paired_difference(&[&a], &[&a], &Bootstrap::default()).unwrap();
        assert_eq!((same.difference, same.p), (0.0, 1.0));
        let better: Vec<f64> = a.iter().map(|value| value + 0.5).collect();
        let clear = paired_difference(&[&a], &[&better], &Bootstrap::default()).unwrap();
        assert!((clear.p - 1.0 / 10_001.0).abs() < 1e-12, "{clear:?}");
        let reversed = paired_difference(&[&better], &[&a], &Bootstrap::default()).unwrap();
        assert!((clear.difference + reversed.difference).abs() < 1e-12 && clear.p == reversed.p);
    }

    #[test]
    fn equal_seeds_agree_and_others_differ() {
        let values = random_values(50, 5);
        let with_seed =
            |seed| mean_interval(&[&values], &Bootstrap { seed, ..Bootstrap::default() }).unwrap();
        assert_eq!(with_seed(1), with_seed(1));
        assert_ne!(with_seed(1), with_seed(2));
        // The generator's stream is part of what makes a published interval repeatable.
        let mut random = fastrand::Rng::with_seed(42);
        assert_eq!([(); 4].map(|()| random.u64(..1_000)), FIRST_DRAWS);
    }

    const FIRST_DRAWS: [u64; 4] = [790, 493, 804, 39];

    #[test]
    fn strata_weigh_equally_regardless_of_size() {
        let (few, many) = ([1.0], [0.0; 99]);
        assert_eq!(mean(&[&few, &many]), 0.5);
        assert_eq!(
            mean_interval(&[&few, &many], &Bootstrap::default()).unwrap(),
            Interval { low: 0.5, high: 0.5 }
        );
        let pooled: Vec<f64> = few.iter().chain(&many).copied().collect();
        assert_eq!(mean(&[&pooled]), 0.01);
    }

    #[test]
    fn inputs_without_a_mean_are_refused() {
        let bootstrap = Bootstrap::default();
        assert!(matches!(mean_interval(&[], &bootstrap), Err(MetricsError::NoQueries { .. })));
        assert!(matches!(mean_interval(&[&[1.0], &[]], &bootstrap), Err(MetricsError::NoQueries { .. })));
        for value in [f64::NAN, f64::INFINITY] {
            assert!(matches!(mean_interval(&[&[1.0, value]], &bootstrap), Err(MetricsError::Values { .. })));
            assert!(paired_difference(&[&[1.0]], &[&[value]], &bootstrap).is_err());
        }
        assert!(paired_difference(&[&[1.0]], &[&[1.0, 2.0]], &bootstrap).is_err());
        assert!(paired_difference(&[&[1.0]], &[&[1.0], &[1.0]], &bootstrap).is_err());
    }

    proptest! {
        #[test]
        fn the_interval_lies_within_the_values_and_covers_more_with_confidence(
            values in prop::collection::vec(0.0_f64..1.0, 1..20)
        ) {
            let at = |confidence| {
                let bootstrap = Bootstrap { resamples: 200, confidence, ..Bootstrap::default() };
                mean_interval(&[&values], &bootstrap).unwrap()
            };
            let (narrow, wide) = (at(0.5), at(0.95));
            let minimum = values.iter().copied().fold(1.0, f64::min);
            let maximum = values.iter().copied().fold(0.0, f64::max);
            prop_assert!(minimum - 1e-12 <= wide.low && wide.low <= narrow.low);
            prop_assert!(narrow.low <= narrow.high && narrow.high <= wide.high);
            prop_assert!(wide.high <= maximum + 1e-12);
        }
    }
}
