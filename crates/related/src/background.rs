//! Histories that are read while a server answers.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use quarry_index::{Index, UserDirectories};
use quarry_session::Tree;

use crate::tree::{self, HistoryView, OpenOptions, Problem, RelatedTree, read_histories, roots_of};

/// Time that an answer waits for the history: that of most repositories is read by then.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Minimum time between two looks for new commits.
const PAUSE: Duration = Duration::from_secs(5);

/// The relations of served trees. Their histories are read on a thread, which ends soon after this value is dropped.
pub struct Background {
    /// Directory of the caches.
    cache: Option<PathBuf>,
    reading: Arc<Reading>,
    last: Mutex<Option<LastOpened>>,
}

/// The index opened last.
struct LastOpened {
    index: Weak<Index>,
    n_read: u64,
    tree: Arc<RelatedTree>,
}

#[derive(Default)]
struct Reading {
    state: Mutex<State>,
    is_done: Condvar,
    is_stopped: AtomicBool,
}

#[derive(Default)]
struct State {
    is_running: bool,
    /// When the last look for new commits began.
    looked: Option<Instant>,
    /// Number of looks that found some, or other problems than before.
    n_read: u64,
    /// Why directories have no history, or an older one.
    problems: HashMap<String, Problem>,
}

impl Drop for Background {
    fn drop(&mut self) {
        self.reading.is_stopped.store(true, Ordering::Relaxed);
    }
}

impl Default for Background {
    fn default() -> Self {
        Self::new(&UserDirectories::default())
    }
}

impl Background {
    /// Keeps what it reads in the cache of these directories.
    pub fn new(user: &UserDirectories) -> Self {
        Self { cache: tree::cache(user), reading: Arc::default(), last: Mutex::default() }
    }

    /// The relations of a tree, with as much of its history as is read.
    pub fn get(&self, tree: &Tree) -> Arc<RelatedTree> {
        self.start(tree);
        let state = self.reading.lock();
        let (state, _) = self
            .reading
            .is_done
            .wait_timeout_while(state, MAX_WAIT, |state| state.is_running)
            .unwrap_or_else(PoisonError::into_inner);
        let (n_read, is_running, problems) = (state.n_read, state.is_running, state.problems.clone());
        drop(state);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |last: &&LastOpened| {
            last.n_read == n_read
                && last.index.upgrade().is_some_and(|index| Arc::ptr_eq(&index, &tree.index))
        };
        if let Some(last) = last.as_ref().filter(is_same) {
            return Arc::clone(&last.tree);
        }
        let options =
            OpenOptions { cache: self.cache.clone(), reads_history: false, ..OpenOptions::default() };
        let mut opened = RelatedTree::open_with(tree, &options, &problems);
        let unread = |history: &&mut HistoryView| history.head.is_none() && history.problem.is_none();
        for history in opened.histories.iter_mut().filter(unread).filter(|_| is_running) {
            history.problem = Some("still being read".to_owned());
        }
        let opened = Arc::new(opened);
        if !is_running {
            *last =
                Some(LastOpened { index: Arc::downgrade(&tree.index), n_read, tree: Arc::clone(&opened) });
        }
        opened
    }

    /// Begins to look for new commits, unless that was done a moment ago.
    fn start(&self, tree: &Tree) {
        let mut state = self.reading.lock();
        if state.is_running || state.looked.is_some_and(|looked| looked.elapsed() < PAUSE) {
            return;
        }
        (state.is_running, state.looked) = (true, Some(Instant::now()));
        drop(state);
        let (cache, reading, roots) = (self.cache.clone(), Arc::clone(&self.reading), roots_of(tree));
        let read = move || {
            let is_cancelled = || reading.is_stopped.load(Ordering::Relaxed);
            let options = OpenOptions { cache, is_cancelled: &is_cancelled, ..OpenOptions::default() };
            let (is_new, problems) = read_histories(&roots, &options);
            let mut state = reading.lock();
            let others = state.problems.iter().filter(|(root, _)| !roots.contains(root));
            let problems: HashMap<String, Problem> =
                others.map(|(root, problem)| (root.clone(), problem.clone())).chain(problems).collect();
            state.n_read += u64::from(is_new || state.problems != problems);
            (state.is_running, state.problems) = (false, problems);
            drop(state);
            reading.is_done.notify_all();
        };
        if thread::Builder::new().name("history".to_owned()).spawn(read).is_err() {
            self.reading.lock().is_running = false;
        }
    }
}

impl Reading {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
