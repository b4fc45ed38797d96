//! `quarry eval DIR` and `quarry eval score`: one method, or one run, on one benchmark.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use quarry_corpus::formats::qrels::{self, Qrels};
use quarry_corpus::formats::run::write_ranking;
use quarry_corpus::formats::{beir, run as run_format};
use quarry_eval::EvalError;
use quarry_eval::evaluation::{Conventions, Evaluation, Summary, evaluate_method, evaluate_run};
use quarry_eval::protocol::mrr_ceiling;
use quarry_eval::result_file::{self, About, ResultFormat};
use quarry_metrics::Measure;
use quarry_metrics::ranking::best_first;
use quarry_metrics::significance::Bootstrap;
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use super::arguments::{
    AbstentionArgs, BootstrapArgs, ConventionArgs, MethodArgs, OutputArgs, PrecisionArgs, ResultFileArgs,
    SplitArgs, write_per_query,
};
use crate::eval::shown;
use crate::new_file;
use crate::output;
use crate::progress;

/// Arguments of `quarry eval DIR`.
#[derive(Debug, Args)]
pub struct BenchmarkArgs {
    /// BEIR directory: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv (write ./NAME if it is named like a subcommand)
    #[arg(value_name = "DIR", required = true)]
    directory: Option<PathBuf>,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    split: SplitArgs,
    /// Write the ranking of all documents for each query as a TREC run
    #[arg(long = "run", value_name = "FILE")]
    run_file: Option<PathBuf>,
    /// Write only the best N documents per query to that run [default: all]
    #[arg(long, value_name = "N", requires = "run_file", value_parser = crate::settings::at_least_one)]
    depth: Option<usize>,
    #[command(flatten)]
    conventions: ConventionArgs,
    #[command(flatten)]
    abstention: AbstentionArgs,
    #[command(flatten)]
    files: ResultFileArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

/// Arguments of `quarry eval score`.
#[derive(Debug, Args)]
pub struct ScoreArgs {
    /// Qrels: TREC (query iteration document grade) or BEIR (query-id, corpus-id, score)
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
    files: ResultFileArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BenchmarkReport<'a> {
    /// Name of the data set.
    dataset: String,
    /// The split whose qrels were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<&'a str>,
    /// The method.
    method: String,
    /// Identity of the method's model and its weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Number of documents that are ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<usize>,
    /// Expected MRR of a perfect method if equal texts are in any order.
    #[serde(skip_serializing_if = "Option::is_none")]
    mrr_ceiling: Option<f64>,
    #[serde(flatten)]
    summary: Summary,
    /// Normalized areas under the abstention curve, with `--nauc`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, Option<f64>>"))]
    nauc: BTreeMap<String, f64>,
    /// Values of the result file that `--beside` names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    beside: BTreeMap<String, f64>,
    /// The choices on which evaluation tools disagree.
    conventions: Conventions,
    /// Resampling for intervals and p-values.
    bootstrap: Bootstrap,
    /// Time in milliseconds.
    took_ms: f64,
}

pub fn evaluate(args: &BenchmarkArgs) -> anyhow::Result<()> {
    let start = Instant::now();
    // clap requires it where no subcommand is named.
    let directory =
        args.directory.as_deref().context("expected a BEIR directory; see `quarry eval --help`")?;
    let split = &args.split.name;
    let (method, models) = (&args.method.method, args.method.models()?);
    let (bootstrap, conventions) = (args.bootstrap.resolve(), args.conventions.resolve(None));
    let shown = args.conventions.measures(Measure::standard);
    let measures = args.files.with_measures(&shown);
    let benchmark = beir::read(directory, split)?;
    let bar = progress::Progress::new("embedding", benchmark.documents.len() * method.n_embeddings());
    let prepared = method.prepare((&benchmark).into(), &models, &mut |n| bar.inc(n as u64))?;
    bar.finish_and_clear();
    let mut run_file = args.run_file.as_deref().map(new_file::create).transpose()?;
    let ids: Vec<&str> = benchmark.documents.iter().map(|document| document.id.as_str()).collect();
    let bar = progress::Progress::new("ranking", benchmark.qrels.len());
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
    models.report_spending();
    if let (Some(file), Some(path)) = (run_file, &args.run_file) {
        file.finish().with_context(|| new_file::cannot_write(path))?;
    }
    note_unanswered(&benchmark.qrels, &evaluation);
    let dataset = shown::directory_name(directory);
    let evaluation = write_results(&args.files, evaluation, &shown, (&dataset, split), start)?;
    let report = BenchmarkReport {
        dataset,
        split: Some(split),
        method: method.to_string(),
        model: prepared.model,
        documents: Some(benchmark.documents.len()),
        mrr_ceiling: Some(mrr_ceiling(&benchmark)),
        summary: evaluation.summary(&bootstrap)?,
        nauc: args.abstention.compute(&evaluation),
        beside: external_values(&args.files, Some(split))?,
        conventions,
        bootstrap,
        took_ms: quarry_session::milliseconds(start.elapsed()),
    };
    finish(&args.output, &evaluation, &report)
}

pub fn score(args: &ScoreArgs) -> anyhow::Result<()> {
    let start = Instant::now();
    let (bootstrap, conventions) =
        (args.bootstrap.resolve(), args.conventions.resolve(Some(&args.precision)));
    let qrels = qrels::read(&args.qrels)?;
    let run = run_format::read(&args.run_file)?;
    let shown = args.conventions.measures(Measure::standard);
    let measures = args.files.with_measures(&shown);
    let evaluation = evaluate_run(&qrels, &run, &measures, &conventions)?;
    note_unanswered(&qrels, &evaluation);
    let dataset = shown::file_name(&args.qrels);
    // Qrels are usually named after their split.
    let split = args.qrels.file_stem().unwrap_or_default().to_string_lossy();
    let evaluation = write_results(&args.files, evaluation, &shown, (&dataset, &split), start)?;
    let report = BenchmarkReport {
        dataset,
        split: None,
        method: shown::file_name(&args.run_file),
        model: None,
        documents: None,
        mrr_ceiling: None,
        summary: evaluation.summary(&bootstrap)?,
        nauc: args.abstention.compute(&evaluation),
        beside: external_values(&args.files, None)?,
        conventions,
        bootstrap,
        took_ms: quarry_session::milliseconds(start.elapsed()),
    };
    finish(&args.output, &evaluation, &report)
}

/// Notes queries that no ranking can answer, as in judged pairs: with them in the means, the maximum is below 1.
fn note_unanswered(qrels: &Qrels, evaluation: &Evaluation) {
    let is_unanswered =
        |query: &str| qrels.get(query).is_some_and(|judged| judged.values().all(|grade| *grade <= 0));
    let n = evaluation.queries.iter().filter(|(query, _)| is_unanswered(query)).count();
    if n > 0 {
        output::note(&format!(
            "without a relevant document, counted as 0: {n} of {}; `--queries with-positive` leaves these out",
            counted(evaluation.queries.len(), "query")
        ));
    }
}

/// Writes the result files that were asked for; returns the evaluation by the measures that are shown.
fn write_results(
    args: &ResultFileArgs,
    evaluation: Evaluation,
    shown: &[Measure],
    (task, split): (&str, &str),
    start: Instant,
) -> anyhow::Result<Evaluation> {
    let about = About { task, split, seconds: start.elapsed().as_secs_f64() };
    for (format, path) in args.to_write() {
        let file =
            format.write(&evaluation, about).context("expected queries to average over, found none")?;
        new_file::write_json(path, &file)?;
        if format == ResultFormat::Mteb {
            output::note(&format!(
                "{}: dataset_revision, languages, mteb_version and kg_co2_emissions are unknown and left empty",
                path.display()
            ));
        }
    }
    Ok(evaluation.only(shown))
}

/// The values of the result file of `--beside` under our names of measures; of the evaluated split if the file has
/// several.
fn external_values(args: &ResultFileArgs, split: Option<&str>) -> anyhow::Result<BTreeMap<String, f64>> {
    let Some(path) = &args.beside else { return Ok(BTreeMap::new()) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{}: cannot be read; check the path and its permissions", path.display()))?;
    let mut parts = result_file::parse(&text, path)?;
    if parts.len() > 1 {
        let names: Vec<String> = parts.iter().map(|part| part.part.clone()).collect();
        parts.retain(|part| Some(part.part.as_str()) == split);
        if parts.is_empty() {
            bail!("{}: expected results of one split, found {}", path.display(), names.join(", "));
        }
    }
    Ok(parts.swap_remove(0).metrics)
}

fn finish(args: &OutputArgs, evaluation: &Evaluation, report: &BenchmarkReport<'_>) -> anyhow::Result<()> {
    if let Some(path) = &args.per_query {
        write_per_query(path, evaluation)?;
    }
    args.layout.print(report, || sections(evaluation, report))
}

fn sections(evaluation: &Evaluation, report: &BenchmarkReport<'_>) -> Sections {
    let mut heading =
        format!("{}, {}: {}", report.dataset, report.method, counted(report.summary.queries, "query"));
    if let Some(documents) = report.documents {
        heading = format!("{heading}, {}", counted(documents, "document"));
    }
    let beside = (!report.beside.is_empty()).then_some("beside");
    let mut table = Table::new(["measure", "mean", "interval"].into_iter().chain(beside));
    for measure in &evaluation.measures {
        let name = measure.to_string();
        let (value, interval) = (report.summary.metrics[&name], report.summary.intervals[&name]);
        let beside = report.beside.get(&name).map(|other| format!("{other:.4}"));
        table.push([name, format!("{value:.4}"), shown::format_interval(interval)].into_iter().chain(beside));
    }
    if let Some(ceiling) = report.mrr_ceiling.filter(|ceiling| *ceiling < 1.0) {
        table.push(["mrr ceiling, equal texts in any order".to_owned(), format!("{ceiling:.4}")]);
    }
    for (name, area) in &report.nauc {
        table.push([name.clone(), format!("{area:.4}")]);
    }
    Sections::new().text(heading).table(table)
}
