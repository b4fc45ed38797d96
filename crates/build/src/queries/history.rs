//! Queries from the history of code: messages of commits, and titles of issues that commits fixed.
//!
//! The answers to a message are the functions of the pool that the commit changed, as they are in the pool.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quarry_corpus::changes::{MAX_FUNCTIONS, changed_functions};
use quarry_corpus::messages::{
    Reference, Rejection, Scopes, closed_issues, question_of_commit, question_of_title, subject,
};
use quarry_history::{
    Commit, GitError, Header, HistoryOptions, Reach, Snapshot, Start, read_history, start_of_history,
};
use quarry_text::with_causes;
use quarry_walk::{FileFlags, WalkOptions, max_bytes_of_member, path_flags};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::jsonl;
use crate::plan::{Plan, QueryKind, QueryPlan, SourcePlan};
use crate::queries::found::{Excluded, Found};
use crate::queries::issues::{self, Issue};
use crate::queries::mask;
use crate::record::{CodeKind, normalized_hash};
use crate::sources::pool::POOL;
use crate::step::{Key, Step, Watch, content_hash};

/// Maximum number of commits that are read per source, newest first, and maximum total size of their files in
/// bytes.
pub(crate) const MAX_COMMITS: usize = 100_000;
pub(crate) const MAX_BYTES: u64 = 16 << 30;

/// Maximum number of commits that are parsed at a time, and maximum total size of their files in bytes.
const COMMITS_AT_ONCE: usize = 64;
const BYTES_AT_ONCE: usize = 64 << 20;

/// Maximum length of the text of an excluded query, in characters.
const MAX_EXCLUDED_CHARS: usize = 300;

/// Incremented when the same history and pool yield different messages.
const VERSION: u32 = 1;

/// The file of a step with the distinct texts of a history, their answers, and the rejected items.
const FOUND: &str = "found.json";

/// Number of commits between two reports of progress.
const COMMITS_BETWEEN_REPORTS: u64 = 100;

#[derive(Serialize)]
struct Identity {
    kind: QueryKind,
    /// Hash of the export of issues.
    content: Option<String>,
    /// The newest commit of each source.
    commits: Vec<(String, String)>,
}

/// The step that reads the histories that a source of queries names. It depends neither on the seed nor on filters.
pub(crate) fn step(plan: &Plan, queries: &QueryPlan, pool: &Key) -> Result<Step, BuildError> {
    let content = queries.path.as_deref().map(content_hash).transpose()?;
    let commits = open(plan, queries)?;
    let commits = commits.into_iter().map(|history| (history.source.name.clone(), history.commit)).collect();
    let identity = Identity { kind: queries.kind, content, commits };
    Ok(Step::new(format!("history {}", queries.name), VERSION, &identity, &[pool]))
}

/// Reads the histories, and writes the results to the directory of the step.
pub(crate) fn write(
    plan: &Plan,
    queries: &QueryPlan,
    pool: &Path,
    step: &Path,
    watch: Watch<'_>,
) -> Result<BTreeMap<String, u64>, BuildError> {
    let mut found = Found::default();
    let histories = open(plan, queries)?;
    let left_out = match &queries.path {
        Some(export) => titles(export, &histories, pool, watch, &mut found)?,
        None => commits(&histories, pool, watch, &mut found)?,
    };
    let counts = left_out.counts.clone();
    jsonl::write_json(&step.join(FOUND), &(found, left_out))?;
    Ok(counts)
}

pub(crate) fn read_found(step: &Path) -> Result<(Found, LeftOut), BuildError> {
    jsonl::read_json(&step.join(FOUND))
}

pub(crate) struct History<'p> {
    pub(crate) source: &'p SourcePlan,
    /// The newest commit to read: that of the source.
    pub(crate) commit: String,
}

impl History<'_> {
    pub(crate) fn failed(&self, error: &GitError) -> BuildError {
        BuildError::Source { name: self.source.name.clone(), problem: with_causes(error) }
    }
}

/// The histories of the sources that a source of queries names.
pub(crate) fn open<'p>(plan: &'p Plan, queries: &QueryPlan) -> Result<Vec<History<'p>>, BuildError> {
    let sources = plan.sources.iter().filter(|source| queries.sources.contains(&source.name));
    let open = |source: &'p SourcePlan| {
        let wrong = |problem: String| {
            let problem = format!(
                "{problem}; the queries {} are made from its commits: remove it from their `sources`, or name a source \
                 with its whole history",
                queries.name
            );
            BuildError::Source { name: source.name.clone(), problem }
        };
        let Start { commit, is_shallow } = start_of_history(&source.path, source.revision.as_deref())
            .map_err(|error| wrong(with_causes(&error)))?;
        if is_shallow {
            return Err(wrong(format!(
                "{}: is a shallow clone, without older commits; `git fetch --unshallow` fetches them",
                source.path.display()
            )));
        }
        Ok(History { source, commit })
    };
    sources.map(open).collect()
}

/// The functions of a pool by location, as hashes of source, path and name.
#[derive(Default)]
struct Functions {
    ids: HashMap<u128, Vec<String>>,
    /// Hashes of sources with paths.
    files: HashSet<u128>,
}

impl Functions {
    fn read(pool: &Path, histories: &[History<'_>]) -> Result<Self, BuildError> {
        #[derive(Deserialize)]
        struct PooledUnit {
            id: String,
            kind: CodeKind,
            source: String,
            path: String,
            #[serde(default)]
            name: String,
        }
        let sources: HashSet<&str> = histories.iter().map(|history| history.source.name.as_str()).collect();
        let mut functions = Self::default();
        jsonl::for_each(&pool.join(POOL), &mut |unit: PooledUnit, _| {
            let PooledUnit { id, kind, source, path, name } = unit;
            if kind == CodeKind::Function && !name.is_empty() && sources.contains(source.as_str()) {
                functions.files.insert(hash(&[&source, &path]));
                functions.ids.entry(hash(&[&source, &path, &name])).or_default().push(id);
            }
            Ok(())
        })?;
        Ok(functions)
    }
}

fn hash(texts: &[&str]) -> u128 {
    // Paths and names never contain this character.
    normalized_hash(&texts.join("\0"))
}

fn rejection(filter: &'static str, rule: impl Into<String>) -> Rejection {
    Rejection { filter, rule: rule.into() }
}

/// Reads a history, newest first, and passes on the wanted commits with the functions that they changed.
fn read(
    history: &History<'_>,
    functions: &Functions,
    watch: Watch<'_>,
    is_wanted: &mut dyn FnMut(&Header) -> bool,
    each: &mut dyn FnMut(Header, Result<Vec<String>, Rejection>),
) -> Result<Reach, BuildError> {
    let options = HistoryOptions {
        commits: MAX_COMMITS,
        start: Some(history.commit.clone()),
        max_total_bytes: MAX_BYTES,
        follows_renames: true,
        ..HistoryOptions::default()
    };
    let source = history.source.name.as_str();
    let is_file = |path: &str| functions.files.contains(&hash(&[source, path]));
    let (mut batch, mut n_bytes): (Vec<Commit>, usize) = (Vec::new(), 0);
    let mut flush = |batch: &mut Vec<Commit>| {
        let commits = std::mem::take(batch);
        let changed: Vec<_> =
            commits.par_iter().map(|commit| functions_of(commit, source, functions)).collect();
        for (Commit { header, .. }, functions) in commits.into_iter().zip(changed) {
            each(header, functions);
        }
    };
    let (is_wanted, n_read) = (RefCell::new(is_wanted), Cell::new(0));
    let look = |header: &Header| {
        n_read.set(n_read.get() + 1);
        if n_read.get() % COMMITS_BETWEEN_REPORTS == 0 {
            (watch.counted)(n_read.get(), "commits");
        }
        (*is_wanted.borrow_mut())(header)
    };
    let mut on_commit = |commit: Commit| {
        n_bytes +=
            commit.changes.iter().map(|change| change.before.len() + change.after.len()).sum::<usize>();
        batch.push(commit);
        if batch.len() == COMMITS_AT_ONCE || n_bytes >= BYTES_AT_ONCE {
            flush(&mut batch);
            n_bytes = 0;
        }
        if watch.stop.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let reach = read_history(&history.source.path, &options, &look, &is_file, &mut on_commit);
    flush(&mut batch);
    if watch.stop.load(Ordering::SeqCst) {
        return Err(BuildError::Stopped);
    }
    reach.map_err(|error| history.failed(&error))
}

/// The ids of the functions in the pool that a commit changed, or the reason why there are none.
fn functions_of(commit: &Commit, source: &str, functions: &Functions) -> Result<Vec<String>, Rejection> {
    let id = &commit.header.id;
    let is_in_pool = |path: &str| functions.files.contains(&hash(&[source, path]));
    let most = HistoryOptions::default().max_files;
    if commit.n_files > most {
        let rule = format!("{} of {most} at most by {id}", commit.n_files);
        return Err(rejection("too many files changed", rule));
    }
    if !commit.changes.iter().any(|change| is_in_pool(&change.path)) {
        return Err(rejection("no file of the pool", id));
    }
    let changed: Vec<_> =
        changed_functions(commit).into_iter().filter(|(path, _)| is_in_pool(path)).collect();
    if changed.is_empty() {
        return Err(rejection("no function changed", id));
    }
    let found = changed.iter().filter_map(|(path, name)| functions.ids.get(&hash(&[source, path, name])));
    let found: Vec<String> = found.flatten().cloned().collect();
    if changed.len().max(found.len()) > MAX_FUNCTIONS {
        return Err(rejection(
            "too many functions changed",
            format!("{} of {MAX_FUNCTIONS} at most by {id}", changed.len().max(found.len())),
        ));
    }
    if found.is_empty() {
        let names: Vec<&str> = changed.iter().map(|(_, name)| name.as_str()).collect();
        return Err(rejection("functions not in the pool", format!("{} of {id}", names.join(", "))));
    }
    Ok(found)
}

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) excluded: Vec<Excluded>,
}

impl LeftOut {
    fn add(&mut self, text: &str, Rejection { filter, rule }: Rejection) {
        *self.counts.entry(format!("removed by {filter}")).or_default() += 1;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text: String = text.chars().take(MAX_EXCLUDED_CHARS).collect();
        let text = mask::masked(&text, &mut BTreeMap::new()).into_owned();
        self.excluded.push(Excluded { text, filter: filter.to_owned(), rule });
    }

    fn reach(&mut self, reach: Reach) {
        let mut add = |name: &str, count: usize| {
            *self.counts.entry(name.to_owned()).or_default() += count as u64;
        };
        add("commits", reach.commits);
        if reach.unreadable > 0 {
            add("commits that cannot be read", reach.unreadable);
        }
        if reach.is_cut {
            add("histories read only in part", 1);
        }
    }
}

/// The messages of commits that describe what code does, with the functions that the commits changed.
fn commits(
    histories: &[History<'_>],
    pool: &Path,
    watch: Watch<'_>,
    found: &mut Found,
) -> Result<LeftOut, BuildError> {
    let functions = Functions::read(pool, histories)?;
    let left_out = RefCell::new(LeftOut::default());
    for history in histories {
        let reach = read(
            history,
            &functions,
            watch,
            &mut |header| match question_of_commit(header, Scopes::Removed) {
                Ok(_) => true,
                Err(rejection) => {
                    left_out.borrow_mut().add(&subject(&header.message), rejection);
                    false
                }
            },
            &mut |header, functions| {
                let Ok(text) = question_of_commit(&header, Scopes::Removed) else { return };
                match functions {
                    Err(rejection) => left_out.borrow_mut().add(&text, rejection),
                    Ok(codes) => {
                        if !found.add_new(&text, codes) {
                            left_out.borrow_mut().add(&text, rejection("repeated", header.id));
                        }
                    }
                }
            },
        )?;
        left_out.borrow_mut().reach(reach);
    }
    Ok(left_out.into_inner())
}

/// The titles of issues, with the functions changed by the commits that fix them.
pub(crate) fn titles(
    export: &Path,
    histories: &[History<'_>],
    pool: &Path,
    watch: Watch<'_>,
    found: &mut Found,
) -> Result<LeftOut, BuildError> {
    let mut left_out = LeftOut::default();
    let issues = distinct(export, !histories.is_empty(), &mut left_out)?;
    let fixed = match histories.is_empty() {
        true => HashMap::new(),
        false => fixed_issues(&issues, histories, &Functions::read(pool, histories)?, watch, &mut left_out)?,
    };
    let mut n_answered = 0;
    for issue in &issues {
        match question_of_title(&issue.title, &issue.author) {
            Err(rejection) => left_out.add(&issue.title, rejection),
            Ok(text) => {
                let codes = fixed.get(&issue.number).cloned().unwrap_or_default();
                let has_answer = !codes.is_empty();
                if found.add_new(&text, codes) {
                    n_answered += u64::from(has_answer);
                } else {
                    left_out.add(&text, rejection("repeated", format!("issue {}", issue.number)));
                }
            }
        }
    }
    left_out.counts.insert("issues".into(), issues.len() as u64);
    if !histories.is_empty() {
        left_out.counts.insert("with functions of a fixing commit".into(), n_answered);
    }
    Ok(left_out)
}

pub(crate) struct Survey {
    /// Number of messages that describe what code does.
    pub(crate) messages: usize,
    /// Estimated share of those whose commits changed functions of the pool, but not too many.
    pub(crate) share: f64,
    /// True if older commits were not examined.
    pub(crate) is_cut: bool,
}

/// Number of commits in a survey whose messages are read, and number whose files are read.
const SURVEYED_MESSAGES: usize = 50_000;
const SURVEYED_COMMITS: usize = 64;

/// Counts the messages of a history that `is_kept` accepts, and examines the changes of a sample of these commits.
/// `in_pool` is the share of functions that are in the pool; `tests` is true if the pool contains tests.
pub(crate) fn survey(
    history: &History<'_>,
    (in_pool, tests): (f64, bool),
    time: Duration,
    is_kept: &mut dyn FnMut(&str) -> bool,
) -> Result<Survey, BuildError> {
    let failed = |error: GitError| history.failed(&error);
    let options = HistoryOptions {
        commits: SURVEYED_MESSAGES,
        start: Some(history.commit.clone()),
        ..HistoryOptions::default()
    };
    let (wanted, is_late) = (RefCell::new(Vec::new()), Cell::new(false));
    let (begin, is_kept) = (Instant::now(), RefCell::new(is_kept));
    let look = |header: &Header| {
        is_late.set(is_late.get() || begin.elapsed() > time);
        if !is_late.get()
            && question_of_commit(header, Scopes::Removed).is_ok_and(|text| (*is_kept.borrow_mut())(&text))
        {
            wanted.borrow_mut().push(header.id.clone());
        }
        false
    };
    let path = &history.source.path;
    let reach =
        read_history(path, &options, &look, &|_| false, &mut |_| ControlFlow::Break(())).map_err(failed)?;
    let wanted = wanted.into_inner();
    // Evenly spaced, because code changed by older commits is more often gone.
    let step = wanted.len().div_ceil(SURVEYED_COMMITS).max(1);
    let looked_at: HashSet<&str> = wanted.iter().step_by(step).map(String::as_str).collect();
    let walk = WalkOptions::default();
    let snapshot = Snapshot::open(path, Some(&history.commit)).map_err(failed)?;
    let is_read = |path: &str| tests || path_flags(path).difference(FileFlags::DOCUMENTATION).is_empty();
    let files: HashSet<&str> =
        snapshot.paths().filter(|path| is_read(path) && max_bytes_of_member(path, &walk).is_some()).collect();
    let is_file = |path: &str| files.contains(path);
    let (begin, mut n_looked_at, mut n_answered) = (Instant::now(), 0_u32, 0.0);
    let mut on_commit = |commit: Commit| {
        n_looked_at += 1;
        let n_changed = changed_functions(&commit).len();
        if (1..=MAX_FUNCTIONS).contains(&n_changed) {
            n_answered += 1.0 - (1.0 - in_pool).powi(i32::try_from(n_changed).unwrap_or(1));
        }
        let is_enough = n_looked_at as usize == looked_at.len() || begin.elapsed() > time;
        if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let is_wanted = |header: &Header| looked_at.contains(header.id.as_str());
    if !looked_at.is_empty() {
        read_history(path, &options, &is_wanted, &is_file, &mut on_commit).map_err(failed)?;
    }
    Ok(Survey {
        messages: wanted.len(),
        share: n_answered / f64::from(n_looked_at.max(1)),
        is_cut: reach.is_cut || is_late.get(),
    })
}

/// The issues of an export without duplicates and pull requests. Of several with the same number and address, the
/// first is kept.
pub(crate) fn distinct(
    export: &Path,
    are_of_one_repository: bool,
    left_out: &mut LeftOut,
) -> Result<Vec<Issue>, BuildError> {
    let mut issues: Vec<Issue> = Vec::new();
    let mut seen: HashSet<(u64, Option<String>)> = HashSet::new();
    issues::read(export, &mut |issue| {
        if issue.is_pull_request {
            left_out.add(&issue.title, rejection("pull request", issue.number.to_string()));
        } else if !seen.insert((issue.number, issue.repository().map(str::to_owned))) {
            left_out.add(&issue.title, rejection("number is there already", issue.number.to_string()));
        } else {
            // Bodies may be long, and are not needed for all issues.
            issues.push(Issue { body: String::new(), ..issue });
        }
        Ok(())
    })?;
    let repositories: Vec<&str> = issues.iter().filter_map(Issue::repository).collect();
    if let (true, Some(first)) = (are_of_one_repository, repositories.first())
        && let Some(other) = repositories.iter().find(|other| *other != first)
    {
        let [first, other] = [first, other].map(|text| crate::harmless::harmless(text));
        let problem = format!(
            "expected issues of one repository, whose commits name them by number, found some of {first} and of {other}; \
             make a file and a table [[queries]] of each"
        );
        return Err(BuildError::Line { path: export.to_owned(), line: 1, problem });
    }
    Ok(issues)
}

/// Finds the numbers of issues that references name.
pub(crate) fn numbers_of(issues: &[Issue]) -> impl Fn(Reference) -> Option<u64> {
    let numbers: HashSet<u64> = issues.iter().map(|issue| issue.number).collect();
    let addresses: HashMap<&str, u64> =
        issues.iter().filter_map(|issue| Some((issue.address.as_deref()?, issue.number))).collect();
    move |reference| match reference {
        Reference::Number(number) => numbers.get(&number).copied(),
        Reference::Address(address) => addresses.get(address.as_str()).copied(),
    }
}

/// The functions changed by commits that close issues, by issue number.
fn fixed_issues(
    issues: &[Issue],
    histories: &[History<'_>],
    functions: &Functions,
    watch: Watch<'_>,
    left_out: &mut LeftOut,
) -> Result<HashMap<u64, Vec<String>>, BuildError> {
    let number_of = numbers_of(issues);
    let closed = |header: &Header| -> Vec<u64> {
        let is_other = question_of_commit(header, Scopes::Removed)
            .is_err_and(|rejection| rejection.is_of_other_commits());
        let references = if is_other { Vec::new() } else { closed_issues(&header.message) };
        references.into_iter().filter_map(&number_of).collect()
    };
    let mut fixed: HashMap<u64, Vec<String>> = HashMap::new();
    for history in histories {
        let reach = read(
            history,
            functions,
            watch,
            &mut |header| !closed(header).is_empty(),
            &mut |header, functions| {
                for number in closed(&header) {
                    for id in functions.iter().flatten() {
                        let of_issue = fixed.entry(number).or_default();
                        if !of_issue.contains(id) {
                            of_issue.push(id.clone());
                        }
                    }
                }
            },
        )?;
        left_out.reach(reach);
    }
    // As with commits, a change of many functions is not about any of them.
    fixed.retain(|_, functions| functions.len() <= MAX_FUNCTIONS);
    Ok(fixed)
}
