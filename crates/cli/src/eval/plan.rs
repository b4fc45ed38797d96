//! `quarry eval run`: a benchmark plan.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use quarry_eval::plan::{Locations, Plan};

use super::models::ModelArgs;
use crate::output;

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Benchmark plan; it says where its page goes
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// Folder that the plan's data are in
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Folder with checkouts for repository search, as for `quarry eval repo-search`
    #[arg(long, value_name = "DIR")]
    repos: Option<PathBuf>,
    #[command(flatten)]
    models: ModelArgs,
    /// Print the results as one JSON object too
    #[arg(long)]
    json: bool,
}

/// Runs `quarry eval run`.
///
/// # Errors
/// When the plan or its data are wrong, a method fails, or results cannot be written.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let plan = Plan::read(&args.plan)?;
    let models = args.models.resolve(None)?;
    let locations = Locations { data: args.data.clone(), repositories: args.repos.clone() };
    let results = plan.run(&locations, &|name| models.load(name), |dataset, method| {
        output::note(&format!("{dataset}: {method}"))
    })?;
    let folder = args.plan.parent().unwrap_or(Path::new(""));
    let json = serde_json::to_string_pretty(&results)? + "\n";
    for (path, text) in [(&plan.page, results.page()), (&plan.json, json)] {
        let path = folder.join(path);
        path.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, text))
            .with_context(|| output::cannot_write(&path))?;
        output::note(&format!("wrote {}", path.display()));
    }
    if args.json { output::print_json(&results) } else { Ok(()) }
}
