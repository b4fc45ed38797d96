//! Cuts anything into units and references in one language, and checks what holds for any input:
//!
//! ```sh
//! mkdir -p fuzz/corpus/go
//! FUZZ_LANGUAGE=go cargo +nightly fuzz run extract fuzz/corpus/go crates/source/tests/fixtures -- -timeout=10
//! ```
//!
//! With `FUZZ_LANGUAGE=jupyter` it is a notebook, as long as it is JSON.
//!
//! An input that breaks something belongs into `crates/source/tests/failures`, under the extension of its language.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use quarry_source::{Language, language_named};

#[path = "../../crates/source/tests/extraction/invariants.rs"]
mod invariants;

static LANGUAGE: LazyLock<Language> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_LANGUAGE").unwrap_or_default();
    language_named(&name)
        .unwrap_or_else(|| panic!("FUZZ_LANGUAGE={name:?}: expected one of `quarry languages`"))
});

fuzz_target!(|source: &[u8]| invariants::check_repeated(*LANGUAGE, source));
