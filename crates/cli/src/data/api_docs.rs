//! `quarry data build --api-docs`: documentation of functions of other packages, from installed packages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use quarry_build::{Api, apis_of_build, documentation_name};
use quarry_sandbox::{Ended, Isolation, Limits, Program, Sandbox};
use quarry_text::counted;

use crate::{new_file, output};

/// Prints one JSON object per line: a name, and the docstring of the object with that name. Importing a package runs
/// its code.
const READ_DOCSTRINGS: &str = include_str!("api_docs.py");

/// Number of names passed to one run of the program: few, so that a package that hangs costs few others.
const NAMES_AT_ONCE: usize = 20;

/// Options for writing the documentation of called functions.
#[derive(Debug, Args)]
pub struct ApiDocsArgs {
    /// Only write the documentation of called functions of other packages, as found in installed packages, to this
    /// directory: one file per function; existing files are kept. Name it as `documentation` in `[annotation]` of the
    /// plan
    #[arg(long = "api-docs", value_name = "DIR", conflicts_with_all = ["dry_run", "status"])]
    pub directory: Option<PathBuf>,
    /// Only functions that are called fewer than N times in all sources, as `unpopular_below` in the plan
    #[arg(long, value_name = "N", default_value_t = 10, requires = "directory")]
    below: u64,
    /// Directory of packages, such as the site-packages of an environment, in addition to those of this machine's
    /// python3
    #[arg(long, value_name = "DIR", requires = "directory")]
    packages: Option<PathBuf>,
    /// Command that prints the documentation of a function, whose name replaces {}, to use instead of docstrings; it
    /// runs in the sandbox
    #[arg(long, value_name = "COMMAND", requires = "directory", conflicts_with = "packages")]
    command: Option<String>,
}

impl ApiDocsArgs {
    /// Writes the documentation of the functions that `build` calls, from the installed packages, in a sandbox.
    pub fn write(&self, directory: &Path, build: &Path, isolation: Isolation) -> anyhow::Result<ExitCode> {
        let apis: Vec<Api> = apis_of_build(build)?;
        let is_asked =
            |api: &&Api| api.calls < self.below && (api.language == "python" || self.command.is_some());
        let path_of = |name: &str| directory.join(format!("{}.txt", documentation_name(name)));
        let names: Vec<&str> = (apis.iter().filter(is_asked))
            .map(|api| api.name.as_str())
            .filter(|name| !path_of(name).exists())
            .collect();
        std::fs::create_dir_all(directory)
            .with_context(|| format!("{}: cannot be created", directory.display()))?;
        let sandbox = quarry_sandbox::open(isolation)?;
        let mut n_found = 0;
        let chunk = if self.command.is_some() { 1 } else { NAMES_AT_ONCE };
        for names in names.chunks(chunk) {
            let found = match &self.command {
                Some(command) => by_command(sandbox.as_ref(), command, names[0])?,
                None => docstrings(sandbox.as_ref(), names, self.packages.as_deref())?,
            };
            for (name, text) in found.iter().filter(|(name, _)| names.contains(&name.as_str())) {
                new_file::write_text(&path_of(name), &format!("{}\n", text.trim_end()))?;
                n_found += 1;
            }
        }
        output::note(&format!(
            "{}: {} of {} that are called fewer than {} times have documentation",
            directory.display(),
            n_found,
            counted(names.len(), "function"),
            self.below
        ));
        Ok(ExitCode::SUCCESS)
    }
}

fn limits() -> Limits {
    Limits {
        wall_time: Duration::from_secs(60),
        cpu_time: Duration::from_secs(60),
        memory_bytes: 2 << 30,
        output_bytes: 8 << 20,
        ..Limits::default()
    }
}

/// The docstrings of Python functions, as far as they can be imported.
fn docstrings(
    sandbox: &dyn Sandbox,
    names: &[&str],
    packages: Option<&Path>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let list = names.join("\n");
    let mut program = Program {
        command: vec!["python3".into(), "docstrings.py".into()],
        files: vec![
            ("docstrings.py".into(), READ_DOCSTRINGS.as_bytes().to_vec()),
            ("names.txt".into(), list.into_bytes()),
        ],
        reports: true,
        ..Program::default()
    };
    if let Some(packages) = packages {
        program.read_only.push(("packages".into(), packages.to_owned()));
        program.environment.push(("PYTHONPATH".into(), "/opt/packages".into()));
    }
    let outcome = sandbox.run(&program, &limits())?;
    let mut found = BTreeMap::new();
    // The output of packages goes elsewhere; an interrupted run may end in half a line.
    for line in outcome.report.text().lines() {
        if let Ok((name, text)) = serde_json::from_str::<(String, String)>(line) {
            found.insert(name, text);
        }
    }
    if found.is_empty() && outcome.ended != (Ended::Exited { code: 0 }) {
        bail!("python3 in the sandbox {}: {}", outcome.ended, outcome.stderr.text().trim());
    }
    Ok(found)
}

/// The output of a command about a function; empty if it fails.
fn by_command(sandbox: &dyn Sandbox, command: &str, name: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let words: Vec<String> = command.split_whitespace().map(|word| word.replace("{}", name)).collect();
    let outcome = sandbox.run(&Program { command: words, ..Program::default() }, &limits())?;
    let text = outcome.stdout.text();
    let is_text = outcome.ended == (Ended::Exited { code: 0 }) && !text.trim().is_empty();
    Ok(is_text.then(|| (name.to_owned(), text)).into_iter().collect())
}
