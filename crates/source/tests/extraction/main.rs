//! Units of the fixtures, and invariants for any bytes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod data_flow;
mod documentation;
mod fixtures;
mod highlights;
mod invariants;
mod languages;
mod mutations;
mod notebooks;
mod references;
mod robustness;
