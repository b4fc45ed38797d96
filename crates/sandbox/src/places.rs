//! How many do something at the same time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often those who wait look whether they still should.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// A number of places, of which everybody takes one.
#[derive(Debug)]
pub struct Places {
    free: Mutex<usize>,
    left: Condvar,
}

impl Places {
    /// So many.
    pub fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), left: Condvar::new() }
    }

    /// Waits for a place; `None` once `stop` is set.
    pub fn take(&self, stop: &AtomicBool) -> Option<Taken<'_>> {
        let mut free = self.free();
        while !stop.load(Ordering::SeqCst) {
            if *free > 0 {
                *free -= 1;
                return Some(Taken(self));
            }
            free = self.left.wait_timeout(free, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    fn free(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place, given back when dropped.
#[derive(Debug)]
pub struct Taken<'a>(&'a Places);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.free() += 1;
        self.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_by_one_until_it_is_given_back_and_nobody_waits_for_ever() {
        let (places, stop) = (Places::new(1), AtomicBool::new(false));
        let taken = places.take(&stop);
        assert!(taken.is_some());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| places.take(&stop).is_some());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!second.is_finished());
            drop(taken);
            assert!(second.join().unwrap());
            let taken = places.take(&stop);
            let third = scope.spawn(|| places.take(&stop).is_none());
            stop.store(true, Ordering::SeqCst);
            assert!(third.join().unwrap());
            drop(taken);
        });
    }
}
