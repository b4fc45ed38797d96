//! Why an index has to be built.

use std::fmt;

use crate::Changes;
use crate::storage::index_directory::{FORMAT, PROGRAM};

/// Why an index is built or updated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RebuildReason {
    /// There is no index.
    Missing,
    /// The user asked for it.
    Requested,
    /// Files were changed, added or removed.
    Files(Changes),
    /// Other files or remembered settings were requested than those of the index.
    Choice,
    /// The index covers another directory, with this path.
    Root(String),
    /// The index has another format.
    Format(u32),
    /// The index was built by another version of this program.
    Program(String),
    /// Some units have no vectors of this model yet; vectors of other models are kept.
    Model(String),
    /// The index cannot be read, for this reason.
    Broken(String),
}

impl fmt::Display for RebuildReason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "there is no index yet"),
            Self::Requested => write!(f, "a new index was asked for"),
            Self::Files(changes) => write!(f, "{changes}"),
            Self::Choice => write!(f, "other files or another model were asked for"),
            Self::Root(root) => write!(f, "the index covers another directory, {root}"),
            Self::Format(format) => write!(f, "the index has format {format}, this program writes {FORMAT}"),
            Self::Program(version) => write!(f, "the index was made by version {version}, this is {PROGRAM}"),
            Self::Model(model) => write!(f, "the index has no vectors of the model {model} yet"),
            Self::Broken(problem) => write!(f, "the index is broken: {problem}"),
        }
    }
}
