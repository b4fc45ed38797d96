//! `quarry judge run --reread`.

use std::fmt::Write as _;

use quarry_judge::ledger::ChangedLabel;
use quarry_judge::{RereadSummary, reread};
use quarry_text::counted;

use super::RunArgs;
use crate::output;

pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let (plan, _copy) = args.plan.open_for(args.dry_run)?;
    let found = reread(&plan)?;
    if args.layout.is_json() {
        output::print_json(&found)?;
    } else {
        output::print(&text(&found, &args.plan.plan.display().to_string()))?;
    }
    Ok(())
}

fn text(found: &RereadSummary, plan: &str) -> String {
    let RereadSummary { read, same, changed } = found;
    if *read == 0 && *same == 0 && changed.is_empty() {
        return "this plan has no labels from an earlier version; nothing to reinterpret\n".to_owned();
    }
    let waiting = changed.iter().filter(|label| label.now.is_none()).count();
    let mut text = format!(
        "reinterpreted the evidence of {}; labels: {same} unchanged, {} changed, {waiting} waiting\n",
        counted(*read, "pair"),
        changed.len() - waiting
    );
    for ChangedLabel { pair, before, now, reason } in changed {
        let now = now.map_or("waiting", |now| now.name());
        let _ = writeln!(
            text,
            "  {}: {} before, {now} now: {}",
            output::printable(pair),
            before.name(),
            output::printable(reason)
        );
    }
    if waiting > 0 {
        let _ = writeln!(text, "`quarry judge run {plan}` continues with those that are waiting");
    }
    text
}
