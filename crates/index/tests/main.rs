//! Tests of indexes. One binary for all, since each takes seconds to link.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod begin;
mod behind;
mod calls;
#[cfg(unix)]
mod foreign_trees;
mod index;
mod issues;
mod kept;
mod locations;
mod on_demand;
mod overwritten;
mod questions;
mod together;
mod unsaved;
