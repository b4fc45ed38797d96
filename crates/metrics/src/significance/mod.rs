//! How far to trust a mean over queries, and a difference between two methods.
//!
//! [`mean_interval`] and [`paired_difference`] draw queries again (bootstrap), in strata or not. The other tests take
//! the differences of two methods, one a query: [`paired_t`], [`wilcoxon`], [`randomization`], and [`mcnemar`] for
//! answers that are right or wrong, of whose share [`wilson_interval`] is an interval. [`holm`] corrects p-values for
//! their number; [`effect_size`] and [`minimum_detectable_difference`] measure how large a difference is, and how large it
//! has to be to be seen. [`compare_paired`] does all of it at once. All p-values are two-sided.

mod bootstrap;
mod comparison;
mod paired;
mod power;
mod proportion;

pub(crate) use bootstrap::quantile;
pub use bootstrap::{
    Bootstrap, Interval, PairedDifference, mean, mean_interval, paired_difference, resampled_interval,
};
pub use comparison::{CorrectedTest, PairedComparison, compare_paired, correct_together};
pub use paired::{
    McNemar, Test, effect_size, holm, mcnemar, mean_and_deviation, paired_t, randomization, wilcoxon,
};
pub use power::{Power, minimum_detectable_difference};
pub use proportion::wilson_interval;
