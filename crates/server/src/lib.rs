//! Search for programs: a server of the Model Context Protocol, for coding agents.
//!
//! [`Workspace`] is a source tree with its index, and answers a [`Call`] of one of the [`TOOLS`] with text that an
//! agent can use at once, within a budget of tokens; it knows no protocol. [`Trees`] are several, and [`serve_stdio`] puts the protocol around
//! it, and with the feature `http`, `http_service` does; [`Turns`] limits how many calls are answered at once. All that a caller can do wrong is a [`ToolError`], which says what to do instead.

mod arguments;
mod calls;
mod error;
mod message;
mod protocol;
mod reading;
mod results;
mod tools;
mod transport;
mod tree_path;
mod trees;
mod turns;
mod workspace;

pub use arguments::{Context, Detail, IndexStatus, Kind, Outline, Part, ReadUnit, Search, Similar, Size};
pub use error::{ServeError, ToolError};
pub use protocol::serve_stdio;
#[cfg(feature = "http")]
pub use protocol::{MAX_MESSAGE_BYTES, http_service, refusal_of};
pub use tools::{Call, Object, TOOLS, Tool};
pub use trees::Trees;
pub use turns::Turns;
pub use workspace::{Progress, ReportProgress, Searched, SearchedUnit, Tokens, ToolAnswer, Workspace};
