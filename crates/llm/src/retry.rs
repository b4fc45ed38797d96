//! Waiting times between attempts.

use std::time::Duration;

/// Upper bound of the first wait.
const FIRST: Duration = Duration::from_millis(500);
/// Upper bound of every wait that the server does not ask for.
const MAX_DURATION: Duration = Duration::from_secs(60);

/// The wait after failed attempt number `attempt` (1-based), with `chance` drawn from 0.0..1.0.
///
/// Exponential backoff with full jitter: uniform below 0.5 s · 2^(attempt − 1), at most 60 s (M. Brooker,
/// "Exponential Backoff And Jitter", AWS Architecture Blog, 2015). A wait that the server asks for is a lower bound:
/// up to a tenth more, and up to 0.5 s, prevents clients from retrying simultaneously.
pub(crate) fn wait(attempt: u32, server: Option<Duration>, chance: f64) -> Duration {
    match server {
        Some(server) => server.saturating_add((server / 10 + FIRST / 10).min(FIRST).mul_f64(chance)),
        None => (FIRST * 2u32.pow(attempt.saturating_sub(1).min(16))).min(MAX_DURATION).mul_f64(chance),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn waits_grow_within_bounds_and_honor_the_server(
            attempt in 1u32..100, server in prop::option::of(0u64..10_000), chance in 0.0f64..1.0,
        ) {
            let server = server.map(Duration::from_millis);
            let waited = wait(attempt, server, chance);
            match server {
                Some(server) => prop_assert!(waited >= server && waited <= server + FIRST),
                None => prop_assert!(waited <= MAX_DURATION && waited <= wait(attempt + 1, None, chance)),
            }
        }
    }

    #[test]
    fn an_infinite_requested_delay_is_an_infinite_wait() {
        assert_eq!(wait(1, Some(Duration::MAX), 0.5), Duration::MAX);
    }

    #[test]
    fn the_bound_doubles() {
        let bounds: Vec<u128> = [1, 2, 3, 8, 9].map(|attempt| wait(attempt, None, 1.0).as_millis()).to_vec();
        assert_eq!(bounds, [500, 1000, 2000, 60_000, 60_000]);
    }
}
