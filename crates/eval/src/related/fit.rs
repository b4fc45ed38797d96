//! Fitting the weights of [`quarry_related`].

use std::collections::BTreeMap;

use quarry_metrics::optimize::logistic;
use quarry_related::{Class, FEATURES, Features, Model, N_FEATURES, Regression, Scorer};
use rayon::prelude::*;

use super::RepositorySamples;

/// Penalty of the squared weights.
const PENALTY: f64 = 5.0;

/// Of the places without evidence that did not change, one in this many is sampled, with this weight.
const SAMPLED: usize = 20;

/// Inputs: the features, and 1 for the intercept.
const N_INPUTS: usize = N_FEATURES + 1;

/// Inputs, label and weight.
type Row<const N: usize> = ([f64; N], f64, f64);

/// A model, with the probabilities that others give where it is cross-validated.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// Fitted on all repositories.
    pub model: Model,
    /// For each repository, a scorer that was fitted without it.
    pub scorers: Vec<Scorer>,
}

pub fn fit(repositories: &[&RepositorySamples]) -> Model {
    let class = |class: Class| {
        let mut rows: Vec<Row<N_INPUTS>> = Vec::new();
        for sample in repositories.iter().flat_map(|repository| &repository.samples) {
            for (number, place) in (0_u32..).zip(&sample.places) {
                let is_left_out = class == Class::Documents && !place.has_evidence;
                if place.class != class || number == sample.target || is_left_out {
                    continue;
                }
                let is_gold = sample.is_changed(number);
                let is_kept = is_gold || place.has_evidence || (number as usize).is_multiple_of(SAMPLED);
                if is_kept {
                    let weight = if is_gold || place.has_evidence { 1.0 } else { SAMPLED as f64 };
                    let mut inputs = [1.0; N_INPUTS];
                    inputs
                        .iter_mut()
                        .zip(&place.features)
                        .for_each(|(input, value)| *input = f64::from(*value));
                    rows.push((inputs, f64::from(u8::from(is_gold)), weight));
                }
            }
        }
        let weights = preconditioned(&mut rows);
        let named = FEATURES.iter().zip(weights).map(|(name, weight)| ((*name).to_owned(), round(weight)));
        let weights_by_name: BTreeMap<String, f32> = named.filter(|(_, weight)| *weight != 0.0).collect();
        (class, Regression { intercept: round(weights[N_FEATURES]), weights: weights_by_name })
    };
    Model { classes: Class::ALL.into_par_iter().map(class).collect() }
}

/// The weights of a logistic regression, found with each input divided by the square root of its curvature, with which
/// it converges in a fraction of the steps.
fn preconditioned(rows: &mut [Row<N_INPUTS>]) -> [f64; N_INPUTS] {
    let sum = |value: fn(&Row<N_INPUTS>) -> f64| rows.iter().map(value).sum::<f64>();
    let rate = sum(|(_, label, weight)| weight * label) / sum(|(.., weight)| *weight).max(1.0);
    let mut penalties = [PENALTY; N_INPUTS];
    penalties[N_FEATURES] = 0.0;
    let scales: [f64; N_INPUTS] = std::array::from_fn(|at| {
        let squares: f64 = rows.iter().map(|(inputs, _, weight)| weight * inputs[at] * inputs[at]).sum();
        1.0 / (rate * (1.0 - rate) * squares + penalties[at]).sqrt().max(1e-9)
    });
    for (inputs, ..) in rows.iter_mut() {
        inputs.iter_mut().zip(&scales).for_each(|(input, scale)| *input *= scale);
    }
    penalties.iter_mut().zip(&scales).for_each(|(penalty, scale)| *penalty *= scale * scale);
    let mut weights = logistic(rows, &penalties);
    weights.iter_mut().zip(&scales).for_each(|(weight, scale)| *weight *= scale);
    weights
}

/// Fits without each of some folds of repositories, and on all.
pub fn cross_validated(repositories: &[RepositorySamples], n_folds: usize) -> Fitted {
    let n_folds = n_folds.min(repositories.len()).max(1);
    let all: Vec<&RepositorySamples> = repositories.iter().collect();
    let others = |fold: usize| -> Vec<&RepositorySamples> {
        let is_other = |(number, _): &(usize, _)| n_folds == 1 || number % n_folds != fold;
        all.iter().copied().enumerate().filter(is_other).map(|(_, repository)| repository).collect()
    };
    let mut of_folds: Vec<Model> = (0..n_folds).into_par_iter().map(|fold| fit(&others(fold))).collect();
    let mut model = fit(&all);
    // Probabilities in another repository are less extreme than those in the repositories of the fit.
    for class in Class::ALL {
        let [slope, shift] = recalibration(&all, &of_folds, class);
        for model in of_folds.iter_mut().chain([&mut model]) {
            if let Some(regression) = model.classes.get_mut(&class) {
                regression.intercept = round(slope * f64::from(regression.intercept) + shift);
                regression
                    .weights
                    .values_mut()
                    .for_each(|weight| *weight = round(slope * f64::from(*weight)));
            }
        }
    }
    let of_folds: Vec<Scorer> = of_folds.iter().map(Scorer::new).collect();
    let scorers = (0..repositories.len()).map(|number| of_folds[number % n_folds].clone()).collect();
    Fitted { model, scorers }
}

/// Slope and shift of the log odds of a class, so that probabilities by the model of the other folds hold (Platt,
/// *Probabilistic Outputs for Support Vector Machines*, 1999).
fn recalibration(repositories: &[&RepositorySamples], of_folds: &[Model], class: Class) -> [f64; 2] {
    let mut rows: Vec<Row<2>> = Vec::new();
    for (number, repository) in repositories.iter().enumerate() {
        let scorer = Scorer::new(&of_folds[number % of_folds.len()]);
        for sample in &repository.samples {
            for (number, place) in (0_u32..).zip(&sample.places) {
                if place.class == class && place.has_evidence && number != sample.target {
                    let features = Features::from_values(&place.features);
                    let p = f64::from(scorer.probability(class, &features)).clamp(1e-6, 1.0 - 1e-6);
                    let label = f64::from(u8::from(sample.is_changed(number)));
                    rows.push(([(p / (1.0 - p)).ln(), 1.0], label, 1.0));
                }
            }
        }
    }
    if rows.iter().all(|(_, label, _)| *label == 0.0) { [1.0, 0.0] } else { logistic(&rows, &[1e-3, 0.0]) }
}

/// Weights are kept with three decimals.
fn round(weight: f64) -> f32 {
    ((weight * 1000.0).round() / 1000.0) as f32
}
