//! From a tree to a generation of its index.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_corpus::walk::{self, FileFlags, ListedFile, Listing, Skipped};
use quarry_embed::Embedder;
use quarry_source::{Language, Unit};
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_128;

use crate::lexical::{LexicalIndex, LexicalText};
use crate::rules::{self, Place, place};
use crate::table::{NewUnit, TableBuilder, TableSize};
use crate::vectors::{Rows, VectorMatrix};
use crate::{Error, Event};

/// Units that are embedded in one call.
const EMBED_BATCH: usize = 256;

pub(crate) const LEXICAL_FOLDER: &str = "lexical";

/// A file that was read and cut into units.
pub(crate) struct Prepared<'a> {
    file: &'a ListedFile,
    language: Language,
    flags: FileFlags,
    bytes: Vec<u8>,
    units: Vec<Unit>,
    /// Of each unit, the hash of its embedding text.
    hashes: Vec<u128>,
    place: Place<'a>,
}

/// The text that a model embeds for a unit: a line of the words of the file's path and of the qualified name, then
/// the unit's source.
#[must_use]
pub fn embedding_text(path: &str, name: &str, source: &str) -> String {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    let words =
        |text| quarry_text::identifiers(text).flat_map(quarry_text::parts).collect::<Vec<_>>().join(" ");
    format!("{} {}\n{source}", words(stem), words(name))
}

/// A generation that was written.
pub(crate) struct Built {
    pub size: TableSize,
    pub skipped: Vec<Skipped>,
    pub n_embedded: usize,
}

/// Reads the listed files and writes their index into an empty folder. Vectors of units that `reusable` knows by
/// the hash of their embedding text are copied instead of being made again.
///
/// # Errors
/// When no file has a unit, the model fails, or the folder cannot be written.
pub(crate) fn build(
    root: &Path,
    base: &Path,
    listing: &Listing,
    folder: &Path,
    embedder: Option<&dyn Embedder>,
    reusable: &Reusable,
    events: &(dyn Fn(Event) + Sync),
) -> Result<Built, Error> {
    let (prepared, skipped) = prepare(base, listing, events);
    let mut skipped = [listing.skipped.clone(), skipped].concat();
    skipped.sort_by(|a, b| a.path.cmp(&b.path));
    if prepared.iter().all(|file| file.units.is_empty()) {
        return Err(nothing_to_index(root, &skipped));
    }
    let (written, embedded) = rayon::join(
        || write_table_and_postings(&prepared, folder),
        || match embedder {
            Some(embedder) => embed(&prepared, embedder, reusable, events).map(Some),
            None => Ok(None),
        },
    );
    let mut n_embedded = 0;
    if let Some(embedded) = embedded? {
        embedded.rows.write(folder)?;
        n_embedded = embedded.n_embedded;
    }
    Ok(Built { size: written?, skipped, n_embedded })
}

/// Vectors of the former generation.
#[derive(Default)]
pub(crate) struct Reusable {
    rows: HashMap<u128, usize>,
    matrix: Option<VectorMatrix>,
}

impl Reusable {
    /// Row `i` of `matrix` belongs to the `i`-th hash.
    pub fn new(hashes: impl IntoIterator<Item = u128>, matrix: VectorMatrix) -> Self {
        let rows = hashes.into_iter().enumerate().map(|(row, hash)| (hash, row)).collect();
        Self { rows, matrix: Some(matrix) }
    }

    fn get(&self, hash: u128) -> Option<(&VectorMatrix, usize)> {
        Some((self.matrix.as_ref()?, *self.rows.get(&hash)?))
    }
}

/// Reads and cuts files in parallel; those that turn out not to be sources come back as skipped. Every listed file
/// has an entry, in order, so that the table can tell whether the tree is still the same.
fn prepare<'a>(
    base: &Path,
    listing: &'a Listing,
    events: &(dyn Fn(Event) + Sync),
) -> (Vec<Prepared<'a>>, Vec<Skipped>) {
    let (done, total) = (AtomicUsize::new(0), listing.files.len());
    let prepare_one = |file: &'a ListedFile| {
        let read = walk::read(base, file);
        events(Event::Read { done: done.fetch_add(1, Ordering::Relaxed) + 1, total });
        let content = read.map_err(|reason| Skipped { path: file.path.clone(), reason });
        let (prepared, skipped) = match content {
            Ok(content) => (Prepared::new(file, content), None),
            Err(skipped) => (Prepared::empty(file), Some(skipped)),
        };
        (prepared, skipped)
    };
    let (prepared, skipped): (Vec<_>, Vec<_>) = listing.files.par_iter().map(prepare_one).unzip();
    (prepared, skipped.into_iter().flatten().collect())
}

impl<'a> Prepared<'a> {
    fn new(file: &'a ListedFile, content: walk::Content) -> Self {
        // The name may leave open which of two languages it is.
        let language =
            quarry_source::language_for(file.path.as_ref(), &content.bytes).unwrap_or(file.language);
        let units = quarry_source::extract(language, &content.bytes).units;
        let mut prepared =
            Self { language, flags: content.flags, bytes: content.bytes, units, ..Self::empty(file) };
        let kinds = prepared.units.iter().map(|unit| unit.kind);
        prepared.flags.set(FileFlags::REEXPORT, rules::is_reexport(&file.path, kinds));
        let hash = |unit| xxh3_128(prepared.embedding_text(unit).as_bytes());
        prepared.hashes = prepared.units.iter().map(hash).collect();
        prepared
    }

    fn empty(file: &'a ListedFile) -> Self {
        let (flags, place) = (FileFlags::default(), place(&file.path));
        let language = file.language;
        Self { file, language, flags, bytes: Vec::new(), units: Vec::new(), hashes: Vec::new(), place }
    }

    fn source(&self, unit: &Unit) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes[unit.bytes.clone()])
    }

    fn embedding_text(&self, unit: &Unit) -> String {
        embedding_text(&self.file.path, &unit.name, &self.source(unit))
    }

    /// The source of a unit without its doc.
    fn body(&self, unit: &Unit) -> String {
        let mut body = String::new();
        let mut start = unit.bytes.start;
        // The doc of a unit that was cut into parts can reach beyond its first part.
        for doc in
            unit.doc_bytes.iter().filter(|doc| doc.start >= unit.bytes.start && doc.end <= unit.bytes.end)
        {
            body.push_str(&String::from_utf8_lossy(&self.bytes[start..doc.start]));
            start = doc.end;
        }
        body.push_str(&String::from_utf8_lossy(&self.bytes[start..unit.bytes.end]));
        body
    }
}

fn write_table_and_postings(prepared: &[Prepared], folder: &Path) -> Result<TableSize, Error> {
    let mut table = TableBuilder::default();
    for file in prepared {
        let ListedFile { path, bytes, modified_ns, .. } = file.file;
        table.push_file(path, file.language.name(), *bytes, *modified_ns, file.flags)?;
        for (unit, &hash) in file.units.iter().zip(&file.hashes) {
            table.push_unit(&NewUnit {
                hash,
                kind: unit.kind,
                name: &unit.name,
                signature: &unit.signature,
                lines: (unit.start_line, unit.end_line),
                bytes: position(unit.bytes.start)?..position(unit.bytes.end)?,
            })?;
        }
    }
    let lexical = folder.join(LEXICAL_FOLDER);
    fs::create_dir(&lexical).map_err(|source| Error::io("create", &lexical, source))?;
    let texts = prepared.iter().flat_map(|file| {
        file.units.iter().map(|unit| LexicalText {
            name: &unit.name,
            file: file.place.stem,
            folder: file.place.folder,
            doc: &unit.doc,
            body: Cow::Owned(file.body(unit)),
        })
    });
    LexicalIndex::create(&lexical, texts)?;
    table.write(folder)
}

fn position(byte: usize) -> Result<u32, Error> {
    u32::try_from(byte).map_err(|_| Error::TooLarge)
}

struct Embedded {
    rows: Rows,
    n_embedded: usize,
}

/// Vectors of all units, in order.
fn embed<'p>(
    prepared: &'p [Prepared<'p>],
    embedder: &dyn Embedder,
    reusable: &Reusable,
    events: &(dyn Fn(Event) + Sync),
) -> Result<Embedded, Error> {
    let with_file = |file: &'p Prepared<'p>| {
        file.units.iter().zip(&file.hashes).map(move |(unit, hash)| (file, unit, *hash))
    };
    let units: Vec<(&Prepared, &Unit, u128)> = prepared.iter().flat_map(with_file).collect();
    let mut rows = Rows::new(embedder.dimension());
    let mut n_embedded = 0;
    for (batch_number, batch) in units.chunks(EMBED_BATCH).enumerate() {
        let new: Vec<_> = batch.par_iter().filter(|(.., hash)| reusable.get(*hash).is_none()).collect();
        let texts: Vec<String> = new.par_iter().map(|(file, unit, _)| file.embedding_text(unit)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = embedder.embed_documents(&texts)?;
        let mut new_rows = vectors.values.chunks_exact(vectors.dimension.max(1));
        for (.., hash) in batch {
            match reusable.get(*hash) {
                Some((matrix, row)) => rows.push_quantised(matrix, row),
                None => rows.push(new_rows.next().unwrap_or_default()),
            }
        }
        n_embedded += new.len();
        events(Event::Embedded { done: batch_number * EMBED_BATCH + batch.len(), total: units.len() });
    }
    Ok(Embedded { rows, n_embedded })
}

/// Says what a tree holds instead of sources.
fn nothing_to_index(root: &Path, skipped: &[Skipped]) -> Error {
    let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for Skipped { path, reason } in skipped {
        by_reason.entry(reason.to_string()).or_default().push(path);
    }
    let mut reasons: Vec<String> = by_reason
        .into_iter()
        .map(|(reason, paths)| format!("skipped {} {reason} (such as {})", paths.len(), paths[0]))
        .collect();
    match walk::count_excluded(root) {
        0 => {}
        n => reasons.push(format!("{n} hidden or excluded by ignore files")),
    }
    let reason = if reasons.is_empty() { "it holds no files".to_owned() } else { reasons.join(", ") };
    Error::NothingToIndex { root: root.to_owned(), reason }
}
