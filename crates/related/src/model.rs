//! The probability that a place changes with a target, by its features.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::features::{FEATURES, Features};

pub const N_FEATURES: usize = FEATURES.len();

/// Class of a place: each has weights of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Test code.
    Tests,
    /// Any other code.
    Code,
    /// Sections of documentation, and files without definitions.
    Documents,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tests, Self::Code, Self::Documents];
}

/// A logistic regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Regression {
    /// The intercept.
    pub intercept: f32,
    /// By feature; 0 for those that are absent.
    pub weights: BTreeMap<String, f32>,
}

/// The regression of each class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// By class.
    pub classes: BTreeMap<Class, Regression>,
}

/// A model with its weights in the order of [`FEATURES`].
#[derive(Debug, Clone)]
pub struct Scorer {
    classes: [(f32, [f32; N_FEATURES]); 3],
}

static SHIPPED: LazyLock<Scorer> = LazyLock::new(|| {
    let model =
        serde_json::from_str(include_str!("../weights.json")).unwrap_or(Model { classes: BTreeMap::new() });
    Scorer::new(&model)
});

impl Scorer {
    /// The scorer of a model.
    pub fn new(model: &Model) -> Self {
        let class = |class: Class| {
            let Some(regression) = model.classes.get(&class) else { return (0.0, [0.0; N_FEATURES]) };
            let weight = |name: &&str| regression.weights.get(*name).copied().unwrap_or_default();
            let mut weights = [0.0; N_FEATURES];
            weights.iter_mut().zip(FEATURES).for_each(|(value, name)| *value = weight(name));
            (regression.intercept, weights)
        };
        Self { classes: Class::ALL.map(class) }
    }

    /// The one that the program has.
    pub fn shipped() -> &'static Self {
        &SHIPPED
    }

    /// The probability that a place changes with a target.
    pub fn probability(&self, class: Class, features: &Features) -> f32 {
        let (intercept, weights) = &self.classes[class as usize];
        let sum: f32 = features.values().iter().zip(weights).map(|(value, weight)| value * weight).sum();
        1.0 / (1.0 + (-(intercept + sum)).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weights_of_the_program_are_of_its_features() {
        let model: Model = serde_json::from_str(include_str!("../weights.json")).unwrap();
        assert_eq!(model.classes.len(), Class::ALL.len());
        for regression in model.classes.values() {
            for (name, weight) in &regression.weights {
                assert!(FEATURES.contains(&name.as_str()) && weight.is_finite(), "{name}");
            }
        }
        // As of a place that nearly all commits of the target changed.
        let some = Features {
            together: 1.5,
            together_in_few: 1.5,
            together_last: 1.0,
            together_share: 0.9,
            together_back: 0.9,
            calls: 1.0,
            ..Features::default()
        };
        for class in [Class::Tests, Class::Code] {
            let [more, less] =
                [some, Features::default()].map(|features| Scorer::shipped().probability(class, &features));
            assert!(more > less && (0.0..=1.0).contains(&more), "{class:?} {more} {less}");
        }
    }
}
