//! `quarry eval tune`: choosing the weights of the ranking, and what each of its parts is worth.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use quarry_corpus::formats::repo_search::{self as format, Repository};
use quarry_eval::method::Method;
use quarry_eval::repo_search::calibration::{self, Decision, Kind, Sample};
use quarry_eval::repo_search::intent;
use quarry_eval::repo_search::tuning::{self, Ablated, CrossValidation, PARAMETERS};
use quarry_eval::repo_search::{Indexes, indexed_folder};
use quarry_index::confidence::Weights;
use quarry_index::intent::Model;
use quarry_metrics::significance::mean;
use quarry_text::counted;
use serde::Serialize;

use super::arguments::MethodArgs;
use crate::new_file;
use crate::output;

/// Arguments of `quarry eval tune`.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// Tables with the columns repo, revision, root, category, query, relevant, secondary
    #[arg(value_name = "TSV", required = true)]
    tables: Vec<PathBuf>,
    /// Folders with a folder REPO for each repository; the first one that has it counts
    #[arg(long, value_name = "DIR", required = true)]
    repos: Vec<PathBuf>,
    #[command(flatten)]
    method: MethodArgs,
    /// Say only what each part of the ranking as it is brings, and choose nothing
    #[arg(long)]
    ablation: bool,
    /// Fit the weights that tell questions about files from questions about functions and rank the latter, cross-validate
    /// them by repository and by table, write them to FILE, and choose nothing else
    #[arg(long, value_name = "FILE", conflicts_with = "ablation")]
    intent: Option<PathBuf>,
    /// Choose only the weights and the threshold of the confidence
    #[arg(long, conflicts_with_all = ["ablation", "intent"])]
    confidence: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    method: String,
    queries: usize,
    /// NDCG@10 of the default ranking by table, mean over its repositories.
    default: Vec<TableMean>,
    ablation: Vec<Ablated>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cross_validation: Option<CrossValidation>,
    /// NDCG@10 by table when each repository is asked with weights chosen on the others.
    cross_validated: Vec<TableMean>,
    confidence: Confidence,
}

/// How well the search knows whether there is an answer.
#[derive(Serialize)]
struct Confidence {
    /// Between queries with and without an answer, by the weights in use.
    roc_auc: f64,
    /// Between queries with an answer and those of other repositories.
    elsewhere_roc_auc: f64,
    in_use: Decision,
    /// Between answerable queries whose answer comes first and those whose answer is not among the first ten results,
    /// by the weights in use.
    first_roc_auc: f64,
    /// The same with weights that were fitted on the other repositories.
    cross_validated_first_roc_auc: f64,
    /// Weights and threshold of each repository chosen on the others.
    cross_validated: Decision,
    /// The weights that all repositories together choose, and the threshold with them.
    chosen: Weights,
    chosen_threshold: f32,
}

#[derive(Serialize)]
struct TableMean {
    table: PathBuf,
    repositories: usize,
    ndcg: f64,
}

/// Runs `quarry eval tune`.
///
/// # Errors
/// When a table or repository is missing or wrong, or a search fails.
pub fn run(args: &TuneArgs) -> anyhow::Result<()> {
    let tables: Vec<Vec<Repository>> =
        args.tables.iter().map(|path| format::read(path)).collect::<Result<_, _>>()?;
    let (method, models) = (&args.method.method, args.method.models()?);
    let repositories: Vec<Repository> = tables.iter().flatten().cloned().collect();
    let indexes = Indexes::build(
        &repositories,
        |repository| {
            let found = args.repos.iter().find(|folder| indexed_folder(folder, repository).is_dir());
            found.unwrap_or(&args.repos[0]).clone()
        },
        method,
        &models,
        |name| output::note(&format!("indexed {name}")),
    )?;
    if let Some(path) = &args.intent {
        let of_table = |(number, table): (usize, &Vec<Repository>)| vec![number; table.len()];
        let table_of: Vec<usize> = tables.iter().enumerate().flat_map(of_table).collect();
        return fit_intent(args, &indexes.questions(&table_of)?, path);
    }
    let confidence = || -> anyhow::Result<Confidence> {
        Ok(confidence(&indexes.samples()?, repositories.len(), *method != Method::Bm25))
    };
    if args.confidence {
        let found = confidence()?;
        return if args.json {
            output::print_json(&found)
        } else {
            Ok(output::print(&confidence_text(&found))?)
        };
    }
    let scores = indexes.scores(&indexes.ranking)?;
    let default: Vec<f64> = scores.strata().iter().map(|values| mean(&[values])).collect();
    // Each table counts the same, however many repositories it has.
    let weights: Vec<f64> =
        tables.iter().flat_map(|table| table.iter().map(|_| 1.0 / table.len() as f64)).collect();
    let ablation = tuning::ablation(&indexes, &weights)?;
    let cross_validation = if args.ablation {
        None
    } else {
        Some(tuning::cross_validate(&indexes, &weights, |name| output::note(&format!("left out {name}")))?)
    };
    let by_table = |values: &[f64]| {
        let mut rest = values;
        let part = |(table, repositories): (&PathBuf, &Vec<Repository>)| {
            let (own, others) = rest.split_at(repositories.len());
            rest = others;
            TableMean { table: table.clone(), repositories: own.len(), ndcg: mean(&[own]) }
        };
        args.tables.iter().zip(&tables).map(part).collect::<Vec<_>>()
    };
    let folds: Vec<f64> =
        cross_validation.iter().flat_map(|found| &found.folds).map(|fold| fold.ndcg).collect();
    let report = Report {
        method: method.to_string(),
        queries: scores.repositories.iter().map(|scores| scores.queries.len()).sum(),
        default: by_table(&default),
        ablation,
        cross_validated: if folds.is_empty() { Vec::new() } else { by_table(&folds) },
        cross_validation,
        confidence: confidence()?,
    };
    if args.json { output::print_json(&report) } else { Ok(output::print(&text(&report))?) }
}

/// Fits the mixture of rankings and writes it.
fn fit_intent(args: &TuneArgs, questions: &[intent::Question], path: &Path) -> anyhow::Result<()> {
    let fitted = intent::cross_validate(questions, Model::builtin());
    let text = serde_json::to_string_pretty(&fitted.model)? + "\n";
    new_file::write_text(path, &text)?;
    if args.json {
        return output::print_json(&fitted);
    }
    let mut out = String::from(
        "NDCG@10, mean over repositories; the last two columns with weights that were fitted without the repository, and \
         without its table as well\n\n   rules  in use  without repository  without table\n",
    );
    for (path, table) in args.tables.iter().zip(&fitted.tables) {
        let intent::TableScores { rules, in_use, without_repository, without_table } = table;
        let _ = writeln!(
            out,
            "  {rules:.4}  {in_use:.4}              {without_repository:.4}         {without_table:.4}  {}",
            path.display()
        );
    }
    let _ = writeln!(
        out,
        "\nfile or function: ROC AUC {:.3} without the repository, {:.3} without its table as well",
        fitted.gate_roc_auc, fitted.gate_roc_auc_without_table
    );
    Ok(output::print(&out)?)
}

fn confidence(samples: &[Sample], n_repositories: usize, with_model: bool) -> Confidence {
    let in_use = calibration::judge(&Weights::in_use(with_model), samples.iter());
    let chosen = calibration::fit(samples.iter());
    let by_weights = Weights::in_use(with_model);
    let confidences = samples.iter().map(|sample| (sample, by_weights.confidence(&sample.evidence)));
    let (cross_validated, cross_validated_first_roc_auc) =
        calibration::cross_validate(samples, n_repositories);
    Confidence {
        roc_auc: calibration::roc_auc(&in_use, Kind::Unanswerable),
        elsewhere_roc_auc: calibration::roc_auc(&in_use, Kind::Elsewhere),
        in_use: Decision::new(quarry_index::DEFAULT_THRESHOLD, &in_use),
        first_roc_auc: calibration::first_roc_auc(confidences),
        cross_validated_first_roc_auc,
        cross_validated,
        chosen_threshold: calibration::best_threshold(&calibration::judge(&chosen, samples.iter())),
        chosen,
    }
}

fn text(report: &Report) -> String {
    let mut out = format!(
        "{}, {} with an answer\n\nNDCG@10, mean over repositories\n",
        report.method,
        counted(report.queries, "query")
    );
    let table = |out: &mut String, name: &str, means: &[TableMean]| {
        for TableMean { table, repositories, ndcg } in means {
            let _ = writeln!(
                out,
                "{name:<16} {ndcg:.4}  {} ({})",
                table.display(),
                counted(*repositories, "repository")
            );
        }
    };
    table(&mut out, "as it is", &report.default);
    table(&mut out, "cross-validated", &report.cross_validated);
    out.push_str("\nwithout\n");
    for Ablated { parameter, ndcg } in &report.ablation {
        let _ = writeln!(out, "{parameter:<16} {ndcg:.4}");
    }
    if let Some(found) = &report.cross_validation {
        let _ = write!(out, "\n{:<16} {:>8} {:>8} ", "left out", "chosen", "default");
        PARAMETERS.iter().for_each(|parameter| {
            let _ = write!(out, " {}", parameter.name);
        });
        out.push('\n');
        let numbers = |values: &[f32]| values.iter().map(f32::to_string).collect::<Vec<_>>().join(" ");
        for fold in &found.folds {
            let chosen = numbers(&fold.chosen);
            let _ = writeln!(
                out,
                "{:<16} {:>8.4} {:>8.4}  {chosen}",
                fold.repository, fold.ndcg, fold.default_ndcg
            );
        }
        let _ =
            writeln!(out, "{:<16} {:>8.4} {:>8}  {}", "none", found.chosen_ndcg, "", numbers(&found.chosen));
    }
    out.push('\n');
    out + &confidence_text(&report.confidence)
}

fn confidence_text(found: &Confidence) -> String {
    let Confidence { roc_auc, elsewhere_roc_auc, in_use, cross_validated, chosen, chosen_threshold, .. } =
        found;
    let mut out = format!(
        "confidence: ROC AUC {roc_auc:.3} against questions without an answer, {elsewhere_roc_auc:.3} against those of \
         other repositories;\n{:.3} ({:.3} cross-validated) between answers that come first and those not among the \
         first ten\n",
        found.first_roc_auc, found.cross_validated_first_roc_auc
    );
    for (name, decision) in [("as it is", in_use), ("cross-validated", cross_validated)] {
        let Decision { threshold, answerable, unanswerable, elsewhere } = decision;
        let _ = writeln!(
            out,
            "{name:<16} threshold {threshold:.2}: {:.1} % of {} found; held back {:.1} % of {} and {:.1} % of {}",
            answerable.right * 100.0,
            answerable.queries,
            unanswerable.right * 100.0,
            unanswerable.queries,
            elsewhere.right * 100.0,
            elsewhere.queries,
        );
    }
    let Weights { dense, coverage, known, share, intercept } = chosen;
    let _ = writeln!(
        out,
        "{:<16} threshold {chosen_threshold:.2}; dense {dense:.2}, coverage {coverage:.2}, known {known:.2}, share {share:.2}, intercept {intercept:.2}",
        "chosen"
    );
    out
}
