//! Metrics: pure functions over slices.
//!
//! [`rank`] holds the metrics of one query's ranking, [`Measure`] their names, [`abstention`] says whether a method
//! knows where it fails, and [`classification`] holds the metrics of yes-or-no decisions.

pub mod abstention;
pub mod classification;
mod measure;
pub mod rank;

pub use measure::Measure;
pub use rank::Gain;
