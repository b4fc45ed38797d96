//! The rules of a tree's ignore files.
//!
//! The `ignore` crate would open ignore files itself, regardless of links and file types. Here they are read as git
//! does: regular files only, not through links, and within a size limit. Others are skipped and reported.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use quarry_files::{Directory, EntryKind};

use crate::flags::FileFlags;
use crate::{IGNORE_FILE, SkipReason, Skipped};

/// Maximum bytes of an ignore file.
const MAX_BYTES: u64 = 1 << 20;

/// The ignore files of a directory, by descending precedence.
const FILES: [&str; 3] = [IGNORE_FILE, ".ignore", GITIGNORE];
const GITIGNORE: &str = ".gitignore";
const EXCLUDE: &str = ".git/info/exclude";

/// The rules of a tree. The rules of each directory are read when its first name is checked.
pub(crate) struct IgnoreRules {
    /// Canonical path of the tree, or as it was named.
    base: PathBuf,
    directory: Option<Directory>,
    /// The user's global rules.
    global: Gitignore,
    levels: RwLock<HashMap<PathBuf, Arc<Level>>>,
    refused: Mutex<Vec<Skipped>>,
}

/// The rules of a directory and its parents.
struct Level {
    around: Option<Arc<Level>>,
    /// In the order of [`FILES`].
    files: [Gitignore; FILES.len()],
    exclude: Gitignore,
    /// True if it is the root of a git repository, to which the rules of parent directories do not apply.
    is_repository: bool,
}

impl IgnoreRules {
    /// The rules of the tree at `base` and of its parent directories.
    pub(crate) fn new(base: &Path) -> Self {
        let base = base.canonicalize().unwrap_or_else(|_| base.to_owned());
        let mut around = None;
        for outer in base.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            // The rules of unreadable directories do not apply; problems outside the tree are not reported.
            if let Ok(directory) = Directory::open(outer) {
                around = Some(Level::read(outer, &directory, around).0);
            }
        }
        let directory = Directory::open(&base).ok();
        let mut rules = Self {
            global: global(&base),
            base,
            directory,
            levels: RwLock::default(),
            refused: Mutex::default(),
        };
        let top = rules.read(Path::new(""), around);
        rules.levels.get_mut().unwrap_or_else(PoisonError::into_inner).insert(PathBuf::new(), top);
        rules
    }

    /// The reason why `path`, relative to the tree, is left out, as flags of [`FileFlags::LEFT_OUT`]; empty if it
    /// is not. A hidden name is left out unless a rule includes it. Only the last component is checked.
    pub(crate) fn left_out(&self, path: &Path, is_directory: bool, is_hidden: bool) -> FileFlags {
        let level = self.level(path.parent().unwrap_or(Path::new("")));
        let matched = self.matched(&level, &self.base.join(path), is_directory);
        let mut flags = FileFlags::empty();
        flags.set(FileFlags::HIDDEN, is_hidden && !matched.is_whitelist());
        flags.set(FileFlags::IGNORED, matched.is_ignore());
        flags
    }

    /// Ignore files that were not read, with the reasons.
    pub(crate) fn refused(&self) -> Vec<Skipped> {
        std::mem::take(&mut *self.refused.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The kind of ignore file takes precedence over its directory; within a kind, the nearest file does.
    fn matched(&self, level: &Level, path: &Path, is_directory: bool) -> Match<()> {
        let nearest = |of_git: bool, rules: &dyn Fn(&Level) -> &Gitignore| {
            let mut next = Some(level);
            while let Some(level) = next {
                match rules(level).matched(path, is_directory).map(|_| ()) {
                    Match::None if of_git && level.is_repository => return Match::None,
                    Match::None => next = level.around.as_deref(),
                    found => return found,
                }
            }
            Match::None
        };
        let of_kind = |kind: usize| nearest(FILES[kind] == GITIGNORE, &move |level| &level.files[kind]);
        (0..FILES.len())
            .map(of_kind)
            .find(|found| !found.is_none())
            .unwrap_or_else(|| nearest(true, &|level| &level.exclude))
            .or(self.global.matched(path, is_directory).map(|_| ()))
    }

    fn level(&self, directory: &Path) -> Arc<Level> {
        let known = |levels: &HashMap<PathBuf, Arc<Level>>| levels.get(directory).cloned();
        if let Some(level) = known(&self.levels.read().unwrap_or_else(PoisonError::into_inner)) {
            return level;
        }
        let level = self.read(directory, Some(self.level(directory.parent().unwrap_or(Path::new("")))));
        let mut levels = self.levels.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(levels.entry(directory.to_owned()).or_insert(level))
    }

    /// Reads the rules of a directory of the tree.
    fn read(&self, relative: &Path, around: Option<Arc<Level>>) -> Arc<Level> {
        let inner = self.directory.as_ref().and_then(|base| base.directory(relative).ok());
        let Some(inner) = inner else { return around.unwrap_or_default() };
        let (level, mut refused) = Level::read(&self.base.join(relative), &inner, around);
        for file in &mut refused {
            file.path = relative.join(&file.path).to_string_lossy().into_owned();
        }
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).append(&mut refused);
        level
    }
}

impl Default for Level {
    fn default() -> Self {
        let files = std::array::from_fn(|_| Gitignore::empty());
        Self { around: None, files, exclude: Gitignore::empty(), is_repository: false }
    }
}

impl Level {
    /// Reads the rules of a directory at `path`; also returns the files that could not be read.
    fn read(path: &Path, directory: &Directory, around: Option<Arc<Self>>) -> (Arc<Self>, Vec<Skipped>) {
        let mut refused = Vec::new();
        let mut rules = |name: &str| {
            read(path, directory, name).unwrap_or_else(|reason| {
                refused.push(Skipped { path: name.to_owned(), reason });
                Gitignore::empty()
            })
        };
        let files = FILES.map(&mut rules);
        let git = directory.entry(Path::new(".git")).ok().map(|git| git.kind);
        // A `.git` file refers to a directory elsewhere, which an untrusted tree must not choose.
        let exclude = if git == Some(EntryKind::Directory) { rules(EXCLUDE) } else { Gitignore::empty() };
        let level = Self { around, files, exclude, is_repository: git.is_some() };
        let says_something = level.is_repository || level.files.iter().any(|rules| !rules.is_empty());
        match level.around {
            Some(around) if !says_something => (around, refused),
            around => (Arc::new(Self { around, ..level }), refused),
        }
    }
}

/// The rules in a file for the directory at `path`; none if the file is missing.
fn read(path: &Path, directory: &Directory, name: &str) -> Result<Gitignore, SkipReason> {
    let bytes = match directory.read(Path::new(name), MAX_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Gitignore::empty()),
        Err(error) => return Err(SkipReason::Unreadable(error.to_string())),
        Ok(bytes) => bytes,
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(path);
    for line in text.trim_start_matches('\u{feff}').lines() {
        // Like git, ignores a malformed line.
        let _ = builder.add_line(None, line);
    }
    builder.build().map_err(|error| SkipReason::Unreadable(error.to_string()))
}

/// The ignore file of the user's git configuration.
fn global(base: &Path) -> Gitignore {
    let relative_to = std::env::current_dir().unwrap_or_else(|_| base.to_owned());
    GitignoreBuilder::new(relative_to).build_global().0
}

/// Returns whether a directory looks like an index of Quarry, which may have any name (`--index`): it has a lock, an
/// ignore file for all its contents, and a manifest.
pub(crate) fn is_index(directory: &Path) -> bool {
    let length = |name: &str| {
        let found = fs::symlink_metadata(directory.join(name)).ok()?;
        found.is_file().then_some(found.len())
    };
    length("lock") == Some(0)
        && length(".gitignore") == Some("*\n".len() as u64)
        && ["manifest.json", "manifest.copy.json"].iter().any(|name| length(name).is_some())
}
