use std::error::Error;
use std::io;
use std::path::PathBuf;

use quarry_session::text::quoted;
use quarry_text::{printable, with_causes};

/// Why a tool has no answer. The texts are for the agent that called it, and say what to do.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The arguments do not follow the schema.
    #[error("bad arguments")]
    Arguments(#[source] serde_json::Error),
    /// A regular expression of the query does not parse.
    #[error("{}", .0.with_place())]
    Pattern(#[from] quarry_session::PatternError),
    /// The tool has no such argument.
    #[error("unknown argument {name}{}", suggestion(nearest))]
    UnknownArgument {
        /// As given.
        name: String,
        /// The arguments nearest to it.
        nearest: Vec<String>,
    },
    /// The arguments are longer than any question about code.
    #[error(
        "{n_bytes} bytes of arguments, at most {max_bytes} are accepted; describe the code in a few words"
    )]
    TooLong {
        /// Their length.
        n_bytes: usize,
        /// Their maximum length.
        max_bytes: usize,
    },
    /// A number is too small or too large.
    #[error("{name}: expected {minimum} to {maximum}, found {found}")]
    Range {
        /// The name of the argument.
        name: &'static str,
        found: String,
        /// The smallest that is accepted.
        minimum: String,
        /// The largest that is accepted.
        maximum: String,
    },
    /// `read_unit` needs one of two arguments.
    #[error("give either line or name, so that it is clear which unit is meant")]
    LineOrName,
    /// `callers` and `callees` need a name or a position.
    #[error("give either name, or path and line, so that it is clear which definition is meant")]
    NameOrPosition,
    /// Nothing is defined at a line.
    #[error("{path}:{line}: no function, method or type is indexed there; give a line in one, or a name")]
    NoDefinition {
        /// As given.
        path: String,
        /// 1-based.
        line: u32,
    },
    /// A path leads out of the tree.
    #[error("{path}: outside of the root {}; give a path below it, relative to it", root.display())]
    OutsideRoot {
        /// As given.
        path: String,
        /// The root of the tree.
        root: PathBuf,
    },
    /// Nothing that is indexed has this path.
    #[error("{path}: no such file or directory is indexed{}", suggestion(nearest))]
    UnknownPath {
        /// As given.
        path: String,
        /// The paths nearest to it.
        nearest: Vec<String>,
    },
    /// Several trees have this path.
    #[error("{path}: is in several trees; give {}", listed(trees))]
    SeveralTrees {
        /// As given.
        path: String,
        /// The path with each of the trees before it.
        trees: Vec<String>,
    },
    /// A directory was given where a file is needed.
    #[error("{path}: is a directory; give one of its files{}", examples_text(files))]
    IsDirectory {
        /// As given.
        path: String,
        /// Some of its files.
        files: Vec<String>,
    },
    /// The file is shorter.
    #[error("{path}: has no line {line}, it ends with line {n_lines}")]
    LineOutside {
        /// Relative to the root.
        path: String,
        /// The line that was asked for.
        line: u32,
        /// Its last line.
        n_lines: u32,
    },
    /// The file has no unit of this name.
    #[error("{path}: has no unit called {name}{}", suggestion(nearest))]
    UnknownName {
        /// Relative to the root.
        path: String,
        /// The name that was asked for.
        name: String,
        /// The names nearest to it.
        nearest: Vec<String>,
    },
    /// The file has nothing to show.
    #[error("{path}: is empty")]
    Empty {
        /// Relative to the root.
        path: String,
    },
    /// A file cannot be read.
    #[error("{}: cannot be read; it may have been removed or protected", path.display())]
    Read {
        /// As the system knows it.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The tree cannot be listed.
    #[error(transparent)]
    Walk(#[from] quarry_walk::WalkError),
    /// The index cannot be searched.
    #[error(transparent)]
    Index(#[from] quarry_index::Error),
    /// Nothing can be related to something.
    #[error(transparent)]
    Related(quarry_related::RelatedError),
    /// The tree cannot be opened.
    #[error(transparent)]
    Session(#[from] quarry_session::SessionError),
}

impl AsRef<dyn Error + 'static> for ToolError {
    fn as_ref(&self) -> &(dyn Error + 'static) {
        match self {
            Self::Index(error) => error,
            Self::Session(error) => error,
            error => error,
        }
    }
}

impl ToolError {
    /// The error and its causes in one line, whatever the names in it hold.
    pub fn report(&self) -> String {
        printable(&with_causes(self)).into_owned()
    }
}

/// Why the server could not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The runtime cannot be started.
    #[error("cannot start the server")]
    Start(#[from] io::Error),
    /// The client did not begin as the protocol says.
    #[error("the client did not begin with an MCP handshake on stdin")]
    Handshake(#[source] Box<rmcp::service::ServerInitializeError>),
    /// The loop that serves the client broke.
    #[error("the server stopped unexpectedly")]
    Stopped(#[from] tokio::task::JoinError),
}

fn suggestion(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        [only] => format!("; did you mean {}?", quoted(only)),
        several => format!("; nearest: {}", listed(several)),
    }
}

fn examples_text(files: &[String]) -> String {
    if files.is_empty() { String::new() } else { format!(", such as {}", listed(files)) }
}

fn listed(names: &[String]) -> String {
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}
