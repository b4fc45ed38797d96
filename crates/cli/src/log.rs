//! `quarry log`: a record of searches, kept on this machine and off until it is asked for.
//!
//! One JSON Lines file in the user's state folder; deleting it is safe at any time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::output;
use crate::results::ResultView;

const LOG_FILE: &str = "searches.jsonl";

/// Searches are recorded while there is a file of this name.
const SWITCH_FILE: &str = "record-searches";

/// Arguments of `quarry log`.
#[derive(Debug, Args)]
pub struct LogArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Record searches from now on
    On,
    /// Record none from now on; what was recorded stays
    Off,
    /// Print what was recorded, one JSON object a line
    Show,
    /// Remove what was recorded
    Clear,
    /// Say whether searches are recorded, where, and how many were
    Status {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// A search, as the log has it.
#[derive(Serialize)]
pub struct Record<'a> {
    /// Seconds since 1970.
    time: u64,
    command: &'static str,
    /// Of the tree.
    root: PathBuf,
    query: &'a str,
    results: Vec<Place<'a>>,
    /// Which of the results was opened, from 1.
    opened: Option<usize>,
}

#[derive(Serialize)]
struct Place<'a> {
    path: &'a str,
    line: u32,
}

impl<'a> Record<'a> {
    /// Of a search that was made now.
    pub fn of_search(
        command: &'static str,
        root: &Path,
        query: &'a str,
        results: &'a [ResultView],
        opened: Option<usize>,
    ) -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let place = |result: &'a ResultView| Place { path: &result.path, line: result.start_line };
        Self {
            time,
            command,
            root: root.canonicalize().unwrap_or_else(|_| root.to_owned()),
            query,
            results: results.iter().map(place).collect(),
            opened,
        }
    }
}

/// Adds a record if searches are recorded. A log that cannot be written is told of, and does not stop the search.
pub fn append<'a>(record: impl FnOnce() -> Record<'a>) {
    let Ok(folder) = folder() else { return };
    if folder.join(SWITCH_FILE).exists()
        && let Err(error) = write(&folder.join(LOG_FILE), &record())
    {
        output::note(&format!("the search was not recorded: {error:#}"));
    }
}

fn write(file: &Path, record: &Record) -> anyhow::Result<()> {
    let line = format!("{}\n", serde_json::to_string(record)?);
    // One write, so that searches at the same time do not mix.
    private(file)?.write_all(line.as_bytes()).with_context(|| file.display().to_string())
}

/// A file that only this user reads, for adding to its end.
fn private(file: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).with_context(|| format!("cannot write {}", file.display()))
}

/// Runs `quarry log`.
///
/// # Errors
/// When the user has no state folder, or it cannot be read or written.
pub fn run(args: &LogArgs) -> anyhow::Result<ExitCode> {
    let folder = folder()?;
    let (log, switch) = (folder.join(LOG_FILE), folder.join(SWITCH_FILE));
    match args.action {
        Action::On => {
            fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            private(&switch)?;
            output::note(&format!("searches are recorded from now on, in {}", log.display()));
        }
        Action::Off => {
            remove(&switch)?;
            output::note("searches are not recorded; `quarry log clear` removes what was");
        }
        Action::Show => output::print(&read(&log)?)?,
        Action::Clear => {
            remove(&log)?;
            output::note("what was recorded is removed");
        }
        Action::Status { json } => {
            let (on, records) = (switch.exists(), read(&log)?.lines().count());
            if json {
                output::print_json(&serde_json::json!({ "on": on, "file": log, "records": records }))?;
            } else {
                let state = if on { "recorded" } else { "not recorded" };
                output::print(&format!("searches are {state}; {records} are in {}\n", log.display()))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn folder() -> anyhow::Result<PathBuf> {
    let folder = dirs::state_dir().or_else(dirs::data_local_dir);
    Ok(folder.context("no folder is known for this user's state; set XDG_STATE_HOME or HOME")?.join("quarry"))
}

/// The text of a file; empty where there is none.
fn read(file: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| format!("cannot read {}", file.display())),
    }
}

fn remove(file: &Path) -> anyhow::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| format!("cannot remove {}", file.display())),
    }
}
