//! One method on one data set: what it reached, kept in a file by what it depends on.

use super::identity::Identity;
use crate::EvalError;
use crate::protocol::Outcome;
use crate::slices::Property;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What a method reached on a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What it was measured with and on.
    pub identity: Identity,
    /// Identity of the method's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The measured values.
    pub outcome: Outcome,
    /// What is known of the queries of a part, by its name and theirs; empty for protocols that rank candidates.
    pub queries: BTreeMap<String, BTreeMap<String, RankedQuery>>,
}

/// A query, and what a method put first for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankedQuery {
    /// Its text.
    pub text: String,
    /// Its kinds.
    pub properties: BTreeMap<Property, String>,
    /// The document of the greatest score.
    pub first: Answer,
}

/// A document that a method put first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Its id.
    pub document: String,
    /// Whether it is judged relevant.
    pub relevant: bool,
    /// The beginning of its text.
    pub text: String,
}

/// Lines and characters of an answer that are kept.
const ANSWER_LINES: usize = 16;
const ANSWER_CHARS: usize = 900;

impl Answer {
    /// Keeps the beginning of a document.
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

/// The folder in which a plan keeps what it measured. One process at a time writes it.
#[derive(Debug)]
pub struct Store {
    cells: PathBuf,
    /// The system takes the lock back when the process ends, however it does.
    _lock: File,
}

/// Beginning of the names of files that are not whole.
const PARTIAL: &str = ".partial-";

impl Store {
    /// A folder, made if there is none; what a killed process left half-written is removed.
    ///
    /// # Errors
    /// When it cannot be made, or another process writes it.
    pub fn open(folder: &Path) -> Result<Self, EvalError> {
        let cells = folder.join("cells");
        let refuse = |source: io::Error| EvalError::Results { path: cells.clone(), source };
        fs::create_dir_all(&cells).map_err(refuse)?;
        let lock = File::create(cells.join(".lock")).map_err(refuse)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => EvalError::ResultsInUse { path: folder.to_owned() },
            TryLockError::Error(error) => refuse(error),
        })?;
        for place in [folder, &cells] {
            for entry in fs::read_dir(place).map_err(refuse)? {
                let entry = entry.map_err(refuse)?;
                if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
                    fs::remove_file(entry.path()).map_err(refuse)?;
                }
            }
        }
        Ok(Self { cells, _lock: lock })
    }

    /// What was measured before, if it is whole.
    #[must_use]
    pub fn find(&self, identity: &Identity) -> Option<Cell> {
        let text = fs::read(self.path(identity)).ok()?;
        serde_json::from_slice(&text).ok().filter(|cell: &Cell| cell.identity == *identity)
    }

    /// Keeps what was measured. The file appears whole or not at all.
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

/// Writes a file that appears whole or not at all, in place of one that is there.
///
/// # Errors
/// When it cannot be written.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), EvalError> {
    let refuse = |source| EvalError::Results { path: path.to_owned(), source };
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(refuse)?;
    let mut file = tempfile::Builder::new().prefix(PARTIAL).tempfile_in(folder).map_err(refuse)?;
    file.write_all(content).and_then(|()| file.as_file().sync_all()).map_err(refuse)?;
    // Temporary files are for their owner alone; results are for whoever may read the folder.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o644)).map_err(refuse)?;
    }
    file.persist(path).map_err(|error| refuse(error.error))?;
    Ok(())
}
