//! Lists and reads the source files of a tree.
//!
//! Listing looks at names and metadata only, so that a caller can compare a tree with an earlier listing without
//! reading it; [`read`] then judges the content.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::UNIX_EPOCH;

use bitflags::bitflags;
use ignore::{DirEntry, WalkBuilder, WalkState};
use quarry_source::Language;
use serde::{Deserialize, Serialize};

/// Name of the ignore file that only this program reads; its syntax is that of `.gitignore`.
pub const IGNORE_FILE: &str = ".quarryignore";

/// Bytes at the start of a file that are searched for a NUL, as git does.
const HEAD_BYTES: usize = 8192;

/// Bytes at the start of a file that are searched for a mark of generated code: such marks stand in the first lines,
/// and code about marks has them further down.
const MARK_BYTES: usize = 1024;

/// Longest `#!` line.
const SCRIPT_LINE_BYTES: u64 = 256;

/// What to list.
#[derive(Debug, Clone)]
pub struct WalkOptions {
    /// Greater files are skipped; 1,000,000 bytes by default, above which sources are nearly always generated.
    pub max_bytes: u64,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self { max_bytes: 1_000_000 }
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
    /// Length.
    pub bytes: u64,
    /// Time of the last modification, in nanoseconds since 1970 (0 where the file system does not tell).
    pub modified_ns: u64,
    /// Its language, from its name; where two languages share it, the text decides (`quarry_source::language_for`).
    pub language: Language,
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

bitflags! {
    /// What else a file is, beside being code: search puts such files lower.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct FileFlags: u32 {
        /// Tests other code.
        const TEST = 1;
        /// Shows or times other code.
        const EXAMPLE = 1 << 1;
        /// Written by a program.
        const GENERATED = 1 << 2;
        /// A copy of somebody else's code.
        const VENDORED = 1 << 3;
        /// Text about the code.
        const DOCUMENTATION = 1 << 4;
        /// Declares what is defined elsewhere (`.pyi`, `.d.ts`).
        const TYPE_STUB = 1 << 5;
        /// Only passes on what other files define.
        const REEXPORT = 1 << 6;
    }
}

/// Lists a tree in parallel. Ignore files (`.gitignore`, `.ignore`, [`IGNORE_FILE`]) are read as git reads its own,
/// inside and outside of a checkout; hidden files are left out and symbolic links are not followed. A file as
/// `root` is a tree of that one file, its path being its name.
///
/// # Errors
/// When `root` is missing or unreadable. What is unreadable below it is listed as skipped.
pub fn list(root: &Path, options: &WalkOptions) -> Result<Listing, WalkError> {
    let base = base_folder(root)?;
    let (sender, receiver) = mpsc::channel();
    walker(root).build_parallel().run(|| {
        let sender = sender.clone();
        Box::new(move |entry| {
            // The receiver outlives the walk, so that sending cannot fail.
            let _ = match entry {
                Ok(entry) if is_folder(&entry) => Ok(()),
                Ok(entry) => sender.send(classify(base, &entry, options)),
                Err(error) => sender.send(Err(walk_failure(base, &error))),
            };
            WalkState::Continue
        })
    });
    drop(sender);
    let mut listing = Listing::default();
    for found in receiver {
        match found {
            Ok(file) => listing.files.push(file),
            Err(skipped) => listing.skipped.push(skipped),
        }
    }
    listing.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    listing.skipped.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(listing)
}

/// Number of files below `root` that [`list`] does not see because an ignore file or a hidden name excludes them.
/// For explaining an empty listing: it walks everything.
#[must_use]
pub fn count_excluded(root: &Path) -> usize {
    let count = |builder: &WalkBuilder| {
        let is_file = |entry: &DirEntry| entry.file_type().is_some_and(|kind| kind.is_file());
        builder.build().flatten().filter(is_file).count()
    };
    let mut everything = WalkBuilder::new(root);
    everything.standard_filters(false);
    count(&everything).saturating_sub(count(&walker(root)))
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

/// Reads a listed file; `base` is what its path is relative to ([`base_folder`]).
///
/// # Errors
/// The reason why the file is left out after all.
pub fn read(base: &Path, file: &ListedFile) -> Result<Content, SkipReason> {
    let bytes = fs::read(base.join(&file.path)).map_err(|error| SkipReason::Unreadable(error.to_string()))?;
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    if head.contains(&0) {
        return Err(SkipReason::Binary);
    }
    let mut flags = path_flags(&file.path);
    flags.set(
        FileFlags::GENERATED,
        flags.contains(FileFlags::GENERATED) || is_marked_generated(&head[..head.len().min(MARK_BYTES)]),
    );
    Ok(Content { bytes, flags })
}

fn walker(root: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder.require_git(false).add_custom_ignore_filename(IGNORE_FILE);
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

fn classify(base: &Path, entry: &DirEntry, options: &WalkOptions) -> Result<ListedFile, Skipped> {
    let path = relative_path(base, entry.path());
    let skip = |reason| Skipped { path: path.to_string_lossy().into_owned(), reason };
    let metadata = match entry.file_type() {
        Some(kind) if kind.is_symlink() && entry.depth() > 0 => return Err(skip(SkipReason::SymbolicLink)),
        _ => fs::metadata(entry.path()).map_err(|error| skip(SkipReason::Unreadable(error.to_string())))?,
    };
    let language = quarry_source::language_for(&path, b"").or_else(|| script_language(entry.path()));
    let Some(language) = language else { return Err(skip(SkipReason::UnknownLanguage)) };
    if metadata.len() > options.max_bytes {
        return Err(skip(SkipReason::TooLarge));
    }
    let Some(utf8) = path.to_str() else { return Err(skip(SkipReason::NotUtf8)) };
    Ok(ListedFile {
        path: if cfg!(windows) { utf8.replace('\\', "/") } else { utf8.to_owned() },
        bytes: metadata.len(),
        modified_ns: modified_ns(&metadata),
        language,
    })
}

/// The language that the `#!` line of a file without an extension names.
fn script_language(path: &Path) -> Option<Language> {
    if path.extension().is_some() {
        return None;
    }
    let mut head = Vec::new();
    File::open(path).ok()?.take(SCRIPT_LINE_BYTES).read_to_end(&mut head).ok()?;
    quarry_source::language_for(path, &head)
}

fn relative_path(base: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(base).unwrap_or(path).to_owned()
}

fn modified_ns(metadata: &Metadata) -> u64 {
    let since_epoch = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since_epoch.map_or(0, |duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

fn walk_failure(base: &Path, error: &ignore::Error) -> Skipped {
    let path = match error {
        ignore::Error::WithPath { path, .. } => relative_path(base, path),
        _ => PathBuf::new(),
    };
    Skipped { path: path.to_string_lossy().into_owned(), reason: SkipReason::Unreadable(error.to_string()) }
}

/// Folder names, in lower case, and what the files below them are.
const FOLDERS: &[(FileFlags, &[&str])] = &[
    (
        FileFlags::TEST,
        &[
            "test",
            "tests",
            "testing",
            "__tests__",
            "spec",
            "specs",
            "e2e",
            "fixtures",
            "testdata",
            "__mocks__",
            "mocks",
        ],
    ),
    (
        FileFlags::EXAMPLE,
        &[
            "example",
            "examples",
            "sample",
            "samples",
            "demo",
            "demos",
            "bench",
            "benches",
            "benchmark",
            "benchmarks",
        ],
    ),
    (FileFlags::GENERATED, &["generated", "__generated__", "dist"]),
    (
        FileFlags::VENDORED,
        &["vendor", "vendored", "_vendor", "third_party", "thirdparty", "node_modules", "bower_components"],
    ),
    (FileFlags::DOCUMENTATION, &["doc", "docs", "documentation"]),
];

/// Ends of file names and what such files are.
const SUFFIXES: &[(FileFlags, &[&str])] = &[
    (
        FileFlags::GENERATED,
        &[".pb.go", ".pb.cc", ".pb.h", "_pb2.py", "_pb2_grpc.py", ".min.js", ".g.dart", ".designer.cs"],
    ),
    (FileFlags::TYPE_STUB, &[".pyi", ".d.ts", ".d.mts", ".d.cts"]),
    (FileFlags::DOCUMENTATION, &[".md", ".markdown", ".rst", ".adoc", ".txt"]),
];

/// Words in the first bytes of a file that say that a program wrote it.
const GENERATED_MARKS: &[&str] =
    &["@generated", "Code generated by", "DO NOT EDIT", "Generated by the protocol buffer"];

/// What a path says about its file.
#[must_use]
pub fn path_flags(path: &str) -> FileFlags {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let of_folder = |folder: &str| {
        let folder = folder.to_lowercase();
        FOLDERS
            .iter()
            .filter(move |(_, names)| names.contains(&folder.as_str()))
            .map(|(flag, _)| *flag)
            .collect()
    };
    let from_folders: FileFlags = folders.split('/').map(of_folder).collect();
    let lower = name.to_lowercase();
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| lower.ends_with(suffix));
    let from_suffix: FileFlags =
        SUFFIXES.iter().filter(|(_, ends_with)| ends(ends_with)).map(|(flag, _)| *flag).collect();
    let mut flags = from_folders | from_suffix;
    flags.set(FileFlags::TEST, flags.contains(FileFlags::TEST) || is_test_name(name));
    flags
}

/// True for the file names that test runners look for: `test` or `spec` as the first or last word of the stem.
fn is_test_name(name: &str) -> bool {
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let is_test = |word: &str| matches!(word.to_lowercase().as_str(), "test" | "tests" | "spec" | "conftest");
    let mut words = quarry_text::parts(stem);
    let first = words.next();
    // `Test` as a first word in camel case names a class about tests as often as a test.
    let first_is_test = first.is_some_and(|word| is_test(word) && !word.starts_with('T'));
    let dotted = name.split('.').skip(1).any(is_test);
    first_is_test || words.last().is_some_and(is_test) || dotted
}

fn is_marked_generated(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    GENERATED_MARKS.iter().any(|mark| head.contains(mark))
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
        assert_eq!(count_excluded(folder.path()), 5);
    }

    #[test]
    fn says_what_was_left_out_and_why() {
        let folder =
            tree(&[("big.py", "x = 11111"), ("data.bin2", "x"), ("nul.py", "x\0"), ("ok.py", "x = 1")]);
        let listing = list(folder.path(), &WalkOptions { max_bytes: 5 }).unwrap();
        assert_eq!(paths(&listing), ["nul.py", "ok.py"]);
        let expected = [("big.py", &SkipReason::TooLarge), ("data.bin2", &SkipReason::UnknownLanguage)];
        assert_eq!(skipped(&listing), expected);
        assert_eq!(read(folder.path(), &listing.files[0]).unwrap_err(), SkipReason::Binary);
        assert_eq!(read(folder.path(), &listing.files[1]).unwrap().bytes, b"x = 1");
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
        assert!(read(base_folder(&root).unwrap(), &listing.files[0]).is_ok());
    }

    #[test]
    fn a_missing_root_is_named() {
        let error = list(Path::new("no/such/folder"), &WalkOptions::default()).unwrap_err();
        assert!(error.to_string().starts_with("no/such/folder: no such file"), "{error}");
    }

    #[test]
    fn paths_tell_what_files_are_for() {
        for (path, expected) in [
            ("src/client.rs", FileFlags::empty()),
            ("src/test_client.py", FileFlags::TEST),
            ("src/client_test.go", FileFlags::TEST),
            ("src/ClientTest.java", FileFlags::TEST),
            ("src/TestBed.java", FileFlags::empty()),
            ("src/client.test.ts", FileFlags::TEST),
            ("src/contest.py", FileFlags::empty()),
            ("tests/client.rs", FileFlags::TEST),
            ("Tests/Client.cs", FileFlags::TEST),
            ("examples/hello/main.go", FileFlags::EXAMPLE),
            ("api/service.pb.go", FileFlags::GENERATED),
            ("vendor/a/b.go", FileFlags::VENDORED),
            ("docs/conf.py", FileFlags::DOCUMENTATION),
            ("README.md", FileFlags::DOCUMENTATION),
            ("types/index.d.ts", FileFlags::TYPE_STUB),
            ("vendor/x/tests/a.py", FileFlags::VENDORED.union(FileFlags::TEST)),
        ] {
            assert_eq!(path_flags(path), expected, "{path}");
        }
    }

    #[test]
    fn generated_code_is_known_by_its_first_lines() {
        let folder =
            tree(&[("a.go", "// Code generated by x. DO NOT EDIT.\npackage a\n"), ("b.go", "package b\n")]);
        let listing = list(folder.path(), &WalkOptions::default()).unwrap();
        let flags: Vec<_> =
            listing.files.iter().map(|file| read(folder.path(), file).unwrap().flags).collect();
        assert_eq!(flags, [FileFlags::GENERATED, FileFlags::empty()]);
    }
}
