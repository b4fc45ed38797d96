//! Lists and reads the source files of a tree.
//!
//! Listing reads names and metadata only, so a caller can compare a tree with an earlier listing without
//! reading files; [`read`] then examines the content.

mod flags;
mod ignore_files;
mod language_map;
mod member;
mod repository;
mod traversal;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, DirEntry, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use quarry_files::Directory;
use quarry_source::{Language, SourceText};
use quarry_text::counted;
use serde::{Deserialize, Serialize};

use crate::flags::text_flags;
pub use crate::flags::{FileFlags, path_flags};
use crate::ignore_files::{IgnoreRules, is_index};
pub use crate::language_map::LanguageMap;
pub use crate::member::{max_bytes_of_member, read_member};
pub use crate::repository::Checkout;
use crate::traversal::{Entry, traverse};

/// Name of the ignore file that only this program reads; its syntax is that of `.gitignore`.
pub const IGNORE_FILE: &str = ".quarryignore";

/// Bytes at the start of a file that are searched for a NUL, as git does.
const HEAD_BYTES: usize = 8192;

/// Maximum bytes of an indexed file, whatever the options: offsets of units have 32 bits, and files are
/// read into memory.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// Bytes up to which a notebook is read, however small [`WalkOptions::max_bytes`] is: most of them are images that
/// it shows, and only the text counts against that limit.
pub const MAX_NOTEBOOK_BYTES: u64 = 64 << 20;

/// Maximum bytes of a `#!` line.
const SCRIPT_LINE_BYTES: u64 = 256;

/// Directories of version control and of Quarry, which are never listed.
const NEVER_LISTED: [&str; 6] = [".git", ".hg", ".svn", ".jj", ".bzr", ".quarry"];

/// Options of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WalkOptions {
    /// Larger files are skipped; 1,000,000 bytes by default, above which sources are nearly always generated. For
    /// notebooks the text of their cells counts, and [`MAX_NOTEBOOK_BYTES`].
    pub max_bytes: u64,
    /// True to list hidden files; false by default.
    pub hidden: bool,
    /// True to list ignored files; false by default.
    pub ignored: bool,
    /// Languages assigned to files by settings.
    #[serde(skip_serializing_if = "LanguageMap::is_empty")]
    pub languages: LanguageMap,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self { max_bytes: 1_000_000, hidden: false, ignored: false, languages: LanguageMap::default() }
    }
}

impl WalkOptions {
    /// Maximum length of a listed file in a language.
    fn max_file_bytes(&self, language: Language) -> u64 {
        let minimum = if language.is_notebook() { MAX_NOTEBOOK_BYTES } else { 0 };
        self.max_bytes.max(minimum).min(MAX_FILE_BYTES)
    }

    /// Returns whether a file with this length (for a notebook, the length of its text) and these flags is listed.
    pub fn lists(&self, bytes: u64, flags: FileFlags) -> bool {
        bytes <= self.max_bytes && self.left_out().intersection(flags).is_empty()
    }

    /// Options that find a file named by the user, regardless of exclusion rules.
    #[must_use]
    pub fn for_named_file(self) -> Self {
        Self { hidden: true, ignored: true, ..self }
    }

    /// Options that list all files listed by either; if both set languages, those of the other one are used.
    pub fn union(&self, other: &Self) -> Self {
        Self {
            max_bytes: self.max_bytes.max(other.max_bytes),
            hidden: self.hidden || other.hidden,
            ignored: self.ignored || other.ignored,
            languages: if other.languages.is_empty() { self.languages } else { other.languages },
        }
    }

    /// Returns whether these options list all files that `choice` requests.
    pub fn covers(&self, choice: WalkChoice) -> bool {
        self.union(&choice.over(self)) == *self
    }

    /// The flags of files that are not listed.
    fn left_out(&self) -> FileFlags {
        let mut flags = FileFlags::LEFT_OUT;
        flags.set(FileFlags::HIDDEN, !self.hidden);
        flags.set(FileFlags::IGNORED, !self.ignored);
        flags
    }
}

/// [`WalkOptions`] that may be unset individually; all are by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WalkChoice {
    /// [`WalkOptions::max_bytes`], if set.
    pub max_bytes: Option<u64>,
    /// [`WalkOptions::hidden`], if set.
    pub hidden: Option<bool>,
    /// [`WalkOptions::ignored`], if set.
    pub ignored: Option<bool>,
}

impl WalkChoice {
    /// These options, with those of `other` for the unset ones.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            max_bytes: self.max_bytes.or(other.max_bytes),
            hidden: self.hidden.or(other.hidden),
            ignored: self.ignored.or(other.ignored),
        }
    }

    /// These options, with defaults for the unset ones.
    #[must_use]
    pub fn over(self, defaults: &WalkOptions) -> WalkOptions {
        WalkOptions {
            max_bytes: self.max_bytes.unwrap_or(defaults.max_bytes),
            hidden: self.hidden.unwrap_or(defaults.hidden),
            ignored: self.ignored.unwrap_or(defaults.ignored),
            languages: defaults.languages,
        }
    }
}

/// The listed files of a tree, and the skipped ones.
#[derive(Debug, Default)]
pub struct Listing {
    /// Files in a known language, ascending by path bytes.
    pub files: Vec<ListedFile>,
    /// Files that were visited and skipped, ascending by path. Ignored and hidden files are not visited at all.
    pub skipped: Vec<Skipped>,
    /// The skipped files that may be text: in an unknown language or over the size limit, ascending by path.
    pub others: Vec<OtherFile>,
}

/// A file that is not indexed, but may be text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherFile {
    /// Path relative to the root, `/` between its parts.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Flags by its path, and its flags of [`FileFlags::LEFT_OUT`].
    pub flags: FileFlags,
    /// Its language, if it is known and the file is too large.
    pub language: Option<Language>,
}

/// A file in a known language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Path relative to the root, `/` between its parts.
    pub path: String,
    /// Metadata that shows, without reading the file, whether it has changed.
    pub stamp: Stamp,
    /// Language by its name; if two languages share it, the text decides (`quarry_source::language_for`).
    pub language: Language,
    /// The flags of [`FileFlags::LEFT_OUT`] that it has.
    pub flags: FileFlags,
}

/// Metadata of a file that changes with it, as compared by git. Values that the file system lacks are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Length in bytes.
    pub bytes: u64,
    /// Time of the last modification, in nanoseconds since 1970, which programs can set freely.
    pub modified_ns: u64,
    /// Time of the last change of the file or its metadata, in nanoseconds since 1970, which programs cannot set.
    pub changed_ns: u64,
    /// Inode number of the file: it differs if the file was replaced.
    pub inode: u64,
}

impl Stamp {
    /// The stamp of a file.
    pub fn from_metadata(metadata: &Metadata) -> Self {
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

/// A skipped file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Path relative to the root.
    pub path: String,
    /// The reason why it was skipped.
    pub reason: SkipReason,
}

/// The reason why a file was skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Its name belongs to no known language.
    #[error("in an unknown language")]
    UnknownLanguage,
    /// Larger than [`WalkOptions::max_bytes`].
    #[error("over the size limit")]
    TooLarge,
    /// Its content does not match its name, for this reason.
    #[error("malformed: {0}")]
    Malformed(String),
    /// It contains a NUL among its first bytes.
    #[error("binary")]
    Binary,
    /// Neither a file nor a directory, such as a pipe, a socket or a device, which may be endless.
    #[error("not a regular file")]
    NotAFile,
    /// A symbolic link: links are not followed, so that no file is found twice or from outside the tree.
    #[error("symbolic link")]
    SymbolicLink,
    /// The path is not UTF-8.
    #[error("not named in valid UTF-8")]
    NotUtf8,
    /// It cannot be read, for this reason.
    #[error("unreadable: {0}")]
    Unreadable(String),
}

/// The number of files skipped for each reason, in words.
pub fn count_by_reason(skipped: &[Skipped]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for file in skipped {
        *counts.entry(file.reason.to_string()).or_default() += 1;
    }
    counts
}

/// Number of skipped files for each reason of [`count_by_reason`]: `3 in an unknown language`, `2 symbolic links`.
pub fn describe_skipped(counts: &BTreeMap<String, usize>) -> impl Iterator<Item = String> {
    let link = SkipReason::SymbolicLink.to_string();
    counts.iter().map(move |(reason, &n)| match *reason == link {
        true => counted(n, reason),
        false => format!("{n} {reason}"),
    })
}

/// The reason why a tree cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// The path does not exist.
    #[error("{}: no such file or directory; check the path", .0.display())]
    Missing(PathBuf),
    /// The root cannot be read.
    #[error("{}: cannot be read; check its permissions", path.display())]
    Unreadable {
        /// Path of the root.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Lists a tree in parallel. Ignore files (`.gitignore`, `.ignore`, [`IGNORE_FILE`]) are read as by git, inside and
/// outside a checkout; hidden files are left out like ignored ones, unless requested, and symbolic links are not
/// followed. A file as `root` is a tree of that one file, whose path is its name ([`resolved`]), regardless of the
/// rules.
///
/// # Errors
/// When `root` is missing or unreadable. Unreadable entries below it are listed as skipped.
pub fn list(root: &Path, options: &WalkOptions) -> Result<Listing, WalkError> {
    let root = &*resolved(root);
    let base = base_directory(root)?;
    let directory = open(base)?;
    let rules = Rules::new(base, options);
    let found = Mutex::new(Vec::new());
    traverse(root, base, &|path, kind, entry| rules.accepts(path, kind, entry), &|entries| {
        let of_entry = |entry: Entry| match entry {
            Entry::Directory(_) => None,
            Entry::File(path, metadata) => {
                let bytes = metadata.as_ref().map_or(0, Metadata::len);
                Some(classify(&directory, path, metadata, options).map_err(|skipped| (skipped, bytes)))
            }
            Entry::Unreadable(path, error) => Some(Err((unreadable(&path, &error), 0))),
        };
        let classified: Vec<_> = entries.into_iter().filter_map(of_entry).collect();
        found.lock().unwrap_or_else(PoisonError::into_inner).extend(classified);
    });
    let mut listing = Listing { skipped: rules.ignore_files.refused(), ..Listing::default() };
    let let_through = rules.let_through();
    for found in found.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match found {
            Ok(file) => {
                let flags = flags_below(&let_through, Path::new(&file.path));
                listing.files.push(ListedFile { flags, ..file });
            }
            Err((skipped, bytes)) => {
                if matches!(skipped.reason, SkipReason::UnknownLanguage | SkipReason::TooLarge) {
                    let path = portable(&skipped.path);
                    let flags = flags_below(&let_through, Path::new(&path)) | path_flags(&path);
                    let language = options.languages.language_for(Path::new(&path));
                    let language = language.or_else(|| quarry_source::language_for(Path::new(&path), b""));
                    listing.others.push(OtherFile { path, bytes, flags, language });
                }
                listing.skipped.push(skipped);
            }
        }
    }
    listing.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    listing.skipped.sort_by(|a, b| a.path.cmp(&b.path));
    listing.others.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    // Two threads may have read the same ignore file.
    listing.skipped.dedup();
    Ok(listing)
}

/// The directories whose files [`list`] lists, in no order; for a file as `root`, its directory.
///
/// # Errors
/// When `root` is missing or unreadable. Unreadable directories below it are left out.
pub fn directories(root: &Path, options: &WalkOptions) -> Result<Vec<PathBuf>, WalkError> {
    let base = base_directory(root)?;
    if base != root {
        return Ok(vec![base.to_owned()]);
    }
    let rules = Rules::new(base, options);
    let found = Mutex::new(vec![base.to_owned()]);
    traverse(root, base, &|path, kind, entry| rules.accepts(path, kind, entry), &|entries| {
        let directories = entries.into_iter().filter_map(|entry| match entry {
            Entry::Directory(path) => Some(base.join(path)),
            Entry::File(..) | Entry::Unreadable(..) => None,
        });
        found.lock().unwrap_or_else(PoisonError::into_inner).extend(directories);
    });
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Number of files below `root` that [`list`] does not visit because of an ignore file or a hidden name. For
/// explaining an empty listing: it walks everything.
pub fn count_excluded(root: &Path, options: &WalkOptions) -> usize {
    let Ok(base) = base_directory(root) else { return 0 };
    let count = |lets_in: &(dyn Fn(&Path, FileType, &DirEntry) -> bool + Sync)| {
        let n_files = AtomicUsize::new(0);
        traverse(root, base, lets_in, &|entries| {
            let n_found = entries.iter().filter(|entry| matches!(entry, Entry::File(..))).count();
            n_files.fetch_add(n_found, Ordering::Relaxed);
        });
        n_files.into_inner()
    };
    let rules = Rules::new(base, options);
    let seen = count(&|path, kind, entry| rules.accepts(path, kind, entry));
    count(&|_, _, _| true).saturating_sub(seen)
}

/// The path of a tree to list: for a link to a file, its target, so that no file in its directory is read through a
/// link; any other path unchanged.
pub fn resolved(root: &Path) -> Cow<'_, Path> {
    let is_link = fs::symlink_metadata(root).is_ok_and(|found| found.is_symlink());
    let target = if is_link { root.canonicalize().ok() } else { None };
    target.filter(|target| !target.is_dir()).map_or(Cow::Borrowed(root), Cow::Owned)
}

/// Opens the directory that listed paths are relative to, for reading files without leaving it.
///
/// # Errors
/// When it is missing or unreadable.
pub fn open(base: &Path) -> Result<Directory, WalkError> {
    Directory::open(base).map_err(|source| WalkError::Unreadable { path: base.to_owned(), source })
}

/// The directory that listed paths are relative to: `root`, or the directory of the file that `root` is.
///
/// # Errors
/// When `root` is missing or unreadable.
pub fn base_directory(root: &Path) -> Result<&Path, WalkError> {
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

/// The content of a listed file, and its flags.
#[derive(Debug)]
pub struct Content {
    pub text: SourceText,
    /// Flags by its path and its first bytes.
    pub flags: FileFlags,
}

impl ListedFile {
    /// Maximum length of its text, as far as its metadata tells.
    pub fn max_text_bytes(&self, options: &WalkOptions) -> u64 {
        if self.language.is_notebook() { self.stamp.bytes.min(options.max_bytes) } else { self.stamp.bytes }
    }
}

/// Reads a file listed with `options`, up to its listed length; its path is relative to `base` ([`open`]). The file
/// may have been replaced by a pipe or a device, on which reading would block or never end, by a link that leads
/// elsewhere, or by a growing file.
///
/// # Errors
/// The reason why the file is skipped after all.
pub fn read(base: &Directory, file: &ListedFile, options: &WalkOptions) -> Result<Content, SkipReason> {
    let unreadable = |error: io::Error| SkipReason::Unreadable(error.to_string());
    let opened = base.file(Path::new(&file.path)).map_err(unreadable)?;
    let bytes = quarry_files::read_start(opened, file.stamp.bytes).map_err(unreadable)?;
    content(&file.path, file.language, file.flags, bytes, options)
}

/// The bytes of a file as its content, unless it is skipped.
fn content(
    path: &str,
    language: Language,
    flags: FileFlags,
    bytes: Vec<u8>,
    options: &WalkOptions,
) -> Result<Content, SkipReason> {
    let text = SourceText::read(Path::new(path), from_utf16(bytes))
        .map_err(|error| SkipReason::Malformed(error.to_string()))?;
    if language.is_notebook() && text.bytes().len() as u64 > options.max_bytes {
        return Err(SkipReason::TooLarge);
    }
    let head = &text.bytes()[..text.bytes().len().min(HEAD_BYTES)];
    if head.contains(&0) {
        return Err(SkipReason::Binary);
    }
    let flags = flags | path_flags(path) | text_flags(head, language);
    Ok(Content { text, flags })
}

/// Reads at most `limit` bytes of a file of a tree, as indexed: UTF-16 with a byte order mark becomes UTF-8, and a
/// notebook, which should be read completely, becomes the text of its cells.
///
/// # Errors
/// When it cannot be read, is not a regular file, or is reached through a link; `InvalidData` when it is not the
/// notebook that its name indicates.
pub fn read_text(base: &Directory, path: &str, limit: u64) -> io::Result<SourceText> {
    let path = Path::new(path);
    let bytes = from_utf16(base.read_listed(path, limit)?);
    SourceText::read(path, bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Converts UTF-16 that begins with a byte order mark to UTF-8 without one; other bytes are unchanged.
fn from_utf16(bytes: Vec<u8>) -> Vec<u8> {
    let (units, is_little_endian) = match bytes.as_slice() {
        [0xff, 0xfe, units @ ..] => (units, true),
        [0xfe, 0xff, units @ ..] => (units, false),
        _ => return bytes,
    };
    let decode = if is_little_endian { u16::from_le_bytes } else { u16::from_be_bytes };
    let (units, _) = units.as_chunks::<2>();
    let characters = char::decode_utf16(units.iter().map(|&unit| decode(unit)));
    characters.map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>().into_bytes()
}

/// Determines which entries a walk leaves out.
struct Rules {
    ignore_files: IgnoreRules,
    left_out: FileFlags,
    /// Names that the rules exclude but the options include, with the flags of the rules.
    let_through: Mutex<HashMap<PathBuf, FileFlags>>,
}

impl Rules {
    fn new(base: &Path, options: &WalkOptions) -> Self {
        let left_out = options.left_out();
        Self { ignore_files: IgnoreRules::new(base), left_out, let_through: Mutex::default() }
    }

    /// Returns whether to visit an entry, whose path is relative to the base.
    fn accepts(&self, path: &Path, kind: FileType, entry: &DirEntry) -> bool {
        if NEVER_LISTED.iter().any(|name| path.file_name() == Some(OsStr::new(name))) {
            return false;
        }
        // Otherwise, its own ignore file would exclude it.
        if !self.left_out.contains(FileFlags::IGNORED) && kind.is_dir() && is_index(&entry.path()) {
            return false;
        }
        let flags = self.ignore_files.left_out(path, kind.is_dir(), is_hidden(path, entry));
        let is_in = !flags.intersects(self.left_out);
        if is_in && !flags.is_empty() {
            let mut let_through = self.let_through.lock().unwrap_or_else(PoisonError::into_inner);
            let_through.insert(path.to_owned(), flags);
        }
        is_in
    }

    fn let_through(&self) -> HashMap<PathBuf, FileFlags> {
        std::mem::take(&mut *self.let_through.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The flags of a path and its parent directories.
fn flags_below(flags: &HashMap<PathBuf, FileFlags>, path: &Path) -> FileFlags {
    if flags.is_empty() {
        return FileFlags::empty();
    }
    path.ancestors().filter_map(|above| flags.get(above).copied()).collect()
}

#[cfg(not(windows))]
fn is_hidden(path: &Path, _: &DirEntry) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

#[cfg(windows)]
fn is_hidden(path: &Path, entry: &DirEntry) -> bool {
    const FILE_ATTRIBUTE_HIDDEN: u32 = 2;
    let attributes = entry.metadata().map(|found| std::os::windows::fs::MetadataExt::file_attributes(&found));
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
        || attributes.is_ok_and(|attributes| attributes & FILE_ATTRIBUTE_HIDDEN != 0)
}

/// A file that was found, unless it is skipped.
fn classify(
    directory: &Directory,
    path: PathBuf,
    metadata: io::Result<Metadata>,
    options: &WalkOptions,
) -> Result<ListedFile, Skipped> {
    let skip = |reason| Skipped { path: path.to_string_lossy().into_owned(), reason };
    let metadata = metadata.map_err(|error| unreadable(&path, &error))?;
    if metadata.is_symlink() {
        return Err(skip(SkipReason::SymbolicLink));
    }
    if !metadata.is_file() {
        return Err(skip(SkipReason::NotAFile));
    }
    let by_name = options.languages.language_for(&path).or_else(|| quarry_source::language_for(&path, b""));
    let language =
        by_name.or_else(|| may_be_script(&path, &metadata).then(|| script_language(directory, &path))?);
    let Some(language) = language else { return Err(skip(SkipReason::UnknownLanguage)) };
    if metadata.len() > options.max_file_bytes(language) {
        return Err(skip(SkipReason::TooLarge));
    }
    let Some(utf8) = path.to_str() else { return Err(skip(SkipReason::NotUtf8)) };
    Ok(ListedFile {
        path: portable(utf8),
        stamp: Stamp::from_metadata(&metadata),
        language,
        flags: FileFlags::empty(),
    })
}

/// A path with `/` between its parts.
fn portable(path: &str) -> String {
    if cfg!(windows) { path.replace('\\', "/") } else { path.to_owned() }
}

/// Returns whether a file without a known extension may begin with a `#!` line: it has no extension, or is executable.
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

/// Time of last modification of a file, in nanoseconds since 1970; 0 if the file system does not provide it.
pub fn modified_ns(metadata: &Metadata) -> u64 {
    let since_epoch = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since_epoch.map_or(0, |duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

fn unreadable(path: &Path, error: &io::Error) -> Skipped {
    Skipped { path: path.to_string_lossy().into_owned(), reason: SkipReason::Unreadable(error.to_string()) }
}

#[cfg(test)]
mod tests;
