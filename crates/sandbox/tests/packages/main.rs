//! Packages for programs: fetched from a directory or from an index on loopback, with wheels created here.
#![cfg(not(quarry_no_sandbox))]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod attacks;
mod fetching;
mod harness;
mod node;
