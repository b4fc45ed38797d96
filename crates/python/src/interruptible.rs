//! Long calls, which Ctrl-C ends and which survive a fork.

use std::mem;
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{QuarryError, raised};

/// Maximum time that a signal waits.
const POLL: Duration = Duration::from_millis(50);

/// The threads of a process. A fork takes none of them along, so that the child needs its own.
struct Pool {
    process: u32,
    threads: Arc<ThreadPool>,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);

fn threads() -> PyResult<Arc<ThreadPool>> {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = process::id();
    match &*pool {
        Some(pool) if pool.process == process => return Ok(Arc::clone(&pool.threads)),
        _ => {}
    }
    // Work whose caller was interrupted may panic later; the process goes on.
    let built = ThreadPoolBuilder::new().panic_handler(|_| {}).build().map_err(raised)?;
    let threads = Arc::new(built);
    // Ending the threads of the parent would wait for locks that nobody holds here.
    mem::forget(pool.replace(Pool { process, threads: Arc::clone(&threads) }));
    Ok(threads)
}

/// The result of `work`, which runs without the interpreter's lock. Ctrl-C raises within a twentieth of a second; the
/// work then goes on in the background to its end, and its result is dropped.
///
/// # Errors
/// When a signal handler raises, or the work panics.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::channel();
    threads()?.spawn(move || {
        // Nobody waits for the result of an interrupted call.
        let _ = sender.send(work());
    });
    loop {
        let found;
        (found, receiver) = py.detach(move || (receiver.recv_timeout(POLL), receiver));
        match found {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(QuarryError::new_err("a thread of Quarry panicked; its message is on stderr"));
            }
        }
    }
}
