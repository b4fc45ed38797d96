//! `quarry judge audit`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use super::{IsolationArgs, PlanArgs};
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

/// Runs `quarry judge audit`; the exit code is 1 where a label no longer holds.
///
/// # Errors
/// When the ledger cannot be read, or programs cannot be run.
pub fn run(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let (plan, ledger, judge) = args.plan.judged()?;
    let isolated = args.isolation.open(&plan)?;
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    ctrlc::set_handler(move || asked.store(true, Ordering::SeqCst))?;
    let found = quarry_annotate::audit(&ledger, judge, &isolated, &plan.limits, plan.programs, &stop)?;
    if args.json {
        output::print_json(&found)?;
    } else {
        let mut text = format!(
            "{} test programs run again, {} came to something else\n",
            found.runs,
            found.changed.len()
        );
        for changed in &found.changed {
            let pair = output::printable(&changed.pair);
            text += &format!(
                "  {pair}: {} when it was judged, {} now\n",
                changed.before.name(),
                changed.now.name()
            );
        }
        output::print(&text)?;
    }
    Ok(ExitCode::from(u8::from(!found.changed.is_empty())))
}
