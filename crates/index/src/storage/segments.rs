//! Segments of indexes, which are opened when they are needed, and closed when others are.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quarry_files::Directory;

use crate::Error;
use crate::storage::index_directory::IndexDirectory;

/// Maximum number of open segments, however small: each maps a dozen files, and a Linux process has 65,530 mappings.
const MAX_OPEN: usize = 2000;

/// The postings or the vectors of a part of an index.
pub(crate) enum Segment<T> {
    /// Open as long as its index.
    Open(Arc<T>),
    /// Opened by each use, unless it is open.
    OnDemand(Arc<OnDemand<T>>),
}

impl<T> Clone for Segment<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Open(content) => Self::Open(Arc::clone(content)),
            Self::OnDemand(segment) => Self::OnDemand(Arc::clone(segment)),
        }
    }
}

/// State of a segment that is opened on demand.
pub(crate) struct OnDemand<T> {
    pool: Arc<SegmentPool>,
    /// Identifies it in the pool.
    number: u64,
    /// Size of its files.
    bytes: u64,
    open: Box<Open<T>>,
}

type Open<T> = dyn Fn() -> Result<T, Error> + Send + Sync;

impl<T> From<T> for Segment<T> {
    fn from(content: T) -> Self {
        Self::Open(Arc::new(content))
    }
}

impl<T: Send + Sync + 'static> Segment<T> {
    /// A segment with files of this size, which `open` opens when it is needed.
    pub fn on_demand(
        pool: &Arc<SegmentPool>,
        bytes: u64,
        open: impl Fn() -> Result<T, Error> + Send + Sync + 'static,
    ) -> Self {
        let (pool, number) = (Arc::clone(pool), pool.number());
        Self::OnDemand(Arc::new(OnDemand { pool, number, bytes, open: Box::new(open) }))
    }

    /// Its content, which stays open at least as long as it is held.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn get(&self) -> Result<Arc<T>, Error> {
        match self {
            Self::Open(content) => Ok(Arc::clone(content)),
            Self::OnDemand(segment) => segment.pool.get(segment.number, segment.bytes, &segment.open),
        }
    }
}

impl<T> Drop for OnDemand<T> {
    fn drop(&mut self) {
        self.pool.remove(self.number);
    }
}

/// Source of the segments of an index.
pub(crate) struct SegmentSource<'a> {
    /// The index directory.
    pub directory: &'a Directory,
    /// That directory's location, and the pool, if segments are opened on demand. An open directory for each index
    /// would need as many descriptors.
    pub on_demand: Option<(&'a IndexDirectory, &'a Arc<SegmentPool>)>,
}

impl SegmentSource<'_> {
    /// A segment with files of this size: now opened by `open`, or when it is needed.
    ///
    /// # Errors
    /// Those of `open`, if it is opened now.
    pub fn segment<T: Send + Sync + 'static>(
        &self,
        bytes: u64,
        open: impl Fn(&Directory) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<Segment<T>, Error> {
        let Some((location, pool)) = self.on_demand else { return open(self.directory).map(Segment::from) };
        let (location, of_pool) = (location.clone(), Arc::clone(pool));
        let reopen = move || {
            let directory = location.open().map_err(|source| Error::io("open", &location.path(), source));
            // Files that are being removed one by one fail in many ways. Whoever opens the index again finds out whether
            // it is damaged instead.
            directory.and_then(|directory| open(&directory)).map_err(|source| {
                of_pool.report_replaced();
                Error::Replaced { path: location.path(), source: Box::new(source) }
            })
        };
        Ok(Segment::on_demand(pool, bytes, reopen))
    }
}

/// Keeps segments open, up to a number of bytes; those that were not used for the longest time are closed first. One that
/// is in use stays open until its user is done, but no longer counts.
pub struct SegmentPool {
    max_bytes: u64,
    replaced: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, OpenSegment>,
    /// The open segments by the time of their last use.
    by_use: BTreeMap<u64, u64>,
    bytes: u64,
    /// Counts uses.
    clock: u64,
    next_number: u64,
    n_opened: u64,
    n_closed: u64,
}

struct OpenSegment {
    content: Arc<dyn Any + Send + Sync>,
    bytes: u64,
    used: u64,
}

/// Counts of a [`SegmentPool`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentCounts {
    pub open: usize,
    /// Size of their files.
    pub bytes: u64,
    /// The limit of that size.
    pub max_bytes: u64,
    /// Number of times that one was opened.
    pub opened: u64,
    /// Number of times that one was closed in favor of another one.
    pub closed: u64,
}

impl SegmentPool {
    /// Keeps segments of this size together open, and always the last one that was used. Calls `replaced` when one cannot
    /// be opened, usually because its index has a later generation: time to open that.
    pub fn new(max_bytes: u64, replaced: impl Fn() + Send + Sync + 'static) -> Self {
        Self { max_bytes, replaced: Box::new(replaced), state: Mutex::default() }
    }

    /// Tells that an index must be opened again.
    pub(crate) fn report_replaced(&self) {
        (self.replaced)();
    }

    pub fn counts(&self) -> SegmentCounts {
        let state = self.state();
        SegmentCounts {
            open: state.open.len(),
            bytes: state.bytes,
            max_bytes: self.max_bytes,
            opened: state.n_opened,
            closed: state.n_closed,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self) -> u64 {
        let mut state = self.state();
        state.next_number += 1;
        state.next_number
    }

    fn get<T: Send + Sync + 'static>(
        &self,
        number: u64,
        bytes: u64,
        open: &Open<T>,
    ) -> Result<Arc<T>, Error> {
        if let Some(content) = self.state().used(number) {
            return Ok(content);
        }
        // Not under the lock: others need not wait for this one. Two may open it at the same time; one of both is kept.
        let opened = Arc::new(open()?);
        let mut state = self.state();
        if let Some(content) = state.used(number) {
            return Ok(content);
        }
        let content: Arc<dyn Any + Send + Sync> = opened.clone();
        state.insert(number, bytes, content);
        let closed = state.close_others(self.max_bytes);
        drop(state);
        // Unmapping files takes time, also not under the lock.
        drop(closed);
        Ok(opened)
    }

    fn remove(&self, number: u64) {
        let removed = self.state().remove(number);
        drop(removed);
    }
}

impl fmt::Debug for SegmentPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SegmentPool").field(&self.counts()).finish()
    }
}

impl State {
    /// An open segment, which is used now.
    fn used<T: Send + Sync + 'static>(&mut self, number: u64) -> Option<Arc<T>> {
        let segment = self.open.get_mut(&number)?;
        self.clock += 1;
        self.by_use.remove(&segment.used);
        segment.used = self.clock;
        self.by_use.insert(self.clock, number);
        Arc::clone(&segment.content).downcast().ok()
    }

    fn insert(&mut self, number: u64, bytes: u64, content: Arc<dyn Any + Send + Sync>) {
        self.clock += 1;
        self.n_opened += 1;
        self.bytes += bytes;
        self.by_use.insert(self.clock, number);
        self.open.insert(number, OpenSegment { content, bytes, used: self.clock });
    }

    fn remove(&mut self, number: u64) -> Option<OpenSegment> {
        let segment = self.open.remove(&number)?;
        self.by_use.remove(&segment.used);
        self.bytes -= segment.bytes;
        Some(segment)
    }

    /// Closes those not used for the longest time until the rest is within the limits; never the last one.
    fn close_others(&mut self, max_bytes: u64) -> Vec<OpenSegment> {
        let mut closed = Vec::new();
        while self.open.len() > 1 && (self.bytes > max_bytes || self.open.len() > MAX_OPEN) {
            let oldest = self.by_use.first_key_value().map(|(_, number)| *number);
            closed.extend(oldest.and_then(|number| self.remove(number)));
        }
        self.n_closed += closed.len() as u64;
        closed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn segments(pool: &Arc<SegmentPool>, n: usize, opened: &Arc<AtomicUsize>) -> Vec<Segment<usize>> {
        let segment = |content: usize| {
            let opened = Arc::clone(opened);
            let open = move || {
                opened.fetch_add(1, Ordering::SeqCst);
                Ok(content)
            };
            Segment::on_demand(pool, 10, open)
        };
        (0..n).map(segment).collect()
    }

    #[test]
    fn the_least_recently_used_segments_are_closed() {
        let (pool, opened) = (Arc::new(SegmentPool::new(30, || ())), Arc::default());
        let all = segments(&pool, 5, &opened);
        assert_eq!(pool.counts(), SegmentCounts { max_bytes: 30, ..SegmentCounts::default() });
        for number in [0, 1, 2, 0, 3, 0, 2] {
            assert_eq!(*all[number].get().unwrap(), number);
        }
        // 1 was closed for 3.
        let expected = SegmentCounts { open: 3, bytes: 30, max_bytes: 30, opened: 4, closed: 1 };
        assert_eq!((pool.counts(), opened.load(Ordering::SeqCst)), (expected, 4));
        let held = all[1].get().unwrap();
        (2..5).for_each(|number| assert_eq!(*all[number].get().unwrap(), number));
        // It was closed for others, and is still there for its user.
        assert_eq!((*held, Arc::strong_count(&held)), (1, 1));
        drop(all);
        let counts = pool.counts();
        assert_eq!((counts.open, counts.bytes), (0, 0));
    }

    #[test]
    fn one_larger_than_the_limit_is_opened_and_failures_are_not_kept() {
        let pool = Arc::new(SegmentPool::new(5, || ()));
        let large = Segment::on_demand(&pool, 10, || Ok(7));
        assert_eq!((*large.get().unwrap(), pool.counts().open), (7, 1));
        let times = AtomicUsize::new(0);
        let flaky = Segment::on_demand(&pool, 1, move || match times.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Error::EmptyQuery),
            n => Ok(n),
        });
        assert!(flaky.get().is_err());
        assert_eq!(*flaky.get().unwrap(), 1);
    }

    #[test]
    fn threads_agree() {
        let (pool, opened) = (Arc::new(SegmentPool::new(30, || ())), Arc::default());
        let all = segments(&pool, 50, &opened);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let all = &all;
                scope.spawn(move || {
                    for step in 0..1000 {
                        let number = (thread * 31 + step * 7) % all.len();
                        assert_eq!(*all[number].get().unwrap(), number);
                    }
                });
            }
        });
        let counts = pool.counts();
        assert!(counts.open == 3 && counts.bytes == 30 && counts.opened == counts.closed + 3, "{counts:?}");
    }
}
