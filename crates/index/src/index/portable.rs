//! Files of an index as values, to be kept elsewhere, and an index of some files that come from there.
//!
//! Such an index ranks with the same code as one on disk. It holds a few files of many, so the numbers that a ranking
//! needs of all of them come from outside: [`Totals`], and [`TermCounts`] for the terms of a query.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use quarry_embed::Embedder;
use quarry_source::SourceText;
use quarry_walk::WalkOptions;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::index::Dense;
use crate::index::roots::{Root, Tree};
use crate::index::scope::Scope;
use crate::index::unindexed::UnindexedFiles;
use crate::lexical::{
    Bm25f, LexicalIndex, Part, TermCount, TermCounts, TermFrequencies, Terms, WholeCollection, term_weights,
};
use crate::storage::content_hash::content_hash;
use crate::storage::field_sizes::{FieldSizes, N_FIELDS};
use crate::storage::table::portable::{PortableFile, PortableUnit};
use crate::storage::table::{Numbering, PartBuilder, Table};
use crate::vectors::{Rows, UnitVectors};
use crate::version::PROGRAM;
use crate::{Error, Filter, Index};

impl PortableUnit {
    /// See [`term_weights`].
    pub fn term_weights(&self, parameters: &Bm25f, mean_lengths: &[f32; N_FIELDS]) -> Vec<(&str, f32)> {
        term_weights(&self.terms, parameters, mean_lengths)
    }
}

/// A file of an index, by what it is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileKey {
    /// Its row in the index.
    pub row: usize,
    /// Relative to its tree.
    pub path: String,
    /// Identifies path, content, this version of the program and the model: files with equal keys are equal as values.
    pub key: u128,
}

/// Numbers of all files of a tree, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of units.
    pub units: u64,
    /// Number of files.
    pub files: u64,
    /// Sum of the lengths of the files.
    text_bytes: u64,
    sizes: FieldSizes,
}

impl Totals {
    /// Adds those of another tree.
    pub fn add(&mut self, other: &Self) {
        self.units = self.units.saturating_add(other.units);
        self.files = self.files.saturating_add(other.files);
        self.text_bytes = self.text_bytes.saturating_add(other.text_bytes);
        self.sizes.add_all(&other.sizes);
    }
}

/// Some files of a tree.
pub struct PortableTree {
    /// Its number among the trees that are searched together.
    pub number: usize,
    /// The directory that its paths are relative to, wherever that is.
    pub root: PathBuf,
    /// Ascending by path, each once.
    pub files: Vec<Arc<PortableFile>>,
}

impl Index {
    /// The files that searches of the indexed path find, ascending by path.
    pub fn file_keys(&self) -> Vec<FileKey> {
        let model = self.dense.as_ref().map_or("", |dense| dense.embedder.id());
        let key = |row: usize| {
            let (_, path) = self.root_of(row)?;
            let file = &self.table.files[row];
            let content = format!("{PROGRAM}\n{model}\n{path}\n{}\n{}", file.hash, file.flags().bits());
            Some(FileKey { row, path: path.to_owned(), key: xxh3_128(content.as_bytes()) })
        };
        (0..self.table.files.len()).filter_map(key).collect()
    }

    /// The numbers of the [`file_keys`](Self::file_keys), and in how many of their units and of them each term occurs.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn totals(&self) -> Result<(Totals, BTreeMap<String, TermCount>), Error> {
        let is_found: Vec<bool> =
            (0..self.table.files.len()).map(|row| self.root_of(row).is_some()).collect();
        let mut totals = Totals::default();
        for (row, file) in self.table.files.iter().enumerate().filter(|(row, _)| is_found[*row]) {
            totals.units += self.units_of_files[row].len() as u64;
            totals.files += 1;
            totals.text_bytes += u64::from(file.text_bytes);
            totals.sizes.add(&file.n_terms, &file.n_texts);
        }
        let mut counts: BTreeMap<String, TermCount> = BTreeMap::new();
        self.lexical.for_each_part(|part, units| {
            let mut found = Vec::new();
            part.for_each_term(|term, occurrences| {
                found.clear();
                found.extend(
                    occurrences
                        .iter()
                        .filter_map(|occurrence| units.unit(occurrence.document as usize))
                        .filter(|&unit| is_found[self.file_of_unit[unit] as usize]),
                );
                found.sort_unstable();
                found.dedup();
                if found.is_empty() {
                    return;
                }
                let n_units = found.len() as u64;
                found.iter_mut().for_each(|unit| *unit = self.file_of_unit[*unit] as usize);
                found.dedup();
                let count = counts.entry(term.to_owned()).or_default();
                count.units += n_units;
                count.files += found.len() as u64;
            })
        })?;
        Ok((totals, counts))
    }

    /// Passes the files in some rows to `emit`, with their rows, in any order. Their texts are read from the tree.
    ///
    /// # Errors
    /// When a file has changed since it was indexed, the index cannot be read, or `emit` fails.
    pub fn export<E: From<Error>>(
        &self,
        rows: &[usize],
        mut emit: impl FnMut(usize, PortableFile) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut by_part: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &row in rows {
            by_part.entry(self.table.files[row].part()).or_default().push(row);
        }
        for (number, rows) in by_part {
            let mut of_units: HashMap<usize, (TermFrequencies, String)> = HashMap::new();
            for unit in rows.iter().flat_map(|row| self.units_of_files[*row].clone()) {
                of_units.insert(unit, Default::default());
            }
            let (part, units) = self.lexical.part(number)?;
            part.for_each_term(|term, occurrences| {
                for occurrence in occurrences {
                    let unit = units.unit(occurrence.document as usize);
                    if let Some((terms, _)) = unit.and_then(|unit| of_units.get_mut(&unit)) {
                        terms[occurrence.field].push((term.to_owned(), occurrence.frequency));
                    }
                }
            })?;
            for (document, symbol) in part.symbols()?.into_iter().enumerate() {
                let unit = units.unit(document);
                if let Some((_, known)) = unit.and_then(|unit| of_units.get_mut(&unit)) {
                    *known = symbol;
                }
            }
            for row in rows {
                let file = self.portable(row, &mut of_units)?;
                emit(row, file)?;
            }
        }
        Ok(())
    }

    fn portable(
        &self,
        row: usize,
        of_units: &mut HashMap<usize, (TermFrequencies, String)>,
    ) -> Result<PortableFile, Error> {
        let file = &self.table.files[row];
        let (root, path) = self.root_of(row).map_or((0, ""), |(root, path)| (root.number, path));
        // One that could not be read has no units, and nothing to show.
        let text = if file.hash == 0 { SourceText::plain(Vec::new()) } else { self.text_in(root, path)? };
        if file.hash != 0 && content_hash(&text) != file.hash {
            return Err(Error::Changed { path: path.to_owned() });
        }
        let mut units = Vec::new();
        for unit in self.units_of_files[row].clone() {
            let record = &self.table.units[unit];
            let (terms, symbol) = of_units.remove(&unit).unwrap_or_default();
            let hash = self.table.hash(record);
            let vector = match &self.dense {
                Some(dense) => dense.matrix.quantized(record.part_and_row())?,
                None => None,
            };
            units.push(PortableUnit {
                name: self.table.text(record.name).to_owned(),
                signature: self.table.text(record.signature).to_owned(),
                language: self.table.text(record.language).to_owned(),
                kind: record.kind_number(),
                is_test: record.is_test(),
                lines: (record.start_line, record.end_line),
                bytes: (record.start_byte, record.end_byte),
                hash: [(hash >> 64) as u64, hash as u64],
                tokens: self.table.tokens(record).to_vec(),
                symbol,
                terms,
                vector: vector.map(|(factor, values)| (factor.to_bits(), values)),
            });
        }
        Ok(PortableFile {
            path: path.to_owned(),
            language: self.table.text(file.language).to_owned(),
            flags: file.flags().bits(),
            text_bytes: file.text_bytes,
            notebook_lines: text.notebook_lines(),
            text: utf8_of_same_length(text.into_bytes()),
            units,
        })
    }

    /// An index of some files of some trees, which ranks as one of all their files would, as far as it holds them.
    /// `terms` are those that queries may have; others are known by their number only.
    ///
    /// # Errors
    /// When it is too large.
    pub fn from_portable(
        mut trees: Vec<PortableTree>,
        totals: &Totals,
        counts: Arc<dyn TermCounts>,
        embedder: Arc<dyn Embedder>,
        terms: &HashSet<String>,
    ) -> Result<Self, Error> {
        // Equal scores are in the order of paths, as in other indexes.
        trees.sort_by(|a, b| a.root.cmp(&b.root));
        let mut part = PartBuilder::new(0);
        let (mut of_index, mut files) = (Vec::new(), Vec::new());
        let mut texts = Vec::new();
        for tree in trees {
            let start = files.len();
            for file in &tree.files {
                part.push_portable(file)?;
                texts.extend(file.units.iter().map(|unit| {
                    Terms::with_frequencies(&unit.terms, &unit.symbol, |term| terms.contains(term))
                }));
            }
            files.extend(tree.files);
            let found =
                WalkOptions { max_bytes: u64::MAX, hidden: true, ignored: true, ..WalkOptions::default() };
            let (scope, filter) = (Scope::default(), Filter::default());
            let root = Root { number: tree.number, base: tree.root.clone(), scope, found, filter };
            of_index.push(Tree {
                base: tree.root,
                files: start..files.len(),
                unread: Vec::new(),
                others: UnindexedFiles::new(PathBuf::new()),
                roots: vec![root],
                stored: None,
                unsaved: HashMap::new(),
            });
        }
        let mut rows = Rows::missing(embedder.dimension(), texts.len());
        for (row, unit) in files.iter().flat_map(|file| &file.units).enumerate() {
            if let Some((factor, values)) = &unit.vector {
                rows.set_quantized(row, (f32::from_bits(*factor), values));
            }
        }
        let is_empty = texts.is_empty();
        let table = Table::in_memory(vec![part])?;
        let numbering = if is_empty {
            Arc::new(Numbering { n_units: 0, parts: Vec::new() })
        } else {
            Arc::new(table.numbering())
        };
        let parts = if is_empty { Vec::new() } else { vec![Part::in_memory(texts)?.into()] };
        let lexical = LexicalIndex::from_parts(parts, &numbering, &totals.sizes).within(WholeCollection {
            n_texts: totals.units as f32,
            n_groups: totals.files as f32,
            mean_group: totals.text_bytes as f32 / totals.files.max(1) as f32,
            counts,
        });
        let parts = if is_empty { Vec::new() } else { vec![rows.into_matrix().into()] };
        let dense = Some(Dense { embedder, matrix: UnitVectors { parts, numbering }, passages: Vec::new() });
        Ok(Self { carried: Some(files), ..Self::from_parts(of_index, table, lexical, dense, None) })
    }

    /// The id of its model and the number of columns of its vectors.
    pub fn model(&self) -> Option<(&str, usize)> {
        self.dense.as_ref().map(|dense| (dense.embedder.id(), dense.embedder.dimension()))
    }

    /// The vector of a unit; zeros if it has none.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn vector(&self, unit: usize) -> Result<Vec<f32>, Error> {
        let place = self.table.units[unit].part_and_row();
        self.dense.as_ref().map_or_else(|| Ok(Vec::new()), |dense| dense.matrix.vector(place))
    }
}

/// Bytes as text, in which those that are not UTF-8 are replaced by as many characters of one byte.
fn utf8_of_same_length(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let mut text = String::new();
        for chunk in error.as_bytes().utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| '?'));
        }
        text
    })
}
