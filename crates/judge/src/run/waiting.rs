//! Avoiding duplicate requests in flight.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct RequestsInFlight {
    names: Mutex<HashSet<String>>,
    left: Condvar,
}

impl RequestsInFlight {
    /// Waits until no other thread has entered with this name.
    pub(crate) fn enter<'a>(&'a self, name: &'a str) -> RequestGuard<'a> {
        let mut names = lock(&self.names);
        while names.contains(name) {
            names = self.left.wait(names).unwrap_or_else(PoisonError::into_inner);
        }
        names.insert(name.to_owned());
        RequestGuard { all: self, name }
    }
}

pub(crate) struct RequestGuard<'a> {
    all: &'a RequestsInFlight,
    name: &'a str,
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        lock(&self.all.names).remove(self.name);
        self.all.left.notify_all();
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
