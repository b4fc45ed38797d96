//! Receipts of the changes that were written, for removing them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use quarry_files::Readers;
use serde::{Deserialize, Serialize};

use crate::edit::Content;
use crate::splice::Splice;
use crate::{Error, Scope, file};

/// A single insertion into a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The agents that it was written for; several may share a file.
    pub agents: BTreeSet<String>,
    pub scope: Scope,
    /// The project, if it was written for one.
    pub project: Option<PathBuf>,
    /// The file that it was written to.
    pub path: PathBuf,
    pub content: Content,
    pub(crate) splice: Splice,
    /// Number of enclosing tables of the entry that were created for it.
    pub(crate) n_made: usize,
    /// Hash of the text before the change; `None` if there was no file.
    pub(crate) before: Option<String>,
    /// Hash of the text after the change.
    pub(crate) after: String,
    /// Directories that were created for the file, the innermost first.
    pub(crate) directories: Vec<PathBuf>,
}

/// All changes that were written and not removed yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Receipts {
    /// In the order of writing.
    pub receipts: Vec<Receipt>,
}

impl Receipts {
    /// Reads the receipts; a missing file contains none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let Some(text) = file::read(path, None)? else { return Ok(Self::default()) };
        serde_json::from_str(&text).map_err(|source| Error::Receipts { path: path.to_owned(), source })
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let before = file::read(path, None)?;
        let text = serde_json::to_string_pretty(self)
            .map_err(|source| Error::Receipts { path: path.to_owned(), source })?;
        file::replace(path, None, before.as_deref(), Some(&(text + "\n")), Readers::User)
    }

    pub(crate) fn find(&self, path: &Path, content: &Content) -> Option<usize> {
        let slot = content.slot();
        self.receipts.iter().position(|receipt| receipt.path == path && receipt.content.slot() == slot)
    }
}
