//! The options of the command line as parameters.

use quarry_index::{Filter, NamedRanking, RANKINGS, RankingWeights};
use quarry_session::settings::SearchDefaults;
use quarry_session::{DisplayOptions, Excerpt, KINDS, UnitsRequest};
use quarry_source::UnitKind;
use quarry_walk::FileFlags;

use crate::params::Params;
use crate::problem::Problem;
use crate::trees::Trees;

/// The most results of one answer.
pub(crate) const MAX_RESULTS: usize = 200;
/// The longest query in an address, in characters.
pub(crate) const MAX_QUERY_CHARS: usize = 1000;
/// The longest query in a body, in bytes.
pub(crate) const MAX_TEXT_BYTES: usize = 64 << 10;
/// The most lines of one result, and around it.
const MAX_LINES: usize = 2000;

/// Parameters that narrow and present results, of all requests that have results.
pub(crate) const COMMON: [&str; 13] = [
    "lang",
    "glob",
    "kind",
    "dir",
    "tree",
    "no-generated",
    "no-vendored",
    "k",
    "lines",
    "context",
    "explain",
    "threshold",
    "ranking",
];

/// Number of results, and filters of units.
pub(crate) struct Question {
    pub filter: Filter,
    pub directory: String,
    pub limit: usize,
    pub threshold: Option<f32>,
    pub explain: bool,
    pub ranking: RankingWeights,
    pub shown: DisplayOptions,
}

impl Question {
    pub(crate) fn read(params: &Params, trees: &Trees) -> Result<Self, Problem> {
        let SearchDefaults { limit, threshold, lines, context, .. } = trees.defaults;
        let limit = params.number("k")?.unwrap_or(limit);
        if !(1..=MAX_RESULTS).contains(&limit) {
            return Err(Problem::bad_request(format!("k: expected 1 to {MAX_RESULTS}, found {limit}")));
        }
        // In 64 bits, so that what is hardly above 1 is not rounded to it.
        let threshold = params.number("threshold")?.or(threshold.map(f64::from));
        if let Some(threshold) = threshold.filter(|threshold| !(0.0..=1.0).contains(threshold)) {
            return Err(Problem::bad_request(format!("threshold: expected 0 to 1, found {threshold}")));
        }
        let lines = params.number("lines")?.unwrap_or(lines).min(MAX_LINES);
        let context = params.number("context")?.unwrap_or(context).min(MAX_LINES);
        let excerpt = if lines == 0 { Excerpt::All } else { Excerpt::Best(lines) };
        let directory = params.get("dir").unwrap_or_default().trim().trim_matches('/');
        let directory =
            if directory == "." { "" } else { directory.strip_prefix("./").unwrap_or(directory) }.to_owned();
        Ok(Self {
            filter: filter(params, trees, &directory)?,
            directory,
            limit,
            threshold: threshold.map(|threshold| threshold as f32),
            explain: params.is_on("explain")?,
            ranking: ranking(params, trees)?,
            shown: DisplayOptions { units: true, excerpt, context: (context, context) },
        })
    }

    /// The request, for searched paths with these names.
    pub(crate) fn request<'a>(&'a self, trees: &'a [String]) -> UnitsRequest<'a> {
        let Self { filter, limit, threshold, explain, ranking, .. } = self;
        let (limit, threshold, explain) = (*limit, *threshold, *explain);
        UnitsRequest { filter: Some(filter), limit, threshold, explain, trees, ..UnitsRequest::new(ranking) }
    }
}

fn ranking(params: &Params, trees: &Trees) -> Result<RankingWeights, Problem> {
    let Some(name) = params.get("ranking") else { return Ok(trees.defaults.ranking.clone()) };
    NamedRanking::find(name).map(NamedRanking::weights).ok_or_else(|| {
        let names = RANKINGS.map(|ranking| ranking.name).join(", ");
        Problem::bad_request(format!("ranking: expected one of {names}, found {name:?}"))
    })
}

fn filter(params: &Params, trees: &Trees, directory: &str) -> Result<Filter, Problem> {
    let kind = |name: &String| {
        let known = KINDS.iter().find(|(known, _)| known == name);
        known.map(|(_, kind)| *kind).ok_or_else(|| {
            let names = KINDS.map(|(name, _)| name).join(", ");
            Problem::bad_request(format!("kind: expected one of {names}, found {name:?}"))
        })
    };
    let kinds: Vec<UnitKind> = params.all("kind").iter().map(kind).collect::<Result<_, _>>()?;
    let numbers = params.all("tree").iter().map(|name| trees.number(name)).collect::<Result<_, _>>()?;
    let mut without = FileFlags::empty();
    without.set(FileFlags::GENERATED, params.is_on("no-generated")?);
    without.set(FileFlags::VENDORED, params.is_on("no-vendored")?);
    let filter = Filter::new(&params.all("lang"), &kinds, &params.all("glob"))?;
    Ok(filter.without(without).in_roots(numbers).below(directory))
}

/// The query, however long.
pub(crate) fn text(params: &Params) -> Result<&str, Problem> {
    params.get("q").ok_or_else(|| {
        Problem::bad_request("q: expected what the code does in plain words, or the name of a symbol")
    })
}

/// A query that is short enough for an address.
pub(crate) fn query(params: &Params) -> Result<&str, Problem> {
    let query = text(params)?;
    let n = query.chars().count();
    if n > MAX_QUERY_CHARS {
        return Err(Problem::bad_request(format!(
            "q: {n} characters, at most {MAX_QUERY_CHARS} are accepted; describe the code in a few words, or send the \
             text to /api/v1/search by POST"
        )));
    }
    Ok(query)
}

pub(crate) struct Position {
    pub root: usize,
    pub path: String,
    pub line: u32,
}

impl Position {
    pub(crate) fn read(params: &Params, trees: &Trees) -> Result<Self, Problem> {
        let root = params.get("tree").map_or(Ok(0), |name| trees.number(name))?;
        let missing =
            || Problem::bad_request("path and line: expected a file of the tree and a line in it, from 1");
        let path = params.get("path").ok_or_else(missing)?.to_owned();
        let line = params.number("line")?.ok_or_else(missing)?;
        Ok(Self { root, path, line })
    }
}
