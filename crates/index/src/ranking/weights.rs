//! The weights of a ranking.

use crate::index::hit::ScoreParts;
use crate::lexical::Bm25f;

/// The weights of a ranking. A unit's score is the sum of
///
/// - its own words' score: BM25F and cosine, each relative to the best one of this query, fused
///   ([`crate::fusion::convex_combination`]);
/// - `file_weight` times the same for its file, whose BM25F is that of all its units taken together and whose cosine
///   is that of its best unit; both sums are relative to the best unit's, so they are at most 1;
/// - the [rules](crate::rules), each times its weight;
///
/// and is multiplied by [`crate::rules::demotion`], after which the weight of a definition is added, and then by the factors
/// of [`crate::rules::fold`] and [`crate::rules::diversify`]. That is the score by the rules; with `function_share` above 0 it is
/// mixed with that for questions about behavior, as [`intent`](crate::intent) describes. The defaults are those that
/// `quarry eval tune` chooses on the repository-search development set and on `bench/repo-queries.tsv` together, or
/// hardly differ from these; `docs/reports/ranking.md` has the figures.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingWeights {
    /// Parameters of the lexical score.
    pub bm25f: Bm25f,
    /// Weight of the cosine in a score, 0 to 1; ignored without a model.
    pub dense_weight: f32,
    /// Weight of the file's score relative to the unit's own.
    pub file_weight: f32,
    /// Weight of [`crate::rules::path_match`].
    pub path_weight: f32,
    /// Weight of [`crate::rules::unit_match`].
    pub name_weight: f32,
    /// Exponent of both matches, at least 1: the larger, the less partial matches count.
    pub name_power: f32,
    /// Bonus for the definition of the symbol that the query consists of: by default more than everything else
    /// together.
    pub definition: f32,
    /// Bonus for the definition of a symbol that a longer query mentions.
    pub mention: f32,
    /// Factor for examples, generated and vendored code, documentation and the like, 0 to 1.
    pub demotion: f32,
    /// Factor for tests, 0 to 1.
    pub test: f32,
    /// Factor for definitions private to a type or file ([`crate::rules::is_private`]) if a public one of the file is
    /// among the candidates, 0 to 1.
    pub private: f32,
    /// Factor for each further unit of a file, 0 to 1.
    pub repetition: f32,
    /// Factor for a near-duplicate of a better unit, 0 to 1.
    pub duplicate: f32,
    /// Strength with which a query that reads like a question about behavior is treated as one, from 0 (never: only
    /// the rules are used) to 1 (with the probability of
    /// [`file_probability`](crate::intent::Model::file_probability)).
    pub function_share: f32,
    /// True if a query that is an [issue](crate::issue) is ranked as one.
    pub issues: bool,
    /// Weight of the cosine of a re-ranker, in natural logarithms of a score, for queries that want a function;
    /// ignored without one.
    pub rerank_function: f32,
    /// The same for queries that want a file.
    pub rerank_file: f32,
    /// Weight of the log-odds of a cross-encoder, for queries that want a function; for those that want a file they
    /// are ignored.
    pub cross_encoder_function: f32,
}

impl Default for RankingWeights {
    fn default() -> Self {
        Self {
            bm25f: Bm25f { k1: 0.9, ..Bm25f::default() },
            dense_weight: 0.65,
            file_weight: 0.75,
            path_weight: 0.5,
            name_weight: 0.25,
            name_power: 1.5,
            definition: 3.0,
            mention: 0.25,
            demotion: 0.25,
            test: 0.25,
            private: 0.99,
            repetition: 0.65,
            duplicate: 0.0,
            function_share: 1.0,
            issues: true,
            rerank_function: 22.0,
            rerank_file: 0.0,
            cross_encoder_function: 1.0,
        }
    }
}

impl RankingWeights {
    /// The score before [`crate::rules::diversify`].
    pub(crate) fn score(&self, parts: &ScoreParts, is_symbol: bool) -> f32 {
        let names = self.path_weight * parts.path.powf(self.name_power)
            + self.name_weight * parts.name.powf(self.name_power);
        // A definition that is searched by name is not demoted, regardless of the kind of code it is in.
        (parts.words + names) * parts.demotion + self.definition_score(parts, is_symbol)
    }

    /// The bonus for a unit that defines a symbol of the query.
    pub(crate) fn definition_score(&self, parts: &ScoreParts, is_symbol: bool) -> f32 {
        let weight = if is_symbol { self.definition } else { self.mention };
        parts.exactness * weight
    }
}
