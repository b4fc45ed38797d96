//! Records, common to all formats.

use super::{Document, Query, Value};

#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A text and a code that may or may not answer it.
    Pair(Box<Pair>),
    Query(Query),
    Document(Document),
    /// The relevance of a document to a query, both given by id.
    Judgment(Judgment),
    Label(Label),
    Retrieved(Retrieved),
}

impl Record {
    /// The pair, unless its code does not answer its query.
    pub(super) fn matching_pair(&self) -> Option<&Pair> {
        match self {
            Self::Pair(pair) if pair.label != Some(0) => Some(pair),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pair {
    pub id: Option<String>,
    /// The query, or the documentation that serves as one.
    pub query: Side,
    pub code: Side,
    /// 1 if the code answers the query, 0 if it does not, `None` if it is unlabeled.
    pub label: Option<i32>,
    /// Documentation of the code as tokens joined by spaces, if it is not the query.
    pub documentation: Option<String>,
    pub language: Option<String>,
    /// Class of the text stated in the file, as in StatCodeSearch.
    pub category: Option<String>,
    /// Repository, `owner/name`.
    pub repository: Option<String>,
    pub path: Option<String>,
    /// Qualified name of the function.
    pub name: Option<String>,
    pub url: Option<String>,
    pub partition: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Side {
    /// Identifier, if the format has one; otherwise equal texts count as the same side.
    pub id: Option<String>,
    pub text: String,
    /// Its published tokens joined by spaces, if the format has them.
    pub tokens: Option<String>,
}

impl Pair {
    /// Programming language of the code: as stated in the file, otherwise as inferred from its path or URL.
    pub(crate) fn language_name(&self) -> Option<String> {
        let of_file = |path: &Option<String>| {
            let path = Document::new(path.clone()?, String::new());
            path.language_name().map(Into::into)
        };
        self.language.clone().or_else(|| of_file(&self.path)).or_else(|| of_file(&self.url))
    }
}

impl Side {
    pub(crate) fn new(id: Option<String>, text: String, tokens: Option<String>) -> Self {
        Self { id, text, tokens }
    }

    /// The text, or the tokens joined by spaces if `tokens` is set and they are known.
    pub fn form(&self, tokens: bool) -> &str {
        self.tokens.as_deref().filter(|_| tokens).unwrap_or(&self.text)
    }

    /// Like [`Self::form`], by value.
    pub(crate) fn into_form(self, tokens: bool) -> String {
        self.tokens.filter(|_| tokens).unwrap_or(self.text)
    }

    /// The tokens, or the words of the text.
    pub(super) fn token_list(&self) -> Value<'static> {
        Value::List(self.form(true).split_whitespace().map(str::to_owned).collect())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgment {
    /// Id of the query.
    pub query: String,
    /// Id of the document.
    pub document: String,
    /// Grade: 1 or more is relevant, 0 is non-relevant, less is unjudged.
    pub grade: i32,
    /// Programming language of the document, if the format has it.
    pub language: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Id of the pair.
    pub pair: String,
    /// 1 if the code answers the query, otherwise 0.
    pub label: i32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Retrieved {
    /// Id of the query.
    pub query: String,
    /// Id of the document.
    pub document: String,
    /// Score; larger is better, never NaN.
    pub score: f64,
}
