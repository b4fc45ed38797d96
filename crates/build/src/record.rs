//! The records passed between steps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeKind {
    #[default]
    Function,
    /// Code from a question or an answer.
    Snippet,
    /// Lines below a comment.
    Block,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeRecord {
    /// Hash of its location and its text.
    pub id: String,
    pub kind: CodeKind,
    /// The name of its source in the plan.
    pub source: String,
    /// Its repository, as `owner/name` if known.
    pub repository: String,
    /// The commit from which it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Path of its file in the source, `/` between its parts.
    pub path: String,
    /// First line, 1-based.
    pub start_line: u32,
    pub end_line: u32,
    /// Its language, by the name that `quarry languages` lists.
    pub language: String,
    /// Its license, as an SPDX expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Its name, qualified within the file; empty if it has none.
    #[serde(default)]
    pub name: String,
    /// Its declaration, without body.
    #[serde(default)]
    pub signature: String,
    /// Its docstring, or the comment above it, without markers.
    #[serde(default)]
    pub documentation: String,
    /// Its parameters; `None` if unknown for its language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<String>>,
    /// True if it returns a value; `None` if unknown for its language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns_value: Option<bool>,
    /// Calls as written: `name`, or `receiver.name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// The first parts of calls that are bound by imports of the file, each with the full path of the import. A
    /// relative path begins with `.`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub imports: BTreeMap<String, String>,
    /// The first parts of calls that are variables or parameters of the function.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locals: Vec<String>,
    /// Its kind of analysis, if the plan uses categories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_syntax_errors: bool,
    /// The code without its documentation, or with it if the plan asks for it.
    pub code: String,
    /// The code with its documentation, independent of the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub whole: String,
}

impl CodeRecord {
    /// The original code with its documentation, if the pool still has it.
    pub(crate) fn text(&self) -> &str {
        if self.whole.is_empty() { &self.code } else { &self.whole }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryRecord {
    pub id: String,
    pub text: String,
    /// The name of its source in the plan; the first if several have it.
    pub origin: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Candidate {
    pub query: String,
    pub code: String,
    /// The methods that found it, with 1-based rank and score.
    pub found: Vec<Found>,
}

/// The rank of a code in the results of a method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub by: String,
    pub rank: usize,
    pub score: f32,
}

/// A query with a code, and the label if there is one. A line of it is valid in the format `query-code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PairRecord {
    pub id: String,
    pub query_id: String,
    pub query: String,
    pub code_id: String,
    pub code: String,
    pub language: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

impl PairRecord {
    pub(crate) fn new(
        query: &QueryRecord,
        code: &str,
        record: CodeRecord,
        label: Option<i32>,
        evidence: Option<String>,
    ) -> Self {
        Self {
            id: Self::id_of(query, code),
            query_id: query.id.clone(),
            query: query.text.clone(),
            code_id: code.to_owned(),
            code: record.code,
            language: record.language,
            label,
            evidence,
        }
    }

    pub(crate) fn id_of(query: &QueryRecord, code: &str) -> String {
        format!("{}-{code}", query.id)
    }

    /// Returns whether the code is labeled as an answer.
    pub(crate) fn is_positive(&self) -> bool {
        self.label.is_some_and(|label| label > 0)
    }
}

/// A hash of texts, as 16 hexadecimal digits.
pub(crate) fn id_of(texts: &[&str]) -> String {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    format!("{:032x}", xxh3_128(&bytes))[..16].to_owned()
}

/// Hash of a text that ignores runs of white space.
pub(crate) fn normalized_hash(text: &str) -> u128 {
    let mut normalized = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !normalized.is_empty() {
            normalized.push(' ');
        }
        normalized.push_str(word);
    }
    xxh3_128(normalized.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_distinguish_texts_and_hashes_ignore_whitespace() {
        assert_ne!(id_of(&["ab", "c"]), id_of(&["a", "bc"]));
        assert_eq!(id_of(&["a"]).len(), 16);
        assert_eq!(normalized_hash(" a\n b"), normalized_hash("a b"));
        assert_ne!(normalized_hash("ab"), normalized_hash("a b"));
    }
}
