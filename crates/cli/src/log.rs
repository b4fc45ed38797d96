//! `quarry log`: a record of searches, kept on this machine and off by default.
//!
//! One JSON Lines file in the user's state directory; deleting it is safe at any time. A search is recorded when it is
//! made, and again, with the rank, when one of its results is opened.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use quarry_files::{create_private_directory, open_private, state_directory};
use quarry_index::Hit;
use quarry_session::Tree;
use quarry_text::counted;
use serde::Serialize;
use serde_json::Value;

use crate::output;

const LOG_FILE: &str = "searches.jsonl";

/// Searches are recorded while a file of this name exists.
const SWITCH_FILE: &str = "record-searches";

/// Arguments of `quarry log`.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// Action [default: show whether and where searches are recorded, and how many]
    action: Option<Action>,
    /// Record which result of the last search was the right one, by its rank from 1; pick and mcp do so automatically
    #[arg(long, value_name = "RANK", conflicts_with = "action", value_parser = crate::settings::at_least_one)]
    opened: Option<usize>,
    /// With show, print the number of tokens given to agents, and that of the files that they read in parts
    #[arg(long, conflicts_with = "opened")]
    savings: bool,
    /// Print the state, or the savings, as one JSON object
    #[arg(long, conflicts_with = "opened")]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Action {
    /// Start recording searches
    On,
    /// Stop recording searches; recorded ones are kept
    Off,
    /// Print the recorded searches, one JSON object per line
    Show,
    /// Remove the recorded searches
    Clear,
}

#[derive(Serialize)]
pub struct Record<'a> {
    /// Seconds since 1970.
    time: u64,
    command: &'static str,
    root: PathBuf,
    query: &'a str,
    results: Vec<Position<'a>>,
    /// The rank of the result that was opened, from 1.
    opened: Option<usize>,
    /// Tokens given to an agent (o200k_base).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<usize>,
    /// Tokens of the whole file, if a result was opened, or of the files of all results, if all were shown in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_tokens: Option<usize>,
}

#[derive(Serialize)]
struct Position<'a> {
    path: Cow<'a, str>,
    line: u32,
}

impl<'a> Record<'a> {
    /// The record of a search just now, in the tree at `root`; `results` are paths and lines, best first, and `opened`
    /// is the rank, from 1, of the opened result.
    #[cfg(feature = "mcp")]
    pub fn new(
        command: &'static str,
        root: &Path,
        query: &'a str,
        results: impl Iterator<Item = (&'a str, u32)>,
        opened: Option<usize>,
    ) -> Self {
        Self {
            time: now(),
            command,
            root: root.canonicalize().unwrap_or_else(|_| root.to_owned()),
            query,
            results: results.map(|(path, line)| Position { path: Cow::Borrowed(path), line }).collect(),
            opened,
            tokens: None,
            file_tokens: None,
        }
    }

    pub fn from_hits<'h>(
        command: &'static str,
        tree: &Tree,
        query: &'a str,
        hits: impl Iterator<Item = &'h Hit>,
        opened: Option<usize>,
    ) -> Self {
        let position =
            |hit: &Hit| Position { path: Cow::Owned(tree.path_in_common(hit)), line: hit.start_line };
        let root = tree.common_root().to_owned();
        let results = hits.map(position).collect();
        Self { time: now(), command, root, query, results, opened, tokens: None, file_tokens: None }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Adds a record if searches are recorded. A log that cannot be written is reported, and does not stop the search.
pub fn append<'a>(record: impl FnOnce() -> Record<'a>) {
    let Ok(directory) = directory() else { return };
    if directory.join(SWITCH_FILE).exists()
        && let Err(error) = write(&directory.join(LOG_FILE), &record())
    {
        output::note(&format!("the search was not recorded: {error:#}"));
    }
}

/// Records the last search once more, with the rank of the result that was opened; returns a sentence about it.
fn append_opened(log: &Path, rank: usize) -> anyhow::Result<String> {
    let text = read(log)?;
    let last = text.lines().last().context("no search is recorded yet; run a search first")?;
    let mut record: Value = serde_json::from_str(last)
        .with_context(|| format!("the last line of {} is not a record", log.display()))?;
    let n_results = record["results"].as_array().map_or(0, Vec::len);
    if !(1..=n_results).contains(&rank) {
        bail!(
            "the last search, {}, has {}; expected the rank of one of them",
            record["query"],
            counted(n_results, "result")
        );
    }
    record["opened"] = rank.into();
    record["time"] = now().into();
    write(log, &record)?;
    let result = &record["results"][rank - 1];
    let path = result["path"].as_str().unwrap_or_default();
    Ok(format!("{path}:{} was the right result of the search for {}", result["line"], record["query"]))
}

fn write(file: &Path, record: &impl Serialize) -> anyhow::Result<()> {
    let line = format!("{}\n", serde_json::to_string(record)?);
    // One write, so that searches at the same time do not mix.
    private(file)?.write_all(line.as_bytes()).with_context(|| file.display().to_string())
}

/// Opens a file, which only this user can read, for appending.
fn private(file: &Path) -> anyhow::Result<File> {
    let opened = open_private(OpenOptions::new().create(true).append(true), file);
    opened.with_context(|| format!("cannot write {}", file.display()))
}

pub fn run(args: &LogArgs) -> anyhow::Result<ExitCode> {
    let directory = directory()?;
    let (log, switch) = (directory.join(LOG_FILE), directory.join(SWITCH_FILE));
    match args.action {
        Some(Action::Show) if args.savings => Savings::from_records(&read(&log)?).print(args.json)?,
        _ if args.savings => bail!("expected `quarry log show --savings`"),
        Some(_) if args.json => {
            bail!("--json works with `quarry log` and `quarry log show --savings` only")
        }
        Some(Action::On) => {
            create_private_directory(&directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
            private(&switch)?;
            output::note(&format!("recording searches in {}", log.display()));
        }
        Some(Action::Off) => {
            remove(&switch)?;
            output::note("no longer recording searches; `quarry log clear` removes the recorded ones");
        }
        Some(Action::Show) => {
            let records = read(&log)?;
            if records.is_empty() {
                output::note(if switch.exists() {
                    "no search is recorded yet"
                } else {
                    "no search is recorded; `quarry log on` starts recording"
                });
            }
            output::print_json_text(&records)?;
        }
        Some(Action::Clear) => {
            remove(&log)?;
            output::note("removed the recorded searches");
        }
        None => match args.opened {
            Some(_) if !switch.exists() => {
                bail!("searches are not recorded; run `quarry log on` to record them");
            }
            Some(rank) => output::note(&append_opened(&log, rank)?),
            None => show_state(args.json)?,
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// Tokens given to agents, compared with those of the files that they opened.
#[derive(Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Savings {
    /// Searches of agents whose tokens are recorded.
    searches: usize,
    /// Results that were opened, or shown in full by `context`.
    opened: usize,
    /// Tokens of all answers to searches, and of the results that were opened.
    tokens_given: u64,
    /// Tokens of the files of these results, each once for a search.
    tokens_of_files: u64,
    /// Name of the tokenizer.
    tokenizer: &'static str,
}

impl Savings {
    /// Savings by the records in a log; those without tokens are of people, or of earlier versions.
    fn from_records(records: &str) -> Self {
        let mut savings = Self { tokenizer: "o200k_base", ..Self::default() };
        // The files that were opened since the last search.
        let mut opened: HashSet<String> = HashSet::new();
        for record in records.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let Some(tokens) = record["tokens"].as_u64() else { continue };
            savings.tokens_given += tokens;
            let file_tokens = record["file_tokens"].as_u64();
            let file = |result: &Value| {
                let [root, path] =
                    [&record["root"], &result["path"]].map(|part| part.as_str().unwrap_or_default());
                format!("{root}/{path}")
            };
            let rank = record["opened"].as_u64().and_then(|rank| usize::try_from(rank).ok());
            let Some(rank) = rank.filter(|rank| *rank > 0) else {
                savings.searches += 1;
                opened.clear();
                if let (Some(tokens), Some(shown)) = (file_tokens, record["results"].as_array()) {
                    savings.opened += shown.len();
                    savings.tokens_of_files += tokens;
                    opened.extend(shown.iter().map(file));
                }
                continue;
            };
            savings.opened += 1;
            if opened.insert(file(&record["results"][rank - 1])) {
                savings.tokens_of_files += file_tokens.unwrap_or_default();
            }
        }
        savings
    }

    fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            return output::print_json(self);
        }
        let Self { searches, opened, tokens_given, tokens_of_files, tokenizer } = self;
        Ok(output::print(&format!(
            "{} by agents, who read {}\n{} ({tokenizer}) given: all answers, and the results that were read\n{} in the \
             files of these results, each counted once per search\nUnknown: which files an agent would have read \
             without Quarry, what it searched for elsewhere, and what it read with other tools.\n",
            counted(*searches, "search"),
            counted(*opened, "result"),
            counted(*tokens_given, "token"),
            counted(*tokens_of_files, "token")
        ))?)
    }
}

fn show_state(json: bool) -> anyhow::Result<()> {
    let state = state()?;
    if json {
        return output::print_json(&state);
    }
    let State { on, file, n_records } = state;
    let on = if on { "recorded" } else { "not recorded" };
    Ok(output::print(&format!(
        "searches are {on}; {} in {}\n",
        counted(n_records, "record"),
        file.display()
    ))?)
}

/// State of the search log.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "LogState"))]
pub struct State {
    /// True if searches are recorded.
    pub on: bool,
    /// Path of the record.
    pub file: PathBuf,
    /// Number of recorded searches.
    #[serde(rename = "records")]
    pub n_records: usize,
}

/// The state of the log.
pub fn state() -> anyhow::Result<State> {
    let directory = directory()?;
    let file = directory.join(LOG_FILE);
    Ok(State { on: directory.join(SWITCH_FILE).exists(), n_records: read(&file)?.lines().count(), file })
}

fn directory() -> anyhow::Result<PathBuf> {
    state_directory().context("this user has no state directory; set XDG_STATE_HOME or HOME")
}

/// The text of a file; empty if there is none.
fn read(file: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| format!("{}: cannot be read", file.display())),
    }
}

fn remove(file: &Path) -> anyhow::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| format!("cannot remove {}", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savings_count_answers_against_the_files_that_were_opened() {
        let records = [
            r#"{"query": "by a person", "results": [], "opened": null}"#,
            r#"{"root": "/t", "results": [{"path": "a.py"}, {"path": "b.py"}, {"path": "a.py"}], "opened": null, "tokens": 300}"#,
            r#"{"root": "/t", "results": [{"path": "a.py"}, {"path": "b.py"}, {"path": "a.py"}], "opened": 1, "tokens": 50, "file_tokens": 4000}"#,
            r#"{"root": "/t", "results": [{"path": "a.py"}, {"path": "b.py"}, {"path": "a.py"}], "opened": 3, "tokens": 70, "file_tokens": 4000}"#,
            "not a record",
        ];
        let savings = Savings::from_records(&records.join("\n"));
        assert_eq!((savings.searches, savings.opened), (1, 2));
        assert_eq!((savings.tokens_given, savings.tokens_of_files), (420, 4_000), "a file is read once");
        // Results that `context` shows in full count as read.
        let records = [
            r#"{"root": "/t", "results": [{"path": "a.py"}, {"path": "b.py"}], "opened": null, "tokens": 900, "file_tokens": 6000}"#,
            r#"{"root": "/t", "results": [{"path": "a.py"}, {"path": "b.py"}], "opened": 2, "tokens": 50, "file_tokens": 2000}"#,
        ];
        let savings = Savings::from_records(&records.join("\n"));
        assert_eq!((savings.searches, savings.opened), (1, 3));
        assert_eq!((savings.tokens_given, savings.tokens_of_files), (950, 6_000));
    }
}
