//! Minimum detectable difference.

use serde::{Deserialize, Serialize};
use spec_math::{Beta, Gamma, NormDist};

/// Parameters of a paired t-test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Power {
    /// Two-sided level of significance, between 0 and 1.
    pub significance: f64,
    /// Chance to find a difference that is there, between `significance` and 1.
    pub power: f64,
}

impl Default for Power {
    fn default() -> Self {
        Self { significance: 0.05, power: 0.8 }
    }
}

/// Least mean difference that a paired t-test over `n_queries` queries finds with the power asked for, where the
/// differences of single queries have the sample standard deviation `deviation`: that for which the noncentral t
/// distribution gives the test this power (Cohen, *Statistical Power Analysis for the Behavioral Sciences*, 1988,
/// section 2.3.5). In units of the metric; `None` for fewer than two queries.
pub fn minimum_detectable_difference(deviation: f64, n_queries: usize, power: &Power) -> Option<f64> {
    if n_queries < 2 {
        return None;
    }
    let degrees_of_freedom = (n_queries - 1) as f64;
    let x = power.significance.ibeta_inv(degrees_of_freedom / 2.0, 0.5);
    let critical = (degrees_of_freedom * (1.0 - x) / x).sqrt();
    let found = |noncentrality: f64| {
        1.0 - noncentral_t(critical, degrees_of_freedom, noncentrality)
            + noncentral_t(-critical, degrees_of_freedom, noncentrality)
    };
    // The power grows with the noncentrality.
    let (mut low, mut high) = (0.0, 1.0);
    while found(high) < power.power {
        (low, high) = (high, 2.0 * high);
    }
    while high - low > 1e-13 * high {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if found(middle) < power.power { low = middle } else { high = middle }
    }
    Some(high / (n_queries as f64).sqrt() * deviation)
}

/// Distribution function of the noncentral t distribution at `t`: the mean of Φ(t s − noncentrality), s² being
/// chi-squared over its degrees of freedom. The trapezoidal rule over the logarithm of s is exact to rounding, as
/// the integrand is analytic and vanishes at both ends.
fn noncentral_t(t: f64, degrees_of_freedom: f64, noncentrality: f64) -> f64 {
    const STEPS: usize = 400;
    let spread = 10.0 / (2.0 * degrees_of_freedom).sqrt();
    let (from, to) = (-spread - 40.0 / degrees_of_freedom, spread);
    let step = (to - from) / STEPS as f64;
    let half = degrees_of_freedom / 2.0;
    let log_scale = std::f64::consts::LN_2 + half * half.ln() - half.lgamma();
    let density = |x: f64| (log_scale + degrees_of_freedom * x - half * (2.0 * x).exp()).exp();
    let points = (0..=STEPS).map(|i| from + step * i as f64);
    step * points.map(|x| density(x) * (t * x.exp() - noncentrality).norm_cdf()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_noncentrality_it_is_students_t() {
        // With one degree of freedom 1/2 + atan(t) / π; with two 1/2 + t / (2 √(t² + 2)).
        for t in [-3.0_f64, -0.5, 0.0, 1.0, 12.0] {
            let one = 0.5 + t.atan() / std::f64::consts::PI;
            assert!((noncentral_t(t, 1.0, 0.0) - one).abs() < 1e-11, "{t}");
            let two = 0.5 + t / (2.0 * (t * t + 2.0).sqrt());
            assert!((noncentral_t(t, 2.0, 0.0) - two).abs() < 1e-11, "{t}");
        }
    }

    #[test]
    fn for_many_queries_the_normal_approximation_holds() {
        // (1.959964 + 0.841621) / √n standard deviations.
        let n = 100_000;
        let found = minimum_detectable_difference(0.3, n, &Power::default()).unwrap();
        let normal = (1.959_964 + 0.841_621) / (n as f64).sqrt() * 0.3;
        assert!((found / normal - 1.0).abs() < 1e-4, "{found} {normal}");
    }

    #[test]
    fn more_queries_see_smaller_differences() {
        let at = |n| minimum_detectable_difference(1.0, n, &Power::default());
        assert_eq!(at(1), None);
        let found: Vec<f64> = [2, 3, 5, 10, 100, 1_000].into_iter().filter_map(at).collect();
        assert!(found.len() == 6 && found.windows(2).all(|pair| pair[0] > pair[1]), "{found:?}");
        assert_eq!(minimum_detectable_difference(0.0, 10, &Power::default()), Some(0.0));
    }
}
