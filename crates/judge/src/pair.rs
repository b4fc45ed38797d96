//! The pairs that are judged.

use quarry_files::digest;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Identifier of the pair, unique in its plan.
    pub id: String,
    pub query_id: String,
    pub query: String,
    pub code_id: String,
    pub code: String,
    /// Its language, in lower case.
    pub language: String,
    /// The label in the file, which no judge sees.
    pub label: Option<i32>,
    /// The code of another candidate for the same query in the same language, if there is one.
    pub alternative: Option<String>,
}

impl Pair {
    /// An id for a text or texts without one: a hash.
    pub(crate) fn id_of(texts: &[&str]) -> String {
        digest(texts)[..16].to_owned()
    }

    /// Hash of what is judged: language, query and code.
    pub fn content(&self) -> String {
        digest(&[&self.language, &self.query, &self.code])
    }
}
