use std::error::Error;
use std::io;
use std::path::PathBuf;

use quarry_session::text::quoted;
use quarry_text::{printable, with_causes};

/// Why a tool has no answer. The texts are for the agent that called it, and say what to do.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("bad arguments")]
    Arguments(#[source] serde_json::Error),
    #[error("{}", .0.with_place())]
    Pattern(#[from] quarry_session::PatternError),
    #[error("unknown argument {name}{}", suggestion(nearest))]
    UnknownArgument { name: String, nearest: Vec<String> },
    #[error(
        "{n_bytes} bytes of arguments, at most {max_bytes} are accepted; describe the code in a few words"
    )]
    TooLong { n_bytes: usize, max_bytes: usize },
    #[error("{name}: expected {minimum} to {maximum}, found {found}")]
    Range { name: &'static str, found: String, minimum: String, maximum: String },
    #[error("give either line or name, so that it is clear which unit is meant")]
    LineOrName,
    #[error("give either name, or path and line, so that it is clear which definition is meant")]
    NameOrPosition,
    #[error("{path}:{line}: no function, method or type is indexed there; give a line in one, or a name")]
    NoDefinition {
        path: String,
        /// 1-based.
        line: u32,
    },
    #[error("{path}: outside of the root {}; give a path below it, relative to it", root.display())]
    OutsideRoot { path: String, root: PathBuf },
    #[error("{path}: no such file or directory is indexed{}", suggestion(nearest))]
    UnknownPath { path: String, nearest: Vec<String> },
    #[error("{path}: is in several trees; give {}", listed(trees))]
    SeveralTrees { path: String, trees: Vec<String> },
    #[error("{path}: is a directory; give one of its files{}", examples_text(files))]
    IsDirectory { path: String, files: Vec<String> },
    #[error("{path}: has no line {line}, it ends with line {n_lines}")]
    LineOutside { path: String, line: u32, n_lines: u32 },
    #[error("{path}: has no unit called {name}{}", suggestion(nearest))]
    UnknownName { path: String, name: String, nearest: Vec<String> },
    #[error("{path}: is empty")]
    Empty { path: String },
    #[error("{}: cannot be read; it may have been removed or protected", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Walk(#[from] quarry_walk::WalkError),
    #[error(transparent)]
    Index(#[from] quarry_index::Error),
    #[error(transparent)]
    Related(quarry_related::RelatedError),
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
    #[error("cannot start the server")]
    Start(#[from] io::Error),
    #[error("the client did not begin with an MCP handshake on stdin")]
    Handshake(#[source] Box<rmcp::service::ServerInitializeError>),
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
