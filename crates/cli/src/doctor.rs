//! `quarry doctor`: problems that keep search from working here, and their fixes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use indicatif::HumanBytes;
use quarry_embed::Embedder;
use quarry_index::{Index, OpenOptions, RebuildReason, Status, Update, expected_bytes};
#[cfg(feature = "data")]
use quarry_sandbox::{MemoryBound, Runner, SEARCH_PATH};
use quarry_session::models::{Quality, can_rerank};
use quarry_source::languages;
use quarry_text::{counted, with_causes};
use quarry_walk::{self as walk, ListedFile, Listing, SkipReason, WalkOptions};
use serde::Serialize;

use crate::index::{IGNORED, SourceArgs};
use crate::model::{RerankArgs, bundled_model_directories};
use crate::output;
use crate::settings::{self, Settings};
use crate::terminal::Terminal;
use crate::{log, watch};

/// Minimum free bytes.
const LEAST_SPACE: u64 = 16 << 20;

/// Maximum time for checking the files of a tree; the rest is not checked.
const PATIENCE: Duration = Duration::from_secs(10);

const NARROWER: &str = "name a smaller directory as PATH, such as that of a project";

/// Arguments of `quarry doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    rerank: RerankArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// It works, but not optimally.
    Warning,
    Broken,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "DoctorCheck"))]
struct Check {
    /// Name of the check.
    name: &'static str,
    /// `ok`, `warning` or `error`.
    state: State,
    /// Finding.
    found: String,
    /// Suggested fix; null if nothing is wrong.
    advice: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoctorReport {
    /// True if no check failed.
    ok: bool,
    /// The checks.
    checks: Vec<Check>,
}

/// Runs `quarry doctor`: exit code 2 if something is broken, else 0. Nothing is built, and nothing is left behind.
pub fn run(mut args: DoctorArgs) -> anyhow::Result<ExitCode> {
    args.source.rerank(args.rerank);
    let mut checks = Vec::new();
    check_all(&args.source, &mut |check: Check| -> io::Result<()> {
        if !args.json {
            output::print(&check.line())?;
        }
        checks.push(check);
        Ok(())
    })?;
    let answer = DoctorReport { ok: checks.iter().all(|check| check.state != State::Broken), checks };
    if args.json {
        output::print_json(&answer)?;
    }
    Ok(if answer.ok { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Makes all checks, each as far as it can after others failed, and reports each when it is done.
fn check_all(source: &SourceArgs, report: &mut dyn FnMut(Check) -> io::Result<()>) -> io::Result<()> {
    let (checks, settings) = settings_files(&source.path);
    checks.into_iter().try_for_each(&mut *report)?;
    let (tree, listing) = tree(source, &settings);
    report(tree)?;
    if let Some(listing) = &listing {
        report(known_languages(listing))?;
        report(watching(&source.path, found(source, &settings)))?;
    }
    let (loads, model) = model(source, &settings);
    report(loads)?;
    quality(&settings).into_iter().try_for_each(&mut *report)?;
    if let Some(listing) = &listing {
        let options = source.options(&settings);
        index_checks(source, &options, listing, model).into_iter().try_for_each(&mut *report)?;
    }
    report(terminal(&settings))?;
    report(searches())?;
    #[cfg(feature = "data")]
    report(programs())?;
    Ok(())
}

/// Checks of the index and its location; none if the tree cannot be read.
fn index_checks(
    source: &SourceArgs,
    options: &OpenOptions,
    listing: &Listing,
    model: Option<Arc<dyn Embedder>>,
) -> Vec<Check> {
    let (path, open) = (source.path.clone(), options.clone());
    let Some(status) = run_within(PATIENCE, move || Index::status(&path, &open)) else {
        let found = too_long("the changes since the index was made were not");
        return vec![Check::warning("index", found, NARROWER)];
    };
    let Ok(status) = status else { return Vec::new() };
    let of_others = |path: &PathBuf| {
        let found = format!("{} {IGNORED}", path.display());
        Check::warning("index", found, "remove it, or `quarry index --local`")
    };
    let mut checks: Vec<Check> = status.ignored.iter().map(of_others).collect();
    let (path, open) = (source.path.clone(), options.clone());
    checks.push(match run_within(PATIENCE, move || Index::damage(&path, &open)) {
        None => Check::warning("index", too_long("not all damage to it was"), NARROWER),
        Some(Ok(damage)) if !damage.is_empty() => {
            let damage: Vec<String> = damage.iter().map(|error| with_causes(error)).collect();
            Check::warning("index", damage.join(", "), "`quarry index --rebuild` builds it again")
        }
        _ => index(source, &status, options, model),
    });
    checks.extend(storage(&status, listing));
    checks
}

/// The result of some work, if it ends in time; otherwise the work goes on until the program ends, and is not waited
/// for: a user who names a directory of millions of files, or one on a server that does not answer, needs a report.
fn run_within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(limit).ok()
}

fn too_long(what: &str) -> String {
    format!("{what} found in {} s", PATIENCE.as_secs())
}

impl Check {
    fn line(&self) -> String {
        let Self { name, state, found, advice } = self;
        let state = match state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Broken => "BROKEN",
        };
        let advice = advice.as_ref().map_or_else(String::new, |advice| format!("; {advice}"));
        format!("{state:<8} {name:<9} {found}{advice}\n")
    }

    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Ok, found: found.into(), advice: None }
    }

    fn warning(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, state: State::Warning, found: found.into(), advice: Some(advice.into()) }
    }

    fn broken(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: State::Broken, ..Self::warning(name, found, advice) }
    }
}

/// Checks of the settings files, and the effective settings; the defaults if a file has a mistake.
fn settings_files(root: &Path) -> (Vec<Check>, Settings) {
    let there: Vec<String> = settings::files(root)
        .iter()
        .filter(|file| file.is_file())
        .map(|file| file.display().to_string())
        .collect();
    match Settings::load(root) {
        Ok(settings) if there.is_empty() => {
            (vec![Check::ok("settings", "no file, the defaults apply")], settings)
        }
        Ok(settings) => (vec![Check::ok("settings", there.join(", "))], settings),
        Err(error) => {
            let check = Check::broken("settings", with_causes(&error), "fix or remove the file");
            (vec![check], Settings::defaults())
        }
    }
}

/// Options for the files that a search finds.
fn found(source: &SourceArgs, settings: &Settings) -> WalkOptions {
    let options = source.options(settings);
    Index::found(&source.path, &options).unwrap_or_else(|_| options.walk.over(&options.defaults))
}

fn tree(source: &SourceArgs, settings: &Settings) -> (Check, Option<Listing>) {
    let (path, options) = (source.path.clone(), found(source, settings));
    let listing = match run_within(PATIENCE, move || walk::list(&path, &options)) {
        None => return (Check::warning("tree", too_long("not all of its files were"), NARROWER), None),
        Some(Ok(listing)) => listing,
        Some(Err(error)) => {
            return (Check::broken("tree", with_causes(&error), "name a directory as PATH"), None);
        }
    };
    let n =
        |wanted: fn(&SkipReason) -> bool| listing.skipped.iter().filter(|file| wanted(&file.reason)).count();
    let unreadable = n(|reason| matches!(reason, SkipReason::Unreadable(_)));
    let found =
        format!("{} to index, {} left out", counted(listing.files.len(), "file"), listing.skipped.len());
    let check = if listing.files.is_empty() {
        Check::broken("tree", found, "check `quarry status` and the ignore files of the tree")
    } else if unreadable > 0 {
        let advice = "check their permissions; `quarry status` lists them";
        Check::warning("tree", format!("{found}, {unreadable} of them unreadable"), advice)
    } else {
        Check::ok("tree", found)
    };
    (check, Some(listing))
}

/// Check whether functions are found individually, or only windows of lines.
fn known_languages(listing: &Listing) -> Check {
    let n_cut = listing.files.iter().filter(|file| file.language.has_rules()).count();
    let n_known = languages().filter(|language| language.has_rules()).count();
    let found = format!(
        "{n_cut} of {} in one of the {n_known} languages with rules",
        counted(listing.files.len(), "file")
    );
    let unknown: Vec<&str> = listing
        .skipped
        .iter()
        .filter(|file| file.reason == SkipReason::UnknownLanguage)
        .map(|file| file.path.as_str())
        .collect();
    let lacking: Vec<&ListedFile> =
        listing.files.iter().filter(|file| file.language.lacks_grammar()).collect();
    if let Some(feature) = lacking.first().and_then(|file| file.language.feature()) {
        let names: BTreeSet<&str> = lacking.iter().map(|file| file.language.name()).collect();
        return Check::warning(
            "languages",
            format!(
                "{found}; {} in {}, which this build cuts into windows of lines",
                counted(lacking.len(), "file"),
                names.into_iter().collect::<Vec<_>>().join(", ")
            ),
            format!("`cargo install --locked --path crates/cli --features {feature}` has their grammars"),
        );
    }
    match unknown.first() {
        Some(example) if unknown.len() > listing.files.len() => Check::warning(
            "languages",
            format!("{found}; {} in an unknown language, such as {example}", counted(unknown.len(), "file")),
            "`quarry languages` lists the known ones",
        ),
        _ => Check::ok("languages", found),
    }
}

fn watching(root: &Path, options: WalkOptions) -> Check {
    let path = root.to_owned();
    let Some(directories) = run_within(PATIENCE, move || walk::directories(&path, &options)) else {
        return Check::warning("watch", too_long("not all of its directories were"), NARROWER);
    };
    let n_directories = directories.map_or(0, |directories| directories.len());
    let Some(limit) = watch::directory_limit() else {
        return Check::ok("watch", counted(n_directories, "directory"));
    };
    let found = format!("{}, the system can watch {limit}", counted(n_directories, "directory"));
    if n_directories < limit {
        Check::ok("watch", found)
    } else {
        let advice = format!("raise it ({}), or use `quarry index --watch --poll 10`", watch::RAISE_LIMIT);
        Check::warning("watch", found, advice)
    }
}

fn model(source: &SourceArgs, settings: &Settings) -> (Check, Option<Arc<dyn Embedder>>) {
    let loaded = source.load_model(settings).and_then(|model| {
        let vectors = model.embed_queries(&["a function that sorts"]).context("the model loads but fails")?;
        Ok((format!("{}, {} dimensions", model.id(), vectors.dimension), model))
    });
    match loaded {
        Ok((found, model)) => (Check::ok("model", found), Some(model)),
        Err(error) => {
            let advice = "name another one with --model or in the settings, or none to use the built-in one";
            (Check::broken("model", format!("{error:#}"), advice), None)
        }
    }
}

/// A warning that `quality = "auto"` cannot re-rank here.
fn quality(settings: &Settings) -> Option<Check> {
    let is_auto = settings.get(|layer| layer.quality) == Some(Quality::Auto);
    let is_missing = cfg!(feature = "transformers") && !can_rerank(&bundled_model_directories());
    (is_auto && is_missing).then(|| {
        let found = "the model of `best` is not installed, so that `auto` ranks like `fast`";
        Check::warning("quality", found, "`quarry model pull best` installs it")
    })
}

fn index(
    source: &SourceArgs,
    status: &Status,
    options: &OpenOptions,
    model: Option<Arc<dyn Embedder>>,
) -> Check {
    let path = status.directory.display();
    match &status.stale {
        Some(RebuildReason::Missing) => {
            return Check::ok("index", format!("none yet in {path}; the first search builds it"));
        }
        Some(
            reason @ (RebuildReason::Broken(_)
            | RebuildReason::Root(_)
            | RebuildReason::Format(_)
            | RebuildReason::Program(_)),
        ) => {
            let advice = "the next search or `quarry index` rebuilds it";
            return Check::warning("index", format!("{path}: {reason}"), advice);
        }
        _ => {}
    }
    let as_it_is = OpenOptions { update: Update::Never, ..options.clone() };
    match (Index::open_or_build(&source.path, &as_it_is, model, &|_| {}), &status.stale) {
        (Err(error), _) => Check::broken("index", with_causes(&error), "run `quarry index --rebuild`"),
        (Ok(_), None) => Check::ok("index", format!("fresh, in {path}")),
        (Ok(_), Some(reason)) => {
            Check::ok("index", format!("{reason} since it was built; the next search updates it"))
        }
    }
}

fn storage(status: &Status, listing: &Listing) -> Vec<Check> {
    let directory = nearest_existing(&status.directory);
    let path = directory.display();
    // A file without a name: nothing can be left behind.
    let writable = match tempfile::tempfile_in(directory) {
        Ok(_) => Check::ok("directory", format!("{path} is writable")),
        Err(error) if status.index.is_some() => Check::warning(
            "directory",
            format!("{path} is not writable ({error}); searches use the existing index"),
            "name a writable directory with --index to keep the index up to date",
        ),
        Err(error) => Check::warning(
            "directory",
            format!("{path} is not writable ({error}); each search builds an index in memory"),
            "set XDG_CACHE_HOME, or name a writable directory with --index",
        ),
    };
    let space = match fs4::available_space(directory) {
        Ok(free) => space(free, expected_bytes(listing)),
        Err(error) => Check::warning("space", format!("unknown ({error})"), "check the free space manually"),
    };
    vec![writable, space]
}

/// The directory itself, or its nearest existing ancestor, which may be a file that is in the way.
fn nearest_existing(directory: &Path) -> &Path {
    directory.ancestors().find(|above| above.symlink_metadata().is_ok()).unwrap_or(Path::new("."))
}

fn space(free: u64, needed: u64) -> Check {
    let found = format!("{} free; an index takes about {}", HumanBytes(free), HumanBytes(needed));
    let advice = "free some space, or name a directory on another disk with --index";
    if free < LEAST_SPACE {
        Check::broken("space", found, advice)
    } else if free < needed {
        Check::warning("space", found, advice)
    } else {
        Check::ok("space", found)
    }
}

fn terminal(settings: &Settings) -> Check {
    let Terminal { color, links } = Terminal::detect(settings::color_choice(settings));
    let can = |able: bool, what: &str| format!("{}{what}", if able { "" } else { "no " });
    let found = format!("{}, {}", can(color, "colors"), can(links, "links"));
    if !io::stdout().is_terminal() {
        return Check::ok("terminal", format!("stdout is not a terminal: {found}"));
    }
    let why = if !color && std::env::var_os("NO_COLOR").is_some() { ", because NO_COLOR is set" } else { "" };
    Check::ok("terminal", format!("{found}{why}"))
}

fn searches() -> Check {
    match log::state() {
        Err(error) => Check::warning("log", format!("{error:#}"), "set it to record searches"),
        Ok(state) if !state.on => Check::ok("log", "searches are not recorded"),
        Ok(state) => {
            let found =
                format!("{} in {}", counted(state.n_records, "recorded search"), state.file.display());
            match fs::OpenOptions::new().append(true).open(&state.file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Check::broken(
                    "log",
                    format!("{found}, which is not writable ({error})"),
                    "check its permissions, or run `quarry log off`",
                ),
                _ => Check::ok("log", found),
            }
        }
    }
}

/// Consequence of a memory limit that is enforced by sampling.
#[cfg(feature = "data")]
const WATCHED: &str = "without a cgroup: memory is sampled, so a program may use twice its limit";

/// Check of the sandbox in which `quarry judge` runs programs; search does not need it.
#[cfg(feature = "data")]
fn programs() -> Check {
    let sandbox = match quarry_sandbox::Bubblewrap::open() {
        Ok(sandbox) => match sandbox.memory_bound() {
            MemoryBound::Watchdog => format!("bubblewrap works {WATCHED}"),
            bound => format!("bubblewrap works, memory is limited by {bound}"),
        },
        Err(error) => error.to_string(),
    };
    let is_here = |name: &&str| Runner::named(name).is_ok_and(|runner| runner.problem().is_none());
    let (here, missing): (Vec<&str>, Vec<&str>) = Runner::names().partition(is_here);
    let runs = if here.is_empty() { "nothing".to_owned() } else { here.join(", ") };
    let missing = match &missing[..] {
        [] => String::new(),
        names => format!("; not in {SEARCH_PATH}, or too old: {}", names.join(", ")),
    };
    Check::ok("programs", format!("for `quarry judge`: {sandbox}; runs {runs}{missing}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_is_reported_before_failing() {
        assert_eq!(space(1 << 30, 1 << 20).state, State::Ok);
        assert_eq!(space(1 << 30, 1 << 31).state, State::Warning);
        let full = space(4096, 1 << 10);
        assert_eq!(full.state, State::Broken);
        assert!(full.advice.unwrap().contains("--index"));
    }

    #[test]
    fn each_check_is_one_line_with_what_to_do() {
        assert_eq!(Check::ok("tree", "3 files").line(), "ok       tree      3 files\n");
        assert_eq!(Check::broken("model", "none", "name one").line(), "BROKEN   model     none; name one\n");
    }

    #[test]
    fn slow_checks_are_not_waited_for() {
        let (go_on, is_over) = mpsc::channel::<()>();
        assert_eq!(run_within(Duration::from_millis(1), move || is_over.recv()), None);
        drop(go_on);
        assert_eq!(run_within(PATIENCE, || 1), Some(1));
        assert_eq!(too_long("not all of its files were"), "not all of its files were found in 10 s");
    }

    #[test]
    fn a_missing_directory_is_created_in_the_nearest_one() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(nearest_existing(&directory.path().join("a/b")), directory.path());
        assert_eq!(nearest_existing(directory.path()), directory.path());
    }
}
