//! `quarry judge run`.

use anyhow::bail;
use quarry_eval::protocol::discrepancy;
use quarry_judge::{CostView, Estimate, Judging};
use quarry_llm::Money;
use serde::Serialize;

use super::{RunArgs, status, stop_on_interrupt};
use crate::data::judging::{format_estimate, run_with_progress};
use crate::output;

pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let (plan, _copy) = args.plan.open_for(args.dry_run)?;
    let stop = stop_on_interrupt()?;
    let judging = args.workplace.prepare(plan, &stop, args.dry_run)?;
    let estimate = judging.estimate()?;
    if let Some(wording) = discrepancy("W1") {
        output::note(&format!("differs from the papers ({}): {}", wording.number, wording.about));
    }
    if args.dry_run {
        output::note(&format_estimate(&estimate, &judging));
        if args.layout.is_json() {
            output::print_json(&JudgeEstimate::new(&estimate, &judging))?;
        }
        return Ok(());
    }
    let result = run_with_progress(&judging, &estimate, &stop);
    let (ledger, judge) = judging.ledger();
    status::print(ledger, judge, judging.plan(), &args.layout)?;
    result?;
    if let Some((id, reason)) = judging.unjudged()? {
        bail!(
            "some pairs have no verdict, such as {id}: {reason}; `quarry judge run` retries them, and `quarry judge \
             status` counts the reasons"
        );
    }
    Ok(())
}

/// Estimated work and cost of a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JudgeEstimate {
    /// Pairs, or verdicts of members, still to be judged.
    pairs: u64,
    /// First calls of models.
    calls: usize,
    /// Answers that are already stored.
    stored_answers: usize,
    /// Programs to run.
    programs: u64,
    /// Maximum cost of the first calls.
    worst_of_next_calls: CostView,
    /// Typical cost of all calls.
    typical_of_all_calls: CostView,
    /// Their typical duration in seconds.
    typical_seconds: f64,
    /// Number of judged pairs by which these are estimated; 0 if they are assumed.
    estimated_from_pairs: u64,
    /// Remaining budget of the plan; null without a limit.
    budget_left: BudgetLeft,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct BudgetLeft {
    /// Tokens that are left.
    tokens: Option<u64>,
    /// Dollars that are left.
    dollars: Option<f64>,
}

impl JudgeEstimate {
    fn new(estimate: &Estimate, judging: &Judging) -> Self {
        let Estimate { pairs, first, programs, typical, seconds, measured } = estimate;
        let (tokens, money) = judging.left();
        Self {
            pairs: *pairs,
            calls: first.calls,
            stored_answers: first.stored,
            programs: *programs,
            worst_of_next_calls: CostView::from(&first.worst),
            typical_of_all_calls: CostView::from(typical),
            typical_seconds: *seconds,
            estimated_from_pairs: *measured,
            budget_left: BudgetLeft { tokens, dollars: money.map(Money::dollars) },
        }
    }
}
