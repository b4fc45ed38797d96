//! `quarry data written`: what a build says of calls and of the queries that a model wrote.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use quarry_factory::{CallRow, QualityRow, WrittenReport};
use quarry_metrics::table::{Sections, Table};
use serde_json::{Value, json};

use crate::eval::arguments::LayoutArgs;

/// Arguments of `quarry data written`.
#[derive(Debug, Args)]
pub struct WrittenArgs {
    /// Directory of a build with written queries
    #[arg(value_name = "DIR")]
    build: PathBuf,
    #[command(flatten)]
    layout: LayoutArgs,
}

/// Reports.
///
/// # Errors
/// When nothing was built there, or without written queries.
pub fn run(args: &WrittenArgs) -> anyhow::Result<ExitCode> {
    let report = WrittenReport::read(&args.build)?;
    args.layout.print(&value(&report), || sections(&report))?;
    Ok(ExitCode::SUCCESS)
}

/// Of a query that was kept, if there is one.
fn per_query(report: &WrittenReport, amount: f64) -> Option<f64> {
    (report.kept() > 0).then(|| amount / report.kept() as f64)
}

fn value(report: &WrittenReport) -> Value {
    let calls = report.calls.map(|CallRow { kind, calls, mean, maximum, functions, share, .. }| {
        json!({
            "kind": kind, "calls": calls, "mean": mean, "maximum": maximum, "functions": functions, "share": share,
        })
    });
    let quality: Vec<Value> = (report.quality.iter())
        .map(|QualityRow { calls, with_callees, queries, score, kept }| {
            json!({
                "calls": calls, "with_callees": with_callees, "queries": queries, "score": score, "kept": kept,
            })
        })
        .collect();
    json!({
        "functions": report.functions,
        "calls": calls,
        "classes": report.classes,
        "unreadable": report.unreadable,
        "kept": report.kept(),
        "quality": quality,
        "tokens": report.tokens,
        "dollars": report.dollars,
        "tokens_per_query": per_query(report, report.tokens as f64),
        "dollars_per_query": per_query(report, report.dollars),
    })
}

fn sections(report: &WrittenReport) -> Sections {
    Sections::new()
        .text(format!("functions in the call graph: {}", report.functions))
        .table(calls(report))
        .titled("Queries written", classes(report))
        .titled("Queries by calls in the project", quality(report))
        .titled("Cost", cost(report))
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
