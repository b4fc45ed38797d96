//! `quarry data intent`: which queries look for code.

pub mod study;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use quarry_build::{Intents, for_each_query};
use quarry_metrics::table::{Sections, Table};
use serde::Serialize;

use crate::eval::arguments::LayoutArgs;

/// Arguments of `quarry data intent`.
#[derive(Debug, Args)]
pub struct IntentArgs {
    /// Files of queries: one query per line (.txt), or any format that holds queries or pairs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print each query that does not look for code, with its category and the keyword that decided
    #[arg(long)]
    explain: bool,
    /// Write a form instead, a CSV file, in which people state the category of each query
    #[arg(long, value_name = "OUT", conflicts_with_all = ["explain", "labels"])]
    form: Option<PathBuf>,
    /// Number of queries to draw for the form
    #[arg(long, value_name = "N", default_value_t = 250, requires = "form", value_parser = crate::settings::at_least_one)]
    sample: usize,
    /// Treat the files as forms that people filled in: report how well the rules agree with them
    #[arg(long, conflicts_with = "explain")]
    labels: bool,
    /// Seed for drawing queries
    #[arg(long, value_name = "SEED", default_value_t = 42)]
    seed: u64,
    #[command(flatten)]
    layout: LayoutArgs,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct IntentReport<'a> {
    /// Number of queries.
    queries: usize,
    /// Queries that look for code.
    look_for_code: usize,
    /// Queries that do not look for code.
    categories: BTreeMap<&'a str, usize>,
}

pub fn run(args: &IntentArgs) -> anyhow::Result<()> {
    if let Some(form) = &args.form {
        return study::write_form(&args.files, form, args.sample, args.seed);
    }
    if args.labels {
        return study::report(&args.files, &args.layout);
    }
    let intents = Intents::builtin();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut explained = String::new();
    let (mut n_queries, mut n_kept) = (0_usize, 0_usize);
    for file in &args.files {
        let n_before = n_queries;
        for_each_query(file, &mut |query| {
            if query.trim().is_empty() {
                return;
            }
            n_queries += 1;
            match intents.find(query) {
                None => n_kept += 1,
                Some(finding) => {
                    *counts.entry(finding.category).or_default() += 1;
                    if args.explain {
                        explained +=
                            &format!("{}\t{}\t{}\n", finding.category, finding.keyword, query.trim());
                    }
                }
            }
        })?;
        anyhow::ensure!(
            n_queries > n_before,
            "{}: expected queries, found none; name a file with one query per line, or a data set",
            file.display()
        );
    }
    let report = IntentReport { queries: n_queries, look_for_code: n_kept, categories: counts };
    args.layout.print(&report, || {
        let share = |count: usize| format!("{:.1}", 100.0 * count as f64 / n_queries.max(1) as f64);
        let mut table = Table::new(["category", "queries", "%"]);
        table.push(["looks for code".to_owned(), n_kept.to_string(), share(n_kept)]);
        for (category, count) in &report.categories {
            table.push([(*category).to_owned(), count.to_string(), share(*count)]);
        }
        Sections::new().text(explained).table(table)
    })
}
