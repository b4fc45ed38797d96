//! From an index to the next one: what is kept, what is read again.
//!
//! A generation is a list of parts and the table of the files that count. Parts are shared by generations, so that a
//! change costs what it is large, and a file that changed leaves rows behind that no table names. A small part is
//! read again with the change when the change is at least half as large, a part most of which is gone with any change:
//! so the number of parts grows with the logarithm of the tree, and no more than half of an index is waste.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use quarry_corpus::walk::{ListedFile, Listing, Skipped, WalkOptions};

use crate::build::{self, MAX_PART_BYTES, WrittenPart};
use crate::changes::Comparison;
use crate::complete;
use crate::folder::{FORMAT, IndexFolder, Manifest, PROGRAM, WriterLock};
use crate::table::{PartSize, Table, TableBuilder};
use crate::{Error, Event};

/// An index as it was, and how the tree differs from it.
pub(crate) struct Former<'a> {
    pub table: &'a Table,
    pub manifest: &'a Manifest,
    pub comparison: &'a Comparison,
}

/// A tree as it is now.
pub(crate) struct Tree<'a> {
    pub root: &'a Path,
    /// What listed paths are relative to.
    pub base: &'a Path,
    pub canonical: &'a str,
    /// What it was listed with.
    pub walk: &'a WalkOptions,
    pub listing: &'a Listing,
    /// When it was listed, in nanoseconds since 1970.
    pub looked_ns: u64,
}

/// Writes the next generation and the parts that it needs, without publishing it. Vectors of `carried` models are
/// taken over where a unit's text is known.
///
/// # Errors
/// When no file has a unit, or the folder cannot be written.
pub(crate) fn write_generation(
    tree: &Tree,
    former: Option<&Former>,
    folder: &IndexFolder,
    lock: &WriterLock,
    is_carried: impl Fn(&str) -> bool,
    events: &(dyn Fn(Event) + Sync),
) -> Result<Manifest, Error> {
    let same = former.map_or_else(|| vec![None; tree.listing.files.len()], kept_files(tree));
    let mut kept: Vec<PartSize> = Vec::new();
    // The new number of each former part.
    let mut numbers: HashMap<usize, u16> = HashMap::new();
    if let Some(former) = former {
        for row in same.iter().flatten() {
            let part = former.table.files[*row].part();
            if let Entry::Vacant(entry) = numbers.entry(part) {
                entry.insert(part_number(kept.len())?);
                kept.push(former.manifest.parts[part].clone());
            }
        }
    }
    let pairs = || tree.listing.files.iter().zip(&same);
    let read: Vec<&ListedFile> = pairs().filter(|(_, row)| row.is_none()).map(|(file, _)| file).collect();
    let batches = build::batches(&read);
    let names = folder.start_parts(batches.len(), lock)?;
    let first = part_number(kept.len())?;
    let parts = build::write_parts(tree.base, &batches, folder.path(), &names, first, events)?;
    let mut skipped = skipped_files(tree, former, &same, &parts);
    skipped.sort_by(|a, b| a.path.cmp(&b.path));

    let mut builder = TableBuilder::default();
    let ranges = former.map(|former| former.table.units_of_files()).unwrap_or_default();
    let numbered = parts.iter().zip(first..);
    let mut new = numbered.flat_map(|(part, number)| part.files.iter().map(move |file| (file, number)));
    for (file, row) in pairs() {
        if let (Some(former), &Some(row)) = (former, row) {
            let mut record = former.table.files[row];
            record.modified_ns = file.modified_ns;
            let number = numbers[&record.part()];
            builder.push(record, &former.table.units[ranges[row].clone()], number)?;
        } else if let Some(((record, units), number)) = new.next() {
            builder.push(*record, units, number)?;
        }
    }
    if builder.is_empty() {
        return Err(build::nothing_to_index(tree.root, &skipped));
    }
    let generation = folder.start_generation(lock)?;
    let size = builder.write(&folder.path().join(&generation))?;
    let mut models = Vec::new();
    if let Some(former) = former {
        let known = lost_units(former, &same, &ranges);
        for model in former.manifest.models.iter().filter(|model| is_carried(model)) {
            for part in &parts {
                complete::take_over(folder.path(), &former.manifest.parts, &known, part, model)?;
            }
            models.push(model.clone());
        }
    }
    Ok(Manifest {
        format: FORMAT,
        generation,
        root: tree.canonical.to_owned(),
        program: PROGRAM.to_owned(),
        walk: tree.walk.clone(),
        models,
        size,
        parts: kept.into_iter().chain(parts.into_iter().map(|part| part.size)).collect(),
        skipped,
        looked_ns: tree.looked_ns,
    })
}

fn part_number(number: usize) -> Result<u16, Error> {
    u16::try_from(number).map_err(|_| Error::TooLarge)
}

/// For each listed file the row of the former table that is kept; none for a file that is to be read.
fn kept_files(tree: &Tree) -> impl Fn(&Former) -> Vec<Option<usize>> {
    |former| {
        let mut same = former.comparison.same.clone();
        if former.comparison.changes.total() == 0 {
            return same;
        }
        let mut live = vec![0; former.manifest.parts.len()];
        let mut new_bytes = 0;
        for (file, row) in tree.listing.files.iter().zip(&same) {
            match row {
                Some(row) => live[former.table.files[*row].part()] += file.bytes,
                None => new_bytes += file.bytes,
            }
        }
        let mut smallest_first: Vec<usize> = (0..live.len()).collect();
        smallest_first.sort_by_key(|&part| live[part]);
        let mut again = HashSet::new();
        for part in smallest_first {
            let is_small = live[part] <= 2 * new_bytes && live[part] < MAX_PART_BYTES / 2;
            if is_small || 2 * live[part] < former.manifest.parts[part].source_bytes {
                again.insert(part);
                new_bytes += live[part];
            }
        }
        for row in &mut same {
            *row = row.filter(|row| !again.contains(&former.table.files[*row].part()));
        }
        same
    }
}

/// Files left out of the listing, of what was read, and of what was kept.
fn skipped_files(
    tree: &Tree,
    former: Option<&Former>,
    same: &[Option<usize>],
    parts: &[WrittenPart],
) -> Vec<Skipped> {
    let mut skipped = tree.listing.skipped.clone();
    skipped.extend(parts.iter().flat_map(|part| part.skipped.iter().cloned()));
    if let Some(former) = former {
        let kept = tree.listing.files.iter().zip(same).filter(|(_, row)| row.is_some());
        let kept: HashSet<&str> = kept.map(|(file, _)| file.path.as_str()).collect();
        skipped.extend(former.manifest.skipped.iter().filter(|file| kept.contains(&*file.path)).cloned());
    }
    skipped
}

/// Where the units lie, by hash, of the files that are not kept.
fn lost_units(
    former: &Former,
    same: &[Option<usize>],
    ranges: &[std::ops::Range<usize>],
) -> HashMap<u128, (usize, usize)> {
    let kept: HashSet<usize> = same.iter().flatten().copied().collect();
    let lost = (0..former.table.files.len()).filter(|row| !kept.contains(row));
    lost.flat_map(|row| &former.table.units[ranges[row].clone()])
        .map(|unit| (unit.hash(), (unit.part(), unit.row())))
        .collect()
}
