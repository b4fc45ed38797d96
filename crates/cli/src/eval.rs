//! `quarry eval`: measuring how well code is found.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use quarry_corpus::formats::run::write_ranking;
use quarry_corpus::formats::{beir, qrels, repo_search as repo_search_format, run as run_format};
use quarry_embed::{EmbedError, Embedder};
use quarry_eval::EvalError;
use quarry_eval::evaluation::{
    Conventions, Evaluation, QuerySet, ScorePrecision, Summary, Unjudged, evaluate_method, evaluate_run,
};
use quarry_eval::method::Method;
use quarry_eval::metrics::{Gain, Measure};
use quarry_eval::plan::{Locations, Plan};
use quarry_eval::ranking::{TiePolicy, best_first};
use quarry_eval::repo_search;
use quarry_eval::significance::{Bootstrap, Interval};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as NameError, StrDeserializer};

use crate::{agreement, compare, model, output, tune, verdicts};

/// Arguments of `quarry eval`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct EvalArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    benchmark: BenchmarkArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Score a TREC run against TREC or BEIR qrels, by default as trec_eval does
    Score(ScoreArgs),
    /// Compare TREC runs with the first of them, query by query: intervals, tests, effect sizes
    Compare(compare::CompareArgs),
    /// Say how far raters agree: Krippendorff's alpha, kappas, correlations, Cronbach's alpha
    Agreement(agreement::AgreementArgs),
    /// Score verdicts by accuracy, F1, ROC AUC, average precision; compare them by McNemar's test
    Classification(verdicts::ClassificationArgs),
    /// Say whether probabilities can be believed: Brier score, calibration error, reliability, risk and coverage
    Calibration(verdicts::CalibrationArgs),
    /// Search whole repositories and look for the files that answer
    RepoSearch(RepoSearchArgs),
    /// Choose the weights of the ranking by leaving one repository out, and say what each part brings
    Tune(tune::TuneArgs),
    /// Run a benchmark plan and write its page of results
    Run(RunArgs),
}

#[derive(Debug, Args)]
struct BenchmarkArgs {
    /// BEIR folder: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv (write ./NAME for one named like a subcommand)
    #[arg(value_name = "DIR", required = true)]
    folder: Option<PathBuf>,
    #[command(flatten)]
    method: MethodArgs,
    /// Which judgements: qrels/SPLIT.tsv
    #[arg(long, value_name = "SPLIT", default_value = "test")]
    split: String,
    /// Write the ranking of all documents for each query as a TREC run
    #[arg(long = "run", value_name = "FILE")]
    run_file: Option<PathBuf>,
    /// Documents a query in that run, the best ones; all by default
    #[arg(long, value_name = "N", requires = "run_file")]
    depth: Option<usize>,
    #[command(flatten)]
    conventions: ConventionArgs,
    #[command(flatten)]
    abstention: AbstentionArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

#[derive(Debug, Args)]
struct AbstentionArgs {
    /// Also say how well scores tell which queries are answered badly: nAUC of each metric, as MTEB has it
    #[arg(long)]
    nauc: bool,
}

#[derive(Debug, Args)]
struct MethodArgs {
    /// bow, bm25, static, hybrid, or the path of a model
    #[arg(long, value_name = "METHOD", default_value = "hybrid")]
    method: Method,
    /// Model that static and hybrid use: a transformer's folder, or a static model's file or folder [default: the
    /// one built in]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
}

/// What evaluation tools disagree on.
#[derive(Debug, Args)]
pub struct ConventionArgs {
    /// Order among equal scores: docid-desc (trec_eval), docid-asc, index-desc, pessimistic, optimistic, average
    /// (expected values over all orders)
    #[arg(long, value_name = "POLICY", default_value = "docid-desc", value_parser = by_name::<TiePolicy>)]
    ties: TiePolicy,
    /// Worth of a grade to NDCG: linear, exponential
    #[arg(long, value_name = "GAIN", default_value = "linear", value_parser = by_name::<Gain>)]
    gain: Gain,
    /// Queries that means are over: both (those that qrels and run hold), with-positive (all with a relevant
    /// document), all (of the qrels)
    #[arg(long, value_name = "SET", default_value = "both", value_parser = by_name::<QuerySet>)]
    queries: QuerySet,
    /// Documents that nobody judged: wrong, removed (from the ranking, which condenses it)
    #[arg(long, value_name = "CHOICE", default_value = "wrong", value_parser = by_name::<Unjudged>)]
    unjudged: Unjudged,
    /// What to measure, with commas between: mrr, mmrr, map, ndcg (each also cut off, as mrr@10), recall@K,
    /// precision@K, hit_rate@K, success@K, judged@K, r_precision, bpref, rbp.P (P being 95 or the like) [default:
    /// those that papers report]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    metrics: Vec<Measure>,
}

/// How the scores of a run are held.
#[derive(Debug, Args)]
pub struct PrecisionArgs {
    /// Precision of a run's scores: single (pytrec_eval), double
    #[arg(long, value_name = "PRECISION", default_value = "single", value_parser = by_name::<ScorePrecision>)]
    scores: ScorePrecision,
}

#[derive(Debug, Args)]
struct OutputArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write the values of each query, a JSON object a line
    #[arg(long, value_name = "FILE")]
    per_query: Option<PathBuf>,
}

/// How intervals and p-values are drawn.
#[derive(Debug, Args)]
pub struct BootstrapArgs {
    /// Resamples that intervals and p-values are drawn from
    #[arg(long, value_name = "N", default_value_t = Bootstrap::default().resamples)]
    resamples: usize,
    /// Seed of the resamples
    #[arg(long, value_name = "SEED", default_value_t = Bootstrap::default().seed)]
    seed: u64,
}

#[derive(Debug, Args)]
struct ScoreArgs {
    /// Judgements: TREC (query iteration document grade) or BEIR (query-id, corpus-id, score)
    #[arg(long, value_name = "FILE")]
    qrels: PathBuf,
    /// TREC run (query Q0 document rank score tag)
    #[arg(long = "run", value_name = "FILE")]
    run_file: PathBuf,
    #[command(flatten)]
    conventions: ConventionArgs,
    #[command(flatten)]
    precision: PrecisionArgs,
    #[command(flatten)]
    abstention: AbstentionArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

#[derive(Debug, Args)]
struct RepoSearchArgs {
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

#[derive(Debug, Args)]
struct RunArgs {
    /// Benchmark plan; it says where its page goes
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// Folder that the plan's data are in
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Folder with checkouts for repository search, as for `quarry eval repo-search`
    #[arg(long, value_name = "DIR")]
    repos: Option<PathBuf>,
    /// Print the results as one JSON object too
    #[arg(long)]
    json: bool,
}

/// Runs `quarry eval`.
///
/// # Errors
/// When a file is missing or wrong, or a method fails.
pub fn run(args: EvalArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(Command::Score(args)) => score(args)?,
        Some(Command::Compare(args)) => compare::run(args)?,
        Some(Command::Agreement(args)) => agreement::run(args)?,
        Some(Command::Classification(args)) => verdicts::classification(args)?,
        Some(Command::Calibration(args)) => verdicts::calibration(args)?,
        Some(Command::RepoSearch(args)) => search_repositories(args)?,
        Some(Command::Tune(args)) => tune::run(args)?,
        Some(Command::Run(args)) => run_plan(args)?,
        None => evaluate(&args.benchmark)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A choice by the name that files have for it.
pub fn by_name<T: DeserializeOwned>(name: &str) -> Result<T, NameError> {
    T::deserialize(StrDeserializer::new(name))
}

impl ConventionArgs {
    pub fn resolve(&self, precision: Option<&PrecisionArgs>) -> Conventions {
        let scores = precision.map(|precision| precision.scores).unwrap_or_default();
        let Self { ties, gain, queries, unjudged, metrics: _ } = *self;
        Conventions { ties, gain, queries, unjudged, scores }
    }

    /// What was asked for, or else the default.
    pub fn measures(&self, default: fn() -> Vec<Measure>) -> Vec<Measure> {
        if self.metrics.is_empty() { default() } else { self.metrics.clone() }
    }
}

impl AbstentionArgs {
    fn of(&self, evaluation: &Evaluation) -> BTreeMap<String, f64> {
        if self.nauc { evaluation.abstention() } else { BTreeMap::new() }
    }
}

impl BootstrapArgs {
    pub fn resolve(&self) -> anyhow::Result<Bootstrap> {
        if self.resamples == 0 {
            bail!("expected --resamples of 1 or more, found 0");
        }
        Ok(Bootstrap { resamples: self.resamples, seed: self.seed, ..Bootstrap::default() })
    }
}

impl MethodArgs {
    fn check(&self) -> anyhow::Result<()> {
        if self.model.is_some() && !self.method.uses_builtin_model() {
            bail!(
                "--model goes with --method static or hybrid, found --method {}; leave one out",
                self.method
            );
        }
        Ok(())
    }

    fn load(&self, path: Option<&Path>) -> Result<Arc<dyn Embedder>, EmbedError> {
        model::load(path.or(self.model.as_deref()))
    }
}

#[derive(Serialize)]
struct Report<'a> {
    dataset: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<&'a str>,
    method: String,
    /// Identity of the method's model and its weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<usize>,
    #[serde(flatten)]
    summary: Summary,
    /// Normalised areas under the abstention curve, where asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    nauc: BTreeMap<String, f64>,
    conventions: Conventions,
    bootstrap: Bootstrap,
    took_ms: f64,
}

fn evaluate(args: &BenchmarkArgs) -> anyhow::Result<()> {
    let start = Instant::now();
    // Required where there is no subcommand.
    let folder = args.folder.as_deref().context("expected a BEIR folder; see quarry eval --help")?;
    args.method.check()?;
    let (bootstrap, conventions) = (args.bootstrap.resolve()?, args.conventions.resolve(None));
    let measures = args.conventions.measures(Measure::standard);
    let benchmark = beir::read(folder, &args.split)?;
    let bar = progress_bar("embedding", benchmark.documents.len());
    let load = |path: Option<&Path>| args.method.load(path);
    let prepared = args.method.method.prepare(&benchmark.documents, &load, |n| bar.inc(n as u64))?;
    bar.finish_and_clear();
    let mut run_file = args.run_file.as_deref().map(create).transpose()?;
    let ids: Vec<&str> = benchmark.documents.iter().map(|document| document.id.as_str()).collect();
    let bar = progress_bar("ranking", benchmark.qrels.len());
    let scorer = prepared.scorer.as_ref();
    let evaluation = evaluate_method(&benchmark, scorer, &measures, &conventions, |query, scores| {
        bar.inc(1);
        let Some(file) = &mut run_file else { return Ok(()) };
        let order = best_first(&ids, scores)?;
        let ranking = order.into_iter().take(args.depth.unwrap_or(usize::MAX));
        let ranking = ranking.map(|position| (ids[position], scores[position]));
        write_ranking(file, query, ranking, "quarry").map_err(EvalError::Output)
    })?;
    bar.finish_and_clear();
    if let (Some(mut file), Some(path)) = (run_file, &args.run_file) {
        file.flush().with_context(|| cannot_write(path))?;
    }
    let report = Report {
        dataset: folder_name(folder),
        split: Some(&args.split),
        method: args.method.method.to_string(),
        model: prepared.model,
        documents: Some(benchmark.documents.len()),
        summary: evaluation.summary(&bootstrap)?,
        nauc: args.abstention.of(&evaluation),
        conventions,
        bootstrap,
        took_ms: output::milliseconds(start.elapsed()),
    };
    finish(&args.output, &evaluation, &report)
}

fn score(args: &ScoreArgs) -> anyhow::Result<()> {
    let start = Instant::now();
    let (bootstrap, conventions) =
        (args.bootstrap.resolve()?, args.conventions.resolve(Some(&args.precision)));
    let qrels = qrels::read(&args.qrels)?;
    let run = run_format::read(&args.run_file)?;
    let measures = args.conventions.measures(Measure::standard);
    let evaluation = evaluate_run(&qrels, &run, &measures, &conventions)?;
    let report = Report {
        dataset: file_name(&args.qrels),
        split: None,
        method: file_name(&args.run_file),
        model: None,
        documents: None,
        summary: evaluation.summary(&bootstrap)?,
        nauc: args.abstention.of(&evaluation),
        conventions,
        bootstrap,
        took_ms: output::milliseconds(start.elapsed()),
    };
    finish(&args.output, &evaluation, &report)
}

fn finish(args: &OutputArgs, evaluation: &Evaluation, report: &Report<'_>) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct QueryLine<'a> {
        query: &'a str,
        metrics: BTreeMap<String, f64>,
    }
    if let Some(path) = &args.per_query {
        let names: Vec<String> = evaluation.measures.iter().map(Measure::to_string).collect();
        let lines = evaluation.queries.iter().map(|(query, values)| QueryLine {
            query,
            metrics: names.iter().cloned().zip(values.iter().copied()).collect(),
        });
        write_json_lines(path, lines)?;
    }
    if args.json {
        return output::print_json(report);
    }
    let mut text = format!("{}, {}: {} queries", report.dataset, report.method, report.summary.queries);
    if let Some(documents) = report.documents {
        let _ = write!(text, ", {documents} documents");
    }
    text.push('\n');
    for measure in &evaluation.measures {
        let name = measure.to_string();
        let (value, interval) = (report.summary.metrics[&name], report.summary.intervals[&name]);
        let _ = writeln!(text, "{name:<14} {value:.4}  {}", format_interval(interval));
    }
    for (name, area) in &report.nauc {
        let _ = writeln!(text, "{name:<24} {area:.4}");
    }
    Ok(output::print(&text)?)
}

/// A dash for what is not defined.
pub fn format_defined(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.4}"))
}

pub fn format_interval(Interval { low, high }: Interval) -> String {
    format!("[{low:.4}, {high:.4}]")
}

fn search_repositories(args: &RepoSearchArgs) -> anyhow::Result<()> {
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
    args.method.check()?;
    let bootstrap = args.bootstrap.resolve()?;
    let repositories = repo_search_format::read(&args.table)?;
    let bar = progress_bar("searching", repositories.len());
    let method = &args.method.method;
    let load = |path: Option<&Path>| args.method.load(path);
    let scores = repo_search::evaluate(&repositories, &args.repos, method, &load, |_| bar.inc(1))?;
    bar.finish_and_clear();
    if let Some(path) = &args.output.per_query {
        write_json_lines(path, scores.repositories.iter().flat_map(|repository| &repository.queries))?;
    }
    let report = RepositoryReport {
        dataset: file_name(&args.table),
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
        let (value, interval) = (metrics[&measure], format_interval(intervals[&measure]));
        let _ = writeln!(
            text,
            "{name:<16} {queries:>7} {value:>7.4}  {interval:<16}  {units:>6} {index_ms:>9.1} {query_ms:>9.2}"
        );
    }
    let (value, interval) = (metrics[&measure], format_interval(intervals[&measure]));
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

fn run_plan(args: &RunArgs) -> anyhow::Result<()> {
    let plan = Plan::read(&args.plan)?;
    let locations = Locations { data: args.data.clone(), repositories: args.repos.clone() };
    let results =
        plan.run(&locations, &model::load, |dataset, method| output::note(&format!("{dataset}: {method}")))?;
    let folder = args.plan.parent().unwrap_or(Path::new(""));
    let json = serde_json::to_string_pretty(&results)? + "\n";
    for (path, text) in [(&plan.page, results.page()), (&plan.json, json)] {
        let path = folder.join(path);
        path.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, text))
            .with_context(|| cannot_write(&path))?;
        output::note(&format!("wrote {}", path.display()));
    }
    if args.json { output::print_json(&results) } else { Ok(()) }
}

/// Draws nothing where stderr is no terminal.
fn progress_bar(name: &'static str, length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:>9} {bar:40} {human_pos}/{human_len} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length as u64).with_style(style).with_message(name)
}

fn write_json_lines(path: &Path, mut lines: impl Iterator<Item = impl Serialize>) -> anyhow::Result<()> {
    let mut file = create(path)?;
    lines
        .try_for_each(|line| {
            serde_json::to_writer(&mut file, &line)?;
            writeln!(file)
        })
        .and_then(|()| file.flush())
        .with_context(|| cannot_write(path))
}

fn create(path: &Path) -> anyhow::Result<BufWriter<File>> {
    File::create(path).map(BufWriter::new).with_context(|| cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("{}: cannot be written", path.display())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The folder's own name, also where it is given as `.`.
fn folder_name(path: &Path) -> String {
    file_name(&path.canonicalize().unwrap_or_else(|_| path.to_owned()))
}
