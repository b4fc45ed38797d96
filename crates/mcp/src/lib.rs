//! Search for programs: a server of the Model Context Protocol, for coding agents.
//!
//! [`Workspace`] is one or more source trees with their index, and answers a [`Call`] of one of the [`TOOLS`] with text that
//! an agent can use at once, within a budget of tokens; it knows no protocol. [`Trees`] follows what a client has open,
//! [`serve_stdio`] puts the protocol around it, and with the feature `http`, `http_service` does; [`CallLimiter`] limits
//! concurrent calls. All that a caller can do wrong is a [`ToolError`], which says what to do instead.

mod arguments;
mod call_limiter;
mod calls;
mod error;
mod message;
mod protocol;
mod reading;
mod related;
mod results;
mod tools;
mod transport;
mod tree_path;
mod trees;
mod workspace;

pub use arguments::{Context, Detail, IndexStatus, Kind, Outline, Part, ReadUnit, Search, Similar, Size};
pub use call_limiter::CallLimiter;
pub use error::{ServeError, ToolError};
pub use protocol::serve_stdio;
#[cfg(feature = "http")]
pub use protocol::{MAX_MESSAGE_BYTES, http_service, refusal_of};
pub use tools::{Call, Object, TOOLS, Tool};
pub use trees::Trees;
pub use workspace::{Progress, ReportProgress, Searched, SearchedUnit, Tokens, ToolAnswer, Workspace};
