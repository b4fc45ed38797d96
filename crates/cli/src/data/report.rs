//! `quarry data report`: what a build says of its queries, its candidates, and another build.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{compare, depth, written};
use crate::eval::arguments::LayoutArgs;
use crate::{new_file, output};

/// Arguments of `quarry data report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Directory of a build, to report on its call graph and written queries; or a run, with LABELS
    #[arg(value_name = "BUILD")]
    pub build: PathBuf,
    /// Labels of the results of the run, to report on its depth: judgments of the same ids, or a benchmark with them
    #[arg(value_name = "LABELS")]
    pub labels: Option<PathBuf>,
    /// Estimate how many candidates of a query are worth labeling: how often they answer, by rank
    #[arg(long)]
    depth: bool,
    /// Show differences from another build
    #[arg(long, value_name = "BUILD", conflicts_with_all = ["labels", "depth", "plot"])]
    against: Option<PathBuf>,
    /// Judgments to read in a directory: qrels/SPLIT.tsv
    #[arg(long, value_name = "SPLIT", default_value = "test")]
    pub split: String,
    /// Write an SVG file: the curves of --depth, or how well the model knows functions of other packages by their
    /// popularity (if the plan has `unpopular_below = "calibrated"`)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    pub layout: LayoutArgs,
}

impl ReportArgs {
    /// Writes a picture if that is asked for.
    ///
    /// # Errors
    /// When there is none, or it cannot be written.
    pub fn write_plot(&self, plot: impl FnOnce() -> anyhow::Result<String>) -> anyhow::Result<()> {
        let Some(path) = &self.plot else { return Ok(()) };
        new_file::write_text(path, &plot()?)?;
        output::note(&format!("wrote {}", path.display()));
        Ok(())
    }
}

/// Runs `quarry data report`.
///
/// # Errors
/// When nothing was built there, a file is missing or wrong, or it has nothing to report on.
pub fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    match &args.against {
        Some(other) => compare::run(&args.build, other, &args.layout),
        None if args.depth || args.labels.is_some() => depth::run(args),
        None => written::run(args),
    }?;
    Ok(ExitCode::SUCCESS)
}
