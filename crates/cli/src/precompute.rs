//! Embeds units for the re-ranker while a process that stays waits for something else.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use quarry_index::{Index, Precomputation, PrecomputedCounts};

use crate::output;

/// How long units are embedded before it is told that there are more.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// A thread that embeds units ahead of searches. It ends with the process: at most some seconds of work are lost.
pub struct Background(Sender<Precomputation>);

impl Background {
    /// Starts a thread that waits for an index; `embedded` is called from there when more of its units are embedded.
    pub fn start(embedded: impl Fn() + Send + 'static) -> Self {
        let (sender, received) = mpsc::channel();
        thread::spawn(move || embed_all(&received, &embedded));
        Self(sender)
    }

    /// Has the units of an index embedded that was just opened, after those of the indexes before.
    pub fn embed(&self, index: &Index) {
        if let Some(work) = index.precomputation() {
            // The thread ends only with the process.
            let _ = self.0.send(work);
        }
    }
}

fn embed_all(received: &Receiver<Precomputation>, told: &dyn Fn()) {
    // Half of the cores, in a pool of its own: searches go on.
    let n_threads = thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build();
    while let Ok(first) = received.recv() {
        // Of several openings of an index, the last one counts.
        let work = received.try_iter().last().unwrap_or(first);
        loop {
            let begun = Instant::now();
            let embed = || work.embed(&|| begun.elapsed() > TELL_EVERY, &|_| {});
            let embedded = match &pool {
                Ok(pool) => pool.install(embed),
                Err(_) => embed(),
            };
            match embedded {
                Ok(PrecomputedCounts { embedded: 0, .. }) => break,
                Ok(PrecomputedCounts { missing, .. }) => {
                    told();
                    if missing == 0 {
                        break;
                    }
                }
                Err(error) => {
                    output::warn_once(
                        "no vectors for re-ranking were computed; searches compute them",
                        &error,
                    );
                    break;
                }
            }
        }
    }
}
