//! Programs that try to escape the sandbox, to exhaust the machine, or to outlive their run. None may succeed.
#![cfg(not(quarry_no_sandbox))]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod harness;
mod leftovers;
mod memory;
mod reach;
mod resources;
