//! Functions with what is asked for them.

use serde::{Deserialize, Serialize};

/// A function, separated from its documentation, and a query that it answers: a line of a file of training pairs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FunctionPair {
    /// The query, such as the first sentence of the documentation; empty if that is missing or uninformative.
    pub query: String,
    /// The rest of the documentation.
    pub doc: String,
    /// Qualified name.
    pub name: String,
    /// Source text without the documentation.
    pub code: String,
    /// Name of the language, as in [`Language::name`](crate::Language::name).
    pub language: String,
    /// Repository, as `owner/name`.
    pub repository: String,
    /// Path of the file in the repository, with `/`; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Codes that were judged not to answer the query: hard negatives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub negatives: Vec<String>,
}
