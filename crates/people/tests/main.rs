//! Tests of people's judging. One binary for all, since each takes seconds to link.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod fake;
mod fixture;
mod forms;
mod sessions;
