//! The manifest of an index, and detecting damaged or untrusted ones.

use quarry_files::Directory;
use quarry_walk::{SkipReason, Skipped, WalkChoice, WalkOptions};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::storage::records::Key;
use crate::storage::stored_file::StoredFile;
use crate::storage::table::{PartSize, Table, TableSize, open_directory};
use crate::version::PROGRAM;
use crate::{Error, RebuildReason};

/// Names the valid generation and records what it was built from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub format: u32,
    pub generation: String,
    /// Canonical path of the tree.
    pub root: String,
    /// Version of the program: another one may split files into different units.
    pub program: String,
    /// Options of the files that were indexed.
    pub walk: WalkOptions,
    /// Options of the files that a search finds by default, as set with `quarry index`.
    pub remembered: WalkChoice,
    /// The model that it is searched with by default, as set with `quarry index`.
    pub remembered_model: Option<String>,
    /// Ids of the models for which units have vectors.
    pub models: Vec<String>,
    pub size: TableSize,
    /// The files of the generation.
    pub files: Vec<StoredFile>,
    pub parts: Vec<PartSize>,
    /// When the tree was listed, in nanoseconds since 1970.
    pub looked_ns: u64,
    /// Files that were listed but could not be indexed, ascending by path.
    pub skipped: Vec<Skipped>,
}

impl Manifest {
    /// Checks the files that it names, except vectors, by their lengths and times.
    ///
    /// # Errors
    /// When one is damaged.
    pub fn check(&self, index: &Directory) -> Result<(), Error> {
        self.for_files(index, |file, directory| file.check(directory))
    }

    /// Verifies the content of all files that it names.
    ///
    /// # Errors
    /// When one is damaged.
    pub fn verify(&self, index: &Directory) -> Result<(), Error> {
        self.for_files(index, |file, directory| file.verify(directory))?;
        self.parts.iter().try_for_each(|part| {
            let directory = part.directory(index)?;
            let mut vectors = part.vectors.values().chain(part.passages.values());
            vectors.try_for_each(|file| file.verify(&directory))
        })
    }

    fn for_files(
        &self,
        index: &Directory,
        check: impl Fn(&StoredFile, &Directory) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let generation = open_directory(index, &self.generation)?;
        self.files.iter().try_for_each(|file| check(file, &generation))?;
        self.parts.iter().try_for_each(|part| {
            let directory = part.directory(index)?;
            part.files.iter().try_for_each(|file| check(file, &directory))
        })
    }

    /// Opens its table.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn table(&self, index: &Directory) -> Result<Table, Error> {
        Table::open(index, (&self.generation, &self.files), self.size, &self.parts)
    }

    /// Returns whether a re-ranker has read any of its units.
    pub fn has_passages(&self) -> bool {
        self.parts.iter().any(|part| !part.passages.is_empty())
    }

    /// Why an index cannot be used for the tree at `root` (canonical), except for changed files.
    pub fn mismatch(&self, root: &str) -> Option<RebuildReason> {
        if self.root != root {
            Some(RebuildReason::Root(self.root.clone()))
        } else if self.program != PROGRAM {
            Some(RebuildReason::Program(self.program.clone()))
        } else {
            None
        }
    }

    /// Why a listed file was not indexed.
    pub fn skip_reason(&self, path: &str) -> Option<&SkipReason> {
        let found = self.skipped.binary_search_by(|file| file.path.as_str().cmp(path));
        found.ok().map(|index| &self.skipped[index].reason)
    }
}

/// The fields of a [`Manifest`] that every version has.
#[derive(Deserialize)]
pub(super) struct ManifestHeader {
    pub format: u32,
    pub generation: String,
    #[serde(default)]
    pub parts: Vec<PartName>,
    pub root: Option<String>,
}

impl ManifestHeader {
    /// Names of the directories of its generation and its parts.
    pub fn names(self) -> impl Iterator<Item = String> {
        self.parts.into_iter().map(|part| part.name).chain([self.generation])
    }
}

#[derive(Deserialize)]
pub(super) struct PartName {
    pub name: String,
}

/// The content of a manifest file before its checksum, if that is correct.
pub(super) fn verified<'a>(file: &'a [u8], key: Option<&Key>) -> Option<&'a [u8]> {
    let rest = file.strip_suffix(b"\n")?;
    let end = rest.iter().rposition(|&byte| byte == b'\n')?;
    let (json, found) = (&rest[..end], std::str::from_utf8(&rest[end + 1..]).ok()?);
    let is_whole = match key {
        Some(key) => key.is_seal(found, json),
        None => checksum(json, None) == found,
    };
    is_whole.then_some(json)
}

/// The checksum of the content; with a key, a seal that also proves who wrote it.
pub(super) fn checksum(written: &[u8], key: Option<&Key>) -> String {
    key.map_or_else(|| format!("{:032x}", xxh3_128(written)), |key| key.seal(written))
}

/// The fields of a manifest that all versions have.
pub(super) fn header(file: &[u8]) -> Result<ManifestHeader, serde_json::Error> {
    ManifestHeader::deserialize(&mut serde_json::Deserializer::from_slice(file))
}
