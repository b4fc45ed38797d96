//! Sources of labels: entries of `[[labels]]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabelPlan {
    pub(crate) kind: LabelKind,
    pub(crate) path: Option<PathBuf>,
    /// If true, the model of a judge writes code for queries without a correct candidate.
    #[serde(default)]
    pub(crate) generate: bool,
    /// The guideline for annotators: its name or its file.
    pub(crate) guideline: Option<String>,
    /// The people whose labels count; all if empty.
    #[serde(default)]
    pub(crate) annotators: Vec<String>,
    /// Minimum number of people for each pair.
    pub(crate) minimum: Option<usize>,
    /// Pairs for which α of people's labels is below this value are removed.
    pub(crate) minimum_alpha: Option<f64>,
    /// Maximum share of people's pairs without a majority; above it, the build stops.
    pub(crate) maximum_undecided: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LabelKind {
    /// The code from which a query was made answers it.
    Pairing,
    /// Labeled pairs in any format, matched by their texts.
    File,
    Judge,
    /// People, who fill in a form with the pairs that have no label yet.
    People,
    /// All pairs without a label are negative.
    Negative,
}
