//! Estimates whether a query wants a file or a function, and ranks accordingly.
//!
//! Questions that a file answers ("JSON decoding", `Router`) name a subject; the [rules](crate::rules) about names
//! and paths find it. Questions that a single function answers describe behavior, and those rules are misleading
//! there. So a unit's score is the probability that it is the one the user wants, as a mixture of two experts (Jacobs
//! et al., *Adaptive Mixtures of Local Experts*, 1991): with probability [`Model::file_probability`] it is drawn from
//! a softmax over the scores of the rules, otherwise from a softmax over those of [`Model::function_score`]. Both are
//! linear in named features; their weights are data (`crates/index/ranking.json`), fitted by `quarry eval tune`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use quarry_source::UnitKind;
use quarry_text::is_stop_word;
use serde::{Deserialize, Serialize};

use crate::ScoreParts;

/// Names of the features of a query, in the order of [`QueryFeatures`].
pub const QUERY_FEATURES: [&str; 18] = [
    "log_words",
    "single_word",
    "symbols",
    "stop_words",
    "question_mark",
    "question_word",
    "articles",
    "capitals",
    "known",
    "max_coverage",
    "max_cosine",
    "max_stem",
    "max_type_name",
    "max_name",
    "max_directory",
    "max_stem_squared",
    "max_type_name_squared",
    "with_meaning",
];

/// The wording of a query and how well names match it; each value is about 0 to 1 except the logarithm.
pub type QueryFeatures = [f32; QUERY_FEATURES.len()];

/// Names of the features of a unit, in the order of [`UnitFeatures`].
pub const UNIT_FEATURES: [&str; 18] = [
    "lexical_share",
    "lexical_share_squared",
    "token_similarity",
    "meaning_similarity",
    "meaning_share",
    "file_lexical_share",
    "file_dense_share",
    "coverage",
    "matched",
    "function",
    "method",
    "type",
    "test",
    "defines",
    "log_lines",
    "log_lines_squared",
    "rank_in_file",
    "log_in_file",
];

/// The features of a unit as an answer to a question about behavior.
pub type UnitFeatures = [f32; UNIT_FEATURES.len()];

/// Matches between a query and names among the candidates; each value is the maximum of a
/// [`name_match`](crate::rules::name_match), 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NameMatches {
    /// Match of the stems of files.
    pub stem: f32,
    /// Match of the names of directories.
    pub directory: f32,
    /// Match of the own names of types.
    pub type_name: f32,
    /// Match of the own names of all definitions.
    pub name: f32,
}

/// Results of a search for a query as a whole; each value is 0 to 1, unless stated otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueryMatches {
    /// Share of its terms, by weight, that occur in the index.
    pub known: f32,
    /// Maximum coverage of a candidate.
    pub coverage: f32,
    /// Maximum cosine of a candidate.
    pub cosine: f32,
    /// Number of its words and phrases that are in the thesaurus, divided by that of its words; more than 1 is possible.
    pub with_meaning: f32,
    /// Matches of names among the candidates.
    pub names: NameMatches,
}

/// Words that a question begins with.
const QUESTION_WORDS: [&str; 11] =
    ["how", "why", "what", "where", "when", "which", "who", "does", "do", "is", "can"];

/// The features of a query, from its text and the results of a search.
pub fn query_features(text: &str, matches: &QueryMatches) -> QueryFeatures {
    let words: Vec<&str> = text.split_whitespace().collect();
    let plain: Vec<String> =
        words.iter().map(|word| word.trim_matches(['?', ',', '.']).to_lowercase()).collect();
    let share = |count: usize| count as f32 / words.len().max(1) as f32;
    let flag = |value: bool| f32::from(u8::from(value));
    let NameMatches { stem, directory, type_name, name } = matches.names;
    [
        (words.len().max(1) as f32).ln(),
        flag(words.len() == 1),
        share(words.iter().filter(|word| is_written_as_symbol(word)).count()),
        share(plain.iter().filter(|word| is_stop_word(word)).count()),
        flag(text.contains('?')),
        flag(plain.first().is_some_and(|word| QUESTION_WORDS.contains(&word.as_str()))),
        share(plain.iter().filter(|word| ["a", "an", "the"].contains(&word.as_str())).count()),
        share(words.iter().skip(1).filter(|word| word.starts_with(char::is_uppercase)).count()),
        matches.known,
        matches.coverage,
        matches.cosine,
        stem,
        type_name,
        name,
        directory,
        stem * stem,
        type_name * type_name,
        matches.with_meaning,
    ]
}

/// Returns true if a word is written like a name in code rather than prose: `camelCase`, `snake_case`, `a::b`, `a.b`,
/// `f()`, `ABC`, or in backticks.
fn is_written_as_symbol(word: &str) -> bool {
    let pairs = || word.chars().zip(word.chars().skip(1));
    let dotted = || {
        pairs()
            .zip(word.chars().skip(2))
            .any(|((a, b), c)| b == '.' && a.is_alphanumeric() && c.is_alphanumeric())
    };
    word.contains(['_', '`'])
        || word.contains("::")
        || word.contains("()")
        || pairs().any(|(a, b)| b.is_uppercase() && a.is_alphabetic())
        || dotted()
}

/// Results of a search for a unit.
#[derive(Debug, Clone, Copy)]
pub struct UnitMatches {
    /// BM25F relative to the best unit.
    pub lexical_share: f32,
    /// Coverage of the query's words by its own, by meaning, -1 to 1: [`quarry_embed::QueryTokens::similarities`].
    pub token_similarity: f32,
    /// The same with the words that programmers write for those of the query.
    pub meaning_similarity: f32,
    /// Cosine with the query and these words relative to the best unit, at least 0.
    pub meaning_share: f32,
    /// BM25F of its file relative to the best file.
    pub file_lexical_share: f32,
    /// Best cosine of its file relative to the best file, at least 0.
    pub file_dense_share: f32,
    /// BM25F relative to the maximum possible for the query's terms.
    pub coverage: f32,
    /// Share of the query's terms, by weight, that occur in it, its name or its path.
    pub matched: f32,
    pub kind: UnitKind,
    /// True if it is test code.
    pub is_test: bool,
    /// True if it defines a symbol of the query.
    pub defines: bool,
    /// Number of its lines, at least 1.
    pub lines: u32,
    /// Number of candidates in its file with a better score for words and meaning.
    pub rank_in_file: usize,
    /// Number of candidates in its file, including itself.
    pub in_file: usize,
}

impl UnitMatches {
    pub fn features(&self) -> UnitFeatures {
        let flag = |value: bool| f32::from(u8::from(value));
        let log_lines = (self.lines.max(1) as f32).ln();
        [
            self.lexical_share,
            self.lexical_share.powi(2),
            self.token_similarity,
            self.meaning_similarity,
            self.meaning_share,
            self.file_lexical_share,
            self.file_dense_share,
            self.coverage,
            self.matched,
            flag(self.kind == UnitKind::Function),
            flag(self.kind == UnitKind::Method),
            flag(self.kind == UnitKind::Type),
            flag(self.is_test),
            flag(self.defines),
            log_lines,
            // Answers to questions about behavior are rarely three lines long, or three hundred.
            log_lines.powi(2),
            self.rank_in_file as f32,
            (self.in_file.max(1) as f32).ln(),
        ]
    }
}

/// The score of a unit by the rules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RuleScore {
    /// Number of its file.
    pub file: u32,
    pub score: f32,
    /// The score without the factor for better units of the same file; 0 for a near-duplicate.
    pub alone: f32,
}

impl RuleScore {
    /// The score that the parts of a unit's score have.
    pub fn new(file: u32, parts: &ScoreParts) -> Self {
        let alone = if parts.repetition > 0.0 { parts.rules / parts.repetition } else { 0.0 };
        Self { file, score: parts.rules, alone }
    }
}

/// Weight of the score by the rules in the order of the units of a file; the rest is that of
/// [`Model::function_score`].
const RULES_IN_FILE: f32 = 0.8;

/// The weights of the mixture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "IntentWeights"))]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Factor for the odds of a file; above 1, since missing a file costs more: such questions have several correct
    /// answers.
    pub file_odds: f32,
    /// Factor of the scores of the rules, relative to the best one, in the softmax.
    pub sharpness: f32,
    /// Log-odds of a file if every feature is 0.
    pub intercept: f32,
    /// Weights of the features of a query, by name.
    #[serde(with = "query_by_name")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, f32>"))]
    pub query: QueryFeatures,
    /// Weights of the features of a unit, by name.
    #[serde(with = "unit_by_name")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, f32>"))]
    pub unit: UnitFeatures,
}

impl Model {
    /// The model that search uses.
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Model> = LazyLock::new(|| {
            // A test parses the file, so it cannot be invalid in a release.
            serde_json::from_str(include_str!("../../ranking.json"))
                .unwrap_or_else(|error| unreachable!("crates/index/ranking.json: {error}"))
        });
        &BUILTIN
    }

    /// The probability that a file is wanted rather than a function, 0 to 1.
    pub fn file_probability(&self, features: &QueryFeatures) -> f32 {
        let log_odds = self.intercept + dot(&self.query, features) + self.file_odds.ln();
        1.0 / (1.0 + (-log_odds).exp())
    }

    /// The score of a unit as the answer to a question about behavior: a log-probability up to a constant for the
    /// query.
    pub fn function_score(&self, features: &UnitFeatures) -> f32 {
        dot(&self.unit, features)
    }

    /// The shares of candidates by their scores of the rules and by their features.
    ///
    /// Rules decide which file is wanted, but say little about which of its units: the shares of each file are
    /// assigned to its units in the order of both scores, those of the rules without the factor for further units of a
    /// file.
    pub fn shares(&self, rules: &[RuleScore], features: &[UnitFeatures]) -> Shares {
        let scores: Vec<f32> = features.iter().map(|features| self.function_score(features)).collect();
        let mut file = self.file_shares(rules.iter().map(|rule| rule.score));
        let best = rules.iter().map(|rule| rule.score).fold(f32::MIN_POSITIVE, f32::max);
        let in_file = |unit: usize| {
            let rule = RULES_IN_FILE * self.sharpness * rules[unit].alone / best;
            if rules[unit].alone > 0.0 {
                rule + (1.0 - RULES_IN_FILE) * scores[unit]
            } else {
                f32::NEG_INFINITY
            }
        };
        let mut by_file: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (unit, rule) in rules.iter().enumerate() {
            by_file.entry(rule.file).or_default().push(unit);
        }
        for mut units in by_file.into_values() {
            let mut shares: Vec<f32> = units.iter().map(|&unit| file[unit]).collect();
            shares.sort_by(|a, b| b.total_cmp(a));
            units.sort_by(|&a, &b| in_file(b).total_cmp(&in_file(a)));
            units.into_iter().zip(shares).for_each(|(unit, share)| file[unit] = share);
        }
        Shares { file, function: softmax(&scores) }
    }

    /// The shares of units if a file is wanted, by their scores of the rules.
    pub fn file_shares(&self, rules: impl Iterator<Item = f32> + Clone) -> Vec<f32> {
        let best = rules.clone().fold(f32::MIN_POSITIVE, f32::max);
        softmax(&rules.map(|score| self.sharpness * score / best).collect::<Vec<_>>())
    }
}

/// The share of each candidate, in order; both lists sum to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    /// Shares if a file is wanted.
    pub file: Vec<f32>,
    /// Shares if a function is wanted.
    pub function: Vec<f32>,
}

/// The score of a unit from its two shares and the probability that a file is wanted.
pub fn mixture(file_probability: f32, file_share: f32, function_share: f32) -> f32 {
    file_probability * file_share + (1.0 - file_probability) * function_share
}

fn dot(weights: &[f32], features: &[f32]) -> f32 {
    weights.iter().zip(features).map(|(weight, feature)| weight * feature).sum()
}

/// Defines a module for (de)serializing weights as an object whose keys are the names of the features.
macro_rules! by_name {
    ($module:ident, $names:ident) => {
        mod $module {
            use std::collections::BTreeMap;

            use serde::de::Error as _;
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            use super::$names as NAMES;

            pub(super) fn serialize<S: Serializer>(
                weights: &[f32; NAMES.len()],
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                NAMES.iter().zip(weights).collect::<BTreeMap<_, _>>().serialize(serializer)
            }

            pub(super) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<[f32; NAMES.len()], D::Error> {
                let mut weights: BTreeMap<String, f32> = BTreeMap::deserialize(deserializer)?;
                let mut values = [0.0; NAMES.len()];
                for (value, name) in values.iter_mut().zip(NAMES) {
                    *value = weights
                        .remove(name)
                        .ok_or_else(|| D::Error::custom(format!("no weight for {name}")))?;
                }
                match weights.into_keys().next() {
                    Some(name) => Err(D::Error::custom(format!("{name} is not a feature"))),
                    None => Ok(values),
                }
            }
        }
    };
}
pub(crate) use by_name;

by_name!(query_by_name, QUERY_FEATURES);
by_name!(unit_by_name, UNIT_FEATURES);

/// The share of each score in a softmax over all of them; all scores must be finite.
pub fn softmax(scores: &[f32]) -> Vec<f32> {
    let maximum = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut shares: Vec<f32> = scores.iter().map(|score| (score - maximum).exp()).collect();
    let sum: f32 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= sum);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_weights_can_be_read_and_written_back() {
        let model = Model::builtin();
        let text = serde_json::to_string(model).unwrap();
        assert_eq!(*model, serde_json::from_str(&text).unwrap());
        let without = text.replacen("\"known\"", "\"unknown\"", 1);
        let error = serde_json::from_str::<Model>(&without).unwrap_err().to_string();
        assert!(error.contains("no weight for known"), "{error}");
    }

    #[test]
    fn a_name_asks_for_a_file_and_a_description_for_a_function() {
        let matches = |stem| QueryMatches {
            known: 1.0,
            coverage: 0.5,
            cosine: 0.5,
            with_meaning: 0.2,
            names: NameMatches { stem, type_name: stem, name: stem, directory: 0.0 },
        };
        let probability =
            |text, stem| Model::builtin().file_probability(&query_features(text, &matches(stem)));
        assert!(probability("JSON Decoder", 1.0) > 0.8);
        assert!(probability("wait a little longer after each failed try", 0.2) < 0.4);
        assert!(probability("JSON Decoder", 1.0) > probability("JSON Decoder", 0.2));
    }

    #[test]
    fn words_are_written_as_symbols_or_not() {
        for symbol in ["readCsv", "read_csv", "Gson::Builder", "os.path", "close()", "HTTP", "`x`"] {
            assert!(is_written_as_symbol(symbol), "{symbol}");
        }
        for word in ["Read", "csv", "file.", "don't", "", "é", "a"] {
            assert!(!is_written_as_symbol(word), "{word}");
        }
    }

    #[test]
    fn shares_add_up_to_one() {
        for scores in [vec![0.0, 1.0, 2.0], vec![500.0, -500.0], vec![-1e30, -1e30]] {
            assert!((softmax(&scores).iter().sum::<f32>() - 1.0).abs() < 1e-6, "{scores:?}");
        }
        assert!(softmax(&[]).is_empty());
        let shares = softmax(&[2.0_f32.ln(), 1.0_f32.ln()]);
        assert!((shares[0] - 2.0 / 3.0).abs() < 1e-6);
    }

    #[test]
    fn the_units_of_a_file_have_its_shares_in_the_order_of_both_scores() {
        let model = Model::builtin();
        let rule = |file, score, alone| RuleScore { file, score, alone };
        let rules = [rule(0, 1.0, 1.0), rule(0, 0.6, 0.98), rule(1, 0.9, 0.9), rule(0, 0.0, 0.0)];
        let similarity = UNIT_FEATURES.iter().position(|name| *name == "token_similarity").unwrap();
        let features = [0.1, 0.9, 0.1, 1.0].map(|value| {
            let mut features = [0.0; UNIT_FEATURES.len()];
            features[similarity] = value;
            features
        });
        let by_rules = model.file_shares(rules.iter().map(|rule| rule.score));
        let shares = model.shares(&rules, &features).file;
        assert_eq!(shares, [by_rules[1], by_rules[0], by_rules[2], by_rules[3]]);
    }

    #[test]
    fn features_are_finite_for_any_text() {
        for text in ["", " ", "?", "..", "`", "日本語", "a\u{0301}"] {
            let features = query_features(text, &QueryMatches::default());
            assert!(features.iter().all(|value| value.is_finite()), "{text:?} {features:?}");
        }
    }
}
