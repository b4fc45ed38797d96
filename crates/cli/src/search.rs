//! `quarry search`: finding code.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, ColorChoice};
use quarry_index::{Filter, Hit, Index, Ranking, ScoreParts, SearchRequest, snippet};
use quarry_source::UnitKind;
use quarry_text::query_terms;
use serde::Serialize;

use crate::index::SourceArgs;
use crate::output::{self, HitView, Terminal};

/// Lines of a unit that are shown.
const DEFAULT_SNIPPET_LINES: usize = 3;

/// Arguments of `quarry search`.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// What to find: a description in plain words (in quotes), or a symbol
    query: String,
    #[command(flatten)]
    source: SourceArgs,
    /// Greatest number of results
    #[arg(short = 'k', long = "limit", value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Lines to show of each result; 0 for all
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SNIPPET_LINES)]
    lines: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Least confidence, 0 to 1, of the best result; below it the exit code is 1
    #[arg(long, value_name = "X", default_value_t = quarry_index::DEFAULT_THRESHOLD)]
    threshold: f32,
    /// When to colour the output
    #[arg(long, value_name = "WHEN", default_value_t, value_enum)]
    color: ColorChoice,
}

#[derive(Serialize)]
struct Answer<'a> {
    query: &'a str,
    results: Vec<ResultView>,
    confident: bool,
    confidence: f32,
    /// Of the search, without opening or building the index.
    took_ms: f64,
    /// Of opening the index, with building it where that was needed.
    open_ms: f64,
}

#[derive(Serialize)]
struct ResultView {
    rank: usize,
    score: f32,
    path: String,
    start_line: u32,
    end_line: u32,
    name: String,
    kind: &'static str,
    language: String,
    signature: String,
    snippet: String,
    /// Line of the file that `snippet` starts on, 1-based.
    snippet_line: u32,
    parts: ScoreParts,
}

/// Runs `quarry search`.
///
/// # Errors
/// When the tree cannot be indexed or the query has no word.
pub fn run(args: &SearchArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let index = args.source.open(false)?.index;
    let opened = Instant::now();
    let request = SearchRequest {
        query: &args.query,
        limit: args.limit,
        ranking: Ranking::default(),
        filter: &Filter::default(),
    };
    let response = index.search(&request)?;
    let terms = query_terms(&args.query);
    let results = response.hits.into_iter().zip(1..);
    let answer = Answer {
        query: &args.query,
        results: results.map(|(hit, rank)| view(&index, hit, rank, &terms, args.lines)).collect(),
        confident: response.confidence >= args.threshold,
        confidence: response.confidence,
        took_ms: output::milliseconds(opened.elapsed()),
        open_ms: output::milliseconds(opened - start),
    };
    if args.json {
        output::print_json(&answer)?;
    } else {
        print_results(&index, &answer, &terms, Terminal::of_stdout(args.color))?;
    }
    Ok(if answer.confident && !answer.results.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn view(index: &Index, hit: Hit, rank: usize, terms: &[String], n_lines: usize) -> ResultView {
    // A file that has gone since the index was opened has no lines to show.
    let source = index.source(&hit).unwrap_or_default();
    let lines = match n_lines {
        0 => 0..source.lines().count(),
        _ => snippet::best_lines(&source, terms, n_lines),
    };
    let snippet: Vec<&str> = source.lines().skip(lines.start).take(lines.len()).collect();
    ResultView {
        rank,
        score: hit.score,
        start_line: hit.start_line,
        end_line: hit.end_line,
        kind: kind_name(hit.kind),
        snippet: snippet.join("\n"),
        snippet_line: hit.start_line + lines.start as u32,
        path: hit.path,
        name: hit.name,
        language: hit.language,
        signature: hit.signature,
        parts: hit.parts,
    }
}

fn print_results(index: &Index, answer: &Answer, terms: &[String], terminal: Terminal) -> anyhow::Result<()> {
    let format = |result: &ResultView| {
        let hit = HitView {
            rank: result.rank,
            path: &result.path,
            file: &index.absolute_path(&result.path),
            start_line: result.start_line,
            name: &result.name,
            signature: &result.signature,
            kind: result.kind,
            score: result.score,
            snippet: &result.snippet,
            snippet_line: result.snippet_line,
        };
        output::format_hit(&hit, terminal, |text| snippet::matches(text, terms))
    };
    output::print(&answer.results.iter().map(format).collect::<Vec<_>>().join("\n"))?;
    if answer.results.is_empty() {
        output::note("nothing found: no word of the query occurs; try other words");
    } else if !answer.confident {
        output::note("nothing matches well; try other words, or take these as hints");
    }
    Ok(())
}

fn kind_name(kind: UnitKind) -> &'static str {
    match kind {
        UnitKind::Function => "function",
        UnitKind::Method => "method",
        UnitKind::Type => "type",
        UnitKind::Module => "module",
        UnitKind::Section => "section",
    }
}
