//! `quarry data report --depth`: how many candidates of a query are worth labeling.

use quarry_eval::report::{Series, curves_alone};
use quarry_factory::{AHEAD, Depth, DepthRow, FLAT, depth_of_build, depth_of_run};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

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
    let report = DepthReport { methods: found.iter().map(MethodDepth::of).collect() };
    args.layout.print(&report, || found.iter().fold(Sections::new(), section))
}

/// How often candidates answer, by rank.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CandidateDepth"))]
pub struct DepthReport {
    /// The methods that found candidates, or the run.
    methods: Vec<MethodDepth>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct MethodDepth {
    /// Name of the method, or of the file of the run.
    method: String,
    /// Queries with a labeled candidate.
    queries: usize,
    /// Number of candidates after which more add almost nothing; null if there are too few candidates to decide.
    enough: Option<usize>,
    /// What labels say, by rank.
    ranks: Vec<RankDepth>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct RankDepth {
    /// The rank, from 1.
    rank: usize,
    /// Queries whose candidate at this rank has a label.
    labeled: usize,
    /// Share of those whose candidate answers.
    hit: f64,
    /// Share of all queries with an answer up to this rank.
    answered: f64,
    /// Mean number of answers of a query up to this rank.
    answers: f64,
}

impl MethodDepth {
    fn of(depth: &Depth) -> Self {
        let rank = |&DepthRow { rank, labelled, hit, answered, answers }: &DepthRow| RankDepth {
            rank,
            labeled: labelled,
            hit,
            answered,
            answers,
        };
        Self {
            method: depth.method.clone(),
            queries: depth.queries,
            enough: depth.enough(),
            ranks: depth.rows.iter().map(rank).collect(),
        }
    }
}

fn section(sections: Sections, depth: &Depth) -> Sections {
    let mut table =
        Table::new(["rank", "labeled", "hit %", "% of queries with an answer", "answers of a query"]);
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
