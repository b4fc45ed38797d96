//! `quarry judge run`.

use std::process::ExitCode;

use anyhow::bail;
use quarry_annotate::{CostView, Estimate, Judging};
use quarry_llm::Money;
use serde::Serialize;

use super::{RunArgs, status, stop_on_interrupt};
use crate::output;
use crate::progress::Progress;

/// Runs `quarry judge run`.
///
/// # Errors
/// When something is wrong that concerns all pairs. What was answered before is in the ledger.
pub fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let (plan, _copy) = args.plan.open_for(args.dry_run)?;
    let stop = stop_on_interrupt()?;
    let judging = args.workplace.prepare(plan, &stop, args.dry_run)?;
    let estimate = judging.estimate()?;
    output::note(&format_estimate(&estimate, &judging));
    if args.dry_run {
        if args.layout.is_json() {
            output::print_json(&JudgeEstimate::of(&estimate, &judging))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let bar = Progress::new("judging", usize::try_from(estimate.pairs).unwrap_or(usize::MAX));
    let result = judging.run(&stop, &|_| {
        bar.set_detail(&judging.spent().to_string());
        bar.inc(1);
    });
    bar.finish_and_clear();
    let (ledger, judge) = judging.ledger();
    status::print(ledger, judge, judging.plan(), &args.layout)?;
    result?;
    if let Some((id, reason)) = judging.unjudged()? {
        bail!(
            "some pairs have no verdict, such as {id}: {reason}; `quarry judge run` retries them, and `quarry judge \
             status` counts the reasons"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// What a run would do and cost.
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
    /// What the budget of the plan leaves; null without a limit.
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
    fn of(estimate: &Estimate, judging: &Judging) -> Self {
        let Estimate { pairs, first, programs, typical } = estimate;
        let (tokens, money) = judging.left();
        Self {
            pairs: *pairs,
            calls: first.calls,
            stored_answers: first.stored,
            programs: *programs,
            worst_of_next_calls: CostView::of(&first.worst),
            typical_of_all_calls: CostView::of(typical),
            budget_left: BudgetLeft { tokens, dollars: money.map(Money::dollars) },
        }
    }
}

fn format_estimate(estimate: &Estimate, judging: &Judging) -> String {
    let Estimate { pairs, first, programs, typical } = estimate;
    let plan = judging.plan();
    if *pairs == 0 {
        return "every pair has a verdict; nothing to ask".to_owned();
    }
    let mut text = match plan.members.len() {
        0 => format!("{} to judge", counted(*pairs as usize, "pair")),
        members => format!("{} of {members} members to go", counted(*pairs as usize, "verdict")),
    };
    if plan.is_replay() {
        return text + ", from a recording, at no cost";
    }
    let mut next = vec![counted(first.calls, "call")];
    if first.calls > 0 {
        next[0] += &format!(" for at most {}, with the longest answers and one attempt each", first.worst);
    }
    if first.stored > 0 {
        next.push(counted(first.stored, "stored answer"));
    }
    if *programs > 0 {
        next.push(format!("{} to run", counted(*programs as usize, "program")));
    }
    let usual = if plan.judge.runs_tests() { ", if every third pair needs tests as in CoSQA+" } else { "" };
    let (tokens, money) = judging.left();
    let left: Vec<String> = tokens
        .map(|tokens| format!("{tokens} tokens"))
        .into_iter()
        .chain(money.map(|money| money.to_string()))
        .collect();
    let is_short =
        tokens.is_some_and(|left| left < typical.tokens) || money.is_some_and(|left| left < typical.money);
    let budget = match left.is_empty() {
        true => "no `[budget]` limits the cost".to_owned(),
        false => format!("leaves {}{}", left.join(", "), if is_short { ", which is less" } else { "" }),
    };
    let asks = plan.asked().join(", ");
    for (name, what) in [
        ("next", next.join(", ")),
        ("in all", format!("about {typical}{usual}")),
        ("budget", budget),
        ("asks", asks),
    ] {
        text += &format!("\n  {name:<8}{what}");
    }
    text
}

/// So many of something whose plural ends in s.
fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
