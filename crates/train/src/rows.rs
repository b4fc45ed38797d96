//! Rows of training data, and the common requirements of all trainers.

use std::collections::{HashMap, HashSet};

use quarry_source::{comparable, language_of_function};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

pub trait Example {
    fn query(&self) -> &str;
    fn code(&self) -> &str;
    /// Name of the language of its codes; empty if unknown.
    fn language(&self) -> &str {
        ""
    }
    fn answers(&self) -> bool;
    /// Returns true if the query or the code is missing.
    fn is_empty(&self) -> bool;
    /// Codes that do not answer the query.
    fn negatives(&self) -> &[String];
    fn negatives_mut(&mut self) -> &mut Vec<String>;
}

/// Numbers of rows that [`clean`] removed, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Rows without a query or without a code.
    pub empty: usize,
    /// Codes labeled 0 for a query that they answer according to another row, or the query's own code.
    pub contradictory: usize,
}

/// Removes rows from which nothing can be learned, and negatives that equal a code that answers the query, as these
/// contradict the row.
pub fn clean<E: Example>(rows: &mut Vec<E>) -> LeftOut {
    let before = rows.len();
    rows.retain(|row| !row.is_empty());
    let mut left_out = LeftOut { empty: before - rows.len(), contradictory: 0 };
    // Codes are only read for queries with negatives.
    let contrasted: HashSet<u64> = rows
        .iter()
        .filter(|row| !row.answers() || !row.negatives().is_empty())
        .map(|row| key(row.query()))
        .collect();
    let mut answers: HashMap<u64, HashSet<u64>> = HashMap::new();
    for row in rows.iter().filter(|row| row.answers() && !row.query().trim().is_empty()) {
        let query = key(row.query());
        if contrasted.contains(&query) {
            answers.entry(query).or_default().insert(code_key(row.code()));
        }
    }
    rows.retain_mut(|row| {
        if row.answers() && row.negatives().is_empty() {
            return true;
        }
        let of_query = answers.get(&key(row.query()));
        let own = row.answers().then(|| code_key(row.code()));
        let is_answer = |code: &str| {
            let code = code_key(code);
            own == Some(code) || of_query.is_some_and(|codes| codes.contains(&code))
        };
        let n_negatives = row.negatives().len();
        row.negatives_mut().retain(|code| !code.trim().is_empty() && !is_answer(code));
        left_out.contradictory += n_negatives - row.negatives().len();
        let is_kept = row.answers() || !is_answer(row.code());
        left_out.contradictory += usize::from(!is_kept);
        is_kept
    });
    left_out
}

/// Hash of a code that ignores white space, comments and documentation.
fn code_key(code: &str) -> u64 {
    const MARKS: [&str; 5] = ["#", "//", "/*", "\"\"\"", "'''"];
    let language = MARKS.iter().any(|mark| code.contains(mark)).then(|| language_of_function(code)).flatten();
    let found = language.and_then(|language| comparable(language, code));
    found.map_or_else(|| key(code), |found| key(&found.uncommented(code)))
}

/// Hash of a text that ignores white space. Punctuation counts: `a - b` is a good negative for `a + b`.
pub(crate) fn key(text: &str) -> u64 {
    xxh3_64(text.split_whitespace().collect::<Vec<_>>().join(" ").as_bytes())
}

/// The label of a row: 1 if the code answers the query, 0 if not. A row without a label needs no field; a null
/// label is neither.
pub(crate) fn label<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    match value.as_f64() {
        Some(0.0) => Ok(Some(0)),
        Some(1.0) => Ok(Some(1)),
        _ => Err(serde::de::Error::custom(format!(
            "expected the label 1 if the code answers the query or 0 if it does not, found {value}; remove rows without a label"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::Row;

    #[test]
    fn empty_rows_and_answers_among_negatives_are_left_out() {
        let row = |query: &str, code: &str, label: Option<i32>, negatives: &[&str]| Row {
            query: query.to_owned(),
            code: code.to_owned(),
            label,
            negatives: negatives.iter().map(|code| (*code).to_owned()).collect(),
            ..Row::default()
        };
        let mut rows = vec![
            row("add", "return a + b", None, &["return a - b", "return  a +\tb", " ", "sum([a, b])"]),
            row(" add ", "sum([a, b])", Some(1), &[]),
            row("add", "return a + b ", Some(0), &[]),
            row("add", "return a * b", Some(0), &[]),
            row("subtract", "return a - b", Some(0), &["return a - b"]),
            row(
                "f",
                "def f(a):\n    return a",
                None,
                &["def f(a):\n    # the same\n    return a", "def f(a):\n    return b"],
            ),
            row("", "return a", None, &[]),
            row("nothing", " \n", None, &[]),
        ];
        assert_eq!(clean(&mut rows), LeftOut { empty: 2, contradictory: 5 });
        let left: Vec<(&str, &[String])> =
            rows.iter().map(|row| (row.code.as_str(), &row.negatives[..])).collect();
        assert_eq!(
            left,
            [
                ("return a + b", &["return a - b".to_owned()][..]),
                ("sum([a, b])", &[][..]),
                ("return a * b", &[][..]),
                ("return a - b", &["return a - b".to_owned()][..]),
                ("def f(a):\n    return a", &["def f(a):\n    return b".to_owned()][..]),
            ]
        );
    }
}
