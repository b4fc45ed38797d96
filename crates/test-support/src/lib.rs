//! Shared test support: a model server that follows a script, a NATS server, processes with a time limit, directories
//! of files, and comparisons of numbers. A dev-dependency only; it depends on no other crate of the workspace, so
//! that any of them can use it.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking, in its helpers too"
)]

pub mod files;
pub mod git;
pub mod model_server;
pub mod nats;
pub mod process;

/// Asserts that a number is defined, and within 1e-12 of the expected one: equal but for rounding.
#[track_caller]
pub fn assert_close(found: impl Into<Option<f64>>, expected: f64) {
    let found = found.into();
    assert!(found.is_some_and(|found| (found - expected).abs() < 1e-12), "{found:?} is not {expected}");
}

#[cfg(test)]
mod tests {
    use super::assert_close;

    #[test]
    fn numbers_are_equal_up_to_rounding() {
        assert_close(0.1 + 0.2, 0.3);
        assert_close(Some(1.0), 1.0);
        for (found, expected) in [(None, 0.0), (Some(f64::NAN), 0.0), (Some(0.3), 0.300_000_1)] {
            let compared = std::panic::catch_unwind(|| assert_close(found, expected));
            assert!(compared.is_err(), "{found:?} {expected}");
        }
    }
}
