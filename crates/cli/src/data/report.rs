//! `quarry data report`: what a build says of its queries, its candidates, and another build.

use std::path::PathBuf;

use clap::Args;

use super::{compare, depth, written};
use crate::eval::arguments::LayoutArgs;
use crate::{new_file, output};

/// Arguments of `quarry data report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Directory of a build, to report on its call graph and written queries, or on its steps
    #[arg(value_name = "BUILD")]
    pub build: PathBuf,
    /// Estimate how many candidates of a query are worth labeling: how often they answer, by rank
    #[arg(long)]
    depth: bool,
    /// Show differences from another build
    #[arg(long, value_name = "BUILD", conflicts_with_all = ["depth", "plot"])]
    against: Option<PathBuf>,
    /// Write an SVG file: the curves of --depth, or how well the model knows functions of other packages by their
    /// popularity (if the plan has `unpopular_below = "calibrated"`)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    pub layout: LayoutArgs,
}

impl ReportArgs {
    pub fn has_plot(&self) -> bool {
        self.plot.is_some()
    }

    pub fn write_plot(&self, plot: impl FnOnce() -> anyhow::Result<String>) -> anyhow::Result<()> {
        let Some(path) = &self.plot else { return Ok(()) };
        new_file::write_text(path, &plot()?)?;
        output::note(&format!("wrote {}", path.display()));
        Ok(())
    }
}

pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    match &args.against {
        Some(other) => compare::run(&args.build, other, &args.layout),
        None if args.depth => depth::run(args),
        None => written::run(args),
    }
}
