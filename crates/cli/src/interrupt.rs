//! Signals.

use std::sync::Arc;
#[cfg(feature = "data")]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(feature = "data")]
use crate::output;

/// Makes a write beyond the limit on the size of files (`ulimit -f`) an error, instead of a signal that ends the program.
/// Programs that are started keep the signal.
#[cfg(unix)]
pub fn survive_file_size_limit() {
    // Without it, the default remains.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// A flag that is set when the user interrupts; the second time ends the program at once.
#[cfg(feature = "data")]
pub fn stop_on_interrupt() -> Result<Arc<AtomicBool>, ctrlc::Error> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        // A second interrupt does not wait for running steps.
        if asked.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        output::note("finishing what is in progress; interrupt again to stop now");
    })?;
    Ok(stop)
}
