//! The history of a repository: which files each commit changed, and their contents before and after.
//!
//! This is the only module that reads git repositories, with libgit2. It starts no programs, writes nothing and uses
//! no network.

mod plain;
mod renames;
mod snapshot;

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use git2::{Commit as RawCommit, DiffOptions, ErrorCode, ObjectType, Odb, Oid, Repository, Sort};

use self::plain::IrregularEntry;
use self::renames::Renames;
pub use self::snapshot::Snapshot;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryOptions {
    /// Maximum number of commits to read, newest first.
    pub commits: usize,
    /// The commit to start from, by any name that git accepts; `HEAD` if `None`.
    pub start: Option<String>,
    /// Maximum number of changed files; for a commit with more, no changes are reported.
    pub max_files: usize,
    /// Maximum size of a file in bytes; larger files count as unchanged.
    pub max_bytes: usize,
    /// Maximum size of all files that are read, in bytes; the history ends with the commit that exceeds it.
    pub max_total_bytes: u64,
    /// Follow files through renames: changes then have the path that a file has at the start, and removed files are
    /// among them.
    pub follows_renames: bool,
    /// Find [`Commit::renames`]; paths stay as they were in each commit, and removed files are among the changes.
    pub reports_renames: bool,
    /// Read merges too, each as the change of its first parent.
    pub merges: bool,
    /// True if the directory is in a work tree, which may be from a stranger: only its own `.git` counts, never a
    /// directory in it that looks like a repository, nor a repository elsewhere that it names.
    pub only_work_tree: bool,
    /// The id of a commit that is not read, nor any of its ancestors, if it is an ancestor of the start itself.
    pub known: Option<String>,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self {
            commits: 5_000,
            start: None,
            max_files: 50,
            max_bytes: 1_000_000,
            max_total_bytes: u64::MAX,
            follows_renames: false,
            reports_renames: false,
            merges: false,
            only_work_tree: false,
            known: None,
        }
    }
}

/// Maximum size of the message of a commit, in bytes; longer ones are cut off.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    pub id: String,
    /// The message, up to [`MAX_MESSAGE_BYTES`]; invalid bytes are replaced with U+FFFD.
    pub message: String,
    pub author: String,
    /// Number of parents: 0 for a root commit (and at the end of a shallow clone), 2 or more for a merge.
    pub parents: usize,
    /// When the change was made (the author's date), in seconds since 1970.
    pub seconds: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    pub header: Header,
    /// Id of its first parent, in hexadecimal.
    pub parent: String,
    /// Number of files in the directory that it changed, added or removed.
    pub n_files: usize,
    /// Paths of all of them, as they were in this commit; empty if there are more than [`HistoryOptions::max_files`].
    pub files: Vec<String>,
    /// Files that it renamed: their paths before and after. Only with [`HistoryOptions::reports_renames`].
    pub renames: Vec<(String, String)>,
    /// The requested ones of these files; empty if there are more than [`HistoryOptions::max_files`].
    pub changes: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path relative to the directory, `/` between parts.
    pub path: String,
    /// Content before the commit; empty for a new file.
    pub before: Vec<u8>,
    /// Content after the commit; empty for a removed file.
    pub after: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    pub commits: usize,
    /// True if the clone is shallow, so that older commits are missing.
    pub is_shallow: bool,
    /// Number of commits that were skipped because some of their objects are missing (a partial clone) or damaged.
    pub unreadable: usize,
    /// True if older commits were not read because of [`HistoryOptions::commits`] or
    /// [`HistoryOptions::max_total_bytes`].
    pub is_cut: bool,
    /// True if [`HistoryOptions::known`] is an ancestor, so that only commits after it were read.
    pub ends_at_known: bool,
}

/// The start of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The id of the newest commit, in hexadecimal.
    pub commit: String,
    /// True if the clone is shallow, so that older commits are missing.
    pub is_shallow: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The directory is not in a repository.
    #[error("{}: expected a directory of a git repository, found no .git in it or above it", .0.display())]
    NoRepository(PathBuf),
    #[error("{}: names a git repository elsewhere that does not know this work tree; run `git worktree repair` there", .0.display())]
    Elsewhere(PathBuf),
    /// A `.git` directory that takes commits from outside of it.
    #[error("{}: leads out of the git repository; clone the repository to read its history", .0.display())]
    LeadsOut(PathBuf),
    #[error("{}: expected a git repository with commits, found none", .0.display())]
    Empty(PathBuf),
    #[error("{}: the commit {revision} is missing; fetch it", path.display())]
    NoCommit {
        /// The directory.
        path: PathBuf,
        revision: String,
    },
    /// The repository belongs to another user, whom git does not trust unless configured to.
    #[error(
        "{}: belongs to another user; to read it, run `git config --global --add safe.directory {}`",
        .0.display(), .0.display()
    )]
    Owner(PathBuf),
    #[error("{}: cannot be read; check its permissions", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The repository contains something other than a regular file where libgit2 expects one.
    #[error("{}: expected a plain file of a git repository, found something else: {problem}; remove it, or clone the \
        repository again", path.display())]
    IrregularEntry { path: PathBuf, problem: String },
    /// A commit some of whose directories are missing, as in a partial clone.
    #[error("{}: directories of the commit {commit} are missing in the clone; run `git fetch --refetch`", path.display())]
    IncompleteCommit {
        /// The repository.
        path: PathBuf,
        /// Hash of the commit.
        commit: String,
    },
    #[error(
        "{}: {from} and {to} have no common commit in this clone; if it is shallow, run `git fetch --unshallow`, else \
         compare {from}..{to}",
        path.display()
    )]
    NoCommonCommit {
        /// The directory.
        path: PathBuf,
        from: String,
        to: String,
    },
    /// A repository, or an index, of a format that libgit2 does not know.
    #[error(
        "{}: the format of this git repository cannot be read here: {problem}; pipe a change instead: \
         `git diff --staged | quarry related -`",
        path.display()
    )]
    Unsupported {
        /// The directory.
        path: PathBuf,
        problem: String,
    },
    #[error("{}: the git repository cannot be read; run `git fsck` to find the damage", path.display())]
    Git { path: PathBuf, source: git2::Error },
}

/// The commit that is checked out in the work tree that contains a directory, in hexadecimal; `None` if there is no
/// readable repository, or it has no commits.
pub fn head(directory: &Path) -> Option<String> {
    let nowhere: [&OsStr; 0] = [];
    let found = Repository::discover_path(directory.canonicalize().ok()?, nowhere).ok()?;
    plain::check(&found).ok()?;
    let repository = Repository::open(&found).ok()?;
    let id = repository.head().ok()?.peel_to_commit().ok()?.id();
    Some(id.to_string())
}

/// The newest commit of the repository that contains a directory: `revision`, by any name that git accepts, or `HEAD`.
///
/// # Errors
/// When there is no repository, it is empty, or the commit is missing.
pub fn start_of_history(directory: &Path, revision: Option<&str>) -> Result<Start, GitError> {
    OpenedRepository::new(directory)?.start(directory, revision)
}

/// Like [`start_of_history`], of a work tree ([`HistoryOptions::only_work_tree`]).
pub(crate) fn start_of_work_tree(directory: &Path, revision: Option<&str>) -> Result<Start, GitError> {
    OpenedRepository::from_work_tree(directory)?.start(directory, revision)
}

struct OpenedRepository {
    repository: Repository,
    /// Path of the directory in the work tree, `/` between parts; empty for the whole repository, which may be bare.
    prefix: String,
}

fn canonical(path: &Path) -> Result<PathBuf, GitError> {
    path.canonicalize().map_err(|source| GitError::Unreadable { path: path.to_owned(), source })
}

/// An entry by which a `.git` directory takes its commits from another repository. That it borrows objects, as
/// `git clone --shared` does, is allowed: its own references determine its commits.
fn leading_out(dot_git: &Path) -> Option<PathBuf> {
    let common = dot_git.join("commondir");
    if common.symlink_metadata().is_ok() {
        return Some(common);
    }
    let inside = dot_git.canonicalize().ok()?;
    let leads_out = |path: &Path| {
        path.is_symlink() && !path.canonicalize().is_ok_and(|target| target.starts_with(&inside))
    };
    let entries = |path: &Path| {
        let entries = path.read_dir().into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let own = ["HEAD", "packed-refs", "objects", "refs"].map(|name| dot_git.join(name));
    if let Some(found) = own.iter().find(|path| leads_out(path)) {
        return Some(found.clone());
    }
    let objects = dot_git.join("objects");
    let mut open = vec![dot_git.join("refs")];
    let mut below = entries(&objects);
    below.extend(entries(&objects.join("pack")));
    while let Some(directory) = open.pop() {
        for path in entries(&directory) {
            // Links to directories may lead back to themselves.
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else {
                below.push(path);
            }
        }
    }
    below.into_iter().find(|path| leads_out(path))
}

/// The work tree around a directory, if its `.git` is a repository, or names one that names it back: a further work tree
/// has its path in a file `gitdir` there, and the repository of a submodule is in that of a work tree around it.
fn work_tree_around(directory: &Path) -> Result<PathBuf, GitError> {
    let found = directory.ancestors().find(|around| around.join(".git").symlink_metadata().is_ok());
    let top = found.ok_or_else(|| GitError::NoRepository(directory.to_owned()))?;
    let dot_git = top.join(".git");
    let kind = dot_git
        .symlink_metadata()
        .map_err(|source| GitError::Unreadable { path: dot_git.clone(), source })?;
    if kind.is_dir() {
        return leading_out(&dot_git)
            .map_or_else(|| Ok(top.to_owned()), |path| Err(GitError::LeadsOut(path)));
    }
    let small = |path: &Path| quarry_files::read_regular_text(path, 1 << 16).ok();
    let elsewhere = || GitError::Elsewhere(top.to_owned());
    let named = small(&dot_git).filter(|_| kind.is_file()).ok_or_else(elsewhere)?;
    let named = named.strip_prefix("gitdir:").ok_or_else(elsewhere)?.trim();
    let named = top.join(named).canonicalize().map_err(|_| elsewhere())?;
    let names_back = || {
        let back = small(&named.join("gitdir"))?;
        (named.join(back.trim()).canonicalize().ok()? == dot_git.canonicalize().ok()?).then_some(())
    };
    let is_submodule = || {
        let modules = top.ancestors().skip(1).map(|around| around.join(".git").join("modules"));
        modules.into_iter().any(|modules| named.starts_with(modules))
    };
    if names_back().is_some() || is_submodule() { Ok(top.to_owned()) } else { Err(elsewhere()) }
}

impl OpenedRepository {
    fn start(&self, directory: &Path, revision: Option<&str>) -> Result<Start, GitError> {
        let commit = start(&self.repository, directory, revision)?.id().to_string();
        Ok(Start { commit, is_shallow: self.repository.is_shallow() })
    }

    fn from_work_tree(directory: &Path) -> Result<Self, GitError> {
        let directory_path = canonical(directory)?;
        let top = work_tree_around(&directory_path)?;
        let inside = directory_path.strip_prefix(&top).unwrap_or(Path::new(""));
        let prefix = inside.to_string_lossy().replace('\\', "/");
        Ok(Self { prefix, ..Self::new(&top)? })
    }

    fn new(directory: &Path) -> Result<Self, GitError> {
        let directory_path = canonical(directory)?;
        let nowhere: [&OsStr; 0] = [];
        let found =
            Repository::discover_path(&directory_path, nowhere).map_err(|source| match source.code() {
                ErrorCode::NotFound => GitError::NoRepository(directory.to_owned()),
                _ => failed(directory, source),
            })?;
        plain::check(&found)
            .map_err(|IrregularEntry { path, problem }| GitError::IrregularEntry { path, problem })?;
        let repository = Repository::open(&found).map_err(|source| failed(directory, source))?;
        // Without a configuration, libgit2 takes the directory around a bare repository for its work tree.
        let is_inside = directory_path.starts_with(canonical(repository.path())?);
        let prefix = match repository.workdir().filter(|_| !is_inside) {
            Some(root) => directory_path.strip_prefix(canonical(root)?).unwrap_or(Path::new("")),
            None => Path::new(""),
        };
        let prefix = prefix.to_string_lossy().replace('\\', "/");
        Ok(Self { repository, prefix })
    }
}

fn failed(directory: &Path, source: git2::Error) -> GitError {
    // They have no code of their own: hashes other than SHA-1, references in a table, a sparse or split index.
    let is_unsupported =
        ["unsupported ", "unknown object format", "invalid data in index - incorrect header version"]
            .iter()
            .any(|start| source.message().starts_with(start));
    match source.code() {
        ErrorCode::Owner => GitError::Owner(directory.to_owned()),
        _ if is_unsupported => {
            GitError::Unsupported { path: directory.to_owned(), problem: source.message().to_owned() }
        }
        _ => GitError::Git { path: directory.to_owned(), source },
    }
}

/// A commit by any name that git accepts; `HEAD` if `None`.
fn start<'r>(
    repository: &'r Repository,
    directory: &Path,
    revision: Option<&str>,
) -> Result<RawCommit<'r>, GitError> {
    match revision {
        Some(revision) => repository
            .revparse_single(revision)
            .and_then(|object| object.peel_to_commit())
            .map_err(|_| GitError::NoCommit { path: directory.to_owned(), revision: revision.to_owned() }),
        None => {
            repository.head().and_then(|head| head.peel_to_commit()).map_err(|source| match source.code() {
                ErrorCode::UnbornBranch => GitError::Empty(directory.to_owned()),
                _ => failed(directory, source),
            })
        }
    }
}

/// Reads the history of the repository that contains a directory, newest first. `is_wanted` gets the metadata of every
/// commit and decides whether its changes are read, `is_file` whether those of a file are, from its path relative to
/// the directory; `on_commit` gets each wanted commit, except root commits and, unless the options include them, merges, and
/// may stop the reading.
///
/// A commit that cannot be read is counted and skipped; if a commit's parents cannot be read, the history ends there.
///
/// # Errors
/// When there is no repository, it is empty, or the commit to start from is missing.
pub fn read_history(
    directory: &Path,
    options: &HistoryOptions,
    is_wanted: &dyn Fn(&Header) -> bool,
    is_file: &dyn Fn(&str) -> bool,
    on_commit: &mut dyn FnMut(Commit) -> ControlFlow<()>,
) -> Result<Reach, GitError> {
    let failed = |source| failed(directory, source);
    let OpenedRepository { repository, prefix } = match options.only_work_tree {
        true => OpenedRepository::from_work_tree(directory)?,
        false => OpenedRepository::new(directory)?,
    };
    let mut history = History {
        repository: &repository,
        odb: repository.odb().map_err(failed)?,
        prefix,
        options,
        renames: Renames::default(),
        n_bytes: Cell::new(0),
    };
    let start = start(&repository, directory, options.start.as_deref())?;
    let mut walk = repository.revwalk().map_err(failed)?;
    // Children before their parents, though many commits of a rebase have one time.
    walk.set_sorting(Sort::TIME | Sort::TOPOLOGICAL).and_then(|()| walk.push(start.id())).map_err(failed)?;
    let known = options.known.as_ref().and_then(|known| Oid::from_str(known).ok());
    let is_ancestor = |known: &Oid| {
        *known == start.id() || repository.graph_descendant_of(start.id(), *known).unwrap_or(false)
    };
    let known = known.filter(is_ancestor);
    known.map_or(Ok(()), |known| walk.hide(known)).map_err(failed)?;
    let is_shallow = repository.is_shallow();
    let mut reach = Reach { is_shallow, ends_at_known: known.is_some(), ..Reach::default() };
    for id in walk {
        if reach.commits >= options.commits || history.n_bytes.get() > options.max_total_bytes {
            reach.is_cut = true;
            break;
        }
        let Ok(commit) = id.and_then(|id| repository.find_commit(id)) else {
            reach.unreadable += 1;
            break;
        };
        reach.commits += 1;
        let header = header(&commit);
        let is_wanted = is_wanted(&header);
        let is_read = header.parents == 1 || header.parents > 1 && options.merges;
        if !is_read || !is_wanted && !options.follows_renames {
            continue;
        }
        let Ok(commit) = history.read(&commit, header, is_wanted, is_file) else {
            reach.unreadable += 1;
            continue;
        };
        if is_wanted && on_commit(commit).is_break() {
            break;
        }
    }
    Ok(reach)
}

/// The two sides of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// A revision with a later one, written `A..B`; the missing one is `HEAD`.
    Revisions(String, String),
    /// The last common commit of two revisions with the second one, written `A...B`.
    SinceBase(String, String),
    /// `HEAD` with what `git add` has added.
    Staged,
}

impl FromStr for Comparison {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let or_head = |name: &str| if name.is_empty() { "HEAD".to_owned() } else { name.to_owned() };
        let (pair, is_since_base) = match text.split_once("...") {
            Some(pair) => (Some(pair), true),
            None => (text.split_once(".."), false),
        };
        match pair {
            Some((from, to)) if (!from.is_empty() || !to.is_empty()) && !to.starts_with('.') => {
                let (from, to) = (or_head(from), or_head(to));
                Ok(if is_since_base { Self::SinceBase(from, to) } else { Self::Revisions(from, to) })
            }
            _ => Err(format!("expected REV..REV or REV...REV, such as main..HEAD, found {text}")),
        }
    }
}

/// The files that differ, as far as `is_file` wants them, from their paths relative to the directory. Files in the work
/// tree are not read.
///
/// # Errors
/// When there is no repository, or a revision is missing or unreadable.
pub fn changes_between(
    directory: &Path,
    comparison: &Comparison,
    is_file: &dyn Fn(&str) -> bool,
) -> Result<Vec<Change>, GitError> {
    let failed = |source| failed(directory, source);
    let OpenedRepository { repository, prefix } = OpenedRepository::from_work_tree(directory)?;
    let limits = HistoryOptions::default();
    let history = History {
        repository: &repository,
        odb: repository.odb().map_err(failed)?,
        prefix,
        options: &limits,
        renames: Renames::default(),
        n_bytes: Cell::new(0),
    };
    let commit = |revision: &str| start(&repository, directory, Some(revision));
    let mut options = history.diff_options();
    let diff = match comparison {
        Comparison::Staged => {
            // Before the first commit, every staged file is new.
            let head = match repository.head() {
                Err(error) if error.code() == ErrorCode::UnbornBranch => None,
                _ => Some(start(&repository, directory, None)?.tree().map_err(failed)?),
            };
            let index = repository.index().map_err(failed)?;
            repository.diff_tree_to_index(head.as_ref(), Some(&index), Some(&mut options))
        }
        Comparison::Revisions(first, second) | Comparison::SinceBase(first, second) => {
            let (from, to) = (commit(first)?.id(), commit(second)?);
            let base = |source: git2::Error| match source.code() {
                ErrorCode::NotFound => GitError::NoCommonCommit {
                    path: directory.to_owned(),
                    from: first.clone(),
                    to: second.clone(),
                },
                _ => failed(source),
            };
            let from = match comparison {
                Comparison::SinceBase(..) => repository.merge_base(from, to.id()).map_err(base)?,
                _ => from,
            };
            let before = repository.find_commit(from).and_then(|commit| commit.tree()).map_err(failed)?;
            let after = to.tree().map_err(failed)?;
            repository.diff_tree_to_tree(Some(&before), Some(&after), Some(&mut options))
        }
    };
    let diff = diff.map_err(failed)?;
    let mut changes = Vec::new();
    for delta in diff.deltas().filter_map(|delta| history.delta(&delta)).filter(|delta| is_file(&delta.path))
    {
        let contents =
            (history.content(delta.before).map_err(failed)?, history.content(delta.after).map_err(failed)?);
        if let (Some(before), Some(after)) = contents {
            changes.push(Change { path: delta.path, before, after });
        }
    }
    Ok(changes)
}

fn header(commit: &RawCommit<'_>) -> Header {
    let mut message = commit.message_bytes();
    if message.len() > MAX_MESSAGE_BYTES {
        // Not within a character.
        let end = (0..=MAX_MESSAGE_BYTES).rev().find(|end| message[*end] & 0xc0 != 0x80);
        message = &message[..end.unwrap_or(0)];
    }
    let is_latin1 = commit.message_encoding().ok().flatten().is_some_and(|name| {
        let name = name.to_ascii_lowercase();
        matches!(name.as_str(), "iso-8859-1" | "iso8859-1" | "latin1" | "latin-1")
    });
    let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Err(_) if is_latin1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    Header {
        id: commit.id().to_string(),
        message: text(message),
        author: text(commit.author().name_bytes()),
        parents: commit.parent_count(),
        seconds: commit.author().when().seconds(),
    }
}

struct History<'a> {
    repository: &'a Repository,
    odb: Odb<'a>,
    /// Path of the directory in the repository; empty for the whole repository.
    prefix: String,
    options: &'a HistoryOptions,
    renames: Renames,
    /// Size of all files that were read.
    n_bytes: Cell<u64>,
}

struct Delta {
    status: git2::Delta,
    /// Relative to the directory.
    path: String,
    before: Oid,
    after: Oid,
}

impl History<'_> {
    fn read(
        &mut self,
        commit: &RawCommit<'_>,
        header: Header,
        is_wanted: bool,
        is_file: &dyn Fn(&str) -> bool,
    ) -> Result<Commit, git2::Error> {
        let (before, after) = (commit.parent(0)?.tree()?, commit.tree()?);
        let mut options = self.diff_options();
        let diff = self.repository.diff_tree_to_tree(Some(&before), Some(&after), Some(&mut options))?;
        let n_files = diff.deltas().len();
        let deltas: Vec<Delta> = diff.deltas().filter_map(|delta| self.delta(&delta)).collect();
        let has_renames = self.options.follows_renames || self.options.reports_renames;
        let renamed = match has_renames {
            true => renames::find(&deltas, n_files <= self.options.max_files, &mut |id| self.content(id))?,
            false => Vec::new(),
        };
        let mut changes = Vec::new();
        if is_wanted && n_files <= self.options.max_files {
            for (number, delta) in deltas.iter().enumerate() {
                let path = self.renames.now(&delta.path);
                let is_removed = has_renames && delta.status == git2::Delta::Deleted;
                if renamed.iter().any(|(old, _)| *old == number) || !is_removed && !is_file(path) {
                    continue;
                }
                let old = renamed.iter().find(|(_, new)| *new == number);
                let before = old.map_or(delta.before, |(old, _)| deltas[*old].before);
                let (before, after) = (self.content(before)?, self.content(delta.after)?);
                if let (Some(before), Some(after)) = (before, after) {
                    changes.push(Change { path: path.to_owned(), before, after });
                }
            }
        }
        let renames: Vec<(String, String)> = renamed
            .into_iter()
            .map(|(old, new)| (deltas[old].path.clone(), deltas[new].path.clone()))
            .collect();
        if self.options.follows_renames {
            renames.iter().for_each(|(old, new)| self.renames.add(old, new));
        }
        let files = match n_files <= self.options.max_files {
            true => deltas.into_iter().map(|delta| delta.path).collect(),
            false => Vec::new(),
        };
        Ok(Commit { header, parent: commit.parent_id(0)?.to_string(), n_files, files, renames, changes })
    }

    fn diff_options(&self) -> DiffOptions {
        let mut options = DiffOptions::new();
        options.skip_binary_check(true).ignore_submodules(true).context_lines(0);
        if !self.prefix.is_empty() {
            options.disable_pathspec_match(true).pathspec(&self.prefix);
        }
        options
    }

    /// A changed file, if it is a file in the directory.
    fn delta(&self, delta: &git2::DiffDelta<'_>) -> Option<Delta> {
        let status = delta.status();
        if !matches!(status, git2::Delta::Added | git2::Delta::Modified | git2::Delta::Deleted) {
            return None;
        }
        let path = delta.new_file().path_bytes().or(delta.old_file().path_bytes())?;
        let path = self.below(std::str::from_utf8(path).ok()?)?.to_owned();
        Some(Delta { status, path, before: delta.old_file().id(), after: delta.new_file().id() })
    }

    /// The path relative to the directory, if it is in there.
    fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        if self.prefix.is_empty() { Some(path) } else { path.strip_prefix(&self.prefix)?.strip_prefix('/') }
    }

    /// The content of a file, empty if it does not exist; `None` if it is too large or not a file.
    fn content(&self, id: Oid) -> Result<Option<Vec<u8>>, git2::Error> {
        if id.is_zero() {
            return Ok(Some(Vec::new()));
        }
        let (length, kind) = self.odb.read_header(id)?;
        if kind != ObjectType::Blob || length > self.options.max_bytes {
            return Ok(None);
        }
        self.n_bytes.set(self.n_bytes.get() + length as u64);
        Ok(Some(self.odb.read(id)?.data().to_owned()))
    }
}

#[cfg(test)]
mod tests;
