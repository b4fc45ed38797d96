//! Reading from an index, all of it or nothing.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::map;
use crate::storage::segments::SegmentPool;
use crate::{Error, Index};

/// Tells whether files of some index directories were overwritten, or found to be damaged, since these were opened.
#[derive(Clone)]
pub(crate) struct Intact {
    since: usize,
    directories: Vec<PathBuf>,
    pool: Option<Arc<SegmentPool>>,
    /// Whether all of their content was verified when they were opened.
    is_verified: bool,
}

impl Intact {
    /// Of a directory, from now on; the pool is told.
    pub fn since_now(directory: &Path, pool: Option<&Arc<SegmentPool>>, is_verified: bool) -> Self {
        Self { since: map::now(), directories: vec![directory.to_owned()], pool: pool.cloned(), is_verified }
    }

    /// Of several indexes together.
    pub fn of_all(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().reduce(|mut first, other| {
            first.since = first.since.min(other.since);
            first.directories.extend(other.directories);
            first.is_verified &= other.is_verified;
            Self { pool: first.pool.or(other.pool), ..first }
        })
    }
}

impl Index {
    /// Checks that no file of an index was overwritten since this one was opened, or found to be damaged: what was read
    /// from it may be anything otherwise, and it must be opened again.
    ///
    /// # Errors
    /// When one was.
    pub fn check_intact(&self) -> Result<(), Error> {
        let Some(Intact { since, directories, pool, .. }) = &self.intact else { return Ok(()) };
        let lost = map::lost_since(*since);
        let is_lost = |directory: &&PathBuf| lost.iter().any(|path| path.starts_with(directory));
        let Some(directory) = directories.iter().find(is_lost) else { return Ok(()) };
        if let Some(pool) = pool {
            pool.tell_replaced();
        }
        let source = Box::new(Error::corrupt(directory, "a file of it was overwritten or is damaged"));
        Err(Error::Replaced { path: directory.clone(), source })
    }

    /// The result of reading from the index, unless something of it was lost: [`Error::Replaced`] then, whatever came of
    /// that, panics included. Opening the index again verifies all of it and builds it again where that fails, so that
    /// asking once more gives the answer. A panic for another reason comes back then.
    ///
    /// # Errors
    /// Those of `read`, and when something was lost.
    pub fn read<T, E: From<Error>>(&self, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        // Postings are read by another program's code, which may panic on any bytes.
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
