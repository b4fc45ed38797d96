//! Reads files and writes the parts of an index.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_embed::StaticModel;
use quarry_files::Directory;
use quarry_source::{Language, Unit};
use quarry_text::counted;
use quarry_walk::{self as walk, Content, FileFlags, ListedFile, Skipped, WalkOptions};
use rayon::prelude::*;

use crate::calls;
use crate::lexical::{LexicalIndex, LexicalText, Terms};
use crate::ranking::rules::{self, path_parts};
use crate::storage::content_hash::content_hash;
use crate::storage::table::{
    FileRecord, LEXICAL_DIRECTORY, NewUnit, PartBuilder, PartSize, UnitRecord, open_directory,
};
use crate::vectors::embedding_text::{embedding_text, hash_of};
use crate::{Error, Event};

/// Maximum size of the source of a part in bytes, unless one file is larger: a thread builds each part in memory.
const MAX_PART_BYTES: u64 = 16 << 20;
/// Parts smaller than this are not worth another thread.
const MIN_PART_BYTES: u64 = 2 << 20;
/// Minimum number of parts even with one thread: an interrupted build resumes with those that are finished.
const MIN_PARTS: usize = 16;

/// A part that was built and is not stored yet.
pub(crate) struct NewPart {
    pub records: PartBuilder,
    /// The terms of each row.
    pub texts: Vec<Terms>,
    /// Files that turned out not to be source files, or could not be read.
    pub skipped: Vec<Skipped>,
}

/// A written part, with the records of its files.
pub(crate) struct WrittenPart {
    pub size: PartSize,
    pub files: Vec<(FileRecord, Vec<UnitRecord>)>,
    /// The hash of the embedded text of each row.
    pub hashes: Vec<u128>,
    /// Files that turned out not to be source files, or could not be read.
    pub skipped: Vec<Skipped>,
}

/// A file that was read and split into units.
#[derive(Clone)]
pub(crate) struct Prepared<'a> {
    file: Cow<'a, ListedFile>,
    language: Language,
    flags: FileFlags,
    /// Hash of its content; 0 if it was skipped.
    hash: u64,
    text_bytes: usize,
    /// Its calls, to be stored.
    calls: Vec<u8>,
    units: Vec<PreparedUnit>,
    skipped: Option<Skipped>,
}

/// The data to record for a unit.
#[derive(Clone)]
struct PreparedUnit {
    unit: Unit,
    /// Hash of the embedding text.
    hash: u128,
    /// Tokens of the embedding text, in the vocabulary of the built-in model.
    tokens: Vec<u16>,
    terms: Terms,
}

/// Size of the parts of a tree with `total` bytes of source.
pub(crate) fn part_bytes(total: u64) -> u64 {
    let n_parts = rayon::current_num_threads().max(MIN_PARTS) as u64;
    total.div_ceil(n_parts).clamp(MIN_PART_BYTES, MAX_PART_BYTES)
}

/// Splits a list of files into one list for each part: at least one part per thread, within size limits.
pub(crate) fn batches<'f, 'a>(
    files: &'f [&'a ListedFile],
    options: &WalkOptions,
) -> Vec<&'f [&'a ListedFile]> {
    let total: u64 = files.iter().map(|file| file.max_text_bytes(options)).sum();
    let wanted = part_bytes(total);
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, file) in files.iter().enumerate() {
        bytes += file.max_text_bytes(options);
        if bytes >= wanted {
            batches.push(&files[start..=at]);
            (start, bytes) = (at + 1, 0);
        }
    }
    if start < files.len() {
        batches.push(&files[start..]);
    }
    batches
}

/// Reads files and writes a part for each batch of them; `names` are the names of their empty directories, `first`
/// the number of the first one. Each is passed to `written` when it is finished, from several threads.
///
/// # Errors
/// When a directory cannot be written, or `written` fails.
pub(crate) fn write_parts(
    (base, options): (&Directory, &WalkOptions),
    batches: &[&[&ListedFile]],
    index: &Directory,
    names: &[String],
    first: u16,
    written: &(dyn Fn(&WrittenPart) -> Result<(), Error> + Sync),
    events: &(dyn Fn(Event) + Sync),
) -> Result<Vec<WrittenPart>, Error> {
    let keep = |number: usize, part: NewPart| {
        let part = part.write(index, &names[number])?;
        written(&part)?;
        Ok(part)
    };
    make_parts((base, options), batches, first, &keep, events)
}

/// Reads files, builds a part from each batch and passes it to `keep` with the number of the batch; `first` is the
/// number of the first part. Every file has a record, even one without units that is not a source file, so that the
/// table can tell whether the tree has changed.
///
/// # Errors
/// When a part is too large, or `keep` fails.
pub(crate) fn make_parts<T: Send>(
    (base, options): (&Directory, &WalkOptions),
    batches: &[&[&ListedFile]],
    first: u16,
    keep: &(dyn Fn(usize, NewPart) -> Result<T, Error> + Sync),
    events: &(dyn Fn(Event) + Sync),
) -> Result<Vec<T>, Error> {
    let total = batches.iter().map(|batch| batch.len()).sum();
    let done = AtomicUsize::new(0);
    let make = |(number, batch): (usize, &&[&ListedFile])| {
        let part = u16::try_from(usize::from(first) + number).map_err(|_| Error::TooLarge)?;
        let read = |file| {
            let prepared = prepare(base, options, file);
            events(Event::Read { done: done.fetch_add(1, Ordering::Relaxed) + 1, total });
            prepared
        };
        keep(number, NewPart::new(batch.par_iter().copied().map(read).collect(), part)?)
    };
    let mut made = Vec::with_capacity(batches.len());
    let all: Vec<_> = batches.iter().enumerate().collect();
    // A thread that waits for its batch starts another one: rounds limit how many are in memory at a time.
    for round in all.chunks(rayon::current_num_threads()) {
        let parts: Vec<_> = round.par_iter().map(|&work| make(work)).collect::<Result<_, Error>>()?;
        made.extend(parts);
    }
    Ok(made)
}

fn prepare<'a>(base: &Directory, options: &WalkOptions, file: &'a ListedFile) -> Prepared<'a> {
    match walk::read(base, file, options) {
        Ok(content) => Prepared::new(file, &content),
        Err(reason) => {
            let skipped = Some(Skipped { path: file.path.clone(), reason });
            Prepared { skipped, ..Prepared::empty(file) }
        }
    }
}

impl<'a> Prepared<'a> {
    fn empty(file: &'a ListedFile) -> Self {
        Self {
            file: Cow::Borrowed(file),
            language: file.language,
            flags: file.flags,
            hash: 0,
            text_bytes: 0,
            calls: Vec::new(),
            units: Vec::new(),
            skipped: None,
        }
    }

    /// The same with a copy of what describes the file.
    pub fn owned(self) -> Prepared<'static> {
        let Self { file, language, flags, hash, text_bytes, calls, units, skipped } = self;
        let file = Cow::Owned(file.into_owned());
        Prepared { file, language, flags, hash, text_bytes, calls, units, skipped }
    }

    pub fn new(file: &'a ListedFile, content: &Content) -> Self {
        let (text, bytes) = (&content.text, content.text.bytes());
        // The name alone may match two languages.
        let language = quarry_source::language_for(file.path.as_ref(), bytes).unwrap_or(file.language);
        let (extraction, references) = text.extract_with_references(language);
        let mut units = extraction.units;
        let mut flags = content.flags;
        flags.set(FileFlags::REEXPORT, rules::is_reexport(&file.path, units.iter().map(|unit| unit.kind)));
        units.retain(|unit| unit.has_words(bytes));
        let parts = path_parts(&file.path);
        let vocabulary = StaticModel::builtin();
        let prepared = |unit: Unit| {
            let source = String::from_utf8_lossy(&bytes[unit.bytes.clone()]);
            let embedded = embedding_text(&file.path, &unit.name, &source);
            let (hash, tokens) = (hash_of(&embedded), vocabulary.token_ids(&embedded));
            let terms = Terms::new(&LexicalText {
                name: &unit.name,
                file: parts.stem,
                directory: parts.directory,
                doc: &unit.doc,
                body: Cow::Owned(body(bytes, &unit)),
                symbol: rules::symbol(unit.kind, &unit.name, &unit.signature),
            });
            PreparedUnit { unit, hash, tokens, terms }
        };
        Self {
            language,
            flags,
            hash: content_hash(text),
            text_bytes: bytes.len(),
            calls: calls::stored(&references, language, bytes),
            units: units.into_iter().map(prepared).collect(),
            ..Self::empty(file)
        }
    }
}

/// The source of a unit without its doc.
fn body(bytes: &[u8], unit: &Unit) -> String {
    let mut body = String::new();
    let mut start = unit.bytes.start;
    // The doc of a unit that was split into parts can extend beyond its first part.
    for doc in unit.doc_bytes.iter().filter(|doc| doc.start >= unit.bytes.start && doc.end <= unit.bytes.end)
    {
        body.push_str(&String::from_utf8_lossy(&bytes[start..doc.start]));
        start = doc.end;
    }
    body.push_str(&String::from_utf8_lossy(&bytes[start..unit.bytes.end]));
    body
}

impl NewPart {
    /// The part with this number, of some files.
    ///
    /// # Errors
    /// When it is too large.
    pub fn new(prepared: Vec<Prepared>, part: u16) -> Result<Self, Error> {
        let mut new = Self { records: PartBuilder::new(part), texts: Vec::new(), skipped: Vec::new() };
        for file in prepared {
            let content = (file.hash, file.text_bytes);
            new.records.push_file(&file.file, file.language, file.flags, content, &file.calls)?;
            for PreparedUnit { unit, hash, tokens, terms } in file.units {
                let record = NewUnit {
                    hash,
                    tokens: &tokens,
                    kind: unit.kind,
                    language: unit.language,
                    is_test: unit.is_test,
                    name: &unit.name,
                    signature: &unit.signature,
                    lines: (unit.start_line, unit.end_line),
                    bytes: position(unit.bytes.start)?..position(unit.bytes.end)?,
                };
                new.records.push_unit(&record, &terms.n_terms)?;
                new.texts.push(terms);
            }
            new.skipped.extend(file.skipped);
        }
        Ok(new)
    }

    fn write(self, index: &Directory, name: &str) -> Result<WrittenPart, Error> {
        let Self { records, texts, skipped } = self;
        let directory = open_directory(index, name)?;
        let lexical = directory.create_directory(LEXICAL_DIRECTORY.as_ref());
        let lexical = lexical
            .map_err(|source| Error::io("create", &directory.path().join(LEXICAL_DIRECTORY), source))?;
        LexicalIndex::create(lexical, texts)?;
        let size = records.write(&directory, name.to_owned())?;
        Ok(WrittenPart { size, files: records.files, hashes: records.hashes, skipped })
    }
}

fn position(byte: usize) -> Result<u32, Error> {
    u32::try_from(byte).map_err(|_| Error::TooLarge)
}

/// The error for a tree without units, which says what it contains instead: `skipped` files, ascending by path, and
/// others of `listed` without words.
pub(crate) fn empty_tree_error(
    root: &Path,
    walk: &WalkOptions,
    listed: &[ListedFile],
    skipped: &[Skipped],
) -> Error {
    let error = |reason| Error::NothingToIndex { root: root.to_owned(), reason };
    if root.is_file() {
        let is_empty = listed.first().is_none_or(|file| file.stamp.bytes == 0);
        return error(match skipped.first() {
            Some(file) => format!("it is {}", file.reason),
            None if is_empty => "it is empty".to_owned(),
            None => "it has no words".to_owned(),
        });
    }
    let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for Skipped { path, reason } in skipped {
        by_reason.entry(reason.to_string()).or_default().push(path);
    }
    let mut reasons: Vec<String> = by_reason
        .into_iter()
        .map(|(reason, paths)| format!("skipped {} {reason} (such as {})", paths.len(), paths[0]))
        .collect();
    let is_read = |file: &&ListedFile| skipped.binary_search_by(|other| other.path.cmp(&file.path)).is_err();
    let wordless: Vec<&ListedFile> = listed.iter().filter(is_read).collect();
    if let [first, ..] = wordless[..] {
        reasons.push(format!("{} without words (such as {})", counted(wordless.len(), "file"), first.path));
    }
    match walk::count_excluded(root, walk) {
        0 => {}
        n => reasons.push(format!("{n} hidden or ignored (--hidden and --no-ignore include them)")),
    }
    let reason = if reasons.is_empty() { "it contains no files".to_owned() } else { reasons.join(", ") };
    error(reason)
}
