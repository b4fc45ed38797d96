//! A trained classifier for queries that look for code: a logistic regression on their words, as an alternative to
//! rules.

use std::collections::{BTreeMap, BTreeSet};

use quarry_metrics::optimize::minimize;
use serde::{Deserialize, Serialize};

/// L2 penalty: half of this times the sum of squared weights.
const PENALTY: f64 = 1.0;

/// Minimum number of queries that contain a word or pair of words for it to be a feature.
const LEAST: usize = 2;

/// Weights of words: a query looks for code if their sum is positive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntentModel {
    /// Intercept, which is added for every query.
    pub intercept: f64,
    /// Weights of words, and of pairs of adjacent words.
    pub weights: BTreeMap<String, f64>,
}

/// The distinct words of a query in lower case, and the pairs of adjacent ones.
fn features(query: &str) -> BTreeSet<String> {
    let query = query.to_lowercase();
    let is_around = |c: char| !c.is_alphanumeric() && c != '#' && c != '+';
    let words: Vec<&str> = query
        .split_whitespace()
        .map(|word| word.trim_matches(is_around))
        .filter(|word| !word.is_empty())
        .collect();
    let pairs = words.windows(2).map(|pair| pair.join(" "));
    words.iter().map(|word| (*word).to_owned()).chain(pairs).collect()
}

impl IntentModel {
    /// Trains a model on queries with whether they look for code.
    #[must_use]
    pub fn train(queries: &[(&str, bool)]) -> Self {
        let found: Vec<BTreeSet<String>> = queries.iter().map(|(query, _)| features(query)).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for feature in found.iter().flatten() {
            *counts.entry(feature).or_default() += 1;
        }
        let names: Vec<&str> =
            counts.iter().filter(|(_, count)| **count >= LEAST).map(|(name, _)| *name).collect();
        let rows: Vec<(Vec<usize>, f64)> = (found.iter().zip(queries))
            .map(|(features, (_, looks))| {
                let known = features.iter().filter_map(|name| names.binary_search(&name.as_str()).ok());
                (known.collect(), f64::from(u8::from(*looks)))
            })
            .collect();
        // The last weight is the intercept, which is not penalized.
        let intercept = names.len();
        let weights = minimize(vec![0.0; intercept + 1], |at| {
            let mut value = at[..intercept].iter().map(|weight| PENALTY / 2.0 * weight * weight).sum::<f64>();
            let mut gradient: Vec<f64> = at.iter().map(|weight| PENALTY * weight).collect();
            gradient[intercept] = 0.0;
            for (features, label) in &rows {
                let sum = at[intercept] + features.iter().map(|feature| at[*feature]).sum::<f64>();
                // ln(1 + e^sum) without overflow.
                value += sum.max(0.0) + (-sum.abs()).exp().ln_1p() - label * sum;
                let error = 1.0 / (1.0 + (-sum).exp()) - label;
                features.iter().for_each(|feature| gradient[*feature] += error);
                gradient[intercept] += error;
            }
            (value, gradient)
        });
        let named = names.iter().zip(&weights).map(|(name, weight)| ((*name).to_owned(), *weight));
        Self { intercept: weights[intercept], weights: named.collect() }
    }

    /// Whether a query looks for code.
    #[must_use]
    pub fn looks_for_code(&self, query: &str) -> bool {
        let known = features(query);
        self.intercept + known.iter().filter_map(|name| self.weights.get(name)).sum::<f64>() > 0.0
    }

    /// Predictions for held-out queries: the queries are distributed over `folds`, and each model is trained on all
    /// folds but one.
    #[must_use]
    pub fn cross_validated(queries: &[(&str, bool)], folds: usize, seed: u64) -> Vec<bool> {
        let mut order: Vec<usize> = (0..queries.len()).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut order);
        let mut said = vec![false; queries.len()];
        for fold in 0..folds {
            let is_held_out = |place: usize| place % folds == fold;
            let learned: Vec<(&str, bool)> = (order.iter().enumerate())
                .filter(|(place, _)| !is_held_out(*place))
                .map(|(_, number)| queries[*number])
                .collect();
            let model = Self::train(&learned);
            for (place, number) in order.iter().enumerate() {
                if is_held_out(place) {
                    said[*number] = model.looks_for_code(queries[*number].0);
                }
            }
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queries with "why" do not look for code; all other words carry no information.
    fn queries() -> Vec<(String, bool)> {
        let things = ["list", "dict", "file", "string", "tuple", "set"];
        let verbs = ["sort", "open", "copy", "print", "split"];
        let pairs = things.iter().flat_map(|thing| verbs.iter().map(move |verb| format!("{verb} a {thing}")));
        pairs
            .flat_map(|query| [(format!("why {query} python"), false), (format!("{query} python"), true)])
            .collect()
    }

    #[test]
    fn a_word_that_tells_is_learned_and_others_are_not() {
        let queries = queries();
        let queries: Vec<(&str, bool)> =
            queries.iter().map(|(query, looks)| (query.as_str(), *looks)).collect();
        let model = IntentModel::train(&queries);
        assert!(model.weights["why"] < -1.0 && model.weights["python"].abs() < 1.0, "{model:?}");
        assert!(model.looks_for_code("Reverse a list") && !model.looks_for_code("WHY, reverse a list"));
        let said = IntentModel::cross_validated(&queries, 10, 42);
        let truth: Vec<bool> = queries.iter().map(|(_, looks)| *looks).collect();
        assert_eq!(said, truth);
        // Labels that do not depend on words cannot be predicted for held-out queries.
        let noise: Vec<(&str, bool)> = (queries.iter().enumerate())
            .map(|(number, (query, _))| (*query, (number / 2 * 7 + number / 4) % 2 == 0))
            .collect();
        let said = IntentModel::cross_validated(&noise, 10, 42);
        let right = said.iter().zip(&noise).filter(|(said, (_, looks))| *said == looks).count();
        assert!(right < 50, "{right} of 60");
    }
}
