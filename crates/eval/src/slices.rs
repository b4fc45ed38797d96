//! Classes of queries, for means over each class.

use quarry_corpus::formats::{Document, Query};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Property {
    /// Wording: `symbol` (one word that is an identifier), `question`, `keywords` (up to three words), `phrase`.
    Kind,
    /// Number of words: `1-3`, `4-6`, `7-9`, `10+`.
    Words,
    /// Number of relevant documents: `0` to `5`, `6-10`, `11+`.
    Positives,
    /// Highest grade of its documents.
    Grade,
    /// Programming language of the relevant documents: `several` if there is more than one, `unknown` if the data do
    /// not specify it.
    Language,
}

/// Programming languages of documents by id, for documents whose data specify it.
pub type Languages = HashMap<String, String>;

pub fn languages(documents: &[Document]) -> Languages {
    let known = |document: &Document| Some((document.id.clone(), document.language_name()?.into_owned()));
    documents.iter().filter_map(known).collect()
}

impl Property {
    pub const ALL: [Self; 5] = [Self::Kind, Self::Words, Self::Positives, Self::Grade, Self::Language];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Words => "words",
            Self::Positives => "positives",
            Self::Grade => "grade",
            Self::Language => "language",
        }
    }

    /// The class of a query with its judged documents, named so that text order is the natural order.
    #[must_use]
    pub fn classify(self, query: &Query, judged: &BTreeMap<String, i32>, languages: &Languages) -> String {
        let relevant = || judged.iter().filter(|(_, grade)| **grade > 0).map(|(document, _)| document);
        match self {
            Self::Kind => kind(&query.text).into(),
            Self::Words => match query.text.split_whitespace().count() {
                0..=3 => "1-3".into(),
                4..=6 => "4-6".into(),
                7..=9 => "7-9".into(),
                _ => "10+".into(),
            },
            Self::Positives => match relevant().count() {
                few @ 0..=5 => few.to_string(),
                6..=10 => "6-10".into(),
                _ => "11+".into(),
            },
            Self::Grade => judged.values().max().map_or("none".into(), i32::to_string),
            Self::Language => {
                let known: BTreeSet<&String> =
                    relevant().filter_map(|document| languages.get(document)).collect();
                match known.len() {
                    0 => "unknown".into(),
                    1 => known.into_iter().cloned().collect(),
                    _ => "several".into(),
                }
            }
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
    fn queries_are_classified() {
        let judged =
            |grades: &[i32]| (0..).map(|id: u32| id.to_string()).zip(grades.iter().copied()).collect();
        let check = |text: &str, grades: &[i32], expected: [&str; 4]| {
            let query = Query { id: "q".into(), text: text.into() };
            let found =
                Property::ALL.map(|property| property.classify(&query, &judged(grades), &HashMap::new()));
            assert_eq!(found[..4], expected, "{text}");
            assert_eq!(found[4], "unknown");
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

    #[test]
    fn the_language_is_that_of_what_is_relevant() {
        let documents = ["a.py", "b.py", "c.go", "d"].map(|id| Document::new(id.into(), String::new()));
        let languages = languages(&documents);
        let language = |judged: &[(&str, i32)]| {
            let judged = judged.iter().map(|(id, grade)| ((*id).to_owned(), *grade)).collect();
            Property::Language.classify(&Query { id: "q".into(), text: "x".into() }, &judged, &languages)
        };
        assert_eq!(language(&[("a.py", 1), ("b.py", 2), ("c.go", 0)]), "python");
        assert_eq!(language(&[("a.py", 1), ("c.go", 1)]), "several");
        assert_eq!(language(&[("c.go", 1), ("d", 1)]), "go");
        assert_eq!(language(&[("d", 1)]), "unknown");
    }
}
