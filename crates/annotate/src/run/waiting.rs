//! Waiting for one another.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Names of the requests that somebody waits for.
#[derive(Default)]
pub(super) struct InFlight {
    names: Mutex<HashSet<String>>,
    left: Condvar,
}

impl InFlight {
    /// Waits until nobody else is in there under this name.
    pub(super) fn enter<'a>(&'a self, name: &'a str) -> Entered<'a> {
        let mut names = lock(&self.names);
        while names.contains(name) {
            names = self.left.wait(names).unwrap_or_else(PoisonError::into_inner);
        }
        names.insert(name.to_owned());
        Entered { all: self, name }
    }
}

pub(super) struct Entered<'a> {
    all: &'a InFlight,
    name: &'a str,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        lock(&self.all.names).remove(self.name);
        self.all.left.notify_all();
    }
}

/// A number of places, of which everybody takes one.
pub(super) struct Places {
    free: Mutex<usize>,
    left: Condvar,
}

impl Places {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), left: Condvar::new() }
    }

    pub(super) fn take(&self) -> Taken<'_> {
        let mut free = lock(&self.free);
        while *free == 0 {
            free = self.left.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Taken(self)
    }
}

pub(super) struct Taken<'a>(&'a Places);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.left.notify_one();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
