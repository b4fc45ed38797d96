//! `quarry eval tune`: chooses the weights of the ranking, and measures what each part contributes.

use std::path::{Path, PathBuf};

use clap::Args;
use quarry_corpus::formats::repo_search::{self as format, Repository};
use quarry_eval::method::Method;
use quarry_eval::repo_search::Indexes;
use quarry_eval::repo_search::calibration::{self, KEPT, Measured, Sample, SampleFeatures, Separation};
use quarry_eval::repo_search::documentation::Documented;
use quarry_eval::repo_search::intent;
use quarry_eval::repo_search::tuning::{
    self, Ablated, CROSS_ENCODER, CrossValidation, Fold, PARAMETERS, RERANKING,
};
use quarry_eval::report::{Series, reliability_alone};
use quarry_index::DEFAULT_THRESHOLD;
use quarry_index::confidence::{FEATURES, Weights};
use quarry_index::intent::Model;
use quarry_metrics::significance::{Bootstrap, mean, randomization};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use super::arguments::{LayoutArgs, MethodArgs, ReposArgs};
use crate::{new_file, output};

/// Arguments of `quarry eval tune`.
#[derive(Debug, Args)]
#[command(mut_arg("repos", |repos| repos.required(true)))]
pub struct TuneArgs {
    /// Tables with the columns repo, revision, root, category, query, relevant, secondary
    #[arg(value_name = "TSV", required = true)]
    tables: Vec<PathBuf>,
    #[command(flatten)]
    repos: ReposArgs,
    #[command(flatten)]
    method: MethodArgs,
    /// Only measure what each part of the current ranking contributes
    #[arg(long)]
    ablation: bool,
    /// Only fit the weights that tell questions about files from questions about functions and rank the latter; cross-validate
    /// them by repository and by table, and write them to FILE
    #[arg(long, value_name = "FILE", conflicts_with = "ablation")]
    intent: Option<PathBuf>,
    /// Also ask what the functions of the repositories in TSV say of themselves, where it is hidden; for --intent
    #[arg(long, value_name = "TSV", requires = "intent")]
    documentation: Option<PathBuf>,
    /// Fit the weights of the confidence and cross-validate them by repository, also on names and error messages that are
    /// drawn from the repositories
    #[arg(long, conflicts_with_all = ["ablation", "intent"])]
    confidence: bool,
    /// Write the reliability diagram of the confidence as a picture: an SVG file
    #[arg(long, value_name = "FILE", requires = "confidence")]
    plot: Option<PathBuf>,
    /// Only choose how much the re-ranker of --model best counts, or the cross-encoder of --method
    /// "rerank(…)"; cross-validate it by repository
    #[arg(long, conflicts_with_all = ["ablation", "intent", "confidence"])]
    reranking: bool,
    #[command(flatten)]
    layout: LayoutArgs,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Tuning"))]
pub struct TuningReport {
    /// The method.
    method: String,
    /// Queries with an answer.
    queries: usize,
    /// NDCG@10 of the current ranking by table, mean over its repositories.
    default: Vec<TableMean>,
    /// Scores without each part of the ranking.
    ablation: Vec<Ablated>,
    /// Weights that were chosen on the other repositories; absent with `--ablation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cross_validation: Option<CrossValidation>,
    /// NDCG@10 by table, each repository searched with weights chosen on the others.
    cross_validated: Vec<TableMean>,
    /// NDCG@10 by table without a re-ranker, and the p-value of the difference to `cross_validated`; with --reranking.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    without: Vec<TableMean>,
    /// The p-value of the difference over the queries of all tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<f64>,
    /// Names of the tuned parameters.
    parameters: Vec<&'static str>,
}

/// Confidence as a predictor of queries with an answer.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Confidence {
    /// The threshold in use.
    threshold: f32,
    /// By the weights in use.
    in_use: Measured,
    /// By weights that were fitted on the other repositories.
    cross_validated: Measured,
    /// Weights fitted on all repositories.
    chosen: Weights,
    /// The searches that these were fitted on.
    samples: Vec<SampleFeatures>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TableMean {
    /// Path of the table.
    table: PathBuf,
    /// The repositories.
    repositories: usize,
    /// Mean NDCG@10.
    ndcg: f64,
    /// Of a paired randomization test over the table's queries, two-sided.
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<f64>,
}

pub fn run(args: &TuneArgs) -> anyhow::Result<()> {
    let tables: Vec<Vec<Repository>> =
        args.tables.iter().map(|path| format::read(path)).collect::<Result<_, _>>()?;
    let (method, models) = (&args.method.method, args.method.models()?);
    let repositories: Vec<Repository> = match args.confidence {
        true => format::merged(tables.iter().flatten().cloned()),
        false => tables.iter().flatten().cloned().collect(),
    };
    let indexes = Indexes::build(&repositories, &args.repos.directories, method, &models, |name| {
        output::note(&format!("indexed {name}"))
    })?;
    if let Some(path) = &args.intent {
        let of_table = |(number, table): (usize, &Vec<Repository>)| vec![number; table.len()];
        let table_of: Vec<usize> = tables.iter().enumerate().flat_map(of_table).collect();
        let mut questions = indexes.questions(&table_of)?;
        if let Some(table) = &args.documentation {
            let documented = Documented::new(&format::read(table)?, &args.repos.directories)?;
            let directories = [documented.directory().to_owned()];
            let hidden = Indexes::build(&documented.repositories, &directories, method, &models, |name| {
                output::note(&format!("indexed {name} without documentation"))
            })?;
            questions.extend(hidden.questions(&vec![tables.len(); documented.repositories.len()])?);
        }
        return fit_intent(args, &questions, path);
    }
    if args.confidence {
        let found = confidence(&indexes.samples()?);
        if let Some(path) = &args.plot {
            let points = &found.cross_validated.reliability;
            let points = points.iter().map(|bin| (bin.mean_probability, bin.share_held, bin.count)).collect();
            let series = [Series { label: format!("{method}, cross-validated"), points }];
            new_file::write_text(
                path,
                &reliability_alone("How often a search with a confidence has an answer", &series),
            )?;
        }
        return args.layout.print(&found, || confidence_sections(&found));
    }
    let scores = indexes.scores(&indexes.ranking)?;
    let default: Vec<f64> = scores.strata().iter().map(|values| mean(&[values])).collect();
    // Each table counts the same, however many repositories it has.
    let weights: Vec<f64> =
        tables.iter().flat_map(|table| table.iter().map(|_| 1.0 / table.len() as f64)).collect();
    let parameters = match args.reranking {
        false => &PARAMETERS[..],
        true if matches!(method, Method::Rerank { .. }) => &CROSS_ENCODER[..],
        true => &RERANKING[..],
    };
    let ablation = if args.reranking { Vec::new() } else { tuning::ablation(&indexes, &weights)? };
    let cross_validation = if args.ablation {
        None
    } else {
        Some(tuning::cross_validate(&indexes, parameters, &weights, |name| {
            output::note(&format!("left out {name}"))
        })?)
    };
    let by_table = |values: &[f64]| {
        let mut rest = values;
        let part = |(table, repositories): (&PathBuf, &Vec<Repository>)| {
            let (own, others) = rest.split_at(repositories.len());
            rest = others;
            TableMean { table: table.clone(), repositories: own.len(), ndcg: mean(&[own]), p: None }
        };
        args.tables.iter().zip(&tables).map(part).collect::<Vec<_>>()
    };
    let folds: Vec<f64> =
        cross_validation.iter().flat_map(|found| &found.folds).map(|fold| fold.ndcg).collect();
    let (without, p) = match &cross_validation {
        Some(found) if args.reranking => without_reranking(&by_table, &found.folds),
        _ => (Vec::new(), None),
    };
    let report = TuningReport {
        method: method.to_string(),
        queries: scores.repositories.iter().map(|scores| scores.queries.len()).sum(),
        default: by_table(&default),
        ablation,
        cross_validated: if folds.is_empty() { Vec::new() } else { by_table(&folds) },
        cross_validation,
        without,
        p,
        parameters: parameters.iter().map(|parameter| parameter.name).collect(),
    };
    args.layout.print(&report, || sections(&report))
}

/// The means by table of what folds have without a re-ranker, each with the p-value of its difference to that with one, and
/// the p-value over all of them.
fn without_reranking(
    by_table: &dyn Fn(&[f64]) -> Vec<TableMean>,
    folds: &[Fold],
) -> (Vec<TableMean>, Option<f64>) {
    let p = |folds: &[Fold]| {
        let pairs = folds.iter().flat_map(|fold| fold.per_query.iter().zip(&fold.per_query_off));
        let differences: Vec<f64> = pairs.map(|(with, without)| with - without).collect();
        Some(randomization(&differences, &Bootstrap::default()).p)
    };
    let mut tables = by_table(&folds.iter().map(|fold| fold.off_ndcg).collect::<Vec<_>>());
    let mut rest = folds;
    for table in &mut tables {
        let (own, others) = rest.split_at(table.repositories);
        rest = others;
        table.p = p(own);
    }
    (tables, p(folds))
}

fn fit_intent(args: &TuneArgs, questions: &[intent::Question], path: &Path) -> anyhow::Result<()> {
    let fitted = intent::cross_validate(questions, Model::builtin());
    let text = serde_json::to_string_pretty(&fitted.model)? + "\n";
    new_file::write_text(path, &text)?;
    args.layout.print(&fitted, || {
        let mut scores = Table::new(["table", "rules", "in use", "without repository", "without table"]);
        let names = args.tables.iter().map(|path| path.display().to_string());
        let documentation = args.documentation.iter().map(|path| format!("documentation of {}", path.display()));
        for (name, table) in names.chain(documentation).zip(&fitted.tables) {
            let intent::TableScores { rules, in_use, without_repository, without_table } = table;
            let values = [rules, in_use, without_repository, without_table];
            let values = values.map(|value| format!("{value:.4}"));
            scores.push(std::iter::once(name).chain(values));
        }
        let mut gate = Table::new(["file or function", "ROC AUC"]);
        gate.push(["without repository".to_owned(), format!("{:.3}", fitted.gate_roc_auc)]);
        gate.push(["without table".to_owned(), format!("{:.3}", fitted.gate_roc_auc_without_table)]);
        Sections::new()
            .text(
                "NDCG@10, mean over repositories; the last two columns with weights that were fitted without the repository, \
                 and without its table as well\n\n",
            )
            .table(scores)
            .text("\n")
            .table(gate)
    })
}

fn confidence(samples: &[Sample]) -> Confidence {
    let cross_validated = calibration::cross_validate(samples);
    let measured = |confidence: &dyn Fn(usize) -> f32| {
        let confidences = (0..samples.len()).map(confidence).collect::<Vec<_>>();
        Measured::new(samples, &confidences, DEFAULT_THRESHOLD)
    };
    Confidence {
        threshold: DEFAULT_THRESHOLD,
        in_use: measured(&|number| samples[number].evidence.confidence()),
        cross_validated: measured(&|number| cross_validated[number]),
        chosen: calibration::fit(samples.iter()),
        samples: samples.iter().map(SampleFeatures::from).collect(),
    }
}

fn sections(report: &TuningReport) -> Sections {
    let mut means = Table::new(["weights", "NDCG@10", "repositories", "table"]).align_left([3]);
    let weights = [
        ("as it is", &report.default),
        ("cross-validated", &report.cross_validated),
        ("without re-ranking", &report.without),
    ];
    for (name, of_tables) in weights {
        for TableMean { table, repositories, ndcg, .. } in of_tables {
            let table = table.display().to_string();
            means.push([name.to_owned(), format!("{ndcg:.4}"), repositories.to_string(), table]);
        }
    }
    let mut differences = Table::new(["p", "table"]).align_left([1]);
    for TableMean { table, p, .. } in &report.without {
        differences.push([p.map_or_else(String::new, |p| format!("{p:.4}")), table.display().to_string()]);
    }
    if let Some(p) = report.p {
        differences.push([format!("{p:.4}"), "all".to_owned()]);
    }
    let mut ablation = Table::new(["without", "NDCG@10"]);
    for Ablated { parameter, ndcg } in &report.ablation {
        ablation.push([(*parameter).to_owned(), format!("{ndcg:.4}")]);
    }
    let queries = counted(report.queries, "query");
    let mut sections = Sections::new()
        .text(format!(
            "{}, {queries} with an answer; NDCG@10 is the mean over repositories\n\n",
            report.method
        ))
        .table(means);
    if report.p.is_some() {
        sections = sections
            .titled("Cross-validated against without re-ranking, paired randomization test", differences);
    }
    if !report.ablation.is_empty() {
        sections = sections.text("\n").table(ablation);
    }
    if let Some(found) = &report.cross_validation {
        let parameters = report.parameters.iter().copied();
        let mut folds = Table::new(["left out", "chosen", "default"].into_iter().chain(parameters));
        let numbers = |values: &[f32]| values.iter().map(f32::to_string).collect::<Vec<_>>();
        for fold in &found.folds {
            let values = [fold.ndcg, fold.default_ndcg].map(|ndcg| format!("{ndcg:.4}"));
            folds.push(std::iter::once(fold.repository.clone()).chain(values).chain(numbers(&fold.chosen)));
        }
        let all = ["none".to_owned(), format!("{:.4}", found.chosen_ndcg), String::new()];
        folds.push(all.into_iter().chain(numbers(&found.chosen)));
        sections = sections.titled("Cross-validation", folds);
    }
    sections
}

fn confidence_sections(found: &Confidence) -> Sections {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let mut separations = Table::new([
        "weights".to_owned(),
        "questions".to_owned(),
        "found".to_owned(),
        "without an answer".to_owned(),
        "ROC AUC".to_owned(),
        format!("held back % at {:.0} % kept", KEPT * 100.0),
        format!("kept % at {:.2}", found.threshold),
        "held back %".to_owned(),
        "calibration error".to_owned(),
    ])
    .align_left([1]);
    for (weights, measured) in [("in use", &found.in_use), ("cross-validated", &found.cross_validated)] {
        let kinds = measured.kinds.iter().map(|(kind, separation)| (kind.name(), separation, String::new()));
        let error = format!("{:.3}", measured.calibration_error);
        for (kind, separation, error) in std::iter::once(("all", &measured.all, error)).chain(kinds) {
            let Separation { found, unanswerable, roc_auc, held_back, kept_in_use, held_back_in_use } =
                separation;
            separations.push([
                weights.to_owned(),
                kind.to_owned(),
                found.to_string(),
                unanswerable.to_string(),
                format!("{roc_auc:.3}"),
                percent(*held_back),
                percent(*kept_in_use),
                percent(*held_back_in_use),
                error,
            ]);
        }
    }
    let mut reliability = Table::new(["confidence", "questions", "with an answer %"]);
    for bin in &found.cross_validated.reliability {
        reliability.push([
            format!("{:.3}", bin.mean_probability),
            bin.count.to_string(),
            percent(bin.share_held),
        ]);
    }
    let mut chosen = Table::new(["feature", "weight"]);
    let features = FEATURES.iter().zip(found.chosen.features);
    for (name, weight) in features.chain([(&"intercept", found.chosen.intercept)]) {
        chosen.push([(*name).to_owned(), format!("{weight:.2}")]);
    }
    Sections::new()
        .table(separations)
        .titled("Reliability, cross-validated", reliability)
        .titled("Weights, fitted on all", chosen)
}
