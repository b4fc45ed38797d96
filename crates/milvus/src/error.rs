#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("{address}: {problem}; expected milvus://HOST[:PORT][/DATABASE]")]
    Address { address: String, problem: String },
    #[error("the engine at {address} does not respond: {reason}")]
    Unavailable { address: String, reason: String },
    #[error("the engine at {address} refused to {action}: {reason}")]
    Refused { address: String, action: String, reason: String },
    /// Another process writes the same tree.
    #[error(
        "another process began to upload or remove the tree {tree}; this one stops, and the other one keeps or removes \
         what it has stored"
    )]
    Conflict { tree: String },
    #[error(
        "the engine already has a tree {tree}, of {root}; store this one under another name with --as NAME, or remove \
         that one with --remove"
    )]
    Taken { tree: String, root: String },
    #[error(
        "{tree:?} cannot be the name of a tree: expected 1 to 200 bytes without control characters or quotes; name it with --as NAME"
    )]
    Name { tree: String },
    #[error(
        "the tree {tree} was embedded with the model {found}, this one with {expected}; all trees of an engine must use \
         the same model: name it with --model"
    )]
    Model { tree: String, found: String, expected: String },
    #[error("the engine has no tree {tree}; it has {known}")]
    NoTree { tree: String, known: String },
    #[error(
        "the engine's record {key} cannot be read: {problem}; remove the tree with --remove and upload it again"
    )]
    Damaged { key: String, problem: String },
    #[error("trees were replaced while they were searched; try again")]
    Replaced,
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
