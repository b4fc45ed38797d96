//! What has become of a tree since its index was made.

use quarry_corpus::walk::{self, FileFlags, ListedFile, Listing};
use quarry_files::Directory;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::Changes;
use crate::folder::Manifest;
use crate::table::Table;

/// How long before an index was made a file must have been modified for its time to prove that it is the same: a
/// later change may have the same time. File systems that count whole seconds, or two of them, need the longer one.
const CLOCK_STEP_NS: u64 = 50_000_000;
const COARSE_CLOCK_STEP_NS: u64 = 2_000_000_000;

/// A listing beside an index.
pub(crate) struct Comparison {
    /// For each listed file the row of the index that has its content.
    pub same: Vec<Option<usize>>,
    pub changes: Changes,
    /// Whether a file had to be read to find that it is the same, which the next look can be spared.
    pub has_read: bool,
}

/// The hash of a file's content, above 0.
pub(crate) fn content_hash(bytes: &[u8]) -> u64 {
    xxh3_64(bytes).max(1)
}

/// Compares by length and time of modification, and by content where the time differs or proves nothing. A file that
/// could not be read has changed when it can.
pub(crate) fn compare(table: &Table, manifest: &Manifest, base: &Directory, listing: &Listing) -> Comparison {
    let looked_ns = manifest.looked_ns;
    let mut changes = Changes::default();
    // Both are ascending by path.
    let mut next = 0;
    let mut rows = Vec::with_capacity(listing.files.len());
    for file in &listing.files {
        let mut known = None;
        while let Some(record) = table.files.get(next) {
            match table.text(record.path).cmp(&file.path) {
                std::cmp::Ordering::Less => changes.removed += 1,
                std::cmp::Ordering::Equal => known = Some(next),
                std::cmp::Ordering::Greater => break,
            }
            next += 1;
            if known.is_some() {
                break;
            }
        }
        changes.new += usize::from(known.is_none());
        rows.push(known);
    }
    changes.removed += table.files.len().saturating_sub(next);
    let judge = |(file, row): (&ListedFile, &Option<usize>)| {
        let Some(record) = row.map(|row| &table.files[row]) else { return (false, false) };
        if record.bytes != file.bytes || record.flags().intersection(FileFlags::LEFT_OUT) != file.flags {
            return (false, false);
        }
        let read = || walk::read_file(base, &file.path, file.bytes);
        if record.hash == 0 && manifest.is_unreadable(&file.path) {
            return (read().is_err(), false);
        }
        let step = if file.modified_ns % 1_000_000_000 == 0 { COARSE_CLOCK_STEP_NS } else { CLOCK_STEP_NS };
        if record.modified_ns == file.modified_ns && file.modified_ns.saturating_add(step) < looked_ns {
            return (true, false);
        }
        let same = read().is_ok_and(|bytes| content_hash(&bytes) == record.hash);
        (same, same)
    };
    let judged: Vec<(bool, bool)> = listing.files.par_iter().zip(&rows).with_min_len(64).map(judge).collect();
    changes.changed = rows.iter().zip(&judged).filter(|(row, (same, _))| row.is_some() && !same).count();
    Comparison {
        same: rows.into_iter().zip(&judged).map(|(row, (same, _))| row.filter(|_| *same)).collect(),
        changes,
        has_read: judged.iter().any(|(_, read)| *read),
    }
}
