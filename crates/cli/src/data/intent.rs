//! `quarry data intent`: which queries look for code.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use quarry_factory::{Intents, for_each_query};

use crate::output;

/// Arguments of `quarry data intent`.
#[derive(Debug, Args)]
pub struct IntentArgs {
    /// Files of queries: a query a line (.txt), or any format that holds queries or pairs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print each query that does not look for code, with its category and the keyword that says so
    #[arg(long)]
    explain: bool,
}

/// Counts the queries of each category.
///
/// # Errors
/// When a file cannot be read.
pub fn run(args: &IntentArgs) -> anyhow::Result<ExitCode> {
    let intents = Intents::builtin();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut explained = String::new();
    let (mut n_queries, mut n_kept) = (0_usize, 0_usize);
    for file in &args.files {
        for_each_query(file, &mut |query| {
            if query.trim().is_empty() {
                return;
            }
            n_queries += 1;
            match intents.find(query) {
                None => n_kept += 1,
                Some(finding) => {
                    *counts.entry(finding.category).or_default() += 1;
                    explained += &format!("{}\t{}\t{}\n", finding.category, finding.keyword, query.trim());
                }
            }
        })?;
    }
    if args.explain {
        output::print(&explained)?;
    }
    let share =
        |count: usize| 100.0 * count as f64 / f64::from(u32::try_from(n_queries.max(1)).unwrap_or(u32::MAX));
    let mut text = format!("{:<22}{n_kept:>9}{:>7.1} %\n", "looks for code", share(n_kept));
    for (category, count) in counts {
        text += &format!("{category:<22}{count:>9}{:>7.1} %\n", share(count));
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
