//! Lists and reads the source files of a tree.
//!
//! Listing looks at names and metadata only, so that a caller can compare a tree with an earlier listing without
//! reading it; [`read`] then judges the content.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::UNIX_EPOCH;

use ignore::{DirEntry, WalkBuilder, WalkState};
use quarry_files::Directory;
use quarry_source::Language;
use serde::{Deserialize, Serialize};

use crate::flags::text_flags;
pub use crate::flags::{FileFlags, path_flags};
use crate::ignore_files::IgnoreRules;

/// Name of the ignore file that only this program reads; its syntax is that of `.gitignore`.
pub const IGNORE_FILE: &str = ".quarryignore";

/// Bytes at the start of a file that are searched for a NUL, as git does.
const HEAD_BYTES: usize = 8192;

/// Bytes of the largest file that can be indexed, whatever is asked for: the places of units have 32 bits, and what is
/// read is in memory.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// Longest `#!` line.
const SCRIPT_LINE_BYTES: u64 = 256;

/// What version control keeps for itself is not listed, whatever is asked for.
const NEVER_LISTED: [&str; 5] = [".git", ".hg", ".svn", ".jj", ".bzr"];

/// What to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WalkOptions {
    /// Larger files are skipped; 1,000,000 bytes by default, above which sources are nearly always generated.
    pub max_bytes: u64,
    /// Whether hidden files are listed; not by default.
    pub hidden: bool,
    /// Whether files are listed that ignore files leave out; not by default.
    pub ignored: bool,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self { max_bytes: 1_000_000, hidden: false, ignored: false }
    }
}

impl WalkOptions {
    /// Whether a file of this length and with these flags is listed.
    #[must_use]
    pub fn lists(&self, bytes: u64, flags: FileFlags) -> bool {
        bytes <= self.max_bytes && self.left_out().intersection(flags).is_empty()
    }

    /// What is listed by either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self {
            max_bytes: self.max_bytes.max(other.max_bytes),
            hidden: self.hidden || other.hidden,
            ignored: self.ignored || other.ignored,
        }
    }

    /// Whether all is listed that somebody asks for by name.
    #[must_use]
    pub fn covers(&self, asked: WalkChoice) -> bool {
        self.union(&asked.over(self)) == *self
    }

    /// The files that are not listed.
    fn left_out(&self) -> FileFlags {
        let mut flags = FileFlags::LEFT_OUT;
        flags.set(FileFlags::HIDDEN, !self.hidden);
        flags.set(FileFlags::IGNORED, !self.ignored);
        flags
    }
}

/// What somebody says of [`WalkOptions`]; nothing by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WalkChoice {
    /// [`WalkOptions::max_bytes`].
    pub max_bytes: Option<u64>,
    /// [`WalkOptions::hidden`].
    pub hidden: Option<bool>,
    /// [`WalkOptions::ignored`].
    pub ignored: Option<bool>,
}

impl WalkChoice {
    /// What this says, and what the other says where this says nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            max_bytes: self.max_bytes.or(other.max_bytes),
            hidden: self.hidden.or(other.hidden),
            ignored: self.ignored.or(other.ignored),
        }
    }

    /// The options of this, with defaults where it says nothing.
    #[must_use]
    pub fn over(self, defaults: &WalkOptions) -> WalkOptions {
        WalkOptions {
            max_bytes: self.max_bytes.unwrap_or(defaults.max_bytes),
            hidden: self.hidden.unwrap_or(defaults.hidden),
            ignored: self.ignored.unwrap_or(defaults.ignored),
        }
    }
}

/// The files of a tree, and those left out.
#[derive(Debug, Default)]
pub struct Listing {
    /// Files in a known language, ascending by path bytes.
    pub files: Vec<ListedFile>,
    /// Files that were seen and left out, ascending by path. What an ignore file or a hidden name excludes is
    /// not seen at all.
    pub skipped: Vec<Skipped>,
}

/// A file in a known language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Path relative to the root, `/` between its parts.
    pub path: String,
    /// What tells without reading it whether it is as it was.
    pub stamp: Stamp,
    /// Its language, from its name; where two languages share it, the text decides (`quarry_source::language_for`).
    pub language: Language,
    /// Which of [`FileFlags::LEFT_OUT`] it has.
    pub flags: FileFlags,
}

/// What a file system says of a file that would be another after a change, as git compares it. What it does not say is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Length.
    pub bytes: u64,
    /// Time of the last modification, in nanoseconds since 1970, which programs can set at will.
    pub modified_ns: u64,
    /// Time of the last change of the file or of what is said of it, in nanoseconds since 1970, which they cannot.
    pub changed_ns: u64,
    /// Number of the file in its file system: another one where a file took the place of this one.
    pub inode: u64,
}

impl Stamp {
    /// That of a file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        let (changed_ns, inode) = change_and_inode(metadata);
        Self { bytes: metadata.len(), modified_ns: modified_ns(metadata), changed_ns, inode }
    }
}

#[cfg(unix)]
fn change_and_inode(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;

    let nanoseconds = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
    (u64::try_from(nanoseconds).unwrap_or_default(), metadata.ino())
}

#[cfg(not(unix))]
fn change_and_inode(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// A file that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Path relative to the root.
    pub path: String,
    /// Why.
    pub reason: SkipReason,
}

/// Why a file was left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// No language is known for this name.
    #[error("in no known language")]
    UnknownLanguage,
    /// Over [`WalkOptions::max_bytes`].
    #[error("over the size limit")]
    TooLarge,
    /// Has a NUL among its first bytes.
    #[error("binary")]
    Binary,
    /// Neither a file nor a folder, such as a pipe, a socket or a device, which may have no end.
    #[error("no regular file")]
    NotAFile,
    /// Symbolic links are not followed, so that no file is found twice or from outside the tree.
    #[error("symbolic link")]
    SymbolicLink,
    /// The path is not UTF-8.
    #[error("named in no valid UTF-8")]
    NotUtf8,
    /// The system's words.
    #[error("unreadable: {0}")]
    Unreadable(String),
}

/// How many files were left out for each reason, in words.
#[must_use]
pub fn count_by_reason(skipped: &[Skipped]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for file in skipped {
        *counts.entry(file.reason.to_string()).or_default() += 1;
    }
    counts
}

/// Why a tree cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// Nothing is at this path.
    #[error("{}: no such file or folder; check the path", .0.display())]
    Missing(PathBuf),
    /// The root cannot be read.
    #[error("{}: cannot be read; check its permissions", path.display())]
    Unreadable {
        /// The root.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Lists a tree in parallel. Ignore files (`.gitignore`, `.ignore`, [`IGNORE_FILE`]) are read as git reads its own,
/// inside and outside of a checkout; hidden files are left out like ignored ones, unless they are asked for, and symbolic
/// links are not followed. A file as `root` is a tree of that one file, its path being its name ([`resolved`]), whatever
/// rules there are.
///
/// # Errors
/// When `root` is missing or unreadable. What is unreadable below it is listed as skipped.
pub fn list(root: &Path, options: &WalkOptions) -> Result<Listing, WalkError> {
    let root = &*resolved(root);
    let base = base_folder(root)?;
    let directory = open(base)?;
    let rules = Arc::new(Rules::new(base, options));
    let (sender, receiver) = mpsc::channel();
    walker(root, base, &rules).build_parallel().run(|| {
        let (sender, directory) = (sender.clone(), &directory);
        Box::new(move |entry| {
            // The receiver outlives the walk, so that sending cannot fail.
            let _ = match entry {
                Ok(entry) if is_folder(&entry) => Ok(()),
                Ok(entry) => sender.send(classify(base, directory, &entry, options)),
                Err(error) => sender.send(Err(walk_failure(base, &error))),
            };
            WalkState::Continue
        })
    });
    drop(sender);
    let mut listing = Listing { skipped: rules.ignore_files.refused(), ..Listing::default() };
    let let_through = rules.let_through();
    for found in receiver {
        match found {
            Ok(file) => {
                let flags = flags_below(&let_through, Path::new(&file.path));
                listing.files.push(ListedFile { flags, ..file });
            }
            Err(skipped) => listing.skipped.push(skipped),
        }
    }
    listing.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    listing.skipped.sort_by(|a, b| a.path.cmp(&b.path));
    // Two threads may have read the same ignore file.
    listing.skipped.dedup();
    Ok(listing)
}

/// The folders whose files [`list`] lists, in no order; of a file as `root`, the one that it lies in.
///
/// # Errors
/// When `root` is missing or unreadable. What is unreadable below it is left out.
pub fn folders(root: &Path, options: &WalkOptions) -> Result<Vec<PathBuf>, WalkError> {
    let base = base_folder(root)?;
    if base != root {
        return Ok(vec![base.to_owned()]);
    }
    let walk = walker(root, base, &Arc::new(Rules::new(base, options))).build();
    Ok(walk.flatten().filter(is_folder).map(DirEntry::into_path).collect())
}

/// Number of files below `root` that [`list`] does not see because an ignore file or a hidden name excludes them.
/// For explaining an empty listing: it walks everything.
#[must_use]
pub fn count_excluded(root: &Path, options: &WalkOptions) -> usize {
    let count = |builder: &WalkBuilder| {
        let is_file = |entry: &DirEntry| entry.file_type().is_some_and(|kind| kind.is_file());
        builder.build().flatten().filter(is_file).count()
    };
    let Ok(base) = base_folder(root) else { return 0 };
    let seen = count(&walker(root, base, &Arc::new(Rules::new(base, options))));
    count(WalkBuilder::new(root).standard_filters(false)).saturating_sub(seen)
}

/// A tree as it is listed: what a link to a file leads to, in whose folder then nothing is read through a link; any
/// other path as it is.
#[must_use]
pub fn resolved(root: &Path) -> Cow<'_, Path> {
    let is_link = fs::symlink_metadata(root).is_ok_and(|found| found.is_symlink());
    let target = if is_link { root.canonicalize().ok() } else { None };
    target.filter(|target| !target.is_dir()).map_or(Cow::Borrowed(root), Cow::Owned)
}

/// Opens the folder that listed paths are relative to, to read what it holds without leaving it.
///
/// # Errors
/// When it is missing or unreadable.
pub fn open(base: &Path) -> Result<Directory, WalkError> {
    Directory::open(base).map_err(|source| WalkError::Unreadable { path: base.to_owned(), source })
}

/// The folder that listed paths are relative to: `root`, or the folder of the file that `root` is.
///
/// # Errors
/// When `root` is missing or unreadable.
pub fn base_folder(root: &Path) -> Result<&Path, WalkError> {
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => WalkError::Missing(root.to_owned()),
        _ => WalkError::Unreadable { path: root.to_owned(), source },
    };
    if fs::metadata(root).map_err(unreadable)?.is_dir() {
        fs::read_dir(root).map_err(unreadable)?;
        return Ok(root);
    }
    Ok(match root.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    })
}

/// The content of a listed file and what it is beside being code.
#[derive(Debug)]
pub struct Content {
    /// The bytes of the file; not always UTF-8.
    pub bytes: Vec<u8>,
    /// From its path and its first bytes.
    pub flags: FileFlags,
}

/// Reads a listed file, as far as it is as long as listed; `base` is what its path is relative to ([`open`]). What has
/// taken its place since may be a pipe or a device, which reading would wait for or never end, a link that leads
/// elsewhere, or a file that grows.
///
/// # Errors
/// The reason why the file is left out after all.
pub fn read(base: &Directory, file: &ListedFile) -> Result<Content, SkipReason> {
    let bytes = read_file(base, &file.path, file.stamp.bytes)
        .map_err(|error| SkipReason::Unreadable(error.to_string()))?;
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    if head.contains(&0) {
        return Err(SkipReason::Binary);
    }
    let flags = file.flags | path_flags(&file.path) | text_flags(head, file.language);
    Ok(Content { bytes, flags })
}

/// Reads at most `limit` bytes of a file of a tree, as it is indexed: UTF-16 with a byte order mark becomes UTF-8.
///
/// # Errors
/// When it cannot be read, is not a regular file, or a link leads to it.
pub fn read_file(base: &Directory, path: &str, limit: u64) -> io::Result<Vec<u8>> {
    Ok(from_utf16(quarry_files::read_start(base.file(Path::new(path))?, limit)?))
}

/// UTF-8 of UTF-16 that begins with a byte order mark, which is left out; anything else as it is.
fn from_utf16(bytes: Vec<u8>) -> Vec<u8> {
    let (units, decode): (&[u8], fn([u8; 2]) -> u16) = match bytes.as_slice() {
        [0xff, 0xfe, units @ ..] => (units, u16::from_le_bytes),
        [0xfe, 0xff, units @ ..] => (units, u16::from_be_bytes),
        _ => return bytes,
    };
    let (units, _) = units.as_chunks::<2>();
    let characters = char::decode_utf16(units.iter().map(|&unit| decode(unit)));
    characters.map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>().into_bytes()
}

/// What a walk leaves out.
struct Rules {
    ignore_files: IgnoreRules,
    left_out: FileFlags,
    /// Names that the rules leave out and the options let through, and why they are left out otherwise.
    let_through: Mutex<HashMap<PathBuf, FileFlags>>,
}

impl Rules {
    fn new(base: &Path, options: &WalkOptions) -> Self {
        let left_out = options.left_out();
        Self { ignore_files: IgnoreRules::new(base), left_out, let_through: Mutex::default() }
    }

    /// Whether to look at an entry that is called `path`.
    fn let_in(&self, path: PathBuf, entry: &DirEntry) -> bool {
        if NEVER_LISTED.iter().any(|name| entry.file_name() == *name) {
            return false;
        }
        let flags = self.ignore_files.left_out(&path, is_folder(entry), is_hidden(entry));
        let is_in = !flags.intersects(self.left_out);
        if is_in && !flags.is_empty() {
            self.let_through.lock().unwrap_or_else(PoisonError::into_inner).insert(path, flags);
        }
        is_in
    }

    fn let_through(&self) -> HashMap<PathBuf, FileFlags> {
        std::mem::take(&mut *self.let_through.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The flags of a path and of the folders that it lies in.
fn flags_below(flags: &HashMap<PathBuf, FileFlags>, path: &Path) -> FileFlags {
    if flags.is_empty() {
        return FileFlags::empty();
    }
    path.ancestors().filter_map(|above| flags.get(above).copied()).collect()
}

/// What is in a tree, but for what the rules leave out.
fn walker(root: &Path, base: &Path, rules: &Arc<Rules>) -> WalkBuilder {
    let (base, rules) = (base.to_owned(), Arc::clone(rules));
    let mut builder = WalkBuilder::new(root);
    builder.standard_filters(false).filter_entry(move |entry| {
        // What was named is what is wanted.
        entry.depth() == 0 || rules.let_in(relative_path(&base, entry.path()), entry)
    });
    builder
}

fn is_folder(entry: &DirEntry) -> bool {
    // The root is followed if it is a link.
    if entry.depth() == 0 {
        entry.path().is_dir()
    } else {
        entry.file_type().is_some_and(|kind| kind.is_dir())
    }
}

#[cfg(not(windows))]
fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b".")
}

#[cfg(windows)]
fn is_hidden(entry: &DirEntry) -> bool {
    const FILE_ATTRIBUTE_HIDDEN: u32 = 2;
    let attributes = entry.metadata().map(|found| std::os::windows::fs::MetadataExt::file_attributes(&found));
    entry.file_name().as_encoded_bytes().starts_with(b".")
        || attributes.is_ok_and(|attributes| attributes & FILE_ATTRIBUTE_HIDDEN != 0)
}

fn classify(
    base: &Path,
    directory: &Directory,
    entry: &DirEntry,
    options: &WalkOptions,
) -> Result<ListedFile, Skipped> {
    let path = relative_path(base, entry.path());
    let skip = |reason| Skipped { path: path.to_string_lossy().into_owned(), reason };
    let metadata = fs::symlink_metadata(entry.path())
        .map_err(|error| skip(SkipReason::Unreadable(error.to_string())))?;
    if metadata.is_symlink() {
        return Err(skip(SkipReason::SymbolicLink));
    }
    if !metadata.is_file() {
        return Err(skip(SkipReason::NotAFile));
    }
    let by_name = quarry_source::language_for(&path, b"");
    let language =
        by_name.or_else(|| may_be_script(&path, &metadata).then(|| script_language(directory, &path))?);
    let Some(language) = language else { return Err(skip(SkipReason::UnknownLanguage)) };
    if metadata.len() > options.max_bytes.min(MAX_FILE_BYTES) {
        return Err(skip(SkipReason::TooLarge));
    }
    let Some(utf8) = path.to_str() else { return Err(skip(SkipReason::NotUtf8)) };
    Ok(ListedFile {
        path: if cfg!(windows) { utf8.replace('\\', "/") } else { utf8.to_owned() },
        stamp: Stamp::of(&metadata),
        language,
        flags: FileFlags::empty(),
    })
}

/// Whether a file whose name tells no language may begin with a `#!` line: one without an extension, or one that can be
/// started.
fn may_be_script(path: &Path, metadata: &Metadata) -> bool {
    path.extension().is_none() || is_executable(metadata)
}

#[cfg(unix)]
fn is_executable(metadata: &Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &Metadata) -> bool {
    false
}

/// The language that the `#!` line of a file names.
fn script_language(base: &Directory, path: &Path) -> Option<Language> {
    let start = quarry_files::read_start(base.file(path).ok()?, SCRIPT_LINE_BYTES);
    quarry_source::language_for(path, &start.ok()?)
}

fn relative_path(base: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(base).unwrap_or(path).to_owned()
}

/// When a file was last modified, in nanoseconds since 1970; 0 where the file system does not tell.
#[must_use]
pub fn modified_ns(metadata: &Metadata) -> u64 {
    let since_epoch = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since_epoch.map_or(0, |duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

fn walk_failure(base: &Path, error: &ignore::Error) -> Skipped {
    let mut path = PathBuf::new();
    let mut inner = error;
    loop {
        match inner {
            ignore::Error::WithPath { path: found, err } => {
                path = relative_path(base, found);
                inner = err;
            }
            ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => inner = err,
            _ => break,
        }
    }
    Skipped { path: path.to_string_lossy().into_owned(), reason: SkipReason::Unreadable(inner.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a tree of files from (path, content).
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    fn paths(listing: &Listing) -> Vec<&str> {
        listing.files.iter().map(|file| file.path.as_str()).collect()
    }

    fn skipped(listing: &Listing) -> Vec<(&str, &SkipReason)> {
        listing.skipped.iter().map(|skipped| (skipped.path.as_str(), &skipped.reason)).collect()
    }

    #[test]
    fn lists_sources_in_order_and_honours_ignore_files() {
        let folder = tree(&[
            ("b.py", "x = 1"),
            ("a/z.py", "x = 1"),
            ("a/.hidden.py", "x = 1"),
            ("target/out.py", "x = 1"),
            ("secret/key.py", "x = 1"),
            (".gitignore", "target/\n"),
            (IGNORE_FILE, "secret\n"),
        ]);
        let listing = list(folder.path(), &WalkOptions::default()).unwrap();
        assert_eq!(paths(&listing), ["a/z.py", "b.py"]);
        assert_eq!(skipped(&listing), []);
        // All but the two listed: three sources and the ignore files themselves.
        assert_eq!(count_excluded(folder.path(), &WalkOptions::default()), 5);
    }

    #[test]
    fn hidden_and_ignored_files_are_listed_where_asked_for() {
        let folder = tree(&[
            ("a.py", "x = 1"),
            (".b.py", "x = 1"),
            (".ci/check.py", "x = 1"),
            (".kept/c.py", "x = 1"),
            ("out/d.py", "x = 1"),
            ("out/.e.py", "x = 1"),
            (".cache/f.py", "x = 1"),
            ("g.py", "x = 1"),
            (".git/hooks/h.py", "x = 1"),
            ("sub/.git/i.py", "x = 1"),
            (".gitignore", "out/\n.cache\ng.py\n!.kept\n"),
        ]);
        let (none, hidden, ignored) = (FileFlags::empty(), FileFlags::HIDDEN, FileFlags::IGNORED);
        let all = [
            (".b.py", hidden),
            (".cache/f.py", hidden | ignored),
            (".ci/check.py", hidden),
            (".kept/c.py", none),
            ("a.py", none),
            ("g.py", ignored),
            ("out/.e.py", hidden | ignored),
            ("out/d.py", ignored),
        ];
        for (is_hidden, is_ignored) in [(false, false), (true, false), (false, true), (true, true)] {
            let options = WalkOptions { hidden: is_hidden, ignored: is_ignored, ..WalkOptions::default() };
            let listing = list(folder.path(), &options).unwrap();
            let found: Vec<_> = listing.files.iter().map(|file| (file.path.as_str(), file.flags)).collect();
            let expected: Vec<_> = all.into_iter().filter(|(_, flags)| options.lists(5, *flags)).collect();
            assert_eq!(found, expected, "{options:?}");
            assert_eq!(expected.len(), [2, 4, 4, 8][usize::from(is_hidden) + 2 * usize::from(is_ignored)]);
        }
    }

    #[test]
    fn a_file_that_is_named_is_listed_whatever_the_rules() {
        let folder = tree(&[(".hidden.py", "x = 1"), ("out.py", "x = 1"), (".gitignore", "*.py\n")]);
        for name in [".hidden.py", "out.py"] {
            let listing = list(&folder.path().join(name), &WalkOptions::default()).unwrap();
            assert_eq!(paths(&listing), [name]);
            assert_eq!(listing.files[0].flags, FileFlags::empty());
        }
    }

    #[test]
    fn options_are_those_that_are_given_over_the_others() {
        let given = WalkChoice { max_bytes: Some(5), hidden: Some(false), ignored: None };
        let remembered = WalkChoice { max_bytes: Some(7), hidden: Some(true), ignored: Some(true) };
        let options = given.or(remembered).over(&WalkOptions::default());
        assert_eq!(options, WalkOptions { max_bytes: 5, hidden: false, ignored: true });
        let both = options.union(&WalkOptions { hidden: true, ..WalkOptions::default() });
        assert_eq!(both, WalkOptions { max_bytes: 1_000_000, hidden: true, ignored: true });
        assert!(options.lists(5, FileFlags::IGNORED | FileFlags::TEST));
        assert!(!options.lists(6, FileFlags::empty()) && !options.lists(5, FileFlags::HIDDEN));
    }

    #[test]
    fn utf_16_with_a_mark_is_text() {
        let encoded = |text: &str, big: bool| -> Vec<u8> {
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
        };
        let folder = tree(&[("a.py", "")]);
        let directory = open(folder.path()).unwrap();
        let check = |bytes: &[u8], expected: Result<&str, SkipReason>| {
            fs::write(folder.path().join("a.py"), bytes).unwrap();
            let listing = list(folder.path(), &WalkOptions::default()).unwrap();
            let found = read(&directory, &listing.files[0]).map(|content| content.bytes);
            assert_eq!(found, expected.map(|text| text.as_bytes().to_vec()), "{bytes:?}");
        };
        let text = "# größer, 名前, \u{1f600}\nx = 1\n";
        for big in [false, true] {
            check(&encoded(text, big), Ok(text));
            check(&[encoded("x", big), vec![7]].concat(), Ok("x"));
            check(&[&encoded("x", big)[..2], &[0xd8, 0xd8]].concat(), Ok("\u{fffd}"));
        }
        check(&encoded("x", false)[2..], Err(SkipReason::Binary));
        // The mark of UTF-32 begins like that of UTF-16.
        check(b"\xff\xfe\0\0x\0\0\0", Err(SkipReason::Binary));
        check(b"\xef\xbb\xbfx", Ok("\u{feff}x"));
    }

    #[test]
    fn folders_are_those_that_are_looked_into() {
        let folder = tree(&[
            ("a/b/z.py", ""),
            ("target/debug/out.py", ""),
            (".git/x", ""),
            (".gitignore", "target/\n"),
        ]);
        let mut found = folders(folder.path(), &WalkOptions::default()).unwrap();
        found.sort_unstable();
        assert_eq!(found, ["", "a", "a/b"].map(|path| folder.path().join(path)));
        assert_eq!(
            folders(&folder.path().join("a/b/z.py"), &WalkOptions::default()).unwrap(),
            [folder.path().join("a/b")]
        );
        assert!(folders(&folder.path().join("none"), &WalkOptions::default()).is_err());
    }

    #[test]
    fn says_what_was_left_out_and_why() {
        let folder =
            tree(&[("big.py", "x = 11111"), ("data.bin2", "x"), ("nul.py", "x\0"), ("ok.py", "x = 1")]);
        let listing = list(folder.path(), &WalkOptions { max_bytes: 5, ..WalkOptions::default() }).unwrap();
        assert_eq!(paths(&listing), ["nul.py", "ok.py"]);
        let expected = [("big.py", &SkipReason::TooLarge), ("data.bin2", &SkipReason::UnknownLanguage)];
        assert_eq!(skipped(&listing), expected);
        let base = open(folder.path()).unwrap();
        assert_eq!(read(&base, &listing.files[0]).unwrap_err(), SkipReason::Binary);
        assert_eq!(read(&base, &listing.files[1]).unwrap().bytes, b"x = 1");
    }

    #[test]
    #[cfg(unix)]
    fn does_not_follow_links_but_follows_the_root() {
        let folder = tree(&[("real/a.py", "x = 1")]);
        std::os::unix::fs::symlink(folder.path().join("real/a.py"), folder.path().join("real/b.py")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("real"), folder.path().join("link")).unwrap();
        let listing = list(&folder.path().join("link"), &WalkOptions::default()).unwrap();
        assert_eq!(paths(&listing), ["a.py"]);
        assert_eq!(skipped(&listing), [("b.py", &SkipReason::SymbolicLink)]);
    }

    #[test]
    fn a_script_without_extension_is_known_by_its_first_line() {
        let folder = tree(&[("run", "#!/usr/bin/env python3\nx = 1\n"), ("words", "plain")]);
        let listing = list(folder.path(), &WalkOptions::default()).unwrap();
        assert_eq!(paths(&listing), ["run"]);
    }

    #[test]
    fn a_file_is_a_tree_of_one_file() {
        let folder = tree(&[("a/b.py", "x = 1"), ("a/c.py", "x = 1")]);
        let root = folder.path().join("a/b.py");
        let listing = list(&root, &WalkOptions::default()).unwrap();
        assert_eq!(paths(&listing), ["b.py"]);
        assert_eq!(base_folder(&root).unwrap(), folder.path().join("a"));
        assert!(read(&open(base_folder(&root).unwrap()).unwrap(), &listing.files[0]).is_ok());
    }

    #[test]
    fn a_missing_root_is_named() {
        let error = list(Path::new("no/such/folder"), &WalkOptions::default()).unwrap_err();
        assert!(error.to_string().starts_with("no/such/folder: no such file"), "{error}");
    }

    #[test]
    #[cfg(unix)]
    fn a_script_with_an_odd_extension_is_known_if_it_can_be_started() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tree(&[("serve.cgi", "#!/usr/bin/python3\n"), ("text.cgi", "#!/usr/bin/python3\n")]);
        fs::set_permissions(folder.path().join("serve.cgi"), fs::Permissions::from_mode(0o755)).unwrap();
        let listing = list(folder.path(), &WalkOptions::default()).unwrap();
        assert_eq!(paths(&listing), ["serve.cgi"]);
        assert_eq!(listing.files[0].language.name(), "python");
    }

    #[test]
    #[cfg(unix)]
    fn what_is_neither_file_nor_folder_is_not_opened() {
        let folder = tree(&[("a.py", "x = 1")]);
        let socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket.py")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("zero.py")).unwrap();
        let listing = list(folder.path(), &WalkOptions::default()).unwrap();
        assert_eq!(paths(&listing), ["a.py"]);
        let expected = [("socket.py", &SkipReason::NotAFile), ("zero.py", &SkipReason::SymbolicLink)];
        assert_eq!(skipped(&listing), expected);
        drop(socket);
        // A file that a device or a greater one has replaced since it was listed.
        fs::remove_file(folder.path().join("a.py")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("a.py")).unwrap();
        let base = open(folder.path()).unwrap();
        assert!(matches!(read(&base, &listing.files[0]), Err(SkipReason::Unreadable(_))));
        fs::remove_file(folder.path().join("a.py")).unwrap();
        fs::write(folder.path().join("a.py"), "x = 123456").unwrap();
        assert_eq!(read(&base, &listing.files[0]).unwrap().bytes, b"x = 1");
    }

    #[test]
    fn the_nearest_rule_of_the_strongest_file_counts() {
        let folder = tree(&[
            (".git/info/exclude", "excluded.py\nback.py\n"),
            (".gitignore", "*.log.py\n/top.py\n!back.py\nbuild/\n"),
            (".ignore", "!kept.log.py\n"),
            ("a/.gitignore", "!b.log.py\n"),
            ("a/.quarryignore", "c.log.py\n"),
            ("a/.ignore", "!c.log.py\n!.shown.py\n"),
            ("a.log.py", ""),
            ("kept.log.py", ""),
            ("a/a.log.py", ""),
            ("a/b.log.py", ""),
            ("a/c.log.py", ""),
            ("a/.shown.py", ""),
            ("a/.hidden.py", ""),
            ("a/top.py", ""),
            ("top.py", ""),
            ("excluded.py", ""),
            ("back.py", ""),
            ("a/build/x.py", ""),
        ]);
        let root = folder.path().canonicalize().unwrap();
        let listing = list(&root, &WalkOptions::default()).unwrap();
        assert_eq!(paths(&listing), ["a/.shown.py", "a/b.log.py", "a/top.py", "back.py", "kept.log.py"]);
        // The rules of the tree hold for a part of it, and nothing above its repository does.
        let part = list(&root.join("a"), &WalkOptions::default()).unwrap();
        assert_eq!(paths(&part), [".shown.py", "b.log.py", "top.py"]);
        fs::create_dir(root.join("a/.git")).unwrap();
        let part = list(&root.join("a"), &WalkOptions::default()).unwrap();
        assert_eq!(paths(&part), [".shown.py", "a.log.py", "b.log.py", "build/x.py", "top.py"]);
    }

    #[test]
    #[cfg(unix)]
    fn an_ignore_file_that_is_not_a_regular_file_is_not_opened() {
        use std::os::unix::fs::symlink;

        let folder =
            tree(&[("a.py", ""), ("b/b.py", ""), ("c/c.py", ""), ("d/d.py", ""), ("rules", "*.py\n")]);
        for (name, target) in
            [(".gitignore", "/dev/zero"), ("b/.ignore", "../rules"), ("c/.gitignore", "nowhere")]
        {
            symlink(target, folder.path().join(name)).unwrap();
        }
        let pipe = folder.path().join("d").join(IGNORE_FILE);
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, pipe, kind, mode, 0).unwrap();
        fs::File::create(folder.path().join(".ignore")).unwrap().set_len(1 << 40).unwrap();
        let listing = list(folder.path(), &WalkOptions::default()).unwrap();
        assert_eq!(paths(&listing), ["a.py", "b/b.py", "c/c.py", "d/d.py"]);
        let refused: Vec<&str> = listing.skipped.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            refused,
            [".gitignore", ".ignore", "b/.ignore", "c/.gitignore", "d/.quarryignore", "rules"]
        );
    }

    #[test]
    #[cfg(unix)]
    fn a_folder_that_becomes_a_link_is_not_followed() {
        let folder = tree(&[("tree/a/b.py", "inside"), ("elsewhere/b.py", "outside")]);
        let root = folder.path().join("tree");
        let listing = list(&root, &WalkOptions::default()).unwrap();
        fs::rename(root.join("a"), root.join("gone")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", root.join("a")).unwrap();
        let refused = read(&open(&root).unwrap(), &listing.files[0]).unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
    }
}
