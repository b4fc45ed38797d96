//! `quarry judge run --generate`: code for queries that no candidate answers.

use quarry_judge::{CostView, GenerationSummary};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use super::{RunArgs, stop_on_interrupt};
use crate::output;
use crate::progress;

pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let (plan, _copy) = args.plan.open_for(args.dry_run)?;
    let stop = stop_on_interrupt()?;
    let judging = args.workplace.prepare(plan, &stop, args.dry_run)?;
    let (queries, open, worst) = judging.estimate_generation()?;
    output::note(&format!(
        "{} that no candidate answers, and {open} with undecided candidates; writing code once for each costs at most \
         {worst}, plus the cost of judging it",
        counted(queries, "query")
    ));
    if args.dry_run {
        if args.layout.is_json() {
            let worst_of_first_calls = CostView::from(&worst);
            output::print_json(&GenerationEstimate { queries, open, worst_of_first_calls })?;
        }
        return Ok(());
    }
    let bar = progress::Progress::new("generating", usize::try_from(queries).unwrap_or(usize::MAX));
    let generation = judging.generate(&stop, &|| bar.inc(1))?;
    bar.finish_and_clear();
    let spent = judging.ledger().0.spent()?[0];
    output::note(&format!("booked with this ledger: {spent}"));
    args.layout.print(&generation, || sections(&generation))
}

/// Estimated cost of generating code.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GenerationEstimate {
    /// Queries that no candidate answers.
    queries: u64,
    /// Queries whose candidates are not all decided.
    open: u64,
    /// Maximum cost of writing code once for each query.
    worst_of_first_calls: CostView,
}

fn sections(generation: &GenerationSummary) -> Sections {
    let mut table = Table::new(["queries", "number"]);
    let mut line = |name: &str, value: u64| table.push([name.to_owned(), value.to_string()]);
    line("without an answer", generation.queries);
    line("answered", generation.answered.values().sum());
    for (round, number) in &generation.answered {
        line(&format!("answered in round {round}"), *number);
    }
    line("not answered", generation.unanswered);
    line("failed", generation.failed.len() as u64);
    line("skipped: undecided candidates", generation.open);
    let sections = Sections::new().table(table);
    if generation.failed.is_empty() {
        return sections;
    }
    let mut failed = Table::new(["query", "reason"]).align_left([1]);
    for (query, reason) in &generation.failed {
        failed.push([output::printable(query), output::printable(reason)]);
    }
    sections.titled("Failed queries", failed)
}
