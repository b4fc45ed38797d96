//! `quarry data report --depth`: how many candidates of a query are worth labeling.

use quarry_eval::report::{Series, curves_alone};
use quarry_factory::{AHEAD, Depth, DepthRow, FLAT, depth_of_build, depth_of_run};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde_json::json;

use super::report::ReportArgs;

/// Reports by rank how often candidates answer: those of a build, or those of a run with labels.
///
/// # Errors
/// When a file is missing or wrong, or nothing is labeled.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let found = match &args.labels {
        Some(labels) => vec![depth_of_run(&args.build, labels, &args.split)?],
        None => depth_of_build(&args.build)?,
    };
    args.write_plot(|| Ok(plot(&found)))?;
    let value = json!({ "methods": found.iter().map(value).collect::<Vec<_>>() });
    args.layout.print(&value, || found.iter().fold(Sections::new(), section))
}

fn value(depth: &Depth) -> serde_json::Value {
    let rows: Vec<serde_json::Value> = (depth.rows.iter())
        .map(|DepthRow { rank, labelled, hit, answered, answers }| {
            json!({
                "rank": rank, "labeled": labelled, "hit": hit, "answered": answered, "answers": answers,
            })
        })
        .collect();
    json!({ "method": depth.method, "queries": depth.queries, "enough": depth.enough(), "ranks": rows })
}

fn section(sections: Sections, depth: &Depth) -> Sections {
    let mut table =
        Table::new(["rank", "labeled", "hit %", "queries with an answer %", "answers of a query"]);
    for DepthRow { rank, labelled, hit, answered, answers } in &depth.rows {
        table.push([
            rank.to_string(),
            labelled.to_string(),
            format!("{:.1}", hit * 100.0),
            format!("{:.1}", answered * 100.0),
            format!("{answers:.2}"),
        ]);
    }
    let flat = FLAT * 100.0;
    let enough = match depth.enough() {
        Some(enough) => format!(
            "{enough} candidates are enough: {AHEAD} more bring an answer to fewer than {flat} % of the queries\n"
        ),
        None => format!(
            "More candidates may be worth labelling: nowhere among these do {AHEAD} more bring an answer to fewer than {flat} % \
             of the queries\n"
        ),
    };
    sections.titled(format!("{}, {}", depth.method, counted(depth.queries, "query")), table).after(enough)
}

fn plot(found: &[Depth]) -> String {
    let mut series = Vec::new();
    for depth in found {
        let points = |of: fn(&DepthRow) -> f64, labelled: fn(&DepthRow, usize) -> usize| {
            depth.rows.iter().map(|row| (row.rank as f64, of(row), labelled(row, depth.queries))).collect()
        };
        series.push(Series {
            label: format!("{}: an answer at this rank", depth.method),
            points: points(|row| row.hit, |row, _| row.labelled),
        });
        series.push(Series {
            label: format!("{}: an answer up to this rank", depth.method),
            points: points(|row| row.answered, |_, queries| queries),
        });
    }
    curves_alone("How often candidates answer, by rank", "rank", "share of queries", &series)
}
