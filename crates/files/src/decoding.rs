//! Decoders of other crates, which panic on some damaged files.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static IS_DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Runs a decoder on a file that strangers may have made. `None` if it panics, and nothing is printed: the caller reports a
/// damaged file. Panics of other threads are printed as before.
pub fn without_panic<T>(decode: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_DECODING.get() {
                print(panic);
            }
        }));
    });
    let was_decoding = IS_DECODING.replace(true);
    let found = catch_unwind(AssertUnwindSafe(decode));
    IS_DECODING.set(was_decoding);
    found.ok()
}
