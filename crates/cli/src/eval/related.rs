//! `quarry eval related`: how well the history of repositories would have been foreseen.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use quarry_eval::related::{
    Means, MethodScores, QuestionKind, RelatedOptions, RelatedReport, RepositorySamples, cross_validated,
    report, samples,
};
use quarry_metrics::table::{Sections, Table};
use quarry_related::Scorer;
use quarry_text::counted;

use super::arguments::{BootstrapArgs, BuiltinModelArgs, LayoutArgs};
use super::localize::work_directory;
use super::plan::write_page;
use super::shown::format_interval;
use crate::settings::at_least_one;
use crate::{model, progress};

/// Arguments of `quarry eval related`.
#[derive(Debug, Args)]
pub struct RelatedArgs {
    /// Repositories with a history, bare or not
    #[arg(value_name = "REPOSITORY", required = true)]
    repositories: Vec<PathBuf>,
    /// Maximum number of commits of each repository that are asked about
    #[arg(long, value_name = "N", default_value_t = RelatedOptions::default().samples, value_parser = at_least_one)]
    samples: usize,
    /// Maximum number of commits of each repository that are read
    #[arg(long, value_name = "N", default_value_t = RelatedOptions::default().commits, value_parser = at_least_one)]
    commits: usize,
    /// Leave out trees with more files
    #[arg(long, value_name = "N", default_value_t = RelatedOptions::default().max_files)]
    max_files: usize,
    /// Fit the weights to these repositories, each measured with the weights of the others in as many folds, and write
    /// those of all to FILE
    #[arg(long, value_name = "FILE")]
    fit: Option<PathBuf>,
    /// Number of folds for --fit
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = at_least_one)]
    folds: usize,
    /// Keep samples in DIR, which later runs reuse; remove it when the program has changed
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    #[command(flatten)]
    model: BuiltinModelArgs,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
    #[command(flatten)]
    layout: LayoutArgs,
}

pub fn run(args: &RelatedArgs) -> anyhow::Result<()> {
    let (_temporary, work) = work_directory(args.work.as_deref())?;
    let options = RelatedOptions { samples: args.samples, commits: args.commits, max_files: args.max_files };
    let embedder = model::load(args.model.path.as_deref())?;
    let bar = progress::Progress::new("commits", args.repositories.len() * args.samples);
    bar.show();
    let mut found: Vec<RepositorySamples> = Vec::new();
    for path in &args.repositories {
        found.push(samples(path, &name_of(path), &work, &embedder, &options, &|| bar.inc(1))?);
    }
    bar.finish_and_clear();
    found.retain(|repository| !repository.samples.is_empty());
    let scorers = match &args.fit {
        Some(path) => {
            let fitted = cross_validated(&found, args.folds);
            let text = serde_json::to_string_pretty(&fitted.model)? + "\n";
            write_page(path, &text)?;
            fitted.scorers
        }
        None => vec![Scorer::shipped().clone(); found.len()],
    };
    let report = report(&found, &scorers, &args.bootstrap.resolve())?;
    args.layout.print(&report, || sections(&report))
}

/// `OWNER+NAME`, of a directory with that name or of `repo` in one.
fn name_of(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let own =
        |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match (own(&path).as_str(), path.parent()) {
        ("repo" | ".git", Some(parent)) => own(parent),
        (name, _) => name.to_owned(),
    }
}

fn sections(report: &RelatedReport) -> Sections {
    let n_samples: usize = report.repositories.values().map(|(_, n)| n).sum();
    let head = format!(
        "{} of {}\n\n",
        counted(n_samples, "commit"),
        counted(report.repositories.len(), "repository")
    );
    let mut sections = Sections::new().text(head);
    for kind in QuestionKind::ALL {
        let columns = ["method", "MRR", "Recall@10", "95 %", "file MRR", "file Recall@10", "95 %"];
        let mut table = Table::new(columns).align_left([0]);
        for MethodScores { method, functions, files } in report.methods.get(&kind).into_iter().flatten() {
            let cells = |means: &Means| {
                [format!("{:.3}", means.mrr), format!("{:.3}", means.recall), format_interval(means.interval)]
            };
            let files = files.as_ref().map_or_else(Default::default, cells);
            table.push([&[method.clone()][..], &cells(functions), &files].concat());
        }
        let n = report.questions.get(&kind).copied().unwrap_or_default();
        let title = match kind {
            QuestionKind::Tests => "function to the test functions changed with it",
            QuestionKind::Others => "one of two to six changed functions to the others",
        };
        sections = sections.titled(format!("{title}: {}", counted(n, "question")), table);
        if let Some(gain) = report.gains.get(&kind) {
            let gain = format!("Recall@10 is {gain:.2} times that of the best simple ranking\n\n");
            sections = sections.text(gain);
        }
    }
    let mut table = Table::new(["mean probability", "share changed", "places"]);
    let reliability = &report.reliability;
    for (probability, share, n) in &reliability.bins {
        table.push([format!("{probability:.3}"), format!("{share:.3}"), n.to_string()]);
    }
    let mut after = String::new();
    let _ = writeln!(
        after,
        "calibration error {:.4}; of {} with a probability over 0.5, {:.1} % did not change",
        reliability.calibration_error,
        counted(reliability.likely, "place"),
        reliability.false_alarms * 100.0
    );
    sections.titled("probabilities", table).text(after)
}
