//! `quarry eval repo-search`: questions about whole repositories.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use quarry_corpus::formats::repo_search as format;
use quarry_eval::method::ModelName;
use quarry_eval::repo_search;
use quarry_eval::significance::Bootstrap;
use serde::Serialize;

use super::arguments::{BootstrapArgs, MethodArgs, OutputArgs};
use crate::output;

#[derive(Debug, Args)]
pub struct RepoSearchArgs {
    /// Table with the columns repo, revision, root, category, query, relevant, secondary
    #[arg(value_name = "TSV")]
    table: PathBuf,
    /// Folder with a folder REPO for each repository: `git archive REVISION -- ROOT | tar -x -C DIR/REPO`
    #[arg(long, value_name = "DIR")]
    repos: PathBuf,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

/// Runs `quarry eval repo-search`.
///
/// # Errors
/// When the table or a checkout is missing or wrong, or the method fails.
pub fn run(args: &RepoSearchArgs) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct RepositoryReport {
        dataset: String,
        method: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(flatten)]
        summary: repo_search::Summary,
        bootstrap: Bootstrap,
    }
    // Vectors from a cache would make indexing look fast.
    let models = args.method.models()?.without_cache();
    let bootstrap = args.bootstrap.resolve()?;
    let repositories = format::read(&args.table)?;
    let bar = output::progress_bar("searching", repositories.len());
    let method = &args.method.method;
    let load = |name: ModelName<'_>| models.load(name);
    let scores = repo_search::evaluate(&repositories, &args.repos, method, &load, |_| bar.inc(1))?;
    bar.finish_and_clear();
    if let Some(path) = &args.output.per_query {
        output::write_json_lines(
            path,
            scores.repositories.iter().flat_map(|repository| &repository.queries),
        )?;
    }
    let report = RepositoryReport {
        dataset: output::file_name(&args.table),
        method: method.to_string(),
        summary: scores.summary(&bootstrap)?,
        model: scores.model,
        bootstrap,
    };
    if args.output.json {
        return output::print_json(&report);
    }
    let repo_search::Summary { queries, metrics, intervals, repositories, categories, query_ms } =
        &report.summary;
    let measure = repo_search::MEASURE.to_string();
    let mut text = format!(
        "{}, {}\n{:<16} {:>7} {:>7}  {:<16}  {:>6} {:>9} {:>9}\n",
        report.dataset,
        report.method,
        "repository",
        "queries",
        measure,
        "interval",
        "units",
        "index ms",
        "query ms"
    );
    for repository in repositories {
        let repo_search::RepositorySummary { name, queries, metrics, intervals, units, index_ms, query_ms } =
            repository;
        let (value, interval) = (metrics[&measure], output::format_interval(intervals[&measure]));
        let _ = writeln!(
            text,
            "{name:<16} {queries:>7} {value:>7.4}  {interval:<16}  {units:>6} {index_ms:>9.1} {query_ms:>9.2}"
        );
    }
    let (value, interval) = (metrics[&measure], output::format_interval(intervals[&measure]));
    let _ = writeln!(
        text,
        "{:<16} {queries:>7} {value:>7.4}  {interval:<16}  {:>6} {:>9} {query_ms:>9.2}",
        "mean", "", ""
    );
    for (category, value) in categories {
        let _ = writeln!(text, "{category:<16} {:>7} {value:>7.4}", "");
    }
    Ok(output::print(&text)?)
}
