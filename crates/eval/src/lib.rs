//! Measures how well code is found: metrics, significance, protocols, benchmark plans.
//!
//! The middle is pure: [`ranking`] finds the ranks of the judged documents under a named tie policy,
//! [`metrics`] turns ranks into numbers, [`significance`] says how far to trust them. Around it,
//! [`evaluation`] scores runs and methods over a benchmark, [`method`] holds the methods, [`repo_search`] the
//! protocol over whole repositories, [`own_repository`] a repository as a benchmark of itself and [`plan`] a page of
//! results from one file.
//!
//! ```
//! use quarry_eval::metrics::rank::{ndcg, reciprocal_rank, Gain};
//! use quarry_eval::ranking::{rank_judged, TiePolicy};
//!
//! // Three documents, the last relevant; it ties with the first, whose id is smaller.
//! let hits = rank_judged(&["a", "b", "c"], &[0.5, 0.9, 0.5], &[(2, 1)], TiePolicy::DocidDesc)?.hits;
//! assert_eq!(reciprocal_rank(&hits, None), 1.0 / 2.0);
//! assert_eq!(ndcg(&hits, &[1], Some(10), Gain::Linear), 1.0 / 3.0_f64.log2());
//! # Ok::<(), quarry_eval::EvalError>(())
//! ```

pub mod agreement;
pub mod calibration;
mod error;
pub mod evaluation;
pub mod method;
pub mod metrics;
mod optimize;
pub mod own_repository;
pub mod plan;
pub mod protocol;
pub mod ranking;
pub mod recalibration;
pub mod repo_search;
pub mod report;
pub mod result_file;
pub mod significance;
pub mod slices;

pub use error::EvalError;
