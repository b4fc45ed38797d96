//! Cells: the result of one method on one data set, in a file named by the hash of its identity.

use super::identity::Identity;
use super::results::{DatasetResults, MethodResults, PartResults};
use crate::EvalError;
use crate::protocol::Outcome;
use crate::slices::Property;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The result of a method on a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub identity: Identity,
    pub outcome: Outcome,
    /// Queries by part and id; empty for protocols that do not rank all documents of a benchmark.
    pub queries: BTreeMap<String, BTreeMap<String, RankedQuery>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankedQuery {
    pub text: String,
    pub properties: BTreeMap<Property, String>,
    pub first: FirstDocument,
    /// The judged documents by id, if the plan says how often their labels err.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judged: Vec<super::JudgedRank>,
}

/// The document that a method ranked first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FirstDocument {
    /// Id of the document.
    pub document: String,
    /// True if the document is relevant.
    pub relevant: bool,
    /// Beginning of the text.
    pub text: String,
}

/// Maximum number of lines and characters of a document that are stored.
const ANSWER_LINES: usize = 16;
const ANSWER_CHARS: usize = 900;

impl FirstDocument {
    /// Stores the beginning of a document.
    pub(super) fn new(document: &str, relevant: bool, text: &str) -> Self {
        let mut kept: String = text
            .lines()
            .take(ANSWER_LINES)
            .collect::<Vec<_>>()
            .join("\n")
            .chars()
            .take(ANSWER_CHARS)
            .collect();
        if kept.len() < text.trim_end().len() {
            kept.push_str("\n…");
        }
        Self { document: document.to_owned(), relevant, text: kept }
    }
}

/// The directory with the cells of a plan, which only one process writes at a time.
#[derive(Debug)]
pub struct Store {
    cells: PathBuf,
    models: PathBuf,
    /// The system releases the lock when the process ends, however it ends.
    _lock: File,
}

const PARTIAL: &str = ".partial-";

impl Store {
    /// Opens a directory, creating it if necessary; removes incomplete files of a killed process.
    ///
    /// # Errors
    /// When it cannot be created, or another process is writing it.
    pub fn open(directory: &Path) -> Result<Self, EvalError> {
        let cells = directory.join("cells");
        let refuse = |source: io::Error| EvalError::Results { path: cells.clone(), source };
        for name in ["cells", "models"] {
            quarry_files::output(directory, Path::new(name)).map_err(io::Error::other).map_err(refuse)?;
        }
        fs::create_dir_all(&cells).map_err(refuse)?;
        let lock = File::create(cells.join(".lock")).map_err(refuse)?;
        if !quarry_files::try_lock(&lock).map_err(refuse)? {
            return Err(EvalError::ResultsInUse { path: directory.to_owned() });
        }
        // Of a path that does not begin where the process is, so that models can name each other.
        let models = directory.canonicalize().map_err(refuse)?.join("models");
        for directory in [directory, &cells, &models].into_iter().filter(|directory| directory.is_dir()) {
            for entry in fs::read_dir(directory).map_err(refuse)? {
                let entry = entry.map_err(refuse)?;
                if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
                    fs::remove_file(entry.path()).map_err(refuse)?;
                }
            }
        }
        Ok(Self { cells, models, _lock: lock })
    }

    pub(super) fn models(&self) -> PathBuf {
        self.models.clone()
    }

    /// The directory with what training pairs share with evaluation data.
    pub(super) fn compared(&self) -> PathBuf {
        self.models.with_file_name("compared")
    }

    /// A cell that was measured before, if its file is intact.
    pub fn find(&self, identity: &Identity) -> Option<Cell> {
        let text = fs::read(self.path(identity)).ok()?;
        serde_json::from_slice(&text).ok().filter(|cell: &Cell| cell.identity == *identity)
    }

    /// Stores a cell atomically.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, cell: &Cell) -> Result<(), EvalError> {
        let path = self.path(&cell.identity);
        let unwritable = |source: io::Error| EvalError::Results { path: path.clone(), source };
        let text = serde_json::to_vec(cell).map_err(|error| unwritable(error.into()))?;
        write_whole(&path, &text)
    }

    fn path(&self, identity: &Identity) -> PathBuf {
        self.cells.join(format!("{}.json", identity.name()))
    }
}

/// A method on a part of a data set, whose queries are read from the cells.
#[derive(Debug, Clone, Copy)]
pub struct QueryCells<'a> {
    pub dataset: &'a DatasetResults,
    pub part: &'a PartResults,
    pub method: &'a MethodResults,
}

impl QueryCells<'_> {
    /// The queries in the order of their values, from the cells in the directory of the results. Another process may
    /// write there: cells are written whole, and do not change. `None` if no cell has these values.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn read(&self, directory: &Path) -> Result<Option<BTreeMap<String, RankedQuery>>, EvalError> {
        /// The identity of a cell, which takes less memory than the cell.
        #[derive(Deserialize)]
        struct Head {
            identity: Identity,
        }
        let cells = directory.join("cells");
        let refuse = |source: io::Error| EvalError::Results { path: cells.clone(), source };
        let mut paths = Vec::new();
        for entry in fs::read_dir(&cells).map_err(refuse)? {
            let path = entry.map_err(refuse)?.path();
            paths.extend(path.extension().is_some_and(|extension| extension == "json").then_some(path));
        }
        paths.sort();
        for path in paths {
            let Ok(text) = fs::read(&path) else { continue };
            let head = serde_json::from_slice(&text);
            if !head.is_ok_and(|Head { identity }| self.is_of(&identity)) {
                continue;
            }
            let Ok(mut cell) = serde_json::from_slice::<Cell>(&text) else { continue };
            let values = cell.outcome.parts.iter().find(|part| part.name == self.part.name);
            let values =
                values.zip(self.part.measures.first()).and_then(|(part, measure)| part.values_of(measure));
            let queries = cell.queries.remove(&self.part.name);
            if let Some(queries) = queries.filter(|queries| queries.len() == self.method.values.len())
                && values.as_ref() == Some(&self.method.values)
            {
                return Ok(Some(queries));
            }
        }
        Ok(None)
    }

    fn is_of(&self, identity: &Identity) -> bool {
        identity.method == self.method.method
            && identity.protocol == self.dataset.protocol
            && identity.files == self.dataset.files
    }
}

/// Writes a file atomically, replacing an existing one.
///
/// # Errors
/// When it cannot be written.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), EvalError> {
    let refuse = |source| EvalError::Results { path: path.to_owned(), source };
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(refuse)?;
    quarry_files::replace(path, PARTIAL, quarry_files::Readers::Umask, content).map_err(refuse)
}
