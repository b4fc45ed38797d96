//! Significance of a mean over queries, and of a difference between two methods.
//!
//! [`mean_interval`] and [`paired_difference`] draw queries again (bootstrap), in strata or not. The other tests take
//! the differences of two methods, one a query: [`paired_t`], [`wilcoxon`], [`randomization`], and [`mcnemar`] for
//! answers that are right or wrong, of whose share [`wilson_interval`] is an interval. [`holm`] corrects p-values for
//! their number; [`effect_size`] and [`minimum_detectable_difference`] measure how large a difference is, and how large it
//! has to be to be seen. [`compare_paired`] does all of it at once. All p-values are two-sided.
//! [`noisy_means`] draws labels again, too, by how often their judge errs, and [`Pool`]
//! finds the judgments that could change the order of methods.

mod bootstrap;
mod comparison;
mod label_noise;
mod next_judgments;
mod paired;
mod power;
mod proportion;

pub(crate) use bootstrap::quantile;
pub use bootstrap::{
    Bootstrap, Interval, MAX_RESAMPLES, PairedDifference, mean, mean_interval, paired_difference,
    resampled_interval,
};
pub use comparison::{CorrectedTest, PairedComparison, compare_paired, correct_together};
pub use label_noise::{Confusion, LabelErrors, NoisyDifference, NoisyLabel, NoisyMeans, noisy_means};
pub use next_judgments::{ExpectedOrder, NextJudgment, Pool, PooledDocument};
pub use paired::{
    McNemar, Test, effect_size, holm, mcnemar, mean_and_deviation, paired_t, randomization, wilcoxon,
};
pub use power::{Power, minimum_detectable_difference};
pub use proportion::wilson_interval;
