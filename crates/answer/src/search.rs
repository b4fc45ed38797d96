//! Questions, and code similar to other code.

use std::time::{Duration, Instant};

use quarry_index::{Error, Explanation, Filter, Hit, RankedUnits, RankingWeights, SearchRequest};
use serde::Serialize;

use crate::{Answer, Extras, Facets, ResultView, Shown, Tree, milliseconds, roots};

/// What `search` was asked.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchQuestion {
    /// The query.
    pub query: String,
    /// Regular expressions that lines were to match.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub patterns: Vec<String>,
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// What [`search`] and [`similar`] are asked for.
#[derive(Debug, Clone, Copy)]
pub struct UnitsRequest<'a> {
    /// Which units may be found.
    pub filter: &'a Filter,
    /// Maximum number of results.
    pub limit: usize,
    /// Minimum confidence; without one, that of [`quarry_index::confidence::is_confident`].
    pub threshold: Option<f32>,
    /// Whether to explain the scores.
    pub explain: bool,
    /// How [`search`] ranks.
    pub ranking: &'a RankingWeights,
    /// What is shown of the results.
    pub shown: &'a Shown,
}

/// What a search found.
pub struct Found {
    /// The object of `search --json`.
    pub answer: Answer<SearchQuestion>,
    /// The units behind its results.
    pub hits: Vec<Hit>,
    /// The query as it was interpreted, if that differs from the text.
    pub read_as: Option<String>,
    ranked: RankedUnits,
}

impl Found {
    /// How the results would be spread if there were no maximum, below `directory`, which the search was narrowed to.
    #[must_use]
    pub fn facets(&self, tree: &Tree, directory: &str) -> Facets {
        let units: Vec<Hit> = self.ranked.units().map(|unit| tree.index.unit(unit)).collect();
        Facets::of(&units, directory)
    }
}

/// The units that answer a query.
///
/// # Errors
/// When the query has no word, the model fails, or the index cannot be read.
pub fn search(tree: &Tree, query: &str, request: &UnitsRequest) -> Result<Found, Error> {
    let start = Instant::now();
    let UnitsRequest { filter, limit, .. } = *request;
    let ranking = request.ranking.clone();
    let ranked = tree.index.rank(&SearchRequest { query, limit, ranking, filter })?;
    let response = tree.index.response(&ranked, limit);
    let (confident, confidence) = (response.is_confident(request.threshold), response.confidence);
    let hits = response.hits;
    let mut explanations =
        if request.explain { tree.index.explain(&ranked, &hits)? } else { Vec::new() }.into_iter();
    let terms = ranked.terms_to_show(query);
    let results = hits.iter().cloned().zip(1..).map(|ranked| {
        let extras = Extras { explanation: explanations.next(), ..Extras::default() };
        ResultView::new(tree, ranked, &terms, extras, request.shown)
    });
    let results: Vec<ResultView> = results.collect();
    let (root, roots) = roots(tree, tree.n_paths());
    let answer = Answer {
        question: SearchQuestion { query: query.to_owned(), patterns: Vec::new() },
        root,
        roots,
        results,
        confident,
        confidence,
        took_ms: milliseconds(start.elapsed()),
        open_ms: 0.0,
    };
    tree.index.check_intact()?;
    Ok(Found { answer, hits, read_as: response.read_as, ranked })
}

/// The units most like `given`. `select` chooses from all hits those that are shown.
///
/// # Errors
/// When the index cannot be read.
pub fn similar(
    tree: &Tree,
    given: &Hit,
    request: &UnitsRequest,
    open_time: Duration,
    select: impl FnOnce(Vec<Hit>) -> Vec<Hit>,
) -> Result<Answer<SimilarQuestion>, Error> {
    let start = Instant::now();
    let response = tree.index.similar_to(given, request.limit, request.filter)?;
    let view = |ranked: (Hit, usize)| {
        let explanation = request.explain.then(|| Explanation::leaf("cosine", ranked.0.score));
        let extras = Extras { explanation, ..Extras::default() };
        ResultView::new(tree, ranked, &[], extras, request.shown)
    };
    let confident = response.is_confident(request.threshold);
    let results: Vec<ResultView> = select(response.hits).into_iter().zip(1..).map(view).collect();
    let (root, roots) = roots(tree, tree.n_paths());
    tree.index.check_intact()?;
    Ok(Answer {
        question: SimilarQuestion {
            similar_to: SimilarTo {
                path: given.path.clone(),
                start_line: given.start_line,
                end_line: given.end_line,
                name: given.name.clone(),
            },
        },
        root,
        roots,
        results,
        confident,
        confidence: response.confidence,
        took_ms: milliseconds(start.elapsed()),
        open_ms: milliseconds(open_time),
    })
}
