//! `quarry cache`: data cached on this machine, and their removal.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use indicatif::HumanBytes;
use quarry_embed::CachedVectors;
use quarry_files::cache::{CacheEntry, EntryState, PruneOutcome, Pruned, Selection};
use quarry_index::{UserDirectories, UserIndexes};
#[cfg(feature = "eval")]
use quarry_llm::CachedAnswers;
use quarry_related::KeptRelations;
#[cfg(feature = "data")]
use quarry_sandbox::packages::{self, CachedPackages};
use quarry_text::counted;
use serde::Serialize;

use crate::output;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Arguments of `quarry cache`.
#[derive(Debug, Args)]
pub struct CacheArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List cached entries with their owners, sizes and times of last use
    List {
        #[command(flatten)]
        kinds: KindArgs,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove unusable entries: indexes of removed trees, and leftovers of killed processes
    ///
    /// Removes only Quarry's own entries in its cache directories, and follows no links. Entries in use by a running
    /// process are kept. Removed entries are recreated when needed; model answers are then paid for again.
    Prune {
        #[command(flatten)]
        kinds: KindArgs,
        /// Also remove entries not used for this long, such as 30d, 8w or 12h
        #[arg(long, value_name = "AGE", value_parser = parse_age)]
        older_than: Option<Duration>,
        /// Remove everything
        #[arg(long, conflicts_with = "older_than")]
        all: bool,
        /// List what would be removed, without removing it
        #[arg(long)]
        dry_run: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct KindArgs {
    /// Only this kind of entry (can be repeated)
    #[arg(long = "kind", value_enum, value_name = "KIND")]
    kinds: Vec<Kind>,
}

/// Kind of cache entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Of source trees
    Indexes,
    /// Vectors computed by models, for evaluations
    Vectors,
    /// Answers of embedding servers
    Answers,
    /// Sets of packages of test programs
    Packages,
    /// Relations and histories of source trees
    Related,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Listed {
    /// Entries of the caches.
    entries: Vec<EntryView>,
    /// Of all entries.
    bytes: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CacheEntry"))]
struct EntryView {
    /// Kind.
    kind: Kind,
    /// The path of a tree, or the name of a model.
    what: String,
    /// Path.
    path: PathBuf,
    /// Size in bytes.
    bytes: u64,
    /// Seconds since 1970, to a day.
    last_used: u64,
    /// State of the entry.
    state: State,
}

/// [`EntryState`], as it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
enum State {
    Useful,
    Orphaned,
    Unfinished,
    Interrupted,
    Unknown,
    InTree,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Removed {
    /// True if nothing was removed.
    dry_run: bool,
    /// Removed entries.
    removed: Vec<RemovedView>,
    /// Of what was removed.
    bytes: u64,
    /// Entries that could not be removed.
    left: Vec<LeftView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CacheRemoved"))]
struct RemovedView {
    /// Kind.
    kind: Kind,
    /// The path of a tree, or the name of a model.
    what: String,
    /// Path.
    path: PathBuf,
    /// Size in bytes.
    bytes: u64,
}

/// An entry that could not be removed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CacheLeft"))]
struct LeftView {
    /// Kind.
    kind: Kind,
    /// Path.
    path: PathBuf,
    /// Reason.
    reason: String,
}

pub fn run(args: &CacheArgs) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::List { kinds, json } => {
            let listed = list(kinds)?;
            if *json { output::print_json(&listed)? } else { output::print(&table(&listed))? }
        }
        Action::Prune { kinds, older_than, all, dry_run, json } => {
            let selection = match older_than {
                _ if *all => Selection::All,
                // Nothing was used before the epoch.
                Some(age) => {
                    Selection::UnusedSince(SystemTime::now().checked_sub(*age).unwrap_or(UNIX_EPOCH))
                }
                None => Selection::Useless,
            };
            let (removed, failed) = prune(kinds, selection, *dry_run)?;
            if *json {
                output::print_json(&removed)?
            } else {
                output::print(&report(&removed))?
            }
            if failed > 0 {
                bail!("{} could not be removed", counted(failed, "entry"));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl State {
    fn new(state: EntryState) -> Self {
        match state {
            EntryState::Useful => Self::Useful,
            EntryState::Orphaned => Self::Orphaned,
            EntryState::Unfinished => Self::Unfinished,
            EntryState::Interrupted => Self::Interrupted,
            EntryState::Unknown => Self::Unknown,
            EntryState::InTree => Self::InTree,
        }
    }

    /// A note to an entry in a table.
    fn note(self) -> &'static str {
        match self {
            Self::Useful => "",
            Self::Orphaned => " (owner removed)",
            Self::Unfinished => " (left by an interrupted process)",
            Self::Interrupted => " (interrupted; the next search continues it)",
            Self::Unknown => " (owner unknown)",
            Self::InTree => " (kept in the tree)",
        }
    }
}

impl KindArgs {
    fn each(&self) -> impl Iterator<Item = Kind> {
        let all = Kind::value_variants().iter().copied();
        all.filter(|kind| self.kinds.is_empty() || self.kinds.contains(kind))
    }
}

impl Kind {
    /// Directory of such entries; none if the user has no cache directory, or this build keeps none.
    fn directory(self) -> Option<PathBuf> {
        let in_cache = |name: &str| Some(quarry_files::cache_directory()?.join(name));
        match self {
            Self::Indexes => in_cache("index"),
            Self::Vectors => in_cache(VECTORS),
            Self::Answers => in_cache(VECTORS).map(|vectors| vectors.join(ANSWERS)),
            #[cfg(feature = "data")]
            Self::Packages => packages::default_cache(),
            #[cfg(not(feature = "data"))]
            Self::Packages => None,
            Self::Related => in_cache(quarry_related::DIRECTORY),
        }
    }

    fn list(self, directory: &Path) -> io::Result<Vec<CacheEntry>> {
        match self {
            Self::Indexes => UserIndexes::list(&UserDirectories::default()),
            Self::Vectors => CachedVectors::list(directory),
            Self::Related => KeptRelations::list(directory),
            #[cfg(feature = "eval")]
            Self::Answers => CachedAnswers::list(directory),
            #[cfg(feature = "data")]
            Self::Packages => CachedPackages::list(directory),
            #[cfg(not(feature = "data"))]
            _ => Ok(Vec::new()),
        }
    }

    fn prune(self, directory: &Path, selection: Selection, dry_run: bool) -> io::Result<Vec<Pruned>> {
        match self {
            Self::Indexes => UserIndexes::prune(&UserDirectories::default(), selection, dry_run),
            Self::Vectors => CachedVectors::prune(directory, selection, dry_run),
            Self::Related => KeptRelations::prune(directory, selection, dry_run),
            #[cfg(feature = "eval")]
            Self::Answers => CachedAnswers::prune(directory, selection, dry_run),
            #[cfg(feature = "data")]
            Self::Packages => CachedPackages::prune(directory, selection, dry_run),
            #[cfg(not(feature = "data"))]
            _ => Ok(Vec::new()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Indexes => "index",
            Self::Vectors => "vectors",
            Self::Answers => "answers",
            Self::Packages => "packages",
            Self::Related => "related",
        }
    }
}

pub use quarry_embed::shipped::VECTORS;

/// Directory of the answers of servers, in the directory of vectors.
pub const ANSWERS: &str = "answers";

/// Runs a step for each directory that exists and is not a link, and collects the results.
fn for_each<T>(
    kinds: &KindArgs,
    step: impl Fn(Kind, &Path) -> io::Result<Vec<T>>,
) -> anyhow::Result<Vec<(Kind, T)>> {
    let mut all = Vec::new();
    for kind in kinds.each() {
        let Some(directory) = kind.directory() else { continue };
        if directory.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
            output::note(&format!("{} is a symbolic link and was not cleared", directory.display()));
            continue;
        }
        let done = step(kind, &directory);
        let done = done.with_context(|| format!("{}: cannot be read", directory.display()))?;
        all.extend(done.into_iter().map(|one| (kind, one)));
    }
    Ok(all)
}

fn list(kinds: &KindArgs) -> anyhow::Result<Listed> {
    let view = |(kind, entry): (Kind, CacheEntry)| EntryView {
        kind,
        what: entry.what,
        path: entry.path,
        bytes: entry.bytes,
        last_used: entry.used.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        state: State::new(entry.state),
    };
    let entries: Vec<EntryView> = for_each(kinds, Kind::list)?.into_iter().map(view).collect();
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    Ok(Listed { entries, bytes })
}

/// A line for each entry, and one for all.
fn table(listed: &Listed) -> String {
    let size = |bytes| HumanBytes(bytes).to_string();
    let mut text = format!("{:<9} {:>11}  {:<12}  OF\n", "KIND", "SIZE", "LAST USED");
    for entry in &listed.entries {
        let used = UNIX_EPOCH + Duration::from_secs(entry.last_used);
        let note = entry.state.note();
        let (name, what) = (entry.kind.name(), output::printable(&entry.what));
        let _ = writeln!(text, "{name:<9} {:>11}  {:<12}  {what}{note}", size(entry.bytes), ago(used));
    }
    let _ = writeln!(text, "{:<9} {:>11}", "total", size(listed.bytes));
    text
}

/// The age of a time, to a day.
fn ago(time: SystemTime) -> String {
    let age = SystemTime::now().duration_since(time).unwrap_or_default();
    match age.as_secs() / DAY.as_secs() {
        0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{days} days ago"),
    }
}

/// Removes the selected entries; returns them, and the number of those that could not be removed.
fn prune(kinds: &KindArgs, selection: Selection, dry_run: bool) -> anyhow::Result<(Removed, usize)> {
    let (mut removed, mut left, mut n_failed) = (Vec::new(), Vec::new(), 0);
    let pruned = for_each(kinds, |kind, directory| kind.prune(directory, selection, dry_run))?;
    for (kind, Pruned { what, path, outcome }) in pruned {
        let reason = match outcome {
            PruneOutcome::Removed(bytes) => {
                removed.push(RemovedView { kind, what, path, bytes });
                continue;
            }
            PruneOutcome::InUse => "a running process uses it".to_owned(),
            PruneOutcome::Foreign(problem) => problem,
            PruneOutcome::Failed(error) => {
                n_failed += 1;
                format!("cannot be removed: {error}")
            }
        };
        output::note(&format!("{} is not removed: {reason}", path.display()));
        left.push(LeftView { kind, path, reason });
    }
    let bytes = removed.iter().map(|entry| entry.bytes).sum();
    Ok((Removed { dry_run, removed, bytes, left }, n_failed))
}

fn report(removed: &Removed) -> String {
    let mut text = String::new();
    for RemovedView { kind, what, bytes, .. } in &removed.removed {
        let (name, what) = (kind.name(), output::printable(what));
        let _ = writeln!(text, "{name:<9} {:>11}  {what}", HumanBytes(*bytes).to_string());
    }
    let verb = if removed.dry_run { "would be removed" } else { "removed" };
    let _ = match removed.removed.len() {
        0 => writeln!(text, "nothing to remove"),
        _ => writeln!(text, "{} {verb}", HumanBytes(removed.bytes)),
    };
    text
}

/// A duration such as `30d`: a whole number of hours, days or weeks.
fn parse_age(text: &str) -> anyhow::Result<Duration> {
    const EXPECTED: &str = "expected hours, days or weeks, such as 12h, 30d or 8w";
    let text = text.trim();
    let (number, hours) = match text.char_indices().next_back() {
        Some((end, 'h')) => (&text[..end], 1),
        Some((end, 'd')) => (&text[..end], 24),
        Some((end, 'w')) => (&text[..end], 7 * 24),
        _ => bail!(EXPECTED),
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        bail!(EXPECTED);
    }
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(hours * 60 * 60));
    seconds.map(Duration::from_secs).context(EXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_whole_numbers_of_a_unit() {
        for (text, hours) in [("12h", 12), ("30d", 720), (" 8w ", 1344), ("0d", 0)] {
            assert_eq!(parse_age(text).unwrap(), Duration::from_secs(hours * 3600), "{text}");
        }
        for text in [
            "",
            "d",
            "30",
            "1.5d",
            "-1d",
            "+1d",
            "30 d",
            "30m",
            "99999999999999999999d",
            "18446744073709551615w",
            "3ü",
        ] {
            assert!(parse_age(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_shown_to_the_day() {
        let before = |seconds| ago(SystemTime::now() - Duration::from_secs(seconds));
        assert_eq!([before(60), before(90_000), before(200_000)], ["today", "yesterday", "2 days ago"]);
        assert_eq!(ago(SystemTime::now() + DAY), "today");
    }
}
