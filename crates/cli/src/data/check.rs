//! `quarry data check`: problems in data files.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use quarry_corpus::dataset::check::{Checked, Problem, check};
use quarry_text::counted;
use serde::Serialize;

use super::Inputs;
use crate::output;

/// Arguments of `quarry data check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    inputs: Inputs,
    /// Maximum number of problems to list for each file
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Files or directories to check, also against each other
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckedFiles {
    /// True if no file has errors.
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

impl From<&Checked> for CheckedFile {
    fn from(file: &Checked) -> Self {
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

/// Checks files and prints their problems. The exit code is 2 if there are any.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let files = check(&args.inputs.sources(&args.paths)?, args.limit)?;
    let files: Vec<CheckedFile> = files.iter().map(CheckedFile::from).collect();
    let is_wrong = files.iter().any(|file| file.errors > 0);
    if args.json {
        output::print_json(&CheckedFiles { ok: !is_wrong, files })?;
    } else {
        for file in &files {
            let mut text = String::new();
            for ProblemView { severity, message } in &file.problems {
                text.push_str(&format!("{severity}: {message}\n"));
            }
            let unlisted = file.errors + file.warnings - file.problems.len();
            if unlisted > 0 {
                text.push_str(&format!("and {unlisted} more; --limit lists more\n"));
            }
            text.push_str(&format!(
                "{}: {}, {}, {}, {}\n",
                file.path.display(),
                file.format,
                counted(file.rows, "good row"),
                counted(file.errors, "error"),
                counted(file.warnings, "warning")
            ));
            output::print(&text)?;
        }
    }
    Ok(if is_wrong { ExitCode::from(2) } else { ExitCode::SUCCESS })
}
