//! Issues and the functions that their fixes changed, for `quarry eval localize`: an export of issues, joined with the
//! history of a repository.
//!
//! A commit fixes an issue if its message closes it, or its subject mentions it in brackets. The fix of an issue is
//! the oldest merge among those commits, or all of them if none is a merge. The answers are functions of the state
//! before the fix.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use quarry_corpus::changes::{MAX_FUNCTIONS, replaced_functions};
use quarry_corpus::formats::localize;
use quarry_corpus::messages::{self, fixed_issues};
use quarry_history::{Commit, Header, HistoryOptions, read_history};
use quarry_walk::{FileFlags, WalkOptions, max_bytes_of_member, path_flags};

use crate::error::BuildError;
use crate::jsonl::Writer;
use crate::plan::{LOCALIZE, Plan, QueryKind, QueryPlan};
use crate::queries::history::{self, History, LeftOut, MAX_BYTES, MAX_COMMITS};
use crate::queries::issues;
use crate::queries::mask;
use crate::step::{Step, hash_file};

/// Incremented when the same input yields different output.
const VERSION: u32 = 1;

const FILE: &str = "issues.jsonl";

/// The sources of queries that are issues with a history.
fn trackers(plan: &Plan) -> impl Iterator<Item = (&QueryPlan, &Path)> {
    let is_joined = |queries: &&QueryPlan| queries.kind == QueryKind::Issues && !queries.sources.is_empty();
    plan.queries.iter().filter(is_joined).filter_map(|queries| Some((queries, queries.path.as_deref()?)))
}

/// The name of a repository in the export, as set in the plan.
fn repository<'p>(history: &History<'p>) -> &'p str {
    history.source.repository.as_deref().unwrap_or_default()
}

pub(crate) fn step(plan: &Plan) -> Result<Step, BuildError> {
    let mut identity = Vec::new();
    for (queries, path) in trackers(plan) {
        let histories = history::open(plan, queries)?;
        let repositories = histories.iter().map(|history| (repository(history), history.commit.clone()));
        identity.push((&queries.name, hash_file(path)?, repositories.collect::<Vec<_>>()));
    }
    let identity = (messages::RULES_TEXT, mask::RULES_TEXT, identity);
    Ok(Step::new(format!("export {LOCALIZE}"), VERSION, &identity, &[]))
}

pub(crate) fn write(
    plan: &Plan,
    step: &Path,
    stop: &AtomicBool,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let mut writer = Writer::create(&step.join(FILE))?;
    let mut counts = BTreeMap::new();
    let mut ids = HashSet::new();
    for (queries, export) in trackers(plan) {
        let issues = history::distinct(export, true, &mut LeftOut::default())?;
        let numbers: HashSet<u64> = issues.iter().map(|issue| issue.number).collect();
        let number_of = history::numbers_of(&issues);
        let fixed = |header: &Header| -> Vec<u64> {
            fixed_issues(&header.message).into_iter().filter_map(&number_of).collect()
        };
        let mut fixes: HashMap<u64, (String, Fix)> = HashMap::new();
        for history in &history::open(plan, queries)? {
            let found = fixes_of(history, &fixed, stop)?;
            for (number, fix) in found {
                fixes.entry(number).or_insert_with(|| (repository(history).to_owned(), fix));
            }
        }
        let mut count = |what: &str, count: u64| *counts.entry(what.to_owned()).or_default() += count;
        count("issues without a fix, left out", (numbers.len() - fixes.len()) as u64);
        // Bodies may be long, so only the written ones are kept, one at a time.
        issues::read(export, &mut |issue| {
            let Some((repository, fix)) = fixes.remove(&issue.number).filter(|_| !issue.is_pull_request)
            else {
                return Ok(());
            };
            if fix.is_bulk || fix.functions.len() > MAX_FUNCTIONS {
                count("issues whose fix changes much, left out", 1);
                return Ok(());
            }
            if fix.functions.is_empty() {
                count("issues whose fix changes no function, left out", 1);
                return Ok(());
            }
            let id = format!("{}-{}", repository.replace('/', "__"), issue.number);
            if !ids.insert(id.clone()) {
                return Ok(());
            }
            let text = format!("{}\n{}", issue.title, issue.body);
            count(FILE, 1);
            writer.write(&localize::Issue {
                id,
                repository,
                commit: fix.before,
                text: mask::masked(text.trim_end(), &mut BTreeMap::new()).into_owned(),
                functions: fix.functions.into_iter().collect(),
                files: Vec::new(),
                lines: Vec::new(),
                source: queries.name.clone(),
            })
        })?;
    }
    writer.finish()?;
    if counts.get(FILE).is_none_or(|count| *count == 0) {
        let counted: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        let problem = format!(
            "expected issues that a commit fixes, as in `Fixes #12` or a subject with `(#12)`, found none ({}); export \
             closed issues too (`gh issue list --state all`), or remove the export",
            counted.join("; ")
        );
        return Err(BuildError::step(&format!("export {LOCALIZE}"), problem));
    }
    Ok(counts)
}

struct Fix {
    /// The parent of the first commit of the fix.
    before: String,
    is_merge: bool,
    /// True if one of its commits changes too many files or functions to be about the issue.
    is_bulk: bool,
    /// The functions that it changed or removed, as `path:name`.
    functions: BTreeSet<String>,
}

fn fixes_of(
    history: &History<'_>,
    fixed: &dyn Fn(&Header) -> Vec<u64>,
    stop: &AtomicBool,
) -> Result<HashMap<u64, Fix>, BuildError> {
    let options = HistoryOptions {
        commits: MAX_COMMITS,
        start: Some(history.commit.clone()),
        max_total_bytes: MAX_BYTES,
        merges: true,
        ..HistoryOptions::default()
    };
    let walk = WalkOptions::default();
    let is_file = |path: &str| {
        let is_code = path_flags(path).difference(FileFlags::DOCUMENTATION).is_empty();
        is_code && max_bytes_of_member(path, &walk).is_some()
    };
    let mut fixes: HashMap<u64, Fix> = HashMap::new();
    let mut on_commit = |commit: Commit| {
        let is_merge = commit.header.parents > 1;
        let functions: BTreeSet<String> =
            replaced_functions(&commit).into_iter().map(|(path, name)| format!("{path}:{name}")).collect();
        let is_bulk = commit.n_files > options.max_files || functions.len() > MAX_FUNCTIONS;
        for number in fixed(&commit.header) {
            match fixes.get_mut(&number) {
                Some(known) if known.is_merge && !is_merge => {}
                // Commits come newest first, so this one is older.
                Some(known) if known.is_merge == is_merge && !is_merge => {
                    known.before.clone_from(&commit.parent);
                    known.is_bulk |= is_bulk;
                    known.functions.extend(functions.iter().cloned());
                }
                _ => {
                    let functions = functions.clone();
                    fixes.insert(number, Fix { before: commit.parent.clone(), is_merge, is_bulk, functions });
                }
            }
        }
        if stop.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let reach = read_history(
        &history.source.path,
        &options,
        &|header| header.parents > 0 && !fixed(header).is_empty(),
        &is_file,
        &mut on_commit,
    );
    if stop.load(Ordering::SeqCst) {
        return Err(BuildError::Stopped);
    }
    reach.map_err(|error| history.failed(&error))?;
    Ok(fixes)
}
