//! Panics of decoders, in a process of its own: the hook that prints panics is that of the whole process.

use std::panic::{catch_unwind, set_hook};
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_files::without_panic;

#[test]
fn a_panic_of_a_decoder_is_caught_and_not_printed() {
    static PRINTED: AtomicUsize = AtomicUsize::new(0);
    set_hook(Box::new(|_| {
        PRINTED.fetch_add(1, Ordering::SeqCst);
    }));
    assert_eq!(without_panic(|| 1), Some(1));
    assert_eq!(without_panic(|| without_panic(|| panic!("inner")).map_or(2, |()| 3)), Some(2));
    assert_eq!(without_panic::<()>(|| panic!("outer")), None);
    assert_eq!(PRINTED.load(Ordering::SeqCst), 0);
    assert!(catch_unwind(|| panic!("not of a decoder")).is_err());
    assert_eq!(PRINTED.load(Ordering::SeqCst), 1);
}
