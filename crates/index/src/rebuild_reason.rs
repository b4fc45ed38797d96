//! Why an index has to be built.

use std::fmt;

use quarry_text::counted;
use serde::Serialize;

use crate::version::{FORMAT, PROGRAM};

/// The differences between a tree and its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Changes {
    /// Files whose content changed.
    pub changed: usize,
    /// Files that are not in the index.
    pub new: usize,
    /// Files that were removed.
    pub removed: usize,
}

impl Changes {
    /// Total number of files.
    pub fn total(&self) -> usize {
        self.changed + self.new + self.removed
    }
}

impl fmt::Display for Changes {
    /// `2 files changed, 1 new, 1 removed`, without the counts that are 0.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let counts = [(self.changed, "changed"), (self.new, "new"), (self.removed, "removed")];
        let mut counts = counts.into_iter().filter(|(n, _)| *n > 0);
        let Some((n, what)) = counts.next() else { return write!(f, "no file changed") };
        write!(f, "{} {what}", counted(n, "file"))?;
        counts.try_for_each(|(n, what)| write!(f, ", {n} {what}"))
    }
}

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
            Self::Requested => write!(f, "a new index was requested"),
            Self::Files(changes) => write!(f, "{changes}"),
            Self::Choice => write!(f, "other files or another model were requested"),
            Self::Root(root) => write!(f, "the index covers another directory, {root}"),
            Self::Format(format) => write!(f, "the index has format {format}, this program writes {FORMAT}"),
            Self::Program(version) => write!(f, "the index was made by version {version}, this is {PROGRAM}"),
            Self::Model(model) => write!(f, "the index has no vectors of the model {model} yet"),
            Self::Broken(problem) => write!(f, "the index is broken: {problem}"),
        }
    }
}
