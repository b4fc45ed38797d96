//! Arguments that the subcommands of `quarry eval` share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use quarry_eval::evaluation::{Conventions, Evaluation, QuerySet, ScorePrecision, Unjudged};
use quarry_eval::method::Method;
use quarry_eval::result_file::ResultFormat;
use quarry_metrics::ranking::TiePolicy;
use quarry_metrics::significance::Bootstrap;
use quarry_metrics::table::{Layout, Table};
use quarry_metrics::{Gain, Measure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as NameError, StrDeserializer};

use super::models::{ModelArgs, Models};
use crate::new_file;

#[derive(Debug, Args)]
pub struct AbstentionArgs {
    /// Also say how well scores tell which queries are answered badly: nAUC of each metric, as MTEB has it
    #[arg(long)]
    nauc: bool,
}

#[derive(Debug, Args)]
pub struct MethodArgs {
    /// bow, bm25, bm25-lucene, overlap, static, hybrid, the path of a model, api:MODEL, chat:MODEL, vectors:FOLDER,
    /// run:FILE, or others combined, as in rrf(bm25, static), zscore(bm25, 2 * static), mean(…), max-abs(…), rerank(bm25, static)
    #[arg(long, value_name = "METHOD", default_value = "hybrid")]
    pub method: Method,
    /// Model that static and hybrid use: a transformer's folder, or a static model's file or folder [default: the
    /// one built in]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    #[command(flatten)]
    models: ModelArgs,
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
pub struct OutputArgs {
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Write the values of each query: as CSV if the name ends so, else a JSON object a line
    #[arg(long, value_name = "FILE")]
    pub per_query: Option<PathBuf>,
}

/// In which form results are printed.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct LayoutArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Print a table of markdown
    #[arg(long)]
    markdown: bool,
    /// Print a table of LaTeX, which needs the package booktabs
    #[arg(long)]
    latex: bool,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
}

impl LayoutArgs {
    /// The form of a table.
    pub fn table(&self) -> Layout {
        match self {
            Self { markdown: true, .. } => Layout::Markdown,
            Self { latex: true, .. } => Layout::Latex,
            Self { csv: true, .. } => Layout::Csv,
            _ => Layout::Text,
        }
    }

    /// Whether people read it, so that words may stand around the table.
    pub fn for_people(&self) -> bool {
        self.table() == Layout::Text
    }
}

/// Writes one row for each query: its id, then a column for each measure.
pub fn write_per_query(path: &Path, evaluation: &Evaluation) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct QueryLine<'a> {
        query: &'a str,
        metrics: BTreeMap<String, f64>,
    }
    let names: Vec<String> = evaluation.measures.iter().map(Measure::to_string).collect();
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
        let mut table = Table::new(std::iter::once("query".to_owned()).chain(names));
        for (query, values) in &evaluation.queries {
            table.push(std::iter::once(query.clone()).chain(values.iter().map(f64::to_string)));
        }
        return new_file::write_text(path, &table.render(Layout::Csv));
    }
    let lines = evaluation.queries.iter().map(|(query, values)| QueryLine {
        query,
        metrics: names.iter().cloned().zip(values.iter().copied()).collect(),
    });
    new_file::write_json_lines(path, lines)
}

/// Result files of other benchmarks.
#[derive(Debug, Args)]
pub struct ResultFileArgs {
    /// Write a result file as CoIR has it
    #[arg(long, value_name = "FILE")]
    coir: Option<PathBuf>,
    /// Write a result file as MTEB has it
    #[arg(long, value_name = "FILE")]
    mteb: Option<PathBuf>,
    /// Print the values of a result file of CoIR or MTEB beside these
    #[arg(long, value_name = "FILE")]
    pub beside: Option<PathBuf>,
}

impl ResultFileArgs {
    /// The result files to write.
    pub fn to_write(&self) -> impl Iterator<Item = (ResultFormat, &PathBuf)> {
        let coir = self.coir.iter().map(|path| (ResultFormat::Coir, path));
        coir.chain(self.mteb.iter().map(|path| (ResultFormat::Mteb, path)))
    }

    /// `asked`, and what the result files want beside it.
    pub fn with_measures(&self, asked: &[Measure]) -> Vec<Measure> {
        let mut all = asked.to_vec();
        for measure in self.to_write().flat_map(|(format, _)| format.measures()) {
            if !all.contains(&measure) {
                all.push(measure);
            }
        }
        all
    }
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
    pub fn of(&self, evaluation: &Evaluation) -> BTreeMap<String, f64> {
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
    /// What loads the models of the method.
    pub fn models(&self) -> anyhow::Result<Models> {
        if self.model.is_some() && !self.method.uses_builtin_model() {
            bail!(
                "--model goes with --method static or hybrid, found --method {}; leave one out",
                self.method
            );
        }
        self.models.resolve(self.model.clone())
    }
}
