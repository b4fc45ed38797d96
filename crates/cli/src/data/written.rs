//! `quarry data report`: what a build says of calls and of the queries that a model wrote.

use anyhow::bail;
use quarry_eval::report::{Bar, bars_alone};
use quarry_factory::{
    CallRow, FULL_UNDERSTANDING, QualityRow, Understanding, UnderstandingRow, WrittenReport,
};
use quarry_metrics::significance::Interval;
use quarry_metrics::table::{Sections, Table};
use quarry_text::{counted, plural};
use serde::Serialize;

use super::report::ReportArgs;

/// Reports on calls and written queries.
///
/// # Errors
/// When nothing was built there, without written queries, or when the picture cannot be drawn or written.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let report = WrittenReport::read(&args.build)?;
    args.write_plot(|| match &report.understanding {
        Some(understanding) => Ok(picture(understanding)),
        None => bail!(
            "{}: expected a build that measured what the model knows about functions of other packages, found none; set \
             `unpopular_below = \"calibrated\"` in [annotation] of its plan, and build",
            args.build.display()
        ),
    })?;
    args.layout.print(&WrittenQueries::of(&report), || sections(&report))
}

/// Of a query that was kept, if there is one.
fn per_query(report: &WrittenReport, amount: f64) -> Option<f64> {
    (report.kept() > 0).then(|| amount / report.kept() as f64)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WrittenQueries {
    /// Functions in the call graph.
    functions: u64,
    /// Calls by kind.
    calls: [CallsOfKind; 2],
    /// Written queries by class, 1 to 4.
    classes: [u64; 4],
    /// Answers that could not be read.
    unreadable: u64,
    /// Queries that were kept.
    kept: u64,
    /// Queries by the number of calls of their function.
    quality: Vec<QueriesByCalls>,
    /// How well the model knows functions of other packages without documentation, by their number of calls; empty
    /// unless the plan calibrates what is explained.
    understanding: Vec<KnownFunctions>,
    /// Functions with fewer calls were explained to the model, by its understanding; null if all were, or if the plan
    /// has a number.
    unpopular_below: Option<u64>,
    /// Tokens of all questions.
    tokens: u64,
    /// Cost in dollars, where prices are known.
    dollars: f64,
    /// Tokens per kept query; null without one.
    tokens_per_query: Option<f64>,
    /// Dollars per kept query; null without one.
    dollars_per_query: Option<f64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct CallsOfKind {
    /// In the project, or of other packages.
    kind: &'static str,
    /// Number of calls.
    calls: u64,
    /// Mean number of calls of a function.
    mean: f64,
    /// Maximum number of calls of a function.
    maximum: u64,
    /// Share of the functions with such a call.
    functions: f64,
    /// Share of all calls.
    share: f64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct QueriesByCalls {
    /// Number of calls of the function; 5 means 5 or more.
    calls: u64,
    /// Whether summaries of callees were shown.
    with_callees: bool,
    /// Number of queries.
    queries: u64,
    /// Mean score.
    score: f64,
    /// Share that was kept.
    kept: f64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct KnownFunctions {
    /// Fewest calls of the range.
    fewest_calls: u64,
    /// Most calls of the range.
    most_calls: u64,
    /// Number of functions that were graded.
    functions: u64,
    /// Mean grade, 0 to 2.
    score: f64,
    /// 95 % interval of the mean.
    interval: Interval,
    /// Share that was understood in full.
    full: f64,
    /// Mean grade, with neighboring ranges merged until it rises.
    fitted: f64,
}

impl WrittenQueries {
    fn of(report: &WrittenReport) -> Self {
        let calls = |CallRow { kind, calls, mean, maximum, functions, share, .. }: CallRow| CallsOfKind {
            kind,
            calls,
            mean,
            maximum,
            functions,
            share,
        };
        let quality = |&QualityRow { calls, with_callees, queries, score, kept }: &QualityRow| {
            QueriesByCalls { calls, with_callees, queries, score, kept }
        };
        let known = |row: &UnderstandingRow| KnownFunctions {
            fewest_calls: row.calls.0,
            most_calls: row.calls.1,
            functions: row.functions,
            score: row.score,
            interval: row.interval,
            full: row.full,
            fitted: row.fitted,
        };
        let understanding = report.understanding.as_ref();
        Self {
            functions: report.functions,
            calls: report.calls.map(calls),
            classes: report.classes,
            unreadable: report.unreadable,
            kept: report.kept(),
            quality: report.quality.iter().map(quality).collect(),
            understanding: understanding
                .map_or_else(Vec::new, |found| found.rows.iter().map(known).collect()),
            unpopular_below: understanding.and_then(Understanding::threshold),
            tokens: report.tokens,
            dollars: report.dollars,
            tokens_per_query: per_query(report, report.tokens as f64),
            dollars_per_query: per_query(report, report.dollars),
        }
    }
}

fn sections(report: &WrittenReport) -> Sections {
    let sections = Sections::new()
        .text(format!("functions in the call graph: {}", report.functions))
        .table(calls(report))
        .titled("Queries written", classes(report))
        .titled("Queries by calls in the project", quality(report));
    let sections = match &report.understanding {
        Some(understanding) => {
            let threshold = match understanding.threshold() {
                Some(threshold) => format!(
                    "Functions that are called fewer than {threshold} times are explained: understanding is saturated from there on\n"
                ),
                None => "All functions are explained: the most popular ones are not understood well enough\n"
                    .to_owned(),
            };
            let title =
                "Understanding of functions of other packages without documentation, by calls in all sources";
            sections.titled(title, by_popularity(understanding)).after(threshold)
        }
        None => sections,
    };
    sections.titled("Cost", cost(report))
}

fn range(fewest: u64, most: u64) -> String {
    if fewest == most { fewest.to_string() } else { format!("{fewest} to {most}") }
}

/// Grades from 0 to 2, by popularity (figure 4 of Query4Code).
fn by_popularity(understanding: &Understanding) -> Table {
    let mut table = Table::new(["calls", "functions", "mean grade", "95 % interval", "% in full", "fitted"]);
    for UnderstandingRow { calls, functions, score, interval, full, fitted } in &understanding.rows {
        table.push([
            range(calls.0, calls.1),
            functions.to_string(),
            format!("{score:.2}"),
            format!("{:.2} to {:.2}", interval.low, interval.high),
            percent(*full),
            format!("{fitted:.2}"),
        ]);
    }
    table
}

fn picture(understanding: &Understanding) -> String {
    let share = |grade: f64| grade / f64::from(FULL_UNDERSTANDING);
    let bars: Vec<Bar> = (understanding.rows.iter())
        .map(|UnderstandingRow { calls: (fewest, most), functions, score, interval, .. }| Bar {
            label: format!(
                "{} {} ({})",
                range(*fewest, *most),
                plural(*most, "call"),
                counted(*functions as usize, "function")
            ),
            value: share(*score),
            interval: Some((share(interval.low), share(interval.high))),
        })
        .collect();
    bars_alone("Understanding of functions of other packages, by calls in all sources", &bars)
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Each figure of calls, with that of Query4Code after it.
fn calls(report: &WrittenReport) -> Table {
    let mut table = Table::new(["calls", "number", "% of both", "mean", "maximum", "% of functions"]);
    for CallRow { kind, calls, mean, maximum, functions, share, published } in &report.calls {
        let (published_mean, published_maximum, published_share) = published;
        table.push([
            (*kind).to_owned(),
            calls.to_string(),
            percent(*share),
            format!("{mean:.2}"),
            maximum.to_string(),
            percent(*functions),
        ]);
        table.push([
            format!("{kind}, Query4Code"),
            String::new(),
            percent(*published_share),
            published_mean.to_string(),
            published_maximum.to_string(),
        ]);
    }
    table
}

fn classes(report: &WrittenReport) -> Table {
    let written: u64 = report.classes.iter().sum();
    let share = |count: u64| if written > 0 { percent(count as f64 / written as f64) } else { String::new() };
    let mut table = Table::new(["queries", "number", "%"]);
    table.push(["all".to_owned(), written.to_string(), share(written)]);
    for (class, count) in (1..).zip(report.classes) {
        table.push([format!("of class {class}"), count.to_string(), share(count)]);
    }
    table.push(["kept".to_owned(), report.kept().to_string(), share(report.kept())]);
    table.push(["answers that cannot be read".to_owned(), report.unreadable.to_string()]);
    table
}

fn quality(report: &WrittenReport) -> Table {
    let mut table = Table::new(["calls", "callees shown", "queries", "mean score", "% kept"]).align_left([1]);
    for QualityRow { calls, with_callees, queries, score, kept } in &report.quality {
        table.push([
            if *calls == 5 { "5 or more".to_owned() } else { calls.to_string() },
            if *with_callees { "yes" } else { "no" }.to_owned(),
            queries.to_string(),
            format!("{score:.2}"),
            percent(*kept),
        ]);
    }
    table
}

fn cost(report: &WrittenReport) -> Table {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    let tokens = report.tokens as f64;
    let mut table = Table::new(["questions", "tokens", "dollars"]);
    table.push(["all".to_owned(), report.tokens.to_string(), number(Some(report.dollars), 4)]);
    table.push([
        "for a query that was kept".to_owned(),
        number(per_query(report, tokens), 0),
        number(per_query(report, report.dollars), 6),
    ]);
    table
}
