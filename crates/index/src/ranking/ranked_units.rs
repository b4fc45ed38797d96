//! Units ranked by a search, with the signals that their scores are made of.

use std::collections::{HashMap, HashSet};

use quarry_embed::Meaning;
use quarry_text::query_terms;

use crate::index::hit::ScoreParts;
use crate::lexical::Scores;
use crate::ranking::confidence::{Evidence, is_confident};
use crate::ranking::intent::UnitFeatures;
use crate::ranking::issue::model::IssueFeatures;
use crate::ranking::respelling::QueryReading;
use crate::ranking::rules::Query;
use crate::ranking::weights::RankingWeights;

/// Maximum number of terms of an issue for which matches are shown.
const MAX_SHOWN: usize = 100;

/// Units ranked by a search, with their signals.
pub struct RankedUnits {
    /// Best first.
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) signals: Signals,
    pub(crate) ranking: RankingWeights,
    /// Like [`crate::SearchResponse::read_as`].
    pub(crate) read_as: Option<String>,
    /// The query in English, if it is in another language.
    pub(crate) asked: Option<String>,
    /// From the ranking before any re-ranker read it, so that re-rankers do not change the confidence.
    pub(crate) evidence: Evidence,
    /// True if a re-ranker ordered them.
    pub(crate) is_reranked: bool,
    /// The recognized issue, if the query is one.
    pub(crate) of_issue: Option<RankedIssue>,
}

impl RankedUnits {
    /// Confidence that any unit answers the query, 0 to 1; 0 without units.
    pub fn confidence(&self) -> f32 {
        if self.candidates.is_empty() { 0.0 } else { self.evidence.confidence() }
    }

    /// Returns true if the search found something, by [`is_confident`].
    pub fn is_confident(&self, threshold: Option<f32>) -> Option<bool> {
        is_confident(self.confidence(), &self.evidence, threshold)
    }

    /// The terms of the query for showing matches; of an issue those that were looked up, because there may be thousands.
    pub fn terms_to_show(&self, query: &str) -> Vec<String> {
        match &self.of_issue {
            Some(_) => self.signals.terms.iter().take(MAX_SHOWN).cloned().collect(),
            None => query_terms(self.asked.as_deref().unwrap_or(query)),
        }
    }

    /// The words of the query that occur in the index, in its order, if at least one other does not; stop words do not
    /// count, and neither does a query that is an issue or in another language.
    pub fn only_known_words<'q>(&self, query: &'q str) -> Option<Vec<&'q str>> {
        let is_known = &self.signals.lexical.is_known;
        if self.of_issue.is_some() || self.asked.is_some() || is_known.iter().all(|known| *known) {
            return None;
        }
        let known_terms = self.signals.terms.iter().zip(is_known).filter(|(_, known)| **known);
        let known_terms: HashSet<&String> = known_terms.map(|(term, _)| term).collect();
        let words = query.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
        let is_known = |word: &&str| query_terms(word).iter().any(|term| known_terms.contains(term));
        Some(words.filter(is_known).collect())
    }

    /// Returns true if a re-ranker ordered them.
    pub fn is_reranked(&self) -> bool {
        self.is_reranked
    }

    /// The numbers of the units, best first.
    pub fn units(&self) -> impl Iterator<Item = usize> {
        self.candidates.iter().map(|candidate| candidate.unit)
    }
}

/// An issue as it was recognized.
pub(crate) struct RankedIssue {
    pub features: HashMap<usize, IssueFeatures>,
    /// The number of its parts of each kind.
    pub parts: Vec<(&'static str, usize)>,
    /// The probability that it is a report rather than a description.
    pub report_probability: f32,
    /// Weight of the score as an ordinary query, 0 to 1.
    pub query_share: f32,
}

/// A unit that may be a result.
pub(crate) struct Candidate {
    pub unit: usize,
    pub score: f32,
    pub parts: ScoreParts,
    /// All 0 until they are computed.
    pub features: UnitFeatures,
}

/// The scores of a query for every unit and file that passes the filter; 0 for the others.
pub(crate) struct Signals {
    pub reading: QueryReading,
    pub terms: Vec<String>,
    /// BM25F of units and of files.
    pub lexical: Scores,
    /// Cosine of each unit.
    pub dense: Vec<f32>,
    /// The best cosine of each file.
    pub dense_of_files: Vec<f32>,
    /// Meanings of the words of the query.
    pub meanings: Vec<Meaning>,
    /// Cosine of each unit with the query and its meanings; `None` without any.
    pub by_meaning: Option<Vec<f32>>,
    /// Similarity of units to the query word by word, without and with its meanings, as far as it was computed
    /// ([`QueryTokens::similarities_by_meaning`](quarry_embed::QueryTokens::similarities_by_meaning)).
    pub word_similarities: HashMap<usize, [f32; 2]>,
    /// Weight of the cosine in a score.
    pub dense_weight: f32,
    /// The units with the best `words`, unordered.
    pub candidates: Vec<usize>,
    /// The words' score of each candidate and its file.
    pub words: Vec<f32>,
    /// The best of `words`.
    pub best: f32,
    /// True if the query asks for tests: then other code is demoted as tests usually are.
    pub asks_for_tests: bool,
}

impl Signals {
    /// The query as it was interpreted, with the weights of its terms.
    pub fn query(&self) -> Query<'_> {
        Query { text: &self.reading.text, terms: &self.terms, weights: &self.lexical.idf }
    }
}
