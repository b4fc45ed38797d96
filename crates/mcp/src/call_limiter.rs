//! Limit of concurrent calls.

use std::sync::Arc;
use std::thread;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

use crate::tools::Call;

/// Runs as many calls at a time as there are processors, each on a thread of its own; the others wait, in their order. Calls
/// that need no index have a limit of their own, so that none of them waits for one to be built.
#[derive(Clone)]
pub struct CallLimiter {
    of_index: Arc<Semaphore>,
    of_files: Arc<Semaphore>,
}

impl Default for CallLimiter {
    fn default() -> Self {
        // One call may wait for another process, which must not keep all others waiting.
        Self::at_once(thread::available_parallelism().map_or(2, usize::from).max(2))
    }
}

impl CallLimiter {
    fn at_once(n: usize) -> Self {
        Self { of_index: Arc::new(Semaphore::new(n)), of_files: Arc::new(Semaphore::new(n)) }
    }

    /// Does the work of a call when there is room. If the future is dropped before, the work is never begun; if it is dropped
    /// afterwards, the work takes its room until it is done all the same.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: &Call,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let limit = if call.needs_index() { &self.of_index } else { &self.of_files };
        // It fails only when the semaphore is closed, which nobody does.
        let permit = Arc::clone(limit).acquire_owned().await.ok();
        spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn call(name: &str, arguments: Value) -> Arc<Call> {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        Arc::new(Call::new(name, arguments).unwrap().unwrap())
    }

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_counts_until_it_is_done() {
        let limiter = CallLimiter::at_once(1);
        let search = call("search", json!({"query": "x"}));
        let take = |work: Box<dyn FnOnce() + Send>| {
            let (limiter, search) = (limiter.clone(), Arc::clone(&search));
            tokio::spawn(async move { limiter.run(&search, work).await })
        };
        let (release, blocked) = mpsc::channel::<()>();
        let first = take(Box::new(move || blocked.recv().unwrap()));
        while limiter.of_index.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        // One that waits and is given up is never begun.
        let begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&begun);
        let second = take(Box::new(move || begins.store(true, Ordering::SeqCst)));
        let third = take(Box::new(|| ()));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!third.is_finished(), "the first one is still at work");
        let status = call("index_status", json!({}));
        assert!(limiter.run(&status, || true).await.unwrap(), "it needs no index");
        second.abort();
        release.send(()).unwrap();
        third.await.unwrap().unwrap();
        assert!(!begun.load(Ordering::SeqCst));
    }
}
