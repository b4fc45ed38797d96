//! Kinds of reasons.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a place may have to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Kind {
    /// It tests the target.
    Test,
    /// It calls the target.
    Caller,
    /// The target calls it.
    Callee,
    /// It overrides the target, or is overridden by it.
    Override,
    /// It is a type that the target uses, or uses the target, a type.
    Type,
    /// It changed in the same commits.
    Change,
    /// It has a rare literal of the target.
    Literal,
    /// It is a near-duplicate of the target.
    Twin,
    /// It is about the same.
    Similar,
    /// Documentation that names the target.
    Doc,
    /// A commit that changed the target. Only on request.
    Commit,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Test,
        Self::Caller,
        Self::Callee,
        Self::Override,
        Self::Type,
        Self::Change,
        Self::Literal,
        Self::Twin,
        Self::Similar,
        Self::Doc,
        Self::Commit,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Caller => "caller",
            Self::Callee => "callee",
            Self::Override => "override",
            Self::Type => "type",
            Self::Change => "change",
            Self::Literal => "literal",
            Self::Twin => "twin",
            Self::Similar => "similar",
            Self::Doc => "doc",
            Self::Commit => "commit",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("expected one of {}, found {name}", names.join(", "))
        })
    }
}
