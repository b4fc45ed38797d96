//! The features of a unit as the function that an issue is about, and their weights.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::ranking::intent::by_name;

/// Names of the features of a unit, in the order of [`IssueFeatures`].
pub const ISSUE_FEATURES: [&str; N] = [
    "title_lexical",
    "title_file_lexical",
    "title_matched",
    "title_dense",
    "title_file_dense",
    "title_tokens",
    "prose_lexical",
    "prose_file_lexical",
    "prose_dense",
    "prose_file_dense",
    "prose_tokens",
    "code_lexical",
    "code_file_lexical",
    "all_lexical",
    "all_file_lexical",
    "all_matched",
    "all_dense",
    "symbol_lexical",
    "symbol_file_lexical",
    "title_name",
    "title_word",
    "marked_name",
    "prose_name",
    "code_called",
    "code_name",
    "trace_name",
    "message_name",
    "scope",
    "title_owner",
    "prose_owner",
    "code_owner",
    "title_name_match",
    "title_stem_match",
    "title_owner_match",
    "path",
    "module",
    "position",
    "frame",
    "innermost_frame",
    "frame_file",
    "message",
    "neighbor",
    "file_names",
    "function",
    "method",
    "type",
    "test",
    "demoted",
    "private",
    "log_lines",
    "log_lines_squared",
    "rank_in_file",
    "best_in_file",
];

const N: usize = 53;

/// The features of a unit; each is about 0 to 1, except logarithms and ranks.
pub type IssueFeatures = [f32; N];

/// The weights of the features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssueModel {
    /// Weights of [`ISSUE_FEATURES`], by name.
    #[serde(with = "issue_by_name")]
    pub unit: IssueFeatures,
}

by_name!(issue_by_name, ISSUE_FEATURES);

impl IssueModel {
    /// The model that search uses.
    #[must_use]
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<IssueModel> = LazyLock::new(|| {
            // A test parses the file, so it cannot be invalid in a release.
            serde_json::from_str(include_str!("../../../issues.json"))
                .unwrap_or_else(|error| unreachable!("crates/index/issues.json: {error}"))
        });
        &BUILTIN
    }

    /// The score of a unit: a log-probability up to a constant for the issue.
    #[must_use]
    pub fn score(&self, features: &IssueFeatures) -> f32 {
        self.unit.iter().zip(features).map(|(weight, feature)| weight * feature).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_weights_can_be_read_and_written_back() {
        let model = IssueModel::builtin();
        let text = serde_json::to_string(model).unwrap();
        assert_eq!(*model, serde_json::from_str(&text).unwrap());
        assert!(serde_json::from_str::<IssueModel>(&text.replacen("\"frame\"", "\"farm\"", 1)).is_err());
    }
}
