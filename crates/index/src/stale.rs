//! Why an index is not what it is to be.

use std::fmt;

use crate::Changes;
use crate::folder::{FORMAT, PROGRAM};

/// Why an index is built anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stale {
    /// There is none.
    Missing,
    /// It was asked for.
    Requested,
    /// Files changed, came or went.
    Files(Changes),
    /// Other files are asked for than those that it was made of, or it is to remember something else.
    Choice,
    /// It is of another folder, which this path names.
    Root(String),
    /// It was made by a version of this program that writes this other format.
    Format(u32),
    /// It was made by this other version of this program.
    Program(String),
    /// Not all of its units have vectors of this model yet; those of other models stay.
    Model(String),
    /// It cannot be read; the reason.
    Broken(String),
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "there is no index yet"),
            Self::Requested => write!(f, "a new index was asked for"),
            Self::Files(changes) => write!(f, "{changes}"),
            Self::Choice => write!(f, "other files or another model were asked for"),
            Self::Root(root) => write!(f, "the index is of another folder, {root}"),
            Self::Format(format) => write!(f, "the index has format {format}, this program writes {FORMAT}"),
            Self::Program(version) => write!(f, "the index was made by version {version}, this is {PROGRAM}"),
            Self::Model(model) => write!(f, "the index has no vectors of the model {model} yet"),
            Self::Broken(problem) => write!(f, "the index is broken: {problem}"),
        }
    }
}
