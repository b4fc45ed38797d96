//! Finds what else must change with a definition: its tests, callers and callees, what changes with it in the history,
//! places with the same rare literals, near-duplicates, and documentation that names it.
//!
//! A [`RelatedTree`] has the [`Relations`] and the history of an indexed tree, and answers a [`Question`]: it computes the
//! [`Features`] of all places in relation to a target, gives each a probability, and finds the reasons of the first ones.

mod answer;
mod background;
mod changes;
mod commits;
mod diff;
mod features;
mod kept;
mod kind;
mod model;
mod places;
mod relations;
mod signals;
mod tree;

pub use answer::{More, Question, Related, RelatedError, Subject};
pub use background::Background;
pub use changes::{Changes, LoggedRoot};
pub use commits::{CommitResult, Commits, CommitsError, FileHistory};
pub use features::{FEATURES, Features, PlaceFeatures, Sources};
pub use kept::KeptRelations;
pub use kind::Kind;
pub use model::{Class, Model, N_FEATURES, Regression, Scorer};
pub use places::{CommitView, Line, Place, Reason};
pub use relations::Relations;
pub use tree::{DEFAULT_COMMITS, DIRECTORY, Event, HistoryView, OpenOptions, RelatedTree, history_status};
