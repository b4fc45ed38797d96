//! Requests and responses of a search.

use crate::index::filter::Filter;
use crate::index::hit::Hit;
use crate::ranking::confidence::{Evidence, is_confident};
use crate::ranking::weights::RankingWeights;

/// A search of an index.
#[derive(Debug, Clone)]
pub struct SearchRequest<'a> {
    /// The query: plain words or a symbol.
    pub query: &'a str,
    /// Maximum number of results.
    pub limit: usize,
    pub ranking: RankingWeights,
    pub filter: &'a Filter,
}

/// Ranked units.
#[derive(Debug, Clone, Default)]
pub struct SearchResponse {
    /// The hits, best first; ties in the order of paths and lines.
    pub hits: Vec<Hit>,
    /// Confidence that any hit answers the query, 0 to 1, computed from `evidence`; for
    /// [`Index::similar`](crate::Index::similar) the cosine of the first hit. 0 without hits.
    pub confidence: f32,
    /// The evidence for the confidence; none for [`Index::similar`](crate::Index::similar).
    pub evidence: Evidence,
    /// The query as it was interpreted, if that differs from the text: in English, and with its symbols as they are
    /// written in the code.
    pub read_as: Option<String>,
}

impl SearchResponse {
    /// Returns whether the search found something, by [`is_confident`].
    pub fn is_confident(&self, threshold: Option<f32>) -> Option<bool> {
        is_confident(self.confidence, &self.evidence, threshold)
    }
}
