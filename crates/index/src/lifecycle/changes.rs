//! Changes of a tree since it was indexed.

use std::ops::Range;
use std::path::Path;

use quarry_files::Directory;
use quarry_walk::{self as walk, FileFlags, ListedFile, Listing, SkipReason, Stamp, WalkOptions};
use rayon::prelude::*;

use crate::rebuild_reason::Changes;
use crate::storage::content_hash::content_hash;
use crate::storage::index_directory::Manifest;
use crate::storage::table::Table;

/// Minimum age of a file when an index is built at which its timestamp proves that it is unchanged: a later change may
/// have the same timestamp. File systems with a resolution of one or two seconds need the longer one.
const CLOCK_STEP_NS: u64 = 50_000_000;
const COARSE_CLOCK_STEP_NS: u64 = 2_000_000_000;

/// A listing compared with an index.
pub(crate) struct Comparison {
    /// For each listed file the row of the index with the same content.
    pub same: Vec<Option<usize>>,
    pub changes: Changes,
    /// Paths of the files that were changed, added or removed.
    pub changed_paths: Vec<String>,
    /// True if an unchanged file had to be read; writing a new manifest saves that the next time.
    pub has_read: bool,
}

/// Returns true if the metadata of a file proves that it has not changed since the tree was listed at `looked_ns`.
/// Modification times can be set, and a second change within one tick of the clock is not visible.
fn is_proven(was: &Stamp, is: &Stamp, looked_ns: u64) -> bool {
    let last_ns = if is.changed_ns > 0 { is.changed_ns } else { is.modified_ns };
    let step = if last_ns % 1_000_000_000 == 0 { COARSE_CLOCK_STEP_NS } else { CLOCK_STEP_NS };
    was == is && last_ns.saturating_add(step) < looked_ns
}

/// Compares metadata, and content if the metadata differs or proves nothing and the size is equal. A file that could
/// not be read counts as changed once it is readable, and a notebook once `options` include or exclude its text.
pub(crate) fn compare(
    table: &Table,
    manifest: &Manifest,
    base: &Directory,
    listing: &Listing,
    options: &WalkOptions,
) -> Comparison {
    compare_rows((table, 0..table.files.len()), manifest, base, listing, options)
}

/// [`compare`] with the files of one tree in a table of several, by their rows.
pub(crate) fn compare_rows(
    (table, files): (&Table, Range<usize>),
    manifest: &Manifest,
    base: &Directory,
    listing: &Listing,
    options: &WalkOptions,
) -> Comparison {
    let looked_ns = manifest.looked_ns;
    let mut changes = Changes::default();
    // Both are ascending by path.
    let mut next = files.start;
    let mut changed_paths = Vec::new();
    let path_of = |row: usize| table.text(table.files[row].path).to_owned();
    let mut rows = Vec::with_capacity(listing.files.len());
    for file in &listing.files {
        let mut known = None;
        while next < files.end {
            match table.text(table.files[next].path).cmp(&file.path) {
                std::cmp::Ordering::Less => changed_paths.push(path_of(next)),
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
    changed_paths.extend((next..files.end).map(path_of));
    changes.removed = changed_paths.len();
    let judge = |(file, row): (&ListedFile, &Option<usize>)| {
        let Some(record) = row.map(|row| &table.files[row]) else { return (false, false) };
        if record.bytes != file.stamp.bytes || record.flags().intersection(FileFlags::LEFT_OUT) != file.flags
        {
            return (false, false);
        }
        let given = options.languages.language_for(Path::new(&file.path));
        if given.is_some_and(|language| language.name() != table.text(record.language)) {
            return (false, false);
        }
        if u64::from(record.text_bytes) > options.max_bytes {
            return (false, false);
        }
        let is_proven = is_proven(&record.stamp(), &file.stamp, looked_ns);
        // A skipped file has no hash; it counts as unchanged as long as it is skipped for the same reason.
        let skipped = if record.hash == 0 { manifest.skip_reason(&file.path) } else { None };
        let same = match skipped {
            Some(SkipReason::Unreadable(_)) => {
                let is_unreadable = matches!(walk::read(base, file, options), Err(SkipReason::Unreadable(_)));
                return (is_unreadable, false);
            }
            Some(SkipReason::TooLarge) if manifest.walk.max_bytes != options.max_bytes => false,
            _ if is_proven => return (true, false),
            Some(reason) => walk::read(base, file, options).is_err_and(|now| now == *reason),
            None => walk::read_text(base, &file.path, file.stamp.bytes)
                .is_ok_and(|text| content_hash(&text) == record.hash),
        };
        (same, same)
    };
    let judged: Vec<(bool, bool)> = listing.files.par_iter().zip(&rows).with_min_len(64).map(judge).collect();
    let differing = listing.files.iter().zip(rows.iter().zip(&judged)).filter(|(_, (_, (same, _)))| !same);
    changed_paths.extend(differing.map(|(file, _)| file.path.clone()));
    changes.changed = rows.iter().zip(&judged).filter(|(row, (same, _))| row.is_some() && !same).count();
    Comparison {
        same: rows.into_iter().zip(&judged).map(|(row, (same, _))| row.filter(|_| *same)).collect(),
        changes,
        changed_paths,
        has_read: judged.iter().any(|(_, read)| *read),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_old_and_equal_stamp_proves_anything() {
        const SECOND: u64 = 1_000_000_000;
        let looked_ns = 100 * SECOND;
        let was = Stamp { bytes: 5, modified_ns: 9 * SECOND + 1, changed_ns: 10 * SECOND + 1, inode: 7 };
        assert!(is_proven(&was, &was, looked_ns));
        for is in [
            Stamp { modified_ns: 9 * SECOND, ..was },
            Stamp { changed_ns: 11 * SECOND, ..was },
            Stamp { inode: 8, ..was },
        ] {
            assert!(!is_proven(&was, &is, looked_ns), "{is:?}");
        }
        // A modification time can be set to any value.
        let set = Stamp { modified_ns: 200 * SECOND, ..was };
        assert!(is_proven(&set, &set, looked_ns));
        for (changed_ns, expected) in [
            (looked_ns - 51_000_000, true),
            (looked_ns - 49_000_000, false),
            (looked_ns + 1, false),
            (98 * SECOND, false),
            (97 * SECOND, true),
        ] {
            let recent = Stamp { changed_ns, ..was };
            assert_eq!(is_proven(&recent, &recent, looked_ns), expected, "{changed_ns}");
        }
        // Without either, only the modification time is left.
        let plain = |modified_ns| Stamp { modified_ns, changed_ns: 0, inode: 0, ..was };
        assert!(is_proven(&plain(9 * SECOND), &plain(9 * SECOND), looked_ns));
        assert!(!is_proven(&plain(9 * SECOND), &plain(8 * SECOND), looked_ns));
        assert!(!is_proven(&plain(looked_ns - 1), &plain(looked_ns - 1), looked_ns));
    }
}
