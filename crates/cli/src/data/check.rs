//! `quarry data check`: what is wrong with data files, or what data sets share.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use quarry_corpus::dataset::check::{Checked, Problem, check};
use quarry_text::counted;
use serde::Serialize;

use super::Inputs;
use super::leaks::{self, LeaksArgs};
use crate::output;

/// Arguments of `quarry data check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    inputs: Inputs,
    /// Maximum number of problems to list for each file [default: 20], or with --leaks of matches between two data sets
    /// [default: 3]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    leaks: LeaksArgs,
    /// Files or directories to check, also against each other
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckedFiles {
    /// Whether no file has errors.
    ok: bool,
    /// The checked files.
    files: Vec<CheckedFile>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct CheckedFile {
    /// Path of the file.
    path: PathBuf,
    /// Detected format.
    format: &'static str,
    /// Valid rows.
    rows: usize,
    /// Number of errors.
    errors: usize,
    /// Number of warnings.
    warnings: usize,
    /// The first problems.
    problems: Vec<ProblemView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct ProblemView {
    /// `error` or `warning`.
    severity: &'static str,
    /// File, line, and what is wrong.
    message: String,
}

impl CheckedFile {
    fn of(file: &Checked) -> Self {
        let problem = |problem: &Problem| ProblemView {
            severity: if problem.is_warning { "warning" } else { "error" },
            message: problem.error.to_string(),
        };
        Self {
            path: file.source.path.clone(),
            format: file.source.format.name,
            rows: file.n_rows,
            errors: file.n_errors,
            warnings: file.n_warnings,
            problems: file.problems.iter().map(problem).collect(),
        }
    }
}

/// Checks, and prints what is wrong. The exit code is 2 when something is.
///
/// # Errors
/// When a file cannot be read, or has no format that is known.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    if args.leaks.leaks {
        return leaks::run(&args.leaks, &args.inputs, &args.paths, args.limit.unwrap_or(3));
    }
    let files = check(&args.inputs.sources(&args.paths)?, args.limit.unwrap_or(20))?;
    let is_wrong = files.iter().any(|file| file.n_errors > 0);
    if args.leaks.layout.is_json() {
        let files = files.iter().map(CheckedFile::of).collect();
        output::print_json(&CheckedFiles { ok: !is_wrong, files })?;
    } else {
        for file in &files {
            let mut text = String::new();
            for problem in &file.problems {
                let severity = if problem.is_warning { "warning" } else { "error" };
                text.push_str(&format!("{severity}: {}\n", problem.error));
            }
            let unlisted = file.n_errors + file.n_warnings - file.problems.len();
            if unlisted > 0 {
                text.push_str(&format!("and {unlisted} more; --limit lists more\n"));
            }
            text.push_str(&format!(
                "{}: {}, {}, {}, {}\n",
                file.source.path.display(),
                file.source.format.name,
                counted(file.n_rows, "good row"),
                counted(file.n_errors, "error"),
                counted(file.n_warnings, "warning")
            ));
            output::print(&text)?;
        }
    }
    Ok(if is_wrong { ExitCode::from(2) } else { ExitCode::SUCCESS })
}
