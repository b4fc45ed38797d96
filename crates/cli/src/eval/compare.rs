//! `quarry eval compare`: do runs differ?

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use quarry_corpus::formats::qrels::Qrels;
use quarry_corpus::formats::run::{RankedDocuments, Run};
use quarry_corpus::formats::{Document, beir, qrels, run as run_format};
use quarry_eval::evaluation::{self, Conventions, Evaluation, evaluate_run, largest_changes};
use quarry_metrics::Measure;
use quarry_metrics::significance::{Bootstrap, PairedComparison};
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use super::arguments::{BootstrapArgs, ConventionArgs, LayoutArgs, PrecisionArgs};
use crate::eval::shown::{format_defined, format_interval};

/// Arguments of `quarry eval compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// TREC run that the others are compared with
    #[arg(value_name = "BASELINE")]
    baseline: PathBuf,
    /// TREC runs to compare; p-values are corrected (Holm) over all runs and metrics
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Qrels, TREC or BEIR
    #[arg(long, value_name = "FILE")]
    qrels: PathBuf,
    /// Number of queries for the minimum detectable difference [default: as many as are compared]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    planned_queries: Option<u32>,
    /// Show the N queries that gain most and the N that lose most, by the first metric
    #[arg(long, value_name = "N", default_value_t = 0)]
    moved: usize,
    /// BEIR directory with the texts of the shown queries and documents
    #[arg(long, value_name = "DIR", requires = "moved")]
    benchmark: Option<PathBuf>,
    #[command(flatten)]
    layout: LayoutArgs,
    #[command(flatten)]
    conventions: ConventionArgs,
    #[command(flatten)]
    precision: PrecisionArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ComparisonReport<'a> {
    /// The run that others are compared with.
    baseline: &'a Path,
    /// Each other run against the baseline.
    comparisons: Vec<RunComparison<'a>>,
    /// The choices on which evaluation tools disagree.
    conventions: Conventions,
    /// Resampling for intervals and p-values.
    bootstrap: Bootstrap,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RunComparison<'a> {
    /// Name of the run.
    run: &'a Path,
    /// Number of queries.
    queries: usize,
    /// By measure.
    metrics: BTreeMap<String, PairedComparison>,
}

pub fn run(args: &CompareArgs) -> anyhow::Result<()> {
    let (bootstrap, conventions) =
        (args.bootstrap.resolve(), args.conventions.resolve(Some(&args.precision)));
    let measures = args.conventions.measures(Measure::headline);
    let qrels = qrels::read(&args.qrels)?;
    let mut runs = Vec::new();
    let mut evaluate = |path: &PathBuf| -> anyhow::Result<Evaluation> {
        let run = run_format::read(path)?;
        let evaluation = evaluate_run(&qrels, &run, &measures, &conventions);
        // Only the queries that are shown need the runs again.
        runs.extend((args.moved > 0).then_some(run));
        evaluation.with_context(|| path.display().to_string())
    };
    let baseline = evaluate(&args.baseline)?;
    let others = args.runs.iter().map(evaluate).collect::<anyhow::Result<Vec<_>>>()?;
    let n_planned = args.planned_queries.map(|n| n as usize);
    let comparisons = evaluation::compare(&baseline, &others, n_planned, &bootstrap)?;
    let mut sections = Sections::new().text(format!("a: {}\n\n", args.baseline.display()));
    for (run, found) in args.runs.iter().zip(&comparisons) {
        let heading = format!("b: {}, {}", run.display(), counted(found.queries, "query"));
        let rows = found.measures.iter().map(|(measure, found)| (measure.to_string(), found));
        sections = sections.text(heading).table(table(rows)).text("\n");
    }
    let undecided = undecided(&args.runs, &comparisons, &bootstrap);
    sections = sections.text(
        "p-values are two-sided; those in brackets are corrected (Holm) over all rows, separately for \
                       each test",
    );
    if !undecided.is_empty() {
        sections = sections.text(undecided);
    }
    if let [of_baseline, others_runs @ ..] = &runs[..] {
        let texts = args.benchmark.as_deref().map(Texts::read).transpose()?.unwrap_or_default();
        for ((path, other), run) in args.runs.iter().zip(&others).zip(others_runs) {
            let mut text =
                format!("\nQueries that differ most between a and {}, by {}\n", path.display(), measures[0]);
            for (query, values) in moved(&baseline, other, args.moved) {
                text += &texts.side_by_side(query, values, [of_baseline, run], &qrels);
            }
            sections = sections.text(text);
        }
    }
    let named = |(measure, found): (Measure, PairedComparison)| (measure.to_string(), found);
    let comparisons = args.runs.iter().zip(comparisons).map(|(run, found)| RunComparison {
        run,
        queries: found.queries,
        metrics: found.measures.into_iter().map(named).collect(),
    });
    let report = ComparisonReport {
        baseline: &args.baseline,
        comparisons: comparisons.collect(),
        conventions,
        bootstrap,
    };
    args.layout.print(&report, || sections)
}

/// Sentences on the differences whose interval and p-values contradict each other.
fn undecided(runs: &[PathBuf], comparisons: &[evaluation::Comparison], bootstrap: &Bootstrap) -> String {
    let mut text = String::new();
    for (run, found) in runs.iter().zip(comparisons) {
        for (measure, found) in &found.measures {
            let tests =
                found.tests.iter().filter(|(_, test)| found.difference.contradicts(test.test.p, bootstrap));
            let names: Vec<String> =
                tests.map(|(name, test)| format!("{name}: p = {:.4}", test.test.p)).collect();
            if !names.is_empty() {
                let _ = writeln!(
                    text,
                    "{measure} of {}: the interval {} and {} contradict each other, because intervals and tests are \
                     computed by different methods; the difference is not decided at this level",
                    run.display(),
                    format_interval(found.difference.interval),
                    names.join(", "),
                );
            }
        }
    }
    text
}

/// A row for each measure: means, difference, effect and tests.
pub(super) fn table<'a>(measures: impl IntoIterator<Item = (String, &'a PairedComparison)>) -> Table {
    const TESTS: [&str; 5] = ["randomisation", "bootstrap", "t", "wilcoxon", "mcnemar"];
    let header = ["", "a", "b", "b - a", "interval", "wins", "losses", "effect", "detectable"];
    let mut table = Table::new(header.into_iter().chain(TESTS));
    for (measure, found) in measures {
        let difference = &found.difference;
        let tests = TESTS.map(|name| {
            let test = found.tests.get(name);
            test.map_or("-".to_owned(), |test| format!("{:.4} ({:.4})", test.test.p, test.p_holm))
        });
        let row = [
            measure,
            format!("{:.4}", difference.mean_a),
            format!("{:.4}", difference.mean_b),
            format!("{:+.4}", difference.difference),
            format_interval(difference.interval),
            found.wins.to_string(),
            found.losses.to_string(),
            format_defined(found.effect_size),
            format_defined(found.minimum_detectable_difference),
        ];
        table.push(row.into_iter().chain(tests));
    }
    table
}

/// Texts of queries and documents by id; empty if unknown.
#[derive(Default)]
struct Texts {
    queries: HashMap<String, String>,
    documents: HashMap<String, Document>,
}

/// Width of a column of code, in characters.
const COLUMN: usize = 56;
/// Lines of code that are shown.
const LINES: usize = 12;

impl Texts {
    fn read(directory: &Path) -> anyhow::Result<Self> {
        let (queries, documents) = beir::read_texts(directory)?;
        Ok(Self {
            queries: queries.into_iter().map(|query| (query.id, query.text)).collect(),
            documents: documents.into_iter().map(|document| (document.id.clone(), document)).collect(),
        })
    }

    /// A query, and the first document of each of two runs for it.
    fn side_by_side(&self, query: &str, [before, after]: [f64; 2], runs: [&Run; 2], qrels: &Qrels) -> String {
        let mut text = format!("\n{query}: {}\n", self.queries.get(query).map_or("", String::as_str));
        let sides = runs.map(|run| {
            let found = run.get(query).into_iter().flat_map(RankedDocuments::iter);
            // As trec_eval ranks them: equal scores by descending id.
            found.max_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(b.0))).map(|(document, _)| document)
        });
        let headings = sides.map(|document| {
            let relevant =
                |id: &str| qrels.get(query).and_then(|judged| judged.get(id)).is_some_and(|grade| *grade > 0);
            document.map_or("nothing".into(), |id| {
                let label = self.documents.get(id).map_or_else(|| id.to_owned(), Document::label);
                format!("{label}{}", if relevant(id) { " (relevant)" } else { "" })
            })
        });
        let codes = sides.map(|document| {
            document.and_then(|id| self.documents.get(id)).map_or("", |document| document.text.as_str())
        });
        let columns = [before, after].map(|value| format!("{value:.4}"));
        let heads =
            [("a", 0), ("b", 1)].map(|(name, side)| format!("{name} {}: {}", columns[side], headings[side]));
        let mut lines = codes.map(str::lines);
        let rows = (0..LINES).map_while(|_| {
            let next = lines.each_mut().map(Iterator::next);
            next.iter()
                .any(Option::is_some)
                .then(|| next.map(|line| line.unwrap_or_default().replace('\t', "    ")))
        });
        for [left, right] in std::iter::once(heads).chain(rows) {
            let cut = |line: &str| line.chars().take(COLUMN).collect::<String>();
            let _ = writeln!(text, "{}", format!("  {:<COLUMN$}  | {}", cut(&left), cut(&right)).trim_end());
        }
        text
    }
}

/// The queries whose first measure differs most, at most `n` that gain and `n` that lose, with both values.
fn moved<'a>(a: &'a Evaluation, b: &Evaluation, n: usize) -> Vec<(&'a str, [f64; 2])> {
    let of_b: HashMap<&str, f64> =
        b.queries.iter().map(|(query, values)| (query.as_str(), values[0])).collect();
    let both = a.queries.iter().filter_map(|(query, values)| {
        let query = query.as_str();
        Some((query, values[0], *of_b.get(query)?))
    });
    let (queries, values): (Vec<&str>, Vec<(f64, f64)>) = both.map(|(query, a, b)| (query, (a, b))).unzip();
    let (before, after): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
    let positions = largest_changes(&before, &after, n).into_iter();
    positions.map(|position| (queries[position], [before[position], after[position]])).collect()
}
