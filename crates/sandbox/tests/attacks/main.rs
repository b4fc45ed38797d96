//! Programs that try to get out of the sandbox, to use up the machine, or to stay. None may succeed.
#![cfg(not(quarry_no_sandbox))]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod harness;
mod leftovers;
mod memory;
mod reach;
mod resources;
