//! Tells a report of a problem from the description of what code does, and both from an ordinary query, by the text alone.
//!
//! Both are ranked by the same features, but by trees of their own: sentences that describe a function have its words, those
//! of a report have what was done and seen. The share of a unit is the mixture of both, weighted by the probability that the text
//! is a report, so that a text that is neither changes nothing abruptly. A text of one line is mixed with an ordinary query in the
//! same way. The probabilities are logistic regressions, fitted to how well either ranking finds the answers of both kinds of
//! texts (`bench/fit_issues.py`).

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::Issue;
use crate::ranking::intent::by_name;

/// Names of the features of a text, in the order of [`TextFeatures`].
pub const TEXT_FEATURES: [&str; 21] = [
    "log_words",
    "log_lines",
    "title",
    "log_code",
    "log_frames",
    "log_messages",
    "log_paths",
    "log_noise",
    "log_links",
    "symbols",
    "numbers",
    "first_person",
    "problems",
    "steps",
    "contracts",
    "question",
    "capital",
    "period",
    "question_mark",
    "third_person",
    "sentences",
];

/// The features of a text: logarithms of counts, shares of words, and flags.
pub type TextFeatures = [f32; TEXT_FEATURES.len()];

/// Words of people who report what they saw.
const FIRST_PERSON: [&str; 12] =
    ["i", "i'm", "i've", "i'd", "im", "my", "me", "we", "we've", "our", "us", "you"];

/// Words for problems.
const PROBLEMS: [&str; 28] = [
    "bug",
    "broken",
    "crash",
    "crashed",
    "crashes",
    "doesn't",
    "error",
    "errors",
    "exception",
    "fail",
    "failed",
    "failing",
    "fails",
    "failure",
    "fix",
    "fixed",
    "hang",
    "hangs",
    "incorrect",
    "incorrectly",
    "issue",
    "panic",
    "problem",
    "regression",
    "segfault",
    "unexpected",
    "warning",
    "wrong",
];

/// Words for what was tried and expected.
const STEPS: [&str; 24] = [
    "actual",
    "after",
    "attached",
    "currently",
    "example",
    "expect",
    "expected",
    "following",
    "instead",
    "latest",
    "noticed",
    "please",
    "reproduce",
    "running",
    "seems",
    "should",
    "steps",
    "support",
    "thanks",
    "tried",
    "trying",
    "update",
    "version",
    "would",
];

/// Words of descriptions of functions.
const CONTRACTS: [&str; 28] = [
    "argument",
    "arguments",
    "caller",
    "callers",
    "called",
    "compute",
    "computes",
    "creates",
    "equivalent",
    "function",
    "given",
    "ignored",
    "input",
    "method",
    "must",
    "note",
    "object",
    "otherwise",
    "parameter",
    "passed",
    "return",
    "returned",
    "returning",
    "returns",
    "specified",
    "used",
    "value",
    "whether",
];

const QUESTION_WORDS: [&str; 9] = ["how", "why", "what", "where", "when", "which", "who", "does", "is"];

/// The weights of the features of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindModel {
    /// Log-odds of the kind if every feature is 0.
    pub intercept: f32,
    /// Weights by name.
    #[serde(with = "text_by_name")]
    pub features: TextFeatures,
}

by_name!(text_by_name, TEXT_FEATURES);

/// The models of `crates/index/text-kinds.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kinds {
    /// Long texts, among all.
    long: KindModel,
    /// Reports, among long texts.
    reports: KindModel,
}

impl Kinds {
    fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Kinds> = LazyLock::new(|| {
            // A test parses the file, so it cannot be invalid in a release.
            serde_json::from_str(include_str!("../../../text-kinds.json"))
                .unwrap_or_else(|error| unreachable!("crates/index/text-kinds.json: {error}"))
        });
        &BUILTIN
    }
}

impl KindModel {
    /// Tells long texts from ordinary queries; for texts of one line.
    pub fn long_texts() -> &'static Self {
        &Kinds::builtin().long
    }

    /// Tells reports from descriptions, both long.
    pub fn reports() -> &'static Self {
        &Kinds::builtin().reports
    }

    /// The probability that a text is of the kind, 0 to 1.
    pub fn probability(&self, features: &TextFeatures) -> f32 {
        let products = self.features.iter().zip(features).map(|(weight, feature)| weight * feature);
        1.0 / (1.0 + (-(self.intercept + products.sum::<f32>())).exp())
    }
}

impl Issue<'_> {
    /// The features of the text that this was split from.
    pub fn text_features(&self, text: &str) -> TextFeatures {
        let words: Vec<String> = text
            .split_whitespace()
            .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
            .collect();
        let n = words.len().max(1) as f32;
        let count =
            |accepts: &dyn Fn(&String) -> bool| words.iter().filter(|word| accepts(word)).count() as f32;
        // Of long texts, single words say as much as of short ones.
        let share = |list: &[&str]| (10.0 * count(&|word| list.contains(&word.as_str())) / n).min(1.0);
        let log = |count: usize| (count as f32).ln_1p();
        let flag = |value: bool| f32::from(u8::from(value));
        let n_lines = text.lines().filter(|line| !line.trim().is_empty()).count();
        let title_words = self.title.split_whitespace().count();
        let first = words.first().map_or("", String::as_str);
        let is_third_person = first.len() > 3 && first.ends_with('s') && !first.ends_with("ss");
        let text = text.trim();
        [
            n.ln(),
            log(n_lines),
            flag(n_lines > 1 && (1..=16).contains(&title_words) && !self.title.ends_with('.')),
            log(self.code.len()),
            log(self.frames.len()),
            log(self.messages.len()),
            log(self.positions.len()),
            log(self.n_noise),
            log(text.matches("://").count()),
            (self.names.iter().filter(|(name, _)| name.is_symbol).count() as f32 * 5.0 / n).min(1.0),
            (5.0 * count(&|word| word.starts_with(|c: char| c.is_ascii_digit())) / n).min(1.0),
            share(&FIRST_PERSON),
            share(&PROBLEMS),
            share(&STEPS),
            share(&CONTRACTS),
            flag(QUESTION_WORDS.contains(&first) || text.ends_with('?')),
            flag(text.starts_with(char::is_uppercase)),
            flag(text.ends_with('.')),
            flag(text.ends_with('?')),
            flag(is_third_person),
            flag(text.contains(". ")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probability(text: &str) -> f32 {
        let features = Issue::split(text).text_features(text);
        assert!(features.iter().all(|value| value.is_finite()), "{features:?}");
        KindModel::reports().probability(&features)
    }

    #[test]
    fn the_builtin_weights_can_be_read_and_written_back() {
        let model = Kinds::builtin();
        let text = serde_json::to_string(model).unwrap();
        assert_eq!(*model, serde_json::from_str::<Kinds>(&text).unwrap());
    }

    #[test]
    fn a_report_is_distinguished_from_a_description() {
        let description = "Returns the total of the items in a cart, with the tax of the country that it is sent to. Items \
            without a price are ignored, and so are those that were returned. The given cart must not be changed by another \
            thread while the total is computed; otherwise the value is that of an earlier state.";
        let report = "Total of a cart is wrong after an item is removed\n\nI noticed this problem with the latest version. Steps:\n\
            1. add two items\n2. remove one\n\n```python\ncart.remove(item)\nprint(cart.total())\n```\n\nExpected: 3, actual: 5. \
            Then it fails with\n\nTraceback (most recent call last):\n  File \"shop/cart.py\", line 3, in total\n    raise TaxError('x')\n\
            shop.TaxError: no tax";
        assert!(probability(description) < 0.3, "{}", probability(description));
        assert!(probability(report) > 0.7, "{}", probability(report));
    }
}
