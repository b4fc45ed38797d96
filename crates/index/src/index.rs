//! An open index, and the sources of its units.

pub(crate) mod entries;
pub(crate) mod filter;
pub(crate) mod hit;
pub(crate) mod indexed_file;
pub(crate) mod intact;
pub(crate) mod portable;
pub(crate) mod roots;
pub(crate) mod scope;
pub(crate) mod source;
pub(crate) mod unindexed;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use quarry_embed::Embedder;

use self::intact::OverwriteDetector;
use crate::lexical::LexicalIndex;
use crate::storage::index_directory::Manifest;
use crate::storage::segments::Segment;
use crate::storage::table::Table;
use crate::storage::table::portable::PortableFile;
use crate::vectors::UnitVectors;
use crate::vectors::passages::PassageVectors;

/// An index that is open for search. Its files are mapped; a later generation does not affect it.
pub struct Index {
    /// The indexed trees and the searched parts of them, ascending by the paths of the trees.
    pub(crate) trees: Vec<roots::Tree>,
    pub(crate) table: Table,
    pub(crate) lexical: LexicalIndex,
    pub(crate) dense: Option<Dense>,
    /// The tree and manifest that it was built from, if it is only in memory.
    pub(crate) in_memory: Option<Origin>,
    /// Its files, in the order of the table, if they are not read from trees.
    pub(crate) carried: Option<Vec<Arc<PortableFile>>>,
    /// Detects changes to its files; none if it has no files.
    pub(crate) intact: Option<OverwriteDetector>,
    /// The file of each unit, the units of each file and its size in bytes, for scoring files.
    pub(crate) file_of_unit: Vec<u32>,
    pub(crate) units_of_files: Vec<Range<usize>>,
    pub(crate) file_lengths: Vec<f32>,
}

pub(crate) struct Dense {
    pub embedder: Arc<dyn Embedder>,
    pub matrix: UnitVectors,
    /// The re-ranker's vectors of some units by part ([`Precomputation`](crate::Precomputation)); empty without one, or in
    /// memory.
    pub passages: Vec<Segment<PassageVectors>>,
}

/// The source of an index in memory, like the manifest of an index on disk.
pub(crate) struct Origin {
    pub root: PathBuf,
    pub manifest: Manifest,
}

impl Index {
    /// An index of some trees, without searched paths yet.
    pub(crate) fn from_parts(
        trees: Vec<roots::Tree>,
        table: Table,
        lexical: LexicalIndex,
        dense: Option<Dense>,
        in_memory: Option<Origin>,
    ) -> Self {
        Self {
            trees,
            file_of_unit: table.units.iter().map(|unit| unit.file).collect(),
            units_of_files: table.units_of_files(),
            file_lengths: table.files.iter().map(|file| file.text_bytes as f32).collect(),
            table,
            lexical,
            dense,
            in_memory,
            carried: None,
            intact: None,
        }
    }

    /// Number of files of the whole index, including those without units.
    pub fn n_files(&self) -> usize {
        self.table.files.len()
    }

    /// Number of units of the whole index.
    pub fn n_units(&self) -> usize {
        self.table.units.len()
    }
}
