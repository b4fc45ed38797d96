//! `quarry eval repo-search`: the protocol of this name, with times and categories of questions.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use quarry_corpus::formats::repo_search as format;
use quarry_eval::reading::trees::ask_table;
use quarry_eval::repo_search;
use quarry_eval::spans::MEASURE;
use quarry_metrics::significance::{Bootstrap, Interval};
use quarry_metrics::table::{Sections, Table};
use serde::Serialize;

use super::arguments::{BootstrapArgs, MethodArgs, OutputArgs, ReposArgs};
use super::reading::{self, PolicyArgs};
use crate::eval::shown;
use crate::new_file;
use crate::progress;

/// Arguments of `quarry eval repo-search`.
#[derive(Debug, Args)]
#[command(mut_arg("repos", |repos| repos.required(true)))]
pub struct RepoSearchArgs {
    /// Table with the columns repo, revision, root, category, query, relevant, secondary
    #[arg(value_name = "TSV")]
    table: PathBuf,
    #[command(flatten)]
    repos: ReposArgs,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

pub fn run(args: &RepoSearchArgs) -> anyhow::Result<()> {
    // Vectors from a cache would make indexing look fast.
    let models = args.method.models()?.without_cache();
    let bootstrap = args.bootstrap.resolve();
    let repositories = format::read(&args.table)?;
    let bar = progress::Progress::new("searching", repositories.len());
    let method = &args.method.method;
    if args.policy.is_given() {
        let reads =
            ask_table(&repositories, &args.repos.directories, method, &models, &mut |tree, questions| {
                bar.inc(1);
                reading::ask(&args.policy, tree, questions)
            })?;
        bar.finish_and_clear();
        return reading::print(&args.policy, &args.table, &reads, &args.output, &bootstrap);
    }
    let scores =
        repo_search::evaluate(&repositories, &args.repos.directories, method, &models, |_| bar.inc(1))?;
    bar.finish_and_clear();
    if let Some(path) = &args.output.per_query {
        new_file::write_records(path, scores.repositories.iter().flat_map(|repository| &repository.queries))?;
    }
    let report = RepoSearchReport {
        dataset: shown::file_name(&args.table),
        method: method.to_string(),
        summary: scores.summary(&bootstrap)?,
        model: scores.model,
        bootstrap,
    };
    args.output.layout.print(&report, || sections(&report))
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RepoSearchReport {
    /// Name of the data set.
    dataset: String,
    /// The method.
    method: String,
    /// Identity of the method's model and its weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(flatten)]
    summary: repo_search::Summary,
    /// Resampling for intervals and p-values.
    bootstrap: Bootstrap,
}

fn sections(report: &RepoSearchReport) -> Sections {
    let repo_search::Summary { queries, metrics, intervals, repositories, categories, query_ms } =
        &report.summary;
    let measure = MEASURE.to_string();
    let mut table =
        Table::new(["repository", "queries", &measure, "interval", "units", "index ms", "query ms"]);
    let cells = |metrics: &BTreeMap<String, f64>, intervals: &BTreeMap<String, Interval>| {
        [format!("{:.4}", metrics[&measure]), shown::format_interval(intervals[&measure])]
    };
    for repository in repositories {
        let repo_search::RepositorySummary { name, queries, metrics, intervals, units, index_ms, query_ms } =
            repository;
        let [value, interval] = cells(metrics, intervals);
        let times = [format!("{index_ms:.1}"), format!("{query_ms:.2}")];
        table.push(
            [name.clone(), queries.to_string(), value, interval, units.to_string()].into_iter().chain(times),
        );
    }
    let [value, interval] = cells(metrics, intervals);
    let empty = String::new;
    table.push([
        "mean".into(),
        queries.to_string(),
        value,
        interval,
        empty(),
        empty(),
        format!("{query_ms:.2}"),
    ]);
    for (category, value) in categories {
        table.push([category.clone(), empty(), format!("{value:.4}")]);
    }
    Sections::new().text(format!("{}, {}", report.dataset, report.method)).table(table)
}
