//! Vectors of units: those of one model for all that have none, and those that a new part takes over.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_embed::Embedder;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::build::{WrittenPart, embedding_text, hash_of};
use crate::changes::content_hash;
use crate::table::{Numbering, PartSize, Table};
use crate::vectors::{Rows, UnitVectors, VectorMatrix};
use crate::{Error, Event};

/// Units that are embedded in one call.
const BATCH: usize = 1024;

/// The file of a part that holds the vectors of a model.
fn vectors_file(index: &Path, part: &PartSize, model: &str) -> PathBuf {
    index.join(&part.name).join(format!("vectors-{:016x}", xxh3_64(model.as_bytes())))
}

/// Opens the vectors of a model; a part without any has rows that were never made.
///
/// # Errors
/// When a file is not as it was written.
pub(crate) fn open(
    index: &Path,
    parts: &[PartSize],
    numbering: &Arc<Numbering>,
    model: &str,
    dimension: usize,
) -> Result<UnitVectors, Error> {
    let open = |part: &PartSize| {
        let path = vectors_file(index, part, model);
        if !path.exists() {
            return Ok(Rows::missing(dimension, part.units).into_matrix());
        }
        let matrix = VectorMatrix::open(&path, part.units)?;
        if matrix.dimension() != dimension && part.units > 0 {
            return Err(Error::corrupt(&path, format!("{} columns, not {dimension}", matrix.dimension())));
        }
        Ok(matrix)
    };
    let parts = parts.iter().map(open).collect::<Result<_, Error>>()?;
    Ok(UnitVectors { parts, numbering: Arc::clone(numbering) })
}

/// The rows of a part that units have and that were never made, with their units.
fn missing(vectors: &UnitVectors, part: usize) -> Vec<(usize, usize)> {
    let rows = vectors.numbering.parts[part].iter().enumerate();
    rows.filter(|&(row, &unit)| unit != Numbering::GONE && !vectors.parts[part].has_row(row))
        .map(|(row, &unit)| (row, unit as usize))
        .collect()
}

/// Whether every unit has a vector.
pub(crate) fn is_complete(vectors: &UnitVectors) -> bool {
    (0..vectors.parts.len()).all(|part| missing(vectors, part).is_empty())
}

/// Embeds all units without a vector, part by part, and writes their vectors; returns their number. The texts come
/// from the tree; a file that has changed since it was indexed is left out, and found changed next time.
///
/// # Errors
/// When the model fails or the folder cannot be written.
pub(crate) fn complete(
    index: &Path,
    base: &Path,
    table: &Table,
    parts: &[PartSize],
    vectors: &mut UnitVectors,
    embedder: &dyn Embedder,
    events: &(dyn Fn(Event) + Sync),
) -> Result<usize, Error> {
    let of_parts: Vec<_> = (0..parts.len()).map(|part| missing(vectors, part)).collect();
    let total = of_parts.iter().map(Vec::len).sum();
    let (mut done, mut n_embedded) = (0, 0);
    for (part, missing) in of_parts.into_iter().enumerate().filter(|(_, missing)| !missing.is_empty()) {
        let mut rows = Rows::of(&vectors.parts[part]);
        for batch in missing.chunks(BATCH) {
            let of_file =
                |a: &(usize, usize), b: &(usize, usize)| table.units[a.1].file == table.units[b.1].file;
            let files: Vec<&[(usize, usize)]> = batch.chunk_by(of_file).collect();
            let texts: Vec<(usize, String)> =
                files.into_par_iter().flat_map_iter(|units| texts(base, table, units)).collect();
            let borrowed: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
            let made = embedder.embed_documents(&borrowed)?;
            let made = made.values.chunks_exact(made.dimension.max(1));
            texts.iter().zip(made).for_each(|((row, _), vector)| rows.set(*row, vector));
            done += batch.len();
            n_embedded += texts.len();
            events(Event::Embedded { done, total });
        }
        let path = vectors_file(index, &parts[part], embedder.id());
        rows.write(&path)?;
        vectors.parts[part] = VectorMatrix::open(&path, parts[part].units)?;
    }
    Ok(n_embedded)
}

/// The texts of some units of one file, as far as it still holds them, with the units' rows.
fn texts(base: &Path, table: &Table, units: &[(usize, usize)]) -> Vec<(usize, String)> {
    let Some(&(_, first)) = units.first() else { return Vec::new() };
    let file = table.file_of(&table.units[first]);
    let path = table.text(file.path);
    let bytes = fs::read(base.join(path)).unwrap_or_default();
    if content_hash(&bytes) != file.hash {
        return Vec::new();
    }
    let text = |&(row, unit): &(usize, usize)| {
        let record = &table.units[unit];
        let source = bytes.get(record.start_byte as usize..record.end_byte as usize)?;
        Some((row, embedding_text(path, table.text(record.name), &String::from_utf8_lossy(source))))
    };
    units.iter().filter_map(text).filter(|(row, text)| is_of(table, units, *row, text)).collect()
}

/// Whether a text is the one that was indexed; a name that was too long to record makes another one.
fn is_of(table: &Table, units: &[(usize, usize)], row: usize, text: &str) -> bool {
    let unit = units.iter().find(|(of, _)| *of == row).map(|(_, unit)| *unit);
    unit.is_some_and(|unit| table.units[unit].hash() == hash_of(text))
}

/// Copies vectors of former units into a new part, where a unit has the text of one of them.
///
/// # Errors
/// When a file cannot be read or written.
pub(crate) fn take_over(
    index: &Path,
    former_parts: &[PartSize],
    known: &HashMap<u128, (usize, usize)>,
    new: &WrittenPart,
    model: &str,
) -> Result<(), Error> {
    let mut matrices: HashMap<usize, Option<VectorMatrix>> = HashMap::new();
    let mut rows: Option<Rows> = None;
    for unit in new.files.iter().flat_map(|(_, units)| units) {
        let Some(&(part, row)) = known.get(&unit.hash()) else { continue };
        let open =
            || VectorMatrix::open(&vectors_file(index, &former_parts[part], model), former_parts[part].units);
        let Some(matrix) = matrices.entry(part).or_insert_with(|| open().ok()) else { continue };
        let rows = rows.get_or_insert_with(|| Rows::missing(matrix.dimension(), new.size.units));
        if matrix.has_row(row) {
            rows.copy(unit.row(), matrix, row);
        }
    }
    rows.map_or(Ok(()), |rows| rows.write(&vectors_file(index, &new.size, model)))
}
