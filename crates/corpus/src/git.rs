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

use git2::{Commit as RawCommit, DiffOptions, ErrorCode, ObjectType, Odb, Oid, Repository, Sort};

use self::plain::IrregularEntry;
use self::renames::Renames;
pub use self::snapshot::Snapshot;

/// Limits for reading a history.
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
    /// Whether files are followed through renames: changes then have the path that a file has at the start, and
    /// removed files are among them.
    pub follows_renames: bool,
    /// Whether merges are read too, each as the change of its first parent.
    pub merges: bool,
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
            merges: false,
        }
    }
}

/// Maximum size of the message of a commit, in bytes; longer ones are cut off.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// The metadata of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Object id, in hexadecimal.
    pub id: String,
    /// The message, up to [`MAX_MESSAGE_BYTES`]; invalid bytes are replaced with U+FFFD.
    pub message: String,
    /// Name of the author.
    pub author: String,
    /// Number of parents: 0 for a root commit (and at the end of a shallow clone), 2 or more for a merge.
    pub parents: usize,
}

/// A commit with a parent, and its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Metadata of the commit.
    pub header: Header,
    /// Id of its first parent, in hexadecimal.
    pub parent: String,
    /// Number of files in the directory that it changed, added or removed.
    pub n_files: usize,
    /// The requested ones of these files; empty if there are more than [`HistoryOptions::max_files`].
    pub changes: Vec<Change>,
}

/// The change of a file by a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path relative to the directory, `/` between parts.
    pub path: String,
    /// Content before the commit; empty for a new file.
    pub before: Vec<u8>,
    /// Content after the commit; empty for a removed file.
    pub after: Vec<u8>,
}

/// How much of a history was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// Number of commits that were read.
    pub commits: usize,
    /// Whether the clone is shallow, so that older commits are missing.
    pub is_shallow: bool,
    /// Number of commits that were skipped because some of their objects are missing (a partial clone) or damaged.
    pub unreadable: usize,
    /// Whether older commits were not read because of [`HistoryOptions::commits`] or
    /// [`HistoryOptions::max_total_bytes`].
    pub is_cut: bool,
}

/// Where a history begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The id of the newest commit, in hexadecimal.
    pub commit: String,
    /// Whether the clone is shallow, so that older commits are missing.
    pub is_shallow: bool,
}

/// Why a history cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The directory is not in a repository.
    #[error("{}: expected a directory of a git repository, found no .git in it or above it", .0.display())]
    NoRepository(PathBuf),
    /// The repository has no commits.
    #[error("{}: expected a git repository with commits, found none", .0.display())]
    Empty(PathBuf),
    /// The commit to start from does not exist.
    #[error("{}: the commit {revision} is missing; fetch it", path.display())]
    NoCommit {
        /// The directory.
        path: PathBuf,
        /// The requested commit.
        revision: String,
    },
    /// The repository belongs to another user, whom git does not trust unless configured to.
    #[error(
        "{}: belongs to another user; to read it, run `git config --global --add safe.directory {}`",
        .0.display(), .0.display()
    )]
    Owner(PathBuf),
    /// The directory cannot be read.
    #[error("{}: cannot be read; check its permissions", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The repository contains something other than a regular file where libgit2 expects one.
    #[error("{}: expected a plain file of a git repository, found something else: {problem}; remove it, or clone the \
        repository again", path.display())]
    IrregularEntry {
        /// Path of it.
        path: PathBuf,
        /// What was found, or what is wrong with it.
        problem: String,
    },
    /// An error of libgit2.
    #[error("{}: the git repository cannot be read; run `git fsck` to find the damage", path.display())]
    Git {
        /// The directory.
        path: PathBuf,
        /// The message of libgit2.
        source: git2::Error,
    },
}

/// The commit that is checked out in the work tree that contains a directory, in hexadecimal; `None` if there is no
/// readable repository, or it has no commits.
#[must_use]
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
    let Opened { repository, .. } = Opened::new(directory)?;
    let commit = start(&repository, directory, revision)?.id().to_string();
    Ok(Start { commit, is_shallow: repository.is_shallow() })
}

/// The repository that contains a directory.
struct Opened {
    repository: Repository,
    /// Path of the directory in the work tree, `/` between parts; empty for the whole repository, which may be bare.
    prefix: String,
}

impl Opened {
    fn new(directory: &Path) -> Result<Self, GitError> {
        let canonical = |path: &Path| {
            path.canonicalize().map_err(|source| GitError::Unreadable { path: path.to_owned(), source })
        };
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
    match source.code() {
        ErrorCode::Owner => GitError::Owner(directory.to_owned()),
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
    let Opened { repository, prefix } = Opened::new(directory)?;
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
    let mut reach = Reach { is_shallow: repository.is_shallow(), ..Reach::default() };
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
    }
}

struct History<'a> {
    repository: &'a Repository,
    odb: Odb<'a>,
    /// Path of the directory in the repository; empty for the whole repository.
    prefix: String,
    options: &'a HistoryOptions,
    /// What files are called at the start.
    renames: Renames,
    /// Size of all files that were read.
    n_bytes: Cell<u64>,
}

/// A file that a commit changed.
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
        let mut options = DiffOptions::new();
        options.skip_binary_check(true).ignore_submodules(true).context_lines(0);
        if !self.prefix.is_empty() {
            options.disable_pathspec_match(true).pathspec(&self.prefix);
        }
        let diff = self.repository.diff_tree_to_tree(Some(&before), Some(&after), Some(&mut options))?;
        let n_files = diff.deltas().len();
        let deltas: Vec<Delta> = diff.deltas().filter_map(|delta| self.delta(&delta)).collect();
        let renamed = match self.options.follows_renames {
            true => {
                renames::of_commit(&deltas, n_files <= self.options.max_files, &mut |id| self.content(id))?
            }
            false => Vec::new(),
        };
        let mut changes = Vec::new();
        if is_wanted && n_files <= self.options.max_files {
            for (number, delta) in deltas.iter().enumerate() {
                let path = self.renames.now(&delta.path);
                let is_removed = self.options.follows_renames && delta.status == git2::Delta::Deleted;
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
        for (old, new) in renamed {
            self.renames.add(&deltas[old].path, &deltas[new].path);
        }
        Ok(Commit { header, parent: commit.parent_id(0)?.to_string(), n_files, changes })
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
