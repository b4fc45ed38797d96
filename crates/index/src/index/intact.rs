//! Reads of an index that succeed completely or fail.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::map;
use crate::storage::segments::SegmentPool;
use crate::{Error, Index};

/// Detects whether files of some index directories were overwritten, or found to be damaged, since these were opened.
#[derive(Clone)]
pub(crate) struct OverwriteDetector {
    since: usize,
    directories: Vec<PathBuf>,
    pool: Option<Arc<SegmentPool>>,
    /// True if all of their content was verified when they were opened.
    is_verified: bool,
}

impl OverwriteDetector {
    /// For a directory, from now on; the pool is notified.
    pub fn since_now(directory: &Path, pool: Option<&Arc<SegmentPool>>, is_verified: bool) -> Self {
        Self { since: map::now(), directories: vec![directory.to_owned()], pool: pool.cloned(), is_verified }
    }

    /// For several indexes together.
    pub fn combine(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().reduce(|mut first, other| {
            first.since = first.since.min(other.since);
            first.directories.extend(other.directories);
            first.is_verified &= other.is_verified;
            Self { pool: first.pool.or(other.pool), ..first }
        })
    }
}

impl Index {
    /// Checks that no file of an index was overwritten since this one was opened, or found to be damaged: otherwise
    /// the data read from it may be arbitrary, and it must be opened again.
    ///
    /// # Errors
    /// When one was.
    pub fn check_intact(&self) -> Result<(), Error> {
        let Some(OverwriteDetector { since, directories, pool, .. }) = &self.intact else { return Ok(()) };
        let lost = map::damaged_since(*since);
        let is_lost = |directory: &&PathBuf| lost.iter().any(|path| path.starts_with(directory));
        let Some(directory) = directories.iter().find(is_lost) else { return Ok(()) };
        if let Some(pool) = pool {
            pool.report_replaced();
        }
        let source = Box::new(Error::corrupt(directory, "a file of it was overwritten or is damaged"));
        Err(Error::Replaced { path: directory.clone(), source })
    }

    /// The result of reading from the index, or [`Error::Replaced`] if any part of it was lost meanwhile, whatever
    /// `read` then returned, panics included. Opening the index again verifies all of it, and rebuilds it if that
    /// fails, so that repeating the request gives the answer. A panic for another reason is resumed.
    ///
    /// # Errors
    /// Those of `read`, and when something was lost.
    pub fn read<T, E: From<Error>>(&self, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        // Postings are read by third-party code, which may panic on arbitrary bytes.
        let result = catch_unwind(AssertUnwindSafe(read));
        if !matches!(result, Ok(Ok(_))) {
            map::compare_next();
        }
        if let (Err(_), Some(intact)) = (&result, &self.intact)
            && !intact.is_verified
        {
            intact.directories.iter().for_each(|directory| map::report(directory));
        }
        self.check_intact()?;
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}
