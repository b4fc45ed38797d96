//! `quarry data report --against`: what differs between two builds.

use std::path::Path;

use quarry_build::{Comparison, Damage, StepChange, compare};

use crate::eval::arguments::LayoutArgs;
use crate::output;

pub fn run(first: &Path, second: &Path, layout: &LayoutArgs) -> anyhow::Result<()> {
    let comparison = compare(first, second)?;
    if layout.is_json() {
        return output::print_json(&comparison);
    }
    Ok(output::print(&text(&comparison))?)
}

fn text(comparison: &Comparison) -> String {
    let Comparison { same, changed, pairs_removed, pairs_added, pairs_relabelled, files_changed, damaged } =
        comparison;
    let mut text = String::new();
    if !same.is_empty() {
        text += &format!("the same: {}\n", same.join(", "));
    }
    for StepChange { name, counts, is_in } in changed {
        let number = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let counts: Vec<String> = (counts.iter())
            .map(|(name, [one, other])| format!("{name} {} -> {}", number(*one), number(*other)))
            .collect();
        let place = match is_in {
            [true, false] => "only in the first".to_owned(),
            [false, true] => "only in the second".to_owned(),
            _ if counts.is_empty() => "different input or parameters, same counts".to_owned(),
            _ => counts.join(", "),
        };
        text += &format!("{name}: {place}\n");
    }
    for (which, damaged) in ["the first", "the second"].iter().zip(damaged) {
        for Damage { path, kind } in damaged {
            text += &format!("{path} of {which} {kind} since; build it again\n");
        }
    }
    if !files_changed.is_empty() {
        text += &format!("files that differ: {}\n", files_changed.join(", "));
    }
    text + &format!(
        "labeled pairs: {pairs_removed} removed, {pairs_added} added, {pairs_relabelled} with a different label\n"
    )
}
