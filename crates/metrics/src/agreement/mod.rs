//! Agreement of raters, and reliability of scores.
//!
//! A table of ratings has a row for each unit and a column for each rater, `None` where a rating is missing.
//! Labels that are not numbers are numbered by the caller; only statistics of the nominal level mean something then.
//! A statistic that is not defined for its input is `None`; 1 is perfect agreement, 0 what chance would give, for
//! all but [`percent_agreement`].

mod correlation;
mod kappa;
mod krippendorff;
mod reliability;

pub use correlation::{kendall_tau_b, pearson, spearman};
pub use kappa::{DisagreementWeight, cohen_kappa, fleiss_kappa, percent_agreement};
pub use krippendorff::{
    Level, krippendorff_alpha, krippendorff_alpha_by_blocks, krippendorff_by_unit, krippendorff_interval,
};
pub use reliability::{Variance, average_variance, cronbach_alpha};

use crate::significance::{Bootstrap, Interval};
use serde::Serialize;

/// All statistics of a table of ratings.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Agreement {
    /// Number of rows.
    pub units: usize,
    /// Number of ratings, without missing ones.
    pub ratings: usize,
    /// Share of pairs of ratings that agree.
    pub percent_agreement: Option<f64>,
    /// Krippendorff's alpha.
    pub krippendorff_alpha: Option<f64>,
    /// Bootstrap interval of Krippendorff's alpha.
    pub krippendorff_interval: Option<Interval>,
    /// Mean of Krippendorff's alpha over blocks of units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub krippendorff_alpha_by_blocks: Option<f64>,
    /// Fleiss' kappa.
    pub fleiss_kappa: Option<f64>,
    /// Statistics that need numbers.
    #[serde(flatten)]
    pub numeric: Option<NumericAgreement>,
    /// Two raters each.
    pub pairs: Vec<PairAgreement>,
}

/// Statistics of numeric ratings.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct NumericAgreement {
    /// Cronbach's alpha.
    pub cronbach_alpha: Option<f64>,
    /// Average variance of each rater, as of a population.
    pub average_variance_population: Option<f64>,
    /// Average variance of each rater, as of a sample.
    pub average_variance_sample: Option<f64>,
}

/// Two raters, over the units that both rated.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PairAgreement {
    /// Places of the two among the raters, from 0.
    pub raters: [usize; 2],
    /// Number of units that both rated.
    pub units: usize,
    /// Cohen's kappa.
    pub cohen_kappa: Option<f64>,
    /// Statistics that need numbers.
    #[serde(flatten)]
    pub numeric: Option<NumericPairAgreement>,
}

/// Statistics of two raters who gave numbers.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct NumericPairAgreement {
    /// Cohen's kappa with linear weights.
    pub cohen_kappa_linear: Option<f64>,
    /// Cohen's kappa with quadratic weights.
    pub cohen_kappa_quadratic: Option<f64>,
    /// Pearson's correlation.
    pub pearson: Option<f64>,
    /// Spearman's rank correlation.
    pub spearman: Option<f64>,
    /// Kendall's tau-b.
    pub kendall_tau_b: Option<f64>,
}

impl Agreement {
    /// Of a table; `numbers` is set if the ratings are numbers rather than numbered labels, `block` how many rows
    /// a block of [`krippendorff_alpha_by_blocks`] has.
    pub fn new(
        table: &[Vec<Option<f64>>],
        numbers: bool,
        level: Level,
        block: Option<usize>,
        bootstrap: &Bootstrap,
    ) -> Self {
        let n_raters = table.iter().map(Vec::len).max().unwrap_or_default();
        let variance = |variance| average_variance(table, variance);
        let pairs = (0..n_raters).flat_map(|a| (a + 1..n_raters).map(move |b| [a, b]));
        Self {
            units: table.len(),
            ratings: table.iter().flatten().flatten().count(),
            percent_agreement: percent_agreement(table),
            krippendorff_alpha: krippendorff_alpha(table, level),
            krippendorff_interval: krippendorff_interval(table, level, bootstrap),
            krippendorff_alpha_by_blocks: block
                .and_then(|block| krippendorff_alpha_by_blocks(table, level, block)),
            fleiss_kappa: fleiss_kappa(table),
            numeric: numbers.then(|| NumericAgreement {
                cronbach_alpha: cronbach_alpha(table),
                average_variance_population: variance(Variance::Population),
                average_variance_sample: variance(Variance::Sample),
            }),
            pairs: pairs.map(|raters| PairAgreement::new(table, raters, numbers)).collect(),
        }
    }
}

impl PairAgreement {
    fn new(table: &[Vec<Option<f64>>], raters: [usize; 2], numbers: bool) -> Self {
        let rating = |row: &[Option<f64>], rater: usize| row.get(rater).copied().flatten();
        let both = table.iter().filter_map(|row| rating(row, raters[0]).zip(rating(row, raters[1])));
        let (a, b): (Vec<f64>, Vec<f64>) = both.unzip();
        let kappa = |weight| cohen_kappa(&a, &b, weight);
        Self {
            raters,
            units: a.len(),
            cohen_kappa: kappa(DisagreementWeight::Equal),
            numeric: numbers.then(|| NumericPairAgreement {
                cohen_kappa_linear: kappa(DisagreementWeight::Linear),
                cohen_kappa_quadratic: kappa(DisagreementWeight::Quadratic),
                pearson: pearson(&a, &b),
                spearman: spearman(&a, &b),
                kendall_tau_b: kendall_tau_b(&a, &b),
            }),
        }
    }
}

/// Distinct values in ascending order.
fn distinct(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    // -0 and 0 are one value.
    let mut values: Vec<f64> = values.into_iter().map(|value| value + 0.0).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    values
}

fn value_index(distinct: &[f64], value: f64) -> usize {
    distinct.partition_point(|other| *other < value)
}

/// `part / whole`, or `None` if `whole` is 0.
fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole != 0.0).then(|| part / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_no_statistics_of_numbers() {
        let table = [[Some(0.0), Some(0.0), None], [Some(1.0), Some(0.0), Some(1.0)], [Some(1.0); 3]];
        let table = table.map(Vec::from);
        let with = |numbers, block| {
            let bootstrap = Bootstrap { resamples: 10, ..Bootstrap::default() };
            serde_json::to_value(Agreement::new(&table, numbers, Level::Nominal, block, &bootstrap)).unwrap()
        };
        let (text, numbers) = (with(false, None), with(true, Some(2)));
        assert_eq!((text["units"].as_u64(), text["ratings"].as_u64()), (Some(3), Some(8)));
        assert_eq!(text["pairs"].as_array().unwrap().len(), 3);
        assert_eq!(text["pairs"][1]["raters"], serde_json::json!([0, 2]));
        assert_eq!(text["pairs"][1]["units"].as_u64(), Some(2));
        for key in ["cronbach_alpha", "average_variance_sample", "krippendorff_alpha_by_blocks"] {
            assert!(text.get(key).is_none(), "{key}");
        }
        assert!(text["pairs"][0].get("pearson").is_none() && numbers["pairs"][0]["pearson"].is_number());
        assert!(numbers["cronbach_alpha"].is_number() && numbers["krippendorff_alpha"].is_number());
    }
}
