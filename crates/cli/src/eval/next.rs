//! `quarry eval next`: the judgments that could change the order of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use quarry_corpus::formats::qrels::{self, Qrels};
use quarry_corpus::formats::run::{self as run_format, Run};
use quarry_metrics::Measure;
use quarry_metrics::significance::{Pool, PooledDocument};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use super::arguments::LayoutArgs;
use super::shown;
use crate::new_file;

/// Arguments of `quarry eval next`.
#[derive(Debug, Args)]
pub struct NextArgs {
    /// TREC runs, two or more
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Judgments so far, TREC or BEIR; documents that nobody judged are unknown
    #[arg(long, value_name = "FILE")]
    qrels: PathBuf,
    /// Measure by which the runs are ordered
    #[arg(long, value_name = "METRIC", default_value = "ndcg@10")]
    metric: Measure,
    /// Judge documents within this rank of a run
    #[arg(long, value_name = "K", default_value_t = 50, value_parser = crate::settings::at_least_one)]
    depth: usize,
    /// Number of pairs to judge next
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = crate::settings::at_least_one)]
    pairs: usize,
    /// Probability of the order from which no more judgments are needed
    #[arg(long, value_name = "P", default_value_t = 0.95, value_parser = probability)]
    confidence: f64,
    /// Price of a judgment in dollars, to print that of the next ones and of all
    #[arg(long, value_name = "DOLLARS", value_parser = price)]
    price: Option<f64>,
    /// Write the pairs to FILE, a query and a document in each line, separated by a tab
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Seed of the draws
    #[arg(long, default_value_t = 42)]
    seed: u64,
    #[command(flatten)]
    layout: LayoutArgs,
}

fn probability(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|p: &f64| (0.5..1.0).contains(p));
    found.ok_or_else(|| "expected a probability of at least 0.5 and less than 1".to_owned())
}

fn price(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|price: &f64| *price >= 0.0 && price.is_finite());
    found.ok_or_else(|| "expected a price in dollars, 0 or more".to_owned())
}

/// Certainty of the order of runs, and the next judgments.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NextReport {
    /// The measure.
    metric: Measure,
    /// Runs, best first by expected means.
    runs: Vec<ExpectedRun>,
    /// Probability of exactly this order.
    certainty: f64,
    /// True if that is at least the wanted confidence, so that no more judgments are needed.
    stable: bool,
    /// Number of documents of the pool that nobody judged.
    unknown: usize,
    /// Pairs to judge next, best first; empty if the order is stable.
    pairs: Vec<NextPair>,
    /// Dollars for these pairs, and for all unknown documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<[f64; 2]>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ExpectedRun {
    /// The run.
    run: String,
    /// Expected mean of the measure.
    mean: f64,
    /// Probability that it is better than the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    better_than_next: Option<f64>,
    /// Its place if the documents that only it found count as not judged: another one shows that the pool favors it.
    place_without_own: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NextPair {
    /// Id of the query.
    query: String,
    /// Id of the document.
    document: String,
    /// Expected change by its judgment, as a share of the first one's.
    worth: f64,
}

/// Queries with the ids of their pooled documents.
type PooledIds = Vec<(String, Vec<String>)>;

/// The documents within a depth of any run, for the queries of all runs, with their ranks and judgments.
fn pooled(runs: &[Run], judged: &Qrels, depth: usize) -> (PooledIds, Vec<Vec<PooledDocument>>) {
    let queries: BTreeSet<&String> = runs.iter().flat_map(|run| run.keys()).collect();
    let mut pools = (Vec::new(), Vec::new());
    for query in queries {
        let ranks: Vec<BTreeMap<&str, usize>> = runs
            .iter()
            .map(|run| {
                let mut found: Vec<(&str, f64)> =
                    run.get(query).map_or_else(Vec::new, |found| found.iter().collect());
                // In the order of trec_eval.
                found.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(a.0)));
                found.into_iter().zip(1..).map(|((document, _), rank)| (document, rank)).collect()
            })
            .collect();
        let judged = judged.get(query);
        let is_judged = |document: &str| judged.is_some_and(|judged| judged.contains_key(document));
        let documents: BTreeSet<&str> = ranks
            .iter()
            .flatten()
            .filter(|(document, rank)| **rank <= depth || is_judged(document))
            .map(|(document, _)| *document)
            .collect();
        let of_document = |document: &&str| PooledDocument {
            grade: judged.and_then(|judged| judged.get(*document)).copied(),
            ranks: ranks
                .iter()
                .map(|of_run| of_run.get(document).copied().unwrap_or(of_run.len() + 1))
                .collect(),
        };
        pools.1.push(documents.iter().map(of_document).collect());
        pools.0.push((query.clone(), documents.into_iter().map(str::to_owned).collect()));
    }
    pools
}

/// Runs `quarry eval next`; the exit code is 1 as long as more judgments are needed.
pub fn run(args: &NextArgs) -> anyhow::Result<ExitCode> {
    if matches!(args.metric, Measure::Judged(_) | Measure::Bpref) {
        bail!(
            "--metric {}: expected one that unknown documents change, such as ndcg@10, mrr or map",
            args.metric
        );
    }
    if args.runs.len() < 2 {
        bail!("expected two runs or more, found one; without another there is no order");
    }
    let judged = qrels::read(&args.qrels)?;
    let runs = args.runs.iter().map(|path| run_format::read(path)).collect::<Result<Vec<Run>, _>>()?;
    let (ids, queries) = pooled(&runs, &judged, args.depth);
    let pool = Pool::new(queries, args.metric)?;
    let order = pool.order(args.seed);
    let stable = order.certainty >= args.confidence;
    let next = if stable { Vec::new() } else { pool.next(args.pairs, args.seed) };
    let runs = order.order.iter().enumerate().map(|(place, run)| ExpectedRun {
        run: shown::file_name(&args.runs[*run]),
        mean: order.means[*run],
        better_than_next: order.neighbors.get(place).copied(),
        place_without_own: pool.rank_without_own_judgments(*run, args.depth, args.seed),
    });
    let pairs = next.iter().map(|found| NextPair {
        query: ids[found.query].0.clone(),
        document: ids[found.query].1[found.document].clone(),
        worth: found.worth,
    });
    let report = NextReport {
        metric: args.metric,
        runs: runs.collect(),
        certainty: order.certainty,
        stable,
        unknown: order.unknown,
        pairs: pairs.collect(),
        price: args.price.map(|price| [next.len() as f64 * price, order.unknown as f64 * price]),
    };
    if let Some(path) = &args.out {
        let line = |pair: &NextPair| format!("{}\t{}\n", pair.query, pair.document);
        new_file::write_text(path, &report.pairs.iter().map(line).collect::<String>())?;
    }
    args.layout.print(&report, || sections(&report))?;
    Ok(ExitCode::from(u8::from(!stable)))
}

fn sections(report: &NextReport) -> Sections {
    let mut table =
        Table::new(["run", &format!("expected {}", report.metric), "better than next", "place without own"]);
    for found in &report.runs {
        table.push([
            found.run.clone(),
            format!("{:.4}", found.mean),
            found.better_than_next.map_or_else(String::new, |p| format!("{:.0} %", 100.0 * p)),
            found.place_without_own.to_string(),
        ]);
    }
    let unknown = counted(report.unknown, "document");
    let certainty = format!(
        "\nThis order has a probability of {:.0} %; {unknown} of the pool {} not judged.{}\n",
        100.0 * report.certainty,
        if report.unknown == 1 { "is" } else { "are" },
        report.price.map_or_else(String::new, |[next, all]| {
            format!(" The next judgments cost ${next:.2}, all ${all:.2}.")
        })
    );
    let mut sections = Sections::new().table(table).text(certainty);
    if report.stable {
        return sections.text("No more judgments are needed.\n");
    }
    let mut pairs = Table::new(["query", "document", "worth"]).align_left([1]);
    for pair in &report.pairs {
        pairs.push([pair.query.clone(), pair.document.clone(), format!("{:.3}", pair.worth)]);
    }
    sections = sections.titled("To judge next", pairs);
    sections
}
