//! Answers to searches for programs: the objects of `--json` and of the HTTP API.
//!
//! A [`Tree`] is an index with the paths that it answers for. [`search()`] and [`similar`] find units, and [`Found`] makes the
//! objects of them; [`callers`], [`callees`], [`file()`] and [`StatusView`] make theirs. Each is described by a JSON
//! schema with the feature `schema`.
//! With the feature `agents`, [`context`] and [`outline`] make texts within a budget of tokens.

mod calls;
#[cfg(feature = "agents")]
pub mod context;
mod facets;
mod file;
#[cfg(feature = "agents")]
pub mod outline;
mod preview;
mod results;
mod search;
mod status;
#[cfg(feature = "agents")]
pub mod text;
#[cfg(feature = "agents")]
mod tokens;
mod tree;

pub use calls::{
    CalleeView, Callees, CalleesOfDefinition, Callers, CallsQuestion, DefinitionView, ExternalView, SiteView,
    UnfinishedView, UnknownView, callees, callers,
};
pub use facets::{Counts, Facets};
pub use file::{FileView, UnitOfFile, file};
pub use results::{
    Answer, AnswerEnd, Block, Excerpt, KINDS, LineMatch, ResultView, Shown, UnitView, kind_name, roots,
};
pub use search::{
    Found, Matching, SearchQuestion, SimilarQuestion, SimilarTo, UnitsRequest, n_bytes, search, similar,
};
pub use status::{Holds, RememberedView, SkippedView, StatusView};
#[cfg(feature = "agents")]
pub use tokens::{TOKENIZER, count_tokens};
pub use tree::{Elsewhere, Need, SharedTree, Tree, TreeError};

use std::time::Duration;

/// Milliseconds, to the microsecond.
#[must_use]
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}
