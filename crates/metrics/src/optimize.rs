//! Minimization of smooth convex functions.

use std::collections::VecDeque;

/// Corrections that are remembered.
const MEMORY: usize = 10;
const ITERATIONS: usize = 300;
/// Norm of the gradient, over that of the point, at which the minimum counts as reached.
const TOLERANCE: f64 = 1e-6;
/// Share of the decrease predicted by the gradient that a step must reach (Armijo's condition).
const SUFFICIENT: f64 = 1e-4;

/// The minimum of a smooth function by L-BFGS with a backtracking line search (Nocedal and Wright, *Numerical
/// Optimization*, 2006, algorithm 7.5), from `start`. `function` gives the value and the gradient at a point.
/// Deterministic; of a function that is not convex it gives a local minimum.
pub fn minimize(start: Vec<f64>, function: impl Fn(&[f64]) -> (f64, Vec<f64>)) -> Vec<f64> {
    let mut point = start;
    let (mut value, mut gradient) = function(&point);
    let mut corrections: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
    for _ in 0..ITERATIONS {
        if norm(&gradient) <= TOLERANCE * norm(&point).max(1.0) {
            break;
        }
        let mut direction = direction(&gradient, &corrections);
        let mut slope = dot(&gradient, &direction);
        if slope >= 0.0 {
            // Rounding errors have spoiled the corrections: restart with the steepest descent.
            corrections.clear();
            direction = gradient.iter().map(|value| -value).collect();
            slope = dot(&gradient, &direction);
        }
        let mut step = if corrections.is_empty() { 1.0 / norm(&gradient).max(1.0) } else { 1.0 };
        let next = loop {
            let next: Vec<f64> = point.iter().zip(&direction).map(|(at, by)| at + step * by).collect();
            let (next_value, next_gradient) = function(&next);
            if next_value <= value + SUFFICIENT * step * slope {
                break Some((next, next_value, next_gradient));
            }
            step /= 2.0;
            if step < 1e-12 {
                break None;
            }
        };
        let Some((next, next_value, next_gradient)) = next else { break };
        let moved: Vec<f64> = next.iter().zip(&point).map(|(to, from)| to - from).collect();
        let changed: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(to, from)| to - from).collect();
        if dot(&moved, &changed) > 1e-12 * norm(&moved) * norm(&changed) {
            corrections.push_back((moved, changed));
            if corrections.len() > MEMORY {
                corrections.pop_front();
            }
        }
        (point, value, gradient) = (next, next_value, next_gradient);
    }
    point
}

/// The weights of a logistic regression: rows are inputs, label (0 or 1, or a probability) and weight; `penalties` are
/// those of the squared weights, halved. An intercept is an input of 1 with a penalty of 0.
pub fn logistic<const N: usize>(rows: &[([f64; N], f64, f64)], penalties: &[f64; N]) -> [f64; N] {
    let found = minimize(vec![0.0; N], |at| {
        let penalized = || at.iter().zip(penalties);
        let mut value = penalized().map(|(weight, penalty)| penalty / 2.0 * weight * weight).sum::<f64>();
        let mut gradient: Vec<f64> = penalized().map(|(weight, penalty)| penalty * weight).collect();
        for (inputs, label, weight) in rows {
            let sum: f64 = inputs.iter().zip(at).map(|(input, by)| input * by).sum();
            // ln(1 + e^sum) without overflow.
            value += weight * (sum.max(0.0) + (-sum.abs()).exp().ln_1p() - label * sum);
            let error = weight * (1.0 / (1.0 + (-sum).exp()) - label);
            inputs.iter().zip(&mut gradient).for_each(|(input, by)| *by += error * input);
        }
        (value, gradient)
    });
    std::array::from_fn(|at| found[at])
}

/// The two-loop recursion.
fn direction(gradient: &[f64], corrections: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|value| -value).collect();
    let mut factors = Vec::new();
    for (moved, changed) in corrections.iter().rev() {
        let factor = dot(moved, &direction) / dot(moved, changed);
        direction.iter_mut().zip(changed).for_each(|(value, by)| *value -= factor * by);
        factors.push(factor);
    }
    if let Some((moved, changed)) = corrections.back() {
        let scale = dot(moved, changed) / dot(changed, changed);
        direction.iter_mut().for_each(|value| *value *= scale);
    }
    for ((moved, changed), factor) in corrections.iter().zip(factors.into_iter().rev()) {
        let back = dot(changed, &direction) / dot(moved, changed);
        direction.iter_mut().zip(moved).for_each(|(value, by)| *value += (factor - back) * by);
    }
    direction
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_minimum_of_an_ill_conditioned_bowl() {
        let weights = [1.0, 100.0, 10_000.0];
        let target = [3.0, -2.0, 0.5];
        let found = minimize(vec![0.0; 3], |x| {
            let gradient: Vec<f64> = (0..3).map(|n| weights[n] * (x[n] - target[n])).collect();
            let value = (0..3).map(|n| weights[n] * (x[n] - target[n]).powi(2) / 2.0).sum();
            (value, gradient)
        });
        for (found, target) in found.iter().zip(target) {
            assert!((found - target).abs() < 1e-4, "{found} {target}");
        }
    }

    #[test]
    fn the_rosenbrock_valley_is_followed_to_its_end() {
        let found = minimize(vec![-1.2, 1.0], |x| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            (a * a + 100.0 * b * b, vec![-2.0 * a - 400.0 * x[0] * b, 200.0 * b])
        });
        assert!((found[0] - 1.0).abs() < 1e-3 && (found[1] - 1.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn a_minimum_stays_where_it_is() {
        assert_eq!(minimize(vec![0.0], |x| (x[0] * x[0], vec![2.0 * x[0]])), [0.0]);
    }
}
