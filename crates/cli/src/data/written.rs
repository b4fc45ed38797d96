//! `quarry data report`: what a build says of calls and of the queries that a model wrote.

use std::collections::BTreeMap;

use anyhow::ensure;
use quarry_build::{CallRow, FULL_UNDERSTANDING, QualityRow, UnderstandingRow, WrittenReport, last_build};
use quarry_eval::report::{Bar, bars_alone};
use quarry_metrics::table::{Sections, Table};
use quarry_text::{counted, plural};
use serde::Serialize;

use super::build::push_counts;
use super::report::ReportArgs;

/// Reports on calls and written queries; of a build without these, on the counts of its steps.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let steps = last_build(&args.build)?;
    if !args.has_plot() && !steps.iter().any(|step| step.name == "calls") {
        let mut table = Table::new(["step", "result", "number"]).align_left([1]);
        steps.iter().for_each(|step| push_counts(&mut table, &step.name, &step.counts));
        let steps =
            steps.into_iter().map(|step| BuiltStep { name: step.name, counts: step.counts }).collect();
        return args.layout.print(&BuiltSteps { steps }, || Sections::new().table(table));
    }
    let report = WrittenReport::read(&args.build)?;
    args.write_plot(|| {
        ensure!(
            !report.understanding.is_empty(),
            "{}: expected a build that measured what the model knows about functions of other packages, found none; set \
             `unpopular_below = \"calibrated\"` in [annotation] of its plan, and build",
            args.build.display()
        );
        Ok(picture(&report.understanding))
    })?;
    args.layout.print(&report, || sections(&report))
}

/// Steps of a build without written queries.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BuiltSteps {
    /// The steps of the last build, in order.
    steps: Vec<BuiltStep>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct BuiltStep {
    /// Name.
    name: String,
    /// Counts.
    counts: BTreeMap<String, u64>,
}

fn sections(report: &WrittenReport) -> Sections {
    let sections = Sections::new()
        .text(format!("functions in the call graph: {}", report.functions))
        .table(calls(report))
        .titled("Queries written", classes(report))
        .titled("Queries by calls in the project", quality(report));
    if report.understanding.is_empty() {
        return sections.titled("Cost", cost(report));
    }
    let threshold = match report.unpopular_below {
        Some(threshold) => format!(
            "Functions that are called fewer than {threshold} times are explained: understanding is saturated from there on\n"
        ),
        None => {
            "All functions are explained: the most popular ones are not understood well enough\n".to_owned()
        }
    };
    let title = "Understanding of functions of other packages without documentation, by calls in all sources";
    let sections = sections.titled(title, by_popularity(&report.understanding)).after(threshold);
    sections.titled("Cost", cost(report))
}

fn range(row: &UnderstandingRow) -> String {
    let UnderstandingRow { fewest_calls, most_calls, .. } = row;
    if fewest_calls == most_calls {
        fewest_calls.to_string()
    } else {
        format!("{fewest_calls} to {most_calls}")
    }
}

/// Grades from 0 to 2, by popularity (figure 4 of Query4Code).
fn by_popularity(rows: &[UnderstandingRow]) -> Table {
    let mut table = Table::new(["calls", "functions", "mean grade", "95 % interval", "% in full", "fitted"]);
    for row in rows {
        table.push([
            range(row),
            row.functions.to_string(),
            format!("{:.2}", row.score),
            format!("{:.2} to {:.2}", row.interval.low, row.interval.high),
            percent(row.full),
            format!("{:.2}", row.fitted),
        ]);
    }
    table
}

fn picture(rows: &[UnderstandingRow]) -> String {
    let share = |grade: f64| grade / f64::from(FULL_UNDERSTANDING);
    let bars: Vec<Bar> = (rows.iter())
        .map(|row| Bar {
            label: format!(
                "{} {} ({})",
                range(row),
                plural(row.most_calls, "call"),
                counted(row.functions as usize, "function")
            ),
            value: share(row.score),
            interval: Some((share(row.interval.low), share(row.interval.high))),
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
    table.push(["kept".to_owned(), report.kept.to_string(), share(report.kept)]);
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
    let mut table = Table::new(["questions", "tokens", "dollars"]);
    table.push(["all".to_owned(), report.tokens.to_string(), number(Some(report.dollars), 4)]);
    table.push([
        "for a query that was kept".to_owned(),
        number(report.tokens_per_query, 0),
        number(report.dollars_per_query, 6),
    ]);
    table
}
