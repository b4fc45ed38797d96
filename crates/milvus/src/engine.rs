//! Interface that a served index requires of an engine.

use crate::EngineError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// A few small ones for each tree.
    Trees,
    /// All others.
    Records,
}

/// A text under a key. Writing a record again replaces the earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub key: String,
    /// The tree that it belongs to.
    pub tree: String,
    /// At most [`Record::MAX_BYTES`].
    pub value: String,
}

impl Record {
    /// Maximum size of a value, in bytes: that of a text field of Milvus.
    pub const MAX_BYTES: usize = 65_000;
}

/// The parts of a unit that are needed to find candidates.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitRow {
    /// Key of its file, `/` and its number there from 0.
    pub key: String,
    /// Key of its file.
    pub file: String,
    pub tree: String,
    /// Path of its file in the tree.
    pub path: String,
    /// Name of its language.
    pub language: String,
    pub kind: String,
    /// The symbol that it defines, folded; empty if it defines none.
    pub symbol: String,
    pub dense: Vec<f32>,
    /// Weights of its terms, ascending by the terms' numbers.
    pub sparse: Vec<(u32, f32)>,
}

/// Restriction of the candidate units; an empty list means all. It may accept too many, since the ranking filters
/// again, but none may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// Names of trees.
    pub trees: Vec<String>,
    /// Names of languages, with `extensions`.
    pub languages: Vec<String>,
    /// Extensions of files that pass in any language, each with its dot; only if there are `languages`.
    pub extensions: Vec<String>,
    pub kinds: Vec<String>,
    /// Prefix of paths.
    pub directory: String,
}

/// An engine that stores an index. Every method returns once its writes are visible to everybody, and reads what others
/// wrote before; it fails when the engine cannot be reached, or refuses.
pub trait Engine: Send + Sync {
    /// Makes sure that units with vectors of this dimension can be stored.
    ///
    /// # Errors
    /// When it cannot be reached, or stores vectors of another dimension.
    fn prepare(&self, dimension: usize) -> Result<(), EngineError>;

    /// Writes records, which replace others with the same keys.
    fn put(&self, space: Space, records: &[Record]) -> Result<(), EngineError>;

    /// The existing records among these keys, in any order.
    fn get(&self, space: Space, keys: &[String]) -> Result<Vec<Record>, EngineError>;

    /// All records of a space with few records.
    fn all(&self, space: Space) -> Result<Vec<Record>, EngineError>;

    /// The keys of all records of a tree.
    fn keys(&self, space: Space, tree: &str) -> Result<Vec<String>, EngineError>;

    /// Removes the records with these keys, if they exist.
    fn delete(&self, space: Space, keys: &[String]) -> Result<(), EngineError>;

    /// Writes units, which replace others with the same keys.
    fn put_units(&self, units: &[UnitRow]) -> Result<(), EngineError>;

    /// Removes the units of files, by their keys.
    fn delete_units(&self, files: &[String]) -> Result<(), EngineError>;

    /// Keys of the units whose vectors have the largest inner products with this one.
    fn nearest(&self, vector: &[f32], limit: usize, within: &Narrowing) -> Result<Vec<String>, EngineError>;

    /// Keys of the units whose weights have the largest inner products with these, which are ascending by number.
    fn with_terms(
        &self,
        terms: &[(u32, f32)],
        limit: usize,
        within: &Narrowing,
    ) -> Result<Vec<String>, EngineError>;

    /// Keys of units that define one of the given symbols.
    fn defining(
        &self,
        symbols: &[String],
        limit: usize,
        within: &Narrowing,
    ) -> Result<Vec<String>, EngineError>;
}
