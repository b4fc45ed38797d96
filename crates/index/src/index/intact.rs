//! Whether what was read from an index is what was written.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::map;
use crate::storage::segments::SegmentPool;
use crate::{Error, Index};

/// Tells whether files of some index directories were overwritten since these were opened.
#[derive(Clone)]
pub(crate) struct Intact {
    since: usize,
    directories: Vec<PathBuf>,
    pool: Option<Arc<SegmentPool>>,
}

impl Intact {
    /// Of a directory, from now on; the pool is told.
    pub fn since_now(directory: &Path, pool: Option<&Arc<SegmentPool>>) -> Self {
        Self { since: map::now(), directories: vec![directory.to_owned()], pool: pool.cloned() }
    }

    /// Of several indexes together.
    pub fn of_all(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().reduce(|mut first, other| {
            first.since = first.since.min(other.since);
            first.directories.extend(other.directories);
            Self { pool: first.pool.or(other.pool), ..first }
        })
    }
}

impl Index {
    /// Checks that no file of an index was overwritten since this one was opened: what was read from it may be anything
    /// otherwise, and it must be opened again.
    ///
    /// # Errors
    /// When one was.
    pub fn check_intact(&self) -> Result<(), Error> {
        let Some(Intact { since, directories, pool }) = &self.intact else { return Ok(()) };
        let changed = map::overwritten_since(*since);
        let is_changed = |path: &&PathBuf| changed.iter().any(|changed| changed.starts_with(path));
        let Some(path) = directories.iter().find(is_changed) else { return Ok(()) };
        if let Some(pool) = pool {
            pool.tell_replaced();
        }
        let source = Box::new(Error::corrupt(path, "a file of it was overwritten"));
        Err(Error::Replaced { path: path.clone(), source })
    }

    /// The result of reading from the index, unless a file was overwritten.
    ///
    /// # Errors
    /// Those of `read`, and when a file was overwritten, whatever came of that.
    pub(crate) fn reading<T>(&self, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        // Postings are read by another program's code, which may panic on any bytes.
        let result = catch_unwind(AssertUnwindSafe(read));
        if !matches!(result, Ok(Ok(_))) {
            map::compare_next();
        }
        self.check_intact()?;
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}
