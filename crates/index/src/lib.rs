//! The on-disk index of a source tree: lexical and dense search, fusion, ranking rules.
//!
//! [`Index::open_or_build`] opens the index of a tree, first building or refreshing it where that is needed;
//! [`Index::search`] ranks its units for a query. The pieces of a ranking are leaves of their own that work without
//! an index: [`lexical`] (BM25F), [`vectors`] (exact int8 scan), [`fusion`] and [`rules`].

mod build;
mod changes;
mod complete;
pub mod confidence;
mod error;
mod explain;
mod filter;
mod folder;
mod found;
pub mod fusion;
pub mod intent;
pub mod lexical;
mod memory;
mod mixture;
mod open;
mod place;
mod reach;
mod records;
mod respelling;
mod roots;
pub mod rules;
mod search;
mod selection;
pub mod snippet;
mod source;
mod stale;
mod status;
mod storage;
mod table;
mod unread;
mod update;
pub mod vectors;

pub use build::embedding_text;
pub use changes::Changes;
pub use confidence::{DEFAULT_THRESHOLD, Evidence};
pub use error::{Error, expected_bytes};
pub use explain::{Combination, Explanation};
pub use filter::Filter;
pub use folder::kept::UserIndexes;
pub use found::FoundFile;
pub use open::{BuildReport, Event, Index, OpenOptions, Opened, Outdated, Update, UserFolders};
pub use place::LOCAL_FOLDER;
pub use search::{Hit, RankedUnits, Ranking, ScoreParts, SearchRequest, SearchResponse};
pub use source::UnitSource;
pub use stale::Stale;
pub use status::{IndexStatus, Status};
