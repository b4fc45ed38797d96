//! `quarry judge audit`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use quarry_annotate::{AuditReport, ChangedRun, SkippedRun};
use quarry_text::counted;

use super::{IsolationArgs, PlanArgs, stop_on_interrupt};
use crate::output;

/// Arguments of `quarry judge audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `quarry judge audit`; the exit code is 1 where a program came to something else, or could not be run.
///
/// # Errors
/// When the ledger cannot be read, or no program can be run.
pub fn run(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let (plan, ledger, judge) = args.plan.judged()?;
    let stop = stop_on_interrupt()?;
    let isolated = args.isolation.open(&plan, &stop)?;
    // More than run at the same time: some may wait for packages.
    let threads = plan.workers.max(plan.programs);
    let found = quarry_annotate::audit(&ledger, judge, &isolated, &plan.limits, threads, &stop)?;
    if args.json {
        output::print_json(&found)?;
    } else {
        output::print(&text(&found))?;
    }
    if found.stopped {
        bail!("stopped before all programs had run; the next audit starts over");
    }
    Ok(ExitCode::from(u8::from(!found.holds())))
}

fn text(found: &AuditReport) -> String {
    let mut text = format!(
        "{} run again, {} of them written by people; {} gave a different result, {} could not be run\n",
        counted(found.runs, "test program"),
        found.of_people,
        found.changed.len(),
        found.not_run.len()
    );
    let about = |pair: &str, person: Option<&String>| {
        let by = person
            .map_or_else(String::new, |person| format!(", the program of {}", output::printable(person)));
        format!("{}{by}", output::printable(pair))
    };
    for ChangedRun { pair, person, before, now, output: _ } in &found.changed {
        let about = about(pair, person.as_ref());
        let _ = writeln!(text, "  {about}: {} when it was judged, {} now", before.name(), now.name());
    }
    for SkippedRun { pair, person, reason } in &found.not_run {
        let _ = writeln!(text, "  {}: not run: {}", about(pair, person.as_ref()), output::printable(reason));
    }
    text
}
