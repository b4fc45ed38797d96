//! Input of models that summarize functions: `[annotation]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sources::calls::CallRules;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AnnotationPlan {
    /// Input about a function's callees in its project.
    pub(crate) callees: ShownCallees,
    pub(crate) calls: CallRules,
    /// Functions of other packages with fewer calls in all sources than this are explained to them.
    pub(crate) unpopular_below: UnpopularBelow,
    /// Number of these functions, in each range of popularity, whose understanding decides what `calibrated` is.
    pub(crate) calibration: usize,
    /// Directory with documentation of such functions, one file each.
    pub(crate) documentation: Option<PathBuf>,
}

impl Default for AnnotationPlan {
    fn default() -> Self {
        Self {
            callees: ShownCallees::Are(true),
            calls: CallRules::default(),
            unpopular_below: UnpopularBelow::Calls(10),
            calibration: 20,
            documentation: None,
        }
    }
}

/// Input about callees: their summaries (`true`), nothing, or their code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected true, false or \"code\"")]
pub(crate) enum ShownCallees {
    Are(bool),
    Named(ShownCode),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ShownCode {
    Code,
}

impl ShownCallees {
    /// Returns whether summaries are shown, which callees need first.
    pub(crate) fn are_summaries(self) -> bool {
        self == Self::Are(true)
    }

    pub(crate) fn are_codes(self) -> bool {
        self == Self::Named(ShownCode::Code)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number of calls, or \"calibrated\"")]
pub(crate) enum UnpopularBelow {
    Calls(u64),
    /// Popularity at which the understanding of the model saturates.
    Named(Calibrated),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Calibrated {
    Calibrated,
}
