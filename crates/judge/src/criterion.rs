//! The criterion of a label.

use serde::{Deserialize, Serialize};

/// The part of the query that a code must fulfill to be labeled as an answer.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
pub enum Criterion {
    /// All of it (CoSQA+'s "exact match").
    #[default]
    Exact,
    /// More than half of it (CoSQA's guideline, which CoSQA+ calls "50 %").
    Half,
}

impl Criterion {
    pub const ALL: [Self; 2] = [Self::Exact, Self::Half];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Half => "50 %",
        }
    }
}
