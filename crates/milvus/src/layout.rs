//! Keys and values that are stored.
//!
//! In [`Space::Trees`] each tree has its head, which names the state of the tree, and, while it is being written, a
//! note by the writer. In [`Space::Records`] are states, lists of files, counts of terms, and files, all under hashes
//! of their contents. A text longer than a record is cut into pieces: the first has the key and the number of pieces,
//! the others have `/` and their number after the key.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use quarry_index::lexical::Bm25f;
use quarry_index::{PortableFile, PortableUnit, RankingWeights, Totals};
use quarry_source::UnitKind;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::{Engine, EngineError, Record, Space, UnitRow};

/// Version of the stored format.
const FORMAT: u32 = 1;

/// Maximum size of a record's text that is accepted, in bytes.
const MAX_TEXT_BYTES: u64 = 256 << 20;

/// Number of pieces that are requested at once.
const PIECES_AT_ONCE: usize = 200;

/// By its hash, one in this many files or terms begins a new list, so a change leaves all other lists unchanged.
const FILES_PER_LIST: u64 = 512;
const TERMS_PER_LIST: u64 = 2048;

/// Lengths of fields that weights of terms are computed with: about the means of sources. Those of the trees change with
/// every file, and weights are for finding candidates only.
const MEAN_LENGTHS: [f32; 5] = [3.0, 2.0, 5.0, 14.0, 50.0];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    format: u32,
    /// Key of its state.
    pub state: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TreeState {
    /// Path that it was indexed from.
    pub root: String,
    /// Id of its model.
    pub model: String,
    pub totals: Totals,
    /// Keys of the lists of its files, in the order of paths.
    pub files: Vec<String>,
    /// The first term and the key of each list of terms, in their order.
    pub terms: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    pub path: String,
    /// Key of its record.
    pub key: String,
}

/// The number of units and files in which each term occurs, ascending by term.
pub(crate) type TermList = Vec<(String, u64, u64)>;

pub(crate) fn head_key(tree: &str) -> String {
    format!("tree/{tree}")
}

pub(crate) fn writer_key(tree: &str) -> String {
    format!("writer/{tree}")
}

pub(crate) fn tree_of_head(key: &str) -> Option<&str> {
    key.strip_prefix("tree/")
}

impl Head {
    pub(crate) fn new(state: String) -> Self {
        Self { format: FORMAT, state }
    }

    pub(crate) fn record(&self, tree: &str) -> Record {
        let value = serde_json::to_string(self).unwrap_or_default();
        Record { key: head_key(tree), tree: tree.to_owned(), value }
    }

    pub(crate) fn read(record: &Record) -> Result<Self, EngineError> {
        let head: Self = serde_json::from_str(&record.value).map_err(|error| damaged(&record.key, error))?;
        if head.format != FORMAT {
            let problem = format!("expected format {FORMAT}, found {}", head.format);
            return Err(EngineError::Damaged { key: record.key.clone(), problem });
        }
        Ok(head)
    }
}

/// Returns whether a text may be the name of a tree, which becomes part of keys and filters.
pub(crate) fn is_name(tree: &str) -> bool {
    (1..=200).contains(&tree.len()) && !tree.contains(|c: char| c.is_control() || "\"'\\/%".contains(c))
}

/// A text with the key that is a hash of it and its tree.
pub(crate) fn hashed<T: Serialize>(tree: &str, value: &T) -> (String, Vec<u8>) {
    let text = serde_json::to_vec(value).unwrap_or_default();
    (key_of(tree, &text), text)
}

fn key_of(tree: &str, content: &[u8]) -> String {
    format!("{:032x}", xxh3_128(&[tree.as_bytes(), b"\n", content].concat()))
}

pub(crate) fn file_key(tree: &str, content: u128) -> String {
    key_of(tree, format!("file {FORMAT} {content:032x}").as_bytes())
}

/// The records of a text, the first one last.
pub(crate) fn pieces(tree: &str, key: &str, text: &[u8]) -> Vec<Record> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory cannot fail.
    let packed = encoder.write_all(text).and_then(|()| encoder.finish()).unwrap_or_default();
    let packed = STANDARD_NO_PAD.encode(packed);
    let pieces: Vec<&[u8]> = packed.as_bytes().chunks(Record::MAX_BYTES - 16).collect();
    let n = pieces.len();
    let records = pieces.into_iter().enumerate().map(|(number, piece)| {
        let piece = String::from_utf8_lossy(piece);
        let (key, value) = match number {
            0 => (key.to_owned(), format!("{n}\n{piece}")),
            number => (format!("{key}/{number}"), piece.into_owned()),
        };
        Record { key, tree: tree.to_owned(), value }
    });
    let mut records: Vec<Record> = records.collect();
    records.reverse();
    records
}

/// The texts under some keys, with the number of bytes that each takes in the engine. Keys without a whole text are
/// missing.
pub(crate) fn read(
    engine: &dyn Engine,
    keys: &[String],
) -> Result<BTreeMap<String, (Vec<u8>, usize)>, EngineError> {
    let mut first: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut others = Vec::new();
    for keys in keys.chunks(PIECES_AT_ONCE) {
        for record in engine.get(Space::Records, keys)? {
            let Some((n, piece)) = record.value.split_once('\n') else { continue };
            let n: usize = n.parse().map_err(|error| damaged(&record.key, error))?;
            others.extend(
                (1..n.min(MAX_TEXT_BYTES as usize / Record::MAX_BYTES))
                    .map(|number| format!("{}/{number}", record.key)),
            );
            first.insert(record.key, (n, piece.to_owned()));
        }
    }
    let mut rest: BTreeMap<String, String> = BTreeMap::new();
    for keys in others.chunks(PIECES_AT_ONCE) {
        rest.extend(engine.get(Space::Records, keys)?.into_iter().map(|record| (record.key, record.value)));
    }
    let mut texts = BTreeMap::new();
    for (key, (n, mut packed)) in first {
        let whole = (1..n).all(|number| {
            let piece = rest.get(&format!("{key}/{number}"));
            packed.push_str(piece.map_or("", String::as_str));
            piece.is_some()
        });
        if !whole {
            continue;
        }
        let bytes = STANDARD_NO_PAD.decode(&packed).map_err(|error| damaged(&key, error))?;
        let mut text = Vec::new();
        let mut decoder = DeflateDecoder::new(bytes.as_slice()).take(MAX_TEXT_BYTES);
        decoder.read_to_end(&mut text).map_err(|error| damaged(&key, error))?;
        texts.insert(key, (text, packed.len()));
    }
    Ok(texts)
}

pub(crate) fn parsed<T: DeserializeOwned>(key: &str, text: &[u8]) -> Result<T, EngineError> {
    serde_json::from_slice(text).map_err(|error| damaged(key, error))
}

fn damaged(key: &str, error: impl ToString) -> EngineError {
    EngineError::Damaged { key: key.to_owned(), problem: error.to_string() }
}

/// The state of a tree, if there is one.
pub(crate) fn state(engine: &dyn Engine, head: &Head) -> Result<Option<TreeState>, EngineError> {
    let text = read(engine, std::slice::from_ref(&head.state))?.remove(&head.state);
    text.map(|(text, _)| parsed(&head.state, &text)).transpose()
}

/// The files of a tree, if all lists are there.
pub(crate) fn files(engine: &dyn Engine, state: &TreeState) -> Result<Option<Vec<FileEntry>>, EngineError> {
    let mut lists = read(engine, &state.files)?;
    let mut files = Vec::new();
    for key in &state.files {
        let Some((text, _)) = lists.remove(key) else { return Ok(None) };
        files.extend(parsed::<Vec<FileEntry>>(key, &text)?);
    }
    Ok(Some(files))
}

/// Cuts a sequence where its members begin new lists.
pub(crate) fn file_lists(files: &[FileEntry]) -> Vec<&[FileEntry]> {
    lists(files, FILES_PER_LIST, |file| &file.path)
}

pub(crate) fn term_lists(terms: &[(String, u64, u64)]) -> Vec<&[(String, u64, u64)]> {
    lists(terms, TERMS_PER_LIST, |(term, _, _)| term)
}

fn lists<T>(all: &[T], per_list: u64, name: impl Fn(&T) -> &str) -> Vec<&[T]> {
    let (mut lists, mut start) = (Vec::new(), 0);
    for (at, member) in all.iter().enumerate() {
        let is_long = at - start >= 8 * per_list as usize;
        if at > start && (is_long || xxh3_64(name(member).as_bytes()).is_multiple_of(per_list)) {
            lists.push(&all[start..at]);
            start = at;
        }
    }
    lists.extend((start < all.len()).then(|| &all[start..]));
    lists
}

/// The rows of a file's units.
pub(crate) fn rows(tree: &str, key: &str, file: &PortableFile, dimension: usize) -> Vec<UnitRow> {
    let parameters = parameters();
    let row = |(number, unit): (usize, &PortableUnit)| UnitRow {
        key: format!("{key}/{number}"),
        file: key.to_owned(),
        tree: tree.to_owned(),
        path: start_of(&file.path, 1000).to_owned(),
        language: unit.language.clone(),
        kind: kind_text(unit.kind()),
        symbol: start_of(&unit.symbol, 500).to_owned(),
        dense: unit.vector().unwrap_or_else(|| vec![0.0; dimension]),
        sparse: sparse(unit.term_weights(&parameters, &MEAN_LENGTHS)),
    };
    file.units.iter().enumerate().map(row).collect()
}

pub(crate) fn kind_text(kind: UnitKind) -> String {
    format!("{kind:?}").to_lowercase()
}

/// The parameters that weights of terms are computed with.
pub(crate) fn parameters() -> Bm25f {
    RankingWeights::default().bm25f
}

/// Weights by the numbers of terms, ascending; never empty, because engines do not store empty lists.
pub(crate) fn sparse<'a>(weights: impl IntoIterator<Item = (&'a str, f32)>) -> Vec<(u32, f32)> {
    let mut by_number: BTreeMap<u32, f32> = BTreeMap::new();
    for (term, weight) in weights {
        // Below the largest number that Milvus accepts; 0 is left unused.
        let number = 1 + (xxh3_64(term.as_bytes()) as u32 & 0x7fff_ffff);
        *by_number.entry(number).or_default() += weight;
    }
    if by_number.is_empty() {
        by_number.insert(0, f32::MIN_POSITIVE);
    }
    by_number.into_iter().collect()
}

/// The first bytes of a text, at most this many.
pub(crate) fn start_of(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryEngine;

    #[test]
    fn texts_of_any_length_round_trip() {
        let engine = MemoryEngine::default();
        let mut state = 1_u32;
        let noise: Vec<u8> = (0..300_000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        let texts = [b"".to_vec(), b"short".to_vec(), noise];
        let keys: Vec<String> = (0..texts.len()).map(|n| format!("key{n}")).collect();
        for (key, text) in keys.iter().zip(&texts) {
            let records = pieces("t", key, text);
            assert!(records.iter().all(|record| record.value.len() <= Record::MAX_BYTES));
            engine.put(Space::Records, &records).unwrap();
        }
        assert!(engine.sizes().0 > 5, "the long one is cut");
        let found = read(&engine, &keys).unwrap();
        assert!(keys.iter().zip(&texts).all(|(key, text)| found[key].0 == *text));
        // One that is not whole is not there.
        engine.delete(Space::Records, &["key2/3".to_owned()]).unwrap();
        assert_eq!(read(&engine, &keys).unwrap().len(), 2);
        let wrong = Record { key: "key0".to_owned(), tree: "t".to_owned(), value: "1\n?".to_owned() };
        engine.put(Space::Records, &[wrong]).unwrap();
        assert!(matches!(read(&engine, &keys), Err(EngineError::Damaged { .. })));
    }

    #[test]
    fn a_change_leaves_other_lists_as_they_were() {
        let entry = |n: usize| FileEntry { path: format!("src/{n:05}.rs"), key: "k".to_owned() };
        let mut files: Vec<FileEntry> = (0..5000).map(entry).collect();
        let before: Vec<Vec<FileEntry>> = file_lists(&files).into_iter().map(<[_]>::to_vec).collect();
        assert!(before.len() > 3 && before.concat() == files);
        files.remove(2500);
        let after = file_lists(&files);
        let same = after.iter().filter(|list| before.iter().any(|known| known == *list)).count();
        assert!(same + 2 >= before.len(), "{same} of {}", before.len());
        assert!(file_lists(&[]).is_empty());
    }

    #[test]
    fn names_fit_into_keys_and_filters() {
        assert!(is_name("shop") && is_name("my tree-2.0") && is_name("日本"));
        for wrong in ["", "a\"b", "a/b", "a\nb", "a%", "a\\"] {
            assert!(!is_name(wrong), "{wrong:?}");
        }
        assert!(!is_name(&"x".repeat(201)));
    }
}
