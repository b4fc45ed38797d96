//! `quarry search`: finding code.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::bail;
use clap::Args;
use quarry_index::{Filter, Hit, Index, Ranking, SearchRequest, Update, snippet};
use quarry_text::{counted, query_terms};
use quarry_walk::{SkipReason, Skipped};
use regex::Regex;
use serde::Serialize;

use crate::index::SourceArgs;
use crate::lines::{self, LineMatch};
use crate::log::{self, Record};
use crate::output;
use crate::results::{self, Answer, Extras, FilterArgs, OutputArgs, ResultView, Words};
use crate::settings::Settings;
use crate::tree::Tree;

/// Arguments of `quarry search`.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// What to find: a description in plain words (in quotes), or a symbol. With -e it may be left out, and a single
    /// argument that names a file or folder is PATH
    #[arg(required_unless_present = "patterns")]
    query: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Show the lines that match this regular expression, all of them or the first -k functions; QUERY then only puts
    /// these in order (can be repeated)
    #[arg(short = 'e', long = "regex", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Upper and lower case are the same to -e
    #[arg(short = 'i', long, requires = "patterns")]
    ignore_case: bool,
    /// Search the index as it is, without looking for files that changed
    #[arg(long)]
    no_index_update: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Question<'a> {
    query: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    patterns: &'a [String],
}

/// Runs `quarry search`.
///
/// # Errors
/// When the tree cannot be indexed, the query has no word, or a filter or expression is malformed.
pub fn run(mut args: SearchArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = path_alone(&args) {
        (args.query, args.source.path) = (None, path);
    }
    if let Some(query) = args.query.as_deref().filter(|_| !args.source.path.exists()) {
        let path = args.source.path.display();
        bail!(
            "{path}: no such file or folder; check the path, or put what is a query into quotes: \"{query} {path}\""
        );
    }
    let start = Instant::now();
    let settings = Settings::load(&args.source.path)?;
    let layout = args.output.layout(&settings);
    let filter = args.filter.filter(&settings)?;
    let expression = match args.patterns.as_slice() {
        [] => None,
        patterns => Some(lines::expression(patterns, args.ignore_case)?),
    };
    let update = if args.no_index_update { Update::Never } else { Update::IfPossible };
    let tree = Tree::new(&args.source.path, args.source.open(&settings, update)?.index)?;
    let index = &tree.index;
    let opened = Instant::now();
    let query = args.query.as_deref().unwrap_or_default();
    let limit = layout.limit.unwrap_or_else(|| match (&expression, query) {
        (Some(_), "") => usize::MAX,
        _ => settings.get(|layer| layer.limit).unwrap_or_default(),
    });
    let mut found = match &expression {
        None => search(index, query, layout.n_units(limit), &filter)?,
        Some(expression) => search_lines(index, query, &filter, expression)?,
    };
    let terms = query_terms(query);
    let hits = results::ranked(found.hits.into_iter(), limit, &layout);
    let explanations = if layout.explain && !terms.is_empty() {
        index.explain(&request(query, limit, &filter), &hits)?
    } else {
        Vec::new()
    };
    let places: Vec<(String, u32)> = hits.iter().map(|hit| (hit.path.clone(), hit.start_line)).collect();
    let mut explanations = explanations.into_iter();
    let views = hits.into_iter().zip(1..).map(|(hit, rank)| {
        let matches = found.lines.remove(&hit.unit).unwrap_or_default();
        let extras = Extras { matches, explanation: explanations.next() };
        ResultView::new(&tree, (hit, rank), &terms, extras, &layout)
    });
    let answer = Answer {
        question: Question { query, patterns: &args.patterns },
        root: tree.root_text(),
        results: views.collect(),
        // An expression alone is met or not.
        confident: query.is_empty() || found.confidence >= layout.threshold,
        confidence: found.confidence,
        took_ms: output::milliseconds(opened.elapsed()),
        open_ms: output::milliseconds(opened - start),
    };
    let places = places.iter().map(|(path, line)| (path.as_str(), *line));
    log::append(|| Record::new("search", &args.source.path, query, places, None));
    let nothing = match &expression {
        Some(_) => "no line of the files that were searched matches",
        None if !filter.is_empty() => "nothing found among what -t, -g, --kind and the settings let through",
        None => "nothing found: no word of the query occurs in the files that were searched; try other words",
    };
    let nothing = &*match unreadable(&tree) {
        Some(unreadable) if answer.results.is_empty() => format!("{nothing}; {unreadable}"),
        _ => nothing.to_owned(),
    };
    let unsure = match &expression {
        Some(_) => "No line that matches clearly answers the query; those nearest to it come first",
        None => "Nothing here clearly answers this; the nearest are",
    };
    results::print(&answer, &layout, &Words { nothing, unsure }, |text| match &expression {
        Some(expression) => lines::ranges(expression, text),
        None => snippet::matches(text, &terms),
    })
}

/// What of the searched files could not be read, if there is any.
fn unreadable(tree: &Tree) -> Option<String> {
    let mut unread = tree.index.unread();
    unread.retain(|file| matches!(file.reason, SkipReason::Unreadable(_)));
    let Skipped { path, reason } = unread.first()?;
    let (n, path) = (counted(unread.len(), "path"), tree.shown(path));
    Some(format!("{n} could not be read, such as {}: {reason}", path.display()))
}

/// With -e, the first argument if it is the only one and there is such a file or folder.
fn path_alone(args: &SearchArgs) -> Option<PathBuf> {
    let first = PathBuf::from(args.query.as_ref()?);
    (!args.patterns.is_empty() && args.source.path == Path::new(".") && first.exists()).then_some(first)
}

struct Found {
    hits: Vec<Hit>,
    confidence: f32,
    /// The lines that match, by unit.
    lines: HashMap<usize, Vec<LineMatch>>,
}

fn request<'a>(query: &'a str, limit: usize, filter: &'a Filter) -> SearchRequest<'a> {
    SearchRequest { query, limit, ranking: Ranking::default(), filter }
}

fn search(index: &Index, query: &str, limit: usize, filter: &Filter) -> anyhow::Result<Found> {
    let response = index.search(&request(query, limit, filter))?;
    Ok(Found { hits: response.hits, confidence: response.confidence, lines: HashMap::new() })
}

/// Units with lines that match, in the order that the query gives them, and in that of their paths where it says
/// nothing.
fn search_lines(index: &Index, query: &str, filter: &Filter, expression: &Regex) -> anyhow::Result<Found> {
    let (mut hits, lines): (Vec<Hit>, HashMap<_, _>) = lines::find(index, filter, expression)
        .into_iter()
        .map(|(hit, lines)| (hit.clone(), (hit.unit, lines)))
        .unzip();
    let mut confidence = 0.0;
    if !query.is_empty() {
        let ranked = search(index, query, index.n_units(), filter)?;
        confidence = ranked.confidence;
        let by_unit: HashMap<usize, (usize, Hit)> =
            ranked.hits.into_iter().enumerate().map(|(rank, hit)| (hit.unit, (rank, hit))).collect();
        hits.sort_by_key(|hit| by_unit.get(&hit.unit).map_or(usize::MAX, |(rank, _)| *rank));
        for hit in &mut hits {
            if let Some((_, ranked)) = by_unit.get(&hit.unit) {
                *hit = ranked.clone();
            }
        }
    }
    Ok(Found { hits, confidence, lines })
}
