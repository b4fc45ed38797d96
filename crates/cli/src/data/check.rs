//! `quarry data check`: what is wrong with data files.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use quarry_corpus::dataset::check::check;
use quarry_text::counted;
use serde_json::json;

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

/// Checks, and prints what is wrong. The exit code is 2 when something is.
///
/// # Errors
/// When a file cannot be read, or has no format that is known.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let files = check(&args.inputs.sources(&args.paths)?, args.limit)?;
    let is_wrong = files.iter().any(|file| file.n_errors > 0);
    if args.json {
        let files: Vec<_> = files
            .iter()
            .map(|file| {
                let problems: Vec<_> = file
                    .problems
                    .iter()
                    .map(|problem| {
                        let severity = if problem.is_warning { "warning" } else { "error" };
                        json!({ "severity": severity, "message": problem.error.to_string() })
                    })
                    .collect();
                json!({
                    "path": file.source.path, "format": file.source.format.name, "rows": file.n_rows,
                    "errors": file.n_errors, "warnings": file.n_warnings, "problems": problems,
                })
            })
            .collect();
        output::print_json(&json!({ "ok": !is_wrong, "files": files }))?;
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
