/// Why a served index in an engine cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The address is invalid.
    #[error("{address}: {problem}; expected milvus://HOST[:PORT][/DATABASE]")]
    Address {
        /// The address as given, without secrets.
        address: String,
        problem: String,
    },
    /// The engine does not answer, or not in time.
    #[error("the engine at {address} does not respond: {reason}")]
    Unavailable {
        address: String,
        /// Why.
        reason: String,
    },
    #[error("the engine at {address} refused to {action}: {reason}")]
    Refused { address: String, action: String, reason: String },
    /// Another process writes the same tree.
    #[error(
        "another process began to upload or remove the tree {tree}; this one stops, and the other one keeps or removes \
         what it has stored"
    )]
    Conflict {
        /// Name of the tree.
        tree: String,
    },
    /// The name is taken.
    #[error(
        "the engine already has a tree {tree}, of {root}; store this one under another name with --as NAME, or remove \
         that one with --remove"
    )]
    Taken {
        /// Name of the tree.
        tree: String,
        /// Path that the other one was indexed from.
        root: String,
    },
    /// The name is not allowed.
    #[error(
        "{tree:?} cannot be the name of a tree: expected 1 to 200 bytes without control characters or quotes; name it with --as NAME"
    )]
    Name {
        /// The name.
        tree: String,
    },
    /// Trees of another model.
    #[error(
        "the tree {tree} was embedded with the model {found}, this one with {expected}; all trees of an engine must use \
         the same model: name it with --model"
    )]
    Model {
        /// Name of the tree.
        tree: String,
        /// Its model.
        found: String,
        /// The other one.
        expected: String,
    },
    /// There is no such tree.
    #[error("the engine has no tree {tree}; it has {known}")]
    NoTree {
        /// Name of the tree.
        tree: String,
        known: String,
    },
    /// The stored data differ from what was written.
    #[error(
        "the engine's record {key} cannot be read: {problem}; remove the tree with --remove and upload it again"
    )]
    Damaged { key: String, problem: String },
    /// Trees were replaced faster than they could be searched.
    #[error("trees were replaced while they were searched; try again")]
    Replaced,
    /// The index cannot be read.
    #[error(transparent)]
    Index(Box<quarry_index::Error>),
}

impl From<quarry_index::Error> for EngineError {
    fn from(error: quarry_index::Error) -> Self {
        match error {
            // From the engine, by way of the ranking.
            quarry_index::Error::Elsewhere(inner) => match inner.downcast::<Self>() {
                Ok(error) => *error,
                Err(inner) => Self::Index(Box::new(quarry_index::Error::Elsewhere(inner))),
            },
            error => Self::Index(Box::new(error)),
        }
    }
}

impl From<EngineError> for quarry_index::Error {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Index(error) => *error,
            error => Self::Elsewhere(Box::new(error)),
        }
    }
}
