//! Tests of judging. One binary for all, since each takes seconds to link.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod accounting;
mod assertions;
mod fixture;
mod generation;
#[cfg(unix)]
mod hostile;
mod judging;
mod languages;
#[cfg(unix)]
mod ledger;
mod options;
mod options_run;
mod programs;
mod reread;
mod steps;
mod workers;
