//! A semaphore that limits concurrency.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval at which waiting threads check whether to stop.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A counting semaphore, with a permit for each working thread.
#[derive(Debug)]
pub struct Semaphore {
    available: Mutex<usize>,
    released: Condvar,
}

impl Semaphore {
    pub fn new(count: usize) -> Self {
        Self { available: Mutex::new(count), released: Condvar::new() }
    }

    /// Waits for a permit; `None` once `stop` is set.
    pub fn acquire(&self, stop: &AtomicBool) -> Option<Permit<'_>> {
        let mut available = self.available();
        while !stop.load(Ordering::SeqCst) {
            if *available > 0 {
                *available -= 1;
                return Some(Permit(self));
            }
            available = self
                .released
                .wait_timeout(available, POLL_INTERVAL)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        None
    }

    fn available(&self) -> MutexGuard<'_, usize> {
        self.available.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A permit, released when dropped.
#[derive(Debug)]
pub struct Permit<'a>(&'a Semaphore);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.available() += 1;
        self.0.released.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_has_one_holder_and_is_always_released() {
        let (semaphore, stop) = (Semaphore::new(1), AtomicBool::new(false));
        let permit = semaphore.acquire(&stop);
        assert!(permit.is_some());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| semaphore.acquire(&stop).is_some());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!second.is_finished());
            drop(permit);
            assert!(second.join().unwrap());
            let permit = semaphore.acquire(&stop);
            let third = scope.spawn(|| semaphore.acquire(&stop).is_none());
            stop.store(true, Ordering::SeqCst);
            assert!(third.join().unwrap());
            drop(permit);
        });
    }
}
