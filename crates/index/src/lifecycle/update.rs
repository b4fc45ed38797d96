//! Writes the next generation of an index: keeps parts and reads changed files.
//!
//! A generation is a list of parts and the table of its files. Parts are shared by generations, so the cost of a
//! change is proportional to its size, and a changed file leaves rows behind that no table refers to. A part less than
//! half as large as those of a first build is rewritten with a change at least half its size, and so are mostly unused
//! parts, but one at a time if they are larger than the change: so the number of parts exceeds that of a first build
//! by little more than the logarithm of the tree, and little more than half of an index is unused.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use quarry_walk::{ListedFile, Skipped};

use crate::lifecycle::build::{self, WrittenPart, part_bytes};
use crate::lifecycle::changes::Comparison;
use crate::lifecycle::checkpoint::Checkpoints;
use crate::lifecycle::complete;
use crate::lifecycle::source_tree::{Tree, left_out};
use crate::storage::index_directory::{Manifest, WriterLock};
use crate::storage::stored_file::StoredFile;
use crate::storage::table::{PartSize, Table, TableBuilder, open_directory};
use crate::{Error, Event};

/// The generation that the next one is built from.
#[derive(Clone, Copy)]
pub(crate) struct PreviousGeneration<'a> {
    pub manifest: &'a Manifest,
    /// Its files, and how the tree differs from them; `None` if only vectors can be reused.
    pub files: Option<PreviousFiles<'a>>,
}

#[derive(Clone, Copy)]
pub(crate) struct PreviousFiles<'a> {
    pub table: &'a Table,
    pub comparison: &'a Comparison,
    /// True if parts are merged when many are small or mostly unused; not done during a first build.
    pub are_joined: bool,
}

/// Writes the next generation and the parts that it needs, without publishing it. Vectors of `carried` models are
/// taken over for units with known texts. `checkpoints` store the parts in case the writer is interrupted.
///
/// # Errors
/// When no file has a unit, or the directory cannot be written.
pub(crate) fn write_generation(
    tree: &Tree,
    previous: Option<PreviousGeneration>,
    lock: &WriterLock,
    is_carried: impl Fn(&str) -> bool,
    checkpoints: Option<&Checkpoints>,
    events: &(dyn Fn(Event) + Sync),
) -> Result<Manifest, Error> {
    let previous_parts = previous.map_or(&[][..], |previous| &previous.manifest.parts);
    let files = previous.and_then(|previous| previous.files);
    let same = files.map_or_else(
        || vec![None; tree.listing.files.len()],
        |files| kept_files(tree, previous_parts, files),
    );
    let mut kept: Vec<PartSize> = Vec::new();
    // The new number of each previous part.
    let mut numbers: HashMap<usize, u16> = HashMap::new();
    if let Some(PreviousFiles { table, .. }) = files {
        for row in same.iter().flatten() {
            let part = table.files[*row].part();
            if let Entry::Vacant(entry) = numbers.entry(part) {
                entry.insert(part_number(kept.len())?);
                kept.push(previous_parts[part].clone());
            }
        }
    }
    let pairs = || tree.listing.files.iter().zip(&same);
    let read: Vec<&ListedFile> = pairs().filter(|(_, row)| row.is_none()).map(|(file, _)| file).collect();
    let batches = build::batches(&read, tree.walk);
    let names = lock.start_parts(batches.len())?;
    let first = part_number(kept.len())?;
    let written = |part: &WrittenPart| match checkpoints {
        Some(checkpoints) => {
            let files = part.files.iter().map(|(file, units)| (file, &units[..]));
            checkpoints.keep_part(&part.size, files, &part.skipped)
        }
        None => Ok(()),
    };
    let options = (tree.base, tree.walk);
    let mut parts = build::write_parts(options, &batches, &lock.directory, &names, first, &written, events)?;
    let of_kept = |file: &Skipped| {
        let position = tree.listing.files.binary_search_by(|listed| listed.path.cmp(&file.path));
        position.is_ok_and(|position| same[position].is_some())
    };
    let known =
        previous.map_or(&[][..], |previous| &previous.manifest.skipped).iter().filter(|file| of_kept(file));
    let mut skipped: Vec<Skipped> =
        parts.iter().flat_map(|part| &part.skipped).chain(known).cloned().collect();
    skipped.sort_by(|a, b| a.path.cmp(&b.path));

    let mut builder = TableBuilder::default();
    let ranges = files.map(|files| files.table.units_of_files()).unwrap_or_default();
    // Moved, so that the records of a large tree are not in memory twice.
    let new: Vec<_> = parts.iter_mut().map(|part| std::mem::take(&mut part.files)).collect();
    let numbered = new.into_iter().zip(first..);
    let mut new = numbered.flat_map(|(files, number)| files.into_iter().map(move |file| (file, number)));
    for (file, row) in pairs() {
        if let (Some(PreviousFiles { table, .. }), &Some(row)) = (files, row) {
            let mut record = table.files[row];
            record.set_stamp(file.stamp);
            let number = numbers[&record.part()];
            builder.push(record, &table.units[ranges[row].clone()], number)?;
        } else if let Some(((record, units), number)) = new.next() {
            builder.push(record, &units, number)?;
        }
    }
    if builder.is_empty() {
        let left_out = left_out(tree.listing, &skipped);
        return Err(build::empty_tree_error(tree.root, tree.walk, &tree.listing.files, &left_out));
    }
    let generation = lock.start_generation()?;
    let generation_directory = open_directory(&lock.directory, &generation)?;
    let size = builder.write(&generation_directory)?;
    complete::take_over(&lock.directory, previous_parts, &mut parts, &generation, &is_carried)?;
    let models = previous.map_or(&[][..], |previous| &previous.manifest.models).iter();
    Ok(Manifest {
        generation,
        models: models.filter(|model| is_carried(model)).cloned().collect(),
        size,
        files: StoredFile::all(&generation_directory)?,
        parts: kept.into_iter().chain(parts.into_iter().map(|part| part.size)).collect(),
        skipped,
        ..tree.manifest()
    })
}

fn part_number(number: usize) -> Result<u16, Error> {
    u16::try_from(number).map_err(|_| Error::TooLarge)
}

/// For each listed file the row of the previous table that is kept; `None` for a file to be read.
fn kept_files(tree: &Tree, parts: &[PartSize], previous: PreviousFiles) -> Vec<Option<usize>> {
    let PreviousFiles { table, comparison, are_joined } = previous;
    let mut same = comparison.same.clone();
    if comparison.changes.total() == 0 || !are_joined {
        return same;
    }
    let mut live = vec![0; parts.len()];
    let mut new_bytes = 0;
    for (file, row) in tree.listing.files.iter().zip(&same) {
        match row {
            Some(row) => live[table.files[*row].part()] += u64::from(table.files[*row].text_bytes),
            None => new_bytes += file.max_text_bytes(tree.walk),
        }
    }
    let again = parts_to_rewrite(&live, |part| parts[part].source_bytes, new_bytes);
    for row in &mut same {
        *row = row.filter(|row| !again.contains(&table.files[*row].part()));
    }
    same
}

/// The parts that are rewritten with a change of `new_bytes`, by the number of bytes of each that are in use, and of all.
fn parts_to_rewrite(live: &[u64], all: impl Fn(usize) -> u64, new_bytes: u64) -> BTreeSet<usize> {
    // Parts of a first build stay larger while most of their files are unchanged.
    let small = part_bytes(live.iter().sum::<u64>() + new_bytes) / 2;
    let mut smallest_first: Vec<usize> = (0..live.len()).collect();
    smallest_first.sort_by_key(|&part| live[part]);
    let mut again = BTreeSet::new();
    let mut merged_bytes = new_bytes;
    for &part in &smallest_first {
        // One merge does not pull in the next beyond the size of a part that is kept.
        if merged_bytes < small && live[part] < small && live[part] <= 2 * merged_bytes {
            again.insert(part);
            merged_bytes += live[part];
        }
    }
    let mut unused_bytes = 0;
    for part in smallest_first {
        let is_mostly_unused = 2 * live[part] < all(part);
        if is_mostly_unused
            && !again.contains(&part)
            && (unused_bytes == 0 || unused_bytes + live[part] <= new_bytes)
        {
            again.insert(part);
            unused_bytes += live[part];
        }
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: u64 = 1 << 10;
    const MB: u64 = 1 << 20;

    fn rewritten(live: &[u64], all: &[u64], new_bytes: u64) -> Vec<usize> {
        parts_to_rewrite(live, |part| all[part], new_bytes).into_iter().collect()
    }

    #[test]
    fn rewrites_are_proportional_to_the_change() {
        // Parts as a first build writes them, however large the change.
        let whole = [2 * MB; 8];
        for new_bytes in [KB, MB, 10 * MB] {
            assert_eq!(rewritten(&whole, &whole, new_bytes), [0_usize; 0], "{new_bytes}");
        }
        // Those of earlier changes, if they are not much larger.
        let of_changes = [2 * MB, 9 * KB, 2 * KB, KB];
        assert_eq!(rewritten(&of_changes, &of_changes, KB), [2, 3]);
        assert_eq!(rewritten(&of_changes, &of_changes, 3 * KB), [1, 2, 3]);
        // Unused parts are rewritten all at once only if they are small.
        let all = [2 * MB; 3];
        assert_eq!(rewritten(&[MB / 2, MB / 2, 2 * MB], &all, KB), [0]);
        assert_eq!(rewritten(&[MB - 1, MB - 2, 2 * MB], &all, KB), [1]);
        assert_eq!(rewritten(&[0, 0, 2 * MB], &all, KB), [0, 1]);
    }

    #[test]
    fn many_changes_cost_little_and_leave_few_parts() {
        // Each changes one file of 8 KB in a tree of 16 MB, another one each time.
        let (n_files, file_bytes) = (2048, 8 * KB);
        // In parts as a first build writes them, whose number is that of the threads.
        let part_size = part_bytes(n_files as u64 * file_bytes);
        let n_parts = (n_files as u64 * file_bytes).div_ceil(part_size) as usize;
        let mut part_of_file: Vec<usize> = (0..n_files).map(|file| file * n_parts / n_files).collect();
        let mut all = vec![part_size; n_parts];
        let mut rewritten_bytes = 0;
        let n_changes = 3000;
        for change in 0..n_changes {
            let changed = change * 769 % n_files;
            part_of_file[changed] = usize::MAX;
            let live: Vec<u64> = (0..all.len())
                .map(|part| file_bytes * part_of_file.iter().filter(|of| **of == part).count() as u64)
                .collect();
            let again = parts_to_rewrite(&live, |part| all[part], file_bytes);
            let bytes = file_bytes + again.iter().map(|part| live[*part]).sum::<u64>();
            assert!(bytes <= 2 * part_size, "{bytes} of {part_size}");
            rewritten_bytes += bytes;
            let number = all.len();
            part_of_file
                .iter_mut()
                .filter(|of| **of == usize::MAX || again.contains(of))
                .for_each(|of| *of = number);
            all.push(bytes);
            // Without parts of which nothing is left.
            for part in (0..all.len()).rev().filter(|part| !part_of_file.contains(part)).collect::<Vec<_>>() {
                all.remove(part);
                part_of_file.iter_mut().filter(|of| **of > part).for_each(|of| *of -= 1);
            }
            assert!(all.len() <= 24, "{} parts", all.len());
        }
        let per_change = rewritten_bytes / n_changes as u64;
        assert!(per_change <= 20 * file_bytes, "{per_change} bytes for each file of {file_bytes}");
    }
}
