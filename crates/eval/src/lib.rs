//! Measures how well code is found: metrics, significance, protocols, benchmark plans.
//!
//! The numbers are [`quarry_metrics`]'; here is what they are taken of: [`evaluation`] scores runs and methods over a
//! benchmark, [`method`] holds the methods, [`repo_search`] the protocol over whole repositories, [`self_benchmark`] a
//! repository as a benchmark of itself and [`plan`] a page of results from one file.

mod error;
pub mod evaluation;
pub mod method;
pub mod plan;
pub mod protocol;
pub mod repo_search;
pub mod report;
pub mod result_file;
pub mod self_benchmark;
pub mod slices;
pub mod spans;

pub use error::EvalError;
