//! Searches of source trees, from their settings to the objects of `--json` and of the HTTP API.
//!
//! A [`Session`] resolves the settings of trees, opens them, keeps them fresh, and asks them. A [`Tree`] is an index with
//! the paths that it answers for. [`search()`] and [`similar`] find units, and [`SearchResults`] makes the
//! objects of them; [`callers`], [`callees`], [`file()`] and [`StatusView`] make theirs. Each is described by a JSON
//! schema with the feature `schema`.
//! With the feature `agents`, [`context`] and [`outline`] make texts within a budget of tokens.

pub mod byte_size;
mod calls;
#[cfg(feature = "agents")]
pub mod context;
mod exact;
mod facets;
mod file;
pub mod models;
#[cfg(feature = "agents")]
pub mod outline;
mod preview;
mod query;
mod reasons;
mod results;
mod search;
mod session;
pub mod settings;
mod status;
#[cfg(feature = "agents")]
pub mod text;
#[cfg(feature = "agents")]
mod tokens;
mod tree;
pub mod tuned;

pub use calls::{
    CalleeView, Callees, CalleesOfDefinition, Callers, CallsQuestion, DefinitionView, ExternalView, SiteView,
    UnfinishedView, UnknownView, callees, callers,
};
pub use facets::{Counts, Facets};
pub use file::{FileView, UnitOfFile, file};
pub use query::{KEYS, PatternError, Query};
pub use results::{
    Answer, AnswerEnd, BehindView, Block, ChangedFile, DisplayOptions, Excerpt, KINDS, LineMatch, ResultView,
    UnitView, kind_name, roots,
};
pub use search::{
    Marks, SearchQuestion, SearchResults, SimilarQuestion, SimilarTo, UnitsRequest, n_bytes, search, similar,
};
pub use session::{MeasuredSearch, Models, Notice, Notices, OpenChoice, Session, SessionError, Snapshot};
pub use status::{Holds, RememberedView, SkippedView, StatusView};
#[cfg(feature = "agents")]
pub use tokens::{TOKENIZER, count_tokens};
pub use tree::{Elsewhere, Need, SharedTree, Tree, TreeError};

use std::time::Duration;

/// Milliseconds, to the microsecond.
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}
