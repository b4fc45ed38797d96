//! `quarry eval protocol`, `protocols` and `reliability`: the protocols of the papers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use quarry_eval::protocol::{
    Discrepancy, Fold, Options, Outcome, PROTOCOLS, Part, Protocol, Request, Role, Sampling, Values,
    discrepancy, protocol, reliability as reliability_of, run as run_protocol,
};
use quarry_metrics::Measure;
use quarry_metrics::ranking::TiePolicy;
use quarry_metrics::significance::{Bootstrap, Interval, mean_interval};
use quarry_metrics::table::{Layout, Table};
use serde::{Deserialize, Serialize};

use super::arguments::{BootstrapArgs, MethodArgs, OutputArgs, by_name};
use crate::eval::shown;
use crate::new_file;
use crate::output;
use crate::progress;

/// Arguments of `quarry eval protocol`: a subcommand for each protocol, with its roles as options.
#[derive(Debug)]
pub struct ProtocolArgs {
    protocol: &'static Protocol,
    files: BTreeMap<String, Vec<PathBuf>>,
    choices: Box<Choices>,
}

#[derive(Debug, Args)]
struct Choices {
    #[command(flatten)]
    method: MethodArgs,
    /// Judgements that are read in a folder: qrels/SPLIT.tsv
    #[arg(long, value_name = "SPLIT", default_value = "test")]
    split: String,
    /// Write what the method would hand in: AdvTest's lists, WebQueryTest's verdicts
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
}

/// What protocols leave open, each by the name of its field in [`Options`].
#[derive(Debug, Args)]
struct OptionArgs {
    /// What to measure of rankings, with commas between [default: what the protocol does]
    #[arg(long = "metrics", value_name = "NAMES", value_delimiter = ',')]
    measures: Vec<Measure>,
    /// Order among equal scores: docid-desc, docid-asc, index-desc, pessimistic, optimistic, average [default: the
    /// protocol's]
    #[arg(long, value_name = "POLICY", value_parser = by_name::<TiePolicy>)]
    ties: Option<TiePolicy>,
    /// Seeds of what the protocol draws, with commas between; figures are means over them, with deviations
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    seeds: Vec<u32>,
    /// Distractors a query [default: 99]
    #[arg(long, value_name = "N")]
    distractors: Option<usize>,
    /// Where they come from: uniform (all that does not answer), rolling (the list of the query before, as the
    /// released script for CodeT5+ draws)
    #[arg(long, value_name = "RULE", value_parser = by_name::<Sampling>)]
    sampling: Option<Sampling>,
    /// Draw no document with the text of one that answers
    #[arg(long)]
    without_twins: bool,
    /// Length of the lists that are scored
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Pairs a batch [default: 1000]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Measure a part of the queries only, split 8 : 1 : 1: train, dev, test
    #[arg(long, value_name = "PART", value_parser = by_name::<Fold>)]
    fold: Option<Fold>,
    /// Do as the published code does where the paper says something else
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
                    .value_name("FILE")
                    .num_args(1..)
                    .action(ArgAction::Append)
                    .value_parser(value_parser!(PathBuf))
            });
            // Said last, as arguments that are flattened bring their own text.
            let command = Choices::augment_args(Command::new(protocol.name).args(roles)).about(about);
            // What the protocol does not take is refused where it is run, and not worth a line of help.
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
        Ok(Self { protocol, files: files.collect(), choices: Box::new(Choices::from_arg_matches(matches)?) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn role_help(role: &Role) -> String {
    let needed = if role.optional { "optional; " } else { "" };
    format!("{} ({needed}{})", capitalised(role.about), role.formats_text())
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

impl OptionArgs {
    fn resolve(&self) -> Options {
        let Self {
            measures,
            ties,
            seeds,
            distractors,
            sampling,
            without_twins,
            depth,
            batch,
            fold,
            as_released,
        } = self;
        Options {
            measures: measures.clone(),
            ties: *ties,
            seeds: seeds.clone(),
            distractors: *distractors,
            sampling: *sampling,
            without_twins: *without_twins,
            depth: *depth,
            batch: *batch,
            fold: *fold,
            as_released: *as_released,
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    protocol: &'a str,
    method: String,
    /// Identity of the method's model and its weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    parts: Vec<PartReport<'a>>,
    figures: &'a BTreeMap<String, f64>,
    discrepancies: Vec<DiscrepancyReport>,
    options: &'a Options,
    bootstrap: Bootstrap,
    took_ms: f64,
}

#[derive(Serialize)]
struct PartReport<'a> {
    name: &'a str,
    queries: usize,
    documents: usize,
    /// Of verdicts.
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

impl<'a> PartReport<'a> {
    fn new(part: &'a Part, bootstrap: &Bootstrap) -> anyhow::Result<Self> {
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
        Ok(Self { name, queries: *queries, documents: *documents, threshold, metrics, intervals })
    }
}

/// Runs `quarry eval protocol`.
///
/// # Errors
/// When a file is missing or wrong, the protocol lacks something or does not know it, or the method fails.
pub fn run(args: &ProtocolArgs) -> anyhow::Result<()> {
    let start = Instant::now();
    let ProtocolArgs { protocol, files, choices } = args;
    let (method, models) = (&choices.method.method, choices.method.models()?);
    let (options, bootstrap) = (choices.options.resolve(), choices.bootstrap.resolve()?);
    let model = RefCell::new(None);
    let outcome = run_protocol(&Request {
        protocol,
        files,
        split: &choices.split,
        options: &options,
        observe: None,
        prepare: &|corpus| {
            let bar = progress::progress_bar("embedding", corpus.documents.len() * method.n_embeddings());
            let prepared = method.prepare(corpus, &models, &mut |n| bar.inc(n as u64))?;
            bar.finish_and_clear();
            *model.borrow_mut() = prepared.model;
            Ok(prepared.scorer)
        },
    })?;
    if let Some(path) = &choices.out {
        let Some(predictions) = &outcome.predictions else {
            bail!(
                "{} hands nothing in: expected advtest with --test, or webquerytest; leave --out out",
                protocol.name
            );
        };
        new_file::write_text(path, &predictions.text())?;
    }
    if let Some(path) = &choices.output.per_query {
        new_file::write_json_lines(path, cases(&outcome))?;
    }
    let parts = outcome.parts.iter().map(|part| PartReport::new(part, &bootstrap));
    let report = Report {
        protocol: protocol.name,
        // Predictions take the method's place.
        method: match files.get("predictions") {
            Some(paths) => paths.iter().map(|path| shown::file_name(path)).collect::<Vec<_>>().join(", "),
            None => choices.method.method.to_string(),
        },
        model: model.into_inner(),
        parts: parts.collect::<anyhow::Result<_>>()?,
        figures: &outcome.figures,
        discrepancies: outcome
            .discrepancies
            .iter()
            .filter_map(|number| discrepancy(number))
            .map(|Discrepancy { number, about }| DiscrepancyReport { number, about })
            .collect(),
        options: &options,
        bootstrap,
        took_ms: output::milliseconds(start.elapsed()),
    };
    let layout = &choices.output.layout;
    if layout.json {
        return output::print_json(&report);
    }
    let text = if layout.for_people() {
        text_of(&report)
    } else {
        let tables = means_tables(&report).into_iter().map(|table| table.render(layout.table()));
        tables.collect::<Vec<_>>().join("\n")
    };
    Ok(output::print(&text)?)
}

#[derive(Serialize)]
struct Case<'a> {
    part: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<BTreeMap<String, f64>>,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    verdict: Option<&'a quarry_eval::protocol::Verdict>,
}

/// The queries and pairs of all parts.
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

/// Means of the parts; those that are measured alike share a table.
fn means_tables(report: &Report<'_>) -> Vec<Table> {
    let alike = report.parts.chunk_by(|a, b| a.metrics.keys().eq(b.metrics.keys()));
    let table = |parts: &[PartReport<'_>]| {
        let names = parts[0].metrics.keys().cloned();
        let mut table =
            Table::new(["part", "queries", "documents"].map(str::to_owned).into_iter().chain(names));
        for part in parts {
            let means = part.metrics.values().map(|mean| format!("{mean:.4}"));
            let counts = [part.name.to_owned(), part.queries.to_string(), part.documents.to_string()];
            table.push(counts.into_iter().chain(means));
        }
        table
    };
    alike.map(table).collect()
}

fn text_of(report: &Report<'_>) -> String {
    let mut text = format!("{}, {}\n", report.protocol, report.method);
    for table in means_tables(report) {
        let _ = write!(text, "\n{}", table.render(Layout::Text));
    }
    let intervals: Vec<(&str, &String, Interval)> = report
        .parts
        .iter()
        .flat_map(|part| part.intervals.iter().map(|(name, interval)| (part.name, name, *interval)))
        .collect();
    if !intervals.is_empty() {
        let _ = writeln!(text, "\n95 % bootstrap intervals");
        let mut table = Table::new(["part", "measure", "interval"]);
        for (part, name, interval) in intervals {
            table.push([part.to_owned(), name.clone(), shown::format_interval(interval)]);
        }
        text.push_str(&table.render(Layout::Text));
    }
    if !report.figures.is_empty() {
        text.push('\n');
        let width = report.figures.keys().map(String::len).max().unwrap_or(0);
        for (name, value) in report.figures {
            // Counts are whole, and few other figures are.
            let digits = if value.fract() == 0.0 { 0 } else { 4 };
            let _ = writeln!(text, "{name:<width$} {value:.digits$}");
        }
    }
    if !report.discrepancies.is_empty() {
        let _ = writeln!(text, "\nBetween paper and code:");
        for DiscrepancyReport { number, about } in &report.discrepancies {
            let _ = writeln!(text, "{number:<4} {about}");
        }
    }
    text
}

/// Arguments of `quarry eval protocols`.
#[derive(Debug, Args)]
pub struct ProtocolsArgs {
    /// Protocol whose inputs, options and discrepancies are listed
    protocol: Option<String>,
}

/// Lists the protocols, or what one takes.
///
/// # Errors
/// When there is no such protocol, or stdout cannot be written.
pub fn list(args: &ProtocolsArgs) -> anyhow::Result<()> {
    let mut text = String::new();
    let Some(name) = &args.protocol else {
        for protocol in PROTOCOLS {
            let roles: Vec<&str> = protocol.roles.iter().map(|role| role.name).collect();
            writeln!(text, "{:<15} {} ({})", protocol.name, protocol.source, roles.join(", "))?;
        }
        return Ok(output::print(&text)?);
    };
    let Some(protocol) = protocol(name) else {
        let names: BTreeSet<&str> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
        bail!("{name}: expected one of {}", names.into_iter().collect::<Vec<_>>().join(", "));
    };
    writeln!(text, "{}: {}\n{}\n", protocol.name, protocol.source, protocol.about)?;
    for role in protocol.roles {
        writeln!(text, "--{:<16} {}", role.name, role_help(role))?;
    }
    let measures: Vec<String> = protocol.measures.iter().map(Measure::to_string).collect();
    let verdicts = "accuracy, precision, recall, f1, macro_f1, roc_auc, average_precision";
    writeln!(
        text,
        "\nmeasures: {}",
        if measures.is_empty() { verdicts.into() } else { measures.join(", ") }
    )?;
    if !protocol.options.is_empty() {
        let options = OptionArgs::augment_args(Command::new("options"));
        let long = |name: &&str| {
            let option = options.get_arguments().find(|option| option.get_id() == *name)?;
            Some(format!("--{}", option.get_long()?))
        };
        let longs: Vec<String> = protocol.options.iter().filter_map(long).collect();
        writeln!(text, "options: {}", longs.join(", "))?;
    }
    if !protocol.discrepancies.is_empty() {
        writeln!(text, "\nBetween paper and code:")?;
        for Discrepancy { number, about } in protocol.discrepancies.iter().filter_map(|of| discrepancy(of)) {
            writeln!(text, "{number:<4} {about}")?;
        }
    }
    Ok(output::print(&text)?)
}

/// Arguments of `quarry eval reliability`.
#[derive(Debug, Args)]
pub struct ReliabilityArgs {
    /// What `quarry eval protocol cosqa-plus-v1 --json` or `cosqa-plus-v2` printed, a file for each method
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is read of a printed report.
#[derive(Deserialize)]
struct Printed {
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
/// When a file is missing or wrong, or the methods share no queries by number of positives.
pub fn reliability(args: &ReliabilityArgs) -> anyhow::Result<()> {
    let read = |path: &PathBuf| -> anyhow::Result<BTreeMap<String, BTreeMap<String, f64>>> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{}: cannot be read: expected a file there", path.display()))?;
        let printed: Printed = serde_json::from_str(&text).with_context(|| {
            format!("{}: expected what `quarry eval protocol NAME --json` prints", path.display())
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
    if args.json {
        return output::print_json(&figures);
    }
    let mut text = String::new();
    for (name, value) in &figures {
        writeln!(text, "{name:<32} {value:.4}")?;
    }
    Ok(output::print(&text)?)
}
