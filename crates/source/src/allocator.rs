//! Counts the memory that tree-sitter has, so that parsing can be stopped before it has too much.
//!
//! An ambiguous file, such as `A<A<A<…` in C++, takes thousands of bytes for each of its own, and is parsed no slower than
//! others by any count that the parser offers. All of its memory goes through functions that can be replaced.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Once;

use tree_sitter::{Allocator, set_allocator};

use self::functions::{allocate, allocate_zeroed, reallocate, release};

thread_local! {
    /// Bytes that this thread has received and not given back. Below zero where it freed those of others.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// Bytes before each allocation that hold its size, and keep its alignment.
const HEADER: usize = 16;

/// Counts from now on; to be called before any other function of tree-sitter.
#[allow(unsafe_code, reason = "the functions of an allocator have raw pointers")]
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let allocator =
            Allocator { malloc: allocate, calloc: allocate_zeroed, realloc: reallocate, free: release };
        // SAFETY: the functions belong together, never return null, and align as `malloc` does. The registry of
        // languages, without which nothing is parsed, calls this first, and once.
        unsafe { set_allocator(Some(allocator)) };
    });
}

/// Bytes that this thread has received from tree-sitter's allocator and not given back.
pub(crate) fn held() -> isize {
    HELD.get()
}

fn count(bytes: isize) {
    HELD.set(HELD.get().wrapping_add(bytes));
}

/// The layout of an allocation with its header.
fn layout(bytes: usize) -> Layout {
    bytes
        .checked_add(HEADER)
        .and_then(|bytes| Layout::from_size_align(bytes, HEADER).ok())
        .unwrap_or_else(|| handle_alloc_error(Layout::new::<u8>()))
}

#[allow(unsafe_code, reason = "raw pointers")]
mod functions {
    use super::*;

    /// Writes the size of an allocation into its header; returns what follows that.
    unsafe fn begin(start: *mut u8, bytes: usize) -> *mut c_void {
        if start.is_null() {
            handle_alloc_error(layout(bytes));
        }
        count(bytes as isize);
        // SAFETY: the allocation begins with a header, which is aligned for a size.
        unsafe {
            start.cast::<usize>().write(bytes);
            start.add(HEADER).cast()
        }
    }

    /// The beginning of an allocation, and its size without the header.
    unsafe fn allocation(pointer: *mut c_void) -> (*mut u8, usize) {
        // SAFETY: all pointers come from `begin`.
        unsafe {
            let start = pointer.cast::<u8>().sub(HEADER);
            (start, start.cast::<usize>().read())
        }
    }

    pub(super) unsafe extern "C" fn allocate(bytes: usize) -> *mut c_void {
        // SAFETY: with its header, the size is not zero.
        unsafe { begin(alloc(layout(bytes)), bytes) }
    }

    pub(super) unsafe extern "C" fn allocate_zeroed(n: usize, bytes: usize) -> *mut c_void {
        let bytes = n.saturating_mul(bytes);
        // SAFETY: with its header, the size is not zero.
        unsafe { begin(alloc_zeroed(layout(bytes)), bytes) }
    }

    pub(super) unsafe extern "C" fn reallocate(pointer: *mut c_void, bytes: usize) -> *mut c_void {
        if pointer.is_null() {
            // SAFETY: as any other call.
            return unsafe { allocate(bytes) };
        }
        // SAFETY: the pointer is one of ours, with the layout that its header says, and the new size is not zero.
        unsafe {
            let (start, before) = allocation(pointer);
            count(-(before as isize));
            begin(realloc(start, layout(before), layout(bytes).size()), bytes)
        }
    }

    pub(super) unsafe extern "C" fn release(pointer: *mut c_void) {
        if pointer.is_null() {
            return;
        }
        // SAFETY: the pointer is one of ours, with the layout that its header says.
        unsafe {
            let (start, bytes) = allocation(pointer);
            count(-(bytes as isize));
            dealloc(start, layout(bytes));
        }
    }
}
