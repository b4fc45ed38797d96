//! The functions that commits changed, and the file in which they are kept.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use quarry_files::Readers;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Incremented when the same commits lead to another log.
const VERSION: u32 = 3;

/// Maximum size of the file of a log, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Start of a file that is written.
const PREFIX: &str = ".history-";

/// The id of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommitId(pub(crate) [u8; 20]);

impl CommitId {
    /// The id that 40 hexadecimal digits name.
    pub fn parse(text: &str) -> Option<Self> {
        let mut id = [0; 20];
        if text.len() != 40 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(id))
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for CommitId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A function, method or type by the numbers of its path and of its name among [`ChangeLog::texts`].
pub type Place = (u32, u32);

/// A commit and what it changed. Paths are as they were in the commit, relative to the directory of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedCommit {
    pub id: CommitId,
    /// When the change was made (the author's date), in seconds since 1970.
    pub seconds: i64,
    /// The message without addresses of people, cut off after [`MAX_MESSAGE_BYTES`](Self::MAX_MESSAGE_BYTES).
    pub message: String,
    /// Number of files that it changed.
    pub n_files: u32,
    /// Paths of these files; empty if they are too many to say anything about each other.
    pub files: Vec<u32>,
    /// The functions, methods and types that it changed or added.
    pub functions: Vec<Place>,
    /// Files that it renamed: their paths before and after.
    pub renames: Vec<(u32, u32)>,
}

impl LoggedCommit {
    /// Maximum length of a message.
    pub const MAX_MESSAGE_BYTES: usize = 2_000;

    /// The first line of the message.
    pub fn subject(&self) -> &str {
        self.message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim()
    }
}

/// The commits before `HEAD` with the functions that they changed, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeLog {
    version: u32,
    /// The directory whose history it is, for listings of the cache.
    pub tree: PathBuf,
    /// The newest commit that it goes back from.
    pub head: Option<CommitId>,
    /// Paths and names, each once.
    pub texts: Vec<String>,
    /// Those that changed files of the directory.
    pub commits: Vec<LoggedCommit>,
    /// Commits that changed none, kept so that they are not read again.
    pub(crate) elsewhere: Vec<CommitId>,
    /// True if all commits that the limit allows were read; false after an interruption.
    pub is_complete: bool,
    /// True if older commits are missing in the clone.
    pub is_shallow: bool,
    /// True if older commits were left out because of the limit.
    pub is_cut: bool,
    /// The largest number of commits that updates could read.
    pub limit: usize,
    /// Number of commits that could not be read; the next update tries them again.
    pub unreadable: u32,
}

/// Why the file of a log cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system.
    #[error("{}: the history cannot be kept", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The content.
    #[error("the history cannot be written")]
    Format(#[from] postcard::Error),
}

impl ChangeLog {
    /// An empty log of a directory.
    pub fn new(tree: &Path) -> Self {
        Self { version: VERSION, tree: tree.to_owned(), ..Self::default() }
    }

    /// The log in a file; `None` if there is none that this version can read.
    pub fn open(path: &Path) -> Option<Self> {
        let bytes = quarry_files::read_regular(path, MAX_BYTES).ok()?;
        let log: Self = postcard::from_bytes(&bytes).ok()?;
        let n_texts = log.texts.len();
        let is_known = |number: &u32| (*number as usize) < n_texts;
        let is_sound = |commit: &LoggedCommit| {
            let pairs = commit.functions.iter().chain(&commit.renames);
            commit.files.iter().all(is_known) && pairs.flat_map(|(a, b)| [a, b]).all(is_known)
        };
        (log.version == VERSION && log.commits.iter().all(is_sound)).then_some(log)
    }

    /// Writes the log to a file that only this user can read, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), LogError> {
        let failed = |source| LogError::Io { path: path.to_owned(), source };
        if let Some(directory) = path.parent() {
            quarry_files::create_private_directory(directory).map_err(failed)?;
        }
        quarry_files::replace(path, PREFIX, Readers::User, &postcard::to_stdvec(self)?).map_err(failed)
    }

    /// The log with only the newest commits, up to a number.
    #[must_use]
    pub fn newest(mut self, n: usize) -> Self {
        if self.commits.len() > n {
            self.commits.truncate(n);
            (self.is_complete, self.is_cut) = (true, true);
        }
        self
    }

    /// The text with a number.
    pub fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", String::as_str)
    }

    /// The commits from the one at an index on: the index of each, its files and its functions, with the paths that files
    /// have in the first of them.
    pub fn resolved(&self, from: usize) -> Vec<(usize, Vec<u32>, Vec<Place>)> {
        let mut now: FxHashMap<u32, u32> = FxHashMap::default();
        let mut commits = Vec::with_capacity(self.commits.len().saturating_sub(from));
        for (number, commit) in self.commits.iter().enumerate().skip(from) {
            let path = |path: &u32| now.get(path).copied().unwrap_or(*path);
            let files = commit.files.iter().map(path).collect();
            let functions = commit.functions.iter().map(|(file, name)| (path(file), *name)).collect();
            commits.push((number, files, functions));
            // Older than all before: what was called `old` earlier is that file, also where another got the name later.
            let renames: Vec<(u32, u32)> =
                commit.renames.iter().map(|(old, new)| (*old, path(new))).collect();
            now.extend(renames);
        }
        commits
    }
}

/// Texts, each once, with their numbers.
#[derive(Default)]
pub struct Texts {
    all: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

impl Texts {
    /// Numbered by their positions.
    pub fn new(all: Vec<String>) -> Self {
        let numbers = all.iter().zip(0..).map(|(text, number)| (text.clone(), number)).collect();
        Self { all, numbers }
    }

    /// The number of a text, which is added if it is new.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    /// By their numbers.
    #[must_use]
    pub fn into_all(self) -> Vec<String> {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(number: u8, functions: &[Place], renames: &[(u32, u32)]) -> LoggedCommit {
        LoggedCommit {
            id: CommitId([number; 20]),
            seconds: 0,
            message: "\n\nOne\nTwo".into(),
            n_files: 1,
            files: functions.iter().map(|(path, _)| *path).collect(),
            functions: functions.to_vec(),
            renames: renames.to_vec(),
        }
    }

    #[test]
    fn renamed_files_have_their_later_paths() {
        let texts = ["a.py", "b.py", "c.py", "f"].map(str::to_owned).to_vec();
        // `a.py` became `b.py`, then `c.py`; another `a.py` was added later.
        let commits = vec![
            commit(5, &[(0, 3)], &[]),
            commit(4, &[(2, 3)], &[(1, 2)]),
            commit(3, &[(1, 3)], &[(0, 1)]),
            commit(2, &[(0, 3)], &[]),
        ];
        let log = ChangeLog { texts, commits, ..ChangeLog::new(Path::new("x")) };
        let paths =
            |from: usize| -> Vec<u32> { log.resolved(from).iter().map(|(_, files, _)| files[0]).collect() };
        assert_eq!(paths(0), [0, 2, 2, 2]);
        assert_eq!(paths(2), [1, 1], "seen from before the second rename");
        assert_eq!(log.commits[0].subject(), "One");
    }

    #[test]
    fn a_log_reads_back_and_damage_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/log");
        assert_eq!(ChangeLog::open(&path), None);
        let texts = vec!["a.py".to_owned(), "f".to_owned()];
        let mut log = ChangeLog { texts, ..ChangeLog::new(Path::new("/x")) };
        log.commits.push(commit(1, &[(0, 1)], &[]));
        log.save(&path).unwrap();
        assert_eq!(ChangeLog::open(&path).as_ref(), Some(&log));
        let bytes = std::fs::read(&path).unwrap();
        for end in 0..bytes.len() {
            std::fs::write(&path, &bytes[..end]).unwrap();
            assert_eq!(ChangeLog::open(&path), None, "{end}");
        }
        log.commits[0].functions[0].1 = 2;
        log.save(&path).unwrap();
        assert_eq!(ChangeLog::open(&path), None, "a text that is missing");
    }

    #[test]
    fn ids_are_hexadecimal() {
        let text = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(CommitId::parse(text).unwrap().to_string(), text);
        for wrong in ["", "0123", &text.replace('0', "g"), &"é".repeat(20)] {
            assert!(CommitId::parse(wrong).is_none(), "{wrong}");
        }
    }
}
