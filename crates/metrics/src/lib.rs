//! Metrics, significance, agreement and calibration: functions of values, without input or output.
//!
//! [`ranking`] finds the ranks of the judged documents under a named tie policy, [`rank`] has the metrics of one
//! query's ranking and [`Measure`] their names, [`classification`] the metrics of yes-or-no decisions, [`abstention`]
//! measures whether a method knows where it fails. [`significance`] measures how far to trust such numbers, [`agreement`] how
//! far raters agree, [`calibration`] whether probabilities can be believed, [`optimize`] fits models to numbers, and
//! [`table`] writes what was found.
//!
//! ```
//! use quarry_metrics::rank::{ndcg, reciprocal_rank, Gain};
//! use quarry_metrics::ranking::{rank_judged, TiePolicy};
//!
//! // Three documents, the last relevant; it ties with the first, whose id is smaller.
//! let hits = rank_judged(&["a", "b", "c"], &[0.5, 0.9, 0.5], &[(2, 1)], TiePolicy::DocidDesc)?.hits;
//! assert_eq!(reciprocal_rank(&hits, None), 1.0 / 2.0);
//! assert_eq!(ndcg(&hits, &[1], Some(10), Gain::Linear), 1.0 / 3.0_f64.log2());
//! # Ok::<(), quarry_metrics::MetricsError>(())
//! ```

pub mod abstention;
pub mod agreement;
pub mod calibration;
pub mod classification;
mod error;
mod measure;
pub mod optimize;
pub mod rank;
pub mod ranking;
pub mod recalibration;
pub mod significance;
pub mod table;

pub use error::MetricsError;
pub use measure::Measure;
pub use rank::Gain;
