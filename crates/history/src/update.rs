//! Reading the functions that new commits changed.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;

use git2::{DiffOptions, Patch};
use quarry_source::{Unit, UnitKind, extract, language_for};
use quarry_walk::{WalkOptions, max_bytes_of_member};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::DEFAULT_COMMITS;
use crate::git::{
    Change, Commit, Comparison, GitError, Header, HistoryOptions, MAX_MESSAGE_BYTES, changes_between,
    read_history, start_of_history, start_of_work_tree,
};
use crate::log::{ChangeLog, CommitId, LoggedCommit, Texts};

/// A commit that changes more files says nothing about any two of them.
const MAX_FILES: usize = 30;

/// Likewise for functions.
const MAX_FUNCTIONS: usize = 300;

/// Number of commits whose files are in memory together.
const BATCH: usize = 64;

/// Maximum size of these files in bytes.
const BATCH_BYTES: usize = 64 << 20;

/// Limits and events of an update.
pub struct UpdateOptions<'a> {
    /// Maximum number of commits; the log keeps more if an earlier update could read more.
    pub commits: usize,
    /// True if the directory may be a repository without a work tree, instead of one in a work tree.
    pub is_bare: bool,
    /// Asked often; once true, the update ends with what was read.
    pub is_cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Called with the number of commits read so far.
    pub on_progress: &'a (dyn Fn(usize) + Sync),
}

impl Default for UpdateOptions<'_> {
    fn default() -> Self {
        Self { commits: DEFAULT_COMMITS, is_bare: false, is_cancelled: &|| false, on_progress: &|_| {} }
    }
}

impl ChangeLog {
    /// Returns the log of a directory with the commits that are new since this one was made. Only these are looked at,
    /// unless an update was interrupted, commits are missing in the clone, the limit is larger now or the branch was
    /// changed; then the commits that this log knows are not read again.
    ///
    /// # Errors
    /// When there is no repository, it is empty, or the commit to start from is missing.
    pub fn update(self, directory: &Path, options: &UpdateOptions) -> Result<Self, GitError> {
        let start = match options.is_bare {
            true => start_of_history(directory, None)?,
            false => start_of_work_tree(directory, None)?,
        };
        let head = CommitId::parse(&start.commit);
        // The objects that were missing may have been fetched since, and a shallow clone deepened.
        let lacks_none = self.is_complete && self.unreadable == 0 && !self.is_shallow && !start.is_shallow;
        // All commits that a smaller limit allows are known, too.
        let is_enough = lacks_none && (!self.is_cut || options.commits <= self.limit);
        if head == self.head && is_enough {
            return Ok(self);
        }
        let limit = options.commits.max(self.limit);
        let logged = self.commits.iter().map(|commit| commit.id);
        let known: HashSet<CommitId> = logged.chain(self.elsewhere.iter().copied()).collect();
        let order: RefCell<Vec<CommitId>> = RefCell::default();
        let texts = Texts::new(self.texts.clone());
        let mut reader = Reader { texts, ..Reader::default() };
        let history = HistoryOptions {
            commits: limit,
            start: Some(start.commit),
            max_files: MAX_FILES,
            reports_renames: true,
            only_work_tree: !options.is_bare,
            known: self.head.filter(|_| is_enough).map(|head| head.to_string()),
            ..HistoryOptions::default()
        };
        let is_wanted = |header: &Header| {
            let Some(id) = CommitId::parse(&header.id).filter(|_| !(options.is_cancelled)()) else {
                return false;
            };
            order.borrow_mut().push(id);
            !known.contains(&id)
        };
        let mut is_cancelled = false;
        let reach = read_history(directory, &history, &is_wanted, &is_source, &mut |commit| {
            reader.add(commit);
            (options.on_progress)(order.borrow().len());
            is_cancelled = (options.is_cancelled)();
            if is_cancelled { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        reader.flush();
        is_cancelled = is_cancelled || (options.is_cancelled)();
        // Merges and first commits have no record.
        let order = order.into_inner().into_iter();
        let mut elsewhere = reader.elsewhere;
        elsewhere.extend(self.elsewhere);
        elsewhere.truncate(limit);
        let (is_cut, commits): (bool, Vec<LoggedCommit>) = if reach.ends_at_known && !reach.is_cut {
            let new = order.filter_map(|id| reader.read.remove(&id));
            let mut commits: Vec<LoggedCommit> = new.chain(self.commits).collect();
            let is_cut = self.is_cut || commits.len() > limit;
            commits.truncate(limit);
            (is_cut, commits)
        } else {
            let old_order: Vec<CommitId> = self.commits.iter().map(|commit| commit.id).collect();
            let old = self.commits.into_iter().map(|commit| (commit.id, commit));
            let old_order: Vec<CommitId> = match is_cancelled && head == self.head {
                // What an earlier reading of the same commits reached beyond this one.
                true => old_order,
                false => Vec::new(),
            };
            let mut known: FxHashMap<CommitId, LoggedCommit> = old.collect();
            known.extend(reader.read);
            (reach.is_cut, order.chain(old_order).filter_map(|id| known.remove(&id)).collect())
        };
        let mut log = Self::new(directory);
        (log.head, log.texts, log.commits) = (head, reader.texts.into_all(), commits);
        (log.is_complete, log.is_shallow, log.is_cut) = (!is_cancelled, reach.is_shallow, is_cut);
        (log.limit, log.elsewhere) = (limit, elsewhere);
        log.unreadable = u32::try_from(reach.unreadable).unwrap_or(u32::MAX);
        Ok(log)
    }
}

/// Commits that are read, in batches.
#[derive(Default)]
struct Reader {
    texts: Texts,
    read: FxHashMap<CommitId, LoggedCommit>,
    /// Those that changed no file of the directory.
    elsewhere: Vec<CommitId>,
    batch: Vec<Commit>,
    n_bytes: usize,
}

impl Reader {
    fn add(&mut self, commit: Commit) {
        self.n_bytes +=
            commit.changes.iter().map(|change| change.before.len() + change.after.len()).sum::<usize>();
        self.batch.push(commit);
        if self.batch.len() >= BATCH || self.n_bytes > BATCH_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.n_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        let changed: Vec<Vec<(String, String)>> = batch.par_iter().map(changed_functions).collect();
        for (commit, changed) in batch.into_iter().zip(changed) {
            let Some(id) = CommitId::parse(&commit.header.id) else { continue };
            // What changed other directories is not for who searches this one.
            if commit.n_files == 0 {
                self.elsewhere.push(id);
                continue;
            }
            let mut number = |text: &str| self.texts.number(text);
            let logged = LoggedCommit {
                id,
                seconds: commit.header.seconds,
                message: without_addresses(&commit.header.message),
                n_files: u32::try_from(commit.n_files).unwrap_or(u32::MAX),
                files: commit.files.iter().map(|path| number(path)).collect(),
                functions: changed.iter().map(|(path, name)| (number(path), number(name))).collect(),
                renames: commit.renames.iter().map(|(old, new)| (number(old), number(new))).collect(),
            };
            self.read.insert(id, logged);
        }
    }
}

/// The functions, methods and types that differ between two states of a directory, by path and name as they are in the
/// second one. A path with an empty name stands for a file in which nothing else changed.
///
/// # Errors
/// When there is no repository, or a revision is missing or unreadable.
pub fn changed_between(directory: &Path, comparison: &Comparison) -> Result<Vec<(String, String)>, GitError> {
    let changes = changes_between(directory, comparison, &is_source)?;
    let of_change = |change: &Change| {
        let mut names = changed_units(change);
        if names.is_empty() {
            names.push(String::new());
        }
        names.into_iter().map(|name| (change.path.clone(), name)).collect::<Vec<_>>()
    };
    Ok(changes.iter().filter(|change| !change.after.is_empty()).flat_map(of_change).collect())
}

/// Returns whether a file may be indexed, by its path.
fn is_source(path: &str) -> bool {
    max_bytes_of_member(path, &WalkOptions::default()).is_some() && language_for(path.as_ref(), b"").is_some()
}

/// The functions, methods and types that a commit changed or added, by path and name, without duplicates. Changes of
/// white space alone do not count.
fn changed_functions(commit: &Commit) -> Vec<(String, String)> {
    let mut seen: HashSet<(&str, String)> = HashSet::new();
    let mut found = Vec::new();
    for change in &commit.changes {
        for name in changed_units(change) {
            if seen.insert((&change.path, name.clone())) {
                found.push((change.path.clone(), name));
            }
        }
    }
    if found.len() > MAX_FUNCTIONS {
        found.clear();
    }
    found
}

fn changed_units(change: &Change) -> Vec<String> {
    let lines = changed_lines(change);
    if lines.is_empty() {
        return Vec::new();
    }
    let Some(language) = language_for(change.path.as_ref(), &change.after) else { return Vec::new() };
    let is_changed = |unit: &Unit| {
        let is_definition = matches!(unit.kind, UnitKind::Function | UnitKind::Method | UnitKind::Type);
        is_definition && lines.iter().any(|lines| lines.touches(unit.start_line, unit.end_line))
    };
    extract(language, &change.after).units.into_iter().filter(is_changed).map(|unit| unit.name).collect()
}

/// Lines of the later content that replace others; none where lines were removed after `start`.
struct ChangedLines {
    start: u32,
    n_lines: u32,
}

impl ChangedLines {
    /// Returns true if a range of lines (1-based, inclusive) has one of them, or both lines around removed ones.
    fn touches(&self, first: u32, last: u32) -> bool {
        match self.n_lines {
            0 => first <= self.start && self.start < last,
            n_lines => first < self.start + n_lines && self.start <= last,
        }
    }
}

fn changed_lines(change: &Change) -> Vec<ChangedLines> {
    let mut options = DiffOptions::new();
    options.context_lines(0).ignore_whitespace(true).force_text(true);
    let patch = Patch::from_buffers(&change.before, None, &change.after, None, Some(&mut options));
    let Ok(patch) = patch else { return Vec::new() };
    let hunk = |number| {
        let (hunk, _) = patch.hunk(number).ok()?;
        Some(ChangedLines { start: hunk.new_start(), n_lines: hunk.new_lines() })
    };
    (0..patch.num_hunks()).filter_map(hunk).collect()
}

/// A message without the addresses of people, up to a length.
fn without_addresses(message: &str) -> String {
    // A message that was cut off when it was read may end within an address.
    let whole = match message.len() + 4 > MAX_MESSAGE_BYTES {
        true => message.rfind(char::is_whitespace).map_or("", |end| &message[..end]),
        false => message,
    };
    let line = |line: &str| {
        let line = without_bracketed_addresses(line);
        line.split(' ').filter(|word| !has_address(word)).collect::<Vec<_>>().join(" ").trim_end().to_owned()
    };
    let text = whole.lines().map(line).collect::<Vec<_>>().join("\n");
    let text = text.trim();
    text[..text.floor_char_boundary(LoggedCommit::MAX_MESSAGE_BYTES)].trim_end().to_owned()
}

/// A line without what is written as `<jane@host>`.
fn without_bracketed_addresses(line: &str) -> String {
    let (mut kept, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once('<') {
        let address = after.split_once('>').filter(|(inner, _)| {
            inner.contains('@') && !inner.contains('<') && !inner.trim().contains(char::is_whitespace)
        });
        match address {
            Some((_, after)) => {
                kept.push_str(before.trim_end_matches(' '));
                rest = if kept.is_empty() { after.trim_start() } else { after };
            }
            None => {
                kept.push_str(before);
                kept.push('<');
                rest = after;
            }
        }
    }
    kept + rest
}

/// Returns whether a word has an address in a domain; versions, as in `name@1.2.3` and `owner/name@v1.2`, are none.
fn has_address(word: &str) -> bool {
    let is_between = |c: char| c.is_whitespace() || ",;:|()[]{}\"`<>".contains(c);
    word.split(is_between).any(|part| {
        let Some((user, host)) = part.trim_matches(|c: char| !c.is_alphanumeric()).split_once('@') else {
            return false;
        };
        let mut labels = host.split('.');
        let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
        let is_version = labels.next().is_some_and(is_number) && labels.next().is_some_and(is_number);
        let is_domain = host.rsplit_once('.').is_some_and(|(_, last)| {
            last.starts_with(char::is_alphabetic) && last.chars().filter(|c| c.is_alphabetic()).count() >= 2
        });
        !user.is_empty() && !user.contains('/') && is_domain && !is_version
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use quarry_test_support::git::GitRepository;

    use super::*;

    const ONE: &str = "def f():\n    return 1\n\n\ndef g():\n    return 1\n";

    /// The names of the functions that each commit changed, newest first, with the paths of now.
    fn functions(log: &ChangeLog) -> Vec<Vec<String>> {
        let named = |(path, name): &(u32, u32)| format!("{}:{}", log.text(*path), log.text(*name));
        let resolved = log.resolved(0);
        resolved.iter().map(|(_, _, functions)| functions.iter().map(named).collect()).collect()
    }

    #[test]
    fn functions_are_followed_through_renames_and_new_commits_are_added() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path();
        let mut repository = GitRepository::with_work_tree(tree);
        repository.commit("Start", &[("a.py", Some(ONE))]);
        repository.commit("Change f", &[("a.py", Some(&ONE.replacen('1', "2", 1)))]);
        let spaced = ONE.replacen('1', "2", 1).replace("return", "return  ");
        repository.commit("Format", &[("a.py", Some(&spaced))]);
        let log = ChangeLog::new(tree).update(tree, &UpdateOptions::default()).unwrap();
        assert_eq!(functions(&log), [vec![], vec!["a.py:f".to_owned()]]);
        assert!(log.is_complete && !log.is_cut && !log.is_shallow);
        repository.commit(
            "Move\n\nCo-authored-by: Jane <jane@example.org>",
            &[("a.py", None), ("b.py", Some(&spaced))],
        );
        repository.commit(
            "Drop a line of g",
            &[("b.py", Some(&spaced.replace("def g():\n    return   1\n", "def g(): 1\n")))],
        );
        let n_read = Cell::new(0);
        let events = std::sync::atomic::AtomicUsize::new(0);
        let count = |_: usize| {
            events.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        };
        let log =
            log.update(tree, &UpdateOptions { on_progress: &count, ..UpdateOptions::default() }).unwrap();
        n_read.set(events.into_inner());
        assert_eq!(n_read.get(), 2, "only the new commits are read");
        let expected: [&[&str]; 4] = [&["b.py:g"], &[], &[], &["b.py:f"]];
        assert_eq!(functions(&log), expected);
        assert_eq!(log.commits[1].message, "Move\n\nCo-authored-by: Jane");
        let other = ChangeLog::new(tree).update(tree, &UpdateOptions::default()).unwrap();
        assert_eq!(functions(&other), expected);
    }

    #[test]
    fn an_interrupted_update_is_continued() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path();
        let mut repository = GitRepository::with_work_tree(tree);
        for number in 0..5 {
            repository.commit("Change", &[("a.py", Some(&ONE.replace('1', &number.to_string())))]);
        }
        let n_asked = std::sync::atomic::AtomicUsize::new(0);
        let is_cancelled = || n_asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 2;
        let options = UpdateOptions { is_cancelled: &is_cancelled, ..UpdateOptions::default() };
        let part = ChangeLog::new(tree).update(tree, &options).unwrap();
        assert!(!part.is_complete && part.commits.len() < 4, "{}", part.commits.len());
        let whole = part.update(tree, &UpdateOptions::default()).unwrap();
        assert_eq!((whole.is_complete, whole.commits.len()), (true, 4));
        let few = ChangeLog::new(tree)
            .update(tree, &UpdateOptions { commits: 2, ..UpdateOptions::default() })
            .unwrap();
        assert_eq!((few.is_cut, few.commits.len()), (true, 2));
    }

    #[test]
    fn a_larger_limit_reads_on_and_a_smaller_one_forgets_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path();
        let mut repository = GitRepository::with_work_tree(tree);
        let mut commit = |number: usize| {
            repository.commit("Change", &[("a.py", Some(&ONE.replace('1', &number.to_string())))]);
        };
        (0..6).for_each(&mut commit);
        let update = |log: ChangeLog, commits: usize| {
            log.update(tree, &UpdateOptions { commits, ..UpdateOptions::default() }).unwrap()
        };
        let few = update(ChangeLog::new(tree), 2);
        assert_eq!((few.is_cut, few.commits.len(), few.limit), (true, 2, 2));
        let more = update(few.clone(), 4);
        assert_eq!((more.is_cut, more.commits.len(), more.limit), (true, 4, 4));
        assert_eq!(update(more.clone(), 3), more);
        let newest = more.clone().newest(3);
        assert_eq!((newest.is_cut, &newest.commits[..]), (true, &more.commits[..3]));
        let all = update(more, 100);
        assert_eq!((all.is_cut, all.commits.len(), all.limit), (false, 5, 100));
        assert_eq!(update(all.clone(), 1_000), all, "there are no more");
        commit(6);
        assert_eq!(update(all, 3).commits.len(), 6);
        let more = update(few, 100);
        assert_eq!((more.is_cut, more.commits.len()), (false, 6), "also with new commits");
    }

    #[test]
    fn commits_that_were_missing_are_read_once_they_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path();
        let mut repository = GitRepository::with_work_tree(tree);
        let ids: Vec<String> = (0..5)
            .map(|number| {
                repository.commit("Change", &[("a.py", Some(&ONE.replace('1', &number.to_string())))])
            })
            .collect();
        let update = |log: ChangeLog| log.update(tree, &UpdateOptions::default()).unwrap();
        let subject = |log: &ChangeLog| (log.commits.len(), log.unreadable, log.is_shallow);
        // As `git clone --filter=blob:none` leaves it, but for one file.
        let blob = repository.object("blob", ONE.replace('1', "2").as_bytes());
        let blob = tree.join(".git/objects").join(&blob[..2]).join(&blob[2..]);
        let content = std::fs::read(&blob).unwrap();
        std::fs::remove_file(&blob).unwrap();
        let log = update(ChangeLog::new(tree));
        assert_eq!(subject(&log), (2, 2, false));
        let log = update(log);
        assert_eq!(subject(&log), (2, 2, false));
        repository.commit("Change", &[("a.py", Some(&ONE.replace('1', "5")))]);
        let log = update(log);
        assert_eq!(subject(&log), (3, 2, false), "new commits do not hide them");
        std::fs::write(&blob, content).unwrap();
        let log = update(log);
        assert_eq!(subject(&log), (5, 0, false));
        // As `git fetch --depth` and `--deepen` leave it.
        let shallow = tree.join(".git/shallow");
        let log = [3, 1].into_iter().fold((ChangeLog::new(tree), 0), |(log, n_before), oldest| {
            std::fs::write(&shallow, format!("{}\n", ids[oldest])).unwrap();
            let log = update(log);
            assert!(log.is_shallow && log.commits.len() > n_before, "{}", log.commits.len());
            let n_read = log.commits.len();
            (log, n_read)
        });
        std::fs::remove_file(&shallow).unwrap();
        assert_eq!(subject(&update(log.0)), (5, 0, false));
    }

    #[test]
    fn a_part_of_a_repository_has_its_own_history() {
        let directory = tempfile::tempdir().unwrap();
        let mut repository = GitRepository::with_work_tree(directory.path());
        repository.commit("Start", &[("in/a.py", Some(ONE)), ("b.py", Some(ONE))]);
        repository.commit("Both", &[("in/a.py", Some(&ONE.replace('1', "2"))), ("b.py", Some("x = 1\n"))]);
        repository.commit("Other", &[("b.py", Some("x = 2\n"))]);
        let part = directory.path().join("in");
        let log = ChangeLog::new(&part).update(&part, &UpdateOptions::default()).unwrap();
        assert_eq!(functions(&log), [["a.py:f", "a.py:g"]]);
        repository.commit("Secret of b", &[("b.py", Some("x = 3\n"))]);
        let mut log = log.update(&part, &UpdateOptions::default()).unwrap();
        assert_eq!((functions(&log).len(), log.elsewhere.len()), (1, 2));
        // Neither is read again where the branch is not the one that was read.
        let events = std::sync::atomic::AtomicUsize::new(0);
        let count = |_: usize| {
            events.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        };
        log.head = CommitId::parse(&"1".repeat(40));
        let log =
            log.update(&part, &UpdateOptions { on_progress: &count, ..UpdateOptions::default() }).unwrap();
        assert_eq!((functions(&log).len(), log.elsewhere.len(), events.into_inner()), (1, 2, 0));
    }

    /// A tree from a stranger may have a directory that looks like a repository, or name one elsewhere.
    #[test]
    fn only_the_repository_of_the_work_tree_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        let mut repository = GitRepository::with_work_tree(&tree);
        repository.commit("Start", &[("in/a.py", Some(ONE))]);
        repository.commit("Change", &[("in/a.py", Some(&ONE.replace('1', "2")))]);
        let inner = tree.join("in");
        GitRepository::bare(&inner).commit("Planted", &[("x.py", Some(ONE))]);
        let log = ChangeLog::new(&inner).update(&inner, &UpdateOptions::default()).unwrap();
        assert_eq!(functions(&log), [["a.py:f", "a.py:g"]]);
        let other = directory.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join(".git"), format!("gitdir: {}\n", tree.join(".git").display())).unwrap();
        let error = ChangeLog::new(&other).update(&other, &UpdateOptions::default()).unwrap_err();
        assert!(matches!(error, GitError::Elsewhere(_)), "{error}");
        // Files that `git worktree add` leaves.
        let own = tree.join(".git/worktrees/other");
        std::fs::create_dir_all(&own).unwrap();
        let head = std::fs::read_to_string(tree.join(".git/refs/heads/main")).unwrap();
        for (name, text) in [
            ("HEAD", head.as_str()),
            ("commondir", "../..\n"),
            ("gitdir", &format!("{}\n", other.join(".git").display())),
        ] {
            std::fs::write(own.join(name), text).unwrap();
        }
        std::fs::write(other.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        let log = ChangeLog::new(&other).update(&other, &UpdateOptions::default()).unwrap();
        assert_eq!(functions(&log), [["in/a.py:f", "in/a.py:g"]]);
    }

    /// A `.git` directory that was unpacked, not cloned, may take the commits of a repository of this user.
    #[cfg(unix)]
    #[test]
    fn a_repository_that_leads_to_another_one_is_not_read() {
        use std::fs;
        use std::os::unix::fs::symlink;

        let directory = tempfile::tempdir().unwrap();
        let [mine, tree] = ["mine", "tree"].map(|name| directory.path().join(name));
        let mut repository = GitRepository::with_work_tree(&mine);
        repository.commit("Start", &[("a.py", Some(ONE))]);
        repository.commit("Private", &[("a.py", Some(&ONE.replace('1', "2")))]);
        let (mine, git) = (mine.join(".git"), tree.join(".git"));
        let update = || ChangeLog::new(&tree).update(&tree, &UpdateOptions::default());
        let replace_by_link = |path: &Path, target: &Path| {
            let _ = fs::remove_file(path);
            let _ = fs::remove_dir_all(path);
            symlink(target, path).unwrap();
        };
        for name in
            ["HEAD", "packed-refs", "objects", "refs", "refs/heads", "refs/heads/main", "objects/pack"]
        {
            let _ = fs::remove_dir_all(&tree);
            GitRepository::with_work_tree(&tree).commit("Start", &[("a.py", Some(ONE))]);
            replace_by_link(&git.join(name), &mine.join(name));
            let error = update().unwrap_err();
            assert!(
                matches!(&error, GitError::LeadsOut(path) if *path == git.canonicalize().unwrap().join(name)),
                "{error}"
            );
        }
        fs::remove_dir_all(&tree).unwrap();
        fs::create_dir_all(&git).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(git.join("commondir"), "../../mine/.git\n").unwrap();
        assert!(matches!(update(), Err(GitError::LeadsOut(_))));
        // As `git clone --shared` leaves it, with a link inside.
        fs::remove_dir_all(&tree).unwrap();
        GitRepository::with_work_tree(&tree);
        fs::create_dir_all(git.join("objects/info")).unwrap();
        fs::write(git.join("objects/info/alternates"), mine.join("objects").display().to_string()).unwrap();
        fs::copy(mine.join("refs/heads/main"), git.join("refs/heads/other")).unwrap();
        symlink("other", git.join("refs/heads/main")).unwrap();
        assert_eq!(update().unwrap().commits.len(), 1);
    }

    #[test]
    fn removed_lines_belong_to_what_is_around_both_sides() {
        let removed = ChangedLines { start: 4, n_lines: 0 };
        assert!(removed.touches(3, 5) && !removed.touches(1, 4) && !removed.touches(5, 9));
        let added = ChangedLines { start: 4, n_lines: 2 };
        assert!(added.touches(5, 9) && added.touches(1, 4) && !added.touches(6, 9));
    }

    #[test]
    fn messages_lose_addresses() {
        let message =
            "Fix a@b\n\nSigned-off-by: Jane Doe <jane.doe@example.org>\nreported by x@y.org, thanks";
        assert_eq!(without_addresses(message), "Fix a@b\n\nSigned-off-by: Jane Doe\nreported by thanks");
        for (message, expected) in [
            ("Signed-off-by: Jane <jane@corp>", "Signed-off-by: Jane"),
            ("<j@localhost> said so, and < k@host > too", "said so, and too"),
            ("by https://jane:secret@host.org/x, (jane@example.org).", "by"),
            ("by jane@x.org,joe@y.org and joe@126.com", "by and"),
        ] {
            assert_eq!(without_addresses(message), expected);
        }
        for kept in [
            "Bump lodash@4.17.21 to 4.17.22",
            "Use actions/checkout@v4.1",
            "Bump @types/node@20.1.0 and react@19.0.0-rc.beta",
            "Vec<T> -> Map<K, V> where a < b @ c > d",
        ] {
            assert_eq!(without_addresses(kept), kept);
        }
        for n_before in [0, 8, LoggedCommit::MAX_MESSAGE_BYTES - 8, MAX_MESSAGE_BYTES - 8] {
            let message = "x ".repeat(n_before / 2) + "jane.doe@example.org";
            let cut = without_addresses(&message[..message.len().min(MAX_MESSAGE_BYTES)]);
            assert!(!cut.contains("jane") && cut.len() <= LoggedCommit::MAX_MESSAGE_BYTES, "{n_before}");
        }
    }
}
