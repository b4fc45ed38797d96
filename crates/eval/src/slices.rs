//! Kinds of queries, so that means can be taken over each kind.

use quarry_corpus::formats::Query;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// By what queries are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Property {
    /// How it is put: `symbol` (one word that is an identifier), `question`, `keywords` (up to three words), `phrase`.
    Kind,
    /// Number of words: `1-3`, `4-6`, `7-9`, `10+`.
    Words,
    /// Number of documents that are relevant to it: `0` to `5`, `6-10`, `11+`.
    Positives,
    /// Greatest grade of a document for it.
    Grade,
}

impl Property {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Kind, Self::Words, Self::Positives, Self::Grade];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Words => "words",
            Self::Positives => "positives",
            Self::Grade => "grade",
        }
    }

    /// Its value for a query with its judged documents, worded so that text order is the natural one.
    #[must_use]
    pub fn of(self, query: &Query, judged: &BTreeMap<String, i32>) -> String {
        match self {
            Self::Kind => kind(&query.text).into(),
            Self::Words => match query.text.split_whitespace().count() {
                0..=3 => "1-3".into(),
                4..=6 => "4-6".into(),
                7..=9 => "7-9".into(),
                _ => "10+".into(),
            },
            Self::Positives => match judged.values().filter(|grade| **grade > 0).count() {
                few @ 0..=5 => few.to_string(),
                6..=10 => "6-10".into(),
                _ => "11+".into(),
            },
            Self::Grade => judged.values().max().map_or("none".into(), i32::to_string),
        }
    }
}

fn kind(text: &str) -> &'static str {
    const QUESTION_WORDS: &[&str] = &[
        "how", "what", "where", "which", "who", "why", "when", "is", "are", "can", "could", "does", "do",
        "should",
    ];
    let mut words = text.split_whitespace();
    let (Some(first), second) = (words.next(), words.next()) else { return "keywords" };
    let compound = |word: &str| {
        word.contains(['_', ':', '.', '(', '$'])
            || word.chars().zip(word.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase())
    };
    if second.is_none() && compound(first) {
        "symbol"
    } else if text.trim_end().ends_with('?') || QUESTION_WORDS.contains(&first.to_lowercase().as_str()) {
        "question"
    } else if words.count() <= 1 {
        "keywords"
    } else {
        "phrase"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_told_apart() {
        let judged =
            |grades: &[i32]| (0..).map(|id: u32| id.to_string()).zip(grades.iter().copied()).collect();
        let check = |text: &str, grades: &[i32], expected: [&str; 4]| {
            let query = Query { id: "q".into(), text: text.into() };
            assert_eq!(
                Property::ALL.map(|property| property.of(&query, &judged(grades))),
                expected,
                "{text}"
            );
        };
        check("HttpServer::run", &[1], ["symbol", "1-3", "1", "1"]);
        check("parseHeader", &[0], ["symbol", "1-3", "0", "0"]);
        check("retry", &[], ["keywords", "1-3", "0", "none"]);
        check("read csv file", &[2, 1, 0], ["keywords", "1-3", "2", "2"]);
        check("How do I sort a list", &[1; 7], ["question", "4-6", "6-10", "1"]);
        check("is it open?", &[1], ["question", "1-3", "1", "1"]);
        check("connect to the database with a time limit", &[1; 12], ["phrase", "7-9", "11+", "1"]);
        check(&"word ".repeat(12), &[3], ["phrase", "10+", "1", "3"]);
        check("", &[1], ["keywords", "1-3", "1", "1"]);
    }
}
