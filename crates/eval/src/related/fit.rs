//! Fitting the weights of [`quarry_related`].

use std::collections::BTreeMap;

use quarry_metrics::optimize::logistic;
use quarry_related::{Class, FEATURES, Model, N_FEATURES, Regression, Scorer};

use super::RepositorySamples;

/// Penalty of the squared weights.
const PENALTY: f64 = 5.0;

/// Of the places without evidence that did not change, one in so many counts, and for as many.
const SAMPLED: usize = 20;

/// Inputs: the features, and 1 for the intercept.
const N_INPUTS: usize = N_FEATURES + 1;

/// A model, with the probabilities that others give where it is cross-validated.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// Fitted on all repositories.
    pub model: Model,
    /// For each repository, a scorer that was fitted without it.
    pub scorers: Vec<Scorer>,
}

/// The model of some repositories.
#[must_use]
pub fn fit<'a>(repositories: impl Iterator<Item = &'a RepositorySamples> + Clone) -> Model {
    let class = |class: Class| {
        let mut rows: Vec<([f64; N_INPUTS], f64, f64)> = Vec::new();
        for sample in repositories.clone().flat_map(|repository| &repository.samples) {
            for (number, place) in (0_u32..).zip(&sample.places) {
                if place.class != class || number == sample.target {
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
        let mut penalties = [PENALTY; N_INPUTS];
        penalties[N_FEATURES] = 0.0;
        let weights = logistic(&rows, &penalties);
        let round = |weight: f64| ((weight * 1000.0).round() / 1000.0) as f32;
        let named = FEATURES.iter().zip(weights).map(|(name, weight)| ((*name).to_owned(), round(weight)));
        let weights_by_name: BTreeMap<String, f32> = named.filter(|(_, weight)| *weight != 0.0).collect();
        (class, Regression { intercept: round(weights[N_FEATURES]), weights: weights_by_name })
    };
    Model { classes: Class::ALL.map(class).into() }
}

/// Fits without each of some folds of repositories, and on all.
#[must_use]
pub fn cross_validated(repositories: &[RepositorySamples], n_folds: usize) -> Fitted {
    let n_folds = n_folds.min(repositories.len()).max(1);
    let others = |fold: usize| {
        let others = repositories
            .iter()
            .enumerate()
            .filter(move |(number, _)| n_folds == 1 || number % n_folds != fold);
        others.map(|(_, repository)| repository)
    };
    let of_folds: Vec<Scorer> = (0..n_folds).map(|fold| Scorer::new(&fit(others(fold)))).collect();
    let scorers = (0..repositories.len()).map(|number| of_folds[number % n_folds].clone()).collect();
    Fitted { model: fit(repositories.iter()), scorers }
}
