//! `quarry data check --leaks`: what data sets share, such as the parts of a build and a public test set.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use quarry_corpus::dataset::dedupe::{ComparedText, Duplicate, Overlap, overlap};
use quarry_corpus::formats::source::Source;
use quarry_factory::parts_of_build;
use quarry_metrics::table::{Sections, Table};
use serde::Serialize;

use super::Inputs;
use crate::eval::arguments::LayoutArgs;

/// What of data sets is compared.
#[derive(Debug, Args)]
pub struct LeaksArgs {
    /// Instead report what any two data sets share, such as the parts of a build and a public test set; each PATH is
    /// one data set, or for a build its parts. The exit code is 1 if they share anything
    #[arg(long)]
    pub leaks: bool,
    /// Minimum similarity of near-duplicates: Jaccard index of their sets of three consecutive identifiers
    #[arg(long, value_name = "S", default_value_t = 0.8, requires = "leaks")]
    threshold: f64,
    #[command(flatten)]
    pub layout: LayoutArgs,
}

/// What data sets share.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Leaks"))]
pub struct LeakList {
    /// Each pair of data sets, in both directions, by what is compared.
    leaks: Vec<Leak>,
}

/// The texts of one data set that another contains.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Leak {
    /// The data set whose texts are looked for.
    of: String,
    /// The data set that is searched for them.
    within: String,
    /// Which texts.
    on: &'static str,
    /// Distinct texts of the first.
    texts: usize,
    /// Those that the other contains, ignoring white space and comments.
    same: usize,
    /// Those that it contains exactly or nearly.
    near: usize,
    /// The first of these.
    examples: Vec<Example>,
}

/// A text and its match in the other data set, both as `file:line`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Example {
    /// The row, as `file:line`.
    row: String,
    /// The row of the other data set.
    same_as: String,
}

/// Compares every two data sets; the exit status is 1 where two share something.
///
/// # Errors
/// When a file is missing or wrong, or there are not two data sets.
pub fn run(args: &LeaksArgs, inputs: &Inputs, paths: &[PathBuf], limit: usize) -> anyhow::Result<ExitCode> {
    if !(args.threshold > 0.0 && args.threshold <= 1.0) {
        bail!("--threshold {}: expected a similarity over 0 and at most 1", args.threshold);
    }
    let mut sets: Vec<(String, Vec<Source>)> = Vec::new();
    for path in paths {
        let parts = parts_of_build(path)?;
        for (name, file) in &parts {
            let sources = inputs.sources(std::slice::from_ref(file))?;
            sets.push((format!("{} of {}", name, path.display()), sources));
        }
        if parts.is_empty() {
            sets.push((path.display().to_string(), inputs.sources(std::slice::from_ref(path))?));
        }
    }
    if sets.len() < 2 {
        bail!("expected two data sets to compare, or a build, found one: {}", sets[0].0);
    }
    let mut leaks = Vec::new();
    for (number, (of, ours)) in sets.iter().enumerate() {
        for (other, (within, theirs)) in sets.iter().enumerate() {
            if number == other {
                continue;
            }
            for (on, side) in [("query", ComparedText::Query), ("code", ComparedText::Code)] {
                let Overlap { texts, same, near, examples } =
                    overlap(ours, theirs, (args.threshold, side), limit)?;
                let examples =
                    examples.into_iter().map(|Duplicate { row, same_as, .. }| Example { row, same_as });
                leaks.push(Leak {
                    of: of.clone(),
                    within: within.clone(),
                    on,
                    texts,
                    same,
                    near,
                    examples: examples.collect(),
                });
            }
        }
    }
    let is_clean = leaks.iter().all(|leak| leak.near == 0);
    let list = LeakList { leaks };
    args.layout.print(&list, || {
        let mut table =
            Table::new(["of", "in", "on", "texts", "same", "same or near", "%"]).align_left([1, 2]);
        let mut examples = String::new();
        for leak in &list.leaks {
            table.push([
                leak.of.clone(),
                leak.within.clone(),
                leak.on.to_owned(),
                leak.texts.to_string(),
                leak.same.to_string(),
                leak.near.to_string(),
                format!("{:.1}", 100.0 * leak.near as f64 / leak.texts.max(1) as f64),
            ]);
            for Example { row, same_as } in &leak.examples {
                examples.push_str(&format!("{} {row} is the same as {same_as}\n", leak.on));
            }
        }
        Sections::new().text(examples).table(table)
    })?;
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
