//! Stopping in good order when the user interrupts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::output;

/// A flag that is set when the user interrupts; the second time ends the program at once.
///
/// # Errors
/// When the signals cannot be had.
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
