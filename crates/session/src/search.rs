//! From a query, or from a unit, to an answer: the same for the command line, HTTP and agents.
//!
//! [`search()`] and [`similar`] rank the units of an index. They return [`SearchResults`], which makes the object of
//! `--json` ([`SearchResults::answer`]), one with a limited length ([`SearchResults::fitted`]), or the lines of one hit
//! ([`SearchResults::unit_lines`]).

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use quarry_index::{
    Error, Explanation, Filter, Hit, Index, RankedUnits, RankingWeights, SearchRequest, UnitSource, snippet,
};
use quarry_text::{counted, query_terms};
use serde::Serialize;

use crate::exact::{self, Matching};
use crate::query::{Expression, Query};
use crate::reasons::reasons;
use crate::results::Extras;
use crate::{
    Answer, BehindView, Block, DisplayOptions, Excerpt, Facets, LineMatch, ResultView, Tree, milliseconds,
    roots,
};

/// Number of units that are ranked for each file when results are files.
const UNITS_PER_FILE: usize = 20;

/// Maximum number of units ranked by the words beside an expression.
const MAX_RANKED: usize = 10_000;

/// Minimum cosine of similar code. In examples, units about another subject had at most 0.34 and those about the same one at
/// least 0.42.
const MIN_SIMILARITY: f32 = 0.4;

/// The question of a `search`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchQuestion {
    /// The query.
    pub query: String,
    /// Regular expressions that lines had to match, those of the query too.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub patterns: Vec<String>,
    #[serde(skip)]
    asked: Query,
}

impl From<Query> for SearchQuestion {
    fn from(asked: Query) -> Self {
        Self { query: asked.text.clone(), patterns: asked.patterns.clone(), asked }
    }
}

/// The question of a `similar`.
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
    /// Filter of the units that may be found; without one, all units in the index's scope.
    pub filter: Option<&'a Filter>,
    /// Maximum number of results.
    pub limit: usize,
    /// Maximum number of results that are not ranked, if it differs from `limit`.
    pub unranked_limit: Option<usize>,
    /// Minimum confidence; without one, that of [`quarry_index::confidence::is_confident`].
    pub threshold: Option<f32>,
    /// True to explain the scores.
    pub explain: bool,
    /// Weights of the ranking of [`search`].
    pub ranking: &'a RankingWeights,
    /// True if results are files, each with the first of its units, instead of units.
    pub per_file: bool,
    /// The names of the searched paths, by their numbers.
    pub trees: &'a [String],
}

/// Results of [`search`] or [`similar`].
pub struct SearchResults<Q> {
    /// The units, best first, at most as many as the limit.
    pub hits: Vec<Hit>,
    /// True if the confidence reaches the threshold; `None` for a long text searched by words alone without a given
    /// threshold.
    pub confident: Option<bool>,
    /// Confidence that a hit answers, 0 to 1.
    pub confidence: f32,
    /// The quality that ranked the hits of a query: `best` if a re-ranker did, else `fast`.
    pub quality: Option<&'static str>,
    /// The query as it was interpreted, if that differs from the text.
    pub read_as: Option<String>,
    /// The terms by which lines are chosen.
    pub terms: Vec<String>,
    /// Notes on the answer.
    pub notes: Vec<String>,
    question: Q,
    ranked: Option<RankedUnits>,
    /// The text by which these were ranked.
    ranked_text: String,
    expressions: Vec<Expression>,
    /// The lines of each hit that match; empty without expressions.
    matches: Vec<Vec<LineMatch>>,
    /// Hits beyond the limit, if all are known without ranking.
    further: Vec<Hit>,
    /// Explanation of each hit, or empty.
    explanations: Vec<Explanation>,
    start: Instant,
}

/// Expressions and terms that mark the parts of a line that matched.
#[derive(Debug, Clone, Default)]
pub struct Marks {
    expressions: Vec<Expression>,
    terms: Vec<String>,
}

impl Marks {
    /// The marks of a query whose words have these terms.
    pub fn from_query(query: &Query, terms: Vec<String>) -> Self {
        Self { expressions: query.expressions.clone(), terms }
    }

    /// The parts of a line that matched an expression; without expressions, those with a term.
    pub fn ranges(&self, line: &str) -> Vec<Range<usize>> {
        match self.expressions.as_slice() {
            [] => snippet::matches(line, &self.terms),
            expressions => exact::ranges(expressions, line),
        }
    }
}

/// Finds the units that answer `question`. With expressions, only units and parts of files with matching lines are
/// results: first those that the words rank, in that order, then the rest in the order of paths and lines. Without
/// words nothing is ranked.
///
/// If the text may be a pasted message with quotes and slashes, it is searched for as words when no line matches, or
/// when a unit prints it.
///
/// # Errors
/// When there is nothing to search for, the model fails, a filter is malformed, or the index cannot be read.
pub fn search(
    index: &Index,
    question: impl Into<SearchQuestion>,
    request: &UnitsRequest,
) -> Result<SearchResults<SearchQuestion>, Error> {
    let start = Instant::now();
    let question: SearchQuestion = question.into();
    let asked = &question.asked;
    let filter = asked.narrow(request.filter.cloned().unwrap_or_default(), request.trees)?;
    let rank = |query: &str, limit: usize| {
        let ranking = request.ranking.clone();
        index.rank(&SearchRequest { query, limit, ranking, filter: &filter })
    };
    let mut notes = asked.hints.clone();
    let mut matching = if asked.is_exact() {
        Some(exact::find(index, &filter, &asked.expressions)?)
    } else if asked.only_filters() {
        let hits = index.units(&filter).map(|hit| (hit, Vec::new())).collect();
        Some(Matching { hits, notes: Vec::new() })
    } else {
        None
    };
    let mut plain = None;
    if let Some(found) = matching.as_ref().filter(|_| asked.may_be_plain()) {
        let nothing = found.hits.is_empty();
        // A text without a word cannot be ranked.
        let ranked = rank(&asked.text, request.n_units()).ok();
        let is_printed =
            |ranked: &RankedUnits| index.ranked_hit(ranked, 0).is_some_and(|hit| hit.parts.message > 0.0);
        plain = ranked.filter(|ranked| nothing || asked.is_ranked() && is_printed(ranked));
        if plain.is_some() {
            let why = if nothing { "no line matches it exactly" } else { "it is the text of a message" };
            notes.push(format!("all of the query is searched for as words, since {why}"));
            matching = None;
        }
    }
    let is_plain = plain.is_some();
    let ranked = match plain {
        Some(ranked) => Some(ranked),
        None if matching.is_some() && !asked.is_ranked() => None,
        None => {
            // With an expression any unit may be among the results.
            let n_units =
                if matching.is_some() { MAX_RANKED.min(index.n_units()) } else { request.n_units() };
            Some(rank(&asked.words, n_units)?)
        }
    };
    // An expression either matches or does not; the words beside it only rank, unless a threshold for them is given.
    let confident = match &ranked {
        Some(ranked) if matching.is_none() || request.threshold.is_some() => {
            ranked.is_confident(request.threshold)
        }
        _ => Some(true),
    };
    let is_exact = matching.is_some() && asked.is_exact();
    let (hits, matches, further, read_as) = match (&ranked, matching) {
        (ranked, Some(matching)) => {
            notes.extend(matching.notes);
            let all = in_order(index, ranked.as_ref(), matching.hits);
            let mut all = request.first_of_files(all);
            let limit = request.unranked_limit.filter(|_| ranked.is_none()).unwrap_or(request.limit);
            let further = all.split_off(limit.min(all.len()));
            let (hits, matches) = all.into_iter().unzip();
            (hits, matches, further.into_iter().map(|(hit, _)| hit).collect(), None)
        }
        (Some(ranked), None) => {
            let response = index.response(ranked, request.n_units());
            (request.results(response.hits.into_iter()), Vec::new(), Vec::new(), response.read_as)
        }
        (None, None) => (Vec::new(), Vec::new(), Vec::new(), None),
    };
    if !further.is_empty() {
        notes.push(format!("{} beyond the limit of {}", counted(further.len(), "result"), hits.len()));
    }
    let text = if is_plain { &asked.text } else { &asked.words };
    if confident == Some(false) && !hits.is_empty() {
        let words = ranked.as_ref().and_then(|ranked| ranked.only_known_words(text));
        notes.extend(
            words.filter(|words| !words.is_empty()).map(|words| {
                format!("the query shares only these words with the index: {}", words.join(", "))
            }),
        );
    }
    let explanations = match &ranked {
        Some(ranked) if request.explain => index.explain(ranked, &hits)?,
        _ => Vec::new(),
    };
    Ok(SearchResults {
        hits,
        confident,
        confidence: ranked.as_ref().map_or(0.0, RankedUnits::confidence),
        quality: ranked.as_ref().map(|ranked| if ranked.is_reranked() { "best" } else { "fast" }),
        read_as,
        terms: ranked.as_ref().map_or_else(|| query_terms(text), |ranked| ranked.terms_to_show(text)),
        notes,
        expressions: if is_exact { asked.expressions.clone() } else { Vec::new() },
        ranked_text: text.clone(),
        question,
        ranked,
        matches,
        further,
        explanations,
        start,
    })
}

/// Ranks the units most similar to `given`, which is left out.
///
/// # Errors
/// When `given` has no word, or the index cannot be read.
pub fn similar(
    index: &Index,
    given: &Hit,
    request: &UnitsRequest,
) -> Result<SearchResults<SimilarQuestion>, Error> {
    let start = Instant::now();
    let all = Filter::default();
    let response = index.similar_to(given, request.n_units(), request.filter.unwrap_or(&all))?;
    let confidence = response.confidence;
    let least = request.threshold.unwrap_or(MIN_SIMILARITY);
    let is_confident = confidence >= least;
    // If nothing is similar enough, the closest are shown.
    let is_similar = |hit: &Hit| !is_confident || hit.parts.dense >= least;
    let hits = request.results(response.hits.into_iter().filter(is_similar));
    let explain = |hit: &Hit| Explanation::leaf("cosine", hit.score);
    let explanations = if request.explain { hits.iter().map(explain).collect() } else { Vec::new() };
    let similar_to = SimilarTo {
        path: given.path.clone(),
        start_line: given.start_line,
        end_line: given.end_line,
        name: given.name.clone(),
    };
    Ok(SearchResults {
        hits,
        confident: Some(is_confident),
        confidence,
        quality: None,
        read_as: None,
        terms: Vec::new(),
        notes: Vec::new(),
        question: SimilarQuestion { similar_to },
        ranked: None,
        ranked_text: String::new(),
        expressions: Vec::new(),
        matches: Vec::new(),
        further: Vec::new(),
        explanations,
        start,
    })
}

impl<'a> UnitsRequest<'a> {
    /// Any units, ranked with these weights, for the default threshold.
    pub fn new(ranking: &'a RankingWeights) -> Self {
        Self {
            filter: None,
            limit: usize::MAX,
            unranked_limit: None,
            threshold: None,
            explain: false,
            ranking,
            per_file: false,
            trees: &[],
        }
    }

    /// Number of units to rank, so that there are enough results.
    fn n_units(&self) -> usize {
        if self.per_file { self.limit.saturating_mul(UNITS_PER_FILE) } else { self.limit }
    }

    /// The first hits; if results are files, the first of each.
    fn results(&self, hits: impl Iterator<Item = Hit>) -> Vec<Hit> {
        let all = self.first_of_files(hits.map(|hit| (hit, ())).collect());
        all.into_iter().map(|(hit, ())| hit).take(self.limit).collect()
    }

    /// All hits; if results are files, the first of each.
    fn first_of_files<T>(&self, mut hits: Vec<(Hit, T)>) -> Vec<(Hit, T)> {
        if self.per_file {
            let mut seen = HashSet::new();
            hits.retain(|(hit, _)| seen.insert((hit.root, hit.path.clone())));
        }
        hits
    }
}

/// The hits that were ranked, in this order, and then the others, in theirs.
fn in_order(
    index: &Index,
    ranked: Option<&RankedUnits>,
    hits: Vec<(Hit, Vec<LineMatch>)>,
) -> Vec<(Hit, Vec<LineMatch>)> {
    let Some(ranked) = ranked else { return hits };
    let positions: HashMap<usize, usize> =
        ranked.units().enumerate().map(|(position, unit)| (unit, position)).collect();
    let mut placed: Vec<(usize, (Hit, Vec<LineMatch>))> = hits
        .into_iter()
        .map(|(hit, matches)| match positions.get(&hit.unit) {
            Some(&position) => {
                let hit = index.ranked_hit(ranked, position).unwrap_or(hit);
                (position, (hit, matches))
            }
            None => (usize::MAX, (hit, matches)),
        })
        .collect();
    placed.sort_by_key(|(position, _)| *position);
    placed.into_iter().map(|(_, found)| found).collect()
}

impl<Q> SearchResults<Q> {
    /// The facets of the results if there were no maximum, below `directory`, to which the search was narrowed.
    pub fn facets(&self, tree: &Tree, directory: &str) -> Facets {
        let units: Vec<Hit> = match &self.ranked {
            Some(ranked) if self.expressions.is_empty() => {
                ranked.units().map(|unit| tree.index.unit(unit)).collect()
            }
            _ => self.hits.iter().chain(&self.further).cloned().collect(),
        };
        Facets::new(&units, directory)
    }

    /// The marks of the parts of a line that matched.
    pub fn marks(&self) -> Marks {
        Marks { expressions: self.expressions.clone(), terms: self.terms.clone() }
    }

    /// The object of `--json`. `tree` has the index that was searched, and `open_time` is the time of opening it.
    ///
    /// # Errors
    /// When a file of the index was overwritten since it was opened.
    pub fn answer(
        self,
        tree: &Tree,
        shown: &DisplayOptions,
        open_time: Duration,
    ) -> Result<Answer<Q>, Error> {
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
        shown: &DisplayOptions,
        max_bytes: usize,
        open_time: Duration,
    ) -> Result<(Answer<Q>, usize), Error> {
        let Self { hits, terms, notes, mut matches, explanations, .. } = self;
        let (mut left, mut without_lines) = (max_bytes, 0);
        let mut explanations = explanations.into_iter().skip(positions.start);
        let ranked = (1..).zip(hits).skip(positions.start).take(positions.len());
        let view = |(rank, hit): (usize, Hit)| {
            let mut explanation = explanations.next();
            let reasons = match &explanation {
                Some(_) if self.ranked.is_some() && hit.unit != Hit::NO_UNIT => {
                    reasons(tree, &hit, &self.ranked_text, &terms)
                }
                _ => Vec::new(),
            };
            if without_lines == 0 {
                let matches = matches.get_mut(rank - 1).map(std::mem::take).unwrap_or_default();
                let extras = Extras { matches, reasons: reasons.clone(), explanation: explanation.take() };
                let result = ResultView::new(tree, (hit.clone(), rank), &terms, extras, shown);
                if let Some(rest) = left.checked_sub(n_bytes(&result)) {
                    left = rest;
                    return result;
                }
                explanation = result.unit.and_then(|unit| unit.explanation);
            }
            without_lines += 1;
            let extras = Extras { reasons, explanation, ..Extras::default() };
            let no_lines = DisplayOptions { excerpt: Excerpt::Best(0), context: (0, 0), ..*shown };
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
            quality: self.quality,
            notes,
            behind: BehindView::for_tree(tree),
            took_ms: milliseconds(self.start.elapsed()),
            open_ms: milliseconds(open_time),
        };
        tree.index.check_intact()?;
        Ok((answer, without_lines))
    }

    /// The most relevant lines of the hit at a position, at most `max_lines`, with their 1-based numbers in the file: the
    /// first one from where the unit begins, or with expressions those that match. On request, the declaration is left out.
    /// None if the file has been removed since the index was opened.
    pub fn unit_lines(
        &self,
        index: &Index,
        position: usize,
        max_lines: usize,
        is_beside_declaration: bool,
    ) -> Vec<(u32, String)> {
        if let Some(matches) = self.matches.get(position).filter(|matches| !matches.is_empty()) {
            return matches.iter().take(max_lines).map(|line| (line.line, line.text.clone())).collect();
        }
        let Some(hit) = self.hits.get(position) else { return Vec::new() };
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
pub fn n_bytes(result: &ResultView) -> usize {
    let blocks = result.unit.iter().flat_map(|unit| &unit.blocks);
    blocks.flat_map(|block: &Block| &block.lines).map(|(_, line)| line.len() + 1).sum()
}
