//! Estimates whether any result answers the query, or the results are merely the nearest ones.

/// The confidence from which on a search counts as having found something: chosen by `quarry eval tune`, with the
/// cost of missing an existing answer three times that of showing wrong results. `docs/reports/ranking.md` reports
/// how often it is right.
pub const DEFAULT_THRESHOLD: f32 = 0.21;

/// The evidence that the index holds an answer to the query.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Evidence {
    /// Maximum cosine of a hit, at least 0; `None` without a model.
    pub dense: Option<f32>,
    /// Maximum share of the query, weighted by the idf of its words, that a hit's BM25F covers, 0 to 1
    /// ([`crate::ScoreParts::coverage`]).
    pub coverage: f32,
    /// Share of the query, weighted by the idf of its words, that occurs in the index at all, 0 to 1.
    pub known: f32,
    /// The first result's share in the ranking's own softmax over all candidates ([`intent`](crate::intent)), 0 to 1:
    /// near 1 if one result stands out, near 0 if many are alike.
    pub share: f32,
}

/// Weights of a logistic regression.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Weights {
    /// Weight of [`Evidence::dense`].
    pub dense: f32,
    /// Weight of [`Evidence::coverage`].
    pub coverage: f32,
    /// Weight of [`Evidence::known`].
    pub known: f32,
    /// Weight of [`Evidence::log_share`].
    pub share: f32,
    /// The log-odds without any evidence.
    pub intercept: f32,
}

/// Fitted by `quarry eval tune`, with the built-in model and without a model, rounded to two decimals.
const HYBRID: Weights = Weights { dense: 7.26, coverage: 2.79, known: 3.84, share: 0.92, intercept: -6.31 };
const LEXICAL: Weights = Weights { dense: 0.0, coverage: 6.84, known: 3.5, share: 0.59, intercept: -3.8 };

impl Weights {
    /// The weights for searches with a model, or without one.
    #[must_use]
    pub fn in_use(with_model: bool) -> Self {
        if with_model { HYBRID } else { LEXICAL }
    }

    /// The probability, 0 to 1, that the evidence belongs to a query with an answer, assuming that queries with and
    /// without an answer are equally frequent.
    #[must_use]
    pub fn confidence(&self, evidence: &Evidence) -> f32 {
        let sum = self.intercept
            + self.dense * evidence.dense.unwrap_or_default()
            + self.coverage * evidence.coverage
            + self.known * evidence.known
            + self.share * evidence.log_share();
        1.0 / (1.0 + (-sum).exp())
    }
}

impl Evidence {
    /// The natural logarithm of the share, with a share of at least one thousandth.
    #[must_use]
    pub fn log_share(&self) -> f32 {
        self.share.max(1e-3).ln()
    }

    /// [`Weights::confidence`] with the default weights. They were fitted for the built-in model: cosines of another
    /// one may be higher or lower.
    #[must_use]
    pub fn confidence(&self) -> f32 {
        Weights::in_use(self.dense.is_some()).confidence(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_of_evidence_makes_more_confident() {
        let none = Evidence { dense: Some(0.1), coverage: 0.1, known: 0.1, share: 0.1 };
        for more in [
            Evidence { dense: Some(0.2), ..none },
            Evidence { coverage: 0.2, ..none },
            Evidence { known: 0.2, ..none },
            Evidence { share: 0.2, ..none },
        ] {
            assert!(more.confidence() > none.confidence(), "{more:?}");
        }
        let lexical = Evidence { dense: None, coverage: 0.5, known: 1.0, share: 0.1 };
        assert!(lexical.confidence() > Evidence { known: 0.5, ..lexical }.confidence());
    }

    #[test]
    fn all_is_found_and_nothing_is_not() {
        for dense in [Some(1.0), None] {
            let confidence =
                |dense, share| Evidence { dense, coverage: share, known: share, share }.confidence();
            assert!(confidence(dense, 1.0) > 0.95);
            assert!(confidence(dense.map(|_| 0.0), 0.0) < 0.05);
        }
    }
}
