//! Judging with an estimate, a progress bar and the money spent, the same for `quarry judge run` and `quarry data build`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use indicatif::HumanDuration;
use quarry_judge::{Estimate, JudgeError, Judging};
use quarry_text::counted;

use crate::output;
use crate::progress::Progress;

pub fn run_with_progress(
    judging: &Judging,
    estimate: &Estimate,
    stop: &AtomicBool,
) -> Result<(), JudgeError> {
    output::note(&format_estimate(estimate, judging));
    let bar = Progress::new("judging", usize::try_from(estimate.pairs).unwrap_or(usize::MAX));
    bar.set_detail(&judging.spent().to_string());
    judging.run(stop, &|_| {
        bar.set_detail(&judging.spent().to_string());
        bar.inc(1);
    })
}

pub fn format_estimate(estimate: &Estimate, judging: &Judging) -> String {
    let Estimate { pairs, first, programs, typical, .. } = estimate;
    let plan = judging.plan();
    if *pairs == 0 {
        return "every pair has a verdict; nothing to ask".to_owned();
    }
    let mut text = match plan.members.len() {
        0 => format!("{} to judge", counted(*pairs, "pair")),
        members => format!("{} of {members} members to go", counted(*pairs, "verdict")),
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
        next.push(format!("{} to run", counted(*programs, "program")));
    }
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
        ("in all", format!("{}{}", typical_cost(estimate), basis(estimate, plan.judge.runs_tests()))),
        ("budget", budget),
        ("asks", asks),
    ] {
        text += &format!("\n  {name:<8}{what}");
    }
    text
}

pub fn typical_cost(estimate: &Estimate) -> String {
    let Estimate { typical, seconds, .. } = estimate;
    let duration = Duration::try_from_secs_f64(seconds.ceil()).unwrap_or(Duration::MAX);
    format!("about {typical}, {:#}", HumanDuration(duration))
}

/// The basis of [`typical_cost`], after a comma.
pub fn basis(estimate: &Estimate, runs_tests: bool) -> String {
    match estimate.measured {
        0 if runs_tests => ", at 2 s per answer, if every third pair needs tests as in CoSQA+".to_owned(),
        0 => ", at 2 s per answer".to_owned(),
        measured => format!(", by the {} judged so far", counted(measured, "pair")),
    }
}
