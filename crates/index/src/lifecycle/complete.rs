//! Vectors of units: embeds units that have none, and copies known vectors into new parts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quarry_embed::Embedder;
use quarry_files::Directory;
use quarry_walk as walk;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::lifecycle::build::WrittenPart;
use crate::storage::content_hash::content_hash;
use crate::storage::index_directory::Manifest;
use crate::storage::segments::{Segment, SegmentSource};
use crate::storage::stored_file::StoredFile;
use crate::storage::table::{Numbering, PartSize, PartUnits, Table};
use crate::vectors::embedding_text::{embedding_text, hash_of};
use crate::vectors::passages::{PassageRows, PassageVectors};
use crate::vectors::{Rows, UnitVectors, VectorMatrix};
use crate::{Error, Event};

/// Minimum number of units embedded in one call, so that progress can be reported and stored however slow the model
/// is.
const MIN_BATCH: usize = 64;
const MAX_BATCH: usize = 1024;
const MIN_BATCH_TIME: Duration = Duration::from_millis(250);
const MAX_BATCH_TIME: Duration = Duration::from_secs(2);

/// Prefix of the names of files of vectors of units.
const VECTORS: &str = "vectors-";

/// Interval at which vectors of an incomplete part are stored.
const KEEP_EVERY: Duration = Duration::from_secs(10);

/// Opens the vectors of a model; a part without vectors has only missing rows.
pub(crate) fn open(
    source: &SegmentSource,
    parts: &[PartSize],
    numbering: &Arc<Numbering>,
    model: &str,
    dimension: usize,
) -> Result<UnitVectors, Error> {
    let parts = parts.iter().map(|part| segment(source, part, model, dimension));
    Ok(UnitVectors { parts: parts.collect::<Result<_, Error>>()?, numbering: Arc::clone(numbering) })
}

/// The vectors of a model in a part.
fn segment(
    source: &SegmentSource,
    part: &PartSize,
    model: &str,
    dimension: usize,
) -> Result<Segment<VectorMatrix>, Error> {
    let (part, model) = (part.clone(), model.to_owned());
    let bytes = part.vectors.get(&model).map_or(0, StoredFile::bytes);
    source.segment(bytes, move |index| {
        // A different dimension means a different model, whatever the id says.
        let matrix = open_matrix(index, &part, &model)?.filter(|matrix| matrix.dimension() == dimension);
        Ok(matrix.unwrap_or_else(|| Rows::missing(dimension, part.units).into_matrix()))
    })
}

/// The vectors of a model in a part, if it has any.
fn open_matrix(index: &Directory, part: &PartSize, model: &str) -> Result<Option<VectorMatrix>, Error> {
    let Some(file) = part.vectors.get(model) else { return Ok(None) };
    let directory = part.directory(index)?;
    VectorMatrix::open(&directory, file, part.units).map(Some)
}

/// Writes vectors of a model to a new file, which becomes valid with the next manifest.
fn write(
    index: &Directory,
    part: &mut PartSize,
    model: &str,
    generation: &str,
    rows: &Rows,
) -> Result<(), Error> {
    let directory = part.directory(index)?;
    let mut name = format!("{VECTORS}{:016x}-{generation}", xxh3_64(model.as_bytes()));
    // The file that is valid until then is not overwritten.
    if part.vectors.get(model).is_some_and(|file| file.path() == name) {
        name.push_str("-b");
    }
    rows.write(&directory, &name)?;
    part.vectors.insert(model.to_owned(), StoredFile::record(&directory, name)?);
    Ok(())
}

/// The missing rows of a part that belong to units, with these units.
fn missing(made: &VectorMatrix, units: &PartUnits) -> impl Iterator<Item = (usize, usize)> {
    (0..units.len()).filter(|&row| !made.has_row(row)).filter_map(|row| Some((row, units.unit(row)?)))
}

/// Returns whether every unit has a vector.
pub(crate) fn is_complete(vectors: &UnitVectors) -> Result<bool, Error> {
    for (made, units) in vectors.parts.iter().zip(&vectors.numbering.parts) {
        if missing(&*made.get()?, units).next().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Stores new vectors of a part, so that they are found in the manifest after an interruption.
type Save<'a> = &'a dyn Fn(&Manifest, usize) -> Result<(), Error>;

/// Embeds all units without a vector, part by part, and writes their vectors; returns their number. The texts are
/// read from the tree at `base`; a file that has changed since it was indexed is skipped, and detected as changed
/// next time. `save` is called after each part, and from time to time within a part.
///
/// # Errors
/// When the model fails or the directory cannot be written.
pub(crate) fn complete(
    (source, base): (&SegmentSource, &Directory),
    table: &Table,
    manifest: &mut Manifest,
    vectors: &mut UnitVectors,
    embedder: &dyn Embedder,
    save: Save,
    events: &(dyn Fn(Event) + Sync),
) -> Result<usize, Error> {
    let keep = |part: usize, rows: Rows| {
        let written = &mut manifest.parts[part];
        write(source.directory, written, embedder.id(), &manifest.generation, &rows)?;
        let matrix = segment(source, written, embedder.id(), embedder.dimension())?;
        save(manifest, part)?;
        Ok(matrix)
    };
    embed(base, table, vectors, embedder, keep, events)
}

/// Embeds all units without a vector, part by part, and passes each part to `keep`, which returns its matrix, also
/// from time to time before it is complete; returns the number of units. The texts are read from the tree at `base`;
/// a file that has changed since it was indexed is skipped.
///
/// # Errors
/// When the model fails or `keep` does.
pub(crate) fn embed(
    base: &Directory,
    table: &Table,
    vectors: &mut UnitVectors,
    embedder: &dyn Embedder,
    mut keep: impl FnMut(usize, Rows) -> Result<Segment<VectorMatrix>, Error>,
    events: &(dyn Fn(Event) + Sync),
) -> Result<usize, Error> {
    let of_part = |(made, units): (&Segment<VectorMatrix>, &PartUnits)| {
        Ok(missing(&*made.get()?, units).collect::<Vec<_>>())
    };
    let of_parts = vectors.parts.iter().zip(&vectors.numbering.parts).map(of_part);
    let of_parts: Vec<_> = of_parts.collect::<Result<_, Error>>()?;
    let total = of_parts.iter().map(Vec::len).sum();
    let (mut done, mut n_embedded) = (0, 0);
    let (mut batch_size, mut kept) = (MIN_BATCH, Instant::now());
    for (part, missing) in of_parts.into_iter().enumerate().filter(|(_, missing)| !missing.is_empty()) {
        let mut rows = Rows::from_matrix(&*vectors.parts[part].get()?);
        let mut rest = &missing[..];
        while !rest.is_empty() {
            let begun = Instant::now();
            let (batch, after) = rest.split_at(batch_size.min(rest.len()));
            rest = after;
            let texts = texts_of_units(base, table, batch);
            let borrowed: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
            let made = embedder.embed_documents(&borrowed)?;
            let made = made.values.chunks_exact(made.dimension.max(1));
            texts.iter().zip(made).for_each(|((row, _), vector)| rows.set(*row, vector));
            done += batch.len();
            n_embedded += texts.len();
            events(Event::Embedded { done, total });
            if kept.elapsed() > KEEP_EVERY && !rest.is_empty() {
                rows = Rows::from_matrix(&*keep(part, rows)?.get()?);
                kept = Instant::now();
            }
            batch_size = match begun.elapsed() {
                took if took < MIN_BATCH_TIME => (2 * batch_size).min(MAX_BATCH),
                took if took > MAX_BATCH_TIME => (batch_size / 2).max(MIN_BATCH),
                _ => batch_size,
            };
        }
        vectors.parts[part] = keep(part, rows)?;
    }
    Ok(n_embedded)
}

/// The unchanged texts of units, which are given with their rows, files together.
pub(crate) fn texts_of_units(
    base: &Directory,
    table: &Table,
    units: &[(usize, usize)],
) -> Vec<(usize, String)> {
    let of_file = |a: &(usize, usize), b: &(usize, usize)| table.units[a.1].file == table.units[b.1].file;
    let files: Vec<&[(usize, usize)]> = units.chunk_by(of_file).collect();
    files.into_par_iter().flat_map_iter(|units| texts_of_file(base, table, units)).collect()
}

/// The unchanged texts of units of one file, with the units' rows.
fn texts_of_file(base: &Directory, table: &Table, units: &[(usize, usize)]) -> Vec<(usize, String)> {
    let Some(&(_, first)) = units.first() else { return Vec::new() };
    let file = table.file_of(&table.units[first]);
    let path = table.text(file.path);
    let Ok(content) = walk::read_text(base, path, file.bytes) else { return Vec::new() };
    if content_hash(&content) != file.hash {
        return Vec::new();
    }
    let text = |&(row, unit): &(usize, usize)| {
        let record = &table.units[unit];
        let source = content.bytes().get(record.start_byte as usize..record.end_byte as usize)?;
        let text = embedding_text(path, table.text(record.name), &String::from_utf8_lossy(source));
        // Another one than was indexed if the name was too long to be recorded.
        (table.hash(record) == hash_of(&text)).then_some((row, text))
    };
    units.iter().filter_map(text).collect()
}

/// Copies the vectors of previous parts into new ones for units whose text is unchanged, for models that are
/// `carried`. Damaged files of previous parts are skipped.
pub(crate) fn take_over(
    index: &Directory,
    previous: &[PartSize],
    new: &mut [WrittenPart],
    generation: &str,
    is_carried: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let is_known =
        |part: &PartSize| part.vectors.keys().chain(part.passages.keys()).any(|model| is_carried(model));
    if !previous.iter().any(is_known) {
        return Ok(());
    }
    // Locations of each embedded text: part and row.
    let mut known: HashMap<u128, Vec<(usize, usize)>> =
        new.iter().flat_map(|part| &part.hashes).map(|&hash| (hash, Vec::new())).collect();
    if known.is_empty() {
        return Ok(());
    }
    for (number, part) in previous.iter().enumerate() {
        let Ok(hashes) = part.hashes(index) else { continue };
        for (row, hash) in hashes.iter().enumerate() {
            if let Some(rows) = known.get_mut(hash) {
                rows.push((number, row));
            }
        }
    }
    let models = |files: fn(&PartSize) -> &BTreeMap<String, StoredFile>| {
        let models = previous.iter().flat_map(move |part| files(part).keys()).map(String::as_str);
        models.filter(|model| is_carried(model)).collect::<BTreeSet<&str>>()
    };
    for model in models(|part| &part.vectors) {
        let matrices: Vec<Option<VectorMatrix>> =
            previous.iter().map(|part| open_matrix(index, part, model).ok().flatten()).collect();
        for part in new.iter_mut() {
            let mut rows: Option<Rows> = None;
            for (row, hash) in part.hashes.iter().enumerate() {
                let mut candidates =
                    known[hash].iter().filter_map(|&(part, row)| Some((matrices[part].as_ref()?, row)));
                let Some((matrix, from)) = candidates.find(|(matrix, from)| matrix.has_row(*from)) else {
                    continue;
                };
                rows.get_or_insert_with(|| Rows::missing(matrix.dimension(), part.hashes.len()))
                    .copy(row, matrix, from);
            }
            if let Some(rows) = rows {
                write(index, &mut part.size, model, generation, &rows)?;
            }
        }
    }
    for model in models(|part| &part.passages) {
        let stored: Vec<Option<PassageVectors>> =
            previous.iter().map(|part| PassageVectors::open_for_model(index, part, model).ok()).collect();
        for part in new.iter_mut() {
            let mut rows = PassageRows::missing(part.hashes.len());
            let mut any = false;
            for (row, hash) in part.hashes.iter().enumerate() {
                let mut candidates = known[hash].iter();
                any |= candidates
                    .any(|&(part, from)| stored[part].as_ref().is_some_and(|of| rows.copy(row, of, from)));
            }
            if any {
                rows.write(index, &mut part.size, model, generation)?;
            }
        }
    }
    Ok(())
}
