//! `quarry eval run`: a benchmark plan, or the page of what one measured.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use quarry_eval::plan::{
    Event, Locations, Plan, PlannedRun, Program, Store, TrainedModels, Trainer, running_build, write_whole,
};
use quarry_eval::report;
use quarry_files::Outputs;
use quarry_metrics::table::{Sections, Table};
use quarry_text::counted;
use serde::Serialize;

use super::arguments::{LayoutArgs, ReposArgs};
use super::models::ModelArgs;
use crate::{invocation, new_file, output};

/// Arguments of `quarry eval run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Benchmark plan; or its results (a directory or results.json), to rewrite their page
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// Directory that paths of data in the plan are relative to
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
    /// Only list the models that the plan trains, with the time for each as estimated from one step
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    repos: ReposArgs,
    /// Directory of the results; existing results are reused [default: PLAN.results beside the plan]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Directory that `page` and `json` of the plan are relative to [default: the plan's directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the page of the results to FILE [default: report.html in their directory]
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    layout: LayoutArgs,
}

/// The machine and program of a run: kept separate from the results, which are the same on every machine.
#[derive(Serialize)]
struct Environment {
    version: &'static str,
    build: String,
    operating_system: &'static str,
    architecture: &'static str,
    threads: usize,
}

/// Name of the file with the results, in their directory.
pub const RESULTS: &str = "results.json";

/// Name of the page of the results, in their directory.
pub const REPORT: &str = "report.html";

#[cfg(feature = "train")]
fn trainer() -> anyhow::Result<Box<dyn Trainer>> {
    Ok(Box::new(crate::train::plan::EncoderTrainer::default()))
}

#[cfg(not(feature = "train"))]
fn trainer() -> anyhow::Result<Box<dyn Trainer>> {
    anyhow::bail!("the plan trains models, which this build cannot do; install with the default features")
}

/// Contents of a dry run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PlannedTraining"))]
pub struct DryRun {
    /// Each run.
    training: Vec<PlannedRun>,
    /// Of all runs that are not trained yet.
    seconds: f64,
    /// Number of methods by data set, and how many of them are already measured.
    methods: Vec<(String, usize)>,
}

fn dry_run(args: &RunArgs, plan: &Plan, locations: &Locations, store: &Store) -> anyhow::Result<()> {
    let training = match plan.training.is_empty() {
        true => Vec::new(),
        false => plan.planned_runs(locations, store, &*trainer()?)?,
    };
    let seconds = training.iter().filter_map(|run| run.estimate).map(|estimate| estimate.seconds()).sum();
    let methods = plan.datasets.iter().map(|dataset| (dataset.name.clone(), dataset.methods.len())).collect();
    let report = DryRun { training, seconds, methods };
    args.layout.print(&report, || {
        let header = ["trained model", "settings", "examples", "steps", "seconds per step", "time"];
        let mut table = Table::new(header).align_left([1]);
        for PlannedRun { name, settings, trained, estimate } in &report.training {
            let [examples, steps, step, time] = match estimate {
                Some(estimate) => [
                    estimate.examples.to_string(),
                    estimate.steps.to_string(),
                    format!("{:.3}", estimate.step_seconds),
                    duration(estimate.seconds()),
                ],
                None => ["", "", "", if *trained { "trained before" } else { "" }].map(str::to_owned),
            };
            table.push([name.clone(), settings.join(" "), examples, steps, step, time]);
        }
        let methods = report.methods.iter().map(|(name, n)| format!("{name}: {}\n", counted(*n, "method")));
        let total = format!(
            "\nTraining takes about {} on this machine; then these are measured:\n",
            duration(report.seconds)
        );
        Sections::new().table(table).text(total + &methods.collect::<String>())
    })
}

/// A length of time for people: `40 s`, `12 min`, `3.5 h`, `20 days`.
fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds < 100.0 => format!("{seconds:.0} s"),
        _ if seconds < 6_000.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.1} h", seconds / 3_600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

pub(super) fn open_outputs(directory: &Path) -> anyhow::Result<Outputs> {
    let here = if directory == Path::new("") { Path::new(".") } else { directory };
    std::fs::create_dir_all(here)
        .and_then(|()| Outputs::open(here))
        .with_context(|| new_file::cannot_write(here))
}

pub(super) fn write_output(
    outputs: &mut Outputs,
    directory: &Path,
    path: &Path,
    text: &str,
) -> anyhow::Result<()> {
    let shown = directory.join(path);
    outputs.write(path, text.as_bytes()).with_context(|| new_file::cannot_write(&shown))?;
    output::note(&format!("wrote {}", shown.display()));
    Ok(())
}

pub(super) fn write_page(path: &Path, page: &str) -> anyhow::Result<()> {
    write_whole(path, page.as_bytes())?;
    output::note(&format!("wrote {}", path.display()));
    Ok(())
}

pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    if args.plan.is_dir() || args.plan.extension().is_some_and(|extension| extension == "json") {
        return super::report::write_page(&args.plan, args.page.as_deref());
    }
    let plan = Plan::read(&args.plan)?;
    let models = args.models.resolve(None)?;
    let beside = args.plan.parent().unwrap_or(Path::new(""));
    let directory = match &args.results {
        Some(directory) => directory.clone(),
        None => {
            let name = args.plan.with_extension("results");
            let name = Path::new(name.file_name().unwrap_or_default());
            quarry_files::output(beside, name).map_err(anyhow::Error::msg)?
        }
    };
    let locations = Locations {
        data: args.data.clone(),
        plan: beside.to_owned(),
        measured: plan.measured_files(&args.data),
        repositories: args.repos.directories.clone(),
    };
    let store = Store::open(&directory)?;
    if args.dry_run {
        return dry_run(args, &plan, &locations, &store);
    }
    let out = args.out.as_deref().unwrap_or(beside);
    let mut outputs = open_outputs(out)?;
    let named = || plan.page.iter().chain(&plan.json);
    named()
        .try_for_each(|path| outputs.check(path).with_context(|| new_file::cannot_write(&out.join(path))))?;
    let mut in_results = open_outputs(&directory)?;
    let trained = match plan.training.is_empty() {
        true => TrainedModels::default(),
        false => plan.train(&locations, &store, &*trainer()?, |event, name, settings| {
            let known = if event == Event::Known { " (already trained)" } else { "" };
            output::note(&format!(
                "training of {}{known}",
                [&[name.to_owned()], settings].concat().join(" ")
            ));
        })?,
    };
    let program = Program {
        build: running_build(&invocation::code().context("the file of this program is not known")?)?,
        load: &models,
        api: &|api| models.api_identity(api),
        chat: &|chat| models.chat_identity(chat),
    };
    let results = plan.run(&locations, &store, &program, &trained, |event, dataset, method| {
        let known = if event == Event::Known { " (already measured)" } else { "" };
        output::note(&format!("{}: {method}{known}", dataset.name));
    })?;
    let environment = Environment {
        version: env!("CARGO_PKG_VERSION"),
        build: program.build,
        operating_system: std::env::consts::OS,
        architecture: std::env::consts::ARCH,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let json = serde_json::to_string_pretty(&results)? + "\n";
    let page = report::page(&results);
    let environment = serde_json::to_string_pretty(&environment)? + "\n";
    for (name, text) in [
        (RESULTS, &json),
        ("results.md", &results.page()),
        (REPORT, &page),
        ("environment.json", &environment),
    ] {
        match args.page.as_deref().filter(|_| name == REPORT) {
            Some(path) => write_page(path, &page)?,
            None => write_output(&mut in_results, &directory, Path::new(name), text)?,
        }
    }
    for (path, text) in plan
        .page
        .iter()
        .map(|path| (path, results.page()))
        .chain(plan.json.iter().map(|path| (path, json.clone())))
    {
        write_output(&mut outputs, out, path, &text)?;
    }
    // People read the page.
    if args.layout.is_for_people() {
        return Ok(());
    }
    args.layout.print(&results, || results.sections())
}
