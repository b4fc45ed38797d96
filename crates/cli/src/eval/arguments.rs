//! Arguments that the subcommands of `quarry eval` share, each declared once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, ValueEnum};
use quarry_eval::evaluation::{Conventions, Evaluation, QuerySelection, ScorePrecision, Unjudged};
use quarry_eval::method::Method;
use quarry_eval::result_file::ResultFormat;
use quarry_metrics::ranking::TiePolicy;
use quarry_metrics::significance::{Bootstrap, MAX_RESAMPLES};
use quarry_metrics::table::{Layout, Sections};
use quarry_metrics::{Gain, Measure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as NameError, StrDeserializer};

use super::models::{ModelArgs, Models};
use crate::settings::up_to;
use crate::{new_file, output};

/// Options for abstention.
#[derive(Debug, Args)]
pub struct AbstentionArgs {
    /// Also measure how well scores predict which queries are answered badly: nAUC of each metric, as in MTEB
    #[arg(long)]
    nauc: bool,
}

/// The method that is measured, and its models.
#[derive(Debug, Args)]
pub struct MethodArgs {
    /// bow, bm25, bm25-lucene, overlap, static, fast or hybrid, best, the path of a model, api:MODEL,
    /// chat:MODEL, vectors:DIR, run:FILE, or a combination, as in rrf(bm25, static), zscore(bm25, 2 * static), mean(…),
    /// max-abs(…), rerank(bm25, static)
    #[arg(long, value_name = "METHOD", default_value = "hybrid")]
    pub method: Method,
    #[command(flatten)]
    pub model: BuiltinModelArgs,
    #[command(flatten)]
    models: ModelArgs,
}

/// Models in place of the built-in one.
#[derive(Debug, Args)]
pub struct BuiltinModelArgs {
    /// Model in place of the built-in one: a transformer's directory, or a static model's file or directory
    #[arg(id = "model", long = "model", value_name = "DIR")]
    pub path: Option<PathBuf>,
}

/// Choice of qrels in a directory.
#[derive(Debug, Args)]
pub struct SplitArgs {
    /// Split whose qrels to read in a directory: qrels/SPLIT.tsv
    #[arg(id = "split", long = "split", value_name = "SPLIT", default_value = "test")]
    pub name: String,
}

/// Directory of labeled repositories. Commands that require it say so by `mut_arg`.
#[derive(Debug, Args)]
pub struct ReposArgs {
    /// Directory with a directory REPO for each repository, `git archive REVISION -- ROOT | tar -x -C DIR/REPO`; may be
    /// repeated: the first that contains a repository is used
    #[arg(id = "repos", long = "repos", value_name = "DIR")]
    pub directories: Vec<PathBuf>,
}

/// Measures of rankings.
#[derive(Debug, Args)]
pub struct RankingArgs {
    /// Metrics, separated by commas: mrr, mmrr, map, ndcg (each also with a cut-off, as mrr@10), recall@K, precision@K,
    /// hit_rate@K, success@K, acc@K (all relevant found), judged@K, r_precision, bpref, rbp.P (persistence, as rbp.95)
    /// [default: those of the protocol, or those that papers report]
    #[arg(long = "metrics", value_name = "NAMES", value_delimiter = ',')]
    pub measures: Vec<Measure>,
    /// Order among equal scores: docid-desc (trec_eval), docid-asc, index-desc, pessimistic, optimistic, average
    /// (expected values over all orders) [default: that of the protocol, or docid-desc]
    #[arg(long, value_name = "POLICY", value_parser = by_name::<TiePolicy>)]
    pub ties: Option<TiePolicy>,
}

/// Choices that evaluation tools make differently.
#[derive(Debug, Args)]
pub struct ConventionArgs {
    #[command(flatten)]
    ranking: RankingArgs,
    /// Gain of a grade in NDCG: linear, exponential
    #[arg(long, value_name = "GAIN", default_value = "linear", value_parser = by_name::<Gain>)]
    gain: Gain,
    /// Queries to average over: both (those in qrels and run), with-positive (all with a relevant document), all (all
    /// in the qrels)
    #[arg(long, value_name = "SET", default_value = "both", value_parser = by_name::<QuerySelection>)]
    queries: QuerySelection,
    /// Unjudged documents: wrong (counted as non-relevant), removed (from the ranking, which condenses it)
    #[arg(long, value_name = "CHOICE", default_value = "wrong", value_parser = by_name::<Unjudged>)]
    unjudged: Unjudged,
}

/// Precision in which the scores of a run are compared.
#[derive(Debug, Args)]
pub struct PrecisionArgs {
    /// Precision of a run's scores: single (pytrec_eval), double
    #[arg(long, value_name = "PRECISION", default_value = "single", value_parser = by_name::<ScorePrecision>)]
    scores: ScorePrecision,
}

/// Destinations of results.
#[derive(Debug, Args)]
pub struct OutputArgs {
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Write the values of each query to FILE: CSV if its name ends in .csv, else JSON lines
    #[arg(long, value_name = "FILE")]
    pub per_query: Option<PathBuf>,
}

/// In which format results are printed.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct LayoutArgs {
    /// Print text for people, one JSON object, or tables in Markdown, LaTeX (for the package booktabs) or CSV
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    format: Format,
    /// The same as --format json
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Markdown,
    Latex,
    Csv,
}

impl LayoutArgs {
    /// Prints a report: one JSON object, or its tables in the requested format.
    pub fn print(&self, report: &impl Serialize, sections: impl FnOnce() -> Sections) -> anyhow::Result<()> {
        if self.is_json() {
            return output::print_json(report);
        }
        Ok(output::print(&sections().render(self.table()))?)
    }

    pub fn is_json(&self) -> bool {
        self.json || self.format == Format::Json
    }

    pub fn table(&self) -> Layout {
        match self.format {
            Format::Text | Format::Json => Layout::Text,
            Format::Markdown => Layout::Markdown,
            Format::Latex => Layout::Latex,
            Format::Csv => Layout::Csv,
        }
    }

    pub fn is_for_people(&self) -> bool {
        !self.json && self.format == Format::Text
    }
}

/// Writes a row or JSON object for each query: its id, and the value of each measure.
pub fn write_per_query(path: &Path, evaluation: &Evaluation) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct QueryLine<'a> {
        query: &'a str,
        metrics: serde_json::Map<String, serde_json::Value>,
    }
    let names: Vec<String> = evaluation.measures.iter().map(Measure::to_string).collect();
    let lines = evaluation.queries.iter().map(|(query, values)| QueryLine {
        query,
        metrics: names.iter().cloned().zip(values.iter().map(|value| (*value).into())).collect(),
    });
    new_file::write_records(path, lines)
}

/// Result files of other benchmarks.
#[derive(Debug, Args)]
pub struct ResultFileArgs {
    /// Write a result file in the format of CoIR
    #[arg(long, value_name = "FILE")]
    coir: Option<PathBuf>,
    /// Write a result file in the format of MTEB
    #[arg(long, value_name = "FILE")]
    mteb: Option<PathBuf>,
    /// Also print the values of a result file of CoIR or MTEB
    #[arg(long, value_name = "FILE")]
    pub beside: Option<PathBuf>,
}

impl ResultFileArgs {
    pub fn to_write(&self) -> impl Iterator<Item = (ResultFormat, &PathBuf)> {
        let coir = self.coir.iter().map(|path| (ResultFormat::Coir, path));
        coir.chain(self.mteb.iter().map(|path| (ResultFormat::Mteb, path)))
    }

    /// The `shown` measures, and those that the result files need.
    pub fn with_measures(&self, shown: &[Measure]) -> Vec<Measure> {
        let mut all = shown.to_vec();
        for measure in self.to_write().flat_map(|(format, _)| format.measures()) {
            if !all.contains(&measure) {
                all.push(measure);
            }
        }
        all
    }
}

/// Options of intervals and p-values.
#[derive(Debug, Args)]
pub struct BootstrapArgs {
    /// Number of resamples for intervals and p-values
    #[arg(long, value_name = "N", default_value_t = Bootstrap::default().resamples, value_parser = up_to::<MAX_RESAMPLES>)]
    resamples: usize,
    /// Seed of the resamples
    #[arg(long, value_name = "SEED", default_value_t = Bootstrap::default().seed)]
    seed: u64,
}

/// A value of an enum by the name that it has in files.
pub fn by_name<T: DeserializeOwned>(name: &str) -> Result<T, NameError> {
    T::deserialize(StrDeserializer::new(name))
}

impl ConventionArgs {
    pub fn resolve(&self, precision: Option<&PrecisionArgs>) -> Conventions {
        let scores = precision.map(|precision| precision.scores).unwrap_or_default();
        let Self { ref ranking, gain, queries, unjudged } = *self;
        Conventions { ties: ranking.ties.unwrap_or_default(), gain, queries, unjudged, scores }
    }

    pub fn measures(&self, default: fn() -> Vec<Measure>) -> Vec<Measure> {
        let named = &self.ranking.measures;
        if named.is_empty() { default() } else { named.clone() }
    }
}

impl AbstentionArgs {
    pub fn compute(&self, evaluation: &Evaluation) -> BTreeMap<String, f64> {
        if self.nauc { evaluation.abstention() } else { BTreeMap::new() }
    }
}

impl BootstrapArgs {
    pub fn resolve(&self) -> Bootstrap {
        Bootstrap { resamples: self.resamples, seed: self.seed, ..Bootstrap::default() }
    }
}

impl MethodArgs {
    pub fn models(&self) -> anyhow::Result<Models> {
        if self.model.path.is_some() && !self.method.uses_builtin_model() {
            bail!(
                "--model requires --method static or hybrid, found --method {}; omit one of them",
                self.method
            );
        }
        self.models.resolve(self.model.path.clone())
    }
}
