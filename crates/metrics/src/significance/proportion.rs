//! Shares of cases.

use super::Interval;
use spec_math::NormDist;

/// Interval of the share of `n` independent cases that `hits` of them are, by Wilson's score (Wilson, *Probable
/// Inference, the Law of Succession, and Statistical Inference*, 1927): it stays within 0 to 1 and has a width also
/// where no case or every case is a hit. `confidence` is the share of such intervals that cover the true share, between
/// 0 and 1. `None` without cases.
pub fn wilson_interval(hits: usize, n: usize, confidence: f64) -> Option<Interval> {
    if n == 0 {
        return None;
    }
    let (share, n) = (hits as f64 / n as f64, n as f64);
    let z = ((1.0 + confidence) / 2.0).norm_cdf_inv();
    let middle = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    Some(Interval { low: (middle - half).max(0.0), high: (middle + half).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected: `statsmodels.stats.proportion.proportion_confint(hits, n, 1 - confidence, "wilson")`.
    #[test]
    fn values_of_statsmodels() {
        let check = |hits, n, confidence, low: f64, high: f64| {
            let found = wilson_interval(hits, n, confidence).unwrap();
            assert!((found.low - low).abs() < 1e-9 && (found.high - high).abs() < 1e-9, "{found:?}");
        };
        check(629, 1000, 0.95, 0.598_619_022_654_837_8, 0.658_393_673_655_889_1);
        check(0, 5, 0.95, 0.0, 0.434_482_464_783_174_76);
        check(7, 7, 0.9, 0.721_237_304_547_457_8, 1.0);
        check(3, 10, 0.99, 0.079_566_316_526_730_6, 0.679_975_320_798_897_4);
        assert_eq!(wilson_interval(0, 0, 0.95), None);
    }
}
