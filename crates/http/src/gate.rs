//! Concurrency limit.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::Semaphore;

use crate::problem::Problem;

/// The longest that anything may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Requests that may wait for each one that is answered.
const WAITING: usize = 32;

/// Runs one closure per processor at a time, lets a limited number of others wait, and refuses the rest.
#[derive(Clone)]
pub(crate) struct Gate {
    running: Arc<Semaphore>,
    admitted: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new(at_once: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(at_once)),
            admitted: Arc::new(Semaphore::new(at_once * (1 + WAITING))),
        }
    }

    /// Runs a closure on a thread of its own. One that takes too long is no longer waited for, but counts until it ends.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = || Problem::busy("too many requests are waiting; try again after the time in Retry-After");
        let Ok(admitted) = Arc::clone(&self.admitted).try_acquire_owned() else { return Err(busy()) };
        let running = Arc::clone(&self.running);
        let answered = async move {
            let permit = running.acquire_owned().await.map_err(|_| busy())?;
            let done = tokio::task::spawn_blocking(move || {
                let result = work();
                drop((permit, admitted));
                result
            });
            done.await.unwrap_or_else(|error| Err(Problem::internal(&error)))
        };
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(result) => result,
            Err(_) => Err(Problem::new(
                StatusCode::GATEWAY_TIMEOUT,
                format!(
                    "this took longer than {} s; request less, or narrow it to a directory",
                    PATIENCE.as_secs()
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn requests_beyond_the_limit_are_refused_at_once() {
        let gate = Gate::new(1);
        let (release, blocked) = mpsc::channel::<()>();
        let first = gate.clone();
        let first = tokio::spawn(async move { first.run(move || Ok(blocked.recv().is_ok())).await });
        while gate.running.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let waiting: Vec<_> = (0..WAITING)
            .map(|n| {
                let gate = gate.clone();
                tokio::spawn(async move { gate.run(move || Ok(n)).await })
            })
            .collect();
        while gate.admitted.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = gate.run(|| Ok(())).await.unwrap_err();
        assert_eq!((refused.status, refused.retry_after), (StatusCode::SERVICE_UNAVAILABLE, Some(1)));
        release.send(()).unwrap();
        assert!(first.await.unwrap().unwrap());
        for (n, waited) in waiting.into_iter().enumerate() {
            assert_eq!(waited.await.unwrap().unwrap(), n);
        }
        assert!(gate.run(|| Ok(true)).await.unwrap());
    }

    #[tokio::test]
    async fn a_panic_is_a_problem() {
        let gate = Gate::new(1);
        let problem = gate.run(|| -> Result<(), Problem> { panic!("on purpose") }).await.unwrap_err();
        assert_eq!(problem.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(gate.run(|| Ok(true)).await.unwrap());
    }
}
