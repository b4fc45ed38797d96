//! Estimates whether any result answers the query, or the results are merely the nearest ones.
//!
//! The evidence is from the ranking before any re-ranker reads results: a re-ranker's factors order similar results,
//! and are not evidence that the first one is an answer. So the confidence of a query does not depend on `--quality`.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::ranking::intent::by_name;
use crate::ranking::question::QuestionKind;

/// The minimum confidence at which a search counts as having found something: about the highest that 95 % of the
/// questions reach whose answer is among the first ten results.
pub const DEFAULT_THRESHOLD: f32 = 0.26;

/// Returns whether a search with a confidence found something: true if it reaches the threshold that the user gave, or
/// else [`DEFAULT_THRESHOLD`]. `None` for a long text with results that was searched by words alone, without a given
/// threshold: its confidence is hardly informative.
pub fn is_confident(confidence: f32, evidence: &Evidence, threshold: Option<f32>) -> Option<bool> {
    let is_undecided = evidence.kind == QuestionKind::Long && evidence.cosine.is_none();
    match threshold {
        None if is_undecided && confidence > 0.0 => None,
        _ => Some(confidence >= threshold.unwrap_or(DEFAULT_THRESHOLD)),
    }
}

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
    /// Gap of the result that covers the query best: the share of the token that it covers worst by meaning, times the
    /// distance of the nearest token, 0 to 1.
    pub gap: f32,
    /// The tenth best BM25F over the logarithm of the number of units, at least 0.
    pub words: f32,
    /// Difference between the best cosine and that of the hundredth best unit, at least 0; `None` without a model.
    pub cosine: Option<f32>,
    /// The first result's share in the ranking's own softmax over all candidates ([`intent`](crate::intent)), 0 to 1:
    /// near 1 if one result stands out, near 0 if many are alike.
    pub share: f32,
    /// The score of the first result over that of the second, at least 1.
    pub lead: f32,
}

/// Names of the features of evidence, in the order of [`Features`].
pub const FEATURES: [&str; 10] =
    ["matched", "known", "gap", "words", "cosine", "log_share", "log_lead", "name", "error", "long"];

/// The values that weights are applied to.
pub type Features = [f32; FEATURES.len()];

/// Weights of a logistic regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ConfidenceWeights"))]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// The log-odds if every feature is 0.
    pub intercept: f32,
    /// Weights of features, by name.
    #[serde(with = "features_by_name")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, f32>"))]
    pub features: Features,
}

by_name!(features_by_name, FEATURES);

/// The weights for searches by words alone, and with a model: for short queries and for long texts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BuiltIn {
    words: Weights,
    model: Weights,
    long: Weights,
}

impl Weights {
    /// The weights that search uses: by words alone and for short queries fitted by `quarry eval tune --confidence`, for long
    /// texts by `bench/fit_confidence.py`. They are for the built-in model: cosines of another one may be higher or lower.
    pub fn in_use(evidence: &Evidence) -> &'static Self {
        static BUILT_IN: LazyLock<BuiltIn> = LazyLock::new(|| {
            // A test parses the file, so it cannot be invalid in a release.
            serde_json::from_str(include_str!("../../confidence.json"))
                .unwrap_or_else(|error| unreachable!("crates/index/confidence.json: {error}"))
        });
        match (evidence.cosine, evidence.kind) {
            (None, _) => &BUILT_IN.words,
            (Some(_), QuestionKind::Long) => &BUILT_IN.long,
            (Some(_), _) => &BUILT_IN.model,
        }
    }

    /// The probability, 0 to 1, that the evidence belongs to a query with an answer, assuming that queries with and
    /// without an answer are equally frequent.
    pub fn confidence(&self, evidence: &Evidence) -> f32 {
        let products =
            self.features.iter().zip(evidence.features()).map(|(weight, feature)| weight * feature);
        1.0 / (1.0 + (-(self.intercept + products.sum::<f32>())).exp())
    }
}

impl Evidence {
    /// The features of the evidence.
    pub fn features(&self) -> Features {
        let is = |kind| f32::from(u8::from(self.kind == kind));
        [
            self.matched,
            self.known,
            self.gap,
            self.words,
            self.cosine.unwrap_or_default(),
            self.share.max(1e-3).ln(),
            // Larger leads make no difference.
            self.lead.clamp(1.0, 10.0).ln(),
            is(QuestionKind::Name),
            is(QuestionKind::Error),
            is(QuestionKind::Long),
        ]
    }

    /// [`Weights::confidence`] with the weights in use.
    pub fn confidence(&self) -> f32 {
        Weights::in_use(self).confidence(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSINES: [Option<f32>; 2] = [None, Some(0.2)];

    #[test]
    fn each_piece_of_evidence_makes_more_confident() {
        for cosine in COSINES {
            let none = Evidence {
                matched: 0.3,
                known: 0.3,
                gap: 0.2,
                words: 0.5,
                share: 0.1,
                lead: 1.0,
                cosine,
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
    fn everything_is_found_at_full_confidence() {
        for cosine in COSINES {
            let all = Evidence {
                matched: 1.0,
                known: 1.0,
                words: 2.0,
                cosine: cosine.map(|_| 0.4),
                share: 1.0,
                lead: 2.0,
                ..Evidence::default()
            };
            assert!(all.confidence() > 0.95, "{all:?}: {}", all.confidence());
            let nothing = Evidence { gap: 0.4, cosine: cosine.map(|_| 0.0), ..Evidence::default() };
            assert!(nothing.confidence() < 0.05, "{nothing:?}: {}", nothing.confidence());
        }
    }

    #[test]
    fn a_long_text_by_words_alone_is_judged_only_by_a_threshold_that_is_given() {
        let decide = |kind, cosine, threshold| {
            is_confident(0.2, &Evidence { kind, cosine, ..Evidence::default() }, threshold)
        };
        assert_eq!(decide(QuestionKind::Description, None, None), Some(false));
        assert_eq!(decide(QuestionKind::Description, None, Some(0.1)), Some(true));
        assert_eq!(decide(QuestionKind::Long, None, None), None);
        assert_eq!(decide(QuestionKind::Long, Some(0.3), None), Some(false));
        assert_eq!(decide(QuestionKind::Long, None, Some(0.3)), Some(false));
        assert_eq!(decide(QuestionKind::Long, None, Some(0.0)), Some(true));
        let nothing = Evidence { kind: QuestionKind::Long, ..Evidence::default() };
        assert_eq!(is_confident(0.0, &nothing, None), Some(false));
    }
}
