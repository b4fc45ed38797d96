//! The relations and the history of an indexed tree, kept in the user's cache.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use quarry_history::ChangeLog;
pub use quarry_history::DEFAULT_COMMITS;
use quarry_index::{Index, UserDirectories};
use quarry_session::Tree;
use serde::Serialize;

use crate::changes::{Changes, LoggedRoot};
use crate::features::Sources;
use crate::kept::note_roots;
use crate::relations::Relations;

/// Name of the directory in the user's cache.
pub const DIRECTORY: &str = "related";

pub(crate) const RELATIONS: &str = "relations";
pub(crate) const HISTORY: &str = "history";

/// Progress of opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Number of commits that were read.
    Commits(usize),
    /// Number of files whose relations were read, and of those to read.
    Files(usize, usize),
}

pub struct OpenOptions<'a> {
    /// Directory of the caches; `None` keeps nothing.
    pub cache: Option<PathBuf>,
    /// Maximum number of commits that are read, and that answers use; 0 for none.
    pub commits: usize,
    /// Read new commits; otherwise only those read before count.
    pub reads_history: bool,
    /// Asked often; once true, reading the history ends with what was read.
    pub is_cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Called with progress.
    pub on_event: &'a (dyn Fn(Event) + Sync),
}

impl Default for OpenOptions<'_> {
    fn default() -> Self {
        Self {
            cache: cache(&UserDirectories::default()),
            commits: DEFAULT_COMMITS,
            reads_history: true,
            is_cancelled: &|| false,
            on_event: &|_| {},
        }
    }
}

/// Directory of the caches, in a user's cache directory.
pub(crate) fn cache(user: &UserDirectories) -> Option<PathBuf> {
    Some(user.cache.as_ref()?.join(DIRECTORY))
}

impl OpenOptions<'_> {
    /// Directory of the caches of some directories.
    fn place(&self, roots: &[&str]) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.join(quarry_files::digest(roots)))
    }
}

/// Extent of the history of a searched path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryView {
    /// Absolute path of the tree.
    pub root: String,
    /// Number of commits that changed something in the tree.
    pub commits: usize,
    /// The newest one that the history goes back from; null if none was read.
    pub head: Option<String>,
    /// True if all commits that the limit allows were read.
    pub complete: bool,
    /// True if older commits were left out because of the limit.
    pub cut: bool,
    /// True if older commits are missing in the clone.
    pub shallow: bool,
    /// Reason why the history is missing, outdated or incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// True if the reading was interrupted.
    #[serde(skip)]
    pub is_interrupted: bool,
    /// True if the next reading goes on from this one.
    #[serde(skip)]
    pub is_kept: bool,
}

impl HistoryView {
    fn new(root: &str, log: Option<&ChangeLog>, problem: Option<&Problem>) -> Self {
        let unreadable = log.map_or(0, |log| log.unreadable as usize);
        let missing = (unreadable > 0).then(|| {
            let more = quarry_text::counted(unreadable, "more commit");
            format!(
                "{more} cannot be read; run `git fetch --refetch` if it is a partial clone, else `git fsck`"
            )
        });
        let text = problem.map(|problem| problem.text().to_owned());
        let problems: Vec<String> = text.into_iter().chain(missing).collect();
        Self {
            root: root.to_owned(),
            commits: log.map_or(0, |log| log.commits.len()),
            head: log.and_then(|log| log.head).map(|head| head.to_string()),
            complete: log.is_some_and(|log| log.is_complete && log.unreadable == 0),
            cut: log.is_some_and(|log| log.is_cut),
            shallow: log.is_some_and(|log| log.is_shallow),
            problem: (!problems.is_empty()).then(|| problems.join("; ")),
            is_interrupted: log.is_some_and(|log| !log.is_complete),
            is_kept: log.is_some() && !matches!(problem, Some(Problem::Unkept(_))),
        }
    }

    /// The state in a few words.
    pub fn sentence(&self) -> String {
        match (&self.head, &self.problem) {
            (None, Some(problem)) => format!("no history: {problem}"),
            (None, None) => "no history was read".to_owned(),
            (Some(_), None) => format!("history of {}", self.extent()),
            (Some(_), Some(problem)) => format!("history of {}; {problem}", self.extent()),
        }
    }

    /// The number of commits, and which ones they are.
    pub fn extent(&self) -> String {
        let counted = quarry_text::counted(self.commits, "commit");
        match self {
            Self { shallow: true, .. } => format!("{counted}: a shallow clone"),
            Self { is_interrupted: true, is_kept: true, .. } => format!("{counted}, to be continued"),
            Self { cut: true, .. } | Self { is_interrupted: true, .. } => format!("{counted}, the latest"),
            _ => counted,
        }
    }
}

/// The relations and the history of a tree.
pub struct RelatedTree {
    pub relations: Relations,
    /// The history.
    pub changes: Changes,
    /// Extent of the history of each searched path.
    pub histories: Vec<HistoryView>,
}

impl RelatedTree {
    /// Opens them for a tree, and reads what is new. A missing history is not an error.
    pub fn open(tree: &Tree, options: &OpenOptions) -> Self {
        Self::open_with(tree, options, &HashMap::new())
    }

    /// Likewise, with the problems that an earlier look at some directories found.
    pub(crate) fn open_with(tree: &Tree, options: &OpenOptions, problems: &HashMap<String, Problem>) -> Self {
        let (index, roots) = (&tree.index, roots_of(tree));
        let all: Vec<&str> = roots.iter().map(String::as_str).collect();
        let place = options.place(&all);
        if let Some(place) = &place {
            let _ = note_roots(place, &all);
        }
        let kept_at = place.map(|place| place.join(RELATIONS));
        let on_file = |done, total| (options.on_event)(Event::Files(done, total));
        let relations = Relations::open(index, kept_at.as_deref(), &on_file);
        let (mut logged, mut histories) = (Vec::new(), Vec::new());
        for (number, root) in roots.iter().enumerate() {
            let kept_at = options.place(&[root]).map(|place| place.join(HISTORY));
            let known = problems.get(root);
            let (log, problem) = match known {
                Some(Problem::Gone(_)) => (None, None),
                _ => {
                    let (log, problem, _) = open_history(Path::new(root), kept_at.as_deref(), options);
                    (log, problem)
                }
            };
            histories.push(HistoryView::new(root, log.as_ref(), problem.as_ref().or(known)));
            logged.extend(log.map(|log| LoggedRoot { root: number, log: Arc::new(log), from: 0 }));
        }
        let changes =
            Changes::new(&relations, &|unit| index.linked_unit(unit).name.to_owned(), logged, now());
        Self { relations, changes, histories }
    }

    /// The data that features are computed from.
    pub(crate) fn sources<'a>(&'a self, index: &'a Index) -> Sources<'a> {
        Sources { index, relations: &self.relations, changes: &self.changes }
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Why a history is not what it could be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The directory has no repository that may be read: what was read earlier does not count either.
    Gone(String),
    /// New commits cannot be read.
    Older(String),
    /// The history cannot be kept.
    #[cfg_attr(not(feature = "git"), allow(dead_code, reason = "such a build reads nothing"))]
    Unkept(String),
}

impl Problem {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Gone(text) | Self::Older(text) | Self::Unkept(text) => text,
        }
    }
}

/// The absolute directories that the paths of a tree's files are relative to.
pub(crate) fn roots_of(tree: &Tree) -> Vec<String> {
    (0..tree.n_paths()).map(|number| tree.root(number)).collect()
}

/// Reads what is new in the histories of some directories into the caches. Returns whether there was anything, and by
/// directory why the history is missing or outdated.
pub(crate) fn read_histories(roots: &[String], options: &OpenOptions) -> (bool, HashMap<String, Problem>) {
    let (mut any_is_new, mut problems) = (false, HashMap::new());
    for root in roots {
        let kept_at = options.place(&[root]).map(|place| place.join(HISTORY));
        let (_, problem, is_new) = open_history(Path::new(root), kept_at.as_deref(), options);
        any_is_new |= is_new;
        problems.extend(problem.map(|problem| (root.clone(), problem)));
    }
    (any_is_new, problems)
}

/// The extent of a tree's history, without reading more.
pub fn history_status(root: &Path) -> Option<HistoryView> {
    let root = root.to_string_lossy();
    let place = OpenOptions::default().place(&[&root])?;
    let log = ChangeLog::open(&place.join(HISTORY))?;
    Some(HistoryView::new(&root, Some(&log), None))
}

/// The history of a directory, why it lacks commits, and whether it has any that it lacked before.
fn open_history(
    root: &Path,
    kept_at: Option<&Path>,
    options: &OpenOptions,
) -> (Option<ChangeLog>, Option<Problem>, bool) {
    if options.commits == 0 {
        return (None, Some(Problem::Gone("not read".to_owned())), false);
    }
    let open = || kept_at.and_then(ChangeLog::open).filter(|log| log.tree == root);
    let kept = open();
    if !options.reads_history {
        return (kept.map(|log| log.newest(options.commits)), None, false);
    }
    #[cfg(feature = "git")]
    {
        let update = quarry_history::UpdateOptions {
            commits: options.commits,
            is_bare: false,
            is_cancelled: options.is_cancelled,
            on_progress: &|n| (options.on_event)(Event::Commits(n)),
        };
        // An interrupted reading that went on has the same head, and is still incomplete.
        let extent = |log: &ChangeLog| {
            (
                log.head,
                log.is_complete,
                log.commits.len(),
                log.is_cut,
                log.is_shallow,
                log.limit,
                log.unreadable,
            )
        };
        let before = kept.as_ref().map(extent);
        let log = kept.unwrap_or_else(|| ChangeLog::new(root));
        match log.update(root, &update) {
            Ok(log) => {
                let is_new = before != Some(extent(&log));
                // It is a cache: what cannot be kept is read again.
                let unkept = if is_new { keep(&log, kept_at, root) } else { None };
                let is_new = is_new && unkept.is_none();
                (Some(log.newest(options.commits)), unkept, is_new)
            }
            Err(error) => {
                let problem = problem(&error);
                // The commits that were read before remain true.
                let kept = if matches!(problem, Problem::Gone(_)) { None } else { open() };
                (kept.map(|log| log.newest(options.commits)), Some(problem), false)
            }
        }
    }
    #[cfg(not(feature = "git"))]
    {
        let text = "this build cannot read git repositories".to_owned();
        (kept.map(|log| log.newest(options.commits)), Some(Problem::Older(text)), false)
    }
}

/// Writes a log to the cache; returns why that is not possible, if it matters.
#[cfg(feature = "git")]
fn keep(log: &ChangeLog, kept_at: Option<&Path>, root: &Path) -> Option<Problem> {
    use std::error::Error;

    let Some(path) = kept_at else {
        let text = "there is no directory for caches, so that each reading begins anew".to_owned();
        return (!log.is_complete).then_some(Problem::Unkept(text));
    };
    if let Some(place) = path.parent() {
        let _ = note_roots(place, &[&root.to_string_lossy()]);
    }
    let error = log.save(path).err()?;
    let cause = error.source().map(|cause| format!(" ({cause})")).unwrap_or_default();
    Some(Problem::Unkept(format!("{error}{cause}, so that each reading begins anew")))
}

#[cfg(feature = "git")]
fn problem(error: &quarry_history::GitError) -> Problem {
    use quarry_history::GitError;

    let text = match error {
        GitError::NoRepository(_) => "no git repository".to_owned(),
        GitError::Empty(_) => "no commits".to_owned(),
        // Whoever reads this does not see the causes of an error.
        GitError::Git { source, .. } => format!("{error} ({})", source.message()),
        GitError::Unreadable { source, .. } => format!("{error} ({source})"),
        other => other.to_string(),
    };
    match error {
        GitError::NoRepository(_)
        | GitError::Empty(_)
        | GitError::Owner(_)
        | GitError::Elsewhere(_)
        | GitError::LeadsOut(_) => Problem::Gone(text),
        _ => Problem::Older(text),
    }
}

#[cfg(all(test, feature = "git"))]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use quarry_test_support::git::GitRepository;

    use super::*;

    /// A repository of a file with a number of commits.
    fn repository(directory: &Path, n_commits: usize) -> GitRepository {
        let mut repository = GitRepository::with_work_tree(directory);
        for number in 0..n_commits {
            let content = format!("def f():\n    return {number}\n");
            repository.commit("Change", &[("a.py", Some(&content))]);
        }
        repository
    }

    #[test]
    fn what_each_interrupted_reading_adds_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let (tree, kept_at) = (directory.path().join("tree"), directory.path().join("cache/history"));
        repository(&tree, 12);
        let mut n_kept = Vec::new();
        for _ in 0..8 {
            let n_read = AtomicUsize::new(0);
            let options = OpenOptions {
                is_cancelled: &|| n_read.load(Ordering::Relaxed) >= 2,
                on_event: &|_| {
                    n_read.fetch_add(1, Ordering::Relaxed);
                },
                ..OpenOptions::default()
            };
            open_history(&tree, Some(&kept_at), &options);
            n_kept.push(ChangeLog::open(&kept_at).unwrap().commits.len());
        }
        assert!(n_kept.is_sorted() && n_kept[1] > n_kept[0], "{n_kept:?}");
        assert_eq!(n_kept.last(), Some(&11), "{n_kept:?}");
    }

    #[test]
    fn commits_that_cannot_be_read_are_counted() {
        let mut log = ChangeLog::new(Path::new("/x"));
        let view = |log: &ChangeLog| HistoryView::new("/x", Some(log), None);
        (log.head, log.is_complete) = (quarry_history::CommitId::parse(&"1".repeat(40)), true);
        assert_eq!((view(&log).sentence().as_str(), view(&log).complete), ("history of 0 commits", true));
        log.unreadable = 3;
        let sentence = view(&log).sentence();
        assert!(sentence.starts_with("history of 0 commits; 3 more commits cannot be read"), "{sentence}");
        assert!(sentence.contains("git fetch --refetch") && !view(&log).complete, "{sentence}");
        assert!(!view(&log).is_interrupted);
        log.is_complete = false;
        assert!(view(&log).sentence().starts_with("history of 0 commits, to be continued; 3 more"));
        let sentence = HistoryView::new("/x", None, Some(&Problem::Gone("none".to_owned()))).sentence();
        assert_eq!(sentence, "no history: none");
    }

    #[test]
    fn the_history_of_a_repository_that_is_gone_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let (tree, kept_at) = (directory.path().join("tree"), directory.path().join("cache/history"));
        repository(&tree, 3);
        let look = || open_history(&tree, Some(&kept_at), &OpenOptions::default());
        assert_eq!(look().0.unwrap().commits.len(), 2);
        let head = tree.join(".git/refs/heads/main");
        let id = fs::read(&head).unwrap();
        fs::write(&head, "2".repeat(40)).unwrap();
        let (log, problem, _) = look();
        let problem = problem.unwrap();
        assert_eq!(log.unwrap().commits.len(), 2);
        let Problem::Older(text) = problem else { panic!("{problem:?}") };
        assert!(text.ends_with(')') && text.contains("refs/heads/main"), "{text}");
        fs::write(&head, id).unwrap();
        fs::rename(tree.join(".git"), tree.join("git")).unwrap();
        let (log, problem, _) = look();
        assert_eq!((log, problem), (None, Some(Problem::Gone("no git repository".to_owned()))));
    }

    #[test]
    fn a_history_that_cannot_be_kept_is_not_to_be_continued() {
        let directory = tempfile::tempdir().unwrap();
        let (tree, kept_at) = (directory.path().join("tree"), directory.path().join("cache/history"));
        repository(&tree, 4);
        fs::write(directory.path().join("cache"), "a file").unwrap();
        for (kept_at, expected) in [(Some(kept_at.as_path()), "cannot be kept ("), (None, "no directory")] {
            let n_asked = AtomicUsize::new(0);
            let options = OpenOptions {
                is_cancelled: &|| n_asked.fetch_add(1, Ordering::Relaxed) > 2,
                ..OpenOptions::default()
            };
            let (log, problem, is_new) = open_history(&tree, kept_at, &options);
            let view = HistoryView::new("", log.as_ref(), problem.as_ref());
            let sentence = view.sentence();
            assert!(view.is_interrupted && !view.is_kept && !is_new, "{sentence}");
            assert!(sentence.contains(expected) && !sentence.contains("continued"), "{sentence}");
        }
        let (log, problem, _) = open_history(&tree, None, &OpenOptions::default());
        assert_eq!((log.unwrap().commits.len(), problem), (3, None));
    }

    #[test]
    fn answers_use_the_newest_commits_that_are_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let (tree, kept_at) = (directory.path().join("tree"), directory.path().join("cache/history"));
        repository(&tree, 6);
        let n_read = |commits: usize, reads_history: bool| {
            let options = OpenOptions { commits, reads_history, ..OpenOptions::default() };
            let (log, ..) = open_history(&tree, Some(&kept_at), &options);
            let view = HistoryView::new("", log.as_ref(), None);
            (view.commits, view.complete, view.cut)
        };
        assert_eq!(n_read(2, true), (2, true, true));
        assert_eq!(n_read(4, true), (4, true, true));
        assert_eq!(n_read(100, true), (5, true, false));
        assert_eq!(n_read(3, true), (3, true, true));
        assert_eq!(n_read(3, false), (3, true, true));
        assert_eq!(n_read(100, false), (5, true, false));
    }
}
