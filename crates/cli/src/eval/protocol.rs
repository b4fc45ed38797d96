//! `quarry eval protocol`: the protocols of the papers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::bail;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use quarry_corpus::formats::repo_search::Repository;
use quarry_eval::EvalError;
use quarry_eval::method::{Corpus, Method, Prepared};
use quarry_eval::protocol::{
    Discrepancy, Fold, MeasuredMethod, Outcome, PROTOCOLS, Part, Protocol, ProtocolOptions, Request, Role,
    Sampling, VERDICT_MEASURES, Values, Verdict, discrepancy, protocol, run as run_protocol,
};
use quarry_eval::repo_search::{self, RepoSearchScores};
use quarry_metrics::Measure;
use quarry_metrics::significance::{Bootstrap, Interval, mean, mean_interval};
use quarry_metrics::table::{Sections, Table};
use quarry_text::did_you_mean_or_all;
use serde::Serialize;

use super::arguments::{BootstrapArgs, LayoutArgs, MethodArgs, OutputArgs, RankingArgs, SplitArgs, by_name};
use super::models::Models;
use super::reliability::reliability;
use crate::eval::shown;
use crate::new_file;
use crate::progress;

/// Arguments of `quarry eval protocol`.
#[derive(Debug, Args)]
pub struct ProtocolArgs {
    /// Name of the protocol; --list lists them
    #[arg(required_unless_present_any = ["list", "reliability"], value_parser = measured)]
    protocol: Option<MeasuredProtocol>,
    /// List the protocols, or show the inputs and options of PROTOCOL and where its paper and code differ
    #[arg(long)]
    list: bool,
    /// Compute the reliability of CoSQA+'s measures over queries with few and many positives, from the --json output of
    /// cosqa-plus-v1 or cosqa-plus-v2, one file for each of two or more methods (can be repeated)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["protocol", "list"])]
    reliability: Vec<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    split: SplitArgs,
    /// Write a file to submit: AdvTest's lists, WebQueryTest's verdicts
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

type MeasuredProtocol = &'static Protocol;

fn measured(name: &str) -> Result<MeasuredProtocol, String> {
    match name {
        "full-corpus" => {
            Err("`quarry eval DIR` measures this, and `quarry data convert` makes such a DIR".to_owned())
        }
        "repo-search" => Err("`quarry eval repo-search TSV --repos DIR` measures this".to_owned()),
        _ => protocol(name).ok_or_else(|| {
            let names = did_you_mean_or_all(name, names().collect::<Vec<_>>());
            format!("unknown protocol; {names}")
        }),
    }
}

/// The protocols of this command: two have commands of their own, and are for plans.
fn names() -> impl Iterator<Item = &'static str> {
    PROTOCOLS
        .iter()
        .map(|protocol| protocol.name)
        .filter(|name| !["full-corpus", "repo-search"].contains(name))
}

/// The inputs of all protocols, by role; each may be repeated. A protocol refuses those that it does not take.
#[derive(Debug)]
struct InputArgs(BTreeMap<String, Vec<PathBuf>>);

/// Each role with the protocols that have it.
fn roles() -> BTreeMap<&'static str, (&'static Role, Vec<&'static str>)> {
    let mut roles = BTreeMap::new();
    for protocol in names().filter_map(protocol) {
        for role in protocol.roles {
            roles.entry(role.name).or_insert_with(|| (role, Vec::new())).1.push(protocol.name);
        }
    }
    roles
}

impl Args for InputArgs {
    fn augment_args(command: Command) -> Command {
        command.args(roles().into_values().map(|(role, protocols)| {
            Arg::new(role.name)
                .long(role.name)
                .help(format!("{} ({})", capitalized(role.about), protocols.join(", ")))
                .help_heading(INPUTS)
                .value_name("FILE")
                .action(ArgAction::Append)
                .value_parser(value_parser!(PathBuf))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for InputArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let paths = |name: &str| Some(matches.get_many::<PathBuf>(name)?.cloned().collect());
        Ok(Self(roles().into_keys().filter_map(|name| Some((name.to_owned(), paths(name)?))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// Options of protocols, each by the name of its field in [`ProtocolOptions`].
#[derive(Debug, Args)]
struct OptionArgs {
    #[command(flatten)]
    ranking: RankingArgs,
    /// Random seeds, separated by commas; figures are means over them, with standard deviations
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    seeds: Vec<u32>,
    /// Number of distractors per query [default: 99]
    #[arg(long, value_name = "N", value_parser = crate::settings::at_least_one)]
    distractors: Option<usize>,
    /// Source of distractors: uniform (all documents that do not answer), rolling (the list of the previous query, as
    /// in the released script for CodeT5+)
    #[arg(long, value_name = "RULE", value_parser = by_name::<Sampling>)]
    sampling: Option<Sampling>,
    /// Do not draw documents with the same text as an answer
    #[arg(long)]
    without_twins: bool,
    /// Only distinguish matching pairs from others, without ranking: one question for each pair and each negative
    #[arg(long)]
    matching_only: bool,
    /// Length of the scored lists
    #[arg(long, value_name = "N", value_parser = crate::settings::at_least_one)]
    depth: Option<usize>,
    /// Number of pairs per batch [default: 1000]
    #[arg(long, value_name = "N", value_parser = crate::settings::at_least_one)]
    batch: Option<usize>,
    /// Measure one part of the queries, split 8 : 1 : 1: train, dev, test
    #[arg(long, value_name = "PART", value_parser = by_name::<Fold>)]
    fold: Option<Fold>,
    /// Follow the published code where it differs from the paper
    #[arg(long)]
    as_released: bool,
    /// Have models read as many tokens as the published script lets them, with a run of white space as one space
    #[arg(long)]
    as_published: bool,
}

impl OptionArgs {
    fn resolve(&self) -> ProtocolOptions {
        ProtocolOptions {
            measures: self.ranking.measures.clone(),
            ties: self.ranking.ties,
            seeds: self.seeds.clone(),
            distractors: self.distractors,
            sampling: self.sampling,
            without_twins: self.without_twins,
            matching_only: self.matching_only,
            depth: self.depth,
            batch: self.batch,
            fold: self.fold,
            as_released: self.as_released,
            as_published: self.as_published,
        }
    }
}

pub const INPUTS: &str = "Inputs (each protocol uses some of these)";

struct ShownMethod<'a> {
    method: &'a Method,
    models: &'a Models,
}

impl MeasuredMethod for ShownMethod<'_> {
    fn asks_chat_models(&self) -> bool {
        self.method.asks_chat_models()
    }

    fn prepare(&self, corpus: Corpus<'_>) -> Result<Prepared, EvalError> {
        let n_embeddings = corpus.documents.len() * self.method.n_embeddings();
        let bar = progress::Progress::new("embedding", n_embeddings);
        self.method.prepare(corpus, self.models, &mut |n| bar.inc(n as u64))
    }

    fn search(
        &self,
        repositories: &[Repository],
        checkouts: &[PathBuf],
    ) -> Result<RepoSearchScores, EvalError> {
        let bar = progress::Progress::new("searching", repositories.len());
        repo_search::evaluate(repositories, checkouts, self.method, self.models, |_| bar.inc(1))
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProtocolReport<'a> {
    /// Name of the protocol.
    protocol: &'a str,
    /// The method.
    method: String,
    /// Identity of the method's model and its weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    /// Results of each part.
    parts: Vec<PartReport>,
    /// Numbers that are derived over parts.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, Option<f64>>"))]
    figures: &'a BTreeMap<String, f64>,
    /// Differences between papers and code that affect it.
    discrepancies: Vec<DiscrepancyReport>,
    /// Options of the protocol, by name.
    options: &'a ProtocolOptions,
    /// Resampling for intervals and p-values.
    bootstrap: Bootstrap,
    /// Time in milliseconds.
    took_ms: f64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProtocolPart"))]
struct PartReport {
    /// Name.
    name: String,
    /// Number of queries.
    queries: usize,
    /// Number of documents that are ranked.
    documents: usize,
    /// Score above which a verdict is a match; `None` for rankings.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    /// Mean of each metric.
    metrics: BTreeMap<String, f64>,
    /// Bootstrap interval of each mean: low, high.
    intervals: BTreeMap<String, Interval>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Discrepancy"))]
struct DiscrepancyReport {
    /// Number that the documentation uses for it.
    number: &'static str,
    /// Description.
    about: &'static str,
}

impl PartReport {
    fn new(part: &Part, bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let metrics = part.means();
        let mut intervals = BTreeMap::new();
        for name in metrics.keys() {
            if let Some(values) = part.values_of(name) {
                intervals.insert(name.clone(), mean_interval(&[&values], bootstrap)?);
            }
        }
        let threshold = match &part.values {
            Values::Verdicts(verdicts) => Some(verdicts.threshold),
            Values::Rankings(_) => None,
        };
        let Part { name, queries, documents, .. } = part;
        Ok(Self {
            name: name.clone(),
            queries: *queries,
            documents: *documents,
            threshold,
            metrics,
            intervals,
        })
    }

    /// The mean over parts, each being a stratum.
    fn mean(parts: &[Part], stratum: &str, bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let mut report = Self {
            name: format!("mean by {stratum}"),
            queries: parts.iter().map(|part| part.queries).sum(),
            documents: parts.iter().map(|part| part.documents).sum(),
            threshold: None,
            metrics: BTreeMap::new(),
            intervals: BTreeMap::new(),
        };
        for name in parts.first().map(Part::means).unwrap_or_default().into_keys() {
            let values: Vec<Vec<f64>> = parts.iter().filter_map(|part| part.values_of(&name)).collect();
            let strata: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
            report.metrics.insert(name.clone(), mean(&strata));
            report.intervals.insert(name, mean_interval(&strata, bootstrap)?);
        }
        Ok(report)
    }
}

pub fn run(args: &ProtocolArgs) -> anyhow::Result<()> {
    let layout = &args.output.layout;
    match args.protocol {
        _ if !args.reliability.is_empty() => reliability(&args.reliability, layout),
        Some(protocol) if args.list => {
            let description = ProtocolDescription::new(protocol);
            layout.print(&description, || description.sections(protocol))
        }
        Some(protocol) => measure(args, protocol),
        None => list(layout),
    }
}

fn measure(args: &ProtocolArgs, protocol: MeasuredProtocol) -> anyhow::Result<()> {
    let start = Instant::now();
    let files = &args.inputs.0;
    let (method, models) = (&args.method.method, args.method.models()?);
    let (options, bootstrap) = (args.options.resolve(), args.bootstrap.resolve());
    let as_published;
    let read = if options.as_published {
        as_published = protocol.as_published(method.clone());
        &as_published
    } else {
        method
    };
    let outcome = run_protocol(&Request {
        protocol,
        files,
        split: &args.split.name,
        options: &options,
        observe: None,
        method: &ShownMethod { method: read, models: &models },
    })?;
    if let Some(path) = &args.out {
        let Some(predictions) = &outcome.predictions else {
            bail!(
                "{} has nothing to submit: expected advtest with --test, or webquerytest; remove --out",
                protocol.name
            );
        };
        new_file::write_text(path, &predictions.text())?;
    }
    if let Some(path) = &args.output.per_query {
        new_file::write_records(path, cases(&outcome))?;
    }
    let parts = outcome.parts.iter().map(|part| PartReport::new(part, &bootstrap));
    let mean = protocol.strata.map(|stratum| PartReport::mean(&outcome.parts, stratum, &bootstrap));
    let report = ProtocolReport {
        protocol: protocol.name,
        // Predictions that are read replace the method.
        method: match files.get("predictions") {
            Some(paths) => paths.iter().map(|path| shown::file_name(path)).collect::<Vec<_>>().join(", "),
            None => method.to_string(),
        },
        model: outcome.model.as_deref(),
        parts: parts.chain(mean).collect::<anyhow::Result<_>>()?,
        figures: &outcome.figures,
        discrepancies: discrepancies(outcome.discrepancies.iter().map(String::as_str)),
        options: &options,
        bootstrap,
        took_ms: quarry_session::milliseconds(start.elapsed()),
    };
    args.output.layout.print(&report, || sections(&report))
}

fn discrepancies<'a>(numbers: impl Iterator<Item = &'a str>) -> Vec<DiscrepancyReport> {
    numbers
        .filter_map(discrepancy)
        .map(|Discrepancy { number, about }| DiscrepancyReport { number, about })
        .collect()
}

#[derive(Serialize)]
struct Case<'a> {
    part: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<BTreeMap<String, f64>>,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    verdict: Option<&'a Verdict>,
}

/// The queries and pairs of all parts, for `--per-query`.
fn cases(outcome: &Outcome) -> impl Iterator<Item = Case<'_>> {
    outcome.parts.iter().flat_map(|part| {
        let case = |query, metrics, verdict| Case { part: &part.name, query, metrics, verdict };
        match &part.values {
            Values::Rankings(evaluation) => {
                let names: Vec<String> = evaluation.measures.iter().map(Measure::to_string).collect();
                let metrics = |values: &[f64]| names.iter().cloned().zip(values.iter().copied()).collect();
                let queries = evaluation.queries.iter();
                queries.map(|(query, values)| case(Some(query), Some(metrics(values)), None)).collect()
            }
            Values::Verdicts(verdicts) => {
                verdicts.pairs.iter().map(|verdict| case(None, None, Some(verdict))).collect::<Vec<_>>()
            }
        }
    })
}

fn sections(report: &ProtocolReport<'_>) -> Sections {
    let mut sections = Sections::new().text(format!("{}, {}", report.protocol, report.method));
    for table in means_tables(&report.parts) {
        sections = sections.text("\n").table(table);
    }
    if report.parts.iter().any(|part| !part.intervals.is_empty()) {
        let mut table = Table::new(["part", "measure", "interval"]).align_left([1]);
        for part in &report.parts {
            for (name, interval) in &part.intervals {
                table.push([part.name.clone(), name.clone(), shown::format_interval(*interval)]);
            }
        }
        sections = sections.titled("95 % bootstrap intervals", table);
    }
    if !report.figures.is_empty() {
        sections = sections.titled("Figures", figures_table(report.figures));
    }
    if report.discrepancies.is_empty() {
        return sections;
    }
    sections.titled("Between paper and code", discrepancies_table(&report.discrepancies))
}

/// Means of the parts; consecutive parts with the same measures share a table.
fn means_tables(parts: &[PartReport]) -> Vec<Table> {
    let table = |parts: &[PartReport]| {
        let names = parts[0].metrics.keys().cloned();
        let mut table =
            Table::new(["part", "queries", "documents"].map(str::to_owned).into_iter().chain(names));
        for part in parts {
            let means = part.metrics.values().map(|mean| format!("{mean:.4}"));
            let counts = [part.name.clone(), part.queries.to_string(), part.documents.to_string()];
            table.push(counts.into_iter().chain(means));
        }
        table
    };
    parts.chunk_by(|a, b| a.metrics.keys().eq(b.metrics.keys())).map(table).collect()
}

fn figures_table(figures: &BTreeMap<String, f64>) -> Table {
    let mut table = Table::new(["figure", "value"]);
    for (name, value) in figures {
        // Counts are whole numbers, and few other figures are.
        let digits = if value.fract() == 0.0 { 0 } else { 4 };
        table.push([name.clone(), format!("{value:.digits$}")]);
    }
    table
}

fn discrepancies_table(discrepancies: &[DiscrepancyReport]) -> Table {
    let mut table = Table::new(["no.", "discrepancy"]).align_left([1]);
    for DiscrepancyReport { number, about } in discrepancies {
        table.push([*number, *about]);
    }
    table
}

/// A protocol as `quarry eval protocol NAME --list` describes it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProtocolDescription {
    /// Name.
    name: &'static str,
    /// Paper or script that defines it.
    source: &'static str,
    /// Description.
    about: &'static str,
    /// Its input files.
    inputs: Vec<InputDescription>,
    /// Metrics.
    measures: Vec<String>,
    /// As spelled on the command line.
    options: Vec<String>,
    /// Differences between papers and code that affect it.
    discrepancies: Vec<DiscrepancyReport>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InputDescription {
    /// Name.
    name: &'static str,
    /// Description.
    about: &'static str,
    /// True if it may be omitted.
    optional: bool,
    /// Formats that the input may have; empty for any.
    formats: &'static [&'static str],
}

impl ProtocolDescription {
    fn new(protocol: &Protocol) -> Self {
        let input = |role: &Role| InputDescription {
            name: role.name,
            about: role.about,
            optional: role.optional,
            formats: role.formats,
        };
        let measures: Vec<String> = protocol.measures.iter().map(Measure::to_string).collect();
        let options = OptionArgs::augment_args(Command::new("options"));
        let long = |name: &&str| {
            let option = options.get_arguments().find(|option| option.get_id() == *name)?;
            Some(format!("--{}", option.get_long()?))
        };
        Self {
            name: protocol.name,
            source: protocol.source,
            about: protocol.about,
            inputs: protocol.roles.iter().map(input).collect(),
            measures: match measures.is_empty() {
                true => VERDICT_MEASURES.map(str::to_owned).to_vec(),
                false => measures,
            },
            options: protocol.options.iter().filter_map(long).collect(),
            discrepancies: discrepancies(protocol.discrepancies.iter().copied()),
        }
    }

    fn sections(&self, protocol: &Protocol) -> Sections {
        let mut inputs = Table::new(["input", "what it is", "formats"]).align_left([1, 2]);
        for role in protocol.roles {
            let optional = if role.optional { " (optional)" } else { "" };
            let about = format!("{}{optional}", capitalized(role.about));
            inputs.push([format!("--{}", role.name), about, role.formats_text()]);
        }
        let mut words = format!("\nmeasures: {}\n", self.measures.join(", "));
        if !self.options.is_empty() {
            words = format!("{words}options: {}\n", self.options.join(", "));
        }
        let sections = Sections::new()
            .text(format!("{}: {}\n{}\n\n", self.name, self.source, self.about))
            .table(inputs)
            .text(words);
        if self.discrepancies.is_empty() {
            return sections;
        }
        sections.titled("Between paper and code", discrepancies_table(&self.discrepancies))
    }
}

fn list(layout: &LayoutArgs) -> anyhow::Result<()> {
    let protocols: Vec<MeasuredProtocol> = names().filter_map(protocol).collect();
    let all: Vec<ProtocolDescription> =
        protocols.iter().map(|protocol| ProtocolDescription::new(protocol)).collect();
    layout.print(&all, || {
        let mut table = Table::new(["protocol", "source", "inputs"]).align_left([1, 2]);
        for protocol in protocols {
            let inputs: Vec<&str> = protocol.roles.iter().map(|role| role.name).collect();
            table.push([protocol.name, protocol.source, &inputs.join(", ")]);
        }
        Sections::new().table(table)
    })
}
