//! Vectors of the re-ranker, computed ahead of the searches that need them.
//!
//! A search with a re-ranker reads its first results, which takes most of its time. The vectors of what it reads of
//! all units are stored with the index, but a search never waits until they are complete: a process with time to spare
//! (`quarry index`, a long-running process) embeds units, and takes the writer's lock only to store a batch of
//! vectors. So searches and writers continue meanwhile, and an interruption loses only seconds of work. Of several
//! such background processes, one embeds the units of an index.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quarry_embed::{Embedder, Vectors};
use quarry_files::Directory;
use quarry_walk as walk;

use crate::index::roots::StoredIndex;
use crate::lifecycle::complete::texts_of_units;
use crate::storage::index_directory::{AHEAD_FILE, Manifest};
use crate::storage::segments::{Segment, SegmentSource};
use crate::storage::stored_file::StoredFile;
use crate::storage::table::{PartSize, Table, UnitRecord};
use crate::vectors::passages::{PassageRows, PassageVectors, embedded_passages};
use crate::{Error, Event, Index};

/// Number of units embedded in one call, after which `stop` is called: some seconds' work at most.
const BATCH: usize = 64;

/// Minimum time between two writes of new vectors, and minimum ratio of them to those of their part that are stored:
/// all of a part are written again.
const STORE_EVERY: Duration = Duration::from_secs(5);
const STORE_SHARE: f32 = 0.1;

/// The indexes whose units a re-ranker may embed ahead.
#[derive(Clone)]
pub struct Precomputation {
    embedder: Arc<dyn Embedder>,
    /// Each index, with the directory that the paths of its files are relative to.
    indexes: Vec<(StoredIndex, PathBuf)>,
}

/// Result of [`Precomputation::embed`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrecomputedCounts {
    /// Number of units that were embedded.
    pub embedded: usize,
    /// Number of units that still have no vector: those not reached when it was stopped, and those whose file has
    /// changed since it was indexed.
    pub missing: usize,
    /// True if another process is embedding some of these.
    pub is_elsewhere: bool,
}

/// The rows of a part whose vectors are to be computed, with their units.
struct PendingPart {
    part: PartSize,
    rows: Vec<(usize, usize)>,
}

impl Index {
    /// The units that a re-ranker may embed ahead; `None` without one, in memory, or if there are too many units
    /// ([`Embedder::max_precomputed`]).
    pub fn precomputation(&self) -> Option<Precomputation> {
        let embedder = self.dense.as_ref().map(|dense| Arc::clone(&dense.embedder))?;
        if self.n_units() > embedder.max_precomputed() {
            return None;
        }
        // If searches do without the re-ranker, the process that embeds loads it.
        if !embedder.reranks_stored_only() {
            embedder.reranker()?;
        }
        let indexes = self.trees.iter().filter_map(|tree| Some((tree.stored.clone()?, tree.base.clone())));
        Some(Precomputation { indexes: indexes.collect(), embedder })
            .filter(|found| !found.indexes.is_empty())
    }

    /// Number of units without a stored vector of the re-ranker.
    ///
    /// # Errors
    /// When a file was overwritten since the index was opened.
    pub fn n_not_precomputed(&self) -> Result<usize, Error> {
        let Some(dense) = self.dense.as_ref().filter(|dense| !dense.passages.is_empty()) else {
            return Ok(self.n_units());
        };
        let parts = dense.passages.iter().map(Segment::get).collect::<Result<Vec<_>, Error>>()?;
        let is_missing = |unit: &&UnitRecord| {
            let (part, row) = unit.part_and_row();
            !parts[part].has(row)
        };
        Ok(self.table.units.iter().filter(is_missing).count())
    }
}

/// Number of units that have vectors of each re-ranker, by the id of that.
pub(crate) fn n_precomputed(
    index: &Directory,
    table: &Table,
    parts: &[PartSize],
) -> Result<BTreeMap<String, usize>, Error> {
    let mut counts = BTreeMap::new();
    for (part, units) in parts.iter().zip(&table.numbering().parts) {
        for model in part.passages.keys() {
            let stored = PassageVectors::open_for_model(index, part, model)?;
            let n = (0..units.len()).filter(|row| stored.has(*row) && units.unit(*row).is_some()).count();
            *counts.entry(model.clone()).or_default() += n;
        }
    }
    Ok(counts)
}

impl Precomputation {
    /// The directories of the indexes.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.indexes.iter().map(|(stored, _)| stored.directory.path()).collect()
    }

    /// Returns true if searches compute missing vectors.
    pub fn is_required(&self) -> bool {
        !self.embedder.reranks_stored_only()
    }

    /// Embeds the units of the indexes, as they are stored now, that have no vector of the re-ranker. Vectors are stored
    /// from time to time, where later openings of the index find them; `stop` is called in between. `events` receives
    /// the number of units embedded.
    ///
    /// # Errors
    /// When the model fails, or an index cannot be read or written. What was stored until then is kept.
    pub fn embed(
        &self,
        stop: &(dyn Fn() -> bool + Sync),
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<PrecomputedCounts, Error> {
        self.embed_all(|stored, base, reranker| {
            // Processes in the background leave the index to this one, unless one of them has begun.
            let _lock = stored.lock_ahead();
            stored.embed(base, reranker, stop, events)
        })
    }

    /// Like [`embed`](Self::embed), for the background: units that another process embeds in this way are left to it.
    ///
    /// # Errors
    /// The same, before anything is embedded if an index cannot be written.
    pub fn embed_in_background(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<PrecomputedCounts, Error> {
        self.embed_all(|stored, base, reranker| match stored.lock_ahead()? {
            Some(_lock) => stored.embed(base, reranker, stop, &|_| {}),
            None => {
                let found = stored.embed(base, reranker, &|| true, &|_| {})?;
                Ok(PrecomputedCounts { is_elsewhere: found.missing > 0, ..found })
            }
        })
    }

    fn embed_all(
        &self,
        embed: impl Fn(&StoredIndex, &Directory, &dyn Embedder) -> Result<PrecomputedCounts, Error>,
    ) -> Result<PrecomputedCounts, Error> {
        let mut total = PrecomputedCounts::default();
        let Some(reranker) = self.embedder.reranker() else { return Ok(total) };
        for (stored, base) in &self.indexes {
            let of_index = embed(stored, &walk::open(base)?, reranker)?;
            total.embedded += of_index.embedded;
            total.missing += of_index.missing;
            total.is_elsewhere |= of_index.is_elsewhere;
        }
        Ok(total)
    }
}

impl StoredIndex {
    fn embed(
        &self,
        base: &Directory,
        model: &dyn Embedder,
        stop: &(dyn Fn() -> bool + Sync),
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<PrecomputedCounts, Error> {
        // The index has another version, or is gone: the next search handles that.
        let Some(manifest) = self.manifest() else { return Ok(PrecomputedCounts::default()) };
        let (table, to_do) = self.to_do(&manifest, model)?;
        let total: usize = to_do.iter().map(|part| part.rows.len()).sum();
        let counts =
            |embedded| PrecomputedCounts { embedded, missing: total - embedded, is_elsewhere: false };
        let (mut looked_at, mut embedded) = (0, 0);
        let mut stored = Instant::now();
        for PendingPart { part, rows } in &to_do {
            let mut new = HashMap::new();
            let mut n_stored = part.units.saturating_sub(rows.len());
            for batch in rows.chunks(BATCH) {
                if stop() {
                    embedded += self.store(part, model, &mut new)?;
                    return Ok(counts(embedded));
                }
                new.extend(embedded_passages(&texts_of_units(base, &table, batch), model)?);
                looked_at += batch.len();
                events(Event::Embedded { done: looked_at, total });
                if stored.elapsed() > STORE_EVERY && new.len() as f32 >= STORE_SHARE * n_stored as f32 {
                    n_stored += new.len();
                    embedded += self.store(part, model, &mut new)?;
                    stored = Instant::now();
                }
            }
            embedded += self.store(part, model, &mut new)?;
        }
        Ok(counts(embedded))
    }

    /// Takes the lock of the process that embeds ahead, if it is free; it is released when dropped.
    fn lock_ahead(&self) -> Result<Option<File>, Error> {
        let failed = |source| Error::io("lock", &self.directory.path().join(AHEAD_FILE), source);
        let file = self.directory.open().and_then(|directory| directory.append_file(AHEAD_FILE.as_ref()));
        let file = file.map_err(failed)?;
        let is_taken = quarry_files::try_lock(&file).map_err(failed)?;
        Ok(is_taken.then_some(file))
    }

    fn manifest(&self) -> Option<Manifest> {
        self.directory.manifest().ok().filter(|manifest| manifest.mismatch(&self.canonical).is_none())
    }

    /// The table of a generation, and its rows without vectors.
    fn to_do(&self, manifest: &Manifest, model: &dyn Embedder) -> Result<(Table, Vec<PendingPart>), Error> {
        let index = self.directory.open_checked(manifest)?;
        let table = manifest.table(&index)?;
        let numbering = table.numbering();
        let mut to_do = Vec::new();
        for (part, units) in manifest.parts.iter().zip(&numbering.parts) {
            let made = PassageVectors::open_for_model(&index, part, model.id())?;
            let missing = (0..units.len()).filter(|row| !made.has_row(*row, model.dimension()));
            let rows = missing.filter_map(|row| Some((row, units.unit(row)?))).collect();
            to_do.push(PendingPart { part: part.clone(), rows });
        }
        Ok((table, to_do))
    }

    /// Adds vectors of rows of a part to those that are stored, if the part is still in use; returns the number of rows
    /// that had none. Leaves `new` empty.
    fn store(
        &self,
        part: &PartSize,
        model: &dyn Embedder,
        new: &mut HashMap<usize, Vectors>,
    ) -> Result<usize, Error> {
        let new = std::mem::take(new);
        if new.is_empty() {
            return Ok(0);
        }
        let lock = self.directory.lock(|| {})?;
        let Some(mut manifest) = self.manifest() else { return Ok(0) };
        // Files of a part are recorded with random numbers: equal ones belong to the same part.
        let found = manifest.parts.iter_mut().find(|now| now.name == part.name && now.files == part.files);
        let Some(now) = found else { return Ok(0) };
        let stored = PassageVectors::open_for_model(&lock.directory, now, model.id())?;
        let mut rows = PassageRows::from_stored(&stored, model.dimension());
        let before = rows.n_missing();
        new.iter().for_each(|(row, vectors)| rows.set(*row, vectors.rows()));
        rows.write(&lock.directory, now, model.id(), &manifest.generation)?;
        if !manifest.models.iter().any(|known| known == model.id()) {
            manifest.models.push(model.id().to_owned());
        }
        lock.publish(&manifest)?;
        Ok(before - rows.n_missing())
    }
}

/// Opens the vectors of the passages of each part.
pub(crate) fn open(
    source: &SegmentSource,
    parts: &[PartSize],
    model: &str,
) -> Result<Vec<Segment<PassageVectors>>, Error> {
    let segment = |part: &PartSize| {
        let (part, model) = (part.clone(), model.to_owned());
        let bytes = part.passages.get(&model).map_or(0, StoredFile::bytes);
        source.segment(bytes, move |index| PassageVectors::open_for_model(index, &part, &model))
    };
    parts.iter().map(segment).collect()
}
