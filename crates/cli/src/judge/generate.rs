//! `quarry judge generate`: code for queries that no candidate answers.

use std::fmt::Write as _;
use std::process::ExitCode;

use quarry_annotate::GenerationSummary;
use quarry_text::counted;
use serde_json::json;

use super::{WorkArgs, stop_on_interrupt};
use crate::output;
use crate::progress;

/// Runs `quarry judge generate`.
///
/// # Errors
/// When something is wrong that concerns all queries. What was answered before is in the ledger.
pub fn run(args: &WorkArgs) -> anyhow::Result<ExitCode> {
    let (plan, _copy) = args.plan.open_for(args.dry_run)?;
    let stop = stop_on_interrupt()?;
    let judging = args.workplace.prepare(plan, &stop, args.dry_run)?;
    let (queries, open, worst) = judging.estimate_generation()?;
    output::note(&format!(
        "{} that no candidate answers, and {open} with candidates that are not decided yet; writing \
         code once for each costs at most {worst}, and judging it what judging costs",
        counted(queries, "query")
    ));
    if args.dry_run {
        if args.json {
            let worst = json!({"tokens": worst.tokens, "dollars": worst.dollars()});
            output::print_json(&json!({"queries": queries, "open": open, "worst_of_first_calls": worst}))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let bar = progress::progress_bar("generating", usize::try_from(queries).unwrap_or(usize::MAX));
    let result = judging.generate(&stop, &|| bar.inc(1));
    bar.finish_and_clear();
    let generation = result?;
    let spent = judging.ledger().0.spent()?[0];
    output::note(&format!("booked with this ledger: {spent}"));
    if args.json {
        output::print_json(&generation)?;
    } else {
        output::print(&text(&generation))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(generation: &GenerationSummary) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: u64| {
        let _ = writeln!(text, "{name:<28} {value}");
    };
    line("queries without an answer", generation.queries);
    line("answered", generation.answered.values().sum());
    for (round, number) in &generation.answered {
        line(&format!("  in round {round}"), *number);
    }
    line("not answered", generation.unanswered);
    line("failed", generation.failed.len() as u64);
    line("left alone, not decided", generation.open);
    for (query, reason) in &generation.failed {
        let _ = writeln!(text, "  {}: {}", output::printable(query), output::printable(reason));
    }
    text
}
