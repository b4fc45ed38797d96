//! The arguments of the tools, as their schemas describe them.

use quarry_related::Kind as Reason;
use quarry_source::UnitKind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// Arguments of `search`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Search {
    /// What the code does, in a few English words.
    pub query: String,
    /// Scope of the search.
    #[serde(flatten)]
    pub part: Part,
    /// More of each result: its signature and most relevant lines.
    #[serde(default)]
    pub detail: Detail,
    /// Limits of the answer.
    #[serde(flatten)]
    pub size: Size,
}

/// Arguments of `context`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Context {
    /// As in search.
    pub query: String,
    /// Directory or file.
    #[serde(default)]
    pub path: String,
    /// As in search.
    #[serde(default)]
    pub globs: Vec<String>,
    /// Default 4000.
    #[serde(default = "default_context_tokens")]
    pub max_tokens: usize,
}

/// Arguments of `outline`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Outline {
    /// Directory or file.
    #[serde(default)]
    pub path: String,
    /// Default 2000.
    #[serde(default = "default_tokens")]
    pub max_tokens: usize,
}

/// The part of the tree that is searched.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct Part {
    /// Directory or file.
    #[serde(default)]
    pub path: String,
    /// Such as rust, cpp.
    #[serde(default)]
    pub languages: Vec<String>,
    /// Kinds.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// As in .gitignore; ! leaves out.
    #[serde(default)]
    pub globs: Vec<String>,
}

/// Level of detail of each result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "texts on variants would turn the schema's list of names into a union")]
pub enum Detail {
    #[default]
    Brief,
    Full,
}

/// Arguments of `similar`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Similar {
    /// File.
    pub path: String,
    /// A line in it.
    pub line: u32,
    /// Limits of the answer.
    #[serde(flatten)]
    pub size: Size,
}

/// Arguments of `callers` and `callees`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Calls {
    /// Such as Index.open.
    pub name: Option<String>,
    /// File.
    pub path: Option<String>,
    /// A line in it.
    pub line: Option<u32>,
    /// Limits of the answer.
    #[serde(flatten)]
    pub size: Size,
}

/// Arguments of `related`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Related {
    /// The changed definition; for a file, only its path.
    #[serde(flatten)]
    pub of: Calls,
    /// Only these reasons.
    #[serde(default)]
    #[schemars(schema_with = "reasons")]
    pub kinds: Vec<Reason>,
}

/// A list of names, as plain as validators of agents want it.
fn reasons(_: &mut SchemaGenerator) -> Schema {
    let names = Reason::ALL.map(Reason::name);
    json_schema!({ "type": "array", "items": { "type": "string", "enum": names } })
}

/// Limits of a list of results.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub struct Size {
    /// Results, 1 to 50.
    #[serde(default)]
    pub k: Option<usize>,
    /// Default 2000.
    #[serde(default = "default_tokens")]
    pub max_tokens: usize,
}

/// Arguments of `read_unit`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ReadUnit {
    /// File.
    pub path: String,
    /// A line in it.
    pub line: Option<u32>,
    /// Class.method, or its last part.
    pub name: Option<String>,
    /// Default 2000.
    #[serde(default = "default_tokens")]
    pub max_tokens: usize,
}

/// Arguments of `index_status`: none.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct IndexStatus {}

/// Kind of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "texts on variants would turn the schema's list of names into a union")]
pub enum Kind {
    Function,
    Method,
    Type,
    Module,
    Section,
}

impl From<Kind> for UnitKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Function => Self::Function,
            Kind::Method => Self::Method,
            Kind::Type => Self::Type,
            Kind::Module => Self::Module,
            Kind::Section => Self::Section,
        }
    }
}

fn default_tokens() -> usize {
    2_000
}

fn default_context_tokens() -> usize {
    4_000
}
