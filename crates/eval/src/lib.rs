//! Measures the quality of code search: metrics, significance, protocols, benchmark plans.
//!
//! [`quarry_metrics`] computes the numbers; this crate supplies what they are computed from: [`evaluation`] scores
//! runs and methods over a benchmark, [`method`] contains the methods, [`repo_search`] the protocol over whole
//! repositories, [`localize`] that from issues to functions, [`related`] that from a function to what changes with it, [`reading`] the tokens that an agent reads until the answer, [`self_benchmark`] a repository as a benchmark of itself and [`plan`] a page of results from one
//! file.

mod error;
pub mod evaluation;
pub mod localize;
pub mod method;
pub mod negatives;
pub mod plan;
pub mod protocol;
pub mod reading;
pub mod related;
pub mod repo_search;
pub mod report;
pub mod result_file;
pub mod self_benchmark;
pub mod slices;
pub mod spans;

pub use error::EvalError;
