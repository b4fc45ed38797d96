//! `quarry eval protocol`, `protocols` and `reliability`: the protocols of the papers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use quarry_corpus::formats::repo_search::Repository;
use quarry_eval::EvalError;
use quarry_eval::method::{Corpus, Method, Prepared};
use quarry_eval::protocol::{
    Discrepancy, Fold, MeasuredMethod, Outcome, PROTOCOLS, Part, Protocol, ProtocolOptions, Request, Role,
    RoleKind, Sampling, VERDICT_MEASURES, Values, Verdict, discrepancy, protocol,
    reliability as reliability_of, run as run_protocol,
};
use quarry_eval::repo_search::{self, RepoSearchScores};
use quarry_metrics::Measure;
use quarry_metrics::significance::{Bootstrap, Interval, mean, mean_interval};
use quarry_metrics::table::{Sections, Table};
use serde::{Deserialize, Serialize};

use super::arguments::{BootstrapArgs, LayoutArgs, MethodArgs, OutputArgs, RankingArgs, SplitArgs, by_name};
use super::models::Models;
use crate::eval::shown;
use crate::new_file;
use crate::progress;

/// Arguments of `quarry eval protocol`: a subcommand for each protocol, with its roles as options.
#[derive(Debug)]
pub struct ProtocolArgs {
    protocol: &'static Protocol,
    files: BTreeMap<String, Vec<PathBuf>>,
    common: Box<CommonArgs>,
}

/// Arguments of every protocol.
#[derive(Debug, Args)]
struct CommonArgs {
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

/// What protocols leave open, each by the name of its field in [`ProtocolOptions`].
#[derive(Debug, Args)]
struct OptionArgs {
    #[command(flatten)]
    ranking: RankingArgs,
    /// Random seeds, separated by commas; figures are means over them, with standard deviations
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    seeds: Vec<u32>,
    /// Number of distractors per query [default: 99]
    #[arg(long, value_name = "N")]
    distractors: Option<usize>,
    /// Source of distractors: uniform (all documents that do not answer), rolling (the list of the previous query, as in
    /// the released script for CodeT5+)
    #[arg(long, value_name = "RULE", value_parser = by_name::<Sampling>)]
    sampling: Option<Sampling>,
    /// Do not draw documents with the same text as an answer
    #[arg(long)]
    without_twins: bool,
    /// Only tell matching pairs from others, and rank nothing: a question for each pair, and one for each negative
    #[arg(long)]
    matching_only: bool,
    /// Length of the scored lists
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Number of pairs per batch [default: 1000]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Measure one part of the queries, split 8 : 1 : 1: train, dev, test
    #[arg(long, value_name = "PART", value_parser = by_name::<Fold>)]
    fold: Option<Fold>,
    /// Do what the published code does where it differs from the paper
    #[arg(long)]
    as_released: bool,
}

impl Args for ProtocolArgs {
    fn augment_args(command: Command) -> Command {
        let subcommands = PROTOCOLS.iter().map(|protocol| {
            let about = format!("{} ({})", protocol.about, protocol.source);
            let roles = protocol.roles.iter().map(|role| {
                Arg::new(role.name)
                    .long(role.name)
                    .help(role_help(role))
                    .value_name(match role.kind {
                        RoleKind::Data => "FILE",
                        RoleKind::Checkouts => "DIR",
                    })
                    .num_args(1..)
                    .action(ArgAction::Append)
                    .value_parser(value_parser!(PathBuf))
            });
            // Last, because flattened arguments bring a text of their own.
            let command = CommonArgs::augment_args(Command::new(protocol.name).args(roles)).about(about);
            // The protocol refuses options that it does not take; they need no line of help.
            let options = OptionArgs::augment_args(Command::new(protocol.name));
            let unknown = options.get_arguments().map(|option| option.get_id().clone());
            let unknown = unknown.filter(|id| !protocol.options.contains(&id.as_str()));
            unknown.fold(command, |command, id| command.mut_arg(id, |option| option.hide(true)))
        });
        command.subcommand_required(true).arg_required_else_help(true).subcommands(subcommands)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ProtocolArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        let protocol = protocol(name).ok_or_else(missing)?;
        let files = protocol.roles.iter().filter_map(|role| {
            let paths: Vec<PathBuf> = matches.get_many::<PathBuf>(role.name)?.cloned().collect();
            Some((role.name.to_owned(), paths))
        });
        Ok(Self {
            protocol,
            files: files.collect(),
            common: Box::new(CommonArgs::from_arg_matches(matches)?),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn role_help(role: &Role) -> String {
    let needed = if role.optional { "optional; " } else { "" };
    format!("{} ({needed}{})", capitalized(role.about), role.formats_text())
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
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
        }
    }
}

/// A method whose progress is shown.
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
        let prepared = self.method.prepare(corpus, self.models, &mut |n| bar.inc(n as u64))?;
        bar.finish_and_clear();
        Ok(prepared)
    }

    fn search(
        &self,
        repositories: &[Repository],
        checkouts: &[PathBuf],
    ) -> Result<RepoSearchScores, EvalError> {
        let bar = progress::Progress::new("searching", repositories.len());
        let scores =
            repo_search::evaluate(repositories, checkouts, self.method, self.models, |_| bar.inc(1))?;
        bar.finish_and_clear();
        Ok(scores)
    }
}

#[derive(Serialize)]
struct ProtocolReport<'a> {
    protocol: &'a str,
    method: String,
    /// Identity of the method's model and its weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    parts: Vec<PartReport>,
    figures: &'a BTreeMap<String, f64>,
    discrepancies: Vec<DiscrepancyReport>,
    options: &'a ProtocolOptions,
    bootstrap: Bootstrap,
    took_ms: f64,
}

#[derive(Serialize)]
struct PartReport {
    name: String,
    queries: usize,
    documents: usize,
    /// Score above which a verdict is a match; `None` for rankings.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    metrics: BTreeMap<String, f64>,
    intervals: BTreeMap<String, Interval>,
}

#[derive(Serialize)]
struct DiscrepancyReport {
    number: &'static str,
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

/// Runs `quarry eval protocol`.
///
/// # Errors
/// When a file is missing or malformed, an input or option is missing or not one of the protocol's, or the method fails.
pub fn run(args: &ProtocolArgs) -> anyhow::Result<()> {
    let start = Instant::now();
    let ProtocolArgs { protocol, files, common } = args;
    let (method, models) = (&common.method.method, common.method.models()?);
    let (options, bootstrap) = (common.options.resolve(), common.bootstrap.resolve()?);
    let outcome = run_protocol(&Request {
        protocol,
        files,
        split: &common.split.name,
        options: &options,
        observe: None,
        method: &ShownMethod { method, models: &models },
    })?;
    if let Some(path) = &common.out {
        let Some(predictions) = &outcome.predictions else {
            bail!(
                "{} has nothing to submit: expected advtest with --test, or webquerytest; remove --out",
                protocol.name
            );
        };
        new_file::write_text(path, &predictions.text())?;
    }
    if let Some(path) = &common.output.per_query {
        new_file::write_json_lines(path, cases(&outcome))?;
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
        took_ms: quarry_answer::milliseconds(start.elapsed()),
    };
    common.output.layout.print(&report, || sections(&report))
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
        let name = part.name.as_str();
        let cases: Vec<Case<'_>> = match &part.values {
            Values::Rankings(evaluation) => {
                let names: Vec<String> = evaluation.measures.iter().map(Measure::to_string).collect();
                let metrics = |values: &[f64]| names.iter().cloned().zip(values.iter().copied()).collect();
                let queries = evaluation.queries.iter();
                queries
                    .map(|(query, values)| Case {
                        part: name,
                        query: Some(query),
                        metrics: Some(metrics(values)),
                        verdict: None,
                    })
                    .collect()
            }
            Values::Verdicts(verdicts) => verdicts
                .pairs
                .iter()
                .map(|verdict| Case { part: name, query: None, metrics: None, verdict: Some(verdict) })
                .collect(),
        };
        cases
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

/// Arguments of `quarry eval protocols`.
#[derive(Debug, Args)]
pub struct ProtocolsArgs {
    /// Show the inputs, options and discrepancies of this protocol
    protocol: Option<String>,
    #[command(flatten)]
    layout: LayoutArgs,
}

/// A protocol as `quarry eval protocols` describes it.
#[derive(Serialize)]
struct ProtocolDescription {
    name: &'static str,
    source: &'static str,
    about: &'static str,
    inputs: Vec<InputDescription>,
    measures: Vec<String>,
    /// As the command line spells them.
    options: Vec<String>,
    discrepancies: Vec<DiscrepancyReport>,
}

#[derive(Serialize)]
struct InputDescription {
    name: &'static str,
    about: &'static str,
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

/// Lists the protocols, or describes one.
///
/// # Errors
/// When no protocol has the name, or stdout cannot be written.
pub fn list(args: &ProtocolsArgs) -> anyhow::Result<()> {
    let Some(name) = &args.protocol else {
        let all: Vec<ProtocolDescription> =
            PROTOCOLS.iter().map(|protocol| ProtocolDescription::new(protocol)).collect();
        return args.layout.print(&all, || {
            let mut table = Table::new(["protocol", "source", "inputs"]).align_left([1, 2]);
            for protocol in PROTOCOLS {
                let inputs: Vec<&str> = protocol.roles.iter().map(|role| role.name).collect();
                table.push([protocol.name, protocol.source, &inputs.join(", ")]);
            }
            Sections::new().table(table)
        });
    };
    let Some(protocol) = protocol(name) else {
        let names: BTreeSet<&str> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
        bail!("{name}: expected one of {}", names.into_iter().collect::<Vec<_>>().join(", "));
    };
    let description = ProtocolDescription::new(protocol);
    args.layout.print(&description, || description.sections(protocol))
}

/// Arguments of `quarry eval reliability`.
#[derive(Debug, Args)]
pub struct ReliabilityArgs {
    /// Output of `quarry eval protocol cosqa-plus-v1 --json` or `cosqa-plus-v2`, one file per method
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    layout: LayoutArgs,
}

/// The part of a printed report that is read again.
#[derive(Deserialize)]
struct PrintedReport {
    parts: Vec<PrintedPart>,
}

#[derive(Deserialize)]
struct PrintedPart {
    name: String,
    metrics: BTreeMap<String, f64>,
}

/// Runs `quarry eval reliability`.
///
/// # Errors
/// When a file is missing or malformed, or the methods share no queries by number of positives.
pub fn reliability(args: &ReliabilityArgs) -> anyhow::Result<()> {
    let read = |path: &PathBuf| -> anyhow::Result<BTreeMap<String, BTreeMap<String, f64>>> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{}: cannot be read: expected a file there", path.display()))?;
        let printed: PrintedReport = serde_json::from_str(&text).with_context(|| {
            format!("{}: expected the output of `quarry eval protocol NAME --json`", path.display())
        })?;
        Ok(printed.parts.into_iter().map(|part| (part.name, part.metrics)).collect())
    };
    if let [only] = args.files.as_slice() {
        bail!("expected a file for each of two methods or more, found only {}", only.display());
    }
    let figures = reliability_of(&args.files.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?);
    if figures.is_empty() {
        bail!(
            "expected parts by number of positives (2 positives, 3 positives, ...) in all files, found too few; print \
             them with `quarry eval protocol cosqa-plus-v1 --json`"
        );
    }
    args.layout.print(&figures, || {
        let mut table = Table::new(["figure", "value"]);
        for (name, value) in &figures {
            table.push([name.clone(), format!("{value:.4}")]);
        }
        Sections::new().table(table)
    })
}
