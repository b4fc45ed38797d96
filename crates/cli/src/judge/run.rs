//! `quarry judge run`.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use quarry_annotate::{Estimate, Plan};

use super::{PlanArgs, WorkplaceArgs, status, stop_on_interrupt};
use crate::output;

/// Arguments of `quarry judge run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    workplace: WorkplaceArgs,
    /// Check everything and say what judging would take, but ask nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `quarry judge run`.
///
/// # Errors
/// When something is wrong that concerns all pairs. What was answered before is in the ledger.
pub fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let plan = args.plan.open()?;
    let stop = stop_on_interrupt()?;
    let judging = args.workplace.prepare(plan, &stop)?;
    let estimate = judging.estimate()?;
    output::note(&format_estimate(&estimate, judging.plan()));
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let bar = progress_bar(estimate.pairs);
    let result = judging.run(&stop, &|_| {
        bar.set_message(judging.spent().to_string());
        bar.inc(1);
    });
    bar.finish_and_clear();
    let (ledger, judge) = judging.ledger();
    status::print(ledger, judge, judging.plan(), args.json)?;
    result?;
    if let Some((id, reason)) = judging.unjudged()? {
        bail!(
            "there are pairs without a verdict, such as {id}: {reason}; `quarry judge run` tries them again, and \
             `quarry judge status` counts the reasons"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// How far the work is, how fast, for how much, and how long it will take.
fn progress_bar(n_pairs: u64) -> ProgressBar {
    let template = "judging {bar:30} {human_pos}/{human_len} {per_sec}, {msg}, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(n_pairs).with_style(style).with_message("0 tokens")
}

fn format_estimate(estimate: &Estimate, plan: &Plan) -> String {
    let Estimate { pairs, first, typical } = estimate;
    if *pairs == 0 {
        return "every pair has its verdict; nothing is asked".to_owned();
    }
    let mut text = format!("{pairs} pairs to judge");
    if plan.is_replay() {
        return text + ", by a recording: nothing is paid";
    }
    text += &format!(
        "; the next question of each: {} calls, at most {} with one attempt each",
        first.calls, first.worst
    );
    if first.stored > 0 {
        text += &format!(", and {} stored answers", first.stored);
    }
    text += &format!("; in all about {typical}, if these pairs are like those of CoSQA+");
    text
}
