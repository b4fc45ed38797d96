//! `quarry data report --depth`: the number of candidates of a query that are worth labeling.

use quarry_build::{AHEAD, Depth, DepthRow, FLAT, depth_of_build};
use quarry_eval::report::{Series, curves_alone};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use super::report::ReportArgs;

pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let found = depth_of_build(&args.build)?;
    args.write_plot(|| Ok(plot(&found)))?;
    let report = DepthReport { methods: found };
    args.layout.print(&report, || report.methods.iter().fold(Sections::new(), section))
}

/// Frequency of candidates that answer, by rank.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CandidateDepth"))]
pub struct DepthReport {
    /// The methods that found candidates.
    methods: Vec<Depth>,
}

fn section(sections: Sections, depth: &Depth) -> Sections {
    let mut table =
        Table::new(["rank", "labeled", "hit %", "% of queries with an answer", "answers of a query"]);
    for DepthRow { rank, labeled, hit, answered, answers } in &depth.ranks {
        table.push([
            rank.to_string(),
            labeled.to_string(),
            format!("{:.1}", hit * 100.0),
            format!("{:.1}", answered * 100.0),
            format!("{answers:.2}"),
        ]);
    }
    let flat = FLAT * 100.0;
    let enough = match depth.enough {
        Some(enough) => format!(
            "{enough} candidates are enough: {AHEAD} more add an answer for fewer than {flat} % of the queries\n"
        ),
        None => format!(
            "More candidates may be worth labeling: at every rank, {AHEAD} more add an answer for at least {flat} % of \
             the queries\n"
        ),
    };
    sections.titled(format!("{}, {}", depth.method, counted(depth.queries, "query")), table).after(enough)
}

fn plot(found: &[Depth]) -> String {
    let mut series = Vec::new();
    for depth in found {
        let points = |of: fn(&DepthRow) -> f64, labeled: fn(&DepthRow, usize) -> usize| {
            depth.ranks.iter().map(|row| (row.rank as f64, of(row), labeled(row, depth.queries))).collect()
        };
        series.push(Series {
            label: format!("{}: an answer at this rank", depth.method),
            points: points(|row| row.hit, |row, _| row.labeled),
        });
        series.push(Series {
            label: format!("{}: an answer up to this rank", depth.method),
            points: points(|row| row.answered, |_, queries| queries),
        });
    }
    curves_alone("How often candidates answer, by rank", "rank", "share of queries", &series)
}
