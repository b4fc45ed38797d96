//! From a query, or from a unit, to an answer: the same for the command line, HTTP and agents.
//!
//! [`search`] and [`similar`] rank the units of an index. They return [`Found`], which makes the object of `--json`
//! ([`Found::answer`]), one with a limited length ([`Found::fitted`]), or the lines of one hit ([`Found::unit_lines`]).

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use quarry_index::{
    Error, Explanation, Filter, Hit, Index, RankedUnits, RankingWeights, SearchRequest, UnitSource, snippet,
};
use quarry_text::query_terms;
use serde::Serialize;

use crate::results::Extras;
use crate::{Answer, Block, Excerpt, Facets, LineMatch, ResultView, Shown, Tree, milliseconds, roots};

/// Number of units that are ranked for each file when results are files.
const UNITS_PER_FILE: usize = 20;

/// What `search` was asked.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchQuestion {
    /// The query.
    pub query: String,
    /// Regular expressions that lines had to match.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub patterns: Vec<String>,
}

impl SearchQuestion {
    /// A query alone.
    #[must_use]
    pub fn of(query: &str) -> Self {
        Self { query: query.to_owned(), patterns: Vec::new() }
    }
}

/// What `similar` was asked.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimilarQuestion {
    /// The unit that others were compared with.
    pub similar_to: SimilarTo,
}

/// The unit that others are compared with.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SimilarUnit"))]
pub struct SimilarTo {
    /// Its file.
    pub path: String,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
    /// Qualified name within the file.
    pub name: String,
}

/// The request to [`search`] and [`similar`].
#[derive(Debug, Clone, Copy)]
pub struct UnitsRequest<'a> {
    /// Which units may be found; without one, all units in the index's scope.
    pub filter: Option<&'a Filter>,
    /// Maximum number of results.
    pub limit: usize,
    /// Minimum confidence; without one, that of [`quarry_index::confidence::is_confident`].
    pub threshold: Option<f32>,
    /// Whether to explain the scores.
    pub explain: bool,
    /// How [`search`] ranks.
    pub ranking: &'a RankingWeights,
    /// Whether results are files, each with the first of its units, instead of units.
    pub per_file: bool,
}

/// Units (by their numbers) with lines that match an expression, in the order of paths and lines.
pub type Matching = Vec<(usize, Vec<LineMatch>)>;

/// What [`search`] or [`similar`] found.
pub struct Found<Q> {
    /// The units, best first, at most as many as the limit.
    pub hits: Vec<Hit>,
    /// Whether the confidence reaches the threshold; `None` for a long text without a given threshold.
    pub confident: Option<bool>,
    /// Confidence that a hit answers, 0 to 1.
    pub confidence: f32,
    /// The query as it was interpreted, if that differs from the text.
    pub read_as: Option<String>,
    /// The terms by which lines are chosen.
    pub terms: Vec<String>,
    question: Q,
    ranked: Option<RankedUnits>,
    matches: HashMap<usize, Vec<LineMatch>>,
    /// Of each hit, or empty.
    explanations: Vec<Explanation>,
    start: Instant,
}

/// Ranks the units that answer `question`. With `matching`, only these units are results: in the order of the ranking,
/// and then those that were not ranked, in the order of `matching`. With `matching` and an empty query, nothing is ranked.
///
/// # Errors
/// When the query has no word, the model fails, or the index cannot be read.
pub fn search(
    index: &Index,
    question: SearchQuestion,
    matching: Option<Matching>,
    request: &UnitsRequest,
) -> Result<Found<SearchQuestion>, Error> {
    let start = Instant::now();
    let query = question.query.as_str();
    // With an expression any unit may be among the results.
    let n_units = if matching.is_some() { index.n_units() } else { request.n_units() };
    let ranked = if matching.is_some() && query.is_empty() {
        None
    } else {
        let ranking = request.ranking.clone();
        let all = Filter::default();
        let filter = request.filter.unwrap_or(&all);
        Some(index.rank(&SearchRequest { query, limit: n_units, ranking, filter })?)
    };
    let (hits, matches, read_as) = match (&ranked, matching) {
        (ranked, Some(matching)) => {
            let hits = request.results(matching_hits(index, ranked.as_ref(), &matching));
            (hits, matching.into_iter().collect(), None)
        }
        (Some(ranked), None) => {
            let response = index.response(ranked, n_units);
            (request.results(response.hits.into_iter()), HashMap::new(), response.read_as)
        }
        (None, None) => (Vec::new(), HashMap::new(), None),
    };
    let explanations = match &ranked {
        Some(ranked) if request.explain => index.explain(ranked, &hits)?,
        _ => Vec::new(),
    };
    Ok(Found {
        hits,
        // An expression alone is met or not.
        confident: ranked.as_ref().map_or(Some(true), |ranked| ranked.is_confident(request.threshold)),
        confidence: ranked.as_ref().map_or(0.0, RankedUnits::confidence),
        read_as,
        terms: ranked.as_ref().map_or_else(|| query_terms(query), |ranked| ranked.terms_to_show(query)),
        question,
        ranked,
        matches,
        explanations,
        start,
    })
}

/// Ranks the units most similar to `given`, which is left out.
///
/// # Errors
/// When `given` has no word, or the index cannot be read.
pub fn similar(index: &Index, given: &Hit, request: &UnitsRequest) -> Result<Found<SimilarQuestion>, Error> {
    let start = Instant::now();
    let all = Filter::default();
    let response = index.similar_to(given, request.n_units(), request.filter.unwrap_or(&all))?;
    let (confident, confidence) = (response.is_confident(request.threshold), response.confidence);
    let hits = request.results(response.hits.into_iter());
    let explain = |hit: &Hit| Explanation::leaf("cosine", hit.score);
    let explanations = if request.explain { hits.iter().map(explain).collect() } else { Vec::new() };
    let similar_to = SimilarTo {
        path: given.path.clone(),
        start_line: given.start_line,
        end_line: given.end_line,
        name: given.name.clone(),
    };
    Ok(Found {
        hits,
        confident,
        confidence,
        read_as: None,
        terms: Vec::new(),
        question: SimilarQuestion { similar_to },
        ranked: None,
        matches: HashMap::new(),
        explanations,
        start,
    })
}

impl<'a> UnitsRequest<'a> {
    /// Any units, ranked with these weights, for the default threshold.
    #[must_use]
    pub fn new(ranking: &'a RankingWeights) -> Self {
        Self { filter: None, limit: usize::MAX, threshold: None, explain: false, ranking, per_file: false }
    }

    /// Number of units to rank, so that there are enough results.
    fn n_units(&self) -> usize {
        if self.per_file { self.limit.saturating_mul(UNITS_PER_FILE) } else { self.limit }
    }

    /// The first hits; if results are files, the first of each.
    fn results(&self, hits: impl Iterator<Item = Hit>) -> Vec<Hit> {
        let mut seen = HashSet::new();
        let is_first = |hit: &Hit| !self.per_file || seen.insert((hit.root, hit.path.clone()));
        hits.filter(is_first).take(self.limit).collect()
    }
}

/// The units with matching lines: those that were ranked, in this order, and then the others, in the order of `matching`.
fn matching_hits<'a>(
    index: &'a Index,
    ranked: Option<&'a RankedUnits>,
    matching: &'a [(usize, Vec<LineMatch>)],
) -> impl Iterator<Item = Hit> {
    let wanted: HashSet<usize> = matching.iter().map(|(unit, _)| *unit).collect();
    let positions = ranked.into_iter().flat_map(RankedUnits::units).enumerate();
    let positions: Vec<(usize, usize)> = positions.filter(|(_, unit)| wanted.contains(unit)).collect();
    let seen: HashSet<usize> = positions.iter().map(|(_, unit)| *unit).collect();
    let others = matching.iter().map(|(unit, _)| *unit).filter(move |unit| !seen.contains(unit));
    let first = positions.into_iter().filter_map(move |(position, _)| index.ranked_hit(ranked?, position));
    first.chain(others.map(|unit| index.unit(unit)))
}

impl<Q> Found<Q> {
    /// The facets of the results if there were no maximum, below `directory`, to which the search was narrowed.
    #[must_use]
    pub fn facets(&self, tree: &Tree, directory: &str) -> Facets {
        let units = self.ranked.iter().flat_map(RankedUnits::units);
        let units: Vec<Hit> = units.map(|unit| tree.index.unit(unit)).collect();
        Facets::of(&units, directory)
    }

    /// The object of `--json`. `tree` has the index that was searched, and `open_time` is the time of opening it.
    ///
    /// # Errors
    /// When a file of the index was overwritten since it was opened.
    pub fn answer(self, tree: &Tree, shown: &Shown, open_time: Duration) -> Result<Answer<Q>, Error> {
        let all = 0..self.hits.len();
        Ok(self.fitted(tree, all, shown, usize::MAX, open_time)?.0)
    }

    /// Like [`answer`](Self::answer), with the results at 0-based `positions` and at most `max_bytes` of source. Results
    /// whose lines do not fit, and all after them, have none; their number is returned.
    ///
    /// # Errors
    /// When a file of the index was overwritten since it was opened.
    pub fn fitted(
        self,
        tree: &Tree,
        positions: Range<usize>,
        shown: &Shown,
        max_bytes: usize,
        open_time: Duration,
    ) -> Result<(Answer<Q>, usize), Error> {
        let Self { hits, terms, mut matches, explanations, .. } = self;
        let (mut left, mut without_lines) = (max_bytes, 0);
        let mut explanations = explanations.into_iter().skip(positions.start);
        let ranked = (1..).zip(hits).skip(positions.start).take(positions.len());
        let view = |(rank, hit): (usize, Hit)| {
            let mut explanation = explanations.next();
            if without_lines == 0 {
                let matches = matches.remove(&hit.unit).unwrap_or_default();
                let extras = Extras { matches, explanation: explanation.take() };
                let result = ResultView::new(tree, (hit.clone(), rank), &terms, extras, shown);
                if let Some(rest) = left.checked_sub(n_bytes(&result)) {
                    left = rest;
                    return result;
                }
                explanation = result.unit.and_then(|unit| unit.explanation);
            }
            without_lines += 1;
            let extras = Extras { explanation, ..Extras::default() };
            let no_lines = Shown { excerpt: Excerpt::Best(0), context: (0, 0), ..*shown };
            ResultView::new(tree, (hit, rank), &terms, extras, &no_lines)
        };
        let results: Vec<ResultView> = ranked.map(view).collect();
        let (root, roots) = roots(tree, tree.n_paths());
        let answer = Answer {
            question: self.question,
            root,
            roots,
            results,
            confident: self.confident,
            confidence: self.confidence,
            took_ms: milliseconds(self.start.elapsed()),
            open_ms: milliseconds(open_time),
        };
        tree.index.check_intact()?;
        Ok((answer, without_lines))
    }

    /// The most relevant lines of a unit, at most `max_lines`, with their 1-based numbers in the file: the first one
    /// from where the unit begins. On request, the declaration is left out. None if the file has been removed since the
    /// index was opened.
    #[must_use]
    pub fn unit_lines(
        &self,
        index: &Index,
        hit: &Hit,
        max_lines: usize,
        is_beside_declaration: bool,
    ) -> Vec<(u32, String)> {
        let UnitSource { text, line_numbers } = index.source(hit).unwrap_or_default();
        let declared = match is_beside_declaration {
            true => snippet::declaration_lines(&text, &hit.signature),
            false => 0..0,
        };
        let Range { start, end } = snippet::best_lines_beside(&text, &declared, &self.terms, max_lines);
        let lines = line_numbers.into_iter().zip(text.lines().map(str::to_owned));
        lines.take(end).skip(start).collect()
    }
}

/// Bytes of source in a result: those of all blocks, although programs are sent only the first one.
#[must_use]
pub fn n_bytes(result: &ResultView) -> usize {
    let blocks = result.unit.iter().flat_map(|unit| &unit.blocks);
    blocks.flat_map(|block: &Block| &block.lines).map(|(_, line)| line.len() + 1).sum()
}
