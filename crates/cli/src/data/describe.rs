//! `quarry data describe`: the statistics that papers print.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::Args;
use quarry_corpus::dataset::describe::{Census, Comparison, Description, Length, Texts};
use quarry_metrics::table::{Sections, Table};
use quarry_text::{identifiers, parts};
use quarry_transformer::TokenCutter;
use serde::Serialize;

use super::Inputs;
use crate::eval::arguments::LayoutArgs;

/// Arguments of `quarry data describe`.
#[derive(Debug, Args)]
pub struct DescribeArgs {
    #[command(flatten)]
    inputs: Inputs,
    /// Another data set, a file or directory: report what both share and how much their tokens differ; may be repeated
    #[arg(long, value_name = "PATH")]
    against: Vec<PathBuf>,
    /// Use the published tokens, joined by spaces, as texts
    #[arg(long)]
    tokens: bool,
    /// Count tokens with this tokenizer.json, such as RoBERTa's in GenCodeSearchNet [default:
    /// the parts of identifiers, in lower case]
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    #[command(flatten)]
    layout: LayoutArgs,
    /// Files or directories of one data set
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DescriptionReport<'a> {
    #[serde(flatten)]
    description: &'a Description,
    /// The overlap with each data set of `--against`.
    against: Vec<DescribedComparison<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct DescribedComparison<'a> {
    /// The other data set.
    path: &'a Path,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

pub fn run(args: &DescribeArgs) -> anyhow::Result<()> {
    let cutter = args.tokenizer.as_deref().map(TokenCutter::read).transpose()?;
    let failure = Mutex::new(None);
    let tokenize = |text: &str, each: &mut dyn FnMut(&str)| match &cutter {
        None => parts_of_identifiers(text, each),
        Some(cutter) => {
            if let (Err(error), Ok(mut failure)) = (cutter.cut(text, each), failure.lock()) {
                failure.get_or_insert(error);
            }
        }
    };
    let census = |paths: &[PathBuf]| Census::new(&args.inputs.sources(paths)?, args.tokens, &tokenize);
    let this = census(&args.paths)?;
    let mut comparisons = Vec::new();
    for path in &args.against {
        comparisons.push((path, this.compare(&census(std::slice::from_ref(path))?)));
    }
    if let Ok(Some(error)) = failure.into_inner() {
        return Err(error.into());
    }
    let description = this.describe();
    let against = comparisons.iter().map(|(path, comparison)| DescribedComparison { path, comparison });
    let report = DescriptionReport { description: &description, against: against.collect() };
    args.layout.print(&report, || sections(&description, &comparisons))
}

/// Parts of identifiers in lower case: the words of the static model.
fn parts_of_identifiers(text: &str, each: &mut dyn FnMut(&str)) {
    for part in identifiers(text).flat_map(parts) {
        each(&part.to_lowercase());
    }
}

fn sections(description: &Description, comparisons: &[(&PathBuf, Comparison)]) -> Sections {
    let [queries, codes] = [&description.queries, &description.codes];
    let mut sections = Sections::new()
        .titled("Pairs", pairs(description))
        .titled("Texts", texts(queries, codes))
        .titled("Lengths", lengths(queries, codes));
    for (path, comparison) in comparisons {
        sections = sections.titled(format!("Compared with {}", path.display()), shared(comparison));
    }
    sections
}

fn pairs(description: &Description) -> Table {
    let mut table = Table::new(["pairs", "number"]);
    table.push(["all".to_owned(), description.pairs.to_string()]);
    table.push(["repeated".to_owned(), description.repeated_pairs.to_string()]);
    add_counts(&mut table, "label", &description.labels);
    add_counts(&mut table, "language", &description.languages);
    add_counts(&mut table, "category", &description.categories);
    add_counts(&mut table, "positives per query", &description.positives_per_query);
    table
}

fn add_counts<T: Display>(table: &mut Table, name: &str, counts: &BTreeMap<T, usize>) {
    counts.iter().for_each(|(value, count)| table.push([format!("{name}: {value}"), count.to_string()]));
}

fn texts(queries: &Texts, codes: &Texts) -> Table {
    let mut table = Table::new(["texts", "queries", "codes"]);
    let mut line = |name: &str, of: fn(&Texts) -> usize| {
        table.push([name.to_owned(), of(queries).to_string(), of(codes).to_string()]);
    };
    line("all", |texts| texts.texts);
    line("distinct", |texts| texts.distinct);
    line("distinct, ignoring white space", |texts| texts.distinct_normalised);
    line("empty", |texts| texts.empty);
    line("words in the vocabulary", |texts| texts.word_vocabulary);
    line("tokens in the vocabulary", |texts| texts.token_vocabulary);
    table
}

fn lengths(queries: &Texts, codes: &Texts) -> Table {
    let mut table =
        Table::new(["length of", "in", "mean", "median", "90 %", "minimum", "maximum"]).align_left([1]);
    for (name, texts) in [("queries", queries), ("codes", codes)] {
        for (which, lengths) in [("", &texts.all), (", each once", &texts.once)] {
            let units =
                [("words", &lengths.words), ("characters", &lengths.characters), ("tokens", &lengths.tokens)];
            for (unit, Length { mean, min, median, p90, max }) in units {
                let numbers = [median, p90, min, max].map(ToString::to_string);
                let row = [format!("{name}{which}"), unit.to_owned(), format!("{mean:.2}")];
                table.push(row.into_iter().chain(numbers));
            }
        }
    }
    table
}

fn shared(comparison: &Comparison) -> Table {
    let mut table = Table::new(["texts", "shared", "% of these", "% of those", "total variation distance"]);
    for (side, comparison) in [("queries", &comparison.queries), ("codes", &comparison.codes)] {
        table.push([
            side.to_owned(),
            comparison.shared.to_string(),
            format!("{:.2}", 100.0 * comparison.shared_of_this),
            format!("{:.2}", 100.0 * comparison.shared_of_other),
            format!("{:.4}", comparison.total_variation_distance),
        ]);
    }
    table
}
