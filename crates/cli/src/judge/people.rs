//! `quarry judge people`: forms for people, and their answers.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};
use quarry_judge::{Programs, open_ledger};
use quarry_people::{
    AnswersOptions, ExportedForm, Guideline, ImportRequest, Sampling, export_answers, export_generated,
    export_pairs, import,
};
use quarry_text::counted;

use super::{IsolationArgs, PlanArgs};
use crate::output;

/// Arguments of `quarry judge people`.
#[derive(Debug, Args)]
pub struct PeopleArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a form for people: pairs, lists of results, or two answers side by side, blind and in a drawn order
    Export(ExportArgs),
    /// Import a form that people filled in, and run its test programs
    Import(ImportArgs),
    /// List the guidelines, or print one
    Guidelines(GuidelinesArgs),
}

#[derive(Debug, Args)]
struct ExportArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// File to write, whose name ends in .csv or .jsonl; the instructions are written beside it, ending in .md
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Guideline for people: a name (`quarry judge people guidelines` lists them), or a file like those in
    /// crates/people/guidelines [default: cosqa-plus; results for one side, preference for two, generated for generated
    /// code]
    #[arg(long, value_name = "NAME")]
    guideline: Option<String>,
    /// Ask people to write a test program for each pair
    #[arg(long, conflicts_with = "side")]
    tests: bool,
    /// Only pairs that the judge has no label for
    #[arg(long, conflicts_with = "side")]
    unresolved: bool,
    /// Only pairs with differing labels from the file, judges or people
    #[arg(long, conflicts_with = "side")]
    disputed: bool,
    /// Only pairs that the judge ran a test program for
    #[arg(long, conflicts_with_all = ["untested", "side"])]
    tested: bool,
    /// Only pairs that the judge ran no test program for
    #[arg(long, conflicts_with = "side")]
    untested: bool,
    /// Maximum number of pairs of each verdict
    #[arg(long, value_name = "N", conflicts_with = "side", value_parser = crate::settings::at_least_one)]
    per_verdict: Option<usize>,
    /// Maximum number of rows
    #[arg(long, value_name = "N", value_parser = crate::settings::at_least_one)]
    sample: Option<usize>,
    /// Seed for drawing rows, their order and the sides
    #[arg(long, value_name = "SEED", default_value_t = 42)]
    seed: u64,
    /// Show answers instead of the plan's pairs: those of a file of pairs, a BEIR directory or a TREC run, under a name
    /// that is not shown; twice for a preference between two
    #[arg(long, value_name = "NAME=PATH", num_args = 1, value_parser = side)]
    side: Vec<(String, PathBuf)>,
    /// Show code that models wrote (`quarry judge run --generate`) and nobody has reviewed yet
    #[arg(long, conflicts_with_all = ["side", "tests", "unresolved", "disputed", "tested", "untested", "per_verdict"])]
    generated: bool,
    /// BEIR directory that the ids in a run refer to
    #[arg(long, value_name = "DIR", requires = "side")]
    benchmark: Option<PathBuf>,
    /// Split of judgments in a directory
    #[arg(long, value_name = "SPLIT", default_value = "test")]
    split: String,
    /// Number of results of each side for a query
    #[arg(long, value_name = "K", requires = "side", value_parser = clap::value_parser!(u32).range(1..=100))]
    top: Option<u32>,
}

/// `NAME=PATH`.
fn side(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err("expected NAME=PATH".to_owned()),
    }
}

#[derive(Debug, Args)]
struct ImportArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Filled-in forms
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Person who filled them in; a column `annotator` in a form takes precedence
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Date, YYYY-MM-DD; a column `date` in a form takes precedence
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    /// Replace earlier answers by the same people to the same rows
    #[arg(long)]
    revise: bool,
    #[command(flatten)]
    isolation: IsolationArgs,
}

#[derive(Debug, Args)]
struct GuidelinesArgs {
    /// Guideline to print, as people see it
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Include the instructions for test programs
    #[arg(long, requires = "name")]
    tests: bool,
}

pub fn run(args: &PeopleArgs) -> anyhow::Result<()> {
    match &args.command {
        Command::Export(args) => export(args),
        Command::Import(args) => import_forms(args),
        Command::Guidelines(args) => guidelines(args),
    }
}

fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let default = match args.side.len() {
        0 if args.generated => "generated",
        0 => "cosqa-plus",
        1 => "results",
        2 => "preference",
        _ => {
            bail!("--side: expected one for ratings of lists, two for preferences, found {}", args.side.len())
        }
    };
    let guideline = Guideline::named(args.guideline.as_deref().unwrap_or(default))?;
    let (writer, judge) = open_ledger(&args.plan.open()?)?;
    let exported = if args.generated {
        export_generated(&writer, judge, guideline, args.sample, args.seed, &args.out)?
    } else if args.side.is_empty() {
        let sampling = Sampling {
            unresolved: args.unresolved,
            disputed: args.disputed,
            tested: if args.tested || args.untested { Some(args.tested) } else { None },
            per_verdict: args.per_verdict,
            at_most: args.sample,
            seed: args.seed,
        };
        export_pairs(&writer, judge, guideline, &sampling, args.tests, &args.out)?
    } else {
        // A list wants several results, a preference one answer each.
        let top = args.top.map_or(if args.side.len() == 1 { 10 } else { 1 }, |top| top as usize);
        let options = AnswersOptions {
            benchmark: args.benchmark.clone(),
            split: args.split.clone(),
            top,
            at_most: args.sample,
            seed: args.seed,
        };
        export_answers(&writer, guideline, &args.side, &options, &args.out)?
    };
    let ExportedForm { form, rows, instructions, too_long, same } = exported;
    output::note(&format!(
        "form {form}: {} in {}, instructions in {}",
        counted(rows, "row"),
        args.out.display(),
        instructions.display()
    ));
    if same > 0 {
        output::note(&format!("left out {}: both sides have only the same answer", counted(same, "query")));
    }
    if let Some(first) = too_long.first() {
        output::note(&format!(
            "texts are too long for many spreadsheets in {}, first in row {first}; write a .jsonl file instead",
            counted(too_long.len(), "row")
        ));
    }
    Ok(())
}

fn import_forms(args: &ImportArgs) -> anyhow::Result<()> {
    let plan = args.plan.open()?;
    let (writer, _) = open_ledger(&plan)?;
    let options =
        ImportRequest { person: args.by.as_deref(), date: args.date.as_deref(), revise: args.revise };
    let stop = super::stop_on_interrupt()?;
    let open = || Ok(Box::new(args.isolation.open(&plan, &stop)?) as Box<dyn Programs>);
    for file in &args.files {
        let found = import(&writer, file, &options, &plan.limits, &open)?;
        let mut text = format!(
            "{}: {} filled in, {} blank; {} new",
            file.display(),
            counted(found.filled, "row"),
            found.blank,
            found.new
        );
        for (count, what) in [(found.revised, "of them replace earlier ones"), (found.unchanged, "unchanged")]
        {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        }
        if !found.programs.is_empty() {
            let programs: Vec<String> = found
                .programs
                .iter()
                .map(|(result, count)| format!("{count} {}", result.replace('_', " ")))
                .collect();
            text.push_str(&format!("; test programs: {}", programs.join(", ")));
        }
        output::note(&text);
    }
    Ok(())
}

fn guidelines(args: &GuidelinesArgs) -> anyhow::Result<()> {
    let text = match &args.name {
        Some(name) => Guideline::named(name)?.instructions(args.tests),
        None => Guideline::names().map(|(name, about)| format!("{name:<18} {about}\n")).collect(),
    };
    Ok(output::print(&text)?)
}
