//! Metrics: pure functions over slices.
//!
//! [`rank`] holds the metrics of one query's ranking, and [`Measure`] their names.

mod measure;
pub mod rank;

pub use measure::Measure;
pub use rank::Gain;
