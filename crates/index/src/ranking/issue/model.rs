//! The features of a unit as the function that a long text is about, and the trees that score them.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

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
    "all_file_dense",
    "words",
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
    "title_name_share",
    "title_name_strength",
    "name_share",
    "name_strength",
    "title_owner_share",
    "owner_share",
    "owner_strength",
    "title_stem_share",
    "title_stem_strength",
    "stem_share",
    "stem_strength",
    "directory_strength",
    "origins",
    "all_in_file",
    "title_in_file",
    "dense_in_file",
    "tokens_in_file",
    "path",
    "module",
    "position",
    "frame",
    "innermost_frame",
    "frame_file",
    "message",
    "neighbor",
    "second_neighbor",
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

const N: usize = 70;

/// The features of a unit; each is about 0 to 1, except logarithms and ranks.
pub type IssueFeatures = [f32; N];

/// A sum of regression trees: gradient boosting, with trees of a few splits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssueModel {
    /// Weights of features that are evidence by themselves, but too rare for the trees.
    #[serde(default)]
    pub weights: Vec<(Feature, f32)>,
    /// The trees, whose values are added.
    pub trees: Vec<Tree>,
}

/// A tree: a value, or a split by a feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Tree {
    Leaf(f32),
    Split(Box<Split>),
}

/// A split of a tree by a feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    pub feature: Feature,
    /// The maximum value of it that leads to `below`.
    pub threshold: f32,
    /// The mean of the values under it, for explanations.
    pub mean: f32,
    /// The subtree up to the threshold.
    pub below: Tree,
    /// The subtree above it.
    pub above: Tree,
}

/// A feature by its position in [`ISSUE_FEATURES`]; in files, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Feature(usize);

impl TryFrom<String> for Feature {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let position = ISSUE_FEATURES.iter().position(|known| *known == name);
        position.map(Self).ok_or_else(|| format!("{name} is not a feature of issues"))
    }
}

impl From<Feature> for String {
    fn from(feature: Feature) -> Self {
        ISSUE_FEATURES[feature.0].to_owned()
    }
}

impl Split {
    fn next(&self, features: &IssueFeatures) -> &Tree {
        if features[self.feature.0] <= self.threshold { &self.below } else { &self.above }
    }
}

impl Tree {
    /// The value of the leaf that features lead to.
    fn leaf(&self, features: &IssueFeatures) -> f32 {
        let mut tree = self;
        loop {
            match tree {
                Self::Leaf(value) => return *value,
                Self::Split(split) => tree = split.next(features),
            }
        }
    }

    fn mean(&self) -> f32 {
        match self {
            Self::Leaf(value) => *value,
            Self::Split(split) => split.mean,
        }
    }
}

impl IssueModel {
    /// The trees for reports of problems.
    pub fn reports() -> &'static Self {
        static REPORTS: LazyLock<IssueModel> = LazyLock::new(|| parsed(include_str!("../../../issues.json")));
        &REPORTS
    }

    /// The trees for descriptions of what code does.
    pub fn descriptions() -> &'static Self {
        static DESCRIPTIONS: LazyLock<IssueModel> =
            LazyLock::new(|| parsed(include_str!("../../../descriptions.json")));
        &DESCRIPTIONS
    }

    /// The contribution of each feature of a unit, in the order of [`ISSUE_FEATURES`]: its weight times its value, and
    /// at each split on the way to a leaf, the change of the mean of the values. Their sum is the score, a
    /// log-probability up to a constant for the issue.
    pub fn contributions(&self, features: &IssueFeatures) -> IssueFeatures {
        let mut contributions = [0.0; N];
        for &(Feature(number), weight) in &self.weights {
            contributions[number] += weight * features[number];
        }
        for mut tree in &self.trees {
            while let Tree::Split(split) = tree {
                let Feature(number) = split.feature;
                tree = split.next(features);
                contributions[number] += tree.mean() - split.mean;
            }
        }
        contributions
    }

    /// The score of a unit: the sum of its [`contributions`](Self::contributions), up to rounding.
    pub fn score(&self, features: &IssueFeatures) -> f32 {
        let weighted = self.weights.iter().map(|&(Feature(number), weight)| weight * features[number]);
        let of_trees = self.trees.iter().map(|tree| tree.leaf(features) - tree.mean());
        weighted.sum::<f32>() + of_trees.sum::<f32>()
    }
}

/// A model that is compiled in.
fn parsed(text: &str) -> IssueModel {
    // A test parses the files, so they cannot be invalid in a release.
    serde_json::from_str(text).unwrap_or_else(|error| unreachable!("trees of crates/index: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_trees_can_be_read_and_written_back() {
        for model in [IssueModel::reports(), IssueModel::descriptions()] {
            let text = serde_json::to_string(model).unwrap();
            assert_eq!(*model, serde_json::from_str(&text).unwrap());
        }
        let unknown = r#"{"trees":[{"feature":"farm","threshold":0,"mean":0,"below":0,"above":1}]}"#;
        assert!(serde_json::from_str::<IssueModel>(unknown).is_err());
    }

    #[test]
    fn a_score_is_the_sum_of_what_each_feature_brings() {
        let text = r#"{"weights":[["message",2.0]],"trees":[
            {"feature":"frame","threshold":0.5,"mean":1.0,"below":-1.0,"above":
                {"feature":"test","threshold":0.5,"mean":2.0,"below":3.0,"above":0.5}},
            {"feature":"frame","threshold":0.1,"mean":0.0,"below":0.0,"above":0.25}]}"#;
        let model: IssueModel = serde_json::from_str(text).unwrap();
        let number = |name: &str| ISSUE_FEATURES.iter().position(|known| *known == name).unwrap();
        let mut features = [0.0; N];
        assert_eq!(model.score(&features), -2.0);
        (features[number("frame")], features[number("test")]) = (1.0, 1.0);
        let contributions = model.contributions(&features);
        assert_eq!((contributions[number("frame")], contributions[number("test")]), (1.25, -1.5));
        assert_eq!(model.score(&features), -0.25);
        features[number("message")] = 0.5;
        assert_eq!(model.score(&features), 0.75);
    }
}
