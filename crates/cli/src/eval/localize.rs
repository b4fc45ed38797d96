//! `quarry eval localize`: from issues to the functions, classes and files that their fixes changed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use quarry_corpus::formats::localize::{self as format, Issue};
use quarry_eval::localize::entity::Level;
use quarry_eval::localize::lines::LinesSummary;
use quarry_eval::localize::report::{LocalizeReport, Summaries, compared, issue_lines, report};
use quarry_eval::localize::{Directories, Localizer, localize};
use quarry_eval::reading::trees::ask_issues;
use quarry_index::{Filter, Index, RankingWeights};
use quarry_metrics::significance::Bootstrap;
use quarry_metrics::table::{Sections, Table};
use quarry_session::context::{ContextRequest, context};
use quarry_text::counted;
use quarry_walk::FileFlags;
use serde::Serialize;
use tempfile::TempDir;

use super::arguments::{BootstrapArgs, BuiltinModelArgs, OutputArgs};
use super::compare;
use super::models::ModelArgs;
use super::plan::write_page;
use super::reading::{self, PolicyArgs};
use crate::eval::shown;
use crate::{new_file, output, progress};

/// Arguments of `quarry eval localize`.
#[derive(Debug, Args)]
pub struct LocalizeArgs {
    /// Issues, one JSON object per line: id, repository (OWNER/NAME), commit, text, functions (path:Class.method) or lines
    /// (path, start, end), files, source
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Directory with local clones, bare or not, named OWNER/NAME, OWNER+NAME, OWNER__NAME or NAME; may be repeated:
    /// the first that contains a repository is used
    #[arg(long = "repos", value_name = "MIRRORS", required = true)]
    mirrors: Vec<PathBuf>,
    /// grep (functions around matches of the rarest words), bm25, static, fast or hybrid, best, the path of a
    /// model, or a method that ranks documents, as bm25-lucene, over all functions; may be repeated: the others are
    /// compared with the first
    #[arg(long = "method", value_name = "METHOD", default_value = "hybrid")]
    methods: Vec<Localizer>,
    /// Keep trees and indexes in DIR, which later runs reuse; remove it when the program has changed
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Only use issues of this repository; may be repeated
    #[arg(long = "repository", value_name = "OWNER/NAME")]
    repositories: Vec<String>,
    /// Only use issues of this source; may be repeated
    #[arg(long = "source", value_name = "NAME")]
    sources: Vec<String>,
    /// Use at most N issues, drawn evenly from sources and repositories
    #[arg(long, value_name = "N", value_parser = crate::settings::at_least_one)]
    limit: Option<usize>,
    /// Also write an HTML page that shows the first results for each issue
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Also write the candidates of the first method with their features, one JSON object for each issue, from which
    /// `bench/fit_issues.py` fits the ranking of issues
    #[arg(long, value_name = "FILE")]
    features: Option<PathBuf>,
    #[command(flatten)]
    model: BuiltinModelArgs,
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "LocalizeReport"))]
pub struct Printed<'a> {
    /// Name of the data set.
    dataset: String,
    #[serde(flatten)]
    report: &'a LocalizeReport,
    /// Resampling for intervals and p-values.
    bootstrap: Bootstrap,
    /// Time in milliseconds.
    took_ms: f64,
}

pub fn run(args: &LocalizeArgs) -> anyhow::Result<()> {
    let start = Instant::now();
    let bootstrap = args.bootstrap.resolve();
    let issues = args.chosen(format::read(&args.file)?)?;
    let models = args.models.resolve(args.model.path.clone())?;
    let (_temporary, work) = work_directory(args.work.as_deref())?;
    let places = Directories {
        mirrors: &args.mirrors,
        work: &work,
        features: args.features.is_some(),
        shown: Some(&shown_units),
    };
    let bar = progress::Progress::new("issues", issues.len());
    bar.show();
    if args.policy.is_given() {
        let method = match args.methods.as_slice() {
            [Localizer::Method(method)] => method,
            _ => bail!("--policy requires a single --method that searches, such as hybrid or best"),
        };
        let reads = ask_issues(&issues, method, places, &models, &|| bar.inc(1), &mut |tree, questions| {
            reading::ask(&args.policy, tree, questions)
        })?;
        bar.finish_and_clear();
        return reading::print(&args.policy, &args.file, &reads, &args.output, &bootstrap);
    }
    let outcome = localize(&issues, &args.methods, places, &models, &|| bar.inc(1))?;
    bar.finish_and_clear();
    models.report_spending();
    let report = report(&issues, &args.methods, &outcome, &bootstrap)?;
    note_left_out(&report);
    let methods: Vec<String> = args.methods.iter().map(ToString::to_string).collect();
    if let Some(path) = &args.output.per_query {
        new_file::write_records(path, issue_lines(&issues, &methods, &outcome))?;
    }
    if let Some(path) = &args.features {
        new_file::write_json_lines(path, outcome.features.iter())?;
    }
    let dataset = shown::file_name(&args.file);
    if let Some(path) = &args.page {
        let tables = Level::ALL.map(|level| level_table(&report, level));
        let title = format!("Issues of {dataset}");
        write_page(path, &outcome.page(&title, &issues, &methods, &tables))?;
    }
    let took_ms = quarry_session::milliseconds(start.elapsed());
    let printed = Printed { dataset, report: &report, bootstrap, took_ms };
    args.output.layout.print(&printed, || sections(&printed.dataset, &report))
}

/// The units that `quarry context` shows in full.
fn shown_units(index: &Index, text: &str, max_tokens: usize) -> Result<Vec<usize>, quarry_index::Error> {
    let filter = Filter::default().without(FileFlags::TEST | FileFlags::DOCUMENTATION);
    let request = ContextRequest {
        query: text,
        filter: &filter,
        ranking: &RankingWeights::default(),
        max_tokens,
        prefixes: &[],
    };
    Ok(context(index, &request)?.shown)
}

impl LocalizeArgs {
    fn chosen(&self, mut issues: Vec<Issue>) -> anyhow::Result<Vec<Issue>> {
        let is_among = |names: &[String], name: &String| names.is_empty() || names.contains(name);
        issues.retain(|issue| {
            is_among(&self.repositories, &issue.repository) && is_among(&self.sources, &issue.source)
        });
        if issues.is_empty() {
            bail!(
                "{}: expected issues of the named repositories and sources, found none; check --repository and \
                 --source",
                self.file.display()
            );
        }
        let Some(limit) = self.limit.filter(|limit| *limit < issues.len()) else { return Ok(issues) };
        issues.sort_by(|a, b| (&a.source, &a.repository).cmp(&(&b.source, &b.repository)));
        let n = issues.len();
        let is_drawn = |position: usize| (position + 1) * limit / n > position * limit / n;
        Ok(issues.into_iter().enumerate().filter(|(at, _)| is_drawn(*at)).map(|(_, issue)| issue).collect())
    }
}

/// The directory that is named, which is created; else a temporary one, which is removed when it is dropped.
pub(super) fn work_directory(named: Option<&Path>) -> anyhow::Result<(Option<TempDir>, PathBuf)> {
    match named {
        Some(path) => {
            std::fs::create_dir_all(path).with_context(|| new_file::cannot_write(path))?;
            Ok((None, path.to_owned()))
        }
        None => {
            let temporary = tempfile::tempdir().context("a temporary directory cannot be created")?;
            let path = temporary.path().to_owned();
            Ok((Some(temporary), path))
        }
    }
}

fn note_left_out(report: &LocalizeReport) {
    for (reason, count) in &report.left_out {
        output::note(&format!("left out {} {}", counted(*count, "issue"), reason.about()));
    }
    if report.absent_gold > 0 {
        let functions = counted(report.absent_gold, "gold function");
        output::note(&format!("left out {functions} of the other issues: not in the tree before the fix"));
    }
    if report.unread_files > 0 {
        let files = counted(report.unread_files, "file");
        output::note(&format!(
            "skipped {files} over all commits: too large, alone or together, or missing in the clone"
        ));
    }
}

const SHOWN: [&str; 9] =
    ["acc@1", "acc@3", "acc@5", "acc@10", "acc@20", "success@10", "mrr", "ndcg@10", "recall@10"];

/// The measure whose interval is shown.
const MAIN: &str = "acc@10";

fn level_table(report: &LocalizeReport, level: Level) -> Table {
    let interval = format!("interval of {MAIN}");
    let mut table = Table::new([level.name()].into_iter().chain(SHOWN).chain([interval.as_str()]));
    for method in &report.methods {
        table.push(std::iter::once(method.method.clone()).chain(cells(&method.all, level, &SHOWN)));
    }
    table
}

fn lines_table(report: &LocalizeReport) -> Option<Table> {
    let rows: Vec<(&str, &LinesSummary)> =
        report.methods.iter().filter_map(|of| Some((of.method.as_str(), of.all.lines.as_ref()?))).collect();
    let names: Vec<&str> = rows.first()?.1.metrics.keys().map(String::as_str).collect();
    let mut table = Table::new(["lines", "issues"].into_iter().chain(names.iter().copied()));
    for (method, LinesSummary { issues, metrics }) in rows {
        let values = names.iter().map(|name| shown::format_defined(metrics.get(*name).copied()));
        table.push([method.to_owned(), issues.to_string()].into_iter().chain(values));
    }
    Some(table)
}

/// Means of measures at a level, and the interval of the main one.
fn cells<'a>(
    summaries: &'a Summaries,
    level: Level,
    measures: &'a [&'a str],
) -> impl Iterator<Item = String> + 'a {
    let summary = summaries.get(level);
    let mean = move |measure: &&str| shown::format_defined(summary.metrics.get(*measure).copied());
    let interval = summary.intervals.get(MAIN).map(|interval| shown::format_interval(*interval));
    measures.iter().map(mean).chain([interval.unwrap_or_default()])
}

fn groups_table(report: &LocalizeReport) -> Table {
    const FUNCTIONS: [&str; 5] = ["acc@1", "acc@5", "acc@10", "acc@20", "mrr"];
    const FILES: [&str; 3] = ["acc@1", "acc@3", "acc@5"];
    let interval = format!("interval of {MAIN}");
    let files = FILES.map(|measure| format!("file {measure}"));
    let header = ["group", "issues", "method"].into_iter().chain(FUNCTIONS).chain([interval.as_str()]);
    let mut table = Table::new(header.chain(files.iter().map(String::as_str))).align_left([2]);
    let Some(first) = report.methods.first() else { return table };
    let names = |groups: fn(&quarry_eval::localize::report::MethodReport) -> &Groups| {
        groups(first).keys().map(move |name| (name, groups)).collect::<Vec<_>>()
    };
    let all = names(|method| &method.sources).into_iter().chain(names(|method| &method.repositories));
    for (name, groups) in all {
        for method in &report.methods {
            let Some(summaries) = groups(method).get(name) else { continue };
            let of_files = cells(summaries, Level::Files, &FILES).take(FILES.len());
            let row = [name.clone(), summaries.functions.queries.to_string(), method.method.clone()];
            table.push(row.into_iter().chain(cells(summaries, Level::Functions, &FUNCTIONS)).chain(of_files));
        }
    }
    table
}

type Groups = std::collections::BTreeMap<String, Summaries>;

fn sections(dataset: &str, report: &LocalizeReport) -> Sections {
    let issues = counted(report.issues, "issue");
    let heading = format!("{dataset}: {issues}, {} with several gold functions\n\n", report.several);
    let mut sections = Sections::new().text(heading);
    for level in Level::ALL {
        sections = sections.table(level_table(report, level)).text("\n");
    }
    if let Some(table) = lines_table(report) {
        sections = sections.table(table).text("\n");
    }
    sections = sections.table(groups_table(report)).text("\n");
    for method in &report.methods {
        sections = sections.text(format!("{}: {:.1} ms per issue (median)", method.method, method.query_ms));
    }
    let Some(first) = report.methods.first() else { return sections };
    let names: Vec<String> = compared().iter().map(ToString::to_string).collect();
    for comparison in &report.comparisons {
        let rows = names.iter().filter_map(|name| Some((name.clone(), comparison.functions.get(name)?)));
        let heading = format!("\nfunctions, a: {}, b: {}", first.method, comparison.method);
        sections = sections.text(heading).table(compare::table(rows));
    }
    sections
}
