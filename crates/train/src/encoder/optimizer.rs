//! AdamW (Loshchilov and Hutter, 2019), its step sizes, and the clipping of gradients.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Values that a thread takes at a time.
const PART: usize = 1 << 16;

/// Schedule of the step size after warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// In a line to 0.
    #[default]
    Linear,
    /// Along half a wave to 0.
    Cosine,
    /// It does not.
    None,
}

/// The share of the full step size at a step, counted from 1: it rises in a line over `warm_up` steps, then falls
/// until `n_steps`.
pub(super) fn schedule(decay: Decay, step: u64, warm_up: u64, n_steps: u64) -> f64 {
    // Steps that are done when this one begins, as PyTorch counts.
    let done = step.saturating_sub(1);
    if done < warm_up {
        return done as f64 / warm_up as f64;
    }
    let progress = (done - warm_up) as f64 / n_steps.saturating_sub(warm_up).max(1) as f64;
    let progress = progress.min(1.0);
    match decay {
        Decay::Linear => 1.0 - progress,
        Decay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
        Decay::None => 1.0,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamW {
    /// Running mean of gradients.
    pub beta1: f64,
    /// Running mean of squared gradients.
    pub beta2: f64,
    /// Added to the root of the latter.
    pub epsilon: f64,
    /// Share of each weight that a step of size 1 takes away.
    pub weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> AdamW {
        AdamW { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Moments {
    pub first: Vec<f32>,
    /// Running mean of squared gradients.
    pub second: Vec<f32>,
}

impl Moments {
    pub fn new(n: usize) -> Moments {
        Moments { first: vec![0.0; n], second: vec![0.0; n] }
    }
}

impl AdamW {
    /// Changes `values` by step number `step`, counted from 1, of size `rate`.
    pub fn update(
        &self,
        values: &mut [f32],
        gradient: &[f32],
        moments: &mut Moments,
        rate: f64,
        step: u64,
        decays: bool,
    ) {
        let exponent = step.min(i32::MAX as u64) as i32;
        let correction1 = 1.0 - self.beta1.powi(exponent);
        let correction2 = (1.0 - self.beta2.powi(exponent)).sqrt();
        let kept = if decays { 1.0 - rate * self.weight_decay } else { 1.0 };
        let (beta1, beta2) = (self.beta1 as f32, self.beta2 as f32);
        let (rise1, rise2) = ((1.0 - self.beta1) as f32, (1.0 - self.beta2) as f32);
        let (rate, correction2) = ((rate / correction1) as f32, correction2 as f32);
        let (kept, epsilon) = (kept as f32, self.epsilon as f32);
        let means = moments.first.par_chunks_mut(PART).zip(moments.second.par_chunks_mut(PART));
        let parts = values.par_chunks_mut(PART).zip(gradient.par_chunks(PART)).zip(means);
        parts.for_each(|((values, gradient), (first, second))| {
            let means = first.iter_mut().zip(second);
            for ((value, gradient), (first, second)) in values.iter_mut().zip(gradient).zip(means) {
                *first = beta1 * *first + rise1 * gradient;
                *second = beta2 * *second + rise2 * gradient * gradient;
                *value = *value * kept - rate * *first / (second.sqrt() / correction2 + epsilon);
            }
        });
    }
}

/// Length of all gradients together.
pub(super) fn norm(gradients: &[Vec<f32>]) -> f64 {
    let of_part = |part: &[f32]| part.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
    let of_tensor = |values: &Vec<f32>| values.par_chunks(PART).map(of_part).collect::<Vec<f64>>();
    // In one order, however many threads there are.
    gradients.iter().flat_map(of_tensor).sum::<f64>().sqrt()
}

/// Scales all gradients so that their length is at most `maximum`; 0 changes nothing. Returns the length before.
pub(super) fn clip(gradients: &mut [Vec<f32>], maximum: f64) -> f64 {
    let norm = norm(gradients);
    if maximum > 0.0 && norm > maximum {
        let factor = (maximum / (norm + 1e-6)) as f32;
        gradients.iter_mut().flatten().for_each(|x| *x *= factor);
    }
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_clipping_are_those_of_pytorch() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/objectives.json");
        let fixture: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let numbers = |value: &serde_json::Value| -> Vec<f32> {
            value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
        };
        let adamw = &fixture["adamw"];
        let mut values = numbers(&adamw["start"]);
        let mut moments = Moments::new(4);
        let optimizer = AdamW { weight_decay: 0.01, ..AdamW::default() };
        for (at, expected) in adamw["steps"].as_array().unwrap().iter().enumerate() {
            let mut gradients = [numbers(&adamw["gradients"][at])];
            let norm = clip(&mut gradients, 2.0);
            assert!((norm - expected["norm"].as_f64().unwrap()).abs() < 1e-5);
            optimizer.update(&mut values, &gradients[0], &mut moments, 0.05, at as u64 + 1, true);
            for (found, expected) in values.iter().zip(numbers(&expected["values"])) {
                assert!((found - expected).abs() < 1e-5, "step {at}: {values:?}, expected {expected}");
            }
        }
    }

    #[test]
    fn the_step_size_rises_and_falls() {
        let at = |decay, step| schedule(decay, step, 4, 12);
        assert_eq!([1, 2, 5, 9, 12].map(|step| at(Decay::Linear, step)), [0.0, 0.25, 1.0, 0.5, 0.125]);
        assert_eq!([1, 5].map(|step| at(Decay::Cosine, step)), [0.0, 1.0]);
        assert!((at(Decay::Cosine, 9) - 0.5).abs() < 1e-12);
        assert_eq!([3, 12].map(|step| at(Decay::None, step)), [0.5, 1.0]);
        assert_eq!(schedule(Decay::Linear, 1, 0, 2), 1.0);
        assert_eq!(schedule(Decay::Linear, 9, 0, 2), 0.0);
    }
}
