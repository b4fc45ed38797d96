//! What a first index has so far, for the case that it is interrupted.
//!
//! No manifest names a part before all parts are there, so that readers see nothing of it. Meanwhile the directory of a
//! part that is finished holds two things more: the table of its own files, and `finished.json`, which says what the part
//! was made from and ends as a manifest does. The next writer takes such parts for a generation that lacks the other
//! files. When the manifest is published, both are removed. Work of less than a second is not kept, as writing this takes
//! time as well.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quarry_files::Directory;
use quarry_walk::{Skipped, WalkOptions};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::index_directory::{FORMAT, MAX_MANIFEST_BYTES, Manifest, PROGRAM, WriterLock};
use crate::storage::{StoredFile, replace_file};
use crate::table::{FileRecord, PartSize, Table, TableBuilder, TableSize, UnitRecord};
use crate::update::Tree;

const FINISHED_FILE: &str = "finished.json";

/// Work that is worth keeping.
const MIN_WORK: Duration = Duration::from_secs(1);

/// A part, and what it was made from.
#[derive(Serialize, Deserialize)]
struct FinishedPart {
    format: u32,
    program: String,
    /// Canonical path of the tree.
    root: String,
    walk: WalkOptions,
    looked_ns: u64,
    /// Its own table, and the files of that.
    size: TableSize,
    table: Vec<StoredFile>,
    part: PartSize,
    skipped: Vec<Skipped>,
}

/// Keeps what a writer has finished.
pub(crate) struct Checkpoints<'a> {
    lock: &'a WriterLock,
    tree: &'a Tree<'a>,
    begun: Instant,
    /// Names of the parts that are kept.
    kept: Mutex<HashSet<String>>,
}

impl<'a> Checkpoints<'a> {
    /// Of an index that is begun now, or continued with some parts.
    pub fn new(lock: &'a WriterLock, tree: &'a Tree<'a>, parts: &[PartSize]) -> Self {
        let kept = parts.iter().map(|part| part.name.clone()).collect();
        Self { lock, tree, begun: Instant::now(), kept: Mutex::new(kept) }
    }

    fn is_due(&self) -> bool {
        self.begun.elapsed() >= MIN_WORK
    }

    fn is_kept(&self, part: &PartSize) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).contains(&part.name)
    }

    /// Keeps a part that was written, with its files and those of them that could not be indexed.
    ///
    /// # Errors
    /// When its directory cannot be written.
    pub fn keep_part<'t>(
        &self,
        part: &PartSize,
        files: impl Iterator<Item = (&'t FileRecord, &'t [UnitRecord])>,
        skipped: &[Skipped],
    ) -> Result<(), Error> {
        if !self.is_due() {
            return Ok(());
        }
        let directory = part.directory(&self.lock.directory)?;
        let mut builder = TableBuilder::default();
        for (file, units) in files {
            builder.push(*file, units, 0)?;
        }
        let size = builder.write(&directory)?;
        let finished = FinishedPart {
            format: FORMAT,
            program: PROGRAM.to_owned(),
            root: self.tree.canonical.to_owned(),
            walk: *self.tree.walk,
            looked_ns: self.tree.looked_ns,
            size,
            table: TableBuilder::stored(&directory)?,
            part: part.clone(),
            skipped: skipped.to_vec(),
        };
        finished.write(self.lock, &directory)?;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(part.name.clone());
        Ok(())
    }

    /// Keeps the vectors that the parts of a generation have by now.
    ///
    /// # Errors
    /// When a directory cannot be written.
    pub fn keep_vectors(&self, table: &Table, manifest: &Manifest, changed: usize) -> Result<(), Error> {
        if !self.is_due() {
            return Ok(());
        }
        for (number, part) in manifest.parts.iter().enumerate() {
            if !self.is_kept(part) {
                let is_of_part = |skipped: &&Skipped| {
                    table.files_of_part(number).any(|(file, _)| table.text(file.path) == skipped.path)
                };
                let skipped: Vec<Skipped> = manifest.skipped.iter().filter(is_of_part).cloned().collect();
                self.keep_part(part, table.files_of_part(number), &skipped)?;
            } else if number == changed {
                let directory = part.directory(&self.lock.directory)?;
                if let Some(finished) = FinishedPart::read(self.lock, &directory) {
                    FinishedPart { part: part.clone(), ..finished }.write(self.lock, &directory)?;
                }
            }
        }
        Ok(())
    }
}

impl FinishedPart {
    fn write(&self, lock: &WriterLock, directory: &Directory) -> Result<(), Error> {
        let failed = |error: serde_json::Error| {
            Error::io("write", &directory.path().join(FINISHED_FILE), error.into())
        };
        let mut written = serde_json::to_vec(self).map_err(failed)?;
        lock.seal(&mut written);
        replace_file(directory, FINISHED_FILE, &[&written])
    }

    fn read(lock: &WriterLock, directory: &Directory) -> Option<Self> {
        let bytes = directory.read(FINISHED_FILE.as_ref(), MAX_MANIFEST_BYTES).ok()?;
        serde_json::from_slice(lock.unsealed(&bytes)?).ok()
    }

    /// Its table, if all of it still is as it was written.
    fn open(&self, index: &Directory) -> Option<Table> {
        let directory = self.part.directory(index).ok()?;
        self.part.files.iter().chain(&self.table).try_for_each(|file| file.check(&directory)).ok()?;
        // Its directory is that of its table too.
        Table::open(index, &self.part.name, self.size, std::slice::from_ref(&self.part)).ok()
    }
}

/// The finished parts of a first index of a tree that was interrupted, as a generation that lacks the other files; none where
/// there is no such part.
pub(crate) fn recover(lock: &WriterLock, tree: &Tree) -> Option<(Manifest, Table)> {
    let mut parts = Vec::new();
    let mut tables = Vec::new();
    let mut skipped = Vec::new();
    let mut looked_ns = tree.looked_ns;
    for name in lock.parts() {
        let Ok(directory) = lock.directory.directory(name.as_ref()) else { continue };
        let Some(finished) = FinishedPart::read(lock, &directory) else { continue };
        let is_of_tree = finished.root == tree.canonical && finished.walk == *tree.walk;
        let is_of_program = finished.format == FORMAT && finished.program == PROGRAM;
        if !is_of_tree || !is_of_program || finished.part.name != name {
            continue;
        }
        let Some(table) = finished.open(&lock.directory) else { continue };
        looked_ns = looked_ns.min(finished.looked_ns);
        skipped.extend(finished.skipped);
        parts.push(finished.part);
        tables.push(table);
    }
    if parts.is_empty() {
        return None;
    }
    let table = Table::of_parts(tables).ok()?;
    skipped.sort_by(|a, b| a.path.cmp(&b.path));
    let models: BTreeSet<&String> = parts.iter().flat_map(|part: &PartSize| part.vectors.keys()).collect();
    let manifest = Manifest {
        format: FORMAT,
        generation: String::new(),
        root: tree.canonical.to_owned(),
        program: PROGRAM.to_owned(),
        walk: *tree.walk,
        remembered: tree.remembered.walk,
        remembered_model: tree.remembered.model.clone(),
        models: models.into_iter().cloned().collect(),
        size: TableSize { files: table.files.len(), units: table.units.len() },
        files: Vec::new(),
        parts,
        looked_ns,
        skipped,
    };
    Some((manifest, table))
}

/// The tree that a first index was interrupted of, as far as it can be continued. For telling people: it is not verified.
pub(crate) fn interrupted_root(index: &Directory) -> Option<String> {
    #[derive(Deserialize)]
    struct Header {
        root: String,
    }
    let names = index.names().ok()?;
    names.iter().find_map(|name| {
        let bytes =
            index.directory(name.as_ref()).ok()?.read(FINISHED_FILE.as_ref(), MAX_MANIFEST_BYTES).ok()?;
        let header = Header::deserialize(&mut serde_json::Deserializer::from_slice(&bytes));
        header.ok().map(|header| header.root)
    })
}
