//! `quarry eval run`: a benchmark plan, or the page of what one measured.

use std::path::{Path, PathBuf};

use clap::Args;
use quarry_eval::plan::{Event, Locations, Plan, Program, Store, running_build, write_whole};
use quarry_eval::report;
use serde::Serialize;

use super::arguments::{LayoutArgs, ReposArgs};
use super::models::ModelArgs;
use crate::output;

/// Arguments of `quarry eval run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Benchmark plan; or what one wrote, a directory or its results.json, whose page is written again
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// Directory that paths of data in the plan are relative to
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
    #[command(flatten)]
    repos: ReposArgs,
    /// Directory of the results; what is in it is not measured again [default: PLAN.results beside the plan]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Write the page of the results to FILE [default: report.html in their directory]
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    layout: LayoutArgs,
}

/// The machine and program of a run: kept apart from the results, which are the same on every machine.
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

/// Runs `quarry eval run`.
///
/// # Errors
/// When the plan or its data are malformed, a method fails, or results cannot be written.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    if args.plan.is_dir() || args.plan.extension().is_some_and(|extension| extension == "json") {
        return super::report::write_page(&args.plan, args.page.as_deref());
    }
    let plan = Plan::read(&args.plan)?;
    let models = args.models.resolve(None)?;
    let directory = args.results.clone().unwrap_or_else(|| args.plan.with_extension("results"));
    let locations = Locations { data: args.data.clone(), repositories: args.repos.directories.clone() };
    let store = Store::open(&directory)?;
    let program = Program {
        build: running_build()?,
        load: &models,
        api: &|api| models.api_identity(api),
        chat: &|chat| models.chat_identity(chat),
    };
    let results = plan.run(&locations, &store, &program, |event, dataset, method| {
        let known = if event == Event::Known { " (measured before)" } else { "" };
        output::note(&format!("{}: {method}{known}", dataset.name));
    })?;
    let environment = Environment {
        version: env!("CARGO_PKG_VERSION"),
        build: program.build,
        operating_system: std::env::consts::OS,
        architecture: std::env::consts::ARCH,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let beside = args.plan.parent().unwrap_or(Path::new(""));
    let json = serde_json::to_string_pretty(&results)? + "\n";
    let mut files = vec![
        (directory.join(RESULTS), json.clone()),
        (directory.join("results.md"), results.page()),
        (args.page.clone().unwrap_or_else(|| directory.join("report.html")), report::page(&results)),
        (directory.join("environment.json"), serde_json::to_string_pretty(&environment)? + "\n"),
    ];
    files.extend(plan.page.iter().map(|path| (beside.join(path), results.page())));
    files.extend(plan.json.iter().map(|path| (beside.join(path), json.clone())));
    for (path, text) in files {
        write_whole(&path, text.as_bytes())?;
        output::note(&format!("wrote {}", path.display()));
    }
    // People read the page.
    if args.layout.is_for_people() {
        return Ok(());
    }
    args.layout.print(&results, || results.sections())
}
