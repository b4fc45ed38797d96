//! What the steps hand on to each other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

/// What kind of code a record holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeKind {
    /// A function or method.
    #[default]
    Function,
    /// Code from a question or an answer.
    Snippet,
    /// Lines below a comment.
    Block,
}

/// A piece of code, with all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeRecord {
    /// Stands for where it is and what it says.
    pub id: String,
    /// What kind of code it is.
    pub kind: CodeKind,
    /// The name of its source in the plan.
    pub source: String,
    /// Its repository, as `owner/name` where that is known.
    pub repository: String,
    /// The commit that it was read at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Path of its file in the source, `/` between its parts.
    pub path: String,
    /// First line, 1-based.
    pub start_line: u32,
    /// Last line, 1-based, inclusive.
    pub end_line: u32,
    /// Its language, by the name that `quarry languages` lists.
    pub language: String,
    /// Its license, as an SPDX expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Its name, qualified within the file; empty where it has none.
    #[serde(default)]
    pub name: String,
    /// Its declaration, without body.
    #[serde(default)]
    pub signature: String,
    /// Its docstring, or the comment above it, without markers.
    #[serde(default)]
    pub documentation: String,
    /// Its parameters; `None` where that is not known of its language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<String>>,
    /// Whether it returns a value; `None` where that is not known of its language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns_value: Option<bool>,
    /// What it calls, as written there: `name`, or `receiver.name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// What calls begin with and imports of the file bind, with the full path of what it stands for; a relative one
    /// begins with `.`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub imports: BTreeMap<String, String>,
    /// What calls begin with and is a variable or parameter of the function.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locals: Vec<String>,
    /// Whether its file could not be parsed in full.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_syntax_errors: bool,
    /// The code without its documentation, or with it where the plan says so.
    pub code: String,
    /// The code with its documentation, before the plan's choice.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub whole: String,
}

impl CodeRecord {
    /// The code as it was found, with its documentation, where the pool still has that.
    pub(crate) fn text(&self) -> &str {
        if self.whole.is_empty() { &self.code } else { &self.whole }
    }
}

/// A query, with what it was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryRecord {
    /// Stands for its text.
    pub id: String,
    /// What is asked.
    pub text: String,
    /// The name of its source in the plan; of several that have it, the first.
    pub origin: String,
    /// The codes that it was made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<String>,
}

/// A code that may answer a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Candidate {
    /// Id of the query.
    pub query: String,
    /// Id of the code.
    pub code: String,
    /// Who found it, with rank, from 1, and score.
    pub found: Vec<Found>,
}

/// The place of a code among those that a method found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub by: String,
    pub rank: usize,
    pub score: f32,
}

/// A query with a code, and the label where there is one. A line of it is one of the format `query-code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LabelledPair {
    pub id: String,
    pub query_id: String,
    pub query: String,
    pub code_id: String,
    pub code: String,
    pub language: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<i32>,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// 16 hexadecimal digits that stand for texts.
pub(crate) fn id_of(texts: &[&str]) -> String {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    format!("{:032x}", xxh3_128(&bytes))[..16].to_owned()
}

/// Stands for a text where runs of white space do not count.
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
    fn ids_tell_texts_apart_and_hashes_do_not_see_white_space() {
        assert_ne!(id_of(&["ab", "c"]), id_of(&["a", "bc"]));
        assert_eq!(id_of(&["a"]).len(), 16);
        assert_eq!(normalized_hash(" a\n b"), normalized_hash("a b"));
        assert_ne!(normalized_hash("ab"), normalized_hash("a b"));
    }
}
