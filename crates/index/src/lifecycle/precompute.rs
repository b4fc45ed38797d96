//! Vectors of re-rankers, computed ahead of the searches that need them.
//!
//! A search with a re-ranker reads its first results, which takes most of its time. The vectors of what it reads of all
//! units are stored with the index, but a search never waits until they are complete: whoever has time (`quarry index`, a
//! process that stays) embeds units, and takes the writer's lock only to store a batch of vectors. So searches and
//! writers go on meanwhile, and an interruption loses seconds.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quarry_embed::{Embedder, Vectors, rerankers};
use quarry_files::Directory;
use quarry_walk as walk;

use crate::index::roots::Stored;
use crate::lifecycle::complete::texts_of_units;
use crate::storage::index_directory::Manifest;
use crate::storage::segments::{Segment, SegmentSource};
use crate::storage::stored_file::StoredFile;
use crate::storage::table::{PartSize, Table};
use crate::vectors::passages::{PassageRows, PassageVectors, embedded_passages};
use crate::{Error, Event, Index};

/// Number of units embedded in one call, after which `stop` is asked: some seconds' work at most.
const BATCH: usize = 64;

/// Interval at which new vectors are stored.
const STORE_EVERY: Duration = Duration::from_secs(5);

/// The indexes whose units a re-ranker may embed ahead.
#[derive(Clone)]
pub struct Precomputation {
    embedder: Arc<dyn Embedder>,
    /// Each index, with the directory that the paths of its files are relative to.
    indexes: Vec<(Stored, PathBuf)>,
}

/// What [`Precomputation::embed`] did; of several re-rankers, the maximum of each number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrecomputedCounts {
    /// Number of units that were embedded.
    pub embedded: usize,
    /// Number of units that still have no vector: those not reached when it was stopped, and those whose file has
    /// changed since it was indexed.
    pub missing: usize,
}

/// The rows of a part whose vectors are to be computed, with their units.
struct PartToDo {
    part: PartSize,
    rows: Vec<(usize, usize)>,
}

impl Index {
    /// What a re-ranker may embed ahead; `None` without one, or in memory.
    #[must_use]
    pub fn precomputation(&self) -> Option<Precomputation> {
        let embedder = self.dense.as_ref().map(|dense| Arc::clone(&dense.embedder))?;
        embedder.reranker()?;
        let indexes = self.trees.iter().filter_map(|tree| Some((tree.stored.clone()?, tree.base.clone())));
        Some(Precomputation { indexes: indexes.collect(), embedder })
            .filter(|found| !found.indexes.is_empty())
    }
}

impl Precomputation {
    /// Embeds the units of the indexes, as they are stored now, that have no vector of the re-ranker, and then those that
    /// have none of its own re-ranker. Vectors are stored from time to time, where later openings of the index find them;
    /// `stop` is asked in between. `events` is told of units embedded.
    ///
    /// # Errors
    /// When the model fails, or an index cannot be read or written. What was stored until then is kept.
    pub fn embed(
        &self,
        stop: &(dyn Fn() -> bool + Sync),
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<PrecomputedCounts, Error> {
        let mut maximum = PrecomputedCounts::default();
        for reranker in rerankers(&*self.embedder) {
            let mut total = PrecomputedCounts::default();
            for (stored, base) in &self.indexes {
                let of_index = stored.embed(&walk::open(base)?, reranker, stop, events)?;
                total.embedded += of_index.embedded;
                total.missing += of_index.missing;
            }
            maximum.embedded = maximum.embedded.max(total.embedded);
            maximum.missing = maximum.missing.max(total.missing);
        }
        Ok(maximum)
    }
}

impl Stored {
    fn embed(
        &self,
        base: &Directory,
        model: &dyn Embedder,
        stop: &(dyn Fn() -> bool + Sync),
        events: &(dyn Fn(Event) + Sync),
    ) -> Result<PrecomputedCounts, Error> {
        // Another version's index, or none any longer: the next search sees to that.
        let Some(manifest) = self.manifest() else { return Ok(PrecomputedCounts::default()) };
        let (table, to_do) = self.to_do(&manifest, model)?;
        let total = to_do.iter().map(|part| part.rows.len()).sum();
        let (mut looked_at, mut embedded) = (0, 0);
        let mut stored = Instant::now();
        for PartToDo { part, rows } in &to_do {
            let mut new = HashMap::new();
            for batch in rows.chunks(BATCH) {
                if stop() {
                    embedded += self.store(part, model, &mut new)?;
                    return Ok(PrecomputedCounts { embedded, missing: total - embedded });
                }
                new.extend(embedded_passages(&texts_of_units(base, &table, batch), model)?);
                looked_at += batch.len();
                events(Event::Embedded { done: looked_at, total });
                if stored.elapsed() > STORE_EVERY {
                    embedded += self.store(part, model, &mut new)?;
                    stored = Instant::now();
                }
            }
            embedded += self.store(part, model, &mut new)?;
        }
        Ok(PrecomputedCounts { embedded, missing: total - embedded })
    }

    fn manifest(&self) -> Option<Manifest> {
        self.directory.manifest().ok().filter(|manifest| manifest.mismatch(&self.canonical).is_none())
    }

    /// The table of a generation, and what has no vector there.
    fn to_do(&self, manifest: &Manifest, model: &dyn Embedder) -> Result<(Table, Vec<PartToDo>), Error> {
        let index = self.directory.open_checked(manifest)?;
        let table = Table::open(&index, &manifest.generation, manifest.size, &manifest.parts)?;
        let numbering = table.numbering();
        let mut to_do = Vec::new();
        for (part, units) in manifest.parts.iter().zip(&numbering.parts) {
            let made = PassageVectors::of_model(&index, part, model.id())?;
            let missing = (0..units.len()).filter(|row| !made.has_row(*row, model.dimension()));
            let rows = missing.filter_map(|row| Some((row, units.unit(row)?))).collect();
            to_do.push(PartToDo { part: part.clone(), rows });
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
        // Files of a part are recorded with random numbers: equal ones are of the same part.
        let found = manifest.parts.iter_mut().find(|now| now.name == part.name && now.files == part.files);
        let Some(now) = found else { return Ok(0) };
        let stored = PassageVectors::of_model(&lock.directory, now, model.id())?;
        let mut rows = PassageRows::of(&stored, model.dimension());
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
///
/// # Errors
/// When a file is damaged.
pub(crate) fn open(
    source: &SegmentSource,
    parts: &[PartSize],
    model: &str,
) -> Result<Vec<Segment<PassageVectors>>, Error> {
    let segment = |part: &PartSize| {
        let (part, model) = (part.clone(), model.to_owned());
        let bytes = part.passages.get(&model).map_or(0, StoredFile::bytes);
        source.segment(bytes, move |index| PassageVectors::of_model(index, &part, &model))
    };
    parts.iter().map(segment).collect()
}
