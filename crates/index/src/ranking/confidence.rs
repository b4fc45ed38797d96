//! Estimates whether any result answers the query, or the results are merely the nearest ones.
//!
//! The evidence is of the ranking before anything reads results again: re-rankers order similar results, and what they
//! multiply scores by says nothing about whether the first one is an answer. The best cosine that a re-ranker finds is
//! evidence as well, with its own weight.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::intent::by_name;
use crate::question::QuestionKind;

/// The confidence from which on a search counts as having found something: about the highest that, without a re-ranker,
/// 95 % of the questions reach whose answer is among the first ten results.
pub const DEFAULT_THRESHOLD: f32 = 0.26;

/// Number of results that evidence is taken from.
pub(crate) const N_RESULTS: usize = 10;

/// Rank of the unit above which the best cosine is measured.
pub(crate) const COSINE_RANK: usize = 100;

/// The evidence that the index holds an answer to the query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Evidence {
    /// The kind of question that the query is.
    pub kind: QuestionKind,
    /// Maximum share of the query, weighted by the idf of its words, that a result contains, 0 to 1.
    pub matched: f32,
    /// Share of the query, weighted by the idf of its words, that occurs in the index at all, 0 to 1.
    pub known: f32,
    /// What the result that covers the query best lacks: the share of the token that it covers worst by meaning, times
    /// the distance of the nearest token, 0 to 1.
    pub gap: f32,
    /// The tenth best BM25F over the logarithm of the number of units, at least 0.
    pub words: f32,
    /// How far the best cosine is above that of the hundredth best unit, at least 0; `None` without a model.
    pub cosine: Option<f32>,
    /// The first result's share in the ranking's own softmax over all candidates ([`intent`](crate::intent)), 0 to 1:
    /// near 1 if one result stands out, near 0 if many are alike.
    pub share: f32,
    /// The score of the first result over that of the second, at least 1.
    pub lead: f32,
    /// Maximum cosine of a result by the re-ranker; `None` if it read nothing.
    pub reranker: Option<f32>,
}

/// Names of the features of evidence, in the order of [`Features`].
pub const FEATURES: [&str; 11] = [
    "matched",
    "known",
    "gap",
    "words",
    "cosine",
    "log_share",
    "log_lead",
    "reranker",
    "name",
    "error",
    "long",
];

/// What weights are applied to.
pub type Features = [f32; FEATURES.len()];

/// What has taken part in a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Stage {
    /// Words alone.
    Words,
    /// A model for all units.
    Model,
    /// Another model that reads the first results.
    Reranker,
}

/// Weights of a logistic regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// The log-odds if every feature is 0.
    pub intercept: f32,
    /// Weights of [`FEATURES`], by name.
    #[serde(with = "features_by_name")]
    pub features: Features,
}

by_name!(features_by_name, FEATURES);

/// The weights for each stage.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BuiltIn {
    words: Weights,
    model: Weights,
    reranker: Weights,
}

impl Weights {
    /// The weights that search uses, fitted by `quarry eval tune`.
    #[must_use]
    pub fn in_use(stage: Stage) -> &'static Self {
        static BUILT_IN: LazyLock<BuiltIn> = LazyLock::new(|| {
            // A test parses the file, so it cannot be invalid in a release.
            serde_json::from_str(include_str!("../confidence.json"))
                .unwrap_or_else(|error| unreachable!("crates/index/confidence.json: {error}"))
        });
        match stage {
            Stage::Words => &BUILT_IN.words,
            Stage::Model => &BUILT_IN.model,
            Stage::Reranker => &BUILT_IN.reranker,
        }
    }

    /// The probability, 0 to 1, that the evidence belongs to a query with an answer, assuming that queries with and
    /// without an answer are equally frequent.
    #[must_use]
    pub fn confidence(&self, evidence: &Evidence) -> f32 {
        let products =
            self.features.iter().zip(evidence.features()).map(|(weight, feature)| weight * feature);
        1.0 / (1.0 + (-(self.intercept + products.sum::<f32>())).exp())
    }
}

impl Evidence {
    /// What has taken part in the search.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match (self.cosine, self.reranker) {
            (_, Some(_)) => Stage::Reranker,
            (Some(_), None) => Stage::Model,
            (None, None) => Stage::Words,
        }
    }

    /// The features of the evidence.
    #[must_use]
    pub fn features(&self) -> Features {
        let is = |kind| f32::from(u8::from(self.kind == kind));
        [
            self.matched,
            self.known,
            self.gap,
            self.words,
            self.cosine.unwrap_or_default(),
            self.share.max(1e-3).ln(),
            // Beyond this lead, nothing changes.
            self.lead.clamp(1.0, 10.0).ln(),
            self.reranker.unwrap_or_default(),
            is(QuestionKind::Name),
            is(QuestionKind::Error),
            is(QuestionKind::Long),
        ]
    }

    /// [`Weights::confidence`] with the weights in use.
    #[must_use]
    pub fn confidence(&self) -> f32 {
        Weights::in_use(self.stage()).confidence(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [(Option<f32>, Option<f32>); 3] = [(None, None), (Some(0.2), None), (Some(0.2), Some(0.4))];

    #[test]
    fn each_piece_of_evidence_makes_more_confident() {
        for (cosine, reranker) in STAGES {
            let none = Evidence {
                matched: 0.3,
                known: 0.3,
                gap: 0.2,
                words: 0.5,
                share: 0.1,
                lead: 1.0,
                cosine,
                reranker,
                ..Evidence::default()
            };
            let mut more = vec![
                Evidence { matched: 0.5, ..none },
                Evidence { known: 0.5, ..none },
                Evidence { gap: 0.1, ..none },
                Evidence { words: 1.0, ..none },
                Evidence { share: 0.2, ..none },
            ];
            more.extend(cosine.map(|cosine| Evidence { cosine: Some(cosine + 0.1), ..none }));
            for more in more {
                assert!(more.confidence() > none.confidence(), "{more:?}");
            }
        }
    }

    #[test]
    fn all_is_found_and_nothing_is_not() {
        for (cosine, reranker) in STAGES {
            let all = Evidence {
                matched: 1.0,
                known: 1.0,
                words: 2.0,
                cosine: cosine.map(|_| 0.4),
                share: 1.0,
                lead: 2.0,
                reranker: reranker.map(|_| 0.8),
                ..Evidence::default()
            };
            assert!(all.confidence() > 0.95, "{all:?}: {}", all.confidence());
            let nothing = Evidence {
                gap: 0.4,
                cosine: cosine.map(|_| 0.0),
                reranker: reranker.map(|_| 0.0),
                ..Evidence::default()
            };
            assert!(nothing.confidence() < 0.05, "{nothing:?}: {}", nothing.confidence());
        }
    }
}
