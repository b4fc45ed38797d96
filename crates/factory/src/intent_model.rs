//! A trained classifier for queries that look for code: a logistic regression on their words, as an alternative to
//! rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quarry_files::read_regular_text;
use quarry_metrics::optimize::minimize;
use serde::{Deserialize, Serialize};

use crate::error::FactoryError;

/// Maximum size of the file of a classifier, in bytes.
const MAX_MODEL_BYTES: u64 = 64 << 20;

/// Number of words that a reason names.
const NAMED_WORDS: usize = 3;

/// L2 penalty: half of this times the sum of squared weights.
const PENALTY: f64 = 1.0;

/// Minimum number of queries that contain a word or pair of words for it to be a feature.
const LEAST: usize = 2;

/// Weights of words: a query looks for code if their sum is positive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

    /// Reads the file that `quarry data intent --save` writes.
    ///
    /// # Errors
    /// When it cannot be read, or contains something else.
    pub fn open(path: &Path) -> Result<Self, FactoryError> {
        let text = read_regular_text(path, MAX_MODEL_BYTES).map_err(FactoryError::read(path))?;
        serde_json::from_str(&text).map_err(|error| FactoryError::Line {
            path: path.to_owned(),
            line: error.line(),
            problem: format!(
                "expected a classifier with `intercept` and `weights`: {error}; write one with `quarry data intent --labels \
                 FORM.csv --save FILE`"
            ),
        })
    }

    fn sum(&self, features: &BTreeSet<String>) -> f64 {
        self.intercept + features.iter().filter_map(|name| self.weights.get(name)).sum::<f64>()
    }

    /// Whether a query looks for code.
    #[must_use]
    pub fn looks_for_code(&self, query: &str) -> bool {
        self.sum(&features(query)) > 0.0
    }

    /// Why a query does not look for code: the sum of its weights, and the words that count most against it. `None` if it
    /// does.
    #[must_use]
    pub(crate) fn reason_against(&self, query: &str) -> Option<String> {
        let known = features(query);
        let sum = self.sum(&known);
        if sum > 0.0 {
            return None;
        }
        let mut against: Vec<(&String, f64)> = (known.iter())
            .filter_map(|name| Some((name, *self.weights.get(name).filter(|weight| **weight < 0.0)?)))
            .collect();
        against.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let named: Vec<String> =
            against.iter().take(NAMED_WORDS).map(|(name, weight)| format!("{name} {weight:.2}")).collect();
        let named = if named.is_empty() {
            "no word that it knows speaks for code".to_owned()
        } else {
            named.join(", ")
        };
        Some(format!("{sum:.2}: {named}"))
    }

    /// Predictions for held-out queries: the queries are distributed over `folds`, and each model is trained on all
    /// folds but one.
    #[must_use]
    pub fn cross_validated(queries: &[(&str, bool)], folds: usize, seed: u64) -> Vec<bool> {
        let mut order: Vec<usize> = (0..queries.len()).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut order);
        let mut predicted = vec![false; queries.len()];
        for fold in 0..folds {
            let is_held_out = |place: usize| place % folds == fold;
            let learned: Vec<(&str, bool)> = (order.iter().enumerate())
                .filter(|(place, _)| !is_held_out(*place))
                .map(|(_, number)| queries[*number])
                .collect();
            let model = Self::train(&learned);
            for (place, number) in order.iter().enumerate() {
                if is_held_out(place) {
                    predicted[*number] = model.looks_for_code(queries[*number].0);
                }
            }
        }
        predicted
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
    fn a_model_is_read_again_and_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("intent.json");
        let model = IntentModel {
            intercept: -0.25,
            weights: [("sort".to_owned(), 1.0), ("why".to_owned(), -2.0), ("why sort".to_owned(), -0.5)]
                .into(),
        };
        std::fs::write(&path, serde_json::to_vec(&model).unwrap()).unwrap();
        let model = IntentModel::open(&path).unwrap();
        assert_eq!(model.reason_against("sort a list"), None);
        assert_eq!(model.reason_against("Why sort?").unwrap(), "-1.75: why -2.00, why sort -0.50");
        assert_eq!(model.reason_against("lists").unwrap(), "-0.25: no word that it knows speaks for code");
        std::fs::write(&path, "{\"intercept\": 1}").unwrap();
        let error = IntentModel::open(&path).unwrap_err().to_string();
        assert!(
            error.contains("intent.json:1: expected a classifier") && error.contains("--save"),
            "{error}"
        );
    }

    #[test]
    fn a_word_that_tells_is_learned_and_others_are_not() {
        let queries = queries();
        let queries: Vec<(&str, bool)> =
            queries.iter().map(|(query, looks)| (query.as_str(), *looks)).collect();
        let model = IntentModel::train(&queries);
        assert!(model.weights["why"] < -1.0 && model.weights["python"].abs() < 1.0, "{model:?}");
        assert!(model.looks_for_code("Reverse a list") && !model.looks_for_code("WHY, reverse a list"));
        let predicted = IntentModel::cross_validated(&queries, 10, 42);
        let truth: Vec<bool> = queries.iter().map(|(_, looks)| *looks).collect();
        assert_eq!(predicted, truth);
        // Labels that do not depend on words cannot be predicted for held-out queries.
        let noise: Vec<(&str, bool)> = (queries.iter().enumerate())
            .map(|(number, (query, _))| (*query, (number / 2 * 7 + number / 4) % 2 == 0))
            .collect();
        let predicted = IntentModel::cross_validated(&noise, 10, 42);
        let right =
            predicted.iter().zip(&noise).filter(|(predicted, (_, looks))| *predicted == looks).count();
        assert!(right < 50, "{right} of 60");
    }
}
